"""Requests to a resource of another gateway, and the responses.

That is what a CoAP request asks for, less its transport (RFC 7252): method, path, query, formats,
further options and body, and who the original peer is. What is made of values of another kind, or
over a limit, raises: they come from other gateways.
"""

from __future__ import annotations

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.remote.options import (
    NO_OPTIONS,
    REQUEST_OPTIONS,
    RESPONSE_OPTIONS,
    RemoteOption,
    check_options,
)

METHODS = ("GET", "POST", "PUT", "DELETE", "FETCH", "PATCH", "iPATCH")
SAFE_METHODS = ("GET", "FETCH")
"""Those that change nothing (RFC 7252, 5.1; RFC 8132, 2)."""
MAX_PAYLOAD_BYTES = 64 * 1024
MAX_SEGMENTS = 32
MAX_SEGMENT_BYTES = 255
"""A Uri-Path or Uri-Query option is no longer (RFC 7252, table 4)."""
MAX_IDENTITY_BYTES = 255
MAX_ROLES = 32
MAX_ROLE_CHARACTERS = 63
_CLASSES = (2, 4, 5)


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """A request for a resource of another gateway, and on whose behalf it is made.

    Attributes:
        method: one of `METHODS`.
        path: segments of the path at the owner.
        query: arguments, each as ``name=value`` or ``name``.
        content_format: of the payload (RFC 7252, 12.3), or None.
        accept: content format wanted, or None.
        payload: the body.
        identity: the original peer as the gateway it asked knows it; None if anonymous.
        roles: those that the gateway it asked gives it; what they count for is the owner's to say.
        options: further ones, of `REQUEST_OPTIONS`.

    Raises:
        ProtocolError: a field of a wrong type or over a limit; the message names it.

    """

    method: str
    path: tuple[str, ...]
    query: tuple[str, ...] = ()
    content_format: int | None = None
    accept: int | None = None
    payload: bytes = b""
    identity: str | None = None
    roles: tuple[str, ...] = ()
    options: tuple[RemoteOption, ...] = NO_OPTIONS

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ProtocolError("request method", self.method)
        _check_segments("request path", self.path)
        check_path("request path", self.path)
        _check_segments("request query", self.query)
        _check_format("request content format", self.content_format)
        _check_format("request accept", self.accept)
        _check_payload("request payload", self.payload)
        if self.identity is not None:
            check_text("request identity", self.identity, MAX_IDENTITY_BYTES)
        if not isinstance(self.roles, tuple) or len(self.roles) > MAX_ROLES:
            raise ProtocolError("request roles", self.roles)
        for role in self.roles:
            check_text("request role", role, MAX_ROLE_CHARACTERS)
        check_options("request", self.options, REQUEST_OPTIONS)

    @property
    def writes(self) -> bool:
        """Return whether it may change the resource."""
        return self.method not in SAFE_METHODS

    def __str__(self) -> str:
        return f"{self.method} /{'/'.join(self.path)} ({len(self.payload)} bytes)"


@dataclass(frozen=True, slots=True)
class ResourceResponse:
    """A response to a request for a resource.

    Attributes:
        code: CoAP response code as a byte, class and detail: 2.05 is 0x45.
        payload: the body, or a diagnostic for an error.
        content_format: of the payload, or None.
        options: further ones, of `RESPONSE_OPTIONS`.

    Raises:
        ProtocolError: a field of a wrong type or over a limit; the message names it.

    """

    code: int
    payload: bytes = b""
    content_format: int | None = None
    options: tuple[RemoteOption, ...] = NO_OPTIONS

    def __post_init__(self) -> None:
        if not is_number(self.code, 255) or self.code >> 5 not in _CLASSES:
            raise ProtocolError("response code", self.code)
        _check_payload("response payload", self.payload)
        _check_format("response content format", self.content_format)
        check_options("response", self.options, RESPONSE_OPTIONS)

    @property
    def is_success(self) -> bool:
        """Return whether its code is of class 2."""
        return self.code >> 5 == 2

    def __str__(self) -> str:
        return f"{self.code >> 5}.{self.code & 31:02d} ({len(self.payload)} bytes)"


def check_path(what: str, segments: tuple[str, ...]) -> None:
    """Check that no segment can be taken for more or less than one segment of a path.

    Raises:
        ProtocolError: one is empty, a dot segment (RFC 7252, 5.10.1), or has a slash or a
            character that is not for people.

    """
    for segment in segments:
        if segment in ("", ".", "..") or "/" in segment or not segment.isprintable():
            raise ProtocolError(what, segments)


def is_number(value: object, high: int) -> bool:
    """Return whether a value is a number from 0 to a bound."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high


def check_text(what: str, value: object, limit: int) -> str:
    """Check that a value is a text of a bounded length, in bytes.

    Raises:
        ProtocolError: it is none, is empty or longer.

    """
    if not isinstance(value, str) or not value or _size(what, value) > limit:
        raise ProtocolError(what, value)
    return value


def _check_segments(what: str, values: object) -> None:
    if not isinstance(values, tuple) or len(values) > MAX_SEGMENTS:
        raise ProtocolError(what, values)
    for value in values:
        if not isinstance(value, str) or _size(what, value) > MAX_SEGMENT_BYTES:
            raise ProtocolError(what, value)


def _size(what: str, value: str) -> int:
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise ProtocolError(what, value) from error


def _check_format(what: str, value: object) -> None:
    if value is not None and not is_number(value, 65_535):
        raise ProtocolError(what, value)


def _check_payload(what: str, value: object) -> None:
    if not isinstance(value, bytes):
        raise ProtocolError(what, value)
    if len(value) > MAX_PAYLOAD_BYTES:
        raise ProtocolError(f"{what} too large, bytes", len(value))
