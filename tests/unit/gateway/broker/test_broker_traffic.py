"""Traffic is counted: every packet and byte once, of any kind, without a look at each."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import cast

from surroundings import hooks

from gateway.broker.data_plane import DataPlane
from gateway.broker.hooks import Committed
from gateway.broker.inbound.connection import Connection
from gateway.broker.limits import Limits
from tree_handler.batch import Row

CONNECT = b"\x10\x0e\0\4MQTT\4%c\0\0\0\2"


class Wire(asyncio.Transport):
    """Keeps what the broker writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


def _commit(logged: Sequence[Row], _: Sequence[Row], done: Committed | None) -> None:
    if done is not None:
        done(1 if logged else 0, None)


def make_core(**limits: int) -> DataPlane:
    return DataPlane(hooks(commit=_commit), Limits(**limits))


def connected(core: DataPlane, name: bytes, *, clean: bool = True) -> Connection:
    connection = Connection(core.service)
    connection.connection_made(Wire())
    connection.data_received(CONNECT % (clean << 1) + name)
    return connection


def written(connection: Connection) -> bytes:
    return cast(Wire, connection.peer.channel.transport).written


async def turn() -> None:
    for _ in range(8):  # a client that took long has a part of several
        await asyncio.sleep(0)


async def test_packets_bytes_and_publishes_are_counted_by_qos_and_direction() -> None:
    core = make_core()
    publisher, subscriber = connected(core, b"pp"), connected(core, b"ss")
    subscriber.data_received(b"\x82\x06\0\1\0\1t\2")
    await turn()
    traffic = core.traffic
    assert (core.connections.opened_count, traffic.connects, core.sessions.connected_max) == (
        2,
        2,
        2,
    )
    assert (traffic.packets_read, traffic.published) == (3, 0)
    assert (traffic.packets_sent, traffic.delivered) == (3, 0)

    zero, one, two = b"\x30\x04\0\1t0", b"\x32\x06\0\1t\0\1q", b"\x34\x07\0\1t\0\2qq"
    publisher.data_received(zero * 3 + one + zero[:1])
    publisher.data_received(zero[1:] + two + b"\x31\x04\0\1tr" + b"\x62\2\0\2")
    await turn()
    assert traffic.received_qos_0 == 5
    assert (traffic.received_qos_1, traffic.received_qos_2) == (1, 1)
    assert traffic.published_bytes == 5 * 6 + len(one) + len(two)
    assert traffic.packets_read == 3 + 7 + 1
    assert traffic.delivered == 7
    assert traffic.packets_sent == 3 + 7 + 3  # and PUBACK, PUBREC, PUBCOMP
    sent = written(publisher) + written(subscriber)
    assert traffic.bytes_sent == len(sent)
    assert traffic.delivered_bytes == 5 * 6 + len(one) + len(two)
    assert traffic.bytes_read == 2 * 16 + 8 + 5 * 6 + len(one) + len(two) + 4
    core.stop()


async def test_a_header_that_is_cut_counts_what_came_before_it_once() -> None:
    core = make_core()
    publisher = connected(core, b"pp")
    long = b"\x30\xc8\x01\0\1t" + bytes(197)
    data = b"\xc0\0" + long * 3
    for at in range(len(data)):
        publisher.data_received(data[at : at + 1])
    assert core.traffic.published == 3
    assert core.traffic.published_bytes == 3 * len(long)
    publisher.data_received(long + long[:2])  # cut within the length
    publisher.data_received(long[2:])
    assert core.traffic.published == 5
    core.stop()


async def test_answers_of_a_closing_connection_never_make_the_delivered_fewer() -> None:
    core = make_core()
    publisher = connected(core, b"pp")
    await turn()
    publisher.data_received(b"\x32\x06\0\1t\0\1q")
    publisher.peer.channel.abort()
    await turn()
    assert core.traffic.delivered == 0
    # The CONNACK, and the PUBACK if the broker had not waited for the turn's end.
    assert core.traffic.sent_others == 1 + (b"\x40\x02\0\1" in written(publisher))
    core.stop()


async def test_a_session_whose_time_is_over_is_counted_as_expired_and_others_are_not() -> None:
    core = make_core(session_expiry_s=1)
    clean, lasting = connected(core, b"aa"), connected(core, b"bb", clean=False)
    clean.connection_lost(None)
    lasting.connection_lost(None)
    assert (core.sessions.offline_count, core.sessions.expired) == (1, 0)
    async with asyncio.timeout(30):
        while len(core.sessions):
            core.sweep()
            await asyncio.sleep(0.05)
    assert (core.sessions.offline_count, core.sessions.expired) == (0, 1)
    core.stop()


async def test_tcp_finds_a_client_that_is_gone_and_has_no_keep_alive() -> None:
    core = make_core()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(core.service), "127.0.0.1", 0
    )
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async with asyncio.timeout(30):
        while not len(core.connections):
            await asyncio.sleep(0)
    [peer] = core.connections
    assert peer.channel.transport is not None
    ours = peer.channel.transport.get_extra_info("socket")
    assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    seconds = ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) + ours.getsockopt(
        socket.IPPROTO_TCP, socket.TCP_KEEPINTVL
    ) * ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
    assert seconds == 120
    writer.close()
    server.close()
    core.stop()
