"""Who observes what, and what they are to be told when (RFC 7641).

Stated here and nowhere else:

- To an observer one confirmable notification at most is under way. What changes meanwhile
  waits, and of what waits only the newest (section 4.5.2).
- An observer is asked to confirm every so often (section 4.5). One whose address is not proven is
  asked much earlier, and until it has answered it gets nothing else: a forged address costs a few
  datagrams.
- A Reset, silence after a confirmable notification, or an error response ends an observation.
"""

from __future__ import annotations

from dataclasses import dataclass

from coap_engine.message import CoapPeer, CoapResponse
from coap_engine.shares import ShareRefusal, Shares


@dataclass(frozen=True, slots=True)
class ConfirmRules:
    """When a notification is confirmable.

    Counts are of notifications, the response to the registration not among them.

    Attributes:
        every: each such notification since the last confirmed one.
        after_s: the first one so long after the last confirmed one; at most 24 hours (RFC 7641,
            section 4.5).
        unproven_every: like ``every``, for an observer whose address is not proven; its first
            notification is confirmable in any case.
        unproven_after_s: like ``after_s``.

    """

    every: int = 16
    after_s: float = 3_600.0
    unproven_every: int = 5
    unproven_after_s: float = 30.0


DEFAULT_RULES = ConfirmRules()


@dataclass(frozen=True, slots=True)
class Registered:
    """What became of a request to observe.

    Attributes:
        refusal: there is no room. The request is answered all the same, as if it had not asked
            to observe (RFC 7641, section 4.1). None if it observes now.
        replaced: the exchange whose place it took, as it has the same peer and token; it has
            ended, and the engine says so with `Ended`. None otherwise.

    """

    refusal: ShareRefusal | None
    replaced: int | None


@dataclass(frozen=True, slots=True)
class Notification:
    """A response to be sent now, in a message of its own.

    Attributes:
        exchange: of the request to observe.
        peer: the observer.
        token: of the request.
        response: what to say, whole: the engine has it cut into blocks.
        observe: the value of the Observe option; None in an error, which has none (RFC 7641,
            section 4.2).
        is_confirmable: CON, or else NON.
        is_last: the observation is over with this: `Ended` is due.

    """

    exchange: int
    peer: CoapPeer
    token: bytes
    response: CoapResponse
    observe: int | None
    is_confirmable: bool
    is_last: bool


class Observations:
    """All observers of an engine.

    How the engine uses it:

    1. A GET or FETCH with Observe 0: `register`, then `Asked` with ``observe`` set if it was not
       refused. With Observe 1: `deregister`, then `Asked` without.
    2. The first `respond` to an exchange that is `has`: `first_response` gives the Observe value.
    3. Each further `respond`: `notify`. What it gives is sent at once; if it is confirmable, and
       later acknowledged, `acknowledged` may give the next one. After sending, `sent` with
       the message's id.
    4. When a confirmable notification is due to be sent again, `newest` may give what to send
       instead, with the same counter and time-out of repetitions (section 4.5.2).
    5. `gave_up` when the last repetition was not answered; `reset` for each Reset that comes.
    6. `cancel` when whoever answers is done with it; `forget_peer` when a session is gone.

    Whatever says that an exchange has ended has given its share back.

    Args:
        shares: each observation takes one of ``shares.observations``.
        rules: when notifications are confirmable.

    """

    def __init__(self, shares: Shares, rules: ConfirmRules = DEFAULT_RULES) -> None:
        self._shares = shares
        self._rules = rules

    def __len__(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def has(self, exchange: int) -> bool:
        """Whether an exchange is an observation that goes on."""
        raise NotImplementedError

    def register(self, peer: CoapPeer, token: bytes, exchange: int, now: float) -> Registered:
        """Take a request with Observe 0; an observation of this peer and token is replaced."""
        raise NotImplementedError

    def deregister(self, peer: CoapPeer, token: bytes) -> int | None:
        """End the observation of a peer by its token: the exchange that ended, if there is one."""
        raise NotImplementedError

    def first_response(self, exchange: int, response: CoapResponse, now: float) -> int | None:
        """The Observe value of the response to the registration.

        None if the response is an error, or nobody observes: the response has no Observe option,
        and the observation, if there was one, has ended.
        """
        raise NotImplementedError

    def notify(self, exchange: int, response: CoapResponse, now: float) -> Notification | None:
        """Tell an observer: what to send now, or None if it has to wait or nobody observes.

        An error response ends the observation, as does a Content-Format other than the first
        response's, which is told as 4.06 (section 4.2).
        """
        raise NotImplementedError

    def sent(self, exchange: int, message_id: int) -> None:
        """Note the id of an observation's last message, so that `reset` finds it."""
        raise NotImplementedError

    def acknowledged(self, exchange: int, now: float) -> Notification | None:
        """The confirmable notification under way was acknowledged: what waited, to be sent now."""
        raise NotImplementedError

    def newest(self, exchange: int, now: float) -> Notification | None:
        """What to send instead of a repetition: what waited, confirmable; None if nothing did."""
        raise NotImplementedError

    def gave_up(self, exchange: int) -> bool:
        """No answer to a confirmable notification: it has ended, if it was going on."""
        raise NotImplementedError

    def reset(self, peer: CoapPeer, message_id: int) -> int | None:
        """A Reset came: the exchange that ended, if the message was the last of an observation."""
        raise NotImplementedError

    def cancel(self, exchange: int) -> bool:
        """End an observation from our side without a word: whether it was going on."""
        raise NotImplementedError

    def forget_peer(self, peer: CoapPeer) -> list[int]:
        """End all observations of a peer whose session is gone: the exchanges that ended."""
        raise NotImplementedError
