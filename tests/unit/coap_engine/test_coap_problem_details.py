"""Concise Problem Details (RFC 9290), read back by a decoder that knows nothing of the encoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coap_engine import codes, option_numbers
from coap_engine.message import CoapResponse, Option
from coap_engine.problem_details import ProblemDetails, are_wanted, with_problem

ACCEPT: tuple[Option, ...] = ((option_numbers.ACCEPT, b"\x01\x01"),)
LATER = CoapResponse(codes.SERVICE_UNAVAILABLE, ((option_numbers.MAX_AGE, b"\x05"),))


def decoded(cbor: bytes) -> dict[int, str | int]:
    """A map of integers to texts and integers (RFC 8949, section 3)."""
    rest = bytearray(cbor)

    def head() -> tuple[int, int]:
        first = rest.pop(0)
        argument = first & 31
        if argument >= 24:
            length = {24: 1, 25: 2, 26: 4, 27: 8}[argument]
            argument = int.from_bytes(rest[:length], "big")
            assert argument >= (24 if length == 1 else 1 << 4 * length), "not the shortest"
            del rest[:length]
        return first >> 5, argument

    def item() -> str | int:
        major, argument = head()
        match major:
            case 0:
                return argument
            case 1:
                return -1 - argument
            case 3:
                text = rest[:argument].decode()
                del rest[:argument]
                return text
        raise AssertionError(f"major type {major}")

    major, entries = head()
    assert major == 5
    read = {}
    for _ in range(entries):
        key = item()
        assert isinstance(key, int)
        read[key] = item()
    assert not rest
    return read


def test_rfc_9290_section_2_example() -> None:
    problem = ProblemDetails(
        "title of the error",
        "detailed information about the error",
        "coaps://pd.example/FA317434",
        codes.BAD_REQUEST,
    )
    assert problem.encode() == (
        b"\xa4"
        b"\x20\x72title of the error"
        b"\x21\x78\x24detailed information about the error"
        b"\x22\x78\x1bcoaps://pd.example/FA317434"
        b"\x23\x18\x80"
    )


@given(
    title=st.none() | st.text(max_size=30),
    detail=st.none() | st.text(max_size=300),
    instance=st.none() | st.text(max_size=30),
    code=st.none() | st.integers(0, 1 << 64),
)
def test_what_is_encoded_is_read_back(
    title: str | None, detail: str | None, instance: str | None, code: int | None
) -> None:
    problem = ProblemDetails(title, detail, instance, code)
    if code == 1 << 64:
        with pytest.raises(ValueError, match="no place"):
            problem.encode()
        return
    expected = {-1: title, -2: detail, -3: instance, -4: code}
    assert decoded(problem.encode()) == {k: v for k, v in expected.items() if v is not None}


def test_a_long_text_is_read_back() -> None:
    problem = ProblemDetails(detail="x" * 70_000)
    assert decoded(problem.encode()) == {-2: "x" * 70_000}


def test_a_client_that_accepts_them_gets_them_in_cbor() -> None:
    answer = with_problem(LATER, ACCEPT, ProblemDetails("Full", "no room for 3 bytes"))
    assert answer.code == LATER.code
    assert answer.options == ((option_numbers.CONTENT_FORMAT, b"\x01\x01"), *LATER.options)
    assert decoded(answer.payload) == {-1: "Full", -2: "no room for 3 bytes"}


@pytest.mark.parametrize("accept", [(), ((option_numbers.ACCEPT, b"\x28"),)])
def test_others_get_text(accept: tuple[Option, ...]) -> None:
    assert not are_wanted(accept)
    problem = ProblemDetails("Full", "no room for 3 bytes")
    assert with_problem(LATER, accept, problem).payload == b"no room for 3 bytes"
    assert with_problem(LATER, accept, ProblemDetails("Full")).payload == b"Full"
    assert with_problem(LATER, accept, ProblemDetails()) == LATER


@pytest.mark.parametrize(
    "response", [CoapResponse(codes.CHANGED), CoapResponse(codes.BAD_REQUEST, (), b"said")]
)
def test_what_is_no_error_or_says_something_stays(response: CoapResponse) -> None:
    assert with_problem(response, ACCEPT, ProblemDetails("Full")) == response
