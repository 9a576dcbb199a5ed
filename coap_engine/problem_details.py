"""Diagnostic payloads that programs can read: Concise Problem Details (RFC 9290)."""

from __future__ import annotations

from typing import Final

from coap_engine import option_numbers
from coap_engine.blocks import with_options
from coap_engine.message import CoapResponse, Option, value_of
from coap_engine.uint import decode_uint, encode_uint
from light_dataclasses import dataclass

CONTENT_FORMAT: Final = 257
"""application/concise-problem-details+cbor."""

# Major types of CBOR (RFC 8949, section 3.1). Only what such a map has is written here, and no
# library, of which all would be loaded for four entries.
_UNSIGNED: Final = 0
_NEGATIVE: Final = 1
_TEXT: Final = 3
_MAP: Final = 5
_IN_HEAD: Final = 24
_ERRORS = (4, 5)


@dataclass(frozen=True, slots=True)
class ProblemDetails:
    """The details of an error (RFC 9290, section 2).

    Attributes:
        title: a short summary, the same for each occurrence.
        detail: of this occurrence.
        instance: a URI reference of this occurrence.
        response_code: the code of the response it was in, where it is told apart from it.

    """

    title: str | None = None
    detail: str | None = None
    instance: str | None = None
    response_code: int | None = None

    def encode(self) -> bytes:
        """Return the details in CBOR, deterministically encoded (RFC 8949, section 4.2.1)."""
        entries: list[bytes] = []
        for key, text in ((-1, self.title), (-2, self.detail), (-3, self.instance)):
            if text is not None:
                entries.append(_integer(key) + _text(text))
        if self.response_code is not None:
            entries.append(_integer(-4) + _integer(self.response_code))
        return _head(_MAP, len(entries)) + b"".join(entries)


def are_wanted(request_options: tuple[Option, ...]) -> bool:
    """Return whether the client accepts Concise Problem Details: its Accept says so."""
    accept = value_of(request_options, option_numbers.ACCEPT)
    return accept is not None and decode_uint(accept) == CONTENT_FORMAT


def with_problem(
    response: CoapResponse, request_options: tuple[Option, ...], problem: ProblemDetails
) -> CoapResponse:
    """Return an error response that says more: as CBOR where asked for, else as diagnostic text.

    Diagnostic text is the detail, or the title (RFC 7252, section 5.5.2). A response that is no
    error, or has a payload, stays as it is.
    """
    if response.code >> 5 not in _ERRORS or response.payload:
        return response
    if not are_wanted(request_options):
        text = problem.detail or problem.title or ""
        return CoapResponse(response.code, response.options, text.encode())
    content_format = (option_numbers.CONTENT_FORMAT, encode_uint(CONTENT_FORMAT))
    options = with_options(response.options, content_format)
    return CoapResponse(response.code, options, problem.encode())


def _integer(value: int) -> bytes:
    return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _head(_TEXT, len(encoded)) + encoded


def _head(major: int, argument: int) -> bytes:
    """Return how each item begins: its type, and a number in as few bytes as it fits into."""
    if argument < _IN_HEAD:
        return bytes((major << 5 | argument,))
    for exponent in range(4):
        if argument < 1 << (8 << exponent):
            return bytes((major << 5 | _IN_HEAD + exponent,)) + argument.to_bytes(
                1 << exponent, "big"
            )
    raise ValueError(f"{argument} has no place in CBOR")
