"""A configuration as an operator is shown it: each key, its value, and where that comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.base import systemd_credentials
from gateway.base.toml.toml_lines import KeyLines
from gateway.process.configuration import keys as config_keys
from gateway.process.configuration.keys import ConfigKey
from light_dataclasses import dataclass

FILE: Final = "file"
DEFAULT: Final = "default"
ENVIRONMENT: Final = "environment"
HIDDEN: Final = "(not shown)"
_SECRET_ENDINGS: Final = ("password", "secret", "token", "passphrase", "psk", "api_key")


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key with its value.

    Attributes:
        key: what it is.
        value: as the file has it, or else its default; None where it has none.
        source: ``file``, ``default``, or ``environment`` for a file that systemd hands over.
        line: of the file, from 1; 0 if the value does not come from there.

    """

    key: ConfigKey
    value: Any
    source: str
    line: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return all that there is to say of it."""
        key = self.key
        bounds = None if key.bounds is None else list(key.bounds)
        return {
            "key": key.path,
            "value": self.value,
            "source": self.source,
            "line": self.line or None,
            "kind": key.kind_in_words,
            "default": None if key.is_needed else _public(key.default),
            "is_needed": key.is_needed,
            "range": bounds,
            "choices": None if key.choices is None else list(key.choices),
            "applied_by": "reload" if key.is_reloaded else "restart",
            "text": config_keys.texts().get(key.path, ""),
        }


def shown(text: str, document: Mapping[str, Any]) -> Iterator[ShownKey]:
    """Show all keys of a configuration.

    Args:
        text: of the file.
        document: what the parser makes of it.

    """
    lines = KeyLines(text)
    for key in config_keys.all_keys():
        table: Any = document
        for part in filter(None, key.table.split(".")):
            table = table.get(part, {}) if isinstance(table, dict) else {}
        if isinstance(table, dict) and key.name in table:
            value = table[key.name]
            held = _held(key, value)
            source = FILE if held is None else ENVIRONMENT
            line = lines.first(f"{key.path}[0]" if key.name == "sensors" else key.path)
            yield ShownKey(key, _public(held or value), source, line)
        else:
            yield ShownKey(key, None if key.is_needed else _public(key.default), DEFAULT)


def _held(key: ConfigKey, value: Any) -> str | None:
    if key.kind is not Path or not key.name.endswith("_file") or not isinstance(value, str):
        return None
    found = systemd_credentials.held(Path(value).name)
    return None if found is None else str(found)


def _public(value: Any) -> Any:
    """Return a value without what tables of plug-ins and sensors have under names of secrets."""
    if isinstance(value, dict):
        return {
            str(name): HIDDEN if str(name).lower().endswith(_SECRET_ENDINGS) else _public(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_public(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
