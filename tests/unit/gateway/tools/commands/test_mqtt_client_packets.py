"""The client of `hedgerow pub` and `sub` keeps to MQTT 5.0, and tells what a broker answers."""

from __future__ import annotations

import asyncio
import errno
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PropertyId,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Scanner,
    SubAck,
    Version,
    body_at,
    decode,
    encode,
)
from gateway.tools.commands.mqtt_client import Login, MqttClient, MqttClientError, UnfitPacketError

KEEP_ALIVE_S = 30
LOST = OSError(errno.EPIPE, "Broken pipe")


class _NoWaiting(selectors.DefaultSelector):
    """Has the time pass for which it is to wait."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing is left that could wake one"
        self.passed_s += timeout
        return super().select(0)


class _JumpingLoop(asyncio.SelectorEventLoop):
    """One whose clock goes on to the next timer when nothing is left to do."""

    def __init__(self) -> None:
        self._passing = _NoWaiting()
        super().__init__(self._passing)

    def time(self) -> float:
        return self._passing.passed_s


class Broker:
    """The other end: what it says is fed by the test, and what it is told is noted with the time.

    It is the writer of a connection, too.
    """

    def __init__(self, *packets: Packet, drains: OSError | None = None) -> None:
        self.reader = asyncio.StreamReader()
        self.heard: list[tuple[float, Packet]] = []
        self.is_closed, self.is_waited_for = False, False
        self._drains = drains
        self._scanner = Scanner(1 << 28)
        self.says(*packets)
        self.client = MqttClient(self.reader, self)  # type: ignore[arg-type]  # takes what a writer does

    def says(self, *packets: Packet) -> None:
        self.reader.feed_data(b"".join(encode(one, Version.V5) for one in packets))

    def says_at(self, at_s: float, *packets: Packet) -> None:
        asyncio.get_running_loop().call_at(at_s, self.says, *packets)

    def packets(self) -> list[Packet]:
        return [packet for _, packet in self.heard]

    def write(self, data: bytes) -> None:
        self._scanner.feed(data)
        now_s = asyncio.get_running_loop().time()
        for raw in self._scanner.take(9):
            self.heard.append((now_s, decode(raw[0], raw[body_at(raw) :], Version.V5)))

    async def drain(self) -> None:
        if self._drains is not None:
            raise self._drains

    def close(self) -> None:
        self.is_closed = True

    async def wait_closed(self) -> None:
        self.is_waited_for = True
        await self.drain()


def message(text: bytes, qos: int = 0, packet_id: int | None = None) -> Publish:
    return Publish("t", text, qos, False, False, packet_id, {})


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Do it in no time, whatever it waits for."""

    async def in_time() -> None:
        await work()

    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        runner.run(in_time())


async def shown(broker: Broker, count: int) -> list[bytes]:
    """The payloads of the first messages that come."""
    found = []
    async for one in broker.client.messages():
        found.append(bytes(one.payload))
        if len(found) == count:
            break
    return found


def test_a_client_introduces_itself_with_a_session_that_begins_and_ends_here() -> None:
    async def work() -> None:
        broker = Broker(ConnAck(False))
        await broker.client.connect(Login("me", "pump", b"secret"), KEEP_ALIVE_S)
        asked = Connect(Version.V5, "me", True, KEEP_ALIVE_S, "pump", b"secret", None, {}, False)
        assert broker.packets() == [asked]

    run(work)


def test_a_message_of_qos_1_and_2_is_acknowledged_and_one_of_qos_2_is_shown_once() -> None:
    """MQTT 5.0, section 4.3: of QoS 2 until PUBREL a number is the same message's."""

    async def work() -> None:
        again = message(b"twice", 2, 7)
        broker = Broker(message(b"plain"), message(b"once", 1, 5), again, again, PubRel(7))
        broker.says(message(b"next", 2, 7), PubRel(8), message(b"last"))
        assert await shown(broker, 5) == [b"plain", b"once", b"twice", b"next", b"last"]
        told = [PubAck(5), PubRec(7), PubRec(7), PubComp(7), PubRec(7), PubComp(8)]
        assert list(map(str, broker.packets())) == list(map(str, told))

    run(work)


def test_what_came_before_an_answer_is_shown_first_and_in_its_order() -> None:
    async def work() -> None:
        early = [message(b"first"), message(b"second")]
        broker = Broker(*early, SubAck(1, [1]), message(b"third"))
        await broker.client.subscribe(["t"], 1)
        assert await shown(broker, 3) == [b"first", b"second", b"third"]

    run(work)


def test_a_message_is_published_when_the_broker_has_taken_it_by_its_qos() -> None:
    async def work() -> None:
        broker = Broker(PubAck(1, 0), PubRec(2, 0x10), PubComp(2), PingResp())
        for qos in (0, 1, 2):
            await broker.client.publish("t", b"x", qos, retain=qos == 2)
        await broker.client.settle()
        assert broker.packets() == [
            Publish("t", b"x", 0, False, False, None, {}),
            Publish("t", b"x", 1, False, False, 1, {}),
            Publish("t", b"x", 2, True, False, 2, {}),
            PubRel(2),
            PingReq(),
        ]

    run(work)


