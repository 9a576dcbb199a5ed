"""The loads of `hedgerow bench` on a disk, a broker and a CoAP server, and those that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from coap_engine import codes, option_numbers
from coap_engine.codec import ACK, CoapMessage
from coap_engine.codec import decode as decode_coap
from gateway.mqtt import (
    ConnAck,
    Connect,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    Version,
    decode,
    encode,
    packet_end,
)
from gateway.tools.bench import coap_load, disk, mqtt_load
from gateway.tools.bench.errors import BenchError

SOON_S = 0.2
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def test_a_disk_that_takes_nothing_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    assert disk.sync_times(tmp_path).p50_ms >= 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="No such file"):
        disk.sync_times(tmp_path / "gone")


@contextlib.asynccontextmanager
async def broker(answer: Answer) -> AsyncIterator[int]:
    """A server that answers as it likes; its port."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def load(port: int) -> None:
    async with mqtt_load.connected(port, SOON_S) as clients:
        await clients.most_per_s(0.1)
        await clients.puback_times_s(0.1, 100)


async def never(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(100):
        pass


async def hangs_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def speaks_no_mqtt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\xff" * 64)
    await never(reader, writer)


async def takes_and_acknowledges_nothing(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while data := await reader.read(1 << 16):
        if data[0] >> 4 == 1:
            writer.write(b"\x20\x03\x00\x00\x00")
        elif data[0] >> 4 == 8:
            writer.write(b"\x90\x04\x00\x01\x00\x01")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (never, "no answer to Connect"),
        (hangs_up, "ended the connection"),
        (speaks_no_mqtt, "speaks no MQTT"),
        (takes_and_acknowledges_nothing, "no acknowledgement"),
    ],
)
async def test_a_broker_that_does_not_answer_is_told_and_not_waited_for(
    answer: Answer, told: str
) -> None:
    async with asyncio.timeout(60), broker(answer) as port:
        with pytest.raises(BenchError, match=told):
            await load(port)


class BrokerThatCounts:
    """Acknowledges the half of what is open each time anything comes, and all when nothing does."""

    def __init__(self) -> None:
        self.most_open = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data, unacknowledged = b"", list[int]()

        def acknowledge(count: int) -> None:
            for _ in range(count):
                writer.write(encode(PubAck(unacknowledged.pop(0)), Version.V5))

        reading = asyncio.create_task(reader.read(1 << 16))
        while True:
            done, _ = await asyncio.wait({reading}, timeout=0.05)
            if not done:
                acknowledge(len(unacknowledged))
                continue
            if not (came := reading.result()):
                return
            reading = asyncio.create_task(reader.read(1 << 16))
            data += came
            while (found := packet_end(data, 0, 1 << 16)) is not None:
                body, end = found
                packet = decode(data[0], data[body:end], Version.V5)
                data = data[end:]
                match packet:
                    case Connect():
                        writer.write(encode(ConnAck(False, 0), Version.V5))
                    case Subscribe(packet_id=packet_id):
                        writer.write(encode(SubAck(packet_id, [1]), Version.V5))
                    case Publish(packet_id=int(packet_id)):
                        unacknowledged.append(packet_id)
            self.most_open = max(self.most_open, len(unacknowledged))
            acknowledge((len(unacknowledged) + 1) // 2)


async def test_no_more_is_open_than_the_window_however_acknowledgements_come() -> None:
    counting = BrokerThatCounts()
    async with (
        asyncio.timeout(60),
        broker(counting.answer) as port,
        mqtt_load.connected(port, 30.0) as clients,
    ):
        await clients.most_per_s(0.2)
    assert counting.most_open == mqtt_load.WINDOW


async def test_who_listens_nowhere_is_told() -> None:
    with pytest.raises(BenchError, match="takes no client"):
        await load(1)


async def test_a_coap_server_that_never_answers_is_told() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    async with asyncio.timeout(60):
        with pytest.raises(BenchError, match="not answered"):
            await coap_load.reads_per_s(port, ("sensors", "x"), 0.1, 0.2)
    transport.close()


async def test_a_broker_that_acknowledges_late_is_waited_for() -> None:
    """Its first acknowledgement comes when nothing else does."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counting = BrokerThatCounts()
        await counting.answer(reader, writer)

    async with (
        asyncio.timeout(60),
        broker(answer) as port,
        mqtt_load.connected(port, 30.0) as clients,
    ):
        took_s = await clients.puback_times_s(0.01, 500)
    assert len(took_s) == 5
    assert all(0 <= one < 30 for one in took_s)


class CountingSensor(asyncio.DatagramProtocol):
    """A CoAP server: first it answers what is none, then `answers` reads, and then nothing."""

    def __init__(self, answers: int) -> None:
        self.asked: list[CoapMessage] = []
        self.left = answers
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        assert self._transport is not None
        question = decode_coap(data)
        self.asked.append(question)
        if len(self.asked) == 1:
            self._transport.sendto(b"\xff", addr)
            refused = CoapMessage(ACK, codes.NOT_FOUND, question.message_id, b"", ())
            self._transport.sendto(refused.encode(), addr)
        elif self.left > 0:
            self.left -= 1
            answer = CoapMessage(ACK, codes.CONTENT, question.message_id, b"", (), b"1")
            self._transport.sendto(answer.encode(), addr)


async def test_reads_that_are_answered_count_and_each_lets_another_be_asked() -> None:
    loop = asyncio.get_running_loop()
    transport, sensor = await loop.create_datagram_endpoint(
        lambda: CountingSensor(30), local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    began_s = loop.time()
    async with asyncio.timeout(60):
        found = await coap_load.reads_per_s(port, ("sensors", "x"), 0.05)
    took_s = loop.time() - began_s
    transport.close()
    assert 1 / took_s <= found < 31 / 0.05  # a clock rounds, but not by a read
    assert len(sensor.asked) > coap_load.WINDOW
    assert [one.message_id for one in sensor.asked] == list(range(1, len(sensor.asked) + 1))
    assert {(one.code, one.options) for one in sensor.asked} == {
        (codes.GET, ((option_numbers.URI_PATH, b"sensors"), (option_numbers.URI_PATH, b"x")))
    }


async def test_a_sensor_that_is_refused_is_not_answered() -> None:
    loop = asyncio.get_running_loop()
    transport, sensor = await loop.create_datagram_endpoint(
        lambda: CountingSensor(0), local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    async with asyncio.timeout(60):
        with pytest.raises(BenchError, match=r"^the sensor that is read is not answered$"):
            await coap_load.reads_per_s(port, ("x",), 0.01, 0.01)
    transport.close()
    assert sensor.asked


async def test_a_client_that_has_measured_leaves_no_socket() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: CountingSensor(30), local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    before = len(list(Path("/proc/self/fd").iterdir()))
    async with asyncio.timeout(60):
        await coap_load.reads_per_s(port, ("x",), 0.01)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    transport.close()
