"""One TOML file -> dataclasses: a key of the file is a field, its type is the field's type."""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from gateway.broker.limits import LimitRangeError

S = TypeVar("S")

IS_THE_FILE: Mapping[str, Any] = types.MappingProxyType({"is": "the file that was read"})
"""Metadata of a field that no key sets: the path of the file."""


class ConfigError(ValueError):
    """The configuration is wrong: ``str(error)`` is one line that names the field.

    Args:
        where: the file and field, as ``gateway.toml: tree.hello_s``.
        why: what is wrong with it.

    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why


def load(path: Path, settings: type[S]) -> S:
    """Read a configuration file into a dataclass whose fields are sections.

    Raises:
        ConfigError: the file can't be read or is no TOML, a key is unknown, missing or of a
            wrong type, a value is out of range, or a file that it names does not exist.

    """
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(str(path), error.strerror or "can't be read") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), f"not TOML: {error}") from error
    try:
        return _build(settings, document, "", path)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.where}", error.why) from error


def _build(cls: type[S], table: Mapping[str, Any], prefix: str, file: Path | None = None) -> S:
    hints = typing.get_type_hints(cls)
    all_fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]  # S is a dataclass
    fields = {name: f for name, f in all_fields.items() if f.metadata != IS_THE_FILE}
    for key in table:
        if key not in fields:
            raise ConfigError(f"{prefix}{key}", "unknown key")
    values: dict[str, Any] = dict.fromkeys(all_fields.keys() - fields.keys(), file)
    for name, spec in fields.items():
        where = f"{prefix}{name}"
        if name in table:
            values[name] = _value(hints[name], table[name], where)
        elif spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING:
            raise ConfigError(where, "missing")
    try:
        return cls(**values)
    except (ConfigError, LimitRangeError) as error:
        raise ConfigError(f"{prefix}{error.where}", error.why) from error


def _value(hint: Any, value: Any, where: str) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict):
            raise ConfigError(where, "is not a table")
        return _build(hint, value, f"{where}.")
    origin = typing.get_origin(hint)
    if origin is list:
        if not isinstance(value, list):
            raise ConfigError(where, f"{value!r} is not an array")
        (item,) = typing.get_args(hint)
        return [_value(item, one, f"{where}[{i}]") for i, one in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(where, f"{value!r} is not a table")
        return value
    if hint is Path:
        return _path(value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or isinstance(value, bool) is not (hint is bool):
        raise ConfigError(where, f"{value!r} is not of type {hint.__name__}")
    return value


def _path(value: Any, where: str) -> Path:
    if not isinstance(value, str) or not value:
        raise ConfigError(where, f"{value!r} is not a path")
    path = Path(value)
    if where.endswith("_file") and not path.is_file():
        raise ConfigError(where, f"{value}: no such file")
    return path
