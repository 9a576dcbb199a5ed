"""Variables of the Ansible roles, made of what they stand for.

    python deploy/role_variables.py            write all that is made
    python deploy/role_variables.py --check    exit 1 where a file is another one

Each key of a gateway's configuration (gateway/process/configuration/config.py) is a variable of the
role `gateway`: its type, choices, range and default are those of the key, and its description is
the comment that stands beside it in gateway/process/configuration/reference.toml. `OWN` says where
the role knows better. The table of all roles' variables is made of their argument specifications.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gateway.process.configuration import keys as config_keys  # noqa: E402
from gateway.process.configuration.keys import ConfigKey  # noqa: E402  # run as a program, its folder is deploy

ROLES = ROOT / "deploy/ansible/roles"
ROLE = ROLES / "gateway"
DEFAULTS = ROLE / "defaults/main/configuration.yml"
KEYS = ROLE / "vars/main/configuration.yml"
SPECIFICATIONS = ROLE / "meta/argument_specs.yml"
TABLE = ROOT / "deploy/ansible/VARIABLES.md"
MARK = "      # Made by deploy/role_variables.py from here on: the keys of the configuration.\n"
MADE = "---\n# Made by deploy/role_variables.py of gateway/process/configuration/config.py.\n"

_TLS = "{{{{ _gateway_config_dir ~ '/tls/{}' if {} else '' }}}}"
_FILES = {
    "certificate_file": "gateway.pem",
    "key_file": "gateway.key.pem",
    "client_ca_file": "ca.pem",
    "client_crl_file": "revoked.pem",
}


def _certificates(section: str, when: str) -> dict[str, Any]:
    return {f"{section}.{key}": _TLS.format(name, when) for key, name in _FILES.items()}


REQUIRED = ("gateway.id", "gateway.domain", "gateway.group")
"""Keys that every gateway of an inventory is given, though the configuration may leave them out."""
OWN: Mapping[str, Any] = {
    "gateway.state_dir": "/var/lib/hedgerow",
    # Beside the configuration the file that is checked before it takes its place would find none.
    "gateway.sensors_dir": "{{ _gateway_config_dir }}/sensors",
    "mqtt.tls_port": "{{ 8883 if _gateway_has_tls else '' }}",
    "mqtt.client_certificate": "{{ 'optional' if _gateway_has_tls else 'none' }}",
    **_certificates("mqtt", "_gateway_has_tls"),
    "coap.psk_file": "{{ _gateway_config_dir ~ '/psk' if gateway_psks else '' }}",
    **_certificates("coap", "_gateway_has_tls and gateway_coap_certificates | bool"),
    "coap.oscore_file": "{{ _gateway_config_dir ~ '/oscore.toml' if gateway_oscore else '' }}",
    # Nobody is let in but whom the policy names.
    "coap.public": [],
    "access.default_roles": [],
    "access.password_file": "{{ _gateway_config_dir }}/passwords",
    "access.policy_file": (
        "{{ '' if gateway_access_anonymous | bool else _gateway_config_dir ~ '/access.toml' }}"
    ),
    "tree.key_file": "{{ _gateway_config_dir }}/tree.key",
    "keys.service": "",
    **_certificates("console", "_gateway_has_tls and _gateway_console_is_seen"),
    "sensors": [{"type": "host", "interval_s": 10.0}],
}
"""Defaults of the role that are not those of the configuration."""


class RoleKey(ConfigKey):
    """A key of the configuration, as a variable of the role."""

    @property
    def variable(self) -> str:
        """``gateway_tree_hello_s`` of ``tree.hello_s``; ``gateway_id`` of ``gateway.id``."""
        return f"gateway_{self.path.removeprefix('gateway.').replace('.', '_')}"

    @property
    def is_required(self) -> bool:
        """Return whether an inventory has to have it."""
        return self.path in REQUIRED

    @property
    def role_default(self) -> Any:
        """Return the value that the role sets unless an inventory says otherwise."""
        default = OWN.get(self.path, self.default)
        if default is dataclasses.MISSING:
            raise LookupError(f"{self.path} has no default: give it one in OWN, or REQUIRED")
        return default

    @property
    def type(self) -> str:
        """Return the type as an argument specification names it."""
        if self.is_port:
            return "raw"
        if typing.get_origin(self.kind) is not None:
            return typing.get_origin(self.kind).__name__
        if dataclasses.is_dataclass(self.kind):  # a section that may be left out as a whole
            return "dict"
        return {Path: "path", str: "str", int: "int", float: "float", bool: "bool"}[self.kind]

    def specification(self, told: str) -> dict[str, Any]:
        """Return the option of the argument specification."""
        option: dict[str, Any] = {"description": f"`{self.path}`{': ' if told else ''}{told}"}
        option["type"] = self.type
        if self.type == "list":
            (item,) = typing.get_args(self.kind)
            option["elements"] = "str" if item is str else "dict"
        if self.choices:
            option["choices"] = list(self.choices)
        if self.is_required:
            option["required"] = True
        elif self.role_default is not None:
            option["default"] = self.role_default
        return option

    def row(self) -> dict[str, Any]:
        """Return the row of this key that the role's tasks and templates read."""
        row: dict[str, Any] = {"key": self.name, "variable": self.variable}
        row["type"] = "port" if self.is_port else self.type
        if self.default is not dataclasses.MISSING:
            row["default"] = self.default
        if self.bounds:
            row["least"], row["most"] = self.bounds
        return row


