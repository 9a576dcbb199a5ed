"""Keys of a configuration that the page changes. Pure.

A page must never become a way to run code or to read files. So it changes values alone: numbers,
words, switches, addresses, lists of texts. What names a file, a folder or a class, what is a table
of its own, and what may hold a secret, is shown and changed on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.process.configuration import keys as config_keys
from gateway.process.configuration.keys import ConfigKey
from gateway.process.configuration.shown import HIDDEN, ShownKey
from gateway.process.page.support_bundle import HIDDEN as HIDDEN_IN_BUNDLES
from gateway.process.page.support_bundle import without_secrets

OF_THE_MACHINE: Final = "it names files or what runs: change it on the machine"
TABLE: Final = "it is a table of its own: change it in the file"
SENSORS: Final = "the page Sensors and `hedgerow sensors` change it"
IDENTITY: Final = "another id is another gateway: `hedgerow init` makes one"
_SECRET: Final = re.compile(r"(password|passphrase|secret|token|psk|credential)", re.I)
_MAY_BE_HIDDEN: Final = "it may hold a secret: change it on the machine"
_VALUES: Final = (str, int, float, bool, list[str])


def why_not(key: ConfigKey) -> str:
    """Return why the page does not change a key; empty if it does."""
    if key.path == "sensors":
        return SENSORS
    if key.path == "gateway.id":
        return IDENTITY
    if key.kind_in_words == "path" or key.path == "mqtt.plugins":
        return OF_THE_MACHINE
    if key.kind not in _VALUES:
        return TABLE
    return _MAY_BE_HIDDEN if key.kind is str and _SECRET.search(key.name) else ""


def by_path() -> Mapping[str, ConfigKey]:
    """Return all keys by their paths."""
    return {key.path: key for key in config_keys.all_keys()}


def told(rows: Iterator[ShownKey]) -> Iterator[dict[str, Any]]:
    """Return keys as the page tells them, without secrets.

    Args:
        rows: of the configuration.

    """
    for row in rows:
        why = why_not(row.key)
        yield {**row.as_json(), "value": _public(row.value), "why_not": why, "may_change": not why}


def _public(value: Any) -> Any:
    found = without_secrets(value)
    return HIDDEN if found == HIDDEN_IN_BUNDLES else found
