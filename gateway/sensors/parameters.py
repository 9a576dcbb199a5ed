"""What the table of a sensor may say: each key once, for the driver that reads it and for forms.

A driver declares its parameters beside the function that builds it (`driver`), and reads its table
by them (`SensorOptions.take`): what a form offers is what the driver takes.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal

from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.sensors.options import SensorOptions
    from gateway.sensors.sensor import Sensor

ParameterKind = Literal["text", "whole", "number", "flag", "choice", "table", "any"]
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
class DriverParameter:
    """One key of a sensor's table.

    Attributes:
        name: the key.
        kind: of its value; of ``any`` nothing is known but to the driver.
        text: what it is for.
        default: where the table has it not; None where it has none.
        is_needed: a table has to have it.
        unit: of a number; empty if it has none.
        least: that a number may be; None if the driver judges that.
        most: likewise.
        choices: the words that it may be.
        is_near: it names a file or code of this machine: only the configuration may say it.

    """

    name: str
    kind: ParameterKind
    text: str
    default: Any = None
    is_needed: bool = False
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    is_near: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return what a form has to know."""
        span = None if self.least is None or self.most is None else [self.least, self.most]
        return {
            "name": self.name,
            "kind": self.kind,
            "text": self.text,
            "default": self.default,
            "is_needed": self.is_needed,
            "unit": self.unit or None,
            "range": span,
            "choices": list(self.choices) or None,
            "only_in_file": self.is_near,
        }


NAME: Final = DriverParameter(
    "name", "text", "its name at this gateway: path segments such as host/load1", is_needed=True
)
INTERVAL: Final = DriverParameter("interval_s", "number", "how often it is read", 10.0, unit="s")
ATTRIBUTES: Final = DriverParameter("attributes", "table", "more attributes of its link", {})
RESOURCE_TYPE: Final = DriverParameter("resource_type", "text", "the link's rt; else the driver's")
RESOLUTION: Final = DriverParameter(
    "resolution", "number", "the step in which it measures, as 0.1: for what is shown of a value"
)
RETAIN: Final = DriverParameter(
    "retain", "flag", "whether a later subscriber gets the last reading at once", default=False
)
HOME_ASSISTANT: Final = DriverParameter(
    "home_assistant", "table", "what Home Assistant is told of it beside", {}
)
ALERTS: Final = DriverParameter("alerts", "table", "when its readings are wrong", {})


@dataclass(frozen=True, slots=True)
class SensorDriver:
    """What builds the sensors of a table, and the keys that it reads of it.

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
    """A default as a form shows it; None where that can't be said."""
    return default if isinstance(default, str | int | float | bool | None) else None
