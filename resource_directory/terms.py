"""By what links and endpoints are found: the names and values of their attributes, as terms."""

from __future__ import annotations

from collections.abc import Iterator

from resource_directory.index import Criterion, Term
from resource_directory.link_format import WebLink
from resource_directory.registration import Registration

# RFC 6690, section 3, and RFC 7252, section 7.2.1: lists separated by spaces, of which each counts.
_LISTS = frozenset({"rel", "rev", "rt", "if", "ct"})

EVERY_ENDPOINT = Criterion("rt", "core.rd-ep")
"""What every endpoint's link has (RFC 9176, section 6.4), so that it need not be looked for."""


def link_terms(link: WebLink) -> Iterator[Term]:
    """The terms of a link, whose target and anchor are resolved."""
    yield "href", link.href
    for name, value in link.attributes:
        if value and name in _LISTS and " " in value:
            for item in value.split():
                yield name, item
        else:
            yield name, value or ""


def endpoint_terms(registration: Registration) -> Iterator[Term]:
    """The terms of an endpoint itself."""
    yield "href", registration.location
    yield "ep", registration.endpoint
    if registration.sector:
        yield "d", registration.sector
    yield "base", registration.base
    yield "lt", str(registration.lifetime_s)
    yield from registration.attributes
