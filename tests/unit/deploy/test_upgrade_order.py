"""The order in which gateways restart, and what makes one unhealthy (deploy/ansible)."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaded_file import loaded

PLUGIN = Path(__file__).resolve().parents[3] / "deploy/ansible/filter_plugins/hedgerow_fleet.py"
plugin = loaded(PLUGIN)

Edge = tuple[int, int]


def fleet(edges: set[Edge], size: int) -> dict[str, dict[str, Any]]:
    """Statuses of a fleet with these links; the first gateway is the root."""
    hops = {0: 0}
    ahead = [0]
    while ahead:
        at = ahead.pop(0)
        for a, b in edges:
            for here, there in ((a, b), (b, a)):
                if here == at and there not in hops:
                    hops[there] = hops[at] + 1
                    ahead.append(there)
    return {
        f"host-{one}": {
            "id": f"gw-{one}",
            "hops": hops.get(one, 0),
            "parent": None if one == 0 else "someone",
            "neighbours": [{"id": f"gw-{a + b - one}"} for a, b in sorted(edges) if one in (a, b)],
        }
        for one in range(size)
    }


CHAIN = {(0, 1), (1, 2), (2, 3)}
STAR = {(0, 1), (0, 2), (0, 3)}
RING = {(0, 1), (1, 2), (2, 3), (0, 3)}


def test_one_at_a_time_the_deepest_comes_first_and_the_root_last() -> None:
    assert plugin.batches(fleet(CHAIN, 4)) == [["host-3"], ["host-2"], ["host-1"], ["host-0"]]


def test_leaves_of_one_parent_restart_together_and_their_parent_by_itself() -> None:
    assert plugin.batches(fleet(STAR, 4), 3) == [["host-1", "host-2", "host-3"], ["host-0"]]


def test_a_gateway_and_its_only_way_do_not_restart_together() -> None:
    for batch in plugin.batches(fleet(CHAIN, 4), 4):
        assert not {"host-2", "host-3"} <= set(batch)
        assert not {"host-0", "host-1"} <= set(batch)


def test_two_that_are_each_others_way_round_do_not_restart_together() -> None:
    for batch in plugin.batches(fleet(RING, 4), 4):
        assert not {"host-1", "host-3"} <= set(batch)


def test_one_that_does_not_answer_restarts_by_itself_and_first() -> None:
    statuses = {**fleet(STAR, 4), "host-9": {}}
    assert plugin.batches(statuses, 3)[0] == ["host-9"]


def test_a_ring_is_whole_before_the_next_one_begins() -> None:
    rings = {"host-0": 1, "host-2": "2", "host-3": 1}  # host-1 says none, and so is of ring 1
    order = plugin.batches(fleet(CHAIN, 4), 1, rings)
    assert order == [["host-3"], ["host-1"], ["host-0"], ["host-2"]]
    # Those of two rings do not restart together, and who does not answer waits for its own.
    statuses = {**fleet(STAR, 4), "host-9": {}}
    order = plugin.batches(statuses, 3, {"host-2": 2, "host-9": 2})
    assert order == [["host-1", "host-3"], ["host-0"], ["host-9"], ["host-2"]]


@pytest.mark.parametrize("ring", ["two", 0, -1, 1.5, None, True])
def test_a_ring_that_is_none_is_refused_by_host(ring: object) -> None:
    with pytest.raises(ValueError, match=r"hedgerow_ring of host-2: .* is no whole number from 1"):
        plugin.batches(fleet(STAR, 4), 1, {"host-2": ring})


def test_none_at_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="at_once is 0"):
        plugin.batches(fleet(STAR, 4), 0)


@given(
    st.sets(
        st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda edge: edge[0] < edge[1]),
        max_size=14,
    ),
    st.integers(1, 7),
)
def test_every_host_comes_once_and_nobody_loses_more_than_to_one_alone(
    edges: set[Edge], at_once: int
) -> None:
    made = plugin.batches(fleet(edges, 7), at_once)
    assert sorted(host for batch in made for host in batch) == [f"host-{one}" for one in range(7)]
    for batch in made:
        assert len(batch) <= at_once
        away = {int(host.removeprefix("host-")) for host in batch}
        for a, b in combinations(set(range(7)) - away, 2):
            if all(a in reached(edges, b, {one}) for one in away):
                assert a in reached(edges, b, away)


def reached(edges: set[Edge], start: int, away: set[int]) -> set[int]:
    """By another way than the plugin's: to a fixed point."""
    found = {start}
    while True:
        more = {x for a, b in edges for x in (a, b) if {a, b} & found and not {a, b} & away}
        if more <= found:
            return found
        found |= more


