"""Terms by which links and endpoints are found: the names and values of their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from resource_directory.errors import TooLargeError
from resource_directory.index import URIS, Criterion, Term
from resource_directory.link_format import LISTS, LinkAttributes, WebLink
from resource_directory.registration import Registration
from resource_directory.uri import normalised

# The links of a fleet's devices differ in their targets and seldom in their attributes.
_OF_ATTRIBUTES: dict[LinkAttributes, tuple[Term, ...]] = {}
_REMEMBERED_MAX: Final = 1_024
_REMEMBERED_CHARACTERS: Final = 256

MAX_LISTED: Final = 64
"""Values in one attribute that is a list."""
EVERY_ENDPOINT = Criterion("rt", "core.rd-ep")
"""The criterion that every endpoint's link meets (RFC 9176, section 6.4): it need not be sought."""


def check_lists(links: Iterable[WebLink]) -> None:
    """Check that no list has very many values, each of which would be found by itself.

    Raises:
        TooLargeError: one has.

    """
    for link in links:
        for name, value in link.attributes:
            if value and len(value) > MAX_LISTED and name in LISTS:
                count = len(value.split())
                if count > MAX_LISTED:
                    raise TooLargeError(f"more than {MAX_LISTED} values in {name}", count)


def link_terms(registration: Registration, number: int) -> tuple[Term, ...]:
    """Return the terms of a link, by its number from 0."""
    return (
        ("href", registration.target(number)),
        *attribute_terms(registration.link_attributes[number]),
    )


def attribute_terms(attributes: LinkAttributes) -> tuple[Term, ...]:
    """Return the terms of a link's attributes, whose anchor is resolved."""
    terms = _OF_ATTRIBUTES.get(attributes)
    if terms is None:
        terms = tuple(_each_term(attributes))
        if len(_OF_ATTRIBUTES) >= _REMEMBERED_MAX:
            _OF_ATTRIBUTES.clear()
        if sum(len(name) + len(value) for name, value in terms) <= _REMEMBERED_CHARACTERS:
            _OF_ATTRIBUTES[attributes] = terms
    return terms


def _each_term(attributes: LinkAttributes) -> Iterator[Term]:
    for name, value in attributes:
        if value and name in URIS:
            yield name, normalised(value)
        elif value and name in LISTS and " " in value:
            for item in value.split():
                yield name, item
        else:
            yield name, value or ""


def endpoint_terms(registration: Registration) -> list[Term]:
    """Return the terms of an endpoint itself."""
    terms = [("href", registration.location), ("ep", registration.endpoint)]
    if registration.sector:
        terms.append(("d", registration.sector))
    terms += [("base", registration.normal_base), ("lt", str(registration.lifetime_s))]
    return [*terms, *registration.attributes]