def keys() -> list[RoleKey]:
    """Return all keys of a gateway's configuration, in its order."""
    names = [spec.name for spec in dataclasses.fields(ConfigKey)]
    return [
        RoleKey(**{name: getattr(key, name) for name in names}) for key in config_keys.all_keys()
    ]


def _line(name: str, value: Any) -> str:
    """Return a key and its value as YAML; what is in the value stands on its line."""
    flow = isinstance(value, list | dict)
    text: str = yaml.dump(
        value if flow else {name: value}, width=110, allow_unicode=True, default_flow_style=flow
    )
    return f"{name}: {text}" if flow else text


def _defaults() -> str:
    values = {key.variable: key.role_default for key in keys() if not key.is_required}
    return MADE + "".join(_line(name, value) for name, value in values.items())


def _rows() -> str:
    tables: dict[str, list[dict[str, Any]]] = {}
    for key in keys():
        if key.table:
            tables.setdefault(key.table, []).append(key.row())
    rows = [{"table": table, "keys": rows} for table, rows in tables.items()]
    lines = ["_gateway_configuration:\n"]
    for one in rows:
        lines.append(f"  - table: {one['table']}\n    keys:\n")
        for row in one["keys"]:
            item = yaml.dump(row, sort_keys=False, width=1000, default_flow_style=True).strip()
            lines.append(f"      - {item}\n")
    return MADE + "".join(lines)


def _specifications() -> str:
    kept, mark, _ = SPECIFICATIONS.read_text().partition(MARK)
    if not mark:
        raise LookupError(f"{SPECIFICATIONS}: {MARK.strip()} is missing")
    told = config_keys.texts()
    options = {key.variable: key.specification(told[key.path]) for key in keys()}
    lines = list[str]()
    for name, option in options.items():
        lines.append(f"{name}:")
        for field, value in option.items():
            lines += (f"  {line}" for line in _line(field, value).splitlines())
    return kept + MARK + "".join(f"      {line}\n" for line in lines)


def _table() -> str:
    lines = [
        "# Variables of the roles\n",
        "\nMade of the roles' argument specifications by `deploy/role_variables.py`. ",
        "What is wrong is refused before\nanything changes. ",
        "A text in `{{ }}` is worked out from other variables.\n",
    ]
    for file in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        main = yaml.safe_load(file.read_text())["argument_specs"]["main"]
        lines.append(f"\n## {file.parents[1].name}\n\n{main['short_description']}.\n\n")
        lines.append("| variable | type | default | what |\n|---|---|---|---|\n")
        for name, option in main["options"].items():
            lines.append(
                f"| `{name}` | {_type_cell(option)} | {_default_cell(option)} | {_what(option)} |\n"
            )
    return "".join(lines)


def _type_cell(option: Mapping[str, Any]) -> str:
    if choices := option.get("choices"):
        return ", ".join(f"`{one}`" for one in choices)
    return {"raw": 'port or "off"'}.get(option["type"], str(option["type"]))


def _default_cell(option: Mapping[str, Any]) -> str:
    if option.get("required"):
        return "**required**"
    if "default" not in option:
        return ""
    text = yaml.safe_dump(option["default"], default_flow_style=True, width=1000)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`".replace("|", "\\|")


def _what(option: Mapping[str, Any]) -> str:
    told = option["description"]
    text = " ".join(told) if isinstance(told, list) else str(told)
    text = re.sub(r"[VOC]\(([^)]*)\)", r"`\1`", " ".join(text.split()))
    return text.replace("|", "\\|")


def made() -> dict[Path, str]:
    """Return each file that is made, and what it holds. The table is made of the others."""
    return {DEFAULTS: _defaults(), KEYS: _rows(), SPECIFICATIONS: _specifications()}


def stale() -> list[Path]:
    """Return those that hold something else."""
    files = {**made(), TABLE: _table()}
    return [path for path, text in files.items() if not path.exists() or path.read_text() != text]


def main() -> int:
    """Write or check; returns the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file differs")
    if parser.parse_args().check:
        found = stale()
        sys.stdout.writelines(f"{path.relative_to(ROOT)}: not as made\n" for path in found)
        return 1 if found else 0
    for path, text in made().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    TABLE.write_text(_table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
