"""An on/off actuator kept in memory: the least that a PUT can show."""

from __future__ import annotations

from gateway.sensors.sensor import Actuator, ValueRefusedError
from record_formats.value import Value


class Switch(Actuator):
    """On (1) or off (0, as it starts). The unit ``/`` is SenML's for a switch."""

    unit = "/"
    resource_type = "switch"
    is_quick = True

    _on = False

    def read(self) -> float:
        """1.0 for on, 0.0 for off."""
        return 1.0 if self._on else 0.0

    def write(self, value: Value) -> None:
        """Turn it on or off.

        Raises:
            ValueRefusedError: the value is neither 0 nor 1.

        """
        if value not in (0.0, 1.0):
            raise ValueRefusedError(f"{value!r} is neither 0 nor 1")
        self._on = value == 1.0
