"""Look-ups in many directories, without I/O: any order of answers, silence, parts and limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.coap.fleet_directory.partial import PARTIAL
from gateway.coap.fleet_directory.search import ASKED_MAX, AT_ONCE
from gateway.coap.fleet_directory.searches import (
    GATHER_S,
    IN_FLIGHT_MAX,
    PER_HOST,
    DirectorySearches,
)
from gateway.coap.fleet_directory.targets import PAGE_LINKS, LookedUp
from resource_directory.errors import InvalidParameterError
from resource_directory.link_format import WebLink, parse
from resource_directory.scoped import ScopedQuery
from resource_directory.search import MAX_CHARACTERS
from tree_handler.members.member import MemberRecord


def records(count: int) -> list[MemberRecord]:
    return [
        MemberRecord(f"gw-{number:04}", 1, 1, "", "", "10.0.0.1", 1883, capability=1.0)
        for number in range(count)
    ]


def look_up(*parameters: str) -> LookedUp:
    query = ScopedQuery.parse(["scope=all", *parameters])
    assert query is not None
    return LookedUp(("rd-lookup", "res"), query, "somebody")


def made(suspects: frozenset[str] = frozenset()) -> DirectorySearches:
    return DirectorySearches(lambda record: f"/q/-/-/{record.id}", lambda: suspects)


def links(number: int) -> list[WebLink]:
    return [WebLink(f"/{at}", ()) for at in range(number)]


def run(
    searches: DirectorySearches,
    number: int,
    has: dict[str, int],
    draw: st.DataObject | None = None,
    long: frozenset[str] = frozenset(),
    fits: int = 1,
) -> list[WebLink]:
    """Answer all questions, in any order; who is not in ``has`` is silent.

    Of parts with one of the links ``long`` only those of so many links fit into an answer.
    """
    open_: list[tuple[str, int, int]] = []
    while True:
        open_ += [(one.record.id, one.page, one.count) for _, one in searches.questions(0.0)]
        assert len(open_) <= AT_ONCE
        for of, search in searches.take_over():
            assert of == number
            return parse(search.text().encode())
        if not open_:
            assert searches.is_eager
            continue
        at = 0 if draw is None else draw.draw(st.integers(0, len(open_) - 1))
        gateway_id, page, of_page = open_.pop(at)
        count = has.get(gateway_id)
        told = None if count is None else links(count)[page * of_page : (page + 1) * of_page]
        if told and of_page > fits and any(link.href in long for link in told):
            searches.too_long(number, gateway_id, 0.0)
        else:
            searches.answered(number, gateway_id, told, 0.0)


@given(st.data(), st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=80))
def test_all_that_answered_is_told_in_one_order_and_who_did_not_is_named(
    data: st.DataObject, counts: list[int | None]
) -> None:
    targets = records(len(counts))
    has = {one.id: n for one, n in zip(targets, counts, strict=True) if n is not None}
    searches = made()
    number = searches.begin(look_up(), targets, "host", lambda _: True, 0.0)
    found = run(searches, number, has, data)
    silent = [one.id for one in targets if one.id not in has]
    if silent:
        last = found.pop()
        assert (last.get("rt"), last.get("missing")) == (PARTIAL, str(len(silent)))
        assert (last.get("gw") or "").split() == silent[:16]
    expected = [(f"/q/-/-/{one}/{at}", one) for one in sorted(has) for at in range(has[one])]
    assert [(link.href, link.get("gw")) for link in found] == expected


@given(st.data(), st.integers(0, 5), st.integers(1, 7))
def test_pages_are_parts_of_the_whole_whatever_the_order_of_answers(
    data: st.DataObject, page: int, count: int
) -> None:
    targets = records(40)
    has = {one.id: number % 4 for number, one in enumerate(targets)}
    searches = made()
    paged = look_up(f"page={page}", f"count={count}")
    number = searches.begin(paged, targets, "host", lambda _: True, 0.0)
    found = [link.href for link in run(searches, number, has, data)]
    whole = [f"/q/-/-/{one}/{at}" for one in sorted(has) for at in range(has[one])]
    assert found == whole[page * count : (page + 1) * count]


@given(st.data(), st.integers(0, 4 * AT_ONCE))
def test_a_part_is_found_however_many_gateways_before_it_have_nothing(
    data: st.DataObject, empty: int
) -> None:
    targets = records(4 * AT_ONCE + 1)
    has = {one.id: int(number >= empty) for number, one in enumerate(targets)}
    searches = made()
    number = searches.begin(look_up("page=0", "count=1"), targets, "host", lambda _: True, 0.0)
    (found,) = run(searches, number, has, data)
    assert found.get("gw") == targets[empty].id


def test_a_gateway_with_many_links_is_asked_page_by_page() -> None:
    searches = made()
    number = searches.begin(look_up(), records(1), "host", lambda _: True, 0.0)
    assert len(run(searches, number, {"gw-0000": 2 * PAGE_LINKS + 3})) == 2 * PAGE_LINKS + 3


@given(st.sets(st.integers(0, PAGE_LINKS + 50)), st.sampled_from([1, 8, 40, PAGE_LINKS]))
def test_a_gateway_whose_links_do_not_fit_into_an_answer_is_asked_for_fewer(
    numbers: set[int], fits: int
) -> None:
    searches, long = made(), frozenset(f"/{number}" for number in numbers)
    number = searches.begin(look_up(), records(2), "host", lambda _: True, 0.0)
    has = {"gw-0000": PAGE_LINKS + 50, "gw-0001": 1}
    found = run(searches, number, has, long=long, fits=fits)
    told = [link.href.rpartition("/")[2] for link in found]
    assert told == [*map(str, range(PAGE_LINKS + 50)), "0"]


def test_a_gateway_whose_single_link_does_not_fit_is_missing() -> None:
    searches = made()
    number = searches.begin(look_up(), records(2), "host", lambda _: True, 0.0)
    has = {"gw-0000": 3, "gw-0001": 0}
    (last,) = run(searches, number, has, long=frozenset({"/1"}), fits=0)
    assert (last.get("missing"), last.get("gw")) == ("1", "gw-0000")


def test_who_may_not_be_asked_is_not_and_is_not_missing_either() -> None:
    searches = made()
    only = "gw-0001"
    number = searches.begin(look_up(), records(3), "host", lambda one: one.id == only, 0.0)
    assert [link.get("gw") for link in run(searches, number, {only: 1})] == [only]


def test_what_is_not_answered_in_time_is_missing() -> None:
    searches = made()
    number = searches.begin(look_up(), records(100), "host", lambda _: True, 0.0)
    asked = [one.record.id for _, one in searches.questions(0.0)]
    searches.answered(number, asked[0], links(1), 1.0)
    assert searches.next_timer() == GATHER_S
    searches.handle_timer(GATHER_S)
    ((_, search),) = searches.take_over()
    first, last = parse(search.text().encode())
    assert (first.get("gw"), last.get("missing")) == (asked[0], "99")
    assert len(searches) == 0


def test_beyond_the_most_that_are_asked_the_others_are_missing() -> None:
    searches = made()
    targets = records(ASKED_MAX + 5)
    number = searches.begin(look_up(), targets, "host", lambda _: True, 0.0)
    *_, last = run(searches, number, {one.id: 0 for one in targets})
    assert last.get("missing") == "5"


def test_look_ups_share_what_is_asked_at_one_time_and_none_is_left_out() -> None:
    searches = made()
    numbers = [
        searches.begin(look_up(f"x={n}"), records(200), n, lambda _: True, 0.0) for n in range(8)
    ]
    assert not searches.has_room("one more")
    asked = [number for number, _ in searches.questions(0.0)]
    assert len(asked) == IN_FLIGHT_MAX
    assert set(asked) == set(numbers)


def test_one_host_has_few_and_leaves_room_for_others() -> None:
    searches = made()
    for n in range(PER_HOST):
        searches.begin(look_up(f"x={n}"), records(1), "host", lambda _: True, 0.0)
    assert not searches.has_room("host")
    assert searches.has_room("other")


def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    searches = made()
    number = searches.begin(look_up(), records(2), "host", lambda _: True, 0.0)
    (first, _) = [one.record.id for _, one in searches.questions(0.0)]
    searches.answered(number, "gw-none", links(1), 0.0)
    searches.answered(number, first, links(1), 0.0)
    searches.answered(number, first, links(3), 0.0)
    searches.answered(number, "gw-0001", [], 0.0)
    ((_, search),) = searches.take_over()
    assert [link.get("gw") for link in parse(search.text().encode())] == [first]


def test_when_time_is_over_who_may_not_be_asked_is_not_missing_and_the_others_are() -> None:
    searches, targets = made(), records(AT_ONCE + 3)
    denied = targets[AT_ONCE + 1].id
    searches.begin(look_up(), targets, "host", lambda one: one.id != denied, 0.0)
    asked = [one.record.id for _, one in searches.questions(0.0)]
    assert len(asked) == AT_ONCE
    searches.handle_timer(GATHER_S - 0.001)
    assert list(searches.take_over()) == []
    searches.handle_timer(GATHER_S)
    ((_, search),) = searches.take_over()
    (partial,) = parse(search.text().encode())
    assert (partial.get("rt"), partial.get("missing")) == (PARTIAL, str(AT_ONCE + 2))


def test_more_text_than_one_answer_may_have_is_refused_and_as_much_is_told() -> None:
    for more, is_told in ((0, True), (1, False)):
        searches = made()
        number = searches.begin(look_up(), records(1), "host", lambda _: True, 0.0)
        list(searches.questions(0.0))
        beside = len('</q/-/-/gw-0000/>;gw="gw-0000",')
        searches.answered(
            number, "gw-0000", [WebLink("/" + "x" * (MAX_CHARACTERS - beside + more), ())], 0.0
        )
        ((_, search),) = searches.take_over()
        if is_told:
            assert len(search.text()) == MAX_CHARACTERS - 1
        else:
            with pytest.raises(InvalidParameterError, match="ask with count and page"):
                search.text()


def test_when_time_is_over_what_is_known_and_fresh_is_told_of_who_was_not_asked() -> None:
    searches, targets = made(), records(AT_ONCE + 1)
    last = targets[AT_ONCE]
    searches.begin(look_up(), targets, "host", lambda _: True, 0.0)
    assert len(list(searches.questions(0.0))) == AT_ONCE
    later = GATHER_S - 0.5
    other = searches.begin(look_up(), [last], "host", lambda _: True, later)
    assert [one.record for _, one in searches.questions(later)] == [last]
    searches.answered(other, last.id, links(1), later)
    assert [number for number, _ in searches.take_over()] == [other]
    searches.handle_timer(GATHER_S)
    ((_, search),) = searches.take_over()
    first, partial = parse(search.text().encode())
    assert (first.get("gw"), first.get("stale")) == (last.id, None)
    assert partial.get("missing") == str(AT_ONCE)
