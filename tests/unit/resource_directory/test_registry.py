"""The registry: RFC 9176's registrations and look-ups, with time as an argument."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from resource_directory.errors import (
    DirectoryError,
    DirectoryFullError,
    InvalidParameterError,
    NoSuchRegistrationError,
    NotOwnerError,
    TooLargeError,
)
from resource_directory.expiry import Expiry
from resource_directory.link_format import WebLink, parse, serialise
from resource_directory.lookup import LEAVING_MAX
from resource_directory.query import LookupQuery
from resource_directory.registration import Registration
from resource_directory.registry import Registry, RegistryLimits
from resource_directory.search import LinkSearch
from tests.held_objects import held_objects

BASE = "coap://[2001:db8:3::123]:61616"
LINKS = parse(
    '</sensors/temp>;rt="temperature-c";if="sensor",'
    '<http://www.example.com/sensors/temp>;anchor="/sensors/temp";rel=describedby,'
    '</sensors/light>;rt="light-lux core.sen-light";if=sensor;obs'
)


def register(registry: Registry, endpoint: str = "node1", now: float = 0.0, **more: object) -> str:
    arguments = {"base": BASE, **more}
    links = arguments.pop("links", LINKS)
    return registry.register(endpoint, links, now, **arguments).location  # type: ignore[arg-type]


def all_of(
    look_up: Callable[[LookupQuery, float], LinkSearch], *parameters: str, now: float = 0.0
) -> list[WebLink]:
    search = look_up(LookupQuery.parse(parameters), now)
    while not search.go_on(1_000):
        pass
    return parse(",".join(search.texts))


def resources(registry: Registry, *parameters: str, now: float = 0.0) -> list[str]:
    return [link.href for link in all_of(registry.find_resources, *parameters, now=now)]


def endpoints(registry: Registry, *parameters: str, now: float = 0.0) -> list[str | None]:
    return [link.get("ep") for link in all_of(registry.find_endpoints, *parameters, now=now)]


@pytest.mark.parametrize(
    ("base", "said", "sought"),
    [
        ("coap://h", "/t", "coap://h/t"),
        ("coap://h", "/%74", "coap://h/t"),
        ("coap://h", "/a/../t", "coap://h/t"),
        ("coap://h", "/ä", "coap://h/%C3%A4"),
        ("coap://H:5683", "/t", "coap://h/t"),
        ("coap://h", "coap://I:5683/t", "coap://i/t"),
        ("coap://h", "coap://I", "coap://i/"),
    ],
)
def test_a_link_is_found_by_any_uri_that_is_equivalent_to_its_target(
    base: str, said: str, sought: str
) -> None:
    registry = Registry()
    register(registry, base=base, links=[WebLink("/plain", ()), WebLink(said, ())])
    for href in (sought, sought.replace("coap", "COAP"), sought.replace("t", "%74")):
        assert len(resources(registry, f"href={href}")) == 1
    assert resources(registry, f"href={sought}x") == []


class ChangesHeard:
    """A listener that notes where what changed stood before and stands then."""

    def __init__(self) -> None:
        self.changes: list[tuple[str | None, str | None]] = []

    def changed(self, before: Registration | None, after: Registration | None) -> None:
        self.changes.append((before and before.location, after and after.location))

    def renewed(self, registration: Registration) -> None:
        self.changes.append((registration.location, registration.location))


def test_what_is_restored_takes_the_place_of_what_has_its_name_or_its_location() -> None:
    earlier = Registry()
    kept = [earlier.at(register(earlier, name)) for name in ("a", "b")]
    one, other = [dataclasses.replace(made) for made in kept if made is not None]
    heard = ChangesHeard()
    registry = Registry(listeners=(heard,))

    def restored(made: Registration) -> list[tuple[str | None, str | None]]:
        heard.changes.clear()
        registry.restore(dataclasses.replace(made))
        return heard.changes

    a, b = one.location, other.location
    assert restored(one) == [(None, a)]
    assert restored(dataclasses.replace(one, attributes=(("et", "x"),))) == [(a, a)]
    # Its endpoint stands elsewhere: there it is over.
    moved = dataclasses.replace(one, location=b)
    assert restored(moved) == [(a, None), (None, b)]
    assert [registry.at(location) is not None for location in (a, b)] == [False, True]
    # Another endpoint has its location.
    assert restored(other) == [(b, None), (None, b)]
    assert endpoints(registry) == ["b"]
    assert restored(one) == [(None, a)]
    # It has the name of one and the location of the other: both are over.
    both = dataclasses.replace(one, location=b)
    assert restored(both) == [(b, None), (a, None), (None, b)]
    assert endpoints(registry) == ["a"]
    assert len(list(registry.registrations())) == 1


def test_a_list_of_very_many_values_is_refused() -> None:
    registry = Registry()
    most = " ".join(f"k{number}" for number in range(64))
    register(registry, "n", links=[WebLink("/a", (("rt", most), ("title", "x " * 900)))])
    with pytest.raises(TooLargeError, match="more than 64 values in rt"):
        register(registry, "m", links=[WebLink("/a", (("rt", f"{most} one-more"),))])


def test_many_small_links_count_by_the_memory_that_they_take() -> None:
    few, many = Registry(), Registry()
    (one,) = [few.at(register(few, links=[WebLink("/a", (("title", "x" * 1_000),))]))]
    (other,) = [many.at(register(many, links=[WebLink("/", (("a", None),))] * 100))]
    assert one is not None
    assert other is not None
    assert other.size() > 15 * one.size()


def listed(number: int) -> str:
    return " ".join(f"{number}-{one}" for one in range(64))


LinkAttributes = tuple[tuple[str, str | None], ...]
KINDS: dict[str, list[LinkAttributes]] = {
    "usual": [(("rt", "temperature"), ("if", "core.s"))] * 500,
    "lists of the same": [(("rt", listed(0)), ("if", listed(1)))] * 100,
    "lists": [(("rt", listed(n)), ("if", listed(n + 100))) for n in range(100)],
    "names": [tuple((f"n{n}-{one}", None) for one in range(60)) for n in range(100)],
    "values": [tuple(("v", f"{n}-{one}") for one in range(60)) for n in range(100)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_registration_takes_much_more_than_is_estimated(kind: str) -> None:
    text = serialise([WebLink(f"/{n}", attributes) for n, attributes in enumerate(KINDS[kind])])
    taken: list[int] = []
    for _ in range(2):  # the first may come upon Python's own table of names, when that grows
        registry = Registry()
        tracemalloc.start()
        try:
            location = register(registry, "n", links=parse(text))
            taken.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    found = registry.at(location)
    assert found is not None
    assert min(taken) < 1.5 * found.held


def test_who_replaces_much_and_often_leaves_little_behind() -> None:
    registry = Registry()
    for number in range(40):
        links = [WebLink(f"/{number}/{one}", (("rt", f"{number}-{one}"),)) for one in range(500)]
        for some in ([], links) if number % 2 else (links,):
            register(registry, "n", links=some)
        if not number:
            once = held_objects(registry)
    assert held_objects(registry) < (LEAVING_MAX + 3) * once
    while registry.expire(0.0):
        pass
    assert held_objects(registry) < 1.2 * once


def test_what_leaves_with_long_lists_leaves_in_as_short_slices() -> None:
    registry = Registry()
    lists = tuple((name, listed(number)) for number, name in enumerate(("rt", "if", "ct", "rel")))
    register(registry, "n", links=[WebLink(f"/{one}", lists) for one in range(100)])
    register(registry, "n", links=[])
    slices = 0
    while registry.expire(0.0, 1):
        slices += 1
    assert slices == 99, "257 terms of a link are more than one slice has"


def test_a_look_up_answers_links_resolved_against_the_base() -> None:
    registry = Registry()
    register(registry)
    found = all_of(registry.find_resources)
    assert serialise(found) == (
        f'<{BASE}/sensors/temp>;rt="temperature-c";if="sensor",'
        f'<http://www.example.com/sensors/temp>;anchor="{BASE}/sensors/temp";rel="describedby",'
        f'<{BASE}/sensors/light>;rt="light-lux core.sen-light";if="sensor";obs'
    )


@pytest.mark.parametrize(
    ("parameters", "paths"),
    [
        (["rt=temperature-c"], ["temp"]),
        (["rt=core.sen-light"], ["light"]),
        (["rt=light-lux", "if=sensor"], ["light"]),
        (["rt=temperature-c", "rt=light-lux"], []),
        (["rt=temp*"], ["temp"]),
        (["rt=*"], ["temp", "light"]),
        (["if=sensor"], ["temp", "light"]),
        (["if=sensor", "ep=node1"], ["temp", "light"]),
        (["if=sensor", "ep=node2"], []),
        (["d=campus", "rt=l*"], ["light"]),
        (["et=meter", "obs"], ["light"]),
        (["rel=describedby"], ["temp"]),
        ([f"href={BASE}/sensors/light"], ["light"]),
        ([f"href={BASE}/sensors/l*"], ["light"]),
        (["href=COAP://[2001:DB8:3::123]:61616/sensors/%6Cight"], ["light"]),
        (["href=COAP://[2001:DB8:3::123]:61616/sensors/%6C*"], ["light"]),
        (["href=http://WWW.example.com:80/x/../sensors/temp"], ["temp"]),
        ([f"anchor={BASE}/sensors/%74emp"], ["temp"]),
        (["base=COAP://[2001:DB8:3::123]:61616/", "if=sensor"], ["temp", "light"]),
        (["href=/sensors/light"], []),  # RFC 9176, section 6.2: in URI form
        ([f"anchor={BASE}/sensors/temp"], ["temp"]),
        (["rt=no"], []),
        (["no=x"], []),
    ],
)
def test_resources_are_found_that_meet_all_criteria(
    parameters: list[str], paths: list[str]
) -> None:
    registry = Registry()
    register(registry, sector="campus", attributes=[("et", "meter")])
    register(registry, "other", links=[], sector="campus")
    found = resources(registry, *parameters)
    assert [href.rpartition("/")[2] for href in found] == paths


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ([], ["node1", "node2", "node3"]),
        (["ep=node2"], ["node2"]),
        (["d=campus"], ["node1", "node2"]),
        (["rt=temperature-c"], ["node1", "node3"]),
        (["rt=temperature-c", "rt=light-lux"], ["node1", "node3"]),
        (["rt=humid*", "d=campus"], ["node2"]),
        (["ep=node*", "et=meter"], ["node3"]),
        (["href=/rd/2"], ["node2"]),
        (["rt=core.rd-ep"], ["node1", "node2", "node3"]),
        (["lt=500"], ["node3"]),
    ],
)
def test_endpoints_are_found_that_meet_all_criteria_themselves_or_by_a_link(
    parameters: list[str], names: list[str]
) -> None:
    registry = Registry()
    register(registry, "node1", sector="campus")
    register(registry, "node2", sector="campus", links=parse("</h>;rt=humidity"))
    register(registry, "node3", lifetime_s=500, attributes=[("et", "meter")])
    assert endpoints(registry, *parameters) == names


def test_an_endpoint_look_up_answers_a_link_to_the_registration() -> None:
    registry = Registry()
    register(registry, sector="campus", attributes=[("et", "meter")])
    (link,) = all_of(registry.find_endpoints)
    assert str(link) == (f'</rd/1>;ep="node1";d="campus";base="{BASE}";et="meter";rt="core.rd-ep"')


def test_an_answer_comes_in_pages_without_a_link_lost_or_doubled() -> None:
    registry = Registry()
    for i in range(7):
        register(registry, f"node{i}", links=parse(f"</{i}>;rt=x"), base="coap://[::1]")
    pages = [resources(registry, "rt=x", f"page={p}", "count=3") for p in range(4)]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert (
        [href for page in pages for href in page]
        == resources(registry)
        == [f"coap://[::1]/{i}" for i in range(7)]
    )
    assert endpoints(registry, "count=2", "page=1") == ["node2", "node3"]


@pytest.mark.parametrize(
    "parameters",
    [
        ["page=1"],
        ["count=0"],
        ["count=x"],
        ["count=-1"],
        ["page=", "count=1"],
        ["count=1", "count=2"],
        [f"a{i}=b" for i in range(17)],
    ],
)
def test_a_query_that_can_not_be_paged_is_refused(parameters: list[str]) -> None:
    with pytest.raises(InvalidParameterError):
        LookupQuery.parse(parameters)


def test_registering_again_replaces_the_links_and_keeps_the_location() -> None:
    registry = Registry()
    location = register(registry)
    assert register(registry, links=parse("</new>")) == location
    assert resources(registry) == [f"{BASE}/new"]
    assert resources(registry, "rt=temperature-c") == []
    assert len(registry) == 1


def test_a_repeated_registration_changes_nothing_but_its_end() -> None:
    registry = Registry()
    first = register(registry, lifetime_s=100)
    register(registry, "node2", lifetime_s=1000)
    assert register(registry, lifetime_s=100, now=60.0) == first
    assert endpoints(registry, now=150.0) == ["node1", "node2"]
    assert endpoints(registry, now=160.0) == ["node2"]


def test_one_name_in_two_sectors_is_two_endpoints() -> None:
    registry = Registry()
    assert register(registry, sector="a") != register(registry, sector="b")
    assert len(registry) == 2


def test_an_active_registration_is_not_taken_over_by_another_identity() -> None:
    registry = Registry()
    location = register(registry, owner="psk:a", lifetime_s=100)
    for other in ("psk:b", None):
        with pytest.raises(NotOwnerError):
            register(registry, owner=other, links=[])
        with pytest.raises(NotOwnerError):
            registry.update(location, 0.0, owner=other)
        with pytest.raises(NotOwnerError):
            registry.remove(location, 0.0, owner=other)
    assert len(resources(registry)) == 3
    # Once it has expired, the name is free, even before it is swept.
    assert register(registry, owner="psk:b", now=100.0) != location
    with pytest.raises(NoSuchRegistrationError):
        registry.update(location, 100.0, owner="psk:a")


def test_an_update_renews_and_changes_only_what_it_names() -> None:
    registry = Registry()
    location = register(
        registry, lifetime_s=100, attributes=[("et", "meter"), ("zone", "1")], owner="a"
    )
    before = dataclasses.replace(registry.get(location, 0.0))
    registry.update(location, 50.0, owner="a")
    assert registry.get(location, 149.0) == dataclasses.replace(before, expires_at=150.0)
    registry.update(location, 149.0, lifetime_s=10, attributes=[("zone", "2")], owner="a")
    assert endpoints(registry, "zone=2", "et=meter", now=158.0) == ["node1"]
    assert endpoints(registry, "zone=1", now=158.0) == []
    with pytest.raises(NoSuchRegistrationError):
        registry.get(location, 159.0)


def test_a_new_source_address_changes_a_base_only_if_the_endpoint_named_none() -> None:
    registry = Registry()
    explicit = register(registry, "explicit", links=parse("</a>"))
    implicit = register(registry, "implicit", links=parse("</a>"), base_is_explicit=False)
    for location in (explicit, implicit):
        registry.update(location, 1.0, source_base="coaps://192.0.2.7:40000")
    assert resources(registry) == [f"{BASE}/a", "coaps://192.0.2.7:40000/a"]
    assert resources(registry, "href=coaps://192.0.2.7:40000/a") == ["coaps://192.0.2.7:40000/a"]
    registry.update(implicit, 2.0, base="coap://named.example")
    registry.update(implicit, 3.0, source_base="coap://192.0.2.8")
    assert resources(registry, "ep=implicit") == ["coap://named.example/a"]


def test_a_removed_registration_is_found_no_more_and_its_location_is_not_used_again() -> None:
    registry = Registry()
    location = register(registry)
    registry.remove(location, 0.0)
    assert resources(registry) == endpoints(registry) == []
    assert resources(registry, "rt=*") == []
    assert registry.next_timer() is None
    assert register(registry) != location
    for gone in (location, "/rd/", "/rd/x", "/rd/02", "/rd/²", "/rd/-1", "/rd/" + "9" * 5000):
        with pytest.raises(NoSuchRegistrationError):
            registry.get(gone, 0.0)


@pytest.mark.parametrize("lifetime_s", [None, 100], ids=["as before", "another"])
def test_a_renewed_registration_outlives_its_first_end_and_is_freed_at_its_new_one(
    lifetime_s: int | None,
) -> None:
    registry = Registry()
    location = register(registry, lifetime_s=100)
    registry.update(location, 60.0, lifetime_s=lifetime_s)
    assert registry.next_timer() == 160.0
    assert registry.expire(159.0) == 0
    assert endpoints(registry, now=159.0) == ["node1"]
    assert registry.expire(160.0) == 1
    assert len(registry) == 0


def test_expiry_frees_in_slices_and_look_ups_do_not_wait_for_it() -> None:
    registry = Registry()
    for i in range(10):
        register(registry, f"node{i}", lifetime_s=10 + i % 2)
    assert registry.next_timer() == 10.0
    assert registry.expire(9.9) == 0
    assert len(endpoints(registry, now=10.0)) == 5
    assert [registry.expire(10.0, limit=3) for _ in range(3)] == [3, 2, 0]
    assert len(registry) == 5
    assert registry.next_timer() == 11.0


@pytest.mark.parametrize(
    "longest",
    [
        {"endpoint": "x" * 63},
        {"endpoint": "é" * 31 + "x"},
        {"sector": "x" * 63},
        {"lifetime_s": 1},
        {"lifetime_s": 4294967295},
    ],
)
def test_a_parameter_at_its_limit_is_taken(longest: dict[str, object]) -> None:
    registry = Registry()
    register(registry, **longest)  # type: ignore[arg-type]  # deliberately of any type
    assert len(registry) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"endpoint": ""},
        {"endpoint": "x" * 64},
        {"endpoint": "a\nb"},
        {"sector": "é" * 32},
        {"lifetime_s": 0},
        {"lifetime_s": -5},
        {"lifetime_s": 4294967296},
        {"base": "relative"},
        {"base": "coap://"},
        {"base": "coap://[fe80::1%25eth0]"},
        {"base": "coap://[::1"},
        {"base": "coap://h:99999"},
        {"base": "coap://h>"},
        {"base": "coap://" + "h" * 600},
        {"attributes": [("page", "1")]},
        {"attributes": [("href", "1")]},
        {"attributes": [("a b", "1")]},
        {"attributes": [("et", "\x00")]},
        {"links": [WebLink("//[x")]},
        {"links": [WebLink("/a b")]},
        {"links": [WebLink("/a", (("anchor", "a b"),))]},
    ],
)
def test_a_wrong_parameter_is_refused_and_changes_nothing(wrong: dict[str, object]) -> None:
    registry = Registry()
    with pytest.raises(InvalidParameterError):
        register(registry, **wrong)  # type: ignore[arg-type]  # deliberately of any type
    assert len(registry) == 0
    location = register(registry)
    with pytest.raises(InvalidParameterError):
        register(registry, **{"endpoint": "node1", **wrong})  # type: ignore[arg-type]  # as above
    assert len(resources(registry, f"href={BASE}/*")) == 2
    assert registry.get(location, 0.0).endpoint == "node1"


def test_limits_hold_and_a_full_directory_still_renews() -> None:
    limits = RegistryLimits(registrations=2, links_per_registration=3, attributes_per_endpoint=1)
    registry = Registry(limits=limits)
    location = register(registry, "a")
    register(registry, "b")
    with pytest.raises(DirectoryFullError):
        register(registry, "c")
    with pytest.raises(TooLargeError):
        register(registry, "a", links=[*LINKS, WebLink("/more")])
    with pytest.raises(TooLargeError):
        registry.update(location, 0.0, attributes=[("x", "1"), ("y", "2")])
    registry.update(location, 1.0)
    assert register(registry, "a", links=parse("</z>")) == location
    registry.remove(location, 1.0)
    register(registry, "c")


def test_the_size_limits_count_what_is_held_and_what_is_freed() -> None:
    size = Registry().register("a", LINKS, 0.0, base=BASE).size()
    registry = Registry(limits=RegistryLimits(size=2 * size, size_per_registration=size))
    register(registry, "a")
    location = register(registry, "b")
    with pytest.raises(DirectoryFullError):
        register(registry, "c")
    with pytest.raises(TooLargeError):
        registry.update(location, 0.0, attributes=[("et", "x" * 100)])
    registry.remove(location, 0.0)
    register(registry, "c")


def test_one_owner_fills_its_share_and_others_go_on() -> None:
    registry = Registry(limits=RegistryLimits(registrations_per_owner=2))
    first = register(registry, "a", owner="psk:flood")
    register(registry, "b", owner="psk:flood")
    with pytest.raises(DirectoryFullError):
        register(registry, "c", owner="psk:flood")
    assert register(registry, "a", owner="psk:flood", links=parse("</z>")) == first
    register(registry, "c", owner="psk:other")
    for name in ("d", "e", "f"):  # of nobody
        register(registry, name)
    registry.remove(first, 0.0, owner="psk:flood")
    register(registry, "g", owner="psk:flood")


def test_the_size_of_one_owner_counts_what_is_replaced_and_what_has_ended() -> None:
    size = Registry().register("a", LINKS, 0.0, base=BASE, owner="psk:flood").size()
    registry = Registry(limits=RegistryLimits(size_per_owner=2 * size))
    register(registry, "a", owner="psk:flood")
    register(registry, "b", owner="psk:flood", lifetime_s=1)
    with pytest.raises(DirectoryFullError):
        register(registry, "c", owner="psk:flood", links=parse("</z>"))
    with pytest.raises(DirectoryFullError):
        register(registry, "a", owner="psk:flood", links=[*LINKS, WebLink("/more")])
    assert registry.expire(2.0) > 0
    register(registry, "c", owner="psk:flood")


def test_owners_that_have_nothing_left_cost_nothing() -> None:
    registry = Registry()

    def held_after(owners: range) -> int:
        for number in owners:
            location = register(registry, "a", owner=f"psk:{number}")
            registry.remove(location, 0.0, owner=f"psk:{number}")
        while registry.expire(0.0):
            pass
        return held_objects(registry)

    before = held_after(range(100))
    assert held_after(range(100, 1_000)) < before + 100


def test_expiry_forgets_replaced_times_and_keeps_its_heap_small() -> None:
    expiry = Expiry()
    for at in range(10_000):
        expiry.set("/rd/1", float(at))
    assert held_objects(expiry) < 500
    assert expiry.next_timer() == 9999.0
    expiry.discard("/rd/1")
    assert expiry.expired(1e9, 10) == []


class Directory(RuleBasedStateMachine):
    """A registry beside a plain dictionary that every look-up scans."""

    names = st.sampled_from(["a", "b", "c"])
    owners = st.sampled_from([None, "x", "y"])
    kinds = st.lists(st.sampled_from(["temp", "temp-c", "light"]), max_size=3)
    lifetimes = st.integers(1, 20)

    def __init__(self) -> None:
        super().__init__()
        link = [WebLink("/0", (("rt", "temp"),))]
        size = Registry().register("a", link, 0.0, base=BASE).size()
        self.limits = RegistryLimits(registrations_per_owner=2, size_per_owner=5 * size // 2)
        self.registry = Registry(limits=self.limits)
        self.model: dict[str, tuple[str | None, float, int, list[str], str]] = {}
        self.now = 0.0
        self.ends: list[float] = []
        """Every end that was ever set, also those that a renewal has put off."""

    def active(self, name: str) -> bool:
        return name in self.model and self.model[name][1] > self.now

    def has_room(self, name: str, owner: str | None, links: list[WebLink]) -> bool:
        """Return whether its owner may have this registration beside what else stands of it."""
        if owner is None:
            return True
        standing = [
            one
            for one in self.registry.registrations()
            if one.owner == owner and one.endpoint != name
        ]
        new = Registry().register(name, links, 0.0, base=BASE).size()
        return (
            len(standing) < self.limits.registrations_per_owner
            and sum(one.size() for one in standing) + new <= self.limits.size_per_owner
        )

    @rule(name=names, owner=owners, kinds=kinds, lifetime_s=lifetimes)
    def register(self, name: str, owner: str | None, kinds: list[str], lifetime_s: int) -> None:
        links = [WebLink(f"/{i}", (("rt", kind),)) for i, kind in enumerate(kinds)]
        has_room = self.has_room(name, owner, links)
        try:
            made = self.registry.register(
                name, links, self.now, base=BASE, owner=owner, lifetime_s=lifetime_s
            )
        except NotOwnerError:
            assert self.active(name)
            assert self.model[name][0] != owner
        except DirectoryFullError:
            assert not has_room
        else:
            assert has_room
            assert not self.active(name) or self.model[name][0] == owner
            self.model[name] = (owner, self.now + lifetime_s, lifetime_s, kinds, made.location)
            self.ends.append(self.now + lifetime_s)

    @precondition(lambda self: any(map(self.active, self.model)))
    @rule(data=st.data(), lifetime_s=st.none() | lifetimes)
    def renew(self, data: st.DataObject, lifetime_s: int | None) -> None:
        """Its own endpoint renews a registration, perhaps for another time."""
        name = data.draw(st.sampled_from(sorted(filter(self.active, self.model))))
        owner, _, before_s, kinds, location = self.model[name]
        self.registry.update(location, self.now, lifetime_s=lifetime_s, owner=owner)
        new_s = before_s if lifetime_s is None else lifetime_s
        self.model[name] = (owner, self.now + new_s, new_s, kinds, location)
        self.ends.append(self.now + new_s)

    @rule(name=names, owner=owners)
    def update(self, name: str, owner: str | None) -> None:
        if name not in self.model:
            return
        known, _, lifetime_s, kinds, location = self.model[name]
        may = self.active(name) and known == owner
        try:
            self.registry.update(location, self.now, owner=owner)
        except DirectoryError:
            assert not may
        else:
            assert may
            self.model[name] = (known, self.now + lifetime_s, lifetime_s, kinds, location)

    @rule(name=names, owner=owners)
    def remove(self, name: str, owner: str | None) -> None:
        if name not in self.model:
            return
        may = self.active(name) and self.model[name][0] == owner
        try:
            self.registry.remove(self.model[name][4], self.now, owner=owner)
        except DirectoryError:
            assert not may
        else:
            assert may
            del self.model[name]

    @rule(seconds=st.integers(0, 15), limit=st.integers(0, 3))
    def pass_time(self, seconds: int, limit: int) -> None:
        self.now += seconds
        self.registry.expire(self.now, limit)

    @precondition(lambda self: any(end > self.now for end in self.ends))
    @rule(data=st.data())
    def pass_time_to_an_end(self, data: st.DataObject) -> None:
        """Free what is over when something ends, or would have ended without a renewal."""
        self.now = data.draw(st.sampled_from(sorted({end for end in self.ends if end > self.now})))
        self.registry.expire(self.now, len(self.model))

    @invariant()
    def what_is_active_is_there_and_due_to_end_in_time(self) -> None:
        ends = [entry[1] for entry in self.model.values() if entry[1] > self.now]
        assert len(self.registry) >= len(ends)
        timer = self.registry.next_timer()
        assert not ends or (timer is not None and timer <= min(ends))

    @invariant()
    def look_ups_find_what_a_scan_finds(self) -> None:
        active = {name: entry for name, entry in self.model.items() if entry[1] > self.now}
        assert sorted(map(str, endpoints(self.registry, now=self.now))) == sorted(active)
        for kind in ("temp", "temp*", "*", "none"):
            expected = sum(
                kind in ("*", k) or (kind == "temp*" and k.startswith("temp"))
                for entry in active.values()
                for k in entry[3]
            )
            assert len(resources(self.registry, f"rt={kind}", now=self.now)) == expected


TestDirectory = Directory.TestCase
TestDirectory.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)


def test_a_kept_registration_takes_the_place_of_its_name_and_of_its_location() -> None:
    earlier, registry = Registry("/rd/"), Registry("/rd/")
    first, second = register(earlier, "a"), register(earlier, "b")
    kept = earlier.get(second, 0.0)
    assert (register(registry, "b"), register(registry, "c")) == (first, second)
    register(registry, "d")
    registry.restore(kept)
    assert len(registry) == 2
    assert registry.get(second, 0.0).endpoint == "b"
    assert registry.at(first) is None
    assert sorted(endpoints(registry), key=str) == ["b", "d"]
    registry.restore(kept)
    assert len(registry) == 2


@pytest.mark.parametrize(
    "attributes", [(("no name", "x"),), (("title", 'a\x00"'),), (("anchor", "/x"), ("=", None))]
)
def test_a_link_that_can_not_be_written_is_not_registered_and_the_refusal_names_it(
    attributes: tuple[tuple[str, str | None], ...],
) -> None:
    registry = Registry()
    with pytest.raises(InvalidParameterError, match=r"link \(.*\).*/bad"):
        register(registry, links=[WebLink("/good"), WebLink("/bad", attributes)])
    assert len(registry) == 0
