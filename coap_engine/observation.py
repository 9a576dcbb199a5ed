"""One observer of one resource: what it was told, and what it is to confirm (RFC 7641)."""

from __future__ import annotations

from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.blocks import with_options
from coap_engine.message import CoapPeer, CoapResponse, value_of
from coap_engine.uint import decode_uint, encode_uint
from light_dataclasses import dataclass

LONGEST_UNCONFIRMED_S: Final = 24 * 3_600.0
"""No observer goes without a confirmable notification for longer (RFC 7641, section 4.5)."""

OBSERVED_BODY_BYTES: Final = 1_024
"""Of a request to observe, which is held as long as that lasts. One with a longer body is answered
once (RFC 7641, section 4.1)."""
_NUMBER_MASK: Final = (1 << 24) - 1
_DEFAULT_MAX_AGE_S: Final = 60


@dataclass(frozen=True, slots=True)
class ConfirmRules:
    """The rules for which notifications are confirmable.

    Counts are of notifications, the response to the registration not among them.

    Attributes:
        every: each such notification since the last confirmed one.
        after_s: the first one so long after the last confirmed one; at most 24 hours.
        unproven_every: like ``every``, for an observer whose address is not proven; its first
            notification is confirmable in any case.
        unproven_after_s: like ``after_s``.

    """

    every: int = 16
    after_s: float = 3_600.0
    unproven_every: int = 5
    unproven_after_s: float = 30.0


DEFAULT_RULES = ConfirmRules()


class Observation:
    """One observer of one resource.

    Args:
        peer: the observer.
        token: of its request.
        exchange: of its request.
        is_proven: its address is.
        now: in seconds.

    Attributes:
        peer, token, exchange: see above.
        is_waited_for: a confirmable message to it is under way.
        waiting: what it is to be told after that; None if nothing.
        waiting_since: when that was so.
        message_id: of the last message to it; -1 before the first.
        number: of the last notification, with the bits that are not sent; -1 before the first.

    """

    __slots__ = (
        "_confirmed_at",
        "_content_format",
        "_is_confirmed",
        "_is_format_known",
        "_is_proven",
        "_since_confirmed",
        "exchange",
        "is_waited_for",
        "message_id",
        "number",
        "peer",
        "token",
        "waiting",
        "waiting_since",
    )

    def __init__(
        self, peer: CoapPeer, token: bytes, exchange: int, *, is_proven: bool, now: float
    ) -> None:
        self.peer = peer
        self.token = token
        self.exchange = exchange
        self.number = -1
        self.is_waited_for = False
        self.waiting: CoapResponse | None = None
        self.waiting_since = now
        self.message_id = -1
        self._is_proven = is_proven
        self._is_format_known = False
        self._content_format: bytes | None = None
        self._is_confirmed = False
        self._confirmed_at = now
        self._since_confirmed = 0

    def is_of_its_format(self, response: CoapResponse) -> bool:
        """Return whether a response has the Content-Format that the first one has set."""
        if response.code != codes.CONTENT:
            return True
        content_format = value_of(response.options, option_numbers.CONTENT_FORMAT)
        if not self._is_format_known:
            self._is_format_known = True
            self._content_format = content_format
        return content_format == self._content_format

    def next_number(self, now: float) -> int:
        """Return the next Observe value: the time in milliseconds, and always more than the last.

        In 128 s no more than 2**23 of them pass, so that the client can tell the order (RFC 7641,
        section 4.4); the time has them go on where they were after a registration anew.
        """
        self.number = max(self.number + 1, int(now * 1_000.0))
        return self.number & _NUMBER_MASK

    def is_to_confirm(self, rules: ConfirmRules, now: float) -> bool:
        """Count a notification: whether it is to be confirmed."""
        self._since_confirmed += 1
        silence_s = now - self._confirmed_at
        if self._is_proven:
            after_s = min(rules.after_s, LONGEST_UNCONFIRMED_S)
            return self._since_confirmed >= rules.every or silence_s >= after_s
        return (
            not self._is_confirmed
            or self._since_confirmed >= rules.unproven_every
            or silence_s >= rules.unproven_after_s
        )

    def confirm(self, now: float) -> None:
        """The message under way was acknowledged."""
        self.is_waited_for = False
        self._is_confirmed = True
        self._confirmed_at = now
        self._since_confirmed = 0

    def wait(self, response: CoapResponse, now: float) -> bool:
        """Tell it later, in place of what waits; nothing takes the place of an error.

        Returns:
            Whether it will be told.

        """
        if self.waiting is not None and not codes.is_success(self.waiting.code):
            return False
        self.waiting = response
        self.waiting_since = now
        return True


def aged(response: CoapResponse, waited_s: int) -> CoapResponse:
    """Return a response that waited: it is fresh for so much less (RFC 7252, section 5.6.1)."""
    if waited_s <= 0 or not codes.is_success(response.code):
        return response
    value = value_of(response.options, option_numbers.MAX_AGE)
    max_age_s = _DEFAULT_MAX_AGE_S if value is None else decode_uint(value)
    others = tuple([o for o in response.options if o[0] != option_numbers.MAX_AGE])
    left = (option_numbers.MAX_AGE, encode_uint(max(0, max_age_s - waited_s)))
    return CoapResponse(response.code, with_options(others, left), response.payload)
