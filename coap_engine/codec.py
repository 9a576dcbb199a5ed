"""Messages from datagrams and back (RFC 7252, section 3).

All bounds are checked before what they bound is allocated: a datagram of nothing but empty options
is given up at the first one too many.
"""

from __future__ import annotations

from typing import Final

from coap_engine.errors import MessageFormatError
from coap_engine.message import Option
from light_dataclasses import dataclass

CON: Final = 0
NON: Final = 1
ACK: Final = 2
RST: Final = 3

EMPTY: Final = 0
"""The code of a message without request or response."""

_HEADER_BYTES: Final = 4
_TOKEN_BYTES_MAX: Final = 8
_PAYLOAD_MARKER: Final = 0xFF
_ONE_BYTE: Final = 13
_TWO_BYTES: Final = 14
_RESERVED: Final = 15
_TWO_BYTES_FROM: Final = 269
_NUMBER_MAX: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class CodecLimits:
    """The limits of one datagram.

    Attributes:
        datagram_bytes: all of it; bodies beyond come in blocks (RFC 7252, section 4.6, counts on
            1,152 bytes).
        options: how many.

    """

    datagram_bytes: int = 2_048
    options: int = 64


DEFAULT_LIMITS = CodecLimits()
_BYTES: Final = tuple(bytes((value,)) for value in range(256))


class CoapMessage:
    """One message.

    Attributes:
        type: CON, NON, ACK or RST.
        code: EMPTY, a method, or a response's code.
        message_id: 16 bits.
        token: up to eight bytes.
        options: in ascending order of numbers.
        payload: may be empty.

    """

    __slots__ = ("code", "message_id", "options", "payload", "token", "type")

    def __init__(
        self,
        type_: int,
        code: int,
        message_id: int,
        token: bytes = b"",
        options: tuple[Option, ...] = (),
        payload: bytes = b"",
    ) -> None:
        self.type = type_
        self.code = code
        self.message_id = message_id
        self.token = token
        self.options = options
        self.payload = payload

    def __repr__(self) -> str:
        """Fit for a log line: no token, no payload."""
        kind = ("CON", "NON", "ACK", "RST")[self.type]
        code = f"{self.code >> 5}.{self.code & 31:02d}"
        return f"{kind} {code} {self.message_id}, {len(self.payload)} bytes"

    def encode(self) -> bytes:
        """Return the datagram."""
        head = 0x40 | self.type << 4 | len(self.token)
        parts = [bytes((head, self.code, self.message_id >> 8, self.message_id & 0xFF)), self.token]
        before = 0
        for number, value in self.options:
            delta, length = number - before, len(value)
            before = number
            if delta < _ONE_BYTE and length < _ONE_BYTE:
                parts.append(_BYTES[delta << 4 | length])
            else:
                parts.append(_long_head(delta, length))
            parts.append(value)
        if self.payload:
            parts.append(b"\xff")
            parts.append(self.payload)
        return b"".join(parts)


def empty_message(type_: int, message_id: int) -> bytes:
    """Return the datagram of an empty ACK or RST (RFC 7252, sections 4.2 and 4.3)."""
    return bytes((0x40 | type_ << 4, EMPTY, message_id >> 8, message_id & 0xFF))


def decode(datagram: bytes, limits: CodecLimits = DEFAULT_LIMITS) -> CoapMessage:
    """Read a datagram.

    Raises:
        MessageFormatError: it is no message, or passes a limit.

    """
    size = len(datagram)
    if size < _HEADER_BYTES or datagram[0] >> 6 != 1:
        raise MessageFormatError("no message of version 1")  # silently ignored: section 3
    type_, token_bytes = datagram[0] >> 4 & 3, datagram[0] & 15
    code, message_id = datagram[1], datagram[2] << 8 | datagram[3]
    to_reset = message_id if type_ == CON else None
    at = _HEADER_BYTES + token_bytes
    if token_bytes > _TOKEN_BYTES_MAX or at > size:
        raise MessageFormatError(f"a token of {token_bytes} bytes", to_reset)
    if size > limits.datagram_bytes:
        raise MessageFormatError(f"a datagram of {size} bytes", to_reset)
    if code == EMPTY:
        if size != _HEADER_BYTES:
            raise MessageFormatError(f"an empty message of {size} bytes", to_reset)
        return CoapMessage(type_, code, message_id)
    token = datagram[_HEADER_BYTES:at]
    if at == size:
        return CoapMessage(type_, code, message_id, token)
    try:
        options, at = _options(datagram, at, limits.options)
    except MessageFormatError as error:
        raise MessageFormatError(str(error), to_reset) from None
    return CoapMessage(type_, code, message_id, token, options, datagram[at:])


def _options(datagram: bytes, at: int, most: int) -> tuple[tuple[Option, ...], int]:
    """Return the options, and where the payload begins."""
    options: list[Option] = []
    number, size = 0, len(datagram)
    while at < size:
        head = datagram[at]
        at += 1
        if head == _PAYLOAD_MARKER:
            if at == size:
                raise MessageFormatError("a payload marker without payload")
            break
        delta, length = head >> 4, head & 15
        if delta >= _ONE_BYTE:
            delta, at = _extended(datagram, at, delta)
        if length >= _ONE_BYTE:
            length, at = _extended(datagram, at, length)
        number += delta
        end = at + length
        if end > size or number > _NUMBER_MAX:
            raise MessageFormatError(f"option {number} of {length} bytes at {at} of {size}")
        if len(options) == most:
            raise MessageFormatError(f"more than {most} options")
        options.append((number, datagram[at:end]))
        at = end
    return tuple(options), at


def _extended(datagram: bytes, at: int, nibble: int) -> tuple[int, int]:
    """Return a delta or length that does not fit into four bits, and where it ends (section
    3.1)."""
    if nibble == _RESERVED:
        raise MessageFormatError("the reserved option delta or length 15")
    end = at + nibble - 12
    if end > len(datagram):
        raise MessageFormatError("an option that is cut off")
    if nibble == _ONE_BYTE:
        return datagram[at] + _ONE_BYTE, end
    return (datagram[at] << 8 | datagram[at + 1]) + _TWO_BYTES_FROM, end


def _long_head(delta: int, length: int) -> bytes:
    delta_nibble, more_delta = _nibble(delta)
    length_nibble, more_length = _nibble(length)
    return bytes((delta_nibble << 4 | length_nibble,)) + more_delta + more_length


def _nibble(value: int) -> tuple[int, bytes]:
    if value < _ONE_BYTE:
        return value, b""
    if value < _TWO_BYTES_FROM:
        return _ONE_BYTE, bytes((value - _ONE_BYTE,))
    return _TWO_BYTES, (value - _TWO_BYTES_FROM).to_bytes(2, "big")
