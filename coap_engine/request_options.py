"""Options of a request: which are the engine's, and which go on to the resource."""

from __future__ import annotations

from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.errors import CoapError
from coap_engine.message import Option
from coap_engine.uint import decode_uint

_OWN: Final = frozenset(
    (
        option_numbers.OBSERVE,
        option_numbers.BLOCK1,
        option_numbers.BLOCK2,
        option_numbers.SIZE1,
        option_numbers.SIZE2,
        option_numbers.ECHO,
        option_numbers.NO_RESPONSE,
        option_numbers.REQUEST_TAG,
    )
)
_ROUTE: Final = frozenset(
    (
        option_numbers.URI_HOST,
        option_numbers.URI_PORT,
        option_numbers.HOP_LIMIT,
        option_numbers.PROXY_URI,
        option_numbers.PROXY_SCHEME,
    )
)
_PLAIN: Final = frozenset((option_numbers.URI_PATH, option_numbers.URI_QUERY))
"""Known, repeatable, and of any length that an option of a request is read with."""
_PATH_BYTES_MAX: Final = 255
_REGISTER: Final = 0
_DEREGISTER: Final = 1


class RefusedOptionError(CoapError):
    """A request can't be served for one of its options.

    Attributes:
        code: what it is answered with.

    """

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class RequestOptions:
    """Options, sorted by who they are for; no dataclass, as each request makes one (`Block`).

    Attributes:
        passed: those of the resource.
        registers: Observe 0.
        deregisters: Observe 1.
        echo: of RFC 9175; None if there is none.
        suppressed: the classes of responses that are not wanted (RFC 7967), as bits.
        route: see `CoapRequest`.

    """

    __slots__ = ("deregisters", "echo", "passed", "registers", "route", "suppressed")

    def __init__(
        self,
        passed: tuple[Option, ...],
        registers: bool = False,
        deregisters: bool = False,
        echo: bytes | None = None,
        suppressed: int = 0,
        route: tuple[Option, ...] = (),
    ) -> None:
        self.passed = passed
        self.registers = registers
        self.deregisters = deregisters
        self.echo = echo
        self.suppressed = suppressed
        self.route = route


def are_plain(options: tuple[Option, ...]) -> bool:
    """Return whether all options of a request are for its resource: they only say which it is."""
    for number, value in options:
        if number not in _PLAIN or len(value) > _PATH_BYTES_MAX:
            return False
    return True


def read_options(options: tuple[Option, ...]) -> RequestOptions:
    """Sort a request's options.

    What is not known, is too short or long, or stands too often is ignored if it is elective
    (RFC 7252, sections 5.4.1, 5.4.3 and 5.4.5).

    Raises:
        RefusedOptionError: an option is critical and not understood (4.02), or is a Hop-Limit of
            zero (4.00; RFC 8768).

    """
    passed: list[Option] = []
    route: list[Option] = []
    own: dict[int, bytes] = {}
    before = -1
    for option in options:
        number, value = option
        if not _is_understood(number, value, number == before):
            if option_numbers.is_critical(number):
                raise RefusedOptionError(codes.BAD_OPTION, f"option {number} is not understood")
            continue
        before = number
        if number in _OWN:
            own[number] = value
        elif number not in _ROUTE:
            passed.append(option)
        elif number == option_numbers.HOP_LIMIT and value == b"\0":
            raise RefusedOptionError(codes.BAD_REQUEST, "Hop-Limit 0")
        else:
            route.append(option)
    observe = own.get(option_numbers.OBSERVE)
    action = None if observe is None else decode_uint(observe)
    return RequestOptions(
        tuple(passed),
        action == _REGISTER,
        action == _DEREGISTER,
        own.get(option_numbers.ECHO),
        decode_uint(own.get(option_numbers.NO_RESPONSE, b"")),
        tuple(route),
    )


def is_protected(options: tuple[Option, ...]) -> bool:
    """Return whether a message is protected by OSCORE (RFC 8613).

    Whoever opens a request sees whether it was sent before, and only who holds the key protects an
    answer: neither waits for an Echo.
    """
    return any(number == option_numbers.OSCORE for number, _ in options)


def _is_understood(number: int, value: bytes, is_repeated: bool) -> bool:
    lengths = option_numbers.LENGTHS.get(number)
    if lengths is None or not lengths[0] <= len(value) <= lengths[1]:
        return False
    return not is_repeated or number in option_numbers.REPEATABLE
