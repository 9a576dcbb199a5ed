"""Bundles of messages, and what they would spare: ``python -m benchmarks.bundled_messages``.

Decision 44 asks each gateway itself. Here the messages of one look-up of all that go over the same
link in the same turn, or within some milliseconds, are carried as one and cut apart at its other
end, in the simulated fleets of `hedgerow simulate --subject directory --growth`. A message that is
alone is sent at once, so bundles of a turn are what links write at one time anyway
(`gateway.node.links.link`). Told are bundles as messages, their bytes and the virtual time; beside
it, by calculation over the same tree, one question for all that parts where ways part, without and
with answers that wait for each other where ways meet. Then the production classes pass messages on,
one by one as they come in one read, and in bundles, and what of a processor that takes is told.

Exit codes: 0 done; 2 a wrong argument.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, Final

import msgpack

from gateway.node.links.send_queue import SendQueue
from gateway.node.links.wire import Assembly, LinkReader, publish
from gateway.tools.directory_simulation.costs import PATIENCE_S, STEP_S, a_leaf, able, distances
from gateway.tools.directory_simulation.node import DirectoryNode
from gateway.tools.directory_simulation.world import SETTLE_S, DirectoryOptions, DirectoryWorld
from tree_handler.routing.direct import HOPS, Direct, DirectMessage
from tree_handler.routing.locator import Locator, ReachUpdate
from tree_handler.simulation.heads import HeadedGateway

GATEWAYS: Final = (10, 100)
WINDOWS_MS: Final = (0.0, 2.0, 5.0)
"""Bundles of one turn, and of so long."""
BUNDLE_BYTES_MAX: Final = 32_000
"""A bundle is one piece on a link."""
HEAD_BYTES: Final = 20
"""Bytes of a bundle beside its messages: topic and lengths."""
_KINDS: Final = ("query", "reply", "answer", "cancel")
_LINKS: Final = 3
_MESSAGES: Final = 32
_ROUNDS: Final = 9
_REPEATS: Final = 200


# -- in a simulated fleet ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Messages that go over a link together."""

    messages: tuple[object, ...]


class BundlingNode(DirectoryNode):
    """A `DirectoryNode` that bundles what it sends to one gateway alone.

    Attributes:
        window_s: seconds that messages after a first one wait for more; 0 for the end of the turn.

    """

    window_s: ClassVar[float] = 0.0

    def begin(self, gateway: HeadedGateway) -> None:
        self._bundles: dict[int, list[tuple[str, object, int]]] = {}
        super().begin(gateway)

    def _say(self, link: int, kind: str, message: object, octets: int) -> None:
        if kind not in _KINDS:
            super()._say(link, kind, message, octets)
        elif link in self._bundles:
            self._bundles[link].append((kind, message, octets))
        else:  # alone, as far as is known
            self._go(link, [(kind, message, octets)])

    def _go(self, link: int, messages: list[tuple[str, object, int]]) -> None:
        """Send these, and bundle what comes after them."""
        while messages:
            some, octets = list[object](), 0
            while messages and (not some or octets + messages[0][2] <= BUNDLE_BYTES_MAX):
                kind, message, size = messages.pop(0)
                some.append(message)
                octets += size
            if len(some) == 1:
                super()._say(link, kind, some[0], octets)
            else:
                super()._say(link, "bundle", _Bundle(tuple(some)), octets + HEAD_BYTES)
        self._bundles[link] = []
        end = self.gateway.timer(lambda _now: self._end_of_turn(link))
        end.set(self.gateway.now + self.window_s)

    def _end_of_turn(self, link: int) -> None:
        if waiting := self._bundles.pop(link):
            self._go(link, waiting)

    def took(self, link: int, message: object) -> None:
        """Take each message of a bundle as one that came alone."""
        if isinstance(message, _Bundle):
            for one in message.messages:
                super().took(link, one)
        else:
            super().took(link, message)


@dataclass(frozen=True, slots=True)
class Looked:
    """The cost of a look-up of all.

    Attributes:
        messages: on links, a bundle being one.
        octets: of them.
        seconds: of virtual time.
        busiest: messages that the busiest gateway put on links.
        found: links of resources.

    """

    messages: int
    octets: int
    seconds: float
    busiest: int
    found: int

    def __str__(self) -> str:
        amount = f"{self.messages:,} messages, {self.octets / 1e3:,.0f} KB"
        return f"{amount}, {self.seconds * 1e3:.0f} ms, the busiest {self.busiest:,}"


def look_up(gateways: int, seed: int, window_s: float | None) -> tuple[Looked, Looked, Looked]:
    """Return a look-up of all, and what it would be with one question for all (calculated), also
    with answers that wait for each other.

    Args:
        gateways: in the fleet.
        seed: of it.
        window_s: of the bundles; 0 for those of one turn, None for none.

    """
    bundles = type("_Windowed", (BundlingNode,), {"window_s": window_s or 0.0})
    node_type = DirectoryNode if window_s is None else bundles
    world_type = type("_World", (DirectoryWorld,), {"node_type": node_type})
    world: DirectoryWorld = world_type(DirectoryOptions(seed, gateways))
    world.fleet.run(SETTLE_S)
    asker = a_leaf(world)
    before = Counter(world.messages), Counter(world.octets), Counter(world.load)
    began_s, found = world.now, list[int]()
    world.look_up(asker, "scope=all", told=lambda links: found.append(len(links)))
    while not found and world.now < began_s + PATIENCE_S:
        world.fleet.run(STEP_S)
    seconds = world.now - began_s
    messages, octets = world.messages - before[0], world.octets - before[1]
    looked = Looked(
        *(messages.total(), octets.total(), seconds),
        *(max((world.load - before[2]).values(), default=0), found[0] if found else 0),
    )
    shared, gathered = _one_question(world, asker, messages, octets)
    return looked, shared, gathered


