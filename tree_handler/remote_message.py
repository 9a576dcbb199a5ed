"""The messages of remote query and their wire form (row A6).

A request is what a CoAP request asks for, less its transport (RFC 7252): method, path,
query, formats and body, and who the original peer is. Both messages are msgpack maps with
short keys; a reader ignores keys that it does not know. Where gateways sign, each travels in
another map beside its signature (`sealed`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgpack

from tree_handler.errors import ProtocolError
from tree_handler.hierarchy import check_name

METHODS = ("GET", "POST", "PUT", "DELETE")
SAFE_METHODS = ("GET",)
"""Those that change nothing (RFC 7252, 5.1)."""
MAX_PAYLOAD_BYTES = 64 * 1024
MAX_SEGMENTS = 32
MAX_SEGMENT_BYTES = 255
"""A Uri-Path or Uri-Query option is no longer (RFC 7252, table 4)."""
MAX_IDENTITY_BYTES = 255
MAX_CORRELATION_CHARACTERS = 48
MAX_MESSAGE_BYTES = 96 * 1024
"""Of a message, its signature included."""
MAX_ROLES = 32
MAX_ROLE_CHARACTERS = 63
MAX_DEADLINE_MS = 600_000
MAX_NUMBER = 2**63 - 1
_CLASSES = (2, 4, 5)
_CORRELATION = re.compile(r"([0-9]{1,10})-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    """What to do with a resource, and on whose behalf.

    Attributes:
        method: one of `METHODS`.
        path: segments of the path at the owner.
        query: arguments, each as ``name=value`` or ``name``.
        content_format: of the payload (RFC 7252, 12.3), or None.
        accept: content format wanted, or None.
        payload: the body.
        identity: the original peer as the gateway it asked knows it; None if anonymous.
        roles: those that the gateway it asked gives it; what they count for is the owner's to say.

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

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ProtocolError("request method", self.method)
        _check_segments("request path", self.path)
        _check_segments("request query", self.query)
        _check_format("request content format", self.content_format)
        _check_format("request accept", self.accept)
        _check_payload("request payload", self.payload)
        if self.identity is not None:
            _check_text("request identity", self.identity, MAX_IDENTITY_BYTES)
        if not isinstance(self.roles, tuple) or len(self.roles) > MAX_ROLES:
            raise ProtocolError("request roles", self.roles)
        for role in self.roles:
            _check_text("request role", role, MAX_ROLE_CHARACTERS)

    @property
    def writes(self) -> bool:
        """Whether it may change the resource."""
        return self.method not in SAFE_METHODS

    def __str__(self) -> str:
        return f"{self.method} /{'/'.join(self.path)} ({len(self.payload)} bytes)"


@dataclass(frozen=True, slots=True)
class ResourceResponse:
    """What came of a request.

    Attributes:
        code: CoAP response code as a byte, class and detail: 2.05 is 0x45.
        payload: the body, or a diagnostic for an error.
        content_format: of the payload, or None.

    Raises:
        ProtocolError: a field of a wrong type or over a limit; the message names it.

    """

    code: int
    payload: bytes = b""
    content_format: int | None = None

    def __post_init__(self) -> None:
        if not _is_number(self.code, 255) or self.code >> 5 not in _CLASSES:
            raise ProtocolError("response code", self.code)
        _check_payload("response payload", self.payload)
        _check_format("response content format", self.content_format)

    def __str__(self) -> str:
        return f"{self.code >> 5}.{self.code & 31:02d} ({len(self.payload)} bytes)"


