"""Devices of the demo: MQTT clients that replay a recorded series and note what was acknowledged.

A device publishes with QoS 1 and takes a message for delivered when its PUBACK came, which is
what the demo's count is held against. A connection that breaks takes the messages in flight
with it: they are noted as unacknowledged and never sent again, so nothing that the fleet
doubles can hide behind a repetition of the device's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import field

import gmqtt
from gmqtt.mqtt.constants import MQTTv311
from gmqtt.storage import PersistentStorage

from gateway.sensors.recorded import Series
from light_dataclasses import dataclass
from record_formats.record import Record

RETRY_S = 0.2
MAX_IN_FLIGHT = 50
_NO_RECONNECT = -2
"""gmqtt allows one more attempt than this says, and takes -1 for no limit."""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One message of a device; times are seconds of the monotonic clock."""

    topic: str
    number: int
    sent_s: float


@dataclass(slots=True)
class Notes:
    """A record of the messages that a device has sent, and of their acknowledgements, by number."""

    sent: list[SentMessage] = field(default_factory=list)
    acknowledged: list[SentMessage] = field(default_factory=list)
    acknowledged_s: dict[int, float] = field(default_factory=dict)

    def acknowledge(self, sent: SentMessage) -> None:
        """Note that the acknowledgement of a message has just come."""
        self.acknowledged.append(sent)
        self.acknowledged_s[sent.number] = time.monotonic()


class _InFlight(PersistentStorage):  # type: ignore[misc]  # gmqtt is untyped
    """gmqtt's store of unacknowledged packets, which tells when one is acknowledged."""

    def __init__(self, acknowledged: Callable[[SentMessage], None]) -> None:
        super().__init__()
        self.next: SentMessage | None = None
        self._acknowledged = acknowledged
        self._sent: dict[int, SentMessage] = {}

    def push_message(self, mid: int, raw_package: bytes) -> None:
        super().push_message(mid, raw_package)
        assert self.next is not None, "set before each publish"
        self._sent[mid] = self.next

    def remove_message_by_mid(self, mid: int) -> None:
        super().remove_message_by_mid(mid)
        sent = self._sent.pop(mid, None)
        if sent is not None:
            self._acknowledged(sent)

    @property
    def count(self) -> int:
        return len(self._sent)


class Device:
    """Publishes one reading after the other to one gateway, until stopped.

    Args:
        name: of the sensor, in its records and as its MQTT client identifier.
        topic: where it publishes.
        port: the gateway's MQTT port on this machine.
        series: what it replays, from its start and again.
        rate_hz: readings a second.
        speed: recorded seconds in one second of the replay.

    """

    def __init__(
        self,
        name: str,
        topic: str,
        port: int,
        series: Series,
        *,
        rate_hz: float,
        speed: float,
    ) -> None:
        self.notes = Notes()
        self.name = name
        self.topic = topic
        self._port = port
        self._series = series
        self._interval_s = 1 / rate_hz
        self._recorded_interval_s = speed / rate_hz
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Publish no more; `run` returns when what is in flight is acknowledged."""
        self._stopping.set()

    async def run(self) -> None:
        """Publish; a gateway that is away is tried again and again."""
        while not self._stopping.is_set():
            in_flight = _InFlight(self.notes.acknowledge)
            client = _client(self.name, in_flight)
            try:
                async with asyncio.timeout(5):
                    await client.connect("127.0.0.1", self._port, keepalive=10, version=MQTTv311)
            except (OSError, gmqtt.MQTTConnectError):
                await self._pause(RETRY_S)
                continue
            try:
                await self._publish(client, in_flight)
            finally:
                with contextlib.suppress(OSError, RuntimeError):
                    await client.disconnect()

    async def _publish(self, client: gmqtt.Client, in_flight: _InFlight) -> None:
        while client.is_connected and not self._stopping.is_set():
            if in_flight.count < MAX_IN_FLIGHT:
                number = len(self.notes.sent) + 1
                value = self._series.at((number - 1) * self._recorded_interval_s)
                record = Record(self.name, self._series.unit, value, time.time(), number)
                sent = SentMessage(self.topic, number, time.monotonic())
                self.notes.sent.append(sent)
                in_flight.next = sent
                client.publish(self.topic, record.encode(), qos=1)
            await self._pause(self._interval_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5 if client.is_connected else 0):
                await in_flight.wait_empty()

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


class Watcher:
    """A subscriber that notes when each message arrived, by (topic, number).

    Args:
        port: the gateway's MQTT port on this machine.
        topic_filter: what it subscribes to.
        number_of: reads the number from a payload.

    """

    def __init__(self, port: int, topic_filter: str, number_of: Callable[[bytes], int]) -> None:
        self.arrived: dict[tuple[str, int], float] = {}
        self.repeated = 0
        self._port = port
        self._filter = topic_filter
        self._number_of = number_of
        self._client = _client("watcher", PersistentStorage())

    async def start(self) -> None:
        """Connect and subscribe."""
        subscribed = asyncio.Event()
        self._client.on_message = self._on_message
        self._client.on_subscribe = lambda *_: subscribed.set()
        await self._client.connect("127.0.0.1", self._port, keepalive=10, version=MQTTv311)
        self._client.subscribe(self._filter, qos=1)
        await asyncio.wait_for(subscribed.wait(), 10)

    async def stop(self) -> None:
        """Disconnect."""
        with contextlib.suppress(OSError, RuntimeError):
            await self._client.disconnect()

    def _on_message(
        self, _client: gmqtt.Client, topic: str, payload: bytes, _qos: int, _properties: object
    ) -> int:
        key = (topic, self._number_of(payload))
        self.repeated += key in self.arrived
        self.arrived.setdefault(key, time.monotonic())
        return 0


def _client(client_id: str, storage: PersistentStorage) -> gmqtt.Client:
    client = gmqtt.Client(client_id, clean_session=True, persistent_storage=storage)
    client.set_config({"reconnect_retries": _NO_RECONNECT})
    return client
