"""Pins of a Raspberry Pi: in as a boolean sensor, out as a boolean actuator.

Through gpiozero (the extra ``gpio``). A pin is opened at the first reading, so that a table that
was changed finds it free; a change of an input is told at once, beside the readings at intervals.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from gateway.sensors.declared import driver
from gateway.sensors.extras import needed
from gateway.sensors.options import SensorOptions
from gateway.sensors.parameters import INTERVAL, NAME, DriverParameter
from gateway.sensors.sensor import Actuator, Sensor
from gateway.sensors.values import BOOLEAN, ValueKind
from record_formats.value import Value

PULLS: Final = {"up": True, "down": False, "none": None}
LAST_PIN: Final = 27
"""Of the 40-pin header, by the processor's numbers (BCM)."""


PIN: Final = DriverParameter(
    "pin", "whole", "its number (BCM)", is_needed=True, least=0, most=LAST_PIN
)
PULL: Final = DriverParameter(
    "pull", "choice", "resistor that holds it while nothing drives it", "down", choices=tuple(PULLS)
)
INPUT_LOW: Final = DriverParameter("active_low", "flag", 'low is active; with pull = "up" it is')
BOUNCE: Final = DriverParameter(
    "bounce_s", "number", "a change within so long of the last one is not told", 0.0, unit="s"
)
OUTPUT_LOW: Final = DriverParameter("active_low", "flag", "low is active", default=False)
INITIAL: Final = DriverParameter("initial", "flag", "it is active at the start", default=False)


class _Pin:
    """A device of gpiozero, made when it is first needed.

    Args:
        kind: the class in gpiozero.
        pin: its number.
        options: for its constructor.

    """

    def __init__(self, kind: str, pin: int, options: dict[str, Any]) -> None:
        self._kind = kind
        self._pin = pin
        self._options = options
        self._device: Any = None
        self._opening = threading.Lock()

    def device(self) -> Any:
        """Return the device.

        Raises:
            Exception: gpiozero's own, if the pin can't be had.

        """
        with self._opening:
            if self._device is None:
                import gpiozero  # noqa: PLC0415  # an extra, and slow to load

                self._device = getattr(gpiozero, self._kind)(self._pin, **self._options)
            return self._device

    def close(self) -> None:
        """Let others have the pin."""
        with self._opening:
            if self._device is not None:
                self._device.close()
                self._device = None


class InputPin(Sensor):
    """A pin that something else drives: true while it is active.

    Args:
        name: the sensor's name.
        pin: the pin.
        interval_s: how often it is read beside its changes, seconds.

    """

    kind: ValueKind = BOOLEAN
    resource_type = "gpio"

    def __init__(self, name: str, pin: _Pin, *, interval_s: float = 10.0) -> None:
        super().__init__(name, interval_s=interval_s)
        self._pin = pin
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_followed = False

    def begin(self) -> None:
        """Changes are told in this event loop."""
        self._loop = asyncio.get_running_loop()

    def read(self) -> bool:
        """Return whether it is active."""
        device = self._pin.device()
        if self._loop is not None and not self._is_followed:
            self._is_followed = True
            device.when_activated = lambda: self._changed(is_active=True)
            device.when_deactivated = lambda: self._changed(is_active=False)
        return bool(device.value)

    def _changed(self, *, is_active: bool) -> None:
        """In a thread of gpiozero's."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.push, is_active)

    def close(self) -> None:
        """Let others have the pin."""
        self._pin.close()


class OutputPin(Actuator):
    """A pin that is driven from here: true makes it active.

    Args:
        name: the actuator's name.
        pin: the pin.
        interval_s: how often it is read, seconds.

    """

    kind: ValueKind = BOOLEAN
    resource_type = "gpio"

    def __init__(self, name: str, pin: _Pin, *, interval_s: float = 10.0) -> None:
        super().__init__(name, interval_s=interval_s)
        self._pin = pin

    def read(self) -> bool:
        """Return whether it is active."""
        return bool(self._pin.device().value)

    def write(self, value: Value) -> None:
        """Make it active, or not."""
        device = self._pin.device()
        if value:
            device.on()
        else:
            device.off()

    def close(self) -> None:
        """Let others have the pin."""
        self._pin.close()


@driver("a pin as a boolean; a change is told at once", PIN, PULL, INPUT_LOW, BOUNCE)
def build_input(options: SensorOptions) -> list[Sensor]:
    """Return the sensor of a table with a ``pin``, ``pull``, ``active_low`` and ``bounce_s``.

    Raises:
        SensorConfigError: a key is wrong, or gpiozero is missing.

    """
    needed(options, "gpiozero", "gpio")
    pull = PULLS[options.take(PULL)]
    given: bool | None = options.take(INPUT_LOW)
    active_low = pull is True if given is None else given
    more: dict[str, Any] = {"pull_up": pull}
    if pull is None:
        more["active_state"] = not active_low
    elif active_low is not pull:
        raise options.error("active_low", "with a pull, active is the other level")
    if bounce_s := options.take(BOUNCE):
        more["bounce_time"] = bounce_s
    pin = _Pin("DigitalInputDevice", options.take(PIN), more)
    return [InputPin(options.take(NAME), pin, interval_s=options.take(INTERVAL))]


@driver("a pin as a boolean actuator", PIN, OUTPUT_LOW, INITIAL)
def build_output(options: SensorOptions) -> list[Sensor]:
    """Return the actuator of a table with a ``pin``, ``active_low`` and ``initial``.

    Raises:
        SensorConfigError: a key is wrong, or gpiozero is missing.

    """
    needed(options, "gpiozero", "gpio")
    more = {
        "active_high": not options.take(OUTPUT_LOW),
        "initial_value": options.take(INITIAL),
    }
    pin = _Pin("DigitalOutputDevice", options.take(PIN), more)
    return [OutputPin(options.take(NAME), pin, interval_s=options.take(INTERVAL))]