@dataclass(frozen=True, slots=True)
class Query:
    """A request on its way to the gateway that executes it.

    Attributes:
        asker: id of the gateway that waits for the answer.
        correlation: the asker's id of the query: its boot epoch, a hyphen and a number.
        deadline_ms: how long the asker waits from when it sent the query.
        request: what to execute.
        target: id of the gateway that is to execute it; empty from one that does not sign.
        target_epoch: the life of that gateway, as far as the asker knows.
        asked_ms: when it was sent, on a clock of the asker's that never goes back.

    """

    asker: str
    correlation: str
    deadline_ms: int
    request: ResourceRequest
    target: str = ""
    target_epoch: int = 0
    asked_ms: int = 0

    @property
    def numbers(self) -> tuple[int, int]:
        """The asker's boot epoch and the number of the query.

        Raises:
            ProtocolError: the correlation is not of that form.

        """
        found = _CORRELATION.fullmatch(self.correlation)
        if found is None:
            raise ProtocolError("query correlation", self.correlation)
        return int(found[1]), int(found[2])

    def encode(self) -> bytes:
        """The wire form."""
        request = self.request
        packed: bytes = msgpack.packb(
            {
                "a": self.asker,
                "c": self.correlation,
                "d": self.deadline_ms,
                "m": request.method,
                "p": request.path,
                "q": request.query,
                "f": request.content_format,
                "x": request.accept,
                "b": request.payload,
                "i": request.identity,
                "o": request.roles,
                "t": self.target,
                "e": self.target_epoch,
                "s": self.asked_ms,
            }
        )
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Query:
        """Read the wire form.

        Raises:
            ProtocolError: not a query, or a field of a wrong type or over a limit.

        """
        fields = _unpack("query", data)
        deadline_ms: Any = fields.get("d")
        if not _is_number(deadline_ms, MAX_DEADLINE_MS) or deadline_ms == 0:
            raise ProtocolError("query deadline, ms", deadline_ms)
        return cls(
            check_name("query asker", fields.get("a")),
            _check_text("query correlation", fields.get("c"), MAX_CORRELATION_CHARACTERS),
            deadline_ms,
            ResourceRequest(
                _check_text("request method", fields.get("m"), 16),
                fields.get("p", ()),
                fields.get("q", ()),
                fields.get("f"),
                fields.get("x"),
                fields.get("b", b""),
                fields.get("i"),
                fields.get("o", ()),
            ),
            _optional_name("query target", fields.get("t", "")),
            _number("query target epoch", fields.get("e", 0)),
            _number("query time, ms", fields.get("s", 0)),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A response on its way back to the gateway that asked.

    Attributes:
        responder: id of the gateway that executed the request.
        correlation: the asker's id of the query.
        response: what came of it.

    """

    responder: str
    correlation: str
    response: ResourceResponse

    def encode(self) -> bytes:
        """The wire form."""
        packed: bytes = msgpack.packb(
            {
                "r": self.responder,
                "c": self.correlation,
                "k": self.response.code,
                "b": self.response.payload,
                "f": self.response.content_format,
            }
        )
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Answer:
        """Read the wire form.

        Raises:
            ProtocolError: not an answer, or a field of a wrong type or over a limit.

        """
        fields = _unpack("answer", data)
        code: Any = fields.get("k")
        return cls(
            check_name("answer responder", fields.get("r")),
            _check_text("answer correlation", fields.get("c"), MAX_CORRELATION_CHARACTERS),
            ResourceResponse(code, fields.get("b", b""), fields.get("f")),
        )


def sealed(body: bytes, signature: bytes) -> bytes:
    """A message beside its signature."""
    packed: bytes = msgpack.packb({"z": body, "y": signature})
    return packed


def opened(what: str, data: bytes) -> tuple[bytes, bytes]:
    """A message, and its signature; an empty one if it has none.

    Args:
        what: is expected, for errors.
        data: as it came.

    Raises:
        ProtocolError: neither a message nor one beside its signature.

    """
    fields = _unpack(what, data)
    if "z" not in fields:
        return data, b""
    body, signature = fields["z"], fields.get("y")
    if not isinstance(body, bytes) or not isinstance(signature, bytes):
        raise ProtocolError(f"sealed {what}", fields)
    return body, signature


def _unpack(what: str, data: bytes) -> dict[str, Any]:
    if len(data) > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"{what} too large, bytes", len(data))
    try:
        fields = msgpack.unpackb(data, use_list=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise ProtocolError(what, data) from error
    if not isinstance(fields, dict):
        raise ProtocolError(what, fields)
    return fields


def _is_number(value: object, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high


def _number(what: str, value: Any) -> int:
    if not _is_number(value, MAX_NUMBER):
        raise ProtocolError(what, value)
    return int(value)


def _optional_name(what: str, value: Any) -> str:
    return "" if value == "" else check_name(what, value)


def _check_text(what: str, value: object, limit: int) -> str:
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
    if value is not None and not _is_number(value, 65_535):
        raise ProtocolError(what, value)


def _check_payload(what: str, value: object) -> None:
    if not isinstance(value, bytes):
        raise ProtocolError(what, value)
    if len(value) > MAX_PAYLOAD_BYTES:
        raise ProtocolError(f"{what} too large, bytes", len(value))
