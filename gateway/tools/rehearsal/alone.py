"""The configuration of a backup, changed so that its gateway starts alone in other folders; pure.

What is left out, or replaced:

- where it listens: free ports of loopback addresses, without TLS. A restore leaves the certificates
  of the Pi, so that nothing here depends on those of the backup;
- whom it dials, and who would hear of it: neighbours, discovery, the enrolment service;
- what would be run: sensors, classes of sensors, plugins;
- keys that are encrypted for the machine of the backup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from light_dataclasses import dataclass

LOOPBACK: Final = "127.0.0.1"
KEY: Final = "key_file"
_LEFT_OUT: Final[Mapping[str, Collection[str]]] = {
    "gateway": ("address", "sensors_dir"),
    "tree": ("discovery_interface", "discovery_interfaces", "discovery_group", "discovery_port"),
    "coap": (
        "dtls_host",
        "certificate_file",
        KEY,
        "client_ca_file",
        "client_crl_file",
        "multicast",
    ),
}
_REPLACED: Final[Mapping[str, Mapping[str, Any]]] = {
    "gateway": {"status_interval_s": 0.0},
    "tree": {
        "tls": "off",
        "neighbours": [],
        "discovery": False,
        "dns_sd": False,
        "dial_back": False,
        "substitute_after_s": 0.0,
    },
    "coap": {"host": LOOPBACK, "port": 0, "dtls_port": 0},
}
_WHOLE: Final[Mapping[str, Mapping[str, Any]]] = {
    "mqtt": {"host": LOOPBACK, "port": 0, "sys_interval_s": 0.0},
    "console": {"enabled": False},
    "alerts": {"enabled": False},
}
_DROPPED: Final = ("keys", "home_assistant", "sensors")
_KEPT_KEYS: Final = ("psk_file", "oscore_file")


@dataclass(frozen=True, slots=True)
class RestoredFolders:
    """The folders of a backup: where they were, and where they are now.

    Attributes:
        config: of the configuration, on the Pi.
        state: of the state, on the Pi.
        config_here: of the configuration, unpacked.
        state_here: of the state, unpacked.

    """

    config: PurePosixPath
    state: PurePosixPath
    config_here: Path
    state_here: Path

    def here(self, path: str) -> str:
        """Return where a path of the configuration leads now."""
        for folder, here in ((self.config, self.config_here), (self.state, self.state_here)):
            if PurePosixPath(path).is_relative_to(folder):
                return str(here / PurePosixPath(path).relative_to(folder))
        return path


def alone(
    document: Mapping[str, Any], folders: RestoredFolders, encrypted: Collection[str]
) -> dict[str, Any]:
    """Return the configuration with which the gateway starts here and meets nobody.

    Args:
        document: the backup's, as its TOML has it.
        folders: where the backup's folders are.
        encrypted: names of its keys that this machine can't open.

    """
    made = {name: _moved(table, folders) for name, table in document.items()}
    for name in _DROPPED:
        made.pop(name, None)
    for name, keys in _LEFT_OUT.items():
        made[name] = _without(made.get(name, {}), keys)
    for name, values in _REPLACED.items():
        made[name] = made[name] | values if isinstance(made[name], dict) else made[name]
    made |= {name: dict(values) for name, values in _WHOLE.items()}
    if isinstance(coap := made["coap"], dict):
        unread = [key for key in _KEPT_KEYS if _is_one_of(coap.get(key), encrypted)]
        made["coap"] = _without(coap, unread)
    if isinstance(made["gateway"], dict):
        made["gateway"]["state_dir"] = str(folders.state_here)
    return made


def strays(settings: Any, folders: RestoredFolders) -> list[str]:
    """Return the fields of settings that name a file which no backup has, each with the file."""
    inside = folders.config_here.resolve(), folders.state_here.resolve()
    return [
        f"{where}: {path}"
        for where, path in _paths(settings, "")
        if not any(path.resolve().is_relative_to(folder) for folder in inside)
    ]


def _moved(value: Any, folders: RestoredFolders) -> Any:
    if isinstance(value, str):
        return folders.here(value)
    if isinstance(value, dict):
        return {key: _moved(one, folders) for key, one in value.items()}
    return [_moved(one, folders) for one in value] if isinstance(value, list) else value


def _without(table: Any, keys: Collection[str]) -> Any:
    if not isinstance(table, dict):
        return table  # whoever reads it says what is wrong
    return {key: value for key, value in table.items() if key not in keys}


def _is_one_of(path: object, names: Collection[str]) -> bool:
    return isinstance(path, str) and PurePosixPath(path).name in names


def _paths(section: Any, prefix: str) -> Iterator[tuple[str, Path]]:
    for spec in dataclasses.fields(section):
        value = getattr(section, spec.name)
        if isinstance(value, Path):
            yield f"{prefix}{spec.name}", value
        elif dataclasses.is_dataclass(value):
            yield from _paths(value, f"{prefix}{spec.name}.")
