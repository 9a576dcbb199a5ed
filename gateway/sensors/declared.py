"""Drivers with what they are and which keys they read: as they are declared, and as listed."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from gateway.sensors.options import SensorOptions
from gateway.sensors.parameters import ATTRIBUTES, INTERVAL, NAME, DriverParameter, ParameterKind
from gateway.sensors.sensor import Sensor
from light_dataclasses import dataclass

_KINDS: Final[Mapping[Any, ParameterKind]] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "flag",
    dict: "table",
    Mapping: "table",
}
_ARGUMENT: Final = re.compile(r"^ {4}([a-z_0-9]+): (.*(?:\n {8}.*)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SensorDriver:
    """A driver: it builds the sensors of a table, and declares the keys that it reads of it.

    Attributes:
        text: what it is.
        parameters: the keys beside those of every sensor.
        build: makes the sensors.
        names_itself: whether its sensors have names of their own.

    """

    text: str
    parameters: Sequence[DriverParameter]
    build: Callable[[SensorOptions], Sequence[Sensor]]
    names_itself: bool = False

    def __call__(self, options: SensorOptions) -> Sequence[Sensor]:
        """Build the sensors of a table."""
        return self.build(options)


def driver(
    text: str, *parameters: DriverParameter, names_itself: bool = False
) -> Callable[[Callable[[SensorOptions], Sequence[Sensor]]], SensorDriver]:
    """Declare what a function that builds sensors reads of their table.

    Args:
        text: what the driver is, in words for who chooses one.
        parameters: the keys, in the order of a form.
        names_itself: see `SensorDriver`.

    """

    def declared(build: Callable[[SensorOptions], Sequence[Sensor]]) -> SensorDriver:
        return SensorDriver(text, parameters, build, names_itself)

    return declared


@dataclass(frozen=True, slots=True)
class DescribedDriver:
    """A driver as it is listed.

    Attributes:
        type: what a table calls it.
        text: what it is.
        parameters: all keys that its table may have.

    """

    type: str
    text: str
    parameters: Sequence[DriverParameter] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return what a form has to know."""
        parameters = [one.as_json() for one in self.parameters]
        return {"type": self.type, "text": self.text, "parameters": parameters}


def of_class(found: type[Sensor]) -> tuple[str, list[DriverParameter]]:
    """Return what a developer's own class is, and the parameters of its constructor.

    What they are for is said in the class's docstring, under ``Args:``.

    Args:
        found: the class.

    """
    doc = inspect.getdoc(found) if found.__doc__ else None
    texts = {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(doc or "")}
    common = {NAME.name, INTERVAL.name, ATTRIBUTES.name, "self"}
    parameters = []
    hints = _hints(found)
    for name, one in inspect.signature(found.__init__).parameters.items():
        if name in common or one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            continue
        is_needed = one.default is one.empty
        default = None if is_needed else _plain(one.default)
        kind = _kind(hints.get(name))
        text = texts.get(name, "")
        parameters.append(DriverParameter(name, kind, text, default, is_needed=is_needed))
    return (doc or "").partition("\n")[0], parameters


def _hints(found: type[Sensor]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(found.__init__)
    except Exception:  # names that only a type checker imports: a developer's own code
        return {}


def _kind(hint: Any) -> ParameterKind:
    if isinstance(hint, types.UnionType):
        options = [one for one in typing.get_args(hint) if one is not type(None)]
        hint = options[0] if len(options) == 1 else None
    return _KINDS.get(typing.get_origin(hint) or hint, "any")


def _plain(default: Any) -> Any:
    """Return a default as a form shows it; None where that can't be said."""
    return default if isinstance(default, str | int | float | bool | None) else None
