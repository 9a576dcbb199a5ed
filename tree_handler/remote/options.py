"""Options of CoAP that travel with a remote request or its answer, as they stand in a datagram.

Those that concern one hop alone (blocks, Observe, Echo and their like) do not: the engine at either
end makes its own. The numbers and lengths are those of RFC 7252, section 5.10, and of RFC 8768.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tree_handler.errors import ProtocolError

RemoteOption = tuple[int, bytes]
"""An option's number and value."""
NO_OPTIONS: Final[tuple[RemoteOption, ...]] = ()

IF_MATCH: Final = 1
ETAG: Final = 4
IF_NONE_MATCH: Final = 5
LOCATION_PATH: Final = 8
MAX_AGE: Final = 14
HOP_LIMIT: Final = 16
LOCATION_QUERY: Final = 20
SIZE1: Final = 60
REQUEST_ID: Final = 65_001
"""Request-Id, an option of our own, of the numbers for experiments (RFC 7252, section 12.2). It is
critical, for who does not know it would carry a request out again: for how many whole seconds the
client has been asking (1 byte, rounded up; 0 the first time), and 1 to 8 bytes drawn at random."""

HOP_LIMIT_REACHED: Final = 0xA8
"""CoAP code 5.08 (RFC 8768, section 6.1)."""
MAX_HOPS: Final = 255
"""The greatest value of Hop-Limit (RFC 8768, section 3)."""

MAX_REPEATED: Final = 32
"""So often one option may stand at most."""

Lengths = Mapping[int, tuple[int, int, int]]
"""By number: bytes at least and at most, and how often it may stand."""

REQUEST_OPTIONS: Final[Lengths] = {
    IF_MATCH: (0, 8, MAX_REPEATED),
    ETAG: (1, 8, MAX_REPEATED),
    IF_NONE_MATCH: (0, 0, 1),
    HOP_LIMIT: (1, 1, 1),
    REQUEST_ID: (2, 9, 1),
}
RESPONSE_OPTIONS: Final[Lengths] = {
    ETAG: (1, 8, 1),
    LOCATION_PATH: (0, 255, MAX_REPEATED),
    MAX_AGE: (0, 4, 1),
    LOCATION_QUERY: (0, 255, MAX_REPEATED),
    SIZE1: (0, 4, 1),
}


def check_options(what: str, options: object, allowed: Lengths) -> None:
    """Check that these are options that may travel, in the order of their numbers.

    Raises:
        ProtocolError: one may not, has a wrong length or place, or stands too often.

    """
    if not isinstance(options, tuple):
        raise ProtocolError(f"{what} options", options)
    before, count = 0, 0
    for option in options:
        match option:
            case (int(number), bytes(value)) if (
                type(number) is int and number in allowed and number >= before
            ):
                count = count + 1 if number == before else 1
                low, high, most = allowed[number]
                if not low <= len(value) <= high or count > most:
                    raise ProtocolError(f"{what} option", option)
                before = number
            case _:
                raise ProtocolError(f"{what} option", option)


def value_of(options: tuple[RemoteOption, ...], number: int) -> bytes | None:
    """Return the first value of an option; None if it is not there."""
    for each, value in options:
        if each == number:
            return value
    return None


def hops_left(options: tuple[RemoteOption, ...]) -> int | None:
    """Return over how many gateways a request may still be passed on; None if it does not say."""
    value = value_of(options, HOP_LIMIT)
    return None if value is None else value[0]


def max_age_s(options: tuple[RemoteOption, ...]) -> int | None:
    """Return for how many seconds an answer says that it is fresh; None if it does not say."""
    value = value_of(options, MAX_AGE)
    return None if value is None else int.from_bytes(value, "big")


def with_max_age(options: tuple[RemoteOption, ...], age_s: int) -> tuple[RemoteOption, ...]:
    """Return options with another Max-Age."""
    value = age_s.to_bytes((age_s.bit_length() + 7) // 8, "big")
    others = [option for option in options if option[0] != MAX_AGE]
    return tuple(sorted([*others, (MAX_AGE, value)], key=_number))


def _number(option: RemoteOption) -> int:
    return option[0]
