"""Digests at heads, the way that was not chosen, do the same work as directories that are asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import directory_digests
from benchmarks.digest_copies import Copies, Feed
from benchmarks.digest_keepers import Keepers
from benchmarks.digest_work import ASKED, DIGESTS, Figures, measure
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord

places = st.sampled_from(
    [("", ""), ("d0", ""), ("d1", ""), ("d0", "g0"), ("d0", "g1"), ("d1", "g0")]
)
fleets = st.lists(st.tuples(places, st.sampled_from([0.0, 1.0, 2.0])), min_size=1, max_size=20)


def record(number: int, place: tuple[str, str], capability: float) -> MemberRecord:
    domain, group = place
    return MemberRecord(
        f"gw-{number}", 1, 0, domain, group, "192.0.2.1", 1883, capability=capability
    )


@given(fleets, st.sets(st.integers(0, 19)))
def test_what_a_gateway_has_reaches_the_head_and_the_substitute_of_each_scope_that_it_is_in(
    fleet: list[tuple[tuple[str, str], float]], gone: set[int]
) -> None:
    members = Membership()
    for number, (place, capability) in enumerate(fleet):
        members.update(record(number, place, capability))
    members.suspect(frozenset(f"gw-{number}" for number in gone))
    keepers = Keepers.seen_by(members)
    for origin in members:
        if origin.capability == 0 or origin.id in members.suspects:
            continue
        reached, front = {origin.id}, [origin.id]
        for at in front:
            news = keepers.fed_by(at, origin) - reached
            reached |= news
            front += sorted(news)
        assert reached == {origin.id}.union(*keepers.above(origin.place))


@given(fleets)
def test_a_substitute_is_who_heads_the_scope_when_the_head_is_gone(
    fleet: list[tuple[tuple[str, str], float]],
) -> None:
    members = Membership()
    for number, (place, capability) in enumerate(fleet):
        members.update(record(number, place, capability))
    for scope, keepers in Keepers.seen_by(members).of_scope.items():
        members.suspect(frozenset(keepers[:1]))
        assert Keepers.seen_by(members).of_scope.get(scope, ())[:1] == keepers[1:]
        members.suspect(frozenset())


def test_a_keeper_that_lost_a_change_asks_for_the_whole() -> None:
    origin, keeper, feed = Copies(), Copies(), Feed(1)

    def push(*, is_lost: bool = False) -> set[str]:
        feed.pending.add("gw-1")
        payload, sent = feed.push(origin)
        news, lacking = (set[str](), set[str]()) if is_lost else keeper.take_packed(payload)
        feed.took(sent, lacking, origin.mark)
        return news

    origin.tell("gw-1", 1, {"a": "</a>"})
    assert push() == {"gw-1"}
    origin.tell("gw-1", 1, {"a": "</a>", "b": "</b>"})
    push(is_lost=True)
    origin.tell("gw-1", 1, {"b": "</b>"})
    assert push() == set()
    assert feed.pending == {"gw-1"}
    assert push() == {"gw-1"}
    assert feed.pending == set()
    assert [link.href for link in keeper.found("gw-1", ()) or ()] == ["/b"]


@pytest.fixture(scope="module")
def both(pytestconfig: pytest.Config) -> list[Figures]:
    of_sizes = directory_digests.QUICK
    sizes = of_sizes if pytestconfig.getoption("--soak") else [min(of_sizes)]
    return [measure(way, size, 1, of_sizes[size]) for size in sizes for way in (ASKED, DIGESTS)]


def test_both_ways_name_the_same_resources_and_all_look_ups_agree_after_peace(
    both: list[Figures],
) -> None:
    assert list(directory_digests.wrong(both)) == []
    for one in both:
        assert all(one.named["all"])
        assert [len(found) for found in one.named["all, one has it"]] == [1] * len(
            one.named["all, one has it"]
        )


def test_heads_with_digests_are_asked_with_fewer_messages_and_hold_more(
    both: list[Figures],
) -> None:
    for asked, digests in zip(both[::2], both[1::2], strict=True):
        assert digests.look_ups["all"].messages < asked.look_ups["all"].messages / 2
        assert digests.going.messages > asked.going.messages == 0
        assert digests.memory > 0


def test_a_keeper_that_forgets_what_it_is_told_is_found_out(
    both: list[Figures], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgets(_self: Copies, payload: bytes) -> tuple[set[str], set[str]]:
        return set(), set()

    monkeypatch.setattr(Copies, "take_packed", forgets)
    spoilt = measure(DIGESTS, 10, 1, directory_digests.QUICK[10])
    assert list(directory_digests.wrong([both[0], spoilt])) != []
