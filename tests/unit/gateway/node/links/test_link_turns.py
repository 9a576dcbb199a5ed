"""A neighbour that has much to say lets others have their turn."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from gateway.node.links import wire
from gateway.node.links.link import LARGE_READ_BYTES, Link
from gateway.node.links.wire import LinkPacket


class Transport:
    """A transport as a link needs it; it notes the calls and the bytes."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.written = b""
        self.writes = 0

    def set_write_buffer_limits(self, high: int) -> None:
        """Nothing is buffered here."""

    def get_extra_info(self, name: str) -> None:
        """It is no socket."""

    def is_closing(self) -> bool:
        return "abort" in self.calls

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def abort(self) -> None:
        self.calls.append("abort")

    def writelines(self, buffers: list[bytes]) -> None:
        self.written += b"".join(buffers)
        self.writes += 1


@pytest.fixture
async def served() -> tuple[Link, Transport, list[LinkPacket]]:
    link, transport, got = Link(), Transport(), []
    link.connection_made(cast(asyncio.Transport, transport))
    serving = asyncio.create_task(link.serve(lambda _, packet: got.append(packet)))
    await asyncio.sleep(0)
    assert not serving.done()
    return link, transport, got


async def test_a_large_read_is_followed_by_a_turn_of_others(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, got = served
    link.data_received(wire.publish(b"t", bytes(LARGE_READ_BYTES // 4)) * 4)
    assert len(got) == 4
    assert transport.calls == ["pause"]
    await asyncio.sleep(0)
    assert transport.calls == ["pause", "resume"]


async def test_a_small_read_is_not(served: tuple[Link, Transport, list[LinkPacket]]) -> None:
    link, transport, _ = served
    link.data_received(wire.ping(1, b""))
    await asyncio.sleep(0)
    assert transport.calls == []


async def test_a_link_that_ends_after_a_large_read_is_not_read_on(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, _ = served
    link.data_received(wire.publish(b"t", bytes(LARGE_READ_BYTES // 4)) * 4)
    link.close()
    await asyncio.sleep(0)
    assert transport.calls == ["pause", "abort"]


async def test_bytes_are_acknowledged_when_they_are_dealt_with(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, _ = served
    link.data_received(wire.publish(b"t", bytes(20_000)))
    await asyncio.sleep(0)
    reader = wire.LinkReader()
    reader.feed(transport.written)
    acknowledgement = reader.next()
    assert acknowledgement is not None
    assert acknowledgement.type is wire.Type.PUBACK
    assert wire.taken(acknowledgement.body) == link.received_bytes


async def test_what_a_turn_has_for_a_neighbour_goes_in_two_writes_the_first_of_it_at_once(
    served: tuple[Link, Transport, list[LinkPacket]],
) -> None:
    link, transport, _ = served
    for number in range(32):
        link.send_control(b"$hedgerow/to", b"%d" % number)
        assert transport.writes == 1
    await asyncio.sleep(0)
    assert transport.writes == 2
    assert transport.written.count(b"$hedgerow/to") == 32
