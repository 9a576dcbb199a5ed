"""Reads a sensor once before it is saved: what its table would give, or what keeps it from that.

All of it, from the import of its module on, is a driver's own code, which may hang. So it has a
process of its own for a bounded time, and nothing is left of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.sensors.driver_process import (
    ChildFailedError,
    DriverProcesses,
    DriverRequest,
    NoRoomError,
)
from gateway.sensors.options import DriverHangsError
from light_dataclasses import dataclass

LIMIT_S: Final = 10.0
"""As long as a gateway waits for a driver."""
MOST: Final = 2
"""Trials that may be under way."""


class TrialFailedError(Exception):
    """A sensor can't be tried, or a driver not be had; the message says why."""


class TrialLateError(TrialFailedError):
    """A driver does not come back, or others are tried already."""


@dataclass(frozen=True, slots=True)
class TriedSensor:
    """The result of trying one sensor.

    Attributes:
        name: of the sensor; of several values at a time, with the value's name.
        value: what it read; None if nothing.
        unit: of the value.
        quality: of the value: ``good``, ``uncertain`` or ``bad``.
        why: why there is no value; empty if there is one.

    """

    name: str
    value: Any
    unit: str = ""
    quality: str = ""
    why: str = ""


class SensorTrials:
    """Tries sensors and asks drivers for their keys, a few at a time.

    Args:
        most: trials that may be under way.

    """

    def __init__(self, most: int = MOST) -> None:
        self._processes = DriverProcesses(most)

    def tried(
        self,
        folder: Path | None,
        table: Mapping[str, Any],
        *,
        limit_s: float = LIMIT_S,
        is_afar: bool = False,
    ) -> list[TriedSensor]:
        """Build the sensors of a table, read each once, and close them; waits for that.

        Args:
            folder: where a developer's own classes are looked for first.
            table: as in the configuration.
            limit_s: in which all of it has to be done.
            is_afar: the table was sent here, and may not name files or code of this machine.

        Raises:
            SensorConfigError: the table is wrong.
            TrialFailedError: its driver has ended the process.
            TrialLateError: it takes too long, or too many others do.

        """
        request = DriverRequest("read", folder, [("sensors[0]", table)], is_afar, limit_s)
        return [TriedSensor(*row) for row in self._come_of(request)]

    def described(self, kind: str, *, limit_s: float = LIMIT_S) -> Mapping[str, Any]:
        """Return what a driver is, as `DescribedDriver.as_json` does; waits for its module.

        Args:
            kind: its type, that ships or is installed.
            limit_s: in which it has to be imported.

        Raises:
            TrialFailedError: its class can't be had.
            TrialLateError: that takes too long, or too many others are tried.

        """
        request = DriverRequest("describe", None, [("type", {"type": kind})], True, limit_s)
        told: Mapping[str, Any] = self._come_of(request)
        return told

    def _come_of(self, request: DriverRequest) -> Any:
        try:
            return self._processes.come_of(request)
        except DriverHangsError as error:
            raise TrialLateError(error.why) from error
        except NoRoomError as error:
            raise TrialLateError(str(error)) from error
        except ChildFailedError as error:
            raise TrialFailedError(str(error)) from error
