"""Numbers count as lost when their origin itself has signed that it has them not."""

from __future__ import annotations

import pytest

from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import ReplicationAction, SendSeek, SendSought
from tree_handler.replication.repair import Denial, SearchResult, Seek
from tree_handler.replication.search import Searches
from tree_handler.seal import Seals
from tree_handler.simulation.model_keys import ModelRing, ModelSigner

STREAM: Epoch = ("gw-a", 1)
WANTED = {STREAM: Intervals([(1, 9)])}
SEEKER, ORIGIN = 1, 2
"""Links of the gateway between them."""


def searches(gateway_id: str, kept: Intervals | None = None) -> Searches:
    seals = Seals(ModelSigner(gateway_id), ModelRing(), "t")
    made = Searches(gateway_id, 1, lambda _: kept or Intervals(), 1.0, seals)
    made.link_up(SEEKER, 0.0)
    return made


def sought(actions: list[ReplicationAction]) -> SearchResult:
    (action,) = actions
    assert isinstance(action, SendSought)
    return SearchResult.decode(action.sought.encode())


def seek(actions: list[ReplicationAction]) -> Seek:
    (action,) = actions
    assert isinstance(action, SendSeek)
    return Seek.decode(action.seek.encode())


def test_the_origins_word_comes_by_way_of_others_and_is_for_this_search_alone() -> None:
    seeker, between, origin = searches("gw-c"), searches("gw-b"), searches("gw-a")
    between.link_up(ORIGIN, 0.0)
    asked = seek(between.receive_seek(SEEKER, seek(seeker.begin(WANTED, 0.0)), 0.0))
    told = sought(origin.receive_seek(SEEKER, asked, 0.0))
    seeker.receive_sought(SEEKER, sought(between.receive_sought(ORIGIN, told)))
    result = seeker.result
    assert result is not None
    assert seeker.denied(result, STREAM) == WANTED[STREAM]
    assert seeker.denied(result, ("gw-b", 1)) == Intervals()
    another = SearchResult(("gw-c", 1, 2), result.left, result.origins, True, result.denials)
    assert seeker.denied(another, STREAM) == Intervals()


def test_an_origin_denies_only_what_it_has_not() -> None:
    origin = searches("gw-a", Intervals([(1, 3)]))
    origin.receive_seek(SEEKER, Seek(("gw-c", 1, 1), WANTED), 0.0)
    found = {STREAM: Intervals([(1, 3)])}
    answer = sought(origin.looked(("gw-c", 1, 1), found))
    assert searches("gw-c").denied(answer, STREAM) == Intervals([(4, 9)])


def test_nobody_else_says_it() -> None:
    seeker, number = searches("gw-c"), ("gw-c", 1, 1)
    forged = Denial("gw-a", WANTED)
    seal = ModelSigner("gw-x").sign(forged.signed_part(number))
    for denials in ((), (forged,), (Denial("gw-a", WANTED, seal),)):
        answer = SearchResult(number, WANTED, frozenset({"gw-a"}), True, denials)
        assert seeker.denied(SearchResult.decode(answer.encode()), STREAM) == Intervals()
    with pytest.raises(ProtocolError, match="denials"):
        SearchResult.decode(
            SearchResult(number, WANTED, frozenset(), True, (forged,) * 65).encode()
        )


def test_a_seal_is_as_long_as_a_signature_may_be_and_no_longer() -> None:
    def answer(seal_bytes: int) -> bytes:
        denial = Denial("gw-a", WANTED, bytes(seal_bytes))
        return SearchResult(("gw-c", 1, 1), WANTED, frozenset(), True, (denial,)).encode()

    assert SearchResult.decode(answer(255)).denials[0].seal == bytes(255)
    with pytest.raises(ProtocolError, match="denial"):
        SearchResult.decode(answer(256))


def test_an_origin_that_cannot_read_its_log_denies_nothing_and_its_answer_is_not_complete() -> None:
    origin = searches("gw-a", Intervals([(1, 3)]))
    origin.receive_seek(SEEKER, Seek(("gw-c", 1, 1), WANTED), 0.0)
    found = {STREAM: Intervals([(1, 1)])}
    answer = sought(origin.looked(("gw-c", 1, 1), found, was_read=False))
    assert not answer.complete
    assert answer.left == {STREAM: Intervals([(2, 9)])}
    assert searches("gw-c").denied(answer, STREAM) == Intervals()


def test_who_cannot_read_its_log_asks_the_others_nevertheless() -> None:
    between = searches("gw-b", Intervals([(1, 9)]))
    between.link_up(ORIGIN, 0.0)
    between.receive_seek(SEEKER, Seek(("gw-c", 1, 1), WANTED), 0.0)
    asked = seek(between.looked(("gw-c", 1, 1), {}, was_read=False))
    told = SearchResult(asked.number, {}, frozenset(), complete=True)
    answer = sought(between.receive_sought(ORIGIN, told))
    assert (answer.left, answer.complete) == ({}, False)
