"""Spread of revocation lists: each gateway tells its neighbours how new its lists are.

A list proves itself by its authority's signature (`revocations`), so it does not matter who hands
it over. Neighbours say which they have (`HAVE`) when a link begins and when one is new; who lacks a
newer one asks for it (`WANT`), and it goes on from there (`LIST`). A still network says nothing.
What is refused is asked for again: it may be valid when this gateway's clock is set.
"""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgpack

from gateway.node.links.node import TreeNode
from gateway.node.signing.retry_schedule import RetrySchedule
from gateway.node.signing.revocations import Revocations
from gateway.node.signing.revoking import MAX_AUTHORITIES, MAX_BYTES, UntrustedListError
from gateway.node.signing.topics import REVOCATIONS
from gateway.trust.credentials.crl_edition import NAME_BYTES, NO_NUMBER, NUMBER_BYTES, Edition
from tree_handler.errors import ProtocolError
from tree_handler.rate_limit import RateLimit
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

UNTRUSTED_PER_S = 1 / 60
UNTRUSTED_AT_ONCE = 4
"""Bad lists of one neighbour: it is not asked for any while it has handed over more."""
ASKED_PER_S = 1.0
ASKED_AT_ONCE = 2 * MAX_AUTHORITIES
"""Lists that one neighbour is asked for."""
SIZE = MessageSize(MAX_BYTES + (1 << 14), 8 * MAX_AUTHORITIES + LATER_ELEMENTS, 64)
"""One list, or a row for each authority."""
LOOK_S = 60.0
"""While a list was refused, the wall clock is looked at so often."""

_log = logging.getLogger(__name__)


class RevocationKind(enum.IntEnum):
    """A kind of message about revocations."""

    HAVE = 0
    """Rows of an authority's name, and number and time of the sender's list of it."""
    WANT = 1
    """Names of authorities whose lists it asks for."""
    LIST = 2
    """One row: an authority's name and its list."""


