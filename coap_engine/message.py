"""Types that the engine and those above it hand to each other: peers, requests, responses.

Those that are made for each request are no dataclasses: making a frozen one takes mypyc three times
as long. Nobody changes them all the same.

Codes, option numbers and content formats are the numbers of their registries (`codes`,
`option_numbers`). Options stand as pairs of number and value, in ascending order of numbers and
as they came within one number (RFC 7252, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from light_dataclasses import dataclass

Option = tuple[int, bytes]
"""An option's number and its value as it is in a datagram."""


def value_of(options: tuple[Option, ...], number: int) -> bytes | None:
    """Return the first value of an option; None if it is not there."""
    for each, value in options:
        if each == number:
            return value
    return None


@dataclass(frozen=True, slots=True)
class CoapPeer:
    """One that messages come from: an address, or a session over DTLS.

    Two sessions are never equal, whatever their address (RFC 7252, section 9.1.2).

    Attributes:
        address: tells it from all others.
        host: whose share it takes: an IPv4 address, the /64 of an IPv6 address, or of an
            authenticated peer its identity.
        principal: who it has proven to be; None for a stranger.
        is_address_proven: what is sent to it arrives there, as a cookie of DTLS shows. To others
            no answer is longer than three times the request before an Echo (RFC 9175).

    """

    address: Hashable
    host: Hashable
    principal: str | None = None
    is_address_proven: bool = False

    def __hash__(self) -> int:
        return hash(self.address)  # it tells them apart, and each message is looked up by it


class CoapRequest:
    """A whole request: a body in blocks has been put together (RFC 7959).

    Attributes:
        code: the method, as `codes.GET`.
        options: what the resource has to know; Block1, Block2, Size1, Observe, Echo, Request-Tag,
            and No-Response are the engine's and not among them, and what is in ``route`` neither.
        payload: the body.
        observe: the client wants to be told of changes (RFC 7641); false in a deregistration.
        is_fresh: proven to be sent within the last minutes, by Echo or by the session's own
            protection against replay.
        route: who is to answer, and how far it may be: Uri-Host, Uri-Port, Hop-Limit, Proxy-Uri
            and Proxy-Scheme.
        is_still_in: returns whether who asks is still there, with the roles that it had; None where
            the policy alone tells. What had to wait asks before it changes anything.

    """

    __slots__ = ("code", "is_fresh", "is_still_in", "observe", "options", "payload", "route")

    def __init__(
        self,
        code: int,
        options: tuple[Option, ...] = (),
        payload: bytes = b"",
        observe: bool = False,
        is_fresh: bool = False,
        route: tuple[Option, ...] = (),
        is_still_in: Callable[[], bool] | None = None,
    ) -> None:
        self.code = code
        self.is_still_in = is_still_in
        self.options = options
        self.payload = payload
        self.observe = observe
        self.is_fresh = is_fresh
        self.route = route

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoapRequest) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        """Fit for a log line: no payload."""
        code = f"{self.code >> 5}.{self.code & 31:02d}"
        return f"CoapRequest({code}, {len(self.payload)} bytes)"

    def _all(self) -> tuple[object, ...]:
        return (
            self.code,
            self.options,
            self.payload,
            self.observe,
            self.is_fresh,
            self.route,
        )

    def values(self, number: int) -> list[bytes]:
        """Return all values of an option, in order."""
        return [value for each, value in self.options if each == number]

    def value(self, number: int) -> bytes | None:
        """Return the first value of an option; None if it is not there."""
        return value_of(self.options, number)


class CoapResponse:
    """A whole response; the engine cuts it into blocks where it has to.

    Attributes:
        code: as `codes.CONTENT`.
        options: Content-Format, Max-Age, ETag, Location-Path and their like; Block2, Size2 and
            Observe are the engine's.
        payload: the body, of any length up to `Limits.body_bytes`.

    """

    __slots__ = ("code", "options", "payload")

    def __init__(
        self,
        code: int,
        options: tuple[Option, ...] = (),
        payload: bytes = b"",
    ) -> None:
        self.code = code
        self.options = options
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoapResponse) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        """Fit for a log line: no payload."""
        code = f"{self.code >> 5}.{self.code & 31:02d}"
        return f"CoapResponse({code}, {len(self.payload)} bytes)"

    def _all(self) -> tuple[object, ...]:
        return (self.code, self.options, self.payload)


class RequestReceived:
    """A request is to be answered with `Engine.respond`, once.

    If `CoapRequest.observe` is set and the answer is a success that is not said to be the last,
    later answers to the same exchange are notifications, until `ExchangeEnded` comes.
    """

    __slots__ = ("exchange", "peer", "request")

    def __init__(
        self,
        exchange: int,
        peer: CoapPeer,
        request: CoapRequest,
    ) -> None:
        self.exchange = exchange
        self.peer = peer
        self.request = request

    def __repr__(self) -> str:
        return f"RequestReceived({self.exchange}, {self.peer}, {self.request})"


@dataclass(frozen=True, slots=True)
class ExchangeEnded:
    """Nobody waits for answers to an exchange any more: do not answer it again.

    It comes for exchanges that were answered only if they are observations.
    """

    exchange: int
    reason: str


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """A response to a request of our own, from `Engine.request`."""

    exchange: int
    response: CoapResponse


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request of our own got no response: time-out, Reset, or the peer is gone."""

    exchange: int
    reason: str


CoapEvent = RequestReceived | ExchangeEnded | ResponseReceived | RequestFailed
