"""The messages of requests and answers between gateways, written as JSON: for row A9.

The same fields as in msgpack, by Python's `json`. Bytes that are text stand there as such, as who
writes JSON by hand would do, others in base64; an envelope is a line before its message. So JSON is
given what it is good at: nothing is escaped twice.
"""

from __future__ import annotations

import base64
import json
from types import ModuleType
from typing import Any, Final

from gateway.base import build
from tree_handler.remote import message as remote_message
from tree_handler.routing import direct
from tree_handler.unpacking import MessageSize

_BYTES: Final = ("b", "z", "y")
"""Fields of messages that are bytes: bodies, and what is signed beside its signature."""
_OPTIONS: Final = "n"
_TEXT, _BASE64 = "t", "b"


class JsonMessages:
    """In the place of the `msgpack` of `tree_handler.remote.message`."""

    UnpackException = UnicodeDecodeError

    def packb(self, fields: dict[str, Any]) -> bytes:
        """Write a message."""
        return json.dumps(fields, default=_as_text, separators=(",", ":")).encode()

    def unpackb(self, data: bytes, *, use_list: bool) -> Any:
        """Read one; lists are tuples, as the messages want them.

        Raises:
            ValueError: it is none.

        """
        fields = json.loads(data)
        if not isinstance(fields, dict):
            return fields
        for name, value in fields.items():
            if name in _BYTES:
                fields[name] = _as_bytes(value)
            elif name == _OPTIONS:
                fields[name] = tuple((number, _as_bytes(one)) for number, one in value)
            elif isinstance(value, list):
                fields[name] = tuple(value)
        return fields


class JsonEnvelopes:
    """In the place of the `msgpack` of `tree_handler.routing.direct`."""

    UnpackException = UnicodeDecodeError

    def packb(self, row: list[Any]) -> bytes:
        """Write a line that says where a message goes, and the message."""
        *head, payload = row
        return json.dumps(head, separators=(",", ":")).encode() + b"\n" + bytes(payload)

    def unpackb(self, data: bytes) -> list[Any]:
        """Read both.

        Raises:
            ValueError: the line is no JSON.

        """
        head, _, payload = data.partition(b"\n")
        return [*json.loads(head), payload]


def _as_text(value: bytes) -> str:
    try:
        return _TEXT + value.decode()
    except UnicodeDecodeError:
        return _BASE64 + base64.b64encode(value).decode()


def _as_bytes(value: str) -> bytes:
    said = value[1:]
    return said.encode() if value[:1] == _TEXT else base64.b64decode(said)


def speak_json() -> None:
    """From now on read and write requests and answers of other gateways as JSON.

    Raises:
        RuntimeError: the product is compiled here, so that nothing in it can be replaced.

    """
    if "compiled" in map(build.build_of, (remote_message.__file__, direct.__file__)):
        raise RuntimeError("JSON between gateways: only where the product is not compiled")
    for module, names in replaced().items():
        module.__dict__.update(names)


def replaced() -> dict[ModuleType, dict[str, Any]]:
    """By module, what stands in the place of what reads and writes msgpack there."""
    messages, envelopes = JsonMessages(), JsonEnvelopes()

    def message(_what: str, data: bytes, _size: MessageSize, *, tuples: bool) -> Any:
        return messages.unpackb(data, use_list=not tuples)

    def envelope(_what: str, data: bytes, _size: MessageSize) -> Any:
        return envelopes.unpackb(data)

    return {
        remote_message: {"msgpack": messages, "unpack": message},
        direct: {"msgpack": envelopes, "unpack": envelope},
    }
