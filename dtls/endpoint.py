"""The server's side of one UDP port: many sessions, told apart by address (sans-I/O).

Stated here and nowhere else:

- No object of the crypto library exists for a peer that has not returned a cookie, so a flood
  of ClientHellos, from forged addresses or not, costs no memory.
- An address has at most one established session and one handshake. A ClientHello belongs to a
  handshake by its random, not by its address alone: a device that reboots begins anew from the
  same port, and its old session stays until the new one is complete (RFC 6347, section 4.2.8).
- An alert in a handshake is in clear text, so anybody may have sent it (RFC 6347, section
  4.1.2.7). It ends nothing; a handshake that does not go on after it has less time.
- Handshakes and sessions are limited apart. A host that has its part of handshakes gives up its
  oldest one, or waits while that is young. A full table of them gives up one of a host that never
  completed any, if there is one: the oldest of that which has the most, if that is many, else the
  oldest. Its peer is told, and can begin anew. A full table of sessions gives up the one that was
  silent longest.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final

from dtls.association import PeerAssociation
from dtls.context import ServerContext
from dtls.cookies import Cookies
from dtls.endpoint_limits import DEFAULT_LIMITS, EndpointCounters, EndpointLimits
from dtls.errors import DtlsRecordError, SessionClosedError
from dtls.events import Closed, DtlsEvent, Established, Failed, Moved, Received, TransportAddress
from dtls.known_hosts import KnownHosts
from dtls.moved_peers import MovedPeers
from dtls.records import (
    ALERT,
    PLAIN_INTERNAL_ERROR,
    ClientHello,
    DtlsRecord,
    hello_verify_request,
    is_client_hello,
    parse_client_hello,
    sequence_of,
    split_records,
    without_plain_alerts,
)
from dtls.session import DtlsSession, SessionState

TOO_MANY: Final = "too many handshakes"
YOUNG_S: Final = 2.0
"""So long a handshake is not given up for another one of its host."""
DOUBT_S: Final = 5.0
"""So long a handshake whose peer has sent an alert may still go on."""


def _itself(address: TransportAddress) -> Hashable:
    return address


class Endpoint:
    """All sessions of one port.

    Args:
        context: the keys.
        random_bytes: source of cookie secrets, `secrets.token_bytes` or its like.
        limits: see `EndpointLimits`.
        host_of: whose part of handshakes an address takes.

    Attributes:
        counters: see `EndpointCounters`.

    """

    def __init__(
        self,
        context: ServerContext,
        random_bytes: Callable[[int], bytes],
        limits: EndpointLimits = DEFAULT_LIMITS,
        host_of: Callable[[Any], Hashable] = _itself,
    ) -> None:
        self.counters = EndpointCounters()
        self._host_of = host_of
        self._context = context
        self._limits = limits
        self._cookies = Cookies(random_bytes)
        self._numbers = itertools.count(1)
        self._half_open: OrderedDict[TransportAddress, PeerAssociation] = OrderedDict()
        self._established: OrderedDict[TransportAddress, PeerAssociation] = OrderedDict()
        self._by_id: dict[int, PeerAssociation] = {}
        self._known_hosts = KnownHosts()
        self._moved = MovedPeers()
        self._datagrams: list[tuple[bytes, TransportAddress]] = []
        self._events: list[DtlsEvent] = []
        self._due = math.inf

    @property
    def half_open(self) -> int:
        """Handshakes under way."""
        return len(self._half_open)

    @property
    def established(self) -> int:
        """The number of sessions whose handshake is over."""
        return len(self._established)

    def receive_datagram(self, datagram: bytes, address: TransportAddress, now: float) -> None:
        """Take a datagram as it came from the network."""
        records = split_records(datagram)
        if not records:
            self.counters.malformed += 1
            return
        datagram, records, alert = without_plain_alerts(datagram, records)
        half_open = self._half_open.get(address)
        if alert and half_open is not None:
            half_open.alert = alert
            half_open.until = min(half_open.until, now + DOUBT_S)
            self._due = min(self._due, half_open.until)
        if not records:
            return
        first = records[0]
        whole = datagram[: records[-1].end]
        if is_client_hello(whole, first):
            try:
                hello = parse_client_hello(whole, first)
            except DtlsRecordError:
                self.counters.malformed += 1
                return
            self._client_hello(hello, whole, address, now)
            return
        established = self._established.get(address)
        # Alerts of a session that is to be are none of it: OpenSSL would keep a hundred for later.
        if half_open is not None and first.content_type != ALERT:
            self._feed(half_open, whole, now)
        # With both there, nothing but the keys tells whose an encrypted record is; each session
        # drops what it can't decrypt.
        if established is not None and (half_open is None or first.epoch > 0):
            said = len(self._events)
            self._feed(established, whole, now)
            if len(self._events) > said:
                return
        if half_open is None and not self._find_moved(first, whole, address, now):
            self.counters.stray += established is None

    def send(self, session_id: int, plaintext: bytes) -> None:
        """Encrypt a message for a peer.

        Raises:
            SessionClosedError: the session is gone.
            MessageTooLargeError: it would not fit into one datagram.

        """
        association = self._by_id.get(session_id)
        if association is None:
            raise SessionClosedError(f"no session {session_id}")
        association.session.send(plaintext)
        self._collect_datagrams(association)

    def end(self, session_id: int, reason: str) -> None:
        """End a session; nothing if it is gone."""
        association = self._by_id.get(session_id)
        if association is not None:
            self._drop(association, reason)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due, or before; None while there is nothing to wait for."""
        return self._due if self._half_open or self._established else None

    def handle_timer(self, now: float) -> None:
        """Repeat lost flights, give up stale handshakes and idle sessions."""
        for association in list(self._half_open.values()):
            if now >= association.until:
                self._fail(association, _silence(association))
                continue
            association.session.handle_timer(now)
            self._collect(association, now)
        while self._established:
            idlest = next(iter(self._established.values()))
            if now < idlest.active_at + self._limits.idle_s:
                break
            self._drop(idlest, "idle")
            self.counters.idle_closed += 1
        self._due = self._earliest()

    def _earliest(self) -> float:
        """Return when there is something to do.

        Most of what is waited for is over before it is due, so this is found out then, and not
        for each datagram.
        """
        due = [at for a in self._half_open.values() if (at := a.session.next_timer()) is not None]
        due += (a.until for a in self._half_open.values())
        if self._established:
            idlest = next(iter(self._established.values()))
            due.append(idlest.active_at + self._limits.idle_s)
        return min(due, default=math.inf)

    def follow(self, context: ServerContext) -> None:
        """Go by other keys from now on. Sessions stay; handshakes under way have to begin anew.

        By their keys nobody is to come in who would not come in any more.
        """
        self._context = context
        for association in list(self._half_open.values()):
            self._fail(association, "the keys have changed meanwhile")
            self._tell_to_begin_anew(association)

    def close(self) -> None:
        """End all sessions; established peers are told."""
        for table in (self._half_open, self._established):
            for association in list(table.values()):
                self._drop(association, "the server stops")

    def datagrams_to_send(self) -> list[tuple[bytes, TransportAddress]]:
        """Take what is to be sent, with its destination, in order."""
        datagrams, self._datagrams = self._datagrams, []
        return datagrams

    def events(self) -> list[DtlsEvent]:
        """Take what happened, in order."""
        events, self._events = self._events, []
        return events

    def _client_hello(
        self, hello: ClientHello, datagram: bytes, address: TransportAddress, now: float
    ) -> None:
        half_open = self._half_open.get(address)
        if half_open is not None and hello.cookie and half_open.random == hello.random:
            self._feed(half_open, datagram, now)  # sent again: our answer was lost
            return
        where = repr(address).encode()
        cookies = self._cookies
        if not (hello.cookie and cookies.check(hello.cookie, where, hello.parameters, now)):
            if hello.cookie:
                self.counters.cookies_refused += 1  # an old secret's: the client gets a new one
            cookie = self._cookies.make(where, hello.parameters, now)
            self._datagrams.append((hello_verify_request(hello, cookie), address))
            self.counters.cookies_sent += 1
            return
        established = self._established.get(address)
        if established is not None and established.random == hello.random:
            self.counters.stray += 1  # delayed on its way, the handshake is long complete
            return
        host = self._host_of(address)
        if half_open is not None:
            self._drop(half_open, "began anew")
        elif not self._has_room(host, now):
            self.counters.half_open_refused += 1
            return  # its sender tries again (RFC 6347, section 4.2.4)
        session = DtlsSession(self._context, cookie_verified=True)
        association = PeerAssociation(
            next(self._numbers), address, host, hello.random, session, now
        )
        association.until = now + self._limits.handshake_s
        self._due = min(self._due, association.until)
        self._half_open[address] = association
        self._feed(association, datagram, now)

    def _has_room(self, host: Hashable, now: float) -> bool:
        """Return whether a host may begin a handshake.

        Another one may have had to give way to it.
        """
        if len(self._half_open) < min(self._limits.half_open_of_host, self._limits.half_open):
            return True
        by_host: dict[Hashable, list[PeerAssociation]] = {}
        for association in self._half_open.values():
            by_host.setdefault(association.host, []).append(association)
        own = by_host.get(host, [])
        if len(own) >= self._limits.half_open_of_host:
            # Where many begin at once, as after a power cut, those that began first come through.
            if now < own[0].started_at + YOUNG_S:
                return False
            surplus = own[0]
        elif len(self._half_open) >= self._limits.half_open:
            surplus = self._known_hosts.surplus(by_host, self._limits.half_open_of_host // 4)
        else:
            return True
        self._drop(surplus, TOO_MANY)
        self._events.append(Failed(surplus.address, TOO_MANY))
        self._tell_to_begin_anew(surplus)
        self.counters.half_open_evicted += 1
        return True

    def _tell_to_begin_anew(self, association: PeerAssociation) -> None:
        """Else its peer would repeat its flights to one who knows nothing of it any more."""
        self._datagrams.append((PLAIN_INTERNAL_ERROR, association.address))

    def _find_moved(
        self, first: DtlsRecord, datagram: bytes, address: TransportAddress, now: float
    ) -> bool:
        """Give a record to a session whose peer had another port until now, if there is one."""
        sequence, said = sequence_of(datagram), len(self._events)
        for association in self._moved.candidates(first, sequence, self._host_of(address), now):
            if association.address == address:
                continue
            self._feed(association, datagram, now)
            if len(self._events) == said:
                continue
            if association.id in self._by_id:  # else that was its last word
                self._move(association, address)
                self._events.insert(said, Moved(association.id, address))
            return True
        return False

    def _move(self, association: PeerAssociation, address: TransportAddress) -> None:
        """Let a session be at another address; who is there by our books has lost it."""
        before = association.address
        other = self._established.pop(address, None)
        del self._established[before]
        if other is not None:  # where it is now it will show by itself
            other.address, self._established[before] = before, other
        association.address, self._established[address] = address, association
        self.counters.moved += 1

    def _feed(self, association: PeerAssociation, datagram: bytes, now: float) -> None:
        if association.alert:  # it goes on: its alert was none of its own
            association.alert = ""
            association.until = association.started_at + self._limits.handshake_s
        association.fed = sequence_of(datagram)
        association.session.receive_datagram(datagram, now)
        self._collect(association, now)

    def _collect(self, association: PeerAssociation, now: float) -> None:
        """Take what a session has to say, and note what became of it."""
        session = association.session
        self._collect_datagrams(association)
        if (due := session.next_timer()) is not None:
            self._due = min(self._due, due)
        if not association.established and session.was_established:
            self._promote(association, now)
        plaintexts = session.received()
        if association.established:
            self._events.extend(Received(association.id, plain) for plain in plaintexts)
            if plaintexts:
                association.sequence = max(association.sequence, association.fed)
                association.active_at = now
                self._established.move_to_end(association.address)
        if session.state is SessionState.CLOSED:
            if association.established:
                self._drop(association, session.reason)
            else:
                self._fail(association, session.reason)

    def _promote(self, association: PeerAssociation, now: float) -> None:
        del self._half_open[association.address]
        before = self._established.get(association.address)
        if before is not None:
            self.counters.replaced += 1
            # Its keys are gone at the peer, which would take a close_notify for damage.
            self._forget(before, "the peer began anew")
        elif len(self._established) >= self._limits.established:
            self._drop(next(iter(self._established.values())), "too many sessions")
            self.counters.established_evicted += 1
        association.established = True
        self._due = min(self._due, now + self._limits.idle_s)
        self._established[association.address] = association
        self._by_id[association.id] = association
        self._moved.add(association)
        self.counters.handshakes += 1
        self._known_hosts.add(association.host)
        identity = association.session.identity
        self._events.append(Established(association.id, association.address, identity))

    def _fail(self, association: PeerAssociation, reason: str) -> None:
        """A handshake came to nothing."""
        self.counters.handshakes_failed += 1
        self._drop(association, reason)
        self._events.append(Failed(association.address, reason))

    def _drop(self, association: PeerAssociation, reason: str) -> None:
        """Close a session and send what it has to say."""
        association.session.close(reason)
        self._collect_datagrams(association)
        self._forget(association, reason)

    def _forget(self, association: PeerAssociation, reason: str) -> None:
        if association.established:
            del self._established[association.address]
            del self._by_id[association.id]
            self._moved.remove(association)
            self._events.append(Closed(association.id, reason))
        else:
            del self._half_open[association.address]

    def _collect_datagrams(self, association: PeerAssociation) -> None:
        address = association.address
        self._datagrams.extend((d, address) for d in association.session.datagrams_to_send())


def _silence(association: PeerAssociation) -> str:
    """Return the likely reason why a handshake went no further."""
    if association.alert:
        return f"alert of the peer: {association.alert}"
    if association.session.offered:
        # What can't be decrypted is discarded (RFC 6347, section 4.1.2.7).
        return f"another key than that of psk identity {association.session.offered!r}, or silence"
    return "the handshake took too long"
