"""Preconditions of a request, before it is carried out (RFC 7252, section 5.10.8)."""

from __future__ import annotations

from typing import Final

from coap_engine import codes, option_numbers
from coap_engine.message import CoapRequest, CoapResponse, Option, value_of

_ANY: Final = b""
"""The If-Match of who only wants the resource to exist (section 5.10.8.1)."""
_CONDITIONS: Final = (option_numbers.IF_MATCH, option_numbers.IF_NONE_MATCH)
_FAILED: Final = CoapResponse(
    codes.PRECONDITION_FAILED, (), b"the resource is another than If-Match or If-None-Match says"
)


class Preconditions:
    """The If-Match and If-None-Match of a request.

    Args:
        if_match: ETags of which the resource must have one; the empty one stands for any.
        if_none_match: the resource must not exist.

    """

    __slots__ = ("_if_match", "_if_none_match")

    def __init__(self, if_match: frozenset[bytes], *, if_none_match: bool) -> None:
        self._if_match = if_match
        self._if_none_match = if_none_match

    @classmethod
    def of(cls, request: CoapRequest) -> Preconditions | None:
        """Read those of a request; None if it has none."""
        if_match = frozenset(request.values(option_numbers.IF_MATCH))
        if_none_match = request.value(option_numbers.IF_NONE_MATCH) is not None
        return cls(if_match, if_none_match=if_none_match) if if_match or if_none_match else None

    def are_met(self, found: CoapResponse) -> bool | None:
        """Return whether they hold, by what a GET of the resource is answered with.

        Returns:
            None if the resource exists, and its representation in another format may have the
            ETag.

        """
        if found.code == codes.NOT_FOUND:
            return not self._if_match
        if self._if_none_match:
            return False
        if _ANY in self._if_match:
            return True
        etag = value_of(found.options, option_numbers.ETAG)
        return True if etag is not None and etag in self._if_match else None


def may_have_conditions(request: CoapRequest) -> bool:
    """Return whether a request may have any, by its first option; most can't, as it is a path."""
    return bool(request.options) and request.options[0][0] <= option_numbers.IF_NONE_MATCH


def failure(found: CoapResponse) -> CoapResponse:
    """Return what a client is told whose preconditions do not hold, as far as that is known.

    Args:
        found: what a GET of the resource was answered with.

    """
    return found if found.code >> 5 == 5 else _FAILED


def without_conditions(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Return the options that are left when the preconditions have been judged."""
    return tuple(option for option in options if option[0] not in _CONDITIONS)
