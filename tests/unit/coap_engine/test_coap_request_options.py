"""Each option of a request goes to who it is for, is ignored, or is refused by its number."""

from __future__ import annotations

import pytest

from coap_engine import codes
from coap_engine.message import Option
from coap_engine.option_numbers import LENGTHS, REPEATABLE, is_critical
from coap_engine.request_options import (
    RefusedOptionError,
    are_plain,
    is_protected,
    read_options,
)

OBSERVE, URI_PATH, URI_QUERY, HOP_LIMIT, ACCEPT = 6, 11, 15, 16, 17
BLOCK2, BLOCK1, SIZE2, SIZE1, ECHO, NO_RESPONSE, REQUEST_TAG = 23, 27, 28, 60, 252, 258, 292
ROUTE = (3, 7, HOP_LIMIT, 35, 39)
OWN = (OBSERVE, BLOCK2, BLOCK1, SIZE2, SIZE1, ECHO, NO_RESPONSE, REQUEST_TAG)
A_PATH: Option = (URI_PATH, b"a")


def of_length(number: int, length: int) -> Option:
    return number, b"\x01" * length


def both_sides(number: int) -> list[tuple[int, bool]]:
    """Lengths of an option, and whether it may have them."""
    least, most = LENGTHS[number]
    lengths = [(least, True), (most, True), (most + 1, False)]
    return lengths if least == 0 else [*lengths, (least - 1, False)]


@pytest.mark.parametrize(
    ("number", "length", "is_right"),
    [(number, *side) for number in LENGTHS for side in both_sides(number)],
)
def test_an_option_of_a_length_that_it_has_goes_on_and_one_of_another_does_not(
    number: int, length: int, is_right: bool
) -> None:
    option = of_length(number, length)
    if not is_right and is_critical(number):
        with pytest.raises(RefusedOptionError, match=f"option {number} is not") as refused:
            read_options((option,))
        assert refused.value.code == codes.BAD_OPTION
        return
    read = read_options((option,))
    is_own, is_route = number in OWN, number in ROUTE
    assert read.passed == (() if is_own or is_route or not is_right else (option,))
    assert read.route == ((option,) if is_route and is_right else ())
    assert read.echo == (option[1] if number == ECHO and is_right else None)


@pytest.mark.parametrize("number", LENGTHS)
def test_an_option_that_stands_twice_is_taken_twice_only_if_it_may(number: int) -> None:
    options = (of_length(number, LENGTHS[number][0]),) * 2
    if number not in REPEATABLE and is_critical(number):
        with pytest.raises(RefusedOptionError, match=f"option {number} is not"):
            read_options(options)
        return
    read = read_options(options)
    taken = options if number in REPEATABLE else options[:1]
    assert read.passed == (() if number in OWN or number in ROUTE else taken)
    assert read.route == (taken if number in ROUTE else ())


def test_what_is_not_known_is_refused_if_it_is_critical_and_left_out_if_it_is_elective() -> None:
    assert read_options((A_PATH, (65_006, b"x"), (65_008, b"y"))).passed == (A_PATH,)
    with pytest.raises(RefusedOptionError, match="option 65005 is not") as refused:
        read_options((A_PATH, (65_005, b"x")))
    assert refused.value.code == codes.BAD_OPTION


@pytest.mark.parametrize(
    ("value", "registers", "deregisters"),
    [
        (b"", True, False),
        (b"\0", True, False),
        (b"\x01", False, True),
        (b"\x02", False, False),
        (b"\0\0\x01", False, True),
        (b"\0\0\0\x01", False, False),
    ],
)
def test_observe_0_begins_and_1_ends_and_all_else_is_no_observe(
    value: bytes, registers: bool, deregisters: bool
) -> None:
    read = read_options(((OBSERVE, value), A_PATH))
    assert (read.registers, read.deregisters) == (registers, deregisters)
    assert read.passed == (A_PATH,)
    without = read_options((A_PATH,))
    assert (without.registers, without.deregisters, without.suppressed) == (False, False, 0)


def test_a_hop_limit_of_zero_is_refused_and_every_other_is_of_the_route() -> None:
    with pytest.raises(RefusedOptionError, match="Hop-Limit 0") as refused:
        read_options(((HOP_LIMIT, b"\0"),))
    assert refused.value.code == codes.BAD_REQUEST
    for value in (b"\x01", b"\xff"):
        assert read_options(((HOP_LIMIT, value),)).route == ((HOP_LIMIT, value),)


def test_the_classes_that_are_not_wanted_are_told_as_bits() -> None:
    assert read_options(((NO_RESPONSE, b"\x1a"),)).suppressed == 0x1A
    assert read_options(((NO_RESPONSE, b""),)).suppressed == 0


@pytest.mark.parametrize(
    ("options", "are"),
    [
        ((), True),
        ((A_PATH, A_PATH, (URI_QUERY, b"x=1")), True),
        (((URI_PATH, b"a" * 255),), True),
        (((URI_PATH, b"a" * 256),), False),
        (((URI_QUERY, b"a" * 256),), False),
        ((A_PATH, (ACCEPT, b"")), False),
        (((OBSERVE, b""), A_PATH), False),
    ],
)
def test_options_are_plain_that_only_say_which_resource_it_is(
    options: tuple[Option, ...], are: bool
) -> None:
    assert are_plain(options) is are


def test_a_request_is_protected_that_has_the_option_of_oscore() -> None:
    assert is_protected((A_PATH, (9, b"")))
    assert not is_protected((A_PATH,))
    assert not is_protected(())
