"""Spread of certificates to all gateways: each tells its neighbours which it has.

A certificate proves itself by the fleet's authority (`trust`), so it does not matter who hands it
over, and what is handed over and proves nothing is dropped. A link begins with the gateway's own
chain, which so goes ahead of what the gateway signed; then with the names of all that it has
(`HAVE`). What is lacking is asked for (`WANT`), and what is new goes on to the other neighbours
(`CHAINS`). A still network says nothing of it.

What gateways state of their former keys (`former_keys`) goes the same way, by its own fingerprints
among those of certificates (`HAVE`). A gateway of an earlier release, which does not know of it,
asks for these too; only who says that it reads them is sent them (`READS_FORMER`, `FORMER`).

What is refused may be believed later, for instance when this gateway's clock is set: it is asked
for again (`retry_schedule`).
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import msgpack

from gateway.node.links.node import TreeNode
from gateway.node.signing.fleet_keys import FleetKeys
from gateway.node.signing.former_keys import MAX_STATEMENT_BYTES, statement_fingerprint
from gateway.node.signing.retry_schedule import RetrySchedule
from gateway.node.signing.ring import FINGERPRINT_BYTES, fingerprint_of
from gateway.node.signing.topics import CERTIFICATES
from gateway.node.signing.trust import MAX_CERTIFICATE_BYTES, MAX_CHAIN, Chain, UntrustedError
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name
from tree_handler.rate_limit import RateLimit
from tree_handler.unpacking import LATER_ELEMENTS, MessageSize, unpack

MAX_ROWS = 1_000
"""In one message."""
ANSWER_BYTES = 32 * 1024
"""A message of chains ends when it is so large."""
SIZE = MessageSize(1 << 17, MAX_ROWS * (2 + MAX_CHAIN) + LATER_ELEMENTS, MAX_ROWS)
"""An answer with the longest chain at its end, or the names of so many gateways."""
SAVE_S = 5.0
"""A new certificate is in the file so long after it came."""
LOOK_S = 60.0
"""So often the wall clock is looked at: certificates end."""
READS_FORMER = b"reads former 1\0\0"
"""In the place of a fingerprint: who asks reads `CertificateKind.FORMER`."""
MAX_UNKNOWN = 1_000
"""Gateways whose certificates are looked for."""
UNTRUSTED_PER_S = 1.0
UNTRUSTED_AT_ONCE = 32
"""Of one neighbour: checking costs more than sending does."""

_log = logging.getLogger(__name__)


class CertificateKind(enum.IntEnum):
    """A kind of message about certificates."""

    HAVE = 0
    """Fingerprints of what the sender has."""
    WANT = 1
    """Fingerprints of what it asks for."""
    WANT_OF = 2
    """Gateways of whose certificates it asks for all."""
    CHAINS = 3
    FORMER = 4
    """Statements of gateways on their former keys; only to who has said `READS_FORMER`."""


class CertificatePart:
    """A `gateway.node.links.part.Part` that spreads certificates.

    Args:
        node: on whose links.
        keys: this gateway's, and what it has of others.
        now: the loop's time.

    """

    topics: ClassVar[frozenset[bytes]] = frozenset((CERTIFICATES,))

    def __init__(self, node: TreeNode, keys: FleetKeys, now: Callable[[], float]) -> None:
        self._node = node
        self._keys = keys
        self._now = now
        self._asked = RateLimit(1.0, 3)
        self._untrusted = RateLimit(UNTRUSTED_PER_S, UNTRUSTED_AT_ONCE)
        self._unknown: dict[str, None] = {}
        self._again: RetrySchedule[bytes] = RetrySchedule(keys.wall_s, now())
        self._save_at = float("inf")
        self._look_at = now() + LOOK_S

    def unknown(self, gateway_id: str, link: int) -> None:
        """Something is signed by a key of a gateway that nobody here knows: ask who sent it."""
        self._unknown[gateway_id] = None
        if len(self._unknown) > MAX_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]
        if self._asked.allow(gateway_id, self._now()):
            self._say(link, CertificateKind.WANT_OF, [gateway_id])

    def renewed(self) -> None:
        """This gateway's own certificate may be another one now: tell all neighbours."""
        own = self._keys.statement
        for link in self._node.links:
            self._say(link, CertificateKind.CHAINS, [self._keys.chain])
            if own is not None:
                self._say(link, CertificateKind.HAVE, [own.fingerprint])
        self._save_at = min(self._save_at, self._now() + SAVE_S)

    def link_up(self, link: int, peer_id: str, now: float) -> None:
        """Send the neighbour this gateway's certificate, and the names of all that it has."""
        self._follow_time(now)  # a clock that was wrong at the start may have been set since
        self._say(link, CertificateKind.CHAINS, [self._keys.chain])
        ring = self._keys.ring
        names = [fingerprint for fingerprint, _ in (*ring, *ring.former)]
        for at in range(0, len(names), MAX_ROWS):
            self._say(link, CertificateKind.HAVE, names[at : at + MAX_ROWS])

    def link_down(self, link: int, now: float) -> None:
        """Do nothing: nothing is kept of a link."""

    def tree_changed(self, now: float) -> None:
        """Do nothing: certificates go over all links."""

    def receive(self, link: int, topic: bytes, payload: bytes, now: float) -> None:
        """Take certificates and statements from a neighbour, or give it those it wants."""
        kind, rows = unpack_message(payload)
        ring = self._keys.ring
        match kind:
            case CertificateKind.HAVE:
                told = map(_fingerprint, rows)
                wanted = [one for one in told if one not in ring and one not in ring.former]
                for at in range(0, len(wanted), MAX_ROWS - 1):
                    some = [READS_FORMER, *wanted[at : at + MAX_ROWS - 1]]
                    self._say(link, CertificateKind.WANT, some)
            case CertificateKind.WANT:
                self._answer(link, set(map(_fingerprint, rows)))
            case CertificateKind.WANT_OF:
                for name in dict.fromkeys(check_name("gateway", row) for row in rows):
                    self._send(link, ring.chains_of(name))
            case CertificateKind.CHAINS:
                self._take(link, [_chain(row) for row in rows], now)
            case CertificateKind.FORMER:
                self._take_statements(link, [_statement(row) for row in rows], now)

    def next_timer(self) -> float:
        """Return when certificates are saved, asked for again, or judged by the clock."""
        return min(self._save_at, self._look_at, self._again.next_timer())

    def handle_timer(self, now: float) -> None:
        """Save certificates, ask for refused ones again, and follow the clock."""
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._follow_time(now)
        self._ask_again(now)
        if now >= self._save_at:
            self._save_at = float("inf")
            self._keys.save()

    def _take(self, link: int, chains: list[Chain], now: float) -> None:
        new: list[Chain] = []
        learnt: set[str] = set()
        for chain in chains:
            if self._untrusted.is_over(str(link), now):
                self._again.refused(fingerprint_of(chain), now)
                continue
            try:
                gateway_id = self._keys.ring.add(chain)
            except UntrustedError as error:
                self._untrusted.count(str(link), now)
                self._again.refused(fingerprint_of(chain), now)
                _log.debug("link %d: a certificate is not believed: %s", link, error)
                continue
            if gateway_id is not None:
                new.append(chain)
                learnt.add(gateway_id)
        if not new:
            return
        for other in self._node.links:
            if other != link:
                self._send(other, new)
        self._learnt(learnt, now)

    def _answer(self, link: int, asked: set[bytes]) -> None:
        """Send certificates, then what is stated under them."""
        ring = self._keys.ring
        self._send(link, (chain for one, chain in ring if one in asked))
        if READS_FORMER in asked:
            wanted = ((stated.data,) for one, stated in ring.former if one in asked)
            for some in _pieces(wanted):
                self._say(link, CertificateKind.FORMER, [data for (data,) in some])

    def _take_statements(self, link: int, statements: list[bytes], now: float) -> None:
        learnt: set[str] = set()
        for data in statements:
            if self._untrusted.is_over(str(link), now):
                self._again.refused(statement_fingerprint(data), now)
                continue
            try:
                gateway_id = self._keys.ring.take_statement(data)
            except UntrustedError as error:
                self._untrusted.count(str(link), now)
                self._again.refused(statement_fingerprint(data), now)
                _log.debug("link %d: a statement is not believed: %s", link, error)
                continue
            if gateway_id is not None:
                learnt.add(gateway_id)
        former = self._keys.ring.former
        names = [one for one, stated in former if stated.gateway_id in learnt]
        if names:
            for other in self._node.links:
                if other != link:
                    self._say(other, CertificateKind.HAVE, names)
            self._learnt(learnt, now)

    def _learnt(self, gateway_ids: set[str], now: float) -> None:
        """More is known of the keys of these: ask again for what they have signed."""
        self._save_at = min(self._save_at, now + SAVE_S)
        self._again.more_is_known(now)
        self._ask_anew(gateway_ids, now)

    def _ask_anew(self, gateway_ids: Iterable[str], now: float) -> None:
        asked = self._unknown.keys() & set(gateway_ids)
        for gateway_id in asked:
            del self._unknown[gateway_id]
        if asked:
            self._node.exchange.take(self._node.replication.repair.ask_anew(now))

    def _follow_time(self, now: float) -> None:
        """Look at the wall clock: what counted may count no more, and the other way round."""
        stated = self._keys.statement
        self._keys.follow_time()
        if not self._again.follow_clock(self._keys.wall_s, now):
            return
        self._keys.clock_was_set()
        own = self._keys.statement
        if own is not None and own is not stated:
            for link in self._node.links:
                self._say(link, CertificateKind.HAVE, [own.fingerprint])
        self._ask_anew(list(self._unknown), now)

    def _ask_again(self, now: float) -> None:
        names = self._again.take(now)
        for at in range(0, len(names), MAX_ROWS - 1):
            for link in self._node.links:
                some = [READS_FORMER, *names[at : at + MAX_ROWS - 1]]
                self._say(link, CertificateKind.WANT, some)

    def _send(self, link: int, chains: Iterable[Chain]) -> None:
        for some in _pieces(chains):
            self._say(link, CertificateKind.CHAINS, some)

    def _say(self, link: int, kind: CertificateKind, rows: Iterable[Any]) -> None:
        self._node.send(link, CERTIFICATES, msgpack.packb((int(kind), list(rows))))


