"""Requests of late, so that a repeated one is answered again and not carried out again.

Stated here and nowhere else:

- A request is remembered for as long as its repetitions may come (RFC 7252, section 4.5), unless
  there are more of them, or more bytes of answers to them, than the limits say: then the oldest is
  forgotten first.
- Requests that change something are remembered apart from those that only read, which may be
  carried out twice (RFC 7252, sections 4.5 and 5.1): no number of reads makes a write be carried
  out again.
- Strangers and authenticated peers are remembered apart, and of one host (or authenticated peer) no
  more than its part: no flood of strangers makes what an authenticated peer has asked be carried
  out twice, nor does one host's flood, from however many ports, that of another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final

from coap_engine.message import CoapPeer
from coap_engine.retransmission import EXCHANGE_LIFETIME_S, NON_LIFETIME_S
from light_dataclasses import dataclass

_SLACK_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class RecentLimits:
    """The limits of what is remembered of requests: how many, how much of answers, how long.

    Of those that change something and of those that only read it is so much each.

    Attributes:
        of_host: of one stranger's host, or of one authenticated peer.
        of_strangers: of all strangers together.
        of_principals: of all authenticated peers together.
        host_bytes: answers to one host, or authenticated peer.
        all_bytes: answers to all strangers together, and as much to authenticated peers.
        confirmable_s: a confirmable one.
        other_s: a non-confirmable one.

    """

    of_host: int = 512
    of_strangers: int = 4_096
    of_principals: int = 4_096
    host_bytes: int = 256 << 10
    all_bytes: int = 2 << 20
    confirmable_s: float = EXCHANGE_LIFETIME_S
    other_s: float = NON_LIFETIME_S


DEFAULT_LIMITS = RecentLimits()


class RecentRequest:
    """One of them.

    Attributes:
        host: whose part it takes.
        key: the address that sent it, and the id of its message.
        answer: the datagram that it was answered with, to be sent again; None so far, or if it
            was not confirmable.
        expires: until when it is remembered, in seconds.
        is_forgotten: it is not remembered any more.

    """

    __slots__ = ("_queue", "answer", "expires", "host", "is_forgotten", "key")

    def __init__(self, peer: CoapPeer, message_id: int, expires: float, queue: RecentQueue) -> None:
        self.host = peer.host
        self.key = (peer.address, message_id)
        self.answer: bytes | None = None
        self.expires = expires
        self.is_forgotten = False
        self._queue = queue

    def answered(self, datagram: bytes) -> None:
        """Remember what it was answered with, which may make room by forgetting others."""
        if not self.is_forgotten:
            self._queue.answered(self, datagram)


class _OfHost:
    """Those of one host, oldest first."""

    __slots__ = ("answer_bytes", "requests")

    def __init__(self) -> None:
        self.answer_bytes = 0
        self.requests: dict[tuple[Hashable, int], RecentRequest] = {}


class RecentQueue:
    """Those of strangers, or of authenticated peers.

    Args:
        most: how many are remembered.
        limits: of each host, and of answers.

    Attributes:
        remembered: how many there are.

    """

    __slots__ = ("_answer_bytes", "_hosts", "_limits", "_most", "_requests", "remembered")

    def __init__(self, most: int, limits: RecentLimits) -> None:
        self.remembered = 0
        self._most = most
        self._limits = limits
        self._answer_bytes = 0
        self._hosts: dict[Hashable, _OfHost] = {}
        # Oldest first, with forgotten ones among them: at most as many again.
        self._requests: deque[RecentRequest] = deque()

    def find(self, peer: CoapPeer, message_id: int, now: float) -> RecentRequest | None:
        """Return the request that a message repeats; None if it is new."""
        of_host = self._hosts.get(peer.host)
        if of_host is None:
            return None
        found = of_host.requests.get((peer.address, message_id))
        return found if found is not None and found.expires > now else None

    def add(
        self, peer: CoapPeer, message_id: int, now: float, *, is_confirmable: bool
    ) -> RecentRequest:
        """Remember one more."""
        limits = self._limits
        expires = now + (limits.confirmable_s if is_confirmable else limits.other_s)
        if len(self._requests) > 2 * self._most:
            self._requests = deque([one for one in self._requests if not one.is_forgotten])
        request = RecentRequest(peer, message_id, expires, self)
        of_host = self._hosts.get(peer.host)
        if of_host is not None:
            before = of_host.requests.get(request.key)
            if before is not None:
                self._forget(before)
            elif len(of_host.requests) >= limits.of_host:
                self._forget(next(iter(of_host.requests.values())))
            of_host = self._hosts.get(peer.host)  # it goes with the last of its requests
        if of_host is None:
            of_host = self._hosts[peer.host] = _OfHost()
        of_host.requests[request.key] = request
        self._requests.append(request)
        self.remembered += 1
        self.prune(now)
        return request

    def answered(self, request: RecentRequest, datagram: bytes) -> None:
        """Remember a request's answer: it goes first, if nothing else is left to make room."""
        more = len(datagram) - (0 if request.answer is None else len(request.answer))
        request.answer = datagram
        of_host = self._hosts[request.host]
        of_host.answer_bytes += more
        self._answer_bytes += more
        while of_host.answer_bytes > self._limits.host_bytes:
            self._forget(next(iter(of_host.requests.values())))
        while self._answer_bytes > self._limits.all_bytes:
            self._forget(self._requests.popleft())

    def forget_peer(self, peer: CoapPeer) -> None:
        """Forget what one address of a host has asked."""
        of_host = self._hosts.get(peer.host)
        if of_host is not None:
            address = peer.address
            for request in [one for key, one in of_host.requests.items() if key[0] == address]:
                self._forget(request)

    def prune(self, now: float) -> None:
        """Forget those that can't be repeated any more, and the oldest where there are too many."""
        requests = self._requests
        while requests:
            oldest = requests[0]
            if not (oldest.is_forgotten or oldest.expires <= now or self.remembered > self._most):
                return
            self._forget(oldest)
            requests.popleft()

    def next_expiry(self) -> float | None:
        """Return when the oldest one can't be repeated any more; None if there is none."""
        return self._requests[0].expires if self._requests else None

    def _forget(self, request: RecentRequest) -> None:
        if request.is_forgotten:
            return
        request.is_forgotten = True
        self.remembered -= 1
        of_host = self._hosts[request.host]
        del of_host.requests[request.key]
        if request.answer is not None:
            self._answer_bytes -= len(request.answer)
            of_host.answer_bytes -= len(request.answer)
            request.answer = None
        if not of_host.requests:
            del self._hosts[request.host]


