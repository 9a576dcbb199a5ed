"""Hellos: the BPDUs of the spanning tree in PINGREQ, and the round trips that their echoes tell."""

from __future__ import annotations

from dataclasses import field
from typing import Final, Protocol

from gateway.node.links import wire
from light_dataclasses import dataclass
from tree_handler import boot_epoch
from tree_handler.errors import ProtocolError
from tree_handler.spanning.bpdu import Bpdu

MAX_PINGS: Final = 64
"""Hellos on one link whose echo is awaited."""
MAX_BEHIND_DATA: Final = 8
"""A link that was busy for so many round trips from its start is measured by the shortest."""


class HelloLink(Protocol):
    """A link, as hellos use it."""

    @property
    def number(self) -> int:
        """This gateway's name for it."""

    @property
    def is_behind_data(self) -> bool:
        """Return whether what is sent now waits for much that was sent before."""

    def send(self, packet: bytes, /) -> None:
        """Queue one packet."""


@dataclass(slots=True)
class _Pings:
    """The hellos and round trips of one link.

    Attributes:
        sent: when a hello was sent, and if it was behind data, by number.
        busy_ms: round trips behind data, until the first that was not.
        is_measured: whether any round trip was told.
        is_leaf: the neighbour may carry nothing for others.

    """

    sent: dict[int, tuple[float, bool]] = field(default_factory=dict)
    busy_ms: list[float] = field(default_factory=list)
    is_measured: bool = False
    is_leaf: bool = False

    def sample(self, rtt_ms: float, *, is_behind_data: bool) -> float | None:
        if is_behind_data:
            if not self.is_measured:
                self.busy_ms.append(rtt_ms)
                if len(self.busy_ms) >= MAX_BEHIND_DATA:
                    shortest_ms = min(self.busy_ms)
                    self.busy_ms.clear()
                    return shortest_ms
            return None
        self.is_measured = True
        self.busy_ms.clear()
        return rtt_ms


class Hellos:
    """Sends hellos and times their echoes, for each link.

    A round trip behind data, here or there, is not told: it is longer than the way, and a tree
    that fled from a busy link would make another one busy.
    """

    def __init__(self) -> None:
        self._number = 0
        self._pings: dict[int, _Pings] = {}

    def link_up(self, link: int, *, is_leaf: bool = False) -> None:
        """Hellos may be sent over it.

        Args:
            link: its number.
            is_leaf: the neighbour's certificate is one of who carries nothing for others.

        """
        self._pings[link] = _Pings(is_leaf=is_leaf)

    def link_down(self, link: int) -> None:
        """Its echoes are awaited no more."""
        del self._pings[link]

    def send(self, link: HelloLink, bpdu: bytes, now: float) -> None:
        """Send a BPDU, with a number that the neighbour echoes."""
        self._number = (self._number + 1) % (1 << 32)
        awaited = self._pings[link.number].sent
        awaited[self._number] = (now, link.is_behind_data)
        if len(awaited) > MAX_PINGS:
            del awaited[next(iter(awaited))]
        link.send(wire.ping(self._number, bpdu))

    def answer(self, link: HelloLink, body: bytes) -> Bpdu:
        """Echo a hello's number; return its BPDU.

        Raises:
            ProtocolError: torn, no BPDU, the boot epoch in it is none, or a collector says that it
                carries messages for others.

        """
        number, packed = wire.split_ping(body)
        link.send(wire.pong(number, behind_data=link.is_behind_data))
        bpdu = Bpdu.decode(packed)
        for epoch in (bpdu.root.boot_epoch, bpdu.sender_epoch):
            boot_epoch.check(epoch)
        if self._pings[link.number].is_leaf and not bpdu.is_of_a_leaf:
            raise ProtocolError("collector that would carry messages for others", bpdu.sender)
        return bpdu

    def rtt_ms(self, link: int, body: bytes, now: float) -> float | None:
        """Return the round trip that an echo ends; None if it tells nothing of the way.

        Raises:
            ProtocolError: torn.

        """
        number, behind = wire.split_ping(body)
        pings = self._pings[link]
        sent = pings.sent.pop(number, None)
        if sent is None:
            return None
        sent_at, was_behind_data = sent
        is_behind_data = was_behind_data or bool(behind)
        return pings.sample((now - sent_at) * 1000, is_behind_data=is_behind_data)
