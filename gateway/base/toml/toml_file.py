"""One TOML file -> dataclasses: a key of the file is a field, its type is the field's type.

Reading goes on behind a fault, so that all faults of a file are found at once: a value that is
wrong is replaced by one that no check minds.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from dtls.byte_order_mark import why_marked
from gateway.base import systemd_credentials
from gateway.base.near_words import near
from gateway.base.path_kind import FILE, kind_of, why_no_file
from light_dataclasses import dataclass

OFF = "off"
"""In place of a port: no listener."""
FILES = "files"
"""In a field's metadata: keys of its tables that name a file, by how its name ends."""
IS_THE_FILE: Mapping[str, Any] = types.MappingProxyType({"is": "the file that was read"})
"""Metadata of a field that no key sets: the path of the file."""
ONE_OR_MORE: Mapping[str, Any] = types.MappingProxyType({"is": "a list, or its only item"})
"""Metadata of a field that is a list; its only item may stand for it."""
MOST_LISTED = 12
"""Keys that are told where an unknown one stands; of more, only one that is alike."""

_ALLOWED: Mapping[type, str] = {
    str: "a text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path in quotes",
}
_STAND_INS: Mapping[Any, Any] = {
    str: "x",
    int: 1,
    float: 1.0,
    bool: False,
    Path: Path("x"),
    list[str]: ["x"],
}

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        where: the field, as ``tree.hello_s`` or ``sensors[1].speed``.
        why: what is wrong with it, and what is allowed.
        cause: the error that it was found by, as of a file that may not be read.

    """

    where: str
    why: str
    cause: BaseException | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """The first key of ``where``."""
        return self.where.partition(".")[0].partition("[")[0]


class ConfigError(ValueError):
    """The configuration is wrong: ``str(error)`` is one line that names the field.

    Args:
        where: the file and field, as ``gateway.toml: tree.hello_s``.
        why: what is wrong with it.
        more: what else is wrong.

    """

    def __init__(self, where: str, why: str, *more: Fault) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why
        self.more = more

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that is wrong."""
        return (Fault(self.where, self.why, self.__cause__), *self.more)


class LimitRangeError(ValueError):
    """A limit is out of range; ``where`` is its field.

    Args:
        where: the field.
        value: what it was to be.
        least: what it may be at least.
        most: and at most.

    """

    def __init__(self, where: str, value: float, least: float, most: float) -> None:
        self.where = where
        self.why = f"{value} is not within {least:g} and {most:.0f}"
        super().__init__(f"{where}: {self.why}")


def hold(faults: Iterable[Fault]) -> None:
    """Raise all faults as one error, if there are any.

    Raises:
        ConfigError: it holds them all.

    """
    for first in (found := iter(faults)):
        raise ConfigError(first.where, first.why, *found) from first.cause


@dataclass(frozen=True, slots=True)
class ConfigReading(Generic[S]):
    """The result of reading a document.

    Attributes:
        settings: the whole; None if anything in it is wrong.
        sections: its parts by name, with stand-ins for values that are wrong; None for a part
            that can't be made even so.
        faults: what is wrong, in the order of the settings.

    """

    settings: S | None
    sections: Mapping[str, Any]
    faults: tuple[Fault, ...]


def load(path: Path, settings: type[S]) -> S:
    """Read a configuration file into a dataclass whose fields are sections.

    Paths in it that are relative start at its folder. A file of whose name systemd hands this
    service a credential is read from there (systemd.exec(5), LoadCredential=).

    Raises:
        ConfigError: the file can't be read or is no TOML, a key is unknown, missing or of a
            wrong type, a value is out of range, or a file that it names does not exist.

    """
    text = _text(path)
    try:
        document = tomllib.loads(text)
    # Beside its own errors the parser has those of numbers and tables that are too long for Python.
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), f"not TOML: {error}") from error
    reading = read(document, path, settings)
    if reading.settings is None:
        first, *more = reading.faults
        raise ConfigError(f"{path}: {first.where}", first.why, *more) from first.cause
    return reading.settings


