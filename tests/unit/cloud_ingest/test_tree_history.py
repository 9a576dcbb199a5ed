"""The tree is replayed from the rows that say when it changed for whom."""

from __future__ import annotations

import datetime
from typing import Any

from synthetic_tables import TOPOLOGY, rows

from cloud_ingest.dashboard.tree_view import MOMENTS_MAX, TreeHistory

Link = tuple[str, str | None, str, float | None]
"""Peer, role, state, and round-trip time."""


def said(ms: int | None, gateway: str, parent: str | None, *links: Link, root: str = "a") -> Any:
    time = None if ms is None else datetime.datetime.fromtimestamp(ms / 1_000, datetime.UTC)
    names = ("peer", "role", "state", "rtt_ms")
    told = [dict(zip(names, link, strict=True)) for link in links]
    return {"time": time, "gateway": gateway, "root": root, "parent": parent, "links": told}


def history(*told: Any) -> TreeHistory:
    return TreeHistory(rows(TOPOLOGY, list(told)))


def test_a_gateway_is_where_it_said_last_by_that_moment() -> None:
    tree = history(
        said(3_000, "b", None, root="b"),
        said(1_000, "a", None),
        said(2_000, "b", "a", ("a", "root", "forwarding", 2.5)),
        said(None, "c", "a"),
    )
    assert tree.span_ms == (1_000, 3_000)
    assert tree.at(999)["gateway"] == []
    assert tree.at(1_999)["gateway"] == ["a"]
    for time_ms in (2_000, 2_999):
        assert tree.at(time_ms) == {
            "gateway": ["a", "b"],
            "parent": [None, "a"],
            "root": ["a", "a"],
            "since_ms": [1_000, 2_000],
            "rtt_ms": [None, 2.5],
            "standby": [],
            "time_ms": time_ms,
        }
    assert tree.at(3_000)["root"] == ["a", "b"]
    last = [tree.last_change_ms(time_ms) for time_ms in (999, 1_000, 1_999, 2_000, 9_999)]
    assert last == [0, 1_000, 1_000, 2_000, 3_000]


def test_what_says_the_same_place_again_is_no_change_and_each_part_of_it_is_one() -> None:
    spare = ("c", "blocked", "no", 7.0)
    tree = history(
        said(1, "b", "a", spare),
        said(2, "b", "a", ("c", "designated", "no", 9.0)),
        said(3, "b", "a"),
        said(4, "b", "d"),
        said(5, "b", "d", root="d"),
    )
    assert tree.moments()["changes_ms"] == [1, 3, 4, 5]
    assert tree.at(2)["standby"] == [["b", "c", "blocked", 7.0]]


def test_a_link_on_standby_is_told_once_as_the_end_that_is_blocked_sees_it() -> None:
    designated = said(1, "b", "a", ("c", "designated", "no", 1.0), ("a", None, "no", 5.0))
    blocked = said(1, "c", "a", ("b", "blocked", "no", 2.0), ("d", None, "no", None))
    for told in ([designated, blocked], [blocked, designated]):
        assert history(*told).at(1)["standby"] == [
            ["b", "c", "blocked", 2.0],
            ["c", "d", "", None],
        ]
    both = said(1, "c", "a", ("b", "designated", "no", 2.0))
    assert history(designated, both).at(1)["standby"] == [["b", "c", "designated", 1.0]]
    forwarding = said(1, "c", "a", ("b", "designated", "forwarding", 2.0))
    assert history(forwarding).at(1)["standby"] == []


def test_moments_count_changes_in_equal_parts_of_the_time_and_the_last_is_in_the_last() -> None:
    width = 10
    times = [0, width - 1, width, 2 * width, MOMENTS_MAX * width - 1, MOMENTS_MAX * width]
    tree = history(*(said(ms, "b", f"p{at}") for at, ms in enumerate(times)))
    moments = tree.moments()
    assert (moments["first_ms"], moments["last_ms"]) == (0, MOMENTS_MAX * width)
    assert moments["counts"] == [2, 1, 1, *[0] * (MOMENTS_MAX - 4), 2]
    assert moments["changes_ms"] == times


def test_a_short_time_has_parts_of_a_millisecond() -> None:
    moments = history(*(said(5 + ms, "b", f"p{ms}") for ms in range(3))).moments()
    assert moments["counts"] == [1, 1, 1, *[0] * (MOMENTS_MAX - 3)]
    assert history(said(5, "b", "a")).moments()["counts"] == [1, *[0] * (MOMENTS_MAX - 1)]


def test_each_change_is_told_if_there_are_few() -> None:
    def moments(count: int) -> dict[str, Any]:
        twice = [said(ms, who, f"p{ms}") for ms in range(count) for who in ("b", "c")]
        return history(*twice).moments()

    assert moments(10 * MOMENTS_MAX)["changes_ms"] == list(range(10 * MOMENTS_MAX))
    assert moments(10 * MOMENTS_MAX + 1)["changes_ms"] == []


def test_without_rows_there_is_no_tree() -> None:
    none = {"first_ms": None, "last_ms": None, "counts": [], "changes_ms": []}
    for topology in (None, TOPOLOGY.empty_table()):
        tree = TreeHistory(topology)
        assert (tree.span_ms, tree.moments(), tree.last_change_ms(9)) == (None, none, 0)
        assert tree.at(9)["gateway"] == []
