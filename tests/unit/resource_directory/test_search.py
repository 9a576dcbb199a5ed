"""Look-ups in slices: each is bounded, and together they find what one look would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from resource_directory.errors import InvalidParameterError
from resource_directory.index import Index
from resource_directory.link_format import WebLink, parse
from resource_directory.ordered_ids import ChangeCount
from resource_directory.query import LookupQuery
from resource_directory.registry import Registry
from resource_directory.search import MAX_CHARACTERS, ChecksDone, LinkMatch, LinkSearch
from tests.held_objects import held_objects

BASE = "coap://h"
CHECKS = 500
ONE_LOOK = 100
"""More than one candidate of these directories takes with all its criteria."""
LINKS = parse('</t>;rt="temperature";if="core.s",</h>;rt="humidity";if="core.s"')


def find(registry: Registry, kind: str, *query: str) -> LinkSearch:
    looks = {"res": registry.find_resources, "ep": registry.find_endpoints}
    return looks[kind](LookupQuery.parse(query), 0.0)


def found(search: LinkSearch) -> list[WebLink]:
    while not search.go_on(1_000_000):
        pass
    return parse(",".join(search.texts))


def fleet(endpoints: int) -> Registry:
    registry = Registry()
    for number in range(endpoints):
        registry.register(
            f"n{number}", LINKS, 0.0, base=BASE, attributes=(("et", "meter"), ("gp", "g"))
        )
    return registry


@pytest.mark.parametrize("kind", ["res", "ep"])
@pytest.mark.parametrize(
    "query",
    [
        ("rt=temp*", "if=core*", "ep=n*", "et=m*", "count=1", "page=900"),
        ("rt=none*", "if=core*"),
        ("rt=temperature", "gp=g"),
        ("gp=none*", "ep=n*"),
        ("rt=*", "count=1", "page=99999"),
        ("d=", "ep=*"),
        (),
    ],
)
def test_no_slice_looks_at_more_than_it_may_and_all_find_what_one_look_would(
    kind: str, query: tuple[str, ...]
) -> None:
    registry = fleet(1_000)
    search, before = find(registry, kind, *query), 0
    while not search.go_on(CHECKS):
        assert search.checks - before <= CHECKS + ONE_LOOK
        before = search.checks
    assert found(search) == found(find(registry, kind, *query))


def test_an_endpoint_of_many_links_is_no_long_look() -> None:
    registry = Registry()
    links = [WebLink(f"/{number}", (("rt", "x"),)) for number in range(2_000)]
    registry.register("n", links, 0.0, base=BASE)
    search, before = find(registry, "ep", "ep=n*", "rt=y*", "if=z*", "title=*"), 0
    while not search.go_on(CHECKS):
        assert search.checks - before <= CHECKS + ONE_LOOK
        before = search.checks
    assert found(search) == []


def test_each_value_of_a_list_is_counted_that_is_looked_at() -> None:
    registry = Registry()
    values = " ".join(f"k{number}" for number in range(64))
    kinds = tuple((name, values) for name in ("rt", "if", "ct", "rel", "rev"))
    links = [WebLink(f"/{number}", kinds) for number in range(100)]
    registry.register("n", links, 0.0, base=BASE)
    sought = [f"rev=k{number}*" for number in range(50, 60)]
    search, slices = find(registry, "res", "rt=k1", *sought, "page=99", "count=1"), 0
    while not search.go_on(CHECKS):
        slices += 1
    assert len(found(search)) == 1
    # The last of five lists is looked through for each that is sought, of each link.
    assert search.checks > 100 * len(sought) * 5 * 64
    assert slices > search.checks // (CHECKS + 11 * 5 * 65) - 1


@pytest.mark.parametrize("links", [1, 2, 5])
def test_an_answer_has_at_most_a_mebibyte_with_a_comma_behind_each_link(links: int) -> None:
    def one(characters: int) -> LinkSearch:
        texts = ["x"] * (links - 1) + ["x" * (characters - 1 - 2 * (links - 1))]
        matches: Iterator[LinkMatch | None] = iter([(text, "/rd/1", False) for text in texts])
        return LinkSearch(matches, ChecksDone(), LookupQuery.parse(()))

    assert one(MAX_CHARACTERS).go_on(1)
    with pytest.raises(InvalidParameterError, match="ask with count and page"):
        one(MAX_CHARACTERS + 1).go_on(1)


@pytest.mark.parametrize("query", [("d=x",), ("ep=n*",), ()])
def test_endpoints_without_links_are_gone_through_in_slices_too(query: tuple[str, ...]) -> None:
    registry = Registry()
    for number in range(1_000):
        registry.register(f"n{number}", [], 0.0, base=BASE, sector="x")
    search = find(registry, "res", *query)
    if query:
        assert not search.go_on(CHECKS)
    assert found(search) == []


def test_the_criterion_that_fewest_meet_is_looked_at_first() -> None:
    registry = fleet(1_000)
    for kind in ("res", "ep"):
        for few in ("ep=n77", "ep=n77*", "href=coap://h/none*"):
            search = find(registry, kind, "rt=temp*", "gp=g", few, "if=core.s")
            assert search.go_on(10_000)
            assert search.checks <= 30 * ONE_LOOK
            assert len(found(search)) <= 11


@pytest.mark.parametrize("query", [(), ("gp=g",), ("ep=*",), ("rt=temperature",)])
@pytest.mark.parametrize("kind", ["ep", "res"])
def test_an_endpoint_that_registers_again_meanwhile_is_told_once(
    kind: str, query: tuple[str, ...]
) -> None:
    registry = fleet(30)
    search = find(registry, kind, *query)
    assert not search.go_on(50)
    registry.register("n0", LINKS, 0.0, base=BASE, attributes=(("et", "other"), ("gp", "g")))
    per_endpoint = 1 if kind == "ep" or query == ("rt=temperature",) else len(LINKS)
    assert len(found(search)) == 30 * per_endpoint


@pytest.mark.parametrize("kind", ["ep", "res"])
@pytest.mark.parametrize("query", [(), ("gp=g",), ("ep=*",), ("rt=*",)])
def test_a_page_far_behind_costs_no_memory(kind: str, query: tuple[str, ...]) -> None:
    registry = fleet(3_000)
    before = held_objects(registry)
    search = find(registry, kind, *query, "page=2900", "count=1")
    while not search.go_on(CHECKS):
        pass
    # Of each that was found before, it would hold one more.
    assert held_objects(registry, search) - before < 1_500
    assert len(found(search)) == 1


class SlicedLookUps(RuleBasedStateMachine):
    """A link that stands all the time is found once; a link that comes and goes may be found."""

    queries = st.sampled_from(
        [
            *((), ("rt=temp*",), ("rt=temperature",), ("et=m*",), ("if=core.s", "ep=*")),
            *(("gp=g",), ("gp=g", "rt=*")),
        ]
    )

    def __init__(self) -> None:
        super().__init__()
        self.registry = fleet(30)
        self.searches: dict[LinkSearch, tuple[str, set[str]]] = {}

    def standing(self) -> set[str]:
        return {one.endpoint for one in self.registry.registrations()}

    @rule(kind=st.sampled_from(["res", "ep"]), query=queries)
    def begin(self, kind: str, query: tuple[str, ...]) -> None:
        self.searches[find(self.registry, kind, *query)] = (kind, self.standing())

    @rule(number=st.integers(0, 39), et=st.sampled_from(["meter", "master"]))
    def register(self, number: int, et: str) -> None:
        self.registry.register(
            f"n{number}", LINKS, 0.0, base=BASE, attributes=(("et", et), ("gp", "g"))
        )
        for _, standing in self.searches.values():
            standing.discard(f"n{number}")

    @rule(number=st.integers(0, 39))
    def remove(self, number: int) -> None:
        found = self.registry.standing(f"n{number}", "", 0.0)
        if found is not None:
            self.registry.remove(found.location, 0.0)
        for _, standing in self.searches.values():
            standing.discard(f"n{number}")

    @rule(work=st.integers(1, 60))
    def advance(self, work: int) -> None:
        for search, (kind, standing) in list(self.searches.items()):
            if not search.go_on(work):
                continue
            del self.searches[search]
            links = found(search)
            if kind == "ep":
                # One that was removed and came again meanwhile is another registration.
                locations = [link.href for link in links]
                assert len(locations) == len(set(locations))
                assert standing <= {link.get("ep") for link in links}
            else:
                assert len(links) >= len(standing)

    def teardown(self) -> None:
        self.advance(1_000_000)


def test_an_endpoint_that_is_removed_and_comes_again_meanwhile_is_told_where_it_is_now() -> None:
    registry = fleet(30)
    search = find(registry, "ep")
    assert not search.go_on(1)
    gone = registry.standing("n0", "", 0.0)
    assert gone is not None
    registry.remove(gone.location, 0.0)
    registry.register("n0", LINKS, 0.0, base=BASE)
    come = registry.standing("n0", "", 0.0)
    assert come is not None
    told = [link.href for link in found(search) if link.get("ep") == "n0"]
    assert told == [gone.location, come.location]


TestSlicedLookUps = SlicedLookUps.TestCase
TestSlicedLookUps.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)


def test_an_id_that_stands_nowhere_is_taken_away_from_nowhere() -> None:
    index, wanted = Index(ChangeCount()), LookupQuery.parse(["rt=a"]).criteria[0]
    index.add(1, [("rt", "a"), ("rt", "a")])
    index.discard(2, [("rt", "a"), ("rt", "b"), ("if", "a")])
    assert list(index.find(wanted)) == [1]
    index.add(2, [("rt", "a")])
    index.discard(3, [("rt", "a")])
    assert list(index.find(wanted)) == [1, 2]
    index.discard(1, [("rt", "a"), ("rt", "a")])
    assert list(index.find(wanted)) == [2]
    assert (index.has(wanted, 2), index.has(wanted, 1), index.estimate(wanted)) == (True, False, 1)
    index.discard(2, [("rt", "a")])
    assert (list(index.find(wanted)), index.estimate(wanted)) == ([], 0)
