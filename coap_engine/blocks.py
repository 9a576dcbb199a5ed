"""The block options (RFC 7959): numbers, sizes, and what all uses of them have in common."""

from __future__ import annotations

from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.errors import CoapError
from coap_engine.message import Option
from coap_engine.retransmission import EXCHANGE_LIFETIME_S
from coap_engine.uint import decode_uint, encode_uint
from light_dataclasses import dataclass

_VALUE_BYTES: Final = 3
_RESERVED_SIZE: Final = 7
_NO_CACHE_KEY_MASK: Final = 0x1F  # with the bit of those that are critical, which count
_NO_CACHE_KEY: Final = 0x1C
_OF_A_MESSAGE: Final = frozenset(
    (
        option_numbers.ETAG,
        option_numbers.OBSERVE,
        option_numbers.HOP_LIMIT,
        option_numbers.BLOCK1,
        option_numbers.BLOCK2,
        option_numbers.NO_RESPONSE,
    )
)


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """The limits of bodies that are sent and received in blocks.

    Attributes:
        body_bytes: of a request's or response's body, at most 16 MiB.
        size_exponent: SZX of the largest block that is sent or asked for; 6 is 1,024 bytes.
        assembly_s: how long after its last block a body in assembly is kept.
        kept_s: how long after its last block a response's body is kept.

    """

    body_bytes: int = 1 << 20
    size_exponent: int = 6
    assembly_s: float = EXCHANGE_LIFETIME_S
    kept_s: float = 60.0


DEFAULT_LIMITS = BodyLimits()


class BadBlockError(CoapError):
    """A Block1 or Block2 option that can't be served.

    Attributes:
        code: what it is answered with: 4.00 Bad Request for the reserved size 7 (RFC 7959,
            section 2.2), 4.02 Bad Option where the value is too long (RFC 7252, section 5.4.3).

    """

    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.code = code


class Block:
    """The value of a block option (RFC 7959, section 2.2).

    It is no dataclass, as those of which each datagram makes one are not: compiled, a frozen one
    takes ten times as long to make.

    Args:
        number: of the block, from 0; at most 2**20 - 1 in an option.
        more: whether blocks follow.
        size_exponent: SZX; the block has ``2 ** (szx + 4)`` bytes, 0 to 6.

    """

    __slots__ = ("more", "number", "size_exponent")

    def __init__(self, number: int, more: bool, size_exponent: int) -> None:
        self.number = number
        self.more = more
        self.size_exponent = size_exponent

    @property
    def size_bytes(self) -> int:
        """Bytes of each block but the last."""
        return 16 << self.size_exponent

    @property
    def offset(self) -> int:
        """Return the offset of the block in the body, in bytes."""
        return self.number * (16 << self.size_exponent)

    @classmethod
    def decode(cls, value: bytes) -> Block:
        """Read an option's value.

        Raises:
            BadBlockError: the value is longer than three bytes, or its size is the reserved one.

        """
        if len(value) > _VALUE_BYTES:
            raise BadBlockError(f"a block option of {len(value)} bytes", codes.BAD_OPTION)
        number = decode_uint(value)
        if number & 7 == _RESERVED_SIZE:
            raise BadBlockError("block size 7 is reserved", codes.BAD_REQUEST)
        return Block(number >> 4, bool(number & 8), number & 7)

    def encode(self) -> bytes:
        """Return the option's value, as short as it can be."""
        return encode_uint(self.number << 4 | self.more << 3 | self.size_exponent)


def with_options(options: tuple[Option, ...], *more: Option) -> tuple[Option, ...]:
    """Return options with more of them, in the order that a message has them in."""
    merged = list(options)
    for option in more:
        at = len(merged)
        while at and merged[at - 1][0] > option[0]:
            at -= 1
        merged.insert(at, option)
    return tuple(merged)


def cache_key(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Return the options that tell one operation from another (RFC 7252, sections 5.4.2 and 5.6).

    Those are all but the block options, Observe, elective ones marked as NoCacheKey (Size1, Size2,
    Echo), and what may differ from block to block (ETag, Hop-Limit, No-Response). Request-Tag is
    among them (RFC 9175, section 3.3).
    """
    return tuple(
        [
            option
            for option in options
            if option[0] & _NO_CACHE_KEY_MASK != _NO_CACHE_KEY and option[0] not in _OF_A_MESSAGE
        ]
    )
