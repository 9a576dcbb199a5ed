"""The messages of remote query and their wire form (row A6).

A request is what a CoAP request asks for, less its transport (RFC 7252): method, path,
query, formats, further options and body, and who the original peer is. All messages are msgpack
maps with short keys; a reader ignores keys that it does not know. Where gateways sign, each travels
in another map beside its signature (`sealed`).
"""

from __future__ import annotations

import re
from typing import Any

import msgpack

from light_dataclasses import dataclass
from tree_handler.errors import ProtocolError
from tree_handler.members.place import check_name
from tree_handler.remote.resource import (
    ResourceRequest,
    ResourceResponse,
    check_text,
    is_number,
)
from tree_handler.unpacking import MessageSize, unpack

MAX_CORRELATION_CHARACTERS = 48
MAX_MESSAGE_BYTES = 96 * 1024
SIZE = MessageSize(MAX_MESSAGE_BYTES, 16_384, 4_096)
"""Of a message, its signature included."""
MAX_DEADLINE_MS = 600_000
MAX_LEASE_MS = 600_000
MAX_NUMBER = 2**63 - 1
_CORRELATION = re.compile(r"([0-9]{1,10})-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Publication:
    """Send this to another gateway, unlogged.

    A logged query could be repaired long after its asker gave up, and be executed then.

    Attributes:
        topic: of it.
        payload: what it says.
        waits: it must not go to all, and its receiver's place is not known: it is not sent now.

    """

    topic: str
    payload: bytes
    waits: bool = False

    @property
    def receiver(self) -> str:
        """Id of the gateway that it is for."""
        return self.topic.rpartition("/")[2]


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
        subscription: the asker's number of what it wants to be told of; 0 for an answer alone. A
            query with the number of an earlier one takes its place.
        lease_ms: for how long it wants to be told; 0 with no subscription.
        again: how often it was sent before this time.
        challenge: what its target has answered so that it repeats it; 0 for nothing.

    """

    asker: str
    correlation: str
    deadline_ms: int
    request: ResourceRequest
    target: str = ""
    target_epoch: int = 0
    asked_ms: int = 0
    subscription: int = 0
    lease_ms: int = 0
    again: int = 0
    challenge: int = 0

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
        """Return the wire form."""
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
                "n": request.options,
                "u": self.subscription,
                "l": self.lease_ms,
                "g": self.again,
                "h": self.challenge,
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
        if not is_number(deadline_ms, MAX_DEADLINE_MS) or deadline_ms == 0:
            raise ProtocolError("query deadline, ms", deadline_ms)
        lease_ms = _number("query lease, ms", fields.get("l", 0))
        subscription = _number("query subscription", fields.get("u", 0))
        if lease_ms > MAX_LEASE_MS or (lease_ms == 0) != (subscription == 0):
            raise ProtocolError("query lease, ms", lease_ms)
        return cls(
            check_name("query asker", fields.get("a")),
            check_text("query correlation", fields.get("c"), MAX_CORRELATION_CHARACTERS),
            deadline_ms,
            ResourceRequest(
                check_text("request method", fields.get("m"), 16),
                fields.get("p", ()),
                fields.get("q", ()),
                fields.get("f"),
                fields.get("x"),
                fields.get("b", b""),
                fields.get("i"),
                fields.get("o", ()),
                fields.get("n", ()),
            ),
            _optional_name("query target", fields.get("t", "")),
            _number("query target epoch", fields.get("e", 0)),
            _number("query time, ms", fields.get("s", 0)),
            subscription,
            lease_ms,
            _number("query sent before", fields.get("g", 0)),
            _number("query challenge", fields.get("h", 0)),
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A response on its way back to the gateway that asked.

    Attributes:
        responder: id of the gateway that executed the request.
        correlation: the asker's id of the query.
        response: what came of it.
        number: 0 for the first one, and one more for each that follows to a subscription.
        goes_on: others will follow.
        challenge: the request was not executed: it is to be sent again with this number, which
            shows that it is new; 0 for an answer.

    """

    responder: str
    correlation: str
    response: ResourceResponse
    number: int = 0
    goes_on: bool = False
    challenge: int = 0

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb(
            {
                "r": self.responder,
                "c": self.correlation,
                "k": self.response.code,
                "b": self.response.payload,
                "f": self.response.content_format,
                "n": self.response.options,
                "g": self.number,
                "w": self.goes_on,
                "h": self.challenge,
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
        goes_on: Any = fields.get("w", False)
        if not isinstance(goes_on, bool):
            raise ProtocolError("answer that goes on", goes_on)
        return cls(
            check_name("answer responder", fields.get("r")),
            check_text("answer correlation", fields.get("c"), MAX_CORRELATION_CHARACTERS),
            ResourceResponse(code, fields.get("b", b""), fields.get("f"), fields.get("n", ())),
            _number("answer number", fields.get("g", 0)),
            goes_on,
            _number("answer challenge", fields.get("h", 0)),
        )


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody waits for answers to a query any more.

    Attributes:
        asker: id of the gateway that asked.
        correlation: its id of the query; there is never another with it.

    """

    asker: str
    correlation: str

    def encode(self) -> bytes:
        """Return the wire form."""
        packed: bytes = msgpack.packb({"a": self.asker, "c": self.correlation})
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Cancel:
        """Read the wire form.

        Raises:
            ProtocolError: not a cancel, or a field of a wrong type or over a limit.

        """
        fields = _unpack("cancel", data)
        return cls(
            check_name("cancel asker", fields.get("a")),
            check_text("cancel correlation", fields.get("c"), MAX_CORRELATION_CHARACTERS),
        )


def sealed(body: bytes, signature: bytes) -> bytes:
    """Return a message beside its signature."""
    packed: bytes = msgpack.packb({"z": body, "y": signature})
    return packed


def opened(what: str, data: bytes) -> tuple[bytes, bytes]:
    """Return a message, and its signature; an empty one if it has none.

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
    fields = unpack(what, data, SIZE, tuples=True)
    if not isinstance(fields, dict):
        raise ProtocolError(what, fields)
    return fields


def _number(what: str, value: Any) -> int:
    if not is_number(value, MAX_NUMBER):
        raise ProtocolError(what, value)
    return int(value)


def _optional_name(what: str, value: Any) -> str:
    return "" if value == "" else check_name(what, value)
