"""The configuration's section ``[home_assistant]``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.base.toml.toml_file import Fault, hold
from light_dataclasses import dataclass

_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class HomeAssistantSection:
    """The announcement of sensors and actuators to Home Assistant.

    With ``discovery`` they are, and actuators can be set over MQTT. ``prefix`` is Home Assistant's
    discovery prefix.
    """

    discovery: bool = False
    prefix: str = "homeassistant"

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        if not _PREFIX.fullmatch(self.prefix):
            why = f"{self.prefix!r} is not one topic level of letters, digits, '_' and '-'"
            yield Fault("prefix", why)