BEFORE = {
    "id": "gw-a",
    "boot_epoch": 7,
    "neighbours": [{"id": "gw-b", "forwarding": True}, {"id": "gw-c", "forwarding": False}],
    "members": ["gw-a", "gw-b", "gw-c"],
    "disk": {"failure": None},
}


def test_a_gateway_with_the_links_it_had_is_healthy() -> None:
    assert plugin.complaints({**BEFORE, "boot_epoch": 8}, BEFORE) == []
    swapped = [{"id": "gw-b", "forwarding": False}, {"id": "gw-c", "forwarding": True}]
    assert plugin.complaints({**BEFORE, "boot_epoch": 8, "neighbours": swapped}, BEFORE) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"boot_epoch": 7}, "has not started again"),
        ({"neighbours": BEFORE["neighbours"][:1]}, "no link with gw-c"),  # type: ignore[index]
        ({"neighbours": [], "refused_links": [{"why": "another tree"}]}, "refused: another tree"),
        ({"members": ["gw-a"]}, "does not know gw-b, gw-c"),
        ({"disk": {"failure": "full"}}, "its log fails: full"),
        (
            {"neighbours": [{"id": n, "forwarding": False} for n in ("gw-b", "gw-c")]},
            "none of its links forwards",
        ),
    ],
)
def test_one_that_lacks_what_it_had_is_not(change: dict[str, Any], complaint: str) -> None:
    found = plugin.complaints({**BEFORE, "boot_epoch": 8, **change}, BEFORE)
    assert any(complaint in one for one in found), found


def test_one_that_does_not_answer_or_tells_nothing_is_not_healthy() -> None:
    assert plugin.complaints({}, BEFORE) == ["it does not answer"]
    assert "tells nothing" in plugin.complaints({"id": "gw-a", "up_s": 1}, BEFORE)[0]


@pytest.mark.parametrize(
    "lie",
    [
        {"id": "gw-1"},
        {"id": None},
        {"id": ["gw-1"]},
        {"neighbours": None},
        {"neighbours": [{}]},
        {"neighbours": ["gw-1"]},
        {"hops": "many"},
    ],
)
def test_a_machine_that_lies_of_itself_takes_nobody_out_of_the_order(lie: dict[str, Any]) -> None:
    statuses = fleet({(0, 1), (1, 2), (2, 3)}, 4)
    statuses["host-3"] = {**statuses["host-3"], **lie}
    for at_once in (1, 2, 4):
        order = plugin.batches(statuses, at_once)
        assert sorted(host for batch in order for host in batch) == sorted(statuses)
        assert ["host-3"] in order


@given(
    st.dictionaries(
        st.sampled_from(["host-0", "host-1", "host-2"]),
        st.dictionaries(
            st.sampled_from(["id", "hops", "parent", "neighbours"]),
            st.none() | st.integers() | st.text(max_size=3) | st.lists(st.text(max_size=3)),
        ),
    )
)
def test_whatever_machines_say_each_restarts_once(statuses: dict[str, dict[str, Any]]) -> None:
    order = plugin.batches(statuses, 2)
    assert sorted(host for batch in order for host in batch) == sorted(statuses)
