"""The scope of a gateway's own messages: those that leave it, and those that stay."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mqtt import FilterError
from gateway.node.links import scope
from gateway.node.links.scope import Scope, check_filter
from tests.held_objects import held_objects
from tree_handler.batch import Row

topics = st.sampled_from(["a", "a/b", "b", "b/c", "private/x"])


@pytest.mark.parametrize(
    ("replicate", "keep_local", "leaving"),
    [
        (["#"], [], {"a", "a/b", "b", "private/x"}),
        (["#"], ["private/#", "b"], {"a", "a/b"}),
        (["a/#"], [], {"a", "a/b"}),
        (["a/#"], ["a/b"], {"a"}),
        ([], [], set()),
    ],
)
def test_a_topic_leaves_if_it_is_to_be_replicated_and_not_kept(
    replicate: list[str], keep_local: list[str], leaving: set[str]
) -> None:
    own = Scope(replicate, keep_local)
    assert {t for t in ("a", "a/b", "b", "private/x") if own.leaves(t)} == leaving


@given(st.lists(topics, max_size=30))
def test_cutting_keeps_every_message_in_its_place_and_none_beside_one_of_another_kind(
    names: list[str],
) -> None:
    own = Scope(["#"], ["private/#", "b"])
    rows: list[Row] = [(name, 1, str(i).encode()) for i, name in enumerate(names)]
    runs = list(own.runs(rows))
    assert [row for _, run in runs for row in run] == rows
    assert all(own.leaves(row[0]) is not stays for stays, run in runs for row in run)
    assert all(one[0] is not other[0] for one, other in pairwise(runs))


def test_topics_that_are_remembered_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "MAX_TOPICS", 10)
    own = Scope(["#"], ["private/#"])
    assert all(own.leaves(f"t/{n}") for n in range(10))
    held = held_objects(own)
    for n in range(100):
        assert own.leaves(f"t/{n}")
        assert held_objects(own) <= held


@pytest.mark.parametrize("wrong", ["", "a/#/b", "a+", "$share/g/a"])
def test_a_wrong_filter_is_named(wrong: str) -> None:
    with pytest.raises(FilterError):
        check_filter(wrong)


def test_where_all_leaves_messages_are_not_cut() -> None:
    rows: list[Row] = [("a", 1, b""), ("private/x", 1, b"")]
    assert list(Scope().runs(rows)) == [(False, rows)]
    assert Scope(["a/#", "#"]).is_everything
    assert not Scope(["#"], ["b"]).is_everything
    assert list(Scope([], []).runs(rows)) == [(True, rows)]
