"""A network of namespaces: a mesh of delayed edges, or one bridge; and how it is cut.

`mesh`: a namespace for each host, and an edge of a relay's for each pair. A host has one address,
and a route to each neighbour over the edge between them. `bridge`: the hosts share a segment,
as in one building, where multicast reaches all.

A cut is a firewall's: packets from an address are dropped where they arrive, without a word, or
refused, which resets TCP connections. So a cut may be of one direction alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.mesh.namespaces import Namespace, remove_leftovers, run
from benchmarks.mesh.relay import End, Relay, Shape

RATE_MBIT = 10
"""Of each edge and direction (C8)."""
BURST = "32kbit"
QUEUE = "400ms"
"""The longest wait of a packet in a token bucket; packets that would wait longer are dropped."""


class Network:
    """Hosts and what connects them.

    Args:
        hosts: namespaces, by number from 0.
        edges: the pairs that a relay connects, in its order; none on a bridge.

    """

    def __init__(
        self, hosts: list[Namespace], edges: list[tuple[int, int]], relay: Relay | None
    ) -> None:
        self.hosts = hosts
        self.edges = edges
        self._relay = relay

    @staticmethod
    def address(host: int) -> str:
        """Return the host's only address."""
        return f"10.66.{host // 200}.{host % 200 + 1}"

    def neighbours(self, host: int) -> list[int]:
        """Return the hosts that an edge leads to."""
        return sorted({a + b - host for a, b in self.edges if host in (a, b)})

    def shape(self, a: int, b: int, shape: Shape) -> None:
        """Change the delay and loss of an edge, both ways."""
        assert self._relay is not None
        self._relay.shape(self.edges.index((min(a, b), max(a, b))), shape)

    def silence(self, source: int, to: int) -> None:
        """Drop what a host sends another, in this direction alone, without a word."""
        self._change("add", "silent", source, to)

    def unsilence(self, source: int, to: int) -> None:
        """Take `silence` back."""
        self._change("delete", "silent", source, to)

    def refuse(self, a: int, b: int) -> None:
        """Reset the connections between two hosts, and refuse new ones."""
        self._change("add", "refused", a, b)
        self._change("add", "refused", b, a)

    def unrefuse(self, a: int, b: int) -> None:
        """Take `refuse` back."""
        self._change("delete", "refused", a, b)
        self._change("delete", "refused", b, a)

    def heal(self) -> None:
        """Take all cuts back."""
        for host in self.hosts:
            host.nft("flush set inet cut silent\nflush set inet cut refused\n")

    def _change(self, how: str, what: str, source: int, to: int) -> None:
        self.hosts[to].nft(f"{how} element inet cut {what} {{ {self.address(source)} }}\n")

    def carried_bytes(self) -> int:
        """Sent so far by all hosts to each other, headers included."""
        total = 0
        for host in self.hosts:
            lines = run(*host.command("cat", "/proc/net/dev")).splitlines()
            for name, _, counts in (line.partition(":") for line in lines):
                if counts and name.strip() != "lo":
                    total += int(counts.split()[8])
        return total


def full_mesh(hosts: int) -> list[tuple[int, int]]:
    """Return an edge for each pair."""
    return list(itertools.combinations(range(hosts), 2))


@contextmanager
def mesh(
    hosts: int,
    edges: Iterable[tuple[int, int]] | None = None,
    *,
    shape: Shape | None = None,
    rate_mbit: int = RATE_MBIT,
    seed: int = 1,
) -> Iterator[Network]:
    """Yield hosts with an edge for each given pair, by default for every pair.

    Raises:
        BedError: it can't be made here; see `namespaces.why_not`.

    """
    pairs = sorted((min(e), max(e)) for e in (full_mesh(hosts) if edges is None else edges))
    shape = shape or Shape()
    with ExitStack() as stack:
        spaces = _spaces(hosts, stack)
        for number, space in enumerate(spaces):
            space.ip("address", "add", f"{Network.address(number)}/32", "dev", "lo")
        ends = [(End(spaces[a].name, f"to{b}"), End(spaces[b].name, f"to{a}")) for a, b in pairs]
        relay = Relay(ends, seed)
        stack.callback(relay.stop)
        for number, (a, b) in enumerate(pairs):
            relay.shape(number, shape)
            for here, there in ((a, b), (b, a)):
                space, device = spaces[here], f"to{there}"
                space.ip("link", "set", device, "mtu", "1500", "up")
                own, other = Network.address(here), Network.address(there)
                space.ip("route", "add", f"{other}/32", "dev", device, "src", own)
                _limit(space, device, rate_mbit)
        yield Network(spaces, pairs, relay)


@contextmanager
def bridge(hosts: int, *, rate_mbit: int = RATE_MBIT) -> Iterator[Network]:
    """Yield hosts on one segment, without a delay of its own.

    Raises:
        BedError: it can't be made here; see `namespaces.why_not`.

    """
    with ExitStack() as stack:
        spaces = _spaces(hosts, stack)
        switch = Namespace("switch")
        stack.callback(switch.remove)
        switch.ip("link", "add", "br0", "type", "bridge")
        switch.ip("link", "set", "br0", "up")
        for number, space in enumerate(spaces):
            port = f"p{number}"
            space.ip("link", "add", "eth0", "type", "veth", "peer", port, "netns", switch.name)
            switch.ip("link", "set", port, "master", "br0", "up")
            space.ip("address", "add", f"{Network.address(number)}/16", "dev", "eth0")
            space.ip("link", "set", "eth0", "up")
            _limit(space, "eth0", rate_mbit)
            _limit(switch, port, rate_mbit)
        yield Network(spaces, [], None)


def _spaces(hosts: int, stack: ExitStack) -> list[Namespace]:
    remove_leftovers()
    spaces = []
    for _ in range(hosts):
        space = Namespace("host")
        stack.callback(space.remove)
        spaces.append(space)
    return spaces


def _limit(space: Namespace, device: str, rate_mbit: int) -> None:
    bucket = ("tbf", "rate", f"{rate_mbit}mbit", "burst", BURST, "latency", QUEUE)
    run("tc", "-n", space.name, "qdisc", "add", "dev", device, "root", *bucket)
