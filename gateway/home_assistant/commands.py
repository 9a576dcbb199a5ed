"""Sets actuators as messages on their command topics say, whichever gateway they came to.

Who may publish there, the broker's policy decides: of its own clients as for every topic, and of
what comes by other gateways by what these may have obeyed (`gateway.trust.policy.origins`). Of
several values that come while an actuator is being set, the newest counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from gateway.base.printable import said, told
from gateway.sensors import senml
from gateway.sensors.sensor import Actuator, SensorError, ValueRefusedError
from gateway.trust.policy.origins import OriginRights
from record_formats.value import Value
from tree_handler.batch import Row

REFUSED = "command not carried out"
ASKER = "commands"
"""All commands over MQTT have their turns at a device as one asker does."""


class Commands:
    """The command topics of one gateway's actuators.

    Args:
        actuators: by command topic.
        base_name: SenML base name of the gateway's sensors.
        write: sets an actuator, for whom.
        refused: is told of a command that was not carried out: its kind, and topic with reason.

    """

    def __init__(
        self,
        actuators: Mapping[str, Actuator],
        base_name: str,
        write: Callable[[Actuator, Value, str], Awaitable[object]],
        refused: Callable[[str, str], None],
    ) -> None:
        self._actuators = actuators
        self._base_name = base_name
        self._write = write
        self._refused = refused
        self._wanted: dict[Actuator, Value] = {}
        """The newest value of each actuator that is not set yet."""
        self._setting: dict[Actuator, asyncio.Task[None]] = {}

    @property
    def topics(self) -> list[str]:
        """The topics on which Home Assistant sets actuators, each the topic of one."""
        return list(self._actuators)

    def follow(self, actuators: Mapping[str, Actuator]) -> None:
        """Go by other command topics from now on; an actuator that has gone is set no more."""
        self._actuators = actuators
        stay = set(actuators.values())
        for actuator in [one for one in self._wanted if one not in stay]:
            del self._wanted[actuator]
            self._refused(REFUSED, f"{actuator.name}: it was removed, or its table changed")

    def hear(self, rows: Iterable[Row], voice: OriginRights | None = None) -> None:
        """Take the messages on a command topic; others are not this module's.

        Args:
            rows: the messages.
            voice: of the gateway that they came by; None for this one, whose broker has decided.

        """
        actuators = self._actuators
        for row in rows:
            if row[0] in actuators:
                if voice is None or voice.may_command(row[0]):
                    self._take(row[0], row[2])
                else:
                    self._refused(REFUSED, not_vouched(row[0], voice))

    async def stop(self) -> None:
        """Set nothing more."""
        for task in self._setting.values():
            task.cancel()
        await asyncio.gather(*self._setting.values(), return_exceptions=True)

    def _take(self, topic: str, payload: bytes) -> None:
        actuator = self._actuators[topic]
        if not payload:  # ends a retained message, and says nothing
            return
        try:
            if payload.lstrip().startswith(b"["):
                told = (actuator.name, actuator.unit, actuator.kind)
                value = senml.decode_value(payload, senml.ActuatorTarget(self._base_name, *told))
            else:
                value = senml.decode_text(payload, actuator.kind)
        except senml.SenmlError as error:
            self._refused(REFUSED, f"{topic}: {error}")
            return
        self._wanted[actuator] = value
        if actuator not in self._setting:
            task = asyncio.create_task(self._set(topic, actuator), name=f"set {actuator.name}")
            self._setting[actuator] = task

    async def _set(self, topic: str, actuator: Actuator) -> None:
        try:
            while (value := self._wanted.pop(actuator, None)) is not None:
                try:
                    await self._write(actuator, value, ASKER)
                except Exception as error:  # what came meanwhile is to be set all the same
                    is_foreseen = isinstance(error, SensorError | ValueRefusedError)
                    why = told(error) if is_foreseen else said(error)
                    self._refused(REFUSED, f"{topic}: {why}")
        finally:
            del self._setting[actuator]


def not_vouched(topic: str, voice: OriginRights) -> str:
    """Return why a message of another gateway commands nothing."""
    return f"{topic}: {voice.origin} may not command that: [vouch] of access.policy_file"
