"""Finds who may have the answer to a request, by the first segment of its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from coap_engine import option_numbers
from coap_engine.message import CoapRequest
from gateway.coap.responders import ImmediateResponder

_ROOT: Final = b""


class PathRouter:
    """Knows which of some sources serve which paths; see `ImmediateResponder.segments`.

    Args:
        sources: several that serve the same are asked in this order; who answers requests that
            have a Request-Id is asked before those.

    """

    def __init__(self, sources: Sequence[ImmediateResponder]) -> None:
        self._named = [one for one in sources if one.segments is None]
        self._by_segment: dict[bytes, list[ImmediateResponder]] = {}
        for source in sources:
            for segment in source.segments or ():
                self._by_segment.setdefault(segment, []).append(source)

    def of(self, request: CoapRequest) -> list[ImmediateResponder]:
        """Return who is to be asked for the answer to a request, in order."""
        first = _ROOT
        options = request.options
        for number, value in options:
            if number >= option_numbers.URI_PATH:
                if number == option_numbers.URI_PATH:
                    first = value
                break
        found = self._by_segment.get(first, [])
        # It has the highest number of all options that are understood.
        if options and options[-1][0] == option_numbers.REQUEST_ID:
            return self._named + found
        return found
