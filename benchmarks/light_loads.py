"""The weight of a gateway behind loads, and its work at rest: tables of `benchmarks.light`.

Each load is put on a broker that has just been started, and has come to rest before. What comes and
goes is to leave nothing behind: memory is looked at when it has gone. At rest a gateway has two
neighbours, gateways like it, whose hellos wake it; a peer has none.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import broker_cases, coap_load, load_generator
from benchmarks.broker_peers import Broker
from benchmarks.load_generator import GeneratorError
from benchmarks.rd_cases import registration
from benchmarks.weighed import Process, own_folder, started

ENDPOINTS = 500
LINKS = 8
ATTRIBUTES = "&d=house&et=sensor&gp=attic"
VISITORS = 10_000
BUSY_HZ = 100_000
BUSY = broker_cases.Load(10, 10, 0, window=100, rate_hz=BUSY_HZ)
BUSY_S, BUSY_TIMES = 30.0, 2
GIVEN_BACK_S = 70.0
"""A gateway gives back once a minute what is free."""
RESTING_CLIENTS = 100
SETTLED_S = 20.0
REST_S = 60.0
HOUR_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Generators:
    """The compiled generators of load."""

    mqtt: load_generator.Programs
    coap: coap_load.Programs


@dataclass(frozen=True, slots=True)
class Compared:
    """A broker that is compared.

    Attributes:
        broker: how it is started.
        beside: makes a neighbour that dials the one at a port; None for a peer.

    """

    broker: Broker
    beside: Callable[[Sequence[int]], Broker] | None = None

    @property
    def is_ours(self) -> bool:
        """Return whether it is a gateway."""
        return self.beside is not None


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that a load is put on; a gateway's folder tells where it listens."""

    process: Process
    folder: Path

    def coap_port(self) -> int:
        """Return the port of a gateway's plain CoAP."""
        listeners = json.loads((self.folder / "state" / "listeners.json").read_text())
        return int(listeners["coap"].rpartition(":")[2])


def register(programs: Generators, running: Running, links: int, query: str = "") -> None:
    """Register `ENDPOINTS` endpoints with so many links each, and stay registered.

    Raises:
        GeneratorError: the directory refuses one.

    """
    load = registration(0, ENDPOINTS, links, query)
    if fault := coap_load.run(programs.coap, load, running.coap_port()).fault:
        raise GeneratorError(f"{running.process.name}: {fault}")


def visit(programs: Generators, running: Running) -> None:
    """Connect `VISITORS` clients, each with a subscription, and disconnect them."""
    with load_generator.idle_clients(programs.mqtt, running.process.port, VISITORS):
        pass


def keep_busy(programs: Generators, running: Running) -> None:
    """Publish `BUSY_HZ` messages a second for a minute, or as many as the broker takes."""
    for _ in range(BUSY_TIMES):
        load_generator.run(
            programs.mqtt, BUSY, running.process.port, warm_up_s=0.0, measure_s=BUSY_S
        )


@dataclass(frozen=True, slots=True)
class MemoryLoad:
    """One that changes a broker's memory.

    Attributes:
        name: as it is shown.
        put: puts it on a broker.
        comes_and_goes: true if it leaves nothing behind; a plain broker can have it too.

    """

    name: str
    put: Callable[[Generators, Running], None]
    comes_and_goes: bool = True


MEMORY_LOADS = (
    MemoryLoad(
        f"{ENDPOINTS} registrations of 4 attributes",
        lambda programs, running: register(programs, running, 1, ATTRIBUTES),
        comes_and_goes=False,
    ),
    MemoryLoad(
        f"{ENDPOINTS * LINKS:,} resources, {LINKS} of an endpoint",
        lambda programs, running: register(programs, running, LINKS),
        comes_and_goes=False,
    ),
    MemoryLoad(f"{VISITORS:,} clients came and went", visit),
    MemoryLoad(f"{BUSY_HZ:,} messages/s at QoS 0 for a minute", keep_busy),
)


def memory_table(brokers: Sequence[Compared], programs: Generators) -> Iterator[str]:
    """Give the lines of a table: memory behind each load, and what it was before."""
    names = " | ".join(one.broker.name for one in brokers)
    yield f"| RSS before and after (anonymous), MiB | {names} |"
    yield f"|---|{'--:|' * len(brokers)}"
    for load in MEMORY_LOADS:
        cells = [_memory_cell(one, load, programs) for one in brokers]
        yield f"| {load.name} | {' | '.join(cells)} |"


def _memory_cell(one: Compared, load: MemoryLoad, programs: Generators) -> str:
    if not (one.is_ours or load.comes_and_goes):
        return "-"
    with (
        own_folder() as folder,
        started(one.broker, folder, is_ours=one.is_ours) as (process, _),
    ):
        before = process.memory()
        load.put(programs, Running(process, folder))
        if load.comes_and_goes and one.is_ours:
            time.sleep(GIVEN_BACK_S)
        after = process.memory()
    return f"{before}, {after}: {after.all_mib / before.all_mib - 1:+.0%}"


@dataclass(frozen=True, slots=True)
class Rest:
    """The work of a broker of which nothing is asked.

    Attributes:
        share: of a core.
        wakes_hz: how often one of its threads wakes up, in a second.
        written_bytes: to files, in an hour.

    """

    share: float
    wakes_hz: float
    written_bytes: float

    def row(self, name: str) -> str:
        """Return a row of `rest_table`."""
        kib = self.written_bytes / 1024
        return f"| {name} | {self.share:.2%} | {self.wakes_hz:.1f} | {kib:,.0f} |"


def rest_of(process: Process, rest_s: float) -> Rest:
    """Watch a process for so long."""
    begin_s, cpu_s = time.monotonic(), process.cpu_s()
    waits, written_bytes = process.waits(), process.written_bytes()
    time.sleep(rest_s)
    cpu_s, waits = process.cpu_s() - cpu_s, process.waits() - waits
    written_bytes = process.written_bytes() - written_bytes
    took_s = time.monotonic() - begin_s
    return Rest(cpu_s / took_s, waits / took_s, written_bytes * HOUR_S / took_s)


def rest_table(brokers: Sequence[Compared], programs: Generators) -> Iterator[str]:
    """Give the lines of a table of what each broker does with idle clients and neighbours."""
    yield (
        f"| at rest with {RESTING_CLIENTS} idle clients, a gateway with two neighbours "
        "| of a core | wake-ups/s | KiB written an hour |"
    )
    yield "|---|--:|--:|--:|"
    for one in brokers:
        yield _rest(one, programs).row(one.broker.name)


def _rest(one: Compared, programs: Generators) -> Rest:
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder())
        process, _ = stack.enter_context(started(one.broker, folder, is_ours=one.is_ours))
        neighbours = [] if one.beside is None else [one.beside([process.port])] * 2
        for neighbour in neighbours:
            beside = stack.enter_context(own_folder())
            stack.enter_context(started(neighbour, beside, is_ours=True))
        stack.enter_context(
            load_generator.idle_clients(programs.mqtt, process.port, RESTING_CLIENTS)
        )
        time.sleep(SETTLED_S)
        return rest_of(process, REST_S)
