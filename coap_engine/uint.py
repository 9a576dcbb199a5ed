"""Numbers as option values (RFC 7252, section 3.2): no more bytes than needed, none for zero."""

from __future__ import annotations


def encode_uint(value: int) -> bytes:
    """Return a number that is not negative as an option's value."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def decode_uint(value: bytes) -> int:
    """Return the number that an option's value stands for; leading zeros are allowed."""
    return int.from_bytes(value, "big")