class RecentRequests:
    """The requests that were answered lately, so that a repeated one gets the same answer.

    Args:
        limits: see `RecentLimits`.

    Attributes:
        queues: those among which a request is remembered, by whether a stranger sent it and whether
            it only reads (GET and FETCH).

    """

    def __init__(self, limits: RecentLimits = DEFAULT_LIMITS) -> None:
        self.queues = {
            (is_stranger, is_read): RecentQueue(
                limits.of_strangers if is_stranger else limits.of_principals, limits
            )
            for is_stranger in (False, True)
            for is_read in (False, True)
        }

    def __len__(self) -> int:
        return sum([queue.remembered for queue in self.queues.values()])

    def forget_peer(self, peer: CoapPeer) -> None:
        """Forget what a peer has asked: its session is gone."""
        for queue in self.queues.values():
            queue.forget_peer(peer)

    def next_timer(self) -> float | None:
        """Return when some may be forgotten, which is in no hurry; None if there are none."""
        due: float | None = None
        for queue in self.queues.values():
            expiry = queue.next_expiry()
            if expiry is not None and (due is None or expiry < due):
                due = expiry
        return None if due is None else due + _SLACK_S

    def handle_timer(self, now: float) -> None:
        """Forget those that can't be repeated any more."""
        for queue in self.queues.values():
            queue.prune(now)
