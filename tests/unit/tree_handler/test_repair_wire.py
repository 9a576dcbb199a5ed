"""Messages of repair on the wire: the largest values are read, and impossible ones are refused."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from tree_handler.batch import MAX_NUMBER
from tree_handler.boot_epoch import MAX_BOOT_EPOCH
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import Request, SearchResult, Seek, Summary

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
