"""The messages of remote query and their wire form (row A6).

A request is what a CoAP request asks for, less its transport (RFC 7252): method, path,
query, formats and body, and who the original peer is. Both messages are msgpack maps with
short keys; a reader ignores keys that it does not know.
"""

from __future__ import annotations

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
MAX_DEADLINE_MS = 600_000
_CLASSES = (2, 4, 5)


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
        correlation: the asker's id of the query.
        deadline_ms: how long the asker waits from when it sent the query.
        request: what to execute.

    """

    asker: str
    correlation: str
    deadline_ms: int
    request: ResourceRequest

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
            ),
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
