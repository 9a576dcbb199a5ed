"""Time goes on while the machine sleeps: waits end, and no client counts as silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from mqtt_peer import Bench
from tree_host import until

from gateway.base.steady_clock import steady_clock
from gateway.broker.upkeep import SWEEP_S
from gateway.coap.remote.exchange import RemoteExchange
from gateway.mqtt import PropertyId, Publish
from tree_handler.batch import Entry
from tree_handler.remote.query import Publication, RemoteQueries
from tree_handler.remote.resource import ResourceRequest, ResourceResponse
from tree_handler.retained.hybrid_clock import RetainedVersion
from tree_handler.retained.message import Retained

NIGHT_S = 8 * 3_600.0


class Machine:
    """Its clock goes on while it sleeps; that of the event loop does not."""

    def __init__(self) -> None:
        self.slept_s = NIGHT_S  # the one before the gateway was started

    def clock(self) -> float:
        return time.monotonic() + self.slept_s


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
async def bench(machine: Machine) -> AsyncIterator[Bench]:
    bench = Bench(anonymous=True, now=machine.clock)
    await bench.start()
    yield bench
    await bench.stop()


async def has_gone(bench: Bench, client_id: str) -> None:
    session = bench.broker.core.sessions.get(client_id)
    await until(lambda: session.channel is None)


def test_a_steady_clock_is_that_of_the_kernel_since_boot() -> None:
    before, now = time.clock_gettime(time.CLOCK_BOOTTIME), steady_clock()()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_steady_clock_is_the_event_loops_where_the_kernel_has_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    before, now = time.monotonic(), steady_clock()()
    assert before <= now <= time.monotonic()


async def test_a_message_that_expired_while_the_machine_slept_is_not_delivered(
    bench: Bench, machine: Machine
) -> None:
    lasting = {"properties": {PropertyId.SESSION_EXPIRY_INTERVAL: 0xFFFF_FFFF}}
    valve = await bench.connect("valve", clean_start=True, **lasting)
    await valve.subscribe("valve/#")
    valve.close()
    await has_gone(bench, "valve")
    for topic, expiry_s in (("valve/open", 60), ("valve/name", int(2 * NIGHT_S))):
        properties = {int(PropertyId.MESSAGE_EXPIRY_INTERVAL): expiry_s}
        bench.hand_out(Entry(topic, b"1", qos=1, properties=properties))
    machine.slept_s += NIGHT_S
    valve = await bench.connect("valve", clean_start=False, **lasting)
    came = await valve.next()
    assert isinstance(came, Publish)
    assert came.topic == "valve/name"
    assert came.properties[PropertyId.MESSAGE_EXPIRY_INTERVAL] <= NIGHT_S
    await valve.nothing_came()


async def test_a_session_that_was_to_end_while_the_machine_slept_is_over(
    bench: Bench, machine: Machine
) -> None:
    short = {"properties": {PropertyId.SESSION_EXPIRY_INTERVAL: 3_600}}
    client = await bench.connect("a", clean_start=True, **short)
    await client.subscribe("x")
    client.close()
    await has_gone(bench, "a")
    machine.slept_s += NIGHT_S
    bench.broker.core.sweep()
    assert "a" not in {session.client_id for session in bench.broker.core.sessions.values()}


async def test_no_client_was_silent_while_the_machine_slept(bench: Bench, machine: Machine) -> None:
    client = await bench.connect("a", keep_alive_s=10)
    core = bench.broker.core
    core.sweep()
    machine.slept_s += NIGHT_S
    core.sweep()
    await client.nothing_came()
    for _ in range(int(16.0 / SWEEP_S)):  # but it has to be heard from now on
        machine.slept_s += SWEEP_S
        core.sweep()
    assert await client.next() is not None  # DISCONNECT


async def test_what_a_neighbour_tells_after_the_machine_slept_is_as_old_as_it_says(
    bench: Bench, machine: Machine
) -> None:
    machine.slept_s += NIGHT_S
    shared = bench.broker.core.shared_retention
    version = RetainedVersion(1 << 40, 0, "gw-b", 1)
    loop_s = asyncio.get_running_loop().time()
    told = Retained("t", version, 7, 1, b"1", {int(PropertyId.MESSAGE_EXPIRY_INTERVAL): 60}, 60.0)
    assert shared.learn(told, loop_s, is_news=False)
    again = shared.told("t", loop_s)
    assert again is not None
    assert again.left_s is not None
    assert 0.0 < again.left_s <= 60.0


class Valve:
    """Executes what other gateways ask, and counts it."""

    def __init__(self) -> None:
        self.executed = 0

    def begin(
        self,
        request: ResourceRequest,
        via: str,
        tell: Callable[[ResourceResponse, bool], None],
        *,
        observes: bool = False,
    ) -> Callable[[], None]:
        self.executed += 1
        tell(ResourceResponse(0x44), False)
        return lambda: None


async def test_a_request_that_waited_while_the_machine_slept_is_not_carried_out(
    machine: Machine,
) -> None:
    asker, valve = RemoteQueries("gw-a", 1), Valve()
    put = ResourceRequest("PUT", ("valve",), payload=b"1")
    exchange = RemoteExchange(RemoteQueries("gw-b", 1), lambda *_: None, valve, clock=machine.clock)

    def ask() -> Publication:
        return asker.ask("gw-b", put, machine.clock(), 5.0, 1)[1]

    def arrives(asked: Publication) -> None:
        exchange.receive(asked.topic, asked.payload)

    arrives(ask())
    waits = ask()
    machine.slept_s += NIGHT_S  # with the request in the socket's buffer
    arrives(waits)
    assert valve.executed == 1
    arrives(ask())
    assert valve.executed == 2
    await exchange.stop()
