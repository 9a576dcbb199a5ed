"""An observed look-up, without I/O: where it is subscribed, and what stands while some are away."""

from __future__ import annotations

from gateway.coap.fleet_directory.observed import GATEWAYS_MAX, ObservedLookUp
from gateway.coap.fleet_directory.partial import PARTIAL
from gateway.coap.fleet_directory.targets import FEWER_LINKS, PAGE_LINKS, LookedUp
from resource_directory.link_format import WebLink
from resource_directory.scoped import ScopedQuery
from tree_handler.members.member import MemberRecord

ONE = [WebLink("/a", ())]


def records(count: int) -> list[MemberRecord]:
    return [
        MemberRecord(f"gw-{number:03}", 1, 1, "", "", "10.0.0.1", 1883) for number in range(count)
    ]


def made() -> ObservedLookUp:
    query = ScopedQuery.parse(["scope=all"])
    assert query is not None
    return ObservedLookUp(LookedUp(("rd-lookup", "res"), query, "me"), lambda one: f"/q/{one.id}")


def told(look_up: ObservedLookUp, now: float = 0.0) -> list[tuple[str, str | None]]:
    return [(link.href, link.get("stale")) for link in look_up.links(now)]


def test_it_is_subscribed_where_something_may_be_and_ended_where_not() -> None:
    look_up = made()
    first, second, third = records(3)
    assert look_up.follow([first, second]) == ([first, second], [])
    assert look_up.follow([second, third]) == ([third], ["gw-000"])
    assert look_up.follow([second, third]) == ([], [])
    assert not look_up.is_whole
    look_up.told("gw-000", ONE, 0.0)
    assert look_up.links(0.0) == [], "it is not followed any more"


def test_what_a_gateway_said_last_stands_with_its_age_until_it_says_more_or_is_too_old() -> None:
    look_up = made()
    look_up.follow(records(2))
    look_up.told("gw-000", ONE, 0.0)
    look_up.told("gw-001", ONE, 0.0)
    assert look_up.is_whole
    assert told(look_up) == [("/q/gw-000/a", None), ("/q/gw-001/a", None)]
    look_up.told("gw-001", None, 10.0)
    assert told(look_up, 17.0)[1] == ("/q/gw-001/a", "7")
    assert [one.id for one in look_up.silent] == ["gw-001"]
    *_, last = look_up.links(1_000.0)
    assert (last.get("rt"), last.get("gw")) == (PARTIAL, "gw-001")
    look_up.told("gw-001", ONE, 1_001.0)
    assert told(look_up, 1_002.0)[1] == ("/q/gw-001/a", None)


def test_beyond_its_most_gateways_and_a_page_of_each_it_says_that_it_is_not_whole() -> None:
    look_up = made()
    begun, _ = look_up.follow(records(GATEWAYS_MAX + 2))
    assert len(begun) == GATEWAYS_MAX
    for one in begun:
        look_up.told(one.id, ONE, 0.0)
    *_, last = look_up.links(0.0)
    assert last.get("missing") == "2"
    look_up.told("gw-000", PAGE_LINKS * ONE, 0.0)
    *_, last = look_up.links(0.0)
    assert last.get("missing") == "3"


def test_a_gateway_is_asked_for_fewer_links_as_long_as_there_are_fewer() -> None:
    look_up = made()
    look_up.follow(records(1))
    tries = 0
    while look_up.too_long("gw-000"):
        tries += 1
    assert tries == len(FEWER_LINKS)
    assert not look_up.too_long("gw-none")
