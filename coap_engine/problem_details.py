"""Diagnostic payloads that programs can read: Concise Problem Details (RFC 9290)."""

from __future__ import annotations

from dataclasses import dataclass

from coap_engine.message import CoapResponse, Option

CONTENT_FORMAT: int = 257
"""application/concise-problem-details+cbor."""


@dataclass(frozen=True, slots=True)
class ProblemDetails:
    """What went wrong (RFC 9290, section 2).

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
        """As CBOR, deterministically encoded."""
        raise NotImplementedError


def are_wanted(request_options: tuple[Option, ...]) -> bool:
    """Whether the client accepts Concise Problem Details: its Accept says so."""
    raise NotImplementedError


def with_problem(
    response: CoapResponse, request_options: tuple[Option, ...], problem: ProblemDetails
) -> CoapResponse:
    """An error response that says more: as CBOR where asked for, else as diagnostic text.

    Diagnostic text is the detail, or the title (RFC 7252, section 5.5.2). A response that is no
    error, or has a payload, stays as it is.
    """
    raise NotImplementedError
