"""A look-up with a scope asks other directories, and their links get paths that work here."""

from __future__ import annotations

import pytest

from resource_directory.errors import InvalidParameterError
from resource_directory.link_format import WebLink
from resource_directory.scoped import LookUpScope, ScopedQuery, ServingGateway, without_scope

NORTH = ServingGateway(
    "gw-north", "/q/campus/north/gw-north", "10.0.0.2", (("coap", 5683), ("coaps", 5684))
)
HERE = ServingGateway("gw-here", "", "10.0.0.1", (("coap", 5690), ("coaps", 0)))


def parsed(*parameters: str) -> ScopedQuery:
    query = ScopedQuery.parse(parameters)
    assert query is not None
    return query


@pytest.mark.parametrize("parameters", [[], ["d=campus", "gp=north"], ["scope=own", "rt=a"]])
def test_without_a_scope_it_is_the_own_directory_as_ever(parameters: list[str]) -> None:
    assert ScopedQuery.parse(parameters) is None


def test_the_place_says_whom_to_ask_and_the_rest_is_asked() -> None:
    query = parsed("scope=domain", "rt=temperature", "gw-group=north", "count=10", "page=2")
    assert query.scope is LookUpScope.DOMAIN
    assert (query.domain, query.group, query.gateway) == (None, "north", None)
    assert query.asked == ("rt=temperature",)
    assert query.wanted == 30


def test_sectors_and_groups_of_endpoints_are_asked_of_each() -> None:
    """RFC 9176, section 6.2: ``d`` is an attribute as any; whose directories is said otherwise."""
    query = parsed("scope=all", "d=floor-3", "gp=lights")
    assert (query.domain, query.group) == (None, None)
    assert query.asked == ("d=floor-3", "gp=lights")
    assert [one.name for one in query.criteria] == ["d", "gp"]


@pytest.mark.parametrize("parameter", ["gw=gw-north", "gw-domain=campus", "gw-group=-"])
def test_who_names_gateways_alone_looks_for_them_everywhere(parameter: str) -> None:
    assert parsed(parameter).scope is LookUpScope.ALL


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        (["scope=world"], "scope is no own, group, domain or all"),
        (["scope=all", "scope=all"], "given twice"),
        (["scope=all", "page=1"], "page without count"),
        (["scope=all", "d=-"], "for gateways of none ask: 'gw-domain=-'"),
        (["scope=domain", "gp=-"], "for gateways of none ask: 'gw-group=-'"),
    ],
)
def test_what_is_wrong_is_named(parameters: list[str], why: str) -> None:
    with pytest.raises(InvalidParameterError, match=why):
        ScopedQuery.parse(parameters)


@pytest.mark.parametrize(
    ("serving", "href", "told"),
    [
        (NORTH, "coap://10.0.0.2/sensors/a", "/q/campus/north/gw-north/sensors/a"),
        (NORTH, "coaps://10.0.0.2:5684/sensors/a?x=1", "/q/campus/north/gw-north/sensors/a?x=1"),
        (NORTH, "/rd/7-1", "/q/campus/north/gw-north/rd/7-1"),
        (NORTH, "coap://10.0.0.9/temp", "coap://10.0.0.9/temp"),
        (NORTH, "coap://10.0.0.2:7000/temp", "coap://10.0.0.2:7000/temp"),
        (NORTH, "coap://[broken/temp", "coap://[broken/temp"),
        (HERE, "coap://127.0.0.1:5690/sensors/a", "/sensors/a"),
        (HERE, "/rd/7-1", "/rd/7-1"),
    ],
)
def test_own_resources_get_a_path_that_works_here_and_devices_keep_their_address(
    serving: ServingGateway, href: str, told: str
) -> None:
    link = serving.located(WebLink(href, (("rt", "a"), ("gw", "a-lie"))))
    assert link == WebLink(told, (("rt", "a"), ("gw", serving.id)))


def test_an_anchor_moves_with_its_link_and_what_is_stale_says_how_old_it_is() -> None:
    link = NORTH.located(WebLink("/a", (("anchor", "coap://10.0.0.2/"), ("obs", None))), 35)
    assert link.attributes == (
        ("anchor", "/q/campus/north/gw-north/"),
        ("obs", None),
        ("gw", "gw-north"),
        ("stale", "35"),
    )


def test_the_part_that_is_wanted_is_told() -> None:
    links = [WebLink(f"/{number}") for number in range(5)]
    assert parsed("scope=all", "count=2", "page=1").written(links) == "</2>,</3>"
    assert parsed("scope=all").written(links[:1]) == "</0>"
    with pytest.raises(InvalidParameterError, match="too many links"):
        parsed("scope=all").written([WebLink("/" + "a" * 600_000)] * 2)


def test_the_own_directory_is_not_asked_for_scopes() -> None:
    assert without_scope(["scope=own", "rt=a"]) == ("rt=a",)
