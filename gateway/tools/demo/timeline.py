"""Timeline of a run, as devices, a subscriber and the gateways themselves told it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any

from gateway.tools.demo.device import Notes, Watcher
from gateway.tools.demo.fleet import Fleet
from light_dataclasses import dataclass

ASK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """One message of a device. Times are seconds since the devices began; None: never.

    Attributes:
        gateway: the device's gateway.
        sent_s: when the device published it.
        acknowledged_s: when the device had the acknowledgement.
        arrived_s: when the subscriber at another gateway had it.

    """

    gateway: str
    sent_s: float
    acknowledged_s: float | None
    arrived_s: float | None


@dataclass(slots=True)
class Timeline:
    """A run in seconds since its devices began.

    Attributes:
        began_s: that moment, of the monotonic clock.
        began_time_s: that moment, of the wall clock.
        moments: when something happened, by its name: ``killed_s``, ``healed_s``,
            ``started_again_s``, ``back_s``, ``until_s``.
        told: whom each gateway called the root, and when it was asked; None: it did not answer.

    """

    began_s: float = field(default_factory=time.monotonic)
    began_time_s: float = field(default_factory=time.time)
    moments: dict[str, float] = field(default_factory=dict)
    told: dict[str, list[tuple[float, str | None]]] = field(default_factory=dict)

    def mark(self, name: str, at_s: float | None = None) -> None:
        """Note a moment of the monotonic clock, by default this one."""
        self.moments[name] = self._since(time.monotonic() if at_s is None else at_s)

    async def listen(self, fleet: Fleet) -> None:
        """Ask each gateway again and again whom it calls the root, until cancelled."""
        await asyncio.gather(*(self._listen_to(fleet, gateway) for gateway in fleet.members))

    async def _listen_to(self, fleet: Fleet, gateway: str) -> None:
        told = self.told.setdefault(gateway, [])
        while True:
            asked_s = time.monotonic()
            running = fleet.members[gateway].process is not None
            status = await fleet.status(gateway) if running else None
            # An answer may lie in the socket for a while, and its gateway be killed meanwhile.
            told.append((self._since(asked_s), None if status is None else str(status["root"])))
            await asyncio.sleep(ASK_EVERY_S)

    def deliveries(self, notes: Mapping[str, Notes], watcher: Watcher) -> list[PublishedMessage]:
        """Return all messages of the devices, in the order in which they were published.

        Args:
            notes: what the device at each gateway noted, by gateway.
            watcher: who subscribed to them all.

        """
        made = [
            PublishedMessage(
                gateway,
                self._since(sent.sent_s),
                self._or_none(one.acknowledged_s.get(sent.number)),
                self._or_none(watcher.arrived.get((sent.topic, sent.number))),
            )
            for gateway, one in notes.items()
            for sent in one.sent
        ]
        return sorted(made, key=lambda delivery: delivery.sent_s)

    def readings(self, found: Iterable[list[Any]]) -> list[tuple[float, float]]:
        """Return seconds and value of each reading that an excerpt of the telemetry table has."""
        return [
            (round(time_s - self.began_time_s, 3), value)
            for _, _, value, _, time_s in found
            if time_s is not None and value is not None
        ]

    def as_json(self, deliveries: Iterable[PublishedMessage]) -> dict[str, Any]:
        """Return all of it, with the deliveries, ready for JSON."""
        return {
            "moments": self.moments,
            "told": self.told,
            "deliveries": [asdict(delivery) for delivery in deliveries],
        }

    def _since(self, at_s: float) -> float:
        return round(at_s - self.began_s, 5)

    def _or_none(self, at_s: float | None) -> float | None:
        return None if at_s is None else self._since(at_s)