def read(document: Mapping[str, Any], file: Path, settings: type[S]) -> ConfigReading[S]:
    """Read a TOML document into a dataclass whose fields are sections.

    Args:
        document: as the parser gives it.
        file: where it is from; relative paths in it start at its folder.
        settings: the dataclass.

    """
    reader = _Reader(file, settings)
    sections, wrong = reader.values(settings, document, "")
    made = None if None in sections.values() else reader.make(settings, sections, wrong, "")
    faults = tuple(reader.faults)
    return ConfigReading(None if faults else made, sections, faults)


def byte_fault(data: bytes, error: UnicodeDecodeError) -> str:
    """Return which byte of a line is not UTF-8.

    Args:
        data: what was decoded.
        error: what came of it.

    """
    column = error.start - data.rfind(b"\n", 0, error.start)
    return f"byte 0x{data[error.start]:02X} (number {column} of the line) is not UTF-8"


def _text(path: Path) -> str:
    try:
        if (kind := kind_of(path)) not in {None, FILE}:
            raise ConfigError(str(path), f"{kind}, not a file")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(str(path), error.strerror or "can't be read") from error
    if why := why_marked(data):
        raise ConfigError(f"{path}:1", why)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}", byte_fault(data, error)) from error


class _Reader:
    """Makes dataclasses of tables, and goes on behind what is wrong.

    Args:
        file: what is read; relative paths start at its folder.
        settings: the dataclass of the whole file.

    Attributes:
        faults: what is wrong, so far.

    """

    def __init__(self, file: Path, settings: type[Any]) -> None:
        self.faults: list[Fault] = []
        self._file = file
        self._folder = file.absolute().parent
        self._homes = dict(_homes(settings))

    def values(
        self, cls: type[Any], table: Mapping[str, Any], prefix: str
    ) -> tuple[dict[str, Any], set[str]]:
        """Give a dataclass's fields, and the names of those that are stand-ins."""
        hints = typing.get_type_hints(cls)
        all_specs = {spec.name: spec for spec in dataclasses.fields(cls)}
        specs = {name: spec for name, spec in all_specs.items() if spec.metadata != IS_THE_FILE}
        table = dict(table)
        for key in [key for key in table if key not in specs]:
            alike = self._alike(key, specs)
            self.faults.append(Fault(f"{prefix}{key}", self._unknown(key, alike, list(specs))))
            if alike is not None:  # go on as if it were spelled right
                table.setdefault(alike, table[key])
        values: dict[str, Any] = dict.fromkeys(all_specs.keys() - specs.keys(), self._file)
        wrong: set[str] = set()
        for name, spec in specs.items():
            hint, where = _required(hints[name]), f"{prefix}{name}"
            is_optional = hint is not hints[name]
            try:
                if name in table:
                    is_port = is_optional and hint is int
                    read = self._port if is_port else self._value
                    given = table[name]
                    if spec.metadata == ONE_OR_MORE and isinstance(given, str):
                        given = [given]
                    values[name] = read(hint, given, where)
                    self._find_files(values[name], spec)
                elif _is_needed(spec) and dataclasses.is_dataclass(hint):
                    values[name] = self._value(hint, {}, where)
                elif _is_needed(spec):
                    raise ConfigError(where, f"missing{_which(hint)}")
                else:
                    values[name] = _default(spec)
            except ConfigError as error:
                self.faults += error.faults
                wrong.add(name)
                values[name] = _stand_in(spec, hint)
        return values, wrong

    def make(self, cls: type[S], values: dict[str, Any], wrong: set[str], prefix: str) -> S | None:
        """Make a dataclass of its fields; with stand-ins where they are wrong, if that can be.

        A first round tells all that the dataclass finds. In later rounds, with stand-ins, only
        limits tell more: they are checked one by one and know nothing of each other.
        """
        is_first = True
        while True:
            try:
                return cls(**values)
            except ConfigError as error:
                fresh = [fault for fault in error.faults if fault.key not in wrong]
                told = fresh if is_first else []
            except LimitRangeError as error:
                told = fresh = [Fault(error.where, error.why)]
            is_first = False
            self.faults += [
                Fault(f"{prefix}{fault.where}", fault.why, fault.cause) for fault in told
            ]
            keys = {fault.key for fault in fresh}
            if not keys or keys & wrong:
                return None
            wrong |= keys
            specs = {spec.name: spec for spec in dataclasses.fields(cls)}  # type: ignore[arg-type]  # S is a dataclass
            hints = typing.get_type_hints(cls)
            stand_ins = {key: _stand_in(specs[key], _required(hints[key])) for key in keys}
            if None in stand_ins.values():
                return None
            values.update(stand_ins)

    def _port(self, hint: Any, value: Any, where: str) -> Any:
        if isinstance(value, str):
            if value != OFF:
                raise ConfigError(where, f"{value!r} is neither a whole number nor {OFF!r}")
            return None
        return self._value(hint, value, where)

    def _value(self, hint: Any, value: Any, where: str) -> Any:
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            if not isinstance(value, dict):
                raise ConfigError(where, "is not a table")
            return self.make(hint, *self.values(hint, value, f"{where}."), f"{where}.")
        origin = typing.get_origin(hint)
        if origin is list:
            if not isinstance(value, list):
                raise ConfigError(where, f"{value!r} is not an array")
            (item,) = typing.get_args(hint)
            made = [self._value(item, one, f"{where}[{i}]") for i, one in enumerate(value)]
            return [one for one in made if one is not None]  # what is wrong with those is noted
        if origin is dict:
            if not isinstance(value, dict):
                raise ConfigError(where, f"{value!r} is not a table")
            return dict(value)
        if hint is Path:
            return self._path(value, where)
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError as error:
                raise ConfigError(where, "is too great a number") from error
        if not isinstance(value, hint) or isinstance(value, bool) is not (hint is bool):
            raise ConfigError(where, f"{value!r} is not of type {hint.__name__}{_which(hint)}")
        return value

    def _path(self, value: Any, where: str) -> Path:
        if not isinstance(value, str) or not value or "\0" in value:
            raise ConfigError(where, f"{value!r} is not a path")
        path = self._folder / value
        try:
            if (
                where.endswith("_file")
                and (held := systemd_credentials.held(path.name)) is not None
            ):
                return held
            if where.endswith("_file") and (why := why_no_file(path)):
                raise ConfigError(where, f"{path}: {why}")
        except OSError as error:  # a folder on the way that this user may not look into
            raise ConfigError(where, f"{path}: {error.strerror}") from error
        return path

    def _find_files(self, tables: Any, spec: dataclasses.Field[Any]) -> None:
        for key, ending in spec.metadata.get(FILES, {}).items():
            for table in tables:
                if isinstance(name := table.get(key), str) and name.endswith(ending):
                    table[key] = str(self._folder / name)

    def _alike(self, key: str, known: Iterable[str]) -> str | None:
        return None if key in self._homes else near(key, known)

    def _unknown(self, key: str, alike: str | None, known: Sequence[str]) -> str:
        if alike is not None:
            return f"unknown key, did you mean {alike!r}?"
        if key in self._homes:
            return f"unknown key here: there is {self._homes[key]}"
        if len(known) <= MOST_LISTED:
            return f"unknown key, there are {', '.join(known)}"
        return "unknown key"


def _homes(settings: type[Any]) -> Iterator[tuple[str, str]]:
    """Give each section's keys with the section."""
    for section, hint in typing.get_type_hints(settings).items():
        if dataclasses.is_dataclass(hint):
            for spec in dataclasses.fields(hint):
                yield spec.name, f"{section}.{spec.name}"


def _required(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        return next(option for option in typing.get_args(hint) if option is not type(None))
    return hint


def _is_needed(spec: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return spec.default is missing and spec.default_factory is missing


def _which(hint: Any) -> str:
    allowed = _ALLOWED.get(hint)
    return "" if allowed is None else f" ({allowed})"


def _default(spec: dataclasses.Field[Any]) -> Any:
    if spec.default_factory is not dataclasses.MISSING:
        return spec.default_factory()
    return spec.default


def _stand_in(spec: dataclasses.Field[Any], hint: Any) -> Any:
    """Return a value that no check minds; None where there is none."""
    default = None if _is_needed(spec) else _default(spec)
    return _STAND_INS.get(hint) if default is None else default
