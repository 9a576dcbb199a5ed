"""Every key that a gateway's configuration may have: its type, default, range, and what it is for.

All but the last is what the sections' dataclasses say. What a key is for stands behind it in
``reference.toml``, which is also the block of all keys in docs/configuration.md.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
import typing
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from gateway.base.toml import checks
from gateway.base.toml.toml_file import IS_THE_FILE
from gateway.broker import limits
from gateway.process.configuration.change import RELOADED
from gateway.process.configuration.config import GatewaySettings
from light_dataclasses import dataclass

REFERENCE: Final = "reference.toml"
_TABLE = re.compile(r"\[([a-z_.]+)\]")
_KEY = re.compile(r"(?:# )?([a-z_]+) += (?:\"[^\"]*\"|[^\"#])*(?:# *(.*))?$")
_KINDS: Final[Mapping[Any, str]] = {
    Path: "path",
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key of the configuration.

    Attributes:
        table: its table, as ``coap.limits``; empty for a list of tables.
        name: its name there.
        hint: the type of its field.
        default: of its field; `dataclasses.MISSING` where it has none.
        bounds: the least and the most that it may be.
        choices: the words that it may be.
        is_reloaded: a gateway that runs takes it over at SIGHUP; else it takes a restart.

    """

    table: str
    name: str
    hint: Any
    default: Any
    bounds: tuple[float, float] | None
    choices: tuple[str, ...] | None
    is_reloaded: bool

    @property
    def path(self) -> str:
        """``tree.hello_s``, or ``sensors``."""
        return f"{self.table}.{self.name}" if self.table else self.name

    @property
    def is_optional(self) -> bool:
        """Return whether the key may be left out, so that there is nothing in its place."""
        return isinstance(self.hint, types.UnionType)

    @property
    def is_needed(self) -> bool:
        """Return whether a file has to have the key."""
        return self.default is dataclasses.MISSING

    @property
    def kind(self) -> Any:
        """The type without None."""
        if not self.is_optional:
            return self.hint
        return next(one for one in typing.get_args(self.hint) if one is not type(None))

    @property
    def is_port(self) -> bool:
        """Return whether it is a port, or "off" (see gateway/base/toml/toml_file.py)."""
        return self.is_optional and self.kind is int

    @property
    def kind_in_words(self) -> str:
        """The type as an operator reads it: ``text``, ``list``, ``port``, ``table``."""
        if self.is_port:
            return "port"
        if typing.get_origin(self.kind) is not None:
            return {"list": "list", "dict": "table"}[typing.get_origin(self.kind).__name__]
        return _KINDS.get(self.kind, "table")


def all_keys() -> list[ConfigKey]:
    """Return all keys of a gateway's configuration, in its order."""
    return list(_known())


@functools.cache
def _known() -> tuple[ConfigKey, ...]:
    return tuple(_keys(GatewaySettings, ""))


def _keys(cls: type[Any], table: str) -> Iterator[ConfigKey]:
    hints = typing.get_type_hints(cls)
    for spec in dataclasses.fields(cls):
        hint = hints[spec.name]
        if spec.metadata == IS_THE_FILE:
            continue
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            yield from _keys(hint, f"{table}.{spec.name}".removeprefix("."))
            continue
        default = spec.default
        if spec.default_factory is not dataclasses.MISSING:
            default = spec.default_factory()
        bounds = spec.metadata.get(checks.RANGE)
        if cls is limits.Limits:
            bounds = limits.RANGES.get(spec.name)
        choices = spec.metadata.get(checks.CHOICES)
        is_reloaded = spec.name in RELOADED.get(table, ()) or (table, spec.name) == ("", "sensors")
        yield ConfigKey(table, spec.name, hint, default, bounds, choices, is_reloaded)


def reference() -> str:
    """Return the text of ``reference.toml``."""
    return resources.files(__package__).joinpath(REFERENCE).read_text()


@functools.cache
def texts() -> Mapping[str, str]:
    """Return what each key is for, by its path."""
    return comments(reference())


def comments(text: str) -> dict[str, str]:
    """Return what stands behind each key of a document as the reference is, by its path.

    Args:
        text: the document; keys that are commented out count.

    """
    found, table = dict[str, str](), ""
    for line in text.splitlines():
        if section := _TABLE.match(line):
            table = section[1]
        elif key := _KEY.match(line):
            found[f"{table}.{key[1]}"] = (key[2] or "").strip().removeprefix("required: ")
        elif line.startswith("[[sensors]]"):
            break
    found["sensors"] = "sensors that it reads itself (docs/sensors.md)"
    return found