@pytest.mark.parametrize(
    ("answer", "qos", "why"),
    [
        (PubAck(1, 0x87), 1, "'t': not authorized"),
        (PubRec(1, 0x97), 2, "'t': quota exceeded"),
        (PubAck(1, 0x80), 1, "'t': unspecified error"),
        (Disconnect(0x8B), 1, "disconnected: server shutting down"),
        (
            Disconnect(0x9C, {PropertyId.REASON_STRING: "ask gw-b"}),
            1,
            "disconnected: use another server (ask gw-b)",
        ),
    ],
)
def test_a_message_that_is_refused_is_told_with_the_reason(
    answer: Packet, qos: int, why: str
) -> None:
    async def work() -> None:
        with pytest.raises(MqttClientError) as refused:
            await Broker(answer).client.publish("t", b"x", qos)
        assert str(refused.value) == why

    run(work)


def test_a_filter_that_is_refused_is_named() -> None:
    async def work() -> None:
        with pytest.raises(MqttClientError) as refused:
            await Broker(SubAck(1, [2, 0x80])).client.subscribe(["a", "b"], 2)
        assert str(refused.value) == "'b': unspecified error"

    run(work)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (PingResp(), "PingResp instead of CONNACK"),
        (
            ConnAck(False, 0x86),
            "connection refused: bad user name or password; "
            "--user and --password-file say who you are",
        ),
        (
            ConnAck(False, 0x87, {PropertyId.REASON_STRING: "no role"}),
            "connection refused: not authorized (no role); "
            "--user and --password-file say who you are",
        ),
        (ConnAck(False, 0x80), "connection refused: unspecified error"),
    ],
)
def test_who_is_not_let_in_is_told_why_and_what_would_help(answer: Packet, why: str) -> None:
    async def work() -> None:
        with pytest.raises(MqttClientError) as refused:
            await Broker(answer).client.connect(Login(), KEEP_ALIVE_S)
        assert str(refused.value) == why

    run(work)


def test_a_connection_that_breaks_is_told_in_words_and_closed_without_any() -> None:
    async def work() -> None:
        broker = Broker(drains=LOST)
        with pytest.raises(MqttClientError, match=r"^the connection was lost: Broken pipe$"):
            await broker.client.publish("t", b"x", 0)
        broker.reader.set_exception(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
        with pytest.raises(MqttClientError, match=r"^the connection was lost: Connection timed"):
            await broker.client.settle()
        await broker.client.close()
        assert broker.is_closed and broker.is_waited_for
        assert isinstance(broker.packets()[-1], Disconnect)

    run(work)


def test_what_is_no_mqtt_is_told_and_what_fits_into_no_packet_is_not_sent() -> None:
    async def work() -> None:
        broker = Broker()
        broker.reader.feed_data(b"\x00\x00")
        with pytest.raises(MqttClientError, match=r"^what came is no MQTT: "):
            await broker.client.connect(Login(), 0)
        with pytest.raises(UnfitPacketError):
            await broker.client.publish("a/#", b"", 0)
        assert len(broker.heard) == 1

    run(work)


def pings(broker: Broker) -> list[float]:
    return [at_s for at_s, packet in broker.heard if isinstance(packet, PingReq)]


def test_who_only_listens_pings_while_messages_come_that_need_no_answer() -> None:
    """[MQTT-3.1.2-20]: the interval runs from what the client has sent, whatever it is sent."""

    async def work() -> None:
        broker = Broker(ConnAck(False))
        await broker.client.connect(Login(), KEEP_ALIVE_S)
        for at_s in range(1, 60):
            broker.says_at(at_s, message(b"x"), *([PingResp()] * (at_s % 15 == 1)))
        assert len(await shown(broker, 59)) == 59
        assert pings(broker) == [15.0, 30.0, 45.0]

    run(work)


def test_an_answer_that_is_sent_is_a_sign_of_life_and_needs_no_ping() -> None:
    async def work() -> None:
        broker = Broker(ConnAck(False))
        await broker.client.connect(Login(), KEEP_ALIVE_S)
        broker.says_at(10, message(b"x", 1, 1))
        broker.says_at(26, message(b"y"))
        assert len(await shown(broker, 2)) == 2
        assert pings(broker) == [25.0]

    run(work)


@pytest.mark.parametrize(
    ("properties", "pinged_at_s"), [({}, 15.0), ({PropertyId.SERVER_KEEP_ALIVE: 10}, 5.0)]
)
def test_a_broker_that_answers_no_ping_is_given_up_when_the_interval_is_over(
    properties: Any, pinged_at_s: float
) -> None:
    """By [MQTT-3.2.2-21] the interval that the broker names takes the place of the own one."""

    async def work() -> None:
        broker = Broker(ConnAck(False, 0, properties))
        await broker.client.connect(Login(), KEEP_ALIVE_S)
        with pytest.raises(MqttClientError, match=r"^the broker answers no ping$"):
            await shown(broker, 1)
        assert pings(broker) == [pinged_at_s]
        assert asyncio.get_running_loop().time() == 2 * pinged_at_s

    run(work)


def test_a_client_without_an_interval_sends_no_ping() -> None:
    async def work() -> None:
        broker = Broker(ConnAck(False))
        await broker.client.connect(Login(), 0)
        broker.says_at(9_000, message(b"x"))
        assert await shown(broker, 1) == [b"x"]
        assert pings(broker) == []

    run(work)