def _pieces(chains: Iterable[Chain]) -> Iterator[list[Chain]]:
    piece: list[Chain] = []
    size = 0
    for chain in chains:
        piece.append(chain)
        size += sum(map(len, chain))
        if size >= ANSWER_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def unpack_message(payload: bytes) -> tuple[CertificateKind, list[Any]]:
    """Read what a neighbour says of certificates; the rows are not looked at.

    Raises:
        ProtocolError: it is no such message, or over a limit.

    """
    try:
        kind, rows = unpack("message of certificates", payload, SIZE)
        if isinstance(rows, list) and len(rows) <= MAX_ROWS:
            return CertificateKind(kind), rows
    except ProtocolError:
        raise
    except (ValueError, TypeError) as error:
        raise ProtocolError("message of certificates", payload[:64]) from error
    raise ProtocolError("message of certificates", payload[:64])


def _fingerprint(row: object) -> bytes:
    if not isinstance(row, bytes) or len(row) != FINGERPRINT_BYTES:
        raise ProtocolError("fingerprint of a certificate", row)
    return row


def _statement(row: object) -> bytes:
    if not isinstance(row, bytes) or len(row) > MAX_STATEMENT_BYTES:
        raise ProtocolError("statement of former keys", row)
    return row


def _chain(row: object) -> Chain:
    if (
        not isinstance(row, list)
        or not 0 < len(row) <= MAX_CHAIN
        or not all(isinstance(one, bytes) and len(one) <= MAX_CERTIFICATE_BYTES for one in row)
    ):
        raise ProtocolError("chain of certificates", row)
    return tuple(row)
