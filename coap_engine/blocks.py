"""The block options (RFC 7959): numbers, sizes, and what all uses of them have in common."""

from __future__ import annotations

from dataclasses import dataclass

from coap_engine.errors import CoapError
from coap_engine.message import Option

EXCHANGE_LIFETIME_S = 247.0
"""How long a message and its repetitions may be on their way (RFC 7252, section 4.8.2)."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How much a body may be.

    Attributes:
        body_bytes: of a request's or response's body.
        size_exponent: SZX of the largest block that is sent or asked for; 6 is 1,024 bytes.
        bodies_per_peer: in assembly for one peer; the one that was silent longest makes room.
        assembly_s: how long after its last block a body in assembly is kept.
        kept_s: how long after its last block a response's body is kept.

    """

    body_bytes: int = 1 << 20
    size_exponent: int = 6
    bodies_per_peer: int = 4
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


@dataclass(frozen=True, slots=True)
class Block:
    """The value of a block option (RFC 7959, section 2.2).

    Attributes:
        number: of the block, from 0.
        more: whether blocks follow.
        size_exponent: SZX; the block has ``2 ** (szx + 4)`` bytes, 0 to 6.

    """

    number: int
    more: bool
    size_exponent: int

    @property
    def size_bytes(self) -> int:
        """Bytes of each block but the last."""
        return 16 << self.size_exponent

    @property
    def offset(self) -> int:
        """Where in the body it begins, in bytes."""
        return self.number * (16 << self.size_exponent)

    @classmethod
    def decode(cls, value: bytes) -> Block:
        """Read an option's value.

        Raises:
            BadBlockError: the value is longer than three bytes, or its size is the reserved one.

        """
        raise NotImplementedError

    def encode(self) -> bytes:
        """The option's value, as short as it can be."""
        raise NotImplementedError


def cache_key(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """The options that tell one operation from another (RFC 7252, section 5.4.2 and 5.6).

    Those are all but the block options, Size1, Size2, Observe and what is marked as NoCacheKey;
    Request-Tag is among them (RFC 9175, section 3.3).
    """
    raise NotImplementedError
