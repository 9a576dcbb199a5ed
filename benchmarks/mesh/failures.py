"""Failures of a mesh, and for how long nothing arrives after each.

One try goes through all events, on one mesh: a cold start, the death of a gateway on the path,
its return, the death of the root, its return, silent cuts of an edge of the tree, healing.
Publishers and subscribers at every host go on meanwhile; what counts is the longest silence that
any subscriber noticed of any publisher, both at hosts that were up. The longest silence of a quiet
time before the event shows what is the machine's own.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.mesh.network import Network
from benchmarks.mesh.relay import Shape
from benchmarks.mesh.silences import Listening, Silence, worst

HOSTS = 5
RATE_HZ = 100.0
"""Of each publisher."""
SLOW = Shape(40.0, 2.5)
"""From the root to the last two hosts, so that they take another parent."""
QUIET_S = 1.0
"""Before each event."""
HEALED_S = 30.0
"""An edge is in use again by then, or is reported as not."""

COLD_START = "cold start: all are up -> all get all"
START = "cold start: processes started -> all are up"
DEATH = "a gateway on the path is killed"
RETURN = "it is started again"
ROOT_DEATH = "the root is killed"
ROOT_RETURN = "it is started again and is root again"
CUT = "an edge of the tree falls silent, both ways"
HEAL = "the edge heals"
CUT_DOWN = "an edge falls silent towards the child"
CUT_UP = "an edge falls silent towards the parent"
NOISE = "(nothing)"


class Mesh(Protocol):
    """A system under test: ours, or a peer."""

    network: Network

    @property
    def running(self) -> list[int]:
        """Hosts whose process runs."""

    async def start(self, host: int, *, wait: bool = True) -> None:
        """Start a process, and wait until it listens."""

    async def up(self, host: int) -> float:
        """Wait until it listens; when that was."""

    async def kill(self, host: int) -> None:
        """SIGKILL."""

    async def settled(self) -> dict[int, int | None]:
        """Wait until all that run are one mesh; the parent of each, as far as there are any."""


@dataclass
class Figures:
    """The figures of all tries, by event.

    Attributes:
        silences_ms: the worst of each try.
        orphans_ms: of all tries and all pairs one of which was an orphan: a host whose parent
            was killed.
        back_ms: from an event to what undoes it: a link that is used again, a gateway that
            gets messages again.

    """

    silences_ms: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    orphans_ms: list[float] = field(default_factory=list)
    back_ms: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class Try:
    """One pass through all events.

    Args:
        mesh: with nothing started.
        figures: those that it adds to.
        cut_s: the length of a silent cut.
        note: told what happens, as it happens.

    """

    def __init__(
        self,
        mesh: Mesh,
        figures: Figures,
        *,
        cut_s: float = 5.0,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._mesh = mesh
        self._figures = figures
        self._cut_s = cut_s
        self._note = note

    async def cold_start(self, begin: Callable[[], Awaitable[Listening]]) -> Listening:
        """Start all at once, and wait until everybody hears everybody.

        Args:
            begin: connects the traffic, which publishes from then on.

        """
        mesh, network = self._mesh, self._mesh.network
        for far in range(HOSTS - 2, HOSTS):
            network.shape(0, far, SLOW)
        for host in range(HOSTS):
            await mesh.start(host, wait=False)
        started_s = time.monotonic()
        traffic = asyncio.ensure_future(begin())
        ups = await asyncio.gather(*(mesh.up(host) for host in range(HOSTS)))
        flowing = await traffic
        while not flowing.heard_all():
            await asyncio.sleep(0.002)
        now = time.monotonic()
        self._figures.back_ms[START].append((max(ups) - started_s) * 1000)
        self._figures.back_ms[COLD_START].append((now - max(ups)) * 1000)
        return flowing

    async def events(self, traffic: Listening, *, quick: bool = False) -> None:
        """All that happens after the start; of it, if it is to be quick, what ends soon."""
        mesh, network = self._mesh, self._mesh.network
        await mesh.settled()
        await asyncio.sleep(4.0)  # round-trip times are known, and parents chosen by them
        parents = await mesh.settled()
        parent = parents.get(HOSTS - 1)
        if parent in (None, 0):
            parent = parents.get(HOSTS - 2)
        on_path = parent or 1
        self._note(f"parents {parents}; {on_path} is killed")
        heard = await self._event(
            DEATH, traffic, lambda: mesh.kill(on_path), 3.0, without=(on_path,)
        )
        orphans = {host for host, parent in parents.items() if parent == on_path}
        self._figures.orphans_ms += [
            one.seconds * 1000
            for one in heard
            if one.subscriber != one.publisher and orphans & {one.subscriber, one.publisher}
        ]
        if quick:
            await self._event(ROOT_DEATH, traffic, lambda: mesh.kill(0), 3.0, without=(0, on_path))
            return
        await self._event(RETURN, traffic, lambda: mesh.start(on_path), 4.0, without=(on_path,))
        await mesh.settled()
        await self._event(ROOT_DEATH, traffic, lambda: mesh.kill(0), 4.0, without=(0,))
        self._note(f"root killed: parents {await mesh.settled()}")
        await self._event(ROOT_RETURN, traffic, lambda: mesh.start(0), 6.0, without=(0,))
        for far in range(HOSTS - 2, HOSTS):
            network.shape(0, far, Shape())
        await asyncio.sleep(3.0)
        parents = await mesh.settled()
        child = next((c for c, p in parents.items() if p == 0), 1)
        self._note(f"parents {parents}; edge 0-{child} is cut")
        for event, directions in (
            (CUT, ((0, child), (child, 0))),
            (CUT_DOWN, ((0, child),)),
            (CUT_UP, ((child, 0),)),
        ):
            await self._event(event, traffic, _each(network.silence, directions), self._cut_s)
            healed_s = time.monotonic()
            await self._event(HEAL, traffic, _each(network.unsilence, directions), 5.0, quiet_s=0.0)
            await self._linked_again(child, healed_s)
            await asyncio.sleep(1.0)

    async def _event(
        self,
        event: str,
        traffic: Listening,
        happens: Callable[[], Awaitable[None]],
        watch_s: float,
        *,
        without: tuple[int, ...] = (),
        quiet_s: float = QUIET_S,
    ) -> list[Silence]:
        traffic.forget_arrivals()
        if quiet_s:
            began_s = time.monotonic()
            await asyncio.sleep(quiet_s)
            quiet = worst(traffic.silences(began_s, time.monotonic(), without=without))
            self._figures.silences_ms[NOISE].append(quiet.seconds * 1000)
        event_s = time.monotonic()
        await happens()
        await asyncio.sleep(watch_s)
        heard = traffic.silences(event_s, time.monotonic(), without=without)
        longest = worst(heard)
        self._figures.silences_ms[event].append(longest.seconds * 1000)
        self._note(
            f"{event}: {longest.seconds * 1000:.0f} ms from {longest.publisher} to "
            f"{longest.subscriber}, {longest.began_s:.3f} s after"
        )
        return heard

    async def _linked_again(self, child: int, healed_s: float) -> None:
        """Wait until the root is the child's parent again, if there are parents at all."""
        while time.monotonic() - healed_s < HEALED_S:
            parents = await self._mesh.settled()
            if not parents:
                return
            if parents.get(child) == 0:
                self._figures.back_ms[HEAL].append((time.monotonic() - healed_s) * 1000)
                return
            await asyncio.sleep(0.1)
        self._figures.notes.append(f"host {child} did not go back to the root in {HEALED_S} s")


def _each(
    change: Callable[[int, int], None], directions: tuple[tuple[int, int], ...]
) -> Callable[[], Awaitable[None]]:
    async def happens() -> None:
        for source, to in directions:
            change(source, to)

    return happens
