"""Messages of repair on the wire: the largest values are read, and impossible ones are refused."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from tree_handler.batch import MAX_NUMBER
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.ranges_wire import within_limits
from tree_handler.replication.repair import Denial, Request, SearchResult, Seek, Summary

FAR = ("gw", MAX_BOOT_EPOCH)
ALL = Intervals([(1, MAX_NUMBER)])
BEYOND = ("gw", MAX_BOOT_EPOCH + 1)
TOO_FAR = Intervals([(1, MAX_NUMBER + 1)])


def test_the_last_life_and_the_last_number_that_there_can_be_are_told() -> None:
    summary = Summary({FAR: ALL}, {FAR: MAX_NUMBER + 1}, {"gw": Intervals([(1, MAX_BOOT_EPOCH)])})
    assert Summary.decode(summary.encode()) == summary
    assert Request.decode(Request({FAR: ALL}).encode()) == Request({FAR: ALL})


@pytest.mark.parametrize("stream, numbers", [(BEYOND, ALL), (FAR, TOO_FAR)], ids=["life", "number"])
@pytest.mark.parametrize("kind", [Summary, Request, Seek, SearchResult])
def test_a_life_or_a_number_that_there_cannot_be_is_refused(
    kind: type[Summary | Request | Seek | SearchResult],
    stream: tuple[str, int],
    numbers: Intervals,
) -> None:
    row = [*stream, list(numbers)]
    told = {
        Summary: [False, [], [[*stream, 1, list(numbers)]]],
        Request: [row],
        Seek: ["gw-a", 1, 1, [row]],
        SearchResult: ["gw-a", 1, 1, [row], [], True],
    }
    name = "search result" if kind is SearchResult else kind.__name__.lower()
    with pytest.raises(ProtocolError, match=f"{name} (epoch|range): "):
        kind.decode(msgpack.packb(told[kind]))


def test_a_summary_has_no_life_over_that_there_cannot_be_and_no_log_begins_behind_all() -> None:
    with pytest.raises(ProtocolError, match=f"summary epoch: {MAX_BOOT_EPOCH + 1}"):
        Summary.decode(Summary(over={"gw": Intervals([(1, MAX_BOOT_EPOCH + 1)])}).encode())
    with pytest.raises(ProtocolError, match="summary row"):
        Summary.decode(Summary({FAR: ALL}, {FAR: MAX_NUMBER + 2}).encode())


MANY = [[number, number] for number in range(1, 20_000, 2)]
STREAMS = [["a", epoch, MANY] for epoch in (1, 2, 3)]


@pytest.mark.parametrize(
    ("of", "row"),
    [
        (Summary, [True, [], [["a", epoch, 1, MANY] for epoch in (1, 2, 3)]]),
        (Summary, [True, [[name, MANY] for name in "abc"], []]),
        (Request, STREAMS),
        (Seek, ["a", 1, 1, STREAMS]),
        (SearchResult, ["a", 1, 1, [], [], True, [[name, STREAMS[:1], b""] for name in "abc"]]),
    ],
)
def test_ranges_of_a_message_are_counted_wherever_they_stand(of: Any, row: list[Any]) -> None:
    with pytest.raises(ProtocolError, match="ranges"):
        of.decode(msgpack.packb(row))
    with pytest.raises(ProtocolError, match="too large"):
        of.decode(bytes((1 << 20) + 1))


@pytest.mark.parametrize("kind", [Summary, Request, Seek])
def test_an_origins_name_is_measured_in_bytes_as_in_batches(
    kind: type[Summary | Request | Seek],
) -> None:
    """Else who passes it on would send more than its neighbours take."""
    told = {Summary: [False, [], []], Request: [], Seek: ["gw-a", 1, 1, []]}
    for letter, is_taken in (("ü", True), ("\U0001f40d", False)):
        row = [128 * letter, 1, [[1, 1]]]
        rows = {
            Summary: [False, [], [[*row[:2], 1, row[2]]]],
            Request: [row],
            Seek: ["gw-a", 1, 1, [row]],
        }
        if is_taken:
            assert kind.decode(msgpack.packb(rows[kind])) != kind.decode(msgpack.packb(told[kind]))
        else:
            with pytest.raises(ProtocolError, match="origin"):
                kind.decode(msgpack.packb(rows[kind]))


ROW = ["a", 1, [[1, 1]]]
ID = ["gw-a", 1, 1]
KINDS: dict[type[Any], Any] = {
    Summary: lambda rows: [False, [], [[*row[:2], 1, *row[2:]] for row in rows]],
    Request: lambda rows: rows,
    Seek: lambda rows: [*ID, rows],
    SearchResult: lambda rows: [*ID, rows, [], True],
}


@pytest.mark.parametrize(
    ("of", "row", "named"),
    [
        (Summary, [False, [["a"]], []], "summary of what is over"),
        (Summary, [False, [["a", [], 1]], []], "summary of what is over"),
        (Summary, [False, ["ab"], []], "summary of what is over"),
        (Summary, [False, [], [["a", 1, 1]]], "summary row"),
        (Summary, [False, [], [["a", 1, 0, []]]], "summary row"),
        (Summary, [0, [], []], "summary"),
        (Summary, [False, {}, []], "summary"),
        (Summary, [False, [], {}], "summary"),
        (Summary, [False, [], [], []], "summary"),
        (Request, {}, "request streams"),
        (Request, [ROW[:2]], "request stream"),
        (Request, [[*ROW, 1]], "request stream"),
        (Request, ["abc"], "request stream"),
        (Request, [["a", 1, "ab"]], "request ranges"),
        (Request, [["a", 1, ["ab"]]], "request range"),
        (Request, [["a", 1, [[1]]]], "request range"),
        (Request, [["a", 1, [[1, 2, 3]]]], "request range"),
        (Request, [["a", 1, [[0, 1]]]], "request range"),
        (Request, [["a", 1, [[2, 1]]]], "request range"),
        (Request, [["a", 1, [[True, 1]]]], "request range"),
        (Request, [["", 1, []]], "request origin"),
        (Request, [["a", 0, []]], "request epoch"),
        (Seek, [*ID], "seek"),
        (Seek, [*ID, [], 0], "seek"),
        (Seek, ["gw-a", 1, 0, []], "seek number"),
        (Seek, ["gw-a", 1, MAX_NUMBER + 1, []], "seek number"),
        (Seek, ["gw-a", 1, True, []], "seek number"),
        (Seek, ["gw-a", 1, "1", []], "seek number"),
        (SearchResult, [*ID, [], [], 1], "search result"),
        (SearchResult, [*ID, [], []], "search result"),
        (SearchResult, [*ID, [], [], True, [], 0], "search result"),
        (SearchResult, [*ID, [], "gw", True], "search result origins"),
        (SearchResult, [*ID, [], [1], True], "search result origins"),
        (SearchResult, [*ID[:2], 0, [], [], True], "search result number"),
        (SearchResult, [*ID, [], [], True, [["a", []]]], "denial"),
        (SearchResult, [*ID, [], [], True, [["a", [], bytes(256)]]], "denial"),
        (SearchResult, [*ID, [], [], True, [["a", [], b""]] * 65], "denials"),
    ],
)
def test_what_is_wrong_in_a_message_is_named(of: Any, row: Any, named: str) -> None:
    with pytest.raises(ProtocolError, match=rf"^{named}: "):
        of.decode(msgpack.packb(row))


@pytest.mark.parametrize("of", KINDS)
def test_a_message_has_10_000_ranges_and_no_list_of_them_is_longer(of: Any) -> None:
    ranges = [[number, number] for number in range(1, 20_001, 2)]
    whole = msgpack.packb(KINDS[of]([["a", 1, ranges]]))
    assert of.decode(whole).encode() == whole
    with pytest.raises(ProtocolError):
        of.decode(msgpack.packb(KINDS[of]([["a", 1, [*ranges, [20_001, 20_001]]]])))


@pytest.mark.parametrize("of", [Request, Seek, SearchResult])
def test_a_question_and_an_answer_are_about_1_000_streams(of: Any) -> None:
    rows = [["a", epoch, [[1, 1]]] for epoch in range(1, 1_002)]
    whole = msgpack.packb(KINDS[of](rows[:1_000]))
    assert of.decode(whole).encode() == whole
    with pytest.raises(ProtocolError, match="streams"):
        of.decode(msgpack.packb(KINDS[of](rows)))


def test_an_answer_names_1_000_origins_and_64_denials_with_seals_of_255_bytes() -> None:
    names = [f"gw-{number:04}" for number in range(1_001)]
    seal = bytes(255)
    whole = msgpack.packb([*ID, [], names[:1_000], True, [["a", [ROW], seal]] * 64])
    answer = SearchResult.decode(whole)
    assert (len(answer.origins), len(answer.denials)) == (1_000, 64)
    assert answer.denials[63] == Denial("a", {("a", 1): Intervals([(1, 1)])}, seal)
    assert answer.encode() == whole
    with pytest.raises(ProtocolError, match="search result origins"):
        SearchResult.decode(msgpack.packb([*ID, [], names, True]))


def test_of_too_many_streams_or_ranges_the_first_are_told() -> None:
    one = Intervals([(1, 1)])
    many = {("gw", epoch): one for epoch in range(1, 1_002)}
    assert list(within_limits(many)) == list(many)[:1_000]
    ranges = Intervals((number, number) for number in range(1, 14_000, 2))
    told = within_limits({("a", 1): ranges, ("b", 1): ranges, ("c", 1): one})
    assert [len(numbers) for numbers in told.values()] == [7_000, 3_000]
    assert told["b", 1] == Intervals(list(ranges)[:3_000])


def test_a_request_has_so_many_numbers_and_the_last_range_is_cut() -> None:
    wanted = [(("a", 1), Intervals([(1, 3), (7, 9)])), (("b", 1), Intervals([(5, 9)]))]
    assert [Request.of(wanted, limit).wanted for limit in (0, 3, 4, 7)] == [
        {},
        {("a", 1): Intervals([(1, 3)])},
        {("a", 1): Intervals([(1, 3), (7, 7)])},
        {("a", 1): Intervals([(1, 3), (7, 9)]), ("b", 1): Intervals([(5, 5)])},
    ]
    ranges = Intervals((number, number) for number in range(1, 20_003, 2))
    assert len(Request.of([(("a", 1), ranges)], MAX_NUMBER).wanted["a", 1]) == 10_000
    streams = [(("a", epoch), Intervals([(1, 1)])) for epoch in range(1, 1_002)]
    assert len(Request.of(streams, MAX_NUMBER).wanted) == 1_000


def parts_of(*ranges: int, over: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    """Return the numbers of rows, and of ranges in them, that the parts of a summary have."""
    numbers = [Intervals((n, n) for n in range(1, 2 * count, 2)) for count in (*over, *ranges)]
    ended = [(f"gw-{at}", one) for at, one in enumerate(numbers[: len(over)])]
    rows = [(("gw", at), one, 1) for at, one in enumerate(numbers[len(over) :], 1)]
    parts = Summary.parts(rows, ended, completes=True)
    assert [part.completes for part in parts] == [False] * (len(parts) - 1) + [True]
    for part in parts:
        assert Summary.decode(part.encode()) == part
    return [
        (len(told), sum(map(len, told)))
        for told in ([*part.have.values(), *part.over.values()] for part in parts)
    ]


def test_a_part_of_a_summary_has_10_000_ranges_and_1_000_rows() -> None:
    assert parts_of() == [(0, 0)]
    assert parts_of(6_000, 4_000) == [(2, 10_000)]
    assert parts_of(6_000, 4_001, 5_999) == [(1, 6_000), (2, 10_000)]
    assert parts_of(6_000, 1, 4_000) == [(2, 6_001), (1, 4_000)]
    assert parts_of(4_000, over=(6_000,)) == [(2, 10_000)]
    assert parts_of(4_001, over=(6_000,)) == [(1, 6_000), (1, 4_001)]
    assert parts_of(10_001, 1) == [(1, 10_000), (1, 1)]
    assert parts_of(*[1] * 1_000) == [(1_000, 1_000)]
    assert parts_of(*[1] * 2_001) == [(1_000, 1_000), (1_000, 1_000), (1, 1)]


def test_a_summary_names_from_where_on_a_log_can_send_and_what_it_can() -> None:
    some = Intervals([(1, 9)])
    rows = [(("a", 1), some, 1), (("b", 1), some, 2), (("c", 1), some, 10)]
    (told,) = Summary.parts(rows, [("d", some)], completes=False)
    assert told.kept_from == {("b", 1): 2, ("c", 1): 10}
    assert [list(told.kept((name, 1))) for name in "abcd"] == [[(1, 9)], [(2, 9)], [], []]
    assert list(told.epochs()) == [("a", 1), ("b", 1), ("c", 1), ("d", 9)]