def _one_question(
    world: DirectoryWorld,
    asker: DirectoryNode,
    messages: Counter[str],
    octets: Counter[str],
) -> tuple[Looked, Looked]:
    """Reckon one signed question that parts where ways part, with the ids behind each link."""
    far = distances(world, asker.record.id)
    asked = [name for name in able(world) if name != asker.record.id]
    links = _links_on_ways(world, asker, asked)
    question = octets["query"] / max(messages["query"], 1)
    ids = sum(far[name] * (len(name) + 1) for name in asked)
    spared = messages["query"] - links
    size = octets.total() - octets["query"] + int(links * question) + ids
    return Looked(messages.total() - spared, size, 0.0, 0, 0), Looked(2 * links, size, 0.0, 0, 0)


def _links_on_ways(world: DirectoryWorld, asker: DirectoryNode, asked: Sequence[str]) -> int:
    """Return links of the tree that lead from the asker to any of those that it asks."""
    before, front = {asker.record.id: ""}, [asker.record.id]
    for at in front:
        gateway = world.nodes[at].gateway
        for link in gateway.forwarding:
            other = gateway.ends[link].peer.host.gateway_id
            if other not in before:
                before[other] = at
                front.append(other)
    led: set[str] = set()
    for name in asked:
        at = name
        while before[at] and at not in led:
            led.add(at)
            at = before[at]
    return len(led)


# -- by the production classes ---------------------------------------------------------------------


def passing_us() -> Iterator[tuple[str, float, int]]:
    """Measure what a gateway takes to pass a message on, and bytes on the link it came by.

    Yields:
        The way, microseconds of processor for a message, and bytes of all that came.

    """
    locator = Locator("gw-here", 1)
    locator.forwards(set(range(1, _LINKS + 1)))
    there = {link: f"gw-{link}" for link in range(2, _LINKS + 1)}
    for link, name in there.items():
        locator.receive(link, ReachUpdate(True, {name: 1}))
    direct = Direct("gw-here", locator)
    rows = [
        DirectMessage(there[2 + n % len(there)], HOPS, "$hedgerow/query/gw-there", bytes(210))
        for n in range(_MESSAGES)
    ]
    alone = b"".join(publish(b"$hedgerow/to", one.encode()) for one in rows)
    together = publish(b"$hedgerow/bundle", msgpack.packb([one.encode() for one in rows]))

    def one_by_one(packets: Iterator[bytes], queues: dict[int, SendQueue]) -> None:
        for payload in packets:
            found = direct.receive(1, payload)
            assert isinstance(found, tuple)
            queues[found[0]].add_control(b"$hedgerow/to", found[1])

    def bundled(packets: Iterator[bytes], queues: dict[int, SendQueue]) -> None:
        for payload in packets:
            onward: dict[int, list[bytes]] = {}
            for one in msgpack.unpackb(payload):
                found = direct.receive(1, one)
                assert isinstance(found, tuple)
                onward.setdefault(found[0], []).append(found[1])
            for link, some in onward.items():
                queues[link].add_control(b"$hedgerow/bundle", msgpack.packb(some))

    for what, came, pass_on in (
        ("one by one", alone, one_by_one),
        ("in a bundle", together, bundled),
    ):
        rounds = [_round_us(came, pass_on) for _ in range(_ROUNDS)]
        yield what, median(rounds), len(came)


def _round_us(
    came: bytes, pass_on: Callable[[Iterator[bytes], dict[int, SendQueue]], None]
) -> float:
    reader, assembly = LinkReader(1 << 20), Assembly()
    queues = {link: SendQueue() for link in range(1, _LINKS + 1)}

    def packets() -> Iterator[bytes]:
        while (packet := reader.next()) is not None:
            if (whole := assembly.add(packet)) is not None:
                yield whole.body

    begun = time.process_time()
    for _ in range(_REPEATS):
        reader.feed(came)
        pass_on(packets(), queues)
        for queue in queues.values():  # one write of each link, as at the end of a turn
            queue.take(1 << 20)
    return (time.process_time() - begun) / _REPEATS / _MESSAGES * 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it and return the exit code."""
    parser = argparse.ArgumentParser("bundled_messages", description=__doc__.partition("\n")[0])
    parser.add_argument("--gateways", type=int, nargs="+", default=GATEWAYS, metavar="N")
    parser.add_argument("--windows-ms", type=float, nargs="*", default=WINDOWS_MS, metavar="MS")
    parser.add_argument("--seed", type=int, default=1, help="of fleets (1)")
    options = parser.parse_args(arguments)
    for what, took_us, size in passing_us():
        said = f"{took_us:.1f} us of a processor each, {size:,} bytes came"
        print(f"{_MESSAGES} messages passed on {what}: {said}", flush=True)
    for gateways in options.gateways:
        for window_ms in (None, *options.windows_ms):
            began_s = time.process_time()
            window_s = None if window_ms is None else window_ms / 1e3
            looked, *shared = look_up(gateways, options.seed, window_s)
            name = "as it is" if window_ms is None else f"bundles of {window_ms:g} ms"
            spent_s = time.process_time() - began_s
            print(f"{gateways:,} gateways, {name}: {looked} ({spent_s:.0f} s)", flush=True)
            if window_s is None:
                for what, one in zip(("one question for all", "and gathered"), shared, strict=True):
                    said = f"{one.messages:,} messages, {one.octets / 1e3:,.0f} KB"
                    print(f"{gateways:,} gateways, {what} (calculated): {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
