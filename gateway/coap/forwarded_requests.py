"""Requests that are passed on to who has the resource, who judges them there."""

from __future__ import annotations

from typing import Final

from coap_engine import option_numbers
from coap_engine.message import CoapRequest

QUERY_SEGMENT: Final = "q"
"""First segment of the paths that lead to other gateways."""
_FIRST: Final = QUERY_SEGMENT.encode()


def leads_elsewhere(request: CoapRequest) -> bool:
    """Return whether a request's path begins as those that lead to other gateways."""
    return request.value(option_numbers.URI_PATH) == _FIRST


def is_passed_on(request: CoapRequest) -> bool:
    """Return whether a request comes to its resource in another form.

    Those to other gateways do, and writes with a name (`docs/queries.md`), of which one carries
    out what several ask.
    """
    return leads_elsewhere(request) or request.value(option_numbers.REQUEST_ID) is not None
