"""Requests of late, so that a repeated one is answered again and not carried out again.

Stated here and nowhere else:

- A request is remembered for as long as its repetitions may come (RFC 7252, section 4.5), unless
  there are more than the limits say: then the oldest is forgotten first.
- Strangers and authenticated peers are remembered apart, and of one peer no more than its part: no
  flood of strangers makes what an authenticated peer has asked be carried out twice, nor does one
  peer's flood that of another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from coap_engine.message import CoapPeer

_SLACK_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class RecentLimits:
    """How many requests are remembered, and how long.

    Attributes:
        of_peer: of one peer.
        of_strangers: of all strangers together.
        of_principals: of all authenticated peers together.
        confirmable_s: a confirmable one: EXCHANGE_LIFETIME.
        other_s: a non-confirmable one: NON_LIFETIME.

    """

    of_peer: int = 512
    of_strangers: int = 4_096
    of_principals: int = 4_096
    confirmable_s: float = 247.0
    other_s: float = 145.0


DEFAULT_LIMITS = RecentLimits()


class RecentRequest:
    """One of them.

    Attributes:
        address: who sent it.
        message_id: of its message.
        answer: the datagram that it was answered with, to be sent again; None so far, or if it
            was not confirmable.
        queue: where it is remembered.

    """

    __slots__ = ("address", "answer", "expires", "is_forgotten", "message_id", "queue")

    def __init__(
        self, address: Hashable, message_id: int, expires: float, queue: RecentQueue
    ) -> None:
        self.address = address
        self.message_id = message_id
        self.answer: bytes | None = None
        self.expires = expires
        self.queue = queue
        self.is_forgotten = False


class RecentQueue:
    """Those of strangers, or of authenticated peers, oldest first.

    Args:
        most: how many are remembered.

    Attributes:
        requests: with forgotten ones among them, at most as many again.
        remembered: how many of them are not forgotten.

    """

    __slots__ = ("most", "remembered", "requests")

    def __init__(self, most: int) -> None:
        self.most = most
        self.remembered = 0
        self.requests: deque[RecentRequest] = deque()

    def add(self, request: RecentRequest) -> None:
        """Remember one more."""
        if len(self.requests) > 2 * self.most:
            self.requests = deque([one for one in self.requests if not one.is_forgotten])
        self.requests.append(request)
        self.remembered += 1


class RecentRequests:
    """See the module.

    Args:
        limits: see `RecentLimits`.

    """

    def __init__(self, limits: RecentLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._of_peers: dict[Hashable, dict[int, RecentRequest]] = {}
        self._strangers = RecentQueue(limits.of_strangers)
        self._principals = RecentQueue(limits.of_principals)

    def __len__(self) -> int:
        return self._strangers.remembered + self._principals.remembered

    def find(self, peer: CoapPeer, message_id: int, now: float) -> RecentRequest | None:
        """The request that a message repeats; None if it is new."""
        of_peer = self._of_peers.get(peer.address)
        if of_peer is None:
            return None
        found = of_peer.get(message_id)
        return found if found is not None and found.expires > now else None

    def add(
        self, peer: CoapPeer, message_id: int, now: float, *, is_confirmable: bool
    ) -> RecentRequest:
        """Remember a new request."""
        limits = self._limits
        lifetime_s = limits.confirmable_s if is_confirmable else limits.other_s
        queue = self._strangers if peer.principal is None else self._principals
        request = RecentRequest(peer.address, message_id, now + lifetime_s, queue)
        of_peer = self._of_peers.get(peer.address)
        if of_peer is None:
            of_peer = self._of_peers[peer.address] = {}
        elif message_id in of_peer:
            self._forget(of_peer[message_id])
            of_peer = self._of_peers.setdefault(peer.address, {})
        elif len(of_peer) >= limits.of_peer:
            self._forget(next(iter(of_peer.values())))
        of_peer[message_id] = request
        queue.add(request)
        self._prune(queue, now)
        return request

    def forget_peer(self, peer: CoapPeer) -> None:
        """Forget what a peer has asked: its session is gone."""
        for request in list(self._of_peers.get(peer.address, {}).values()):
            self._forget(request)

    def next_timer(self) -> float | None:
        """When some may be forgotten, which is in no hurry; None if there are none."""
        due = [q.requests[0].expires for q in (self._strangers, self._principals) if q.requests]
        return min(due) + _SLACK_S if due else None

    def handle_timer(self, now: float) -> None:
        """Forget those that can't be repeated any more."""
        self._prune(self._strangers, now)
        self._prune(self._principals, now)

    def _prune(self, queue: RecentQueue, now: float) -> None:
        requests = queue.requests
        while requests:
            oldest = requests[0]
            if oldest.is_forgotten or oldest.expires <= now or queue.remembered > queue.most:
                self._forget(oldest)
                requests.popleft()
            else:
                break

    def _forget(self, request: RecentRequest) -> None:
        if request.is_forgotten:
            return
        request.is_forgotten = True
        request.answer = None
        request.queue.remembered -= 1
        of_peer = self._of_peers[request.address]
        del of_peer[request.message_id]
        if not of_peer:
            del self._of_peers[request.address]
