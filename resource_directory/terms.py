"""By what links and endpoints are found: the names and values of their attributes, as terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from resource_directory.errors import TooLargeError
from resource_directory.index import Criterion, Term
from resource_directory.link_format import WebLink
from resource_directory.registration import Registration

# RFC 6690, section 3, and RFC 7252, section 7.2.1: lists separated by spaces, of which each counts.
_LISTS = frozenset({"rel", "rev", "rt", "if", "ct"})

MAX_LISTED = 64
"""Values in one attribute that is a list."""
EVERY_ENDPOINT = Criterion("rt", "core.rd-ep")
"""What every endpoint's link has (RFC 9176, section 6.4), so that it need not be looked for."""


def check_lists(links: Iterable[WebLink]) -> None:
    """Check that no list has very many values, each of which would be found by itself.

    Raises:
        TooLargeError: one has.

    """
    for link in links:
        for name, value in link.attributes:
            if value and len(value) > MAX_LISTED and name in _LISTS:
                count = len(value.split())
                if count > MAX_LISTED:
                    raise TooLargeError(f"more than {MAX_LISTED} values in {name}", count)


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
