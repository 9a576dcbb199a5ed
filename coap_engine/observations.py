"""Observers, and what they are to be told when (RFC 7641).

Stated here and nowhere else:

- To an observer one confirmable notification at most is under way. What changes meanwhile
  waits, and of what waits only the newest (section 4.5.2).
- An observer is asked to confirm every so often (section 4.5). One whose address is not proven is
  asked much earlier, and until it has answered it gets nothing else: a forged address costs a few
  datagrams.
- What waits takes part in its observer's share of bytes, if it is more than a block. Where there is
  no room the observer is told so in its place, which ends the observation.
- A Reset, silence after a confirmable notification, or an error response ends an observation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Final

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapResponse
from coap_engine.observation import DEFAULT_RULES, ConfirmRules, Observation, aged
from coap_engine.share import ShareRefusal
from coap_engine.shares import Shares
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObserveOutcome:
    """The outcome of a request to observe.

    Attributes:
        refusal: there is no room. The request is answered all the same, as if it had not asked
            to observe (RFC 7641, section 4.1). None if it observes now.
        replaced: the exchange whose place it took, as it has the same peer and token; it has
            ended, and the engine says so with `ExchangeEnded`. None otherwise.

    """

    refusal: ShareRefusal | None
    replaced: int | None


UNCOUNTED_BYTES: Final = 1_024
"""A notification that waits and is no longer takes no share: how many may wait bounds those."""
_NO_ROOM: Final = CoapResponse(
    codes.SERVICE_UNAVAILABLE, (), b"too much waits to be told: acknowledge, and observe again"
)


class WaitingBody:
    """The body of a notification that waits; a `coap_engine.body_room.Holding`."""

    __slots__ = ("_give_up", "peer", "taken_bytes", "touched_at")

    def __init__(
        self, peer: CoapPeer, taken_bytes: int, now: float, give_up: Callable[[], None]
    ) -> None:
        self.peer = peer
        self.taken_bytes = taken_bytes
        self.touched_at = now
        self._give_up = give_up

    def end(self) -> None:
        """Make room for another one."""
        self._give_up()


class Notification:
    """A response to be sent now, in a message of its own.

    Args:
        exchange: of the request to observe.
        peer: the observer.
        token: of the request.
        response: what to say, whole: the engine has it cut into blocks.
        observe: the value of the Observe option; None in an error, which has none (RFC 7641,
            section 4.2).
        is_confirmable: CON, or else NON.
        is_last: the observation is over with this: `ExchangeEnded` is due.

    """

    __slots__ = (
        "exchange",
        "is_confirmable",
        "is_last",
        "observe",
        "peer",
        "response",
        "token",
    )

    def __init__(
        self,
        exchange: int,
        peer: CoapPeer,
        token: bytes,
        response: CoapResponse,
        observe: int | None,
        *,
        is_confirmable: bool,
        is_last: bool,
    ) -> None:
        self.exchange = exchange
        self.peer = peer
        self.token = token
        self.response = response
        self.observe = observe
        self.is_confirmable = is_confirmable
        self.is_last = is_last


class Observations:
    """All observers of an engine.

    How the engine uses it:

    1. A GET or FETCH with Observe 0: `register`, then `RequestReceived` with ``observe`` set if it
       was not refused. With Observe 1: `deregister`, then `RequestReceived` without.
    2. The first `respond` to an exchange that is `has`: `first_response` gives the Observe value.
    3. Each further `respond`: `notify`. What it gives is sent at once; if it is confirmable, and
       later acknowledged, `acknowledged` may give the next one. After sending, `sent` with
       the message's id.
    4. When a confirmable notification is due to be sent again, `newest` may give what to send
       instead, with the same counter and time-out of repetitions (section 4.5.2).
    5. `gave_up` when the last repetition was not answered; `reset` for each Reset that comes.
    6. `cancel` when whoever answers is done with it; `forget_peer` when a session is gone.

    Of an exchange that ended by any of these, or by a notification that is the last, nothing
    is known any more, and its share has been given back.

    Args:
        shares: each observation takes one of ``shares.observations``.
        rules: when notifications are confirmable.

    Attributes:
        silent: observations that ended as their observer did not answer, since the start.
        rejected: those that a Reset ended.

    """

    def __init__(self, shares: Shares, rules: ConfirmRules = DEFAULT_RULES) -> None:
        self.silent = 0
        self.rejected = 0
        self._share = shares.observations
        self._bodies = shares.bodies
        self._waiting_bodies: dict[int, WaitingBody] = {}
        """By exchange; only of notifications that wait."""
        self._rules = rules
        self._last_ended_number = -1
        self._by_exchange: dict[int, Observation] = {}
        self._by_token: dict[tuple[Hashable, bytes], Observation] = {}
        self._by_message: dict[tuple[Hashable, int], Observation] = {}
        self._by_address: dict[Hashable, dict[int, Observation]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_exchange)

    def has(self, exchange: int) -> bool:
        """Return whether an exchange is an observation that goes on."""
        return exchange in self._by_exchange

    def register(
        self, peer: CoapPeer, token: bytes, exchange: int, now: float, *, is_proven: bool = False
    ) -> ObserveOutcome:
        """Take a request with Observe 0; an observation of this peer and token is replaced.

        Args:
            peer: the observer.
            token: of the request.
            exchange: of the request.
            now: in seconds.
            is_proven: its address is, by an Echo (`Freshness.is_proven`), if not by its session.

        """
        before = self._by_token.get((peer.address, token))
        if before is not None:
            self._end(before)
        replaced = before.exchange if before is not None else None
        refusal = self._share.take(peer)
        if refusal is not None:
            return ObserveOutcome(refusal, replaced)
        is_proven = is_proven or peer.is_address_proven
        one = Observation(peer, token, exchange, is_proven=is_proven, now=now)
        # A token may be that of an observation that ended within this millisecond.
        one.number = self._last_ended_number
        self._by_exchange[exchange] = one
        self._by_token[peer.address, token] = one
        self._by_address.setdefault(peer.address, {})[exchange] = one
        return ObserveOutcome(None, replaced)

    def deregister(self, peer: CoapPeer, token: bytes) -> int | None:
        """End the observation of a peer by its token: the exchange that ended, if there is one."""
        return self._ended(self._by_token.get((peer.address, token)))

    def first_response(
        self, exchange: int, response: CoapResponse, now: float, *, is_confirmable: bool = False
    ) -> int | None:
        """Return the Observe value of the response to the registration.

        Args:
            exchange: of the registration.
            response: to it.
            now: in seconds.
            is_confirmable: it goes in a confirmable message of its own, so that `acknowledged` or
                `gave_up` will be called. Notifications wait until then.

        Returns:
            None if the response is an error, or nobody observes: the response has no Observe
            option, and the observation, if there was one, has ended.

        """
        one = self._by_exchange.get(exchange)
        if one is None:
            return None
        if not codes.is_success(response.code):
            self._end(one)
            return None
        one.is_of_its_format(response)
        one.is_waited_for = is_confirmable
        return one.next_number(now)

    def notify(self, exchange: int, response: CoapResponse, now: float) -> Notification | None:
        """Tell an observer: what to send now, or None if it has to wait or nobody observes.

        An error response ends the observation, as does a Content-Format other than the first
        response's, which is told as 4.06 (section 4.2). Of what waits, an error is the last.
        """
        one = self._by_exchange.get(exchange)
        if one is None:
            return None
        if not one.is_of_its_format(response):
            response = CoapResponse(codes.NOT_ACCEPTABLE)
        if not one.is_waited_for:
            return self._to_send(one, response, now)
        self._wait(one, response, now)
        return None

    def sent(self, exchange: int, message_id: int) -> None:
        """Note the id of an observation's last message, so that `reset` finds it."""
        one = self._by_exchange.get(exchange)
        if one is not None:
            self._forget_message(one)
            one.message_id = message_id
            self._by_message[one.peer.address, message_id] = one

    def acknowledged(self, exchange: int, now: float) -> Notification | None:
        """Return what waited, to be sent now: the notification under way was acknowledged."""
        one = self._by_exchange.get(exchange)
        if one is None:
            return None
        one.confirm(now)
        return self._waiting(one, now)

    def newest(self, exchange: int, now: float) -> Notification | None:
        """Return what to send instead of a repetition: what waited, confirmable.

        None if nothing did.
        """
        one = self._by_exchange.get(exchange)
        return self._waiting(one, now) if one is not None else None

    def gave_up(self, exchange: int) -> list[int]:
        """Return the exchanges that ended: a confirmable notification was not answered.

        Those are all of the observer's address, as nobody is there: each would be found out by
        as many datagrams more.
        """
        one = self._by_exchange.get(exchange)
        if one is None:
            return []
        ended = self.forget_peer(one.peer)
        self.silent += len(ended)
        return ended

    def reset(self, peer: CoapPeer, message_id: int) -> int | None:
        """Return the exchange that a Reset ended, if the message was the last of an observation."""
        ended = self._ended(self._by_message.get((peer.address, message_id)))
        if ended is not None:
            self.rejected += 1
        return ended

    def cancel(self, exchange: int) -> bool:
        """End an observation from our side without a word: whether it was going on."""
        return self._ended(self._by_exchange.get(exchange)) is not None

    def forget_peer(self, peer: CoapPeer) -> list[int]:
        """End all observations of a peer whose session is gone: the exchanges that ended."""
        of_peer = list(self._by_address.get(peer.address, {}).values())
        for one in of_peer:
            self._end(one)
        return [one.exchange for one in of_peer]

    def _wait(self, one: Observation, response: CoapResponse, now: float) -> None:
        if not one.wait(response, now):
            return
        self._let_go(one)
        size_bytes = len(response.payload)
        if size_bytes <= UNCOUNTED_BYTES:
            return
        body = WaitingBody(one.peer, size_bytes, now, partial(self._without, one))
        if self._bodies.enter(body, now, is_owed=True) is None:
            self._waiting_bodies[one.exchange] = body
        else:
            one.waiting = _NO_ROOM

    def _without(self, one: Observation) -> None:
        """Have an observer told that there was no room for what waited."""
        self._let_go(one)
        one.waiting = _NO_ROOM

    def _let_go(self, one: Observation) -> None:
        """Give back what takes a share of what waits for an observer."""
        body = self._waiting_bodies.pop(one.exchange, None)
        if body is not None:
            self._bodies.leave(body)

    def _waiting(self, one: Observation, now: float) -> Notification | None:
        response = one.waiting
        if response is None:
            return None
        one.waiting = None
        self._let_go(one)
        return self._to_send(one, aged(response, int(now - one.waiting_since)), now)

    def _to_send(self, one: Observation, response: CoapResponse, now: float) -> Notification:
        number: int | None = None
        is_last = not codes.is_success(response.code)
        if is_last:
            self._end(one)
        else:
            number = one.next_number(now)
            # What is sent instead of a repetition is confirmable as that was.
            one.is_waited_for = one.is_to_confirm(self._rules, now) or one.is_waited_for
        return Notification(
            one.exchange,
            one.peer,
            one.token,
            response,
            number,
            is_confirmable=is_last or one.is_waited_for,
            is_last=is_last,
        )

    def _ended(self, one: Observation | None) -> int | None:
        if one is None:
            return None
        self._end(one)
        return one.exchange

    def _end(self, one: Observation) -> None:
        address = one.peer.address
        self._last_ended_number = max(self._last_ended_number, one.number)
        del self._by_exchange[one.exchange]
        del self._by_token[address, one.token]
        self._forget_message(one)
        self._let_go(one)
        of_peer = self._by_address[address]
        del of_peer[one.exchange]
        if not of_peer:
            del self._by_address[address]
        self._share.give_back(one.peer)

    def _forget_message(self, one: Observation) -> None:
        key = (one.peer.address, one.message_id)
        if self._by_message.get(key) is one:
            del self._by_message[key]