class RevocationPart:
    """A `gateway.node.links.part.Part` that spreads revocation lists.

    Args:
        node: on whose links.
        kept: the lists of this gateway.
        taken: called with the neighbour's id when one of its lists is new here.
        now: the loop's time.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((REVOCATIONS,))

    def __init__(
        self,
        node: TreeNode,
        kept: Revocations,
        taken: Callable[[str], None],
        now: Callable[[], float],
    ) -> None:
        self._node = node
        self._kept = kept
        self._taken = taken
        self._peers: dict[int, str] = {}
        self._wanted: dict[int, set[bytes]] = {}
        self._untrusted = RateLimit(UNTRUSTED_PER_S, UNTRUSTED_AT_ONCE)
        self._asked = RateLimit(ASKED_PER_S, ASKED_AT_ONCE)
        self._again: RetrySchedule[tuple[int, bytes]] = RetrySchedule(kept.wall_s, now())
        """By link, and name of the authority."""
        self._look_at = math.inf

    def announce(self, but: int | None = None) -> None:
        """A list is new here: tell all neighbours but one."""
        for link in self._peers:
            if link != but:
                self._tell(link)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Tell the neighbour which revocation lists there are here."""
        self._peers[link] = peer_id
        self._tell(link)

    def link_down(self, link: int, now: float) -> None:
        """Forget what was wanted from the neighbour."""
        self._peers.pop(link, None)
        self._wanted.pop(link, None)

    def tree_changed(self, now: float) -> None:
        """Do nothing: revocation lists go over all links."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take a revocation list from a neighbour, or give it one that it wants."""
        kind, rows = unpack_message(payload)
        match kind:
            case RevocationKind.HAVE:
                self._ask(link, dict(map(_edition, rows)), now)
            case RevocationKind.WANT:
                for name in dict.fromkeys(map(_name, rows)):
                    if (der := self._kept.encoded(name)) is not None:
                        self._say(link, RevocationKind.LIST, [[name, der]])
            case RevocationKind.LIST:
                for name, der in map(_list, rows):
                    self._take(link, name, der, now)

    def next_timer(self) -> float:
        """Return when refused lists are asked for again; never, while none was refused."""
        return min(self._look_at, self._again.next_timer())

    def handle_timer(self, now: float) -> None:
        """Ask for refused lists again."""
        self._again.follow_clock(self._kept.wall_s, now)
        for link, name in self._again.take(now):
            peer_id = self._peers.get(link)
            if peer_id is not None and not self._untrusted.is_over(peer_id, now):
                self._wanted.setdefault(link, set()).add(name)
                self._say(link, RevocationKind.WANT, [name])
        self._look_at = now + LOOK_S if len(self._again) else math.inf

    def _ask(self, link: int, editions: dict[bytes, Edition], now: float) -> None:
        peer_id = self._peers.get(link, "")
        newer = [
            name
            for name, edition in editions.items()
            if self._kept.is_newer(name, edition)
            and not self._untrusted.is_over(peer_id, now)
            and self._asked.allow(peer_id, now)
        ]
        if newer:
            self._wanted.setdefault(link, set()).update(newer)
            self._say(link, RevocationKind.WANT, newer)

    def _take(self, link: int, name: bytes, der: bytes, now: float) -> None:
        peer_id, wanted = self._peers.get(link, ""), self._wanted.get(link, set())
        if name not in wanted:
            return  # nobody asked: it costs nothing more than it did
        wanted.discard(name)
        try:
            is_new = self._kept.take(name, der)
        except UntrustedListError as error:
            self._untrusted.count(peer_id, now)
            self._again.refused((link, name), now)
            self._look_at = min(self._look_at, now + LOOK_S)
            _log.warning("%s has handed over a list that is not taken: %s", peer_id, error)
            return
        if is_new:
            _log.info("a newer revocation list is taken over from %s", peer_id)
            self.announce(but=link)
            self._taken(peer_id)

    def _tell(self, link: int) -> None:
        rows = [
            [name, _number(number), int(at_s)]
            for name, (number, at_s) in self._kept.editions.items()
        ]
        if rows:
            self._say(link, RevocationKind.HAVE, rows)

    def _say(self, link: int, kind: RevocationKind, rows: Iterable[Any]) -> None:
        self._node.send(link, REVOCATIONS, msgpack.packb((int(kind), list(rows))))


def unpack_message(payload: bytes) -> tuple[RevocationKind, list[Any]]:
    """Read what a neighbour says of revocation lists; the rows are not looked at.

    Raises:
        ProtocolError: it is no such message, or over a limit.

    """
    try:
        kind, rows = unpack("message of revocations", payload, SIZE)
        if isinstance(rows, list) and len(rows) <= MAX_AUTHORITIES:
            return RevocationKind(kind), rows
    except ProtocolError:
        raise
    except (ValueError, TypeError) as error:
        raise ProtocolError("message of revocations", payload[:64]) from error
    raise ProtocolError("message of revocations", payload[:64])


def _number(number: int) -> bytes:
    return b"" if number == NO_NUMBER else number.to_bytes(NUMBER_BYTES, "big")


def _name(row: object) -> bytes:
    if not isinstance(row, bytes) or len(row) != NAME_BYTES:
        raise ProtocolError("name of an authority", row)
    return row


def _edition(row: object) -> tuple[bytes, Edition]:
    match row:
        case [name, bytes(number), int(at_s)] if len(number) <= NUMBER_BYTES:
            return _name(name), (int.from_bytes(number, "big") if number else NO_NUMBER, at_s)
    raise ProtocolError("row of a revocation list", row)


def _list(row: object) -> tuple[bytes, bytes]:
    match row:
        case [name, bytes(der)] if len(der) <= MAX_BYTES:
            return _name(name), der
    raise ProtocolError("revocation list", row)
