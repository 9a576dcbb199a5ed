"""Keys of a sensor's table: each stands once, for the driver that reads it and for forms.

A driver declares its parameters beside the function that builds it (`declared.driver`), and reads
its table by them (`SensorOptions.take`): what a form offers is what the driver takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from light_dataclasses import dataclass

ParameterKind = Literal["text", "whole", "number", "flag", "choice", "table", "any"]


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
INTERVAL: Final = DriverParameter(
    "interval_s", "number", "seconds between readings", 10.0, unit="s"
)
ATTRIBUTES: Final = DriverParameter("attributes", "table", "more attributes of its link", {})
RESOURCE_TYPE: Final = DriverParameter("resource_type", "text", "the link's rt; else the driver's")
RESOLUTION: Final = DriverParameter(
    "resolution", "number", "the step in which it measures, as 0.1: for what is shown of a value"
)
RETAIN: Final = DriverParameter(
    "retain", "flag", "give a later subscriber the last reading at once", default=False
)
HOME_ASSISTANT: Final = DriverParameter(
    "home_assistant", "table", "more that Home Assistant is told of it", {}
)
ALERTS: Final = DriverParameter(
    "alerts", "table", "limits beyond which its readings raise alerts", {}
)
