"""One member of a group of collectors: which batches it spools, holds, drops and tells of."""

from __future__ import annotations

import dataclasses
from itertools import count

import msgpack
import pytest

from cloud_ingest.collector import sharing
from cloud_ingest.collector.ownership import owner_of
from cloud_ingest.collector.sharing import KeptNumbers, Sharing, SharingCounters, SharingLimits
from cloud_ingest.collector.spooled import (
    MAX_TOLD_RANGES,
    MAX_TOLD_ROWS,
    SpoolStatement,
    signed,
    unsigned,
)
from tree_handler import batch
from tree_handler.batch import Entry, Epoch, Flags, Header
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.proof import MAX_SIGNATURE_BYTES

GROUP = ("c0", "c1")
LIMITS = SharingLimits()
BATCH_BYTES = len(batch.encode("gw-0", 1, 1, [Entry("t", b"x")], flags=1, origin_time_us=0))


def origin(owner: str, *, other_than: str = "") -> str:
    """A gateway of which a member of `GROUP` is the owner while both are alive."""
    names = (f"gw-{at}" for at in count())
    return next(name for name in names if owner_of(name, GROUP) == owner and name != other_than)


MINE, THEIRS = origin("c0"), origin("c1")


def one(
    gateway: str, first: int = 1, *, flags: int = Flags.LOGGED, rows: int = 1
) -> tuple[bytes, Header]:
    frame = batch.encode(
        gateway, 1, first, [Entry("t", b"x")] * rows, flags=flags, origin_time_us=0
    )
    return frame, batch.check(frame)


def said(
    number: int, rows: dict[Epoch, Intervals] | None = None, **changes: object
) -> SpoolStatement:
    told = SpoolStatement("c1", 1, "c0", number, (0, 0), 0, 1, completes=True, rows=rows or {})
    return dataclasses.replace(told, **changes)  # type: ignore[arg-type]  # fields of its own


def member(limits: SharingLimits = LIMITS, kept: KeptNumbers | None = None) -> Sharing:
    """c0, which heard at the time 0 that c1 is alive and has nothing."""
    found = Sharing(("c0", 7), GROUP, kept or KeptNumbers(), limits, 0.0)
    found.receive(said(1), 0.0)
    assert (found.is_settled, found.live) == (True, {"c0", "c1"})
    return found


def held(limits: SharingLimits = LIMITS, flags: int = Flags.LOGGED) -> Sharing:
    """c0 as above, with a batch of c1's that came at the time 0."""
    found = member(limits)
    assert not found.takes(*one(THEIRS, flags=flags), 0.0)
    assert (found.held, found.held_bytes) == (1, BATCH_BYTES)
    return found


def reasons(found: Sharing, now: float) -> list[str]:
    """Spool what is due; say why each was."""
    due = found.due(now)
    for each in due:
        found.spooled(each)
    return [each.why for each in due]


def test_the_owner_spools_at_once_and_the_other_holds_what_is_not_its_own() -> None:
    found = member()
    assert found.takes(*one(MINE), 0.0)
    assert (found.held, found.counters) == (0, SharingCounters())
    assert not found.takes(*one(THEIRS, rows=3), 0.0)
    assert found.takes(*one(THEIRS, rows=3), 0.0), "it came again, and is held already"
    assert (found.held, found.counters) == (1, SharingCounters(held=3))


def test_what_another_has_already_is_not_held() -> None:
    found = member()
    found.receive(said(2, {(THEIRS, 1): Intervals([(1, 3)])}), 0.0)
    assert not found.takes(*one(THEIRS, 2, rows=2), 0.0)
    assert (found.held, found.counters) == (0, SharingCounters(known_elsewhere=2))
    assert not found.takes(*one(THEIRS, 2, flags=Flags.NONE), 0.0), "its numbers are others"
    assert not found.takes(*one(THEIRS, 3, rows=2), 0.0), "the other has but one of the two"
    assert (found.held, found.counters.held) == (2, 3)


def test_what_is_larger_than_all_that_may_be_held_is_spooled() -> None:
    exact = member(dataclasses.replace(LIMITS, held_bytes=BATCH_BYTES))
    assert not exact.takes(*one(THEIRS), 0.0)
    assert member(dataclasses.replace(LIMITS, held_bytes=BATCH_BYTES - 1)).takes(*one(THEIRS), 0.0)


def test_what_nobody_has_after_thirty_seconds_is_spooled() -> None:
    found = held()
    found.receive(said(2), 29.0)
    assert reasons(found, 29.999) == []
    assert reasons(found, 30.0) == ["aged"]
    assert (found.held, found.held_bytes) == (0, 0)
    assert found.counters == SharingCounters(held=1, aged=1)


def test_a_qos_0_batch_is_dropped_after_ten_seconds_while_its_owner_lives() -> None:
    found = held(flags=Flags.NONE)
    found.receive(said(2), 9.0)
    assert reasons(found, 9.999) == []
    assert found.held == 1
    assert reasons(found, 10.0) == []
    assert (found.held, found.held_bytes) == (0, 0)
    assert found.counters == SharingCounters(held=1, unlogged_dropped=1)


def test_a_qos_0_batch_behind_one_that_is_kept_longer_is_dropped_in_time() -> None:
    found = held()
    assert not found.takes(*one(THEIRS, 9, flags=Flags.NONE, rows=2), 1.0)
    found.receive(said(2), 11.0)
    assert reasons(found, 11.0) == []
    assert (found.held, found.counters.unlogged_dropped) == (1, 2)


@pytest.mark.parametrize("flags", [Flags.LOGGED, Flags.NONE])
def test_what_is_held_is_spooled_once_its_owner_was_silent_for_five_seconds(flags: int) -> None:
    found = held(flags=flags)
    found.handle_timer(4.999)
    assert (found.live, reasons(found, 4.999)) == ({"c0", "c1"}, [])
    found.handle_timer(5.0)
    assert (found.live, reasons(found, 5.0)) == ({"c0"}, ["taken_over"])
    assert (found.held, found.counters) == (0, SharingCounters(held=1, taken_over=1))


def test_beyond_the_limit_the_oldest_is_spooled_and_no_more_than_need_be() -> None:
    found = held(dataclasses.replace(LIMITS, held_bytes=2 * BATCH_BYTES))
    assert not found.takes(*one(THEIRS, 2), 0.1)
    assert reasons(found, 0.1) == []
    assert not found.takes(*one(THEIRS, 3), 0.2)
    (due,) = found.due(0.2)
    assert (due.header.first, due.why, found.held) == (1, "overflowed", 3)
    found.spooled(due)
    assert (found.held_bytes, found.counters.overflowed) == (2 * BATCH_BYTES, 1)
    found.spooled(due)
    assert found.held_bytes == 2 * BATCH_BYTES, "it is let go once"


def test_what_was_said_to_be_in_another_spool_is_let_go_if_all_of_it_is() -> None:
    found = member()
    for first, flags in ((1, Flags.LOGGED), (3, Flags.LOGGED), (5, Flags.NONE)):
        assert not found.takes(*one(THEIRS, first, flags=flags, rows=2), 0.0)
    found.receive(said(2, {(THEIRS, 1): Intervals([(1, 3), (5, 6)])}), 0.0)
    assert found.counters == SharingCounters(held=6, confirmed=2)
    assert [each.header.first for each in found.all_held()] == [3]


def test_at_the_end_of_a_life_what_is_logged_is_spooled_as_what_nobody_has() -> None:
    found = held()
    assert not found.takes(*one(THEIRS, 9, flags=Flags.NONE), 0.0)
    (last,) = found.all_held()
    assert (last.header.first, last.header.logged, last.why) == (1, True, "aged")
    found.spooled(last)
    assert (found.held, found.counters.aged) == (1, 1)


def test_until_it_knows_the_others_it_holds_all_and_it_waits_five_seconds_for_them() -> None:
    found = Sharing(("c0", 7), ("c0", "c1", "c2"), KeptNumbers(), LIMITS, 100.0)
    assert found.others == ("c1", "c2")
    found.receive(said(1), 100.0)
    assert not found.is_settled
    assert not found.takes(*one(MINE), 100.0)
    found.handle_timer(104.999)
    assert (found.is_settled, reasons(found, 104.999)) == (False, [])
    found.handle_timer(105.0)
    assert (found.is_settled, reasons(found, 105.0)) == (True, ["taken_over"])
    alone = Sharing(("c0", 7), ("c0",), KeptNumbers(), LIMITS, 0.0)
    assert (alone.is_settled, alone.takes(*one(THEIRS), 0.0)) == (True, True)


def test_what_its_disk_refused_is_asked_for_again_behind_what_stays_with_another() -> None:
    found = Sharing(("c0", 7), ("c0", "c1", "c2"), KeptNumbers(), LIMITS, 0.0)
    for name in ("c1", "c2"):
        found.receive(said(1, sender=name), 0.0)
    stays, moves = "gw-1", "gw-2"  # to c0 once c2 has gone
    assert (found.owner(stays), found.owner(moves)) == ("c1", "c2")
    assert not found.takes(*one(stays), 0.0)
    assert not found.takes(*one(moves), 0.0)
    found.receive(said(2, sender="c1"), 5.0)
    for now in (5.0, 5.1):
        assert [each.header.origin for each in found.due(now)] == [moves]
        found.refused(now)


def test_it_says_nothing_for_thirty_seconds_after_its_disk_refused_or_until_it_took_something() -> (
    None
):
    found = member()
    assert found.speaks(0.0)
    found.refused(10.0)
    assert (found.speaks(10.0), found.speaks(39.999), found.speaks(40.0)) == (False, False, True)
    found.refused(50.0)
    found.synced(one(MINE, flags=Flags.NONE)[1])
    assert found.speaks(50.0)
    assert found.tell("c1").rows == {}, "of QoS 0 nothing is told"


def test_a_batch_that_the_disk_refused_is_asked_for_again_though_none_is_older() -> None:
    found = held()
    assert not found.takes(*one(THEIRS, 2), 1.0)
    found.handle_timer(5.0)
    assert [each.header.first for each in found.due(5.0)] == [1, 2]
    found.refused(5.0)
    assert [each.header.first for each in found.due(5.1)] == [1, 2]


def test_the_other_is_told_what_is_new_since_what_it_knows() -> None:
    found = member(kept=KeptNumbers({("gw-x", 3): Intervals([(1, 4)])}))
    first = found.tell("c1")
    assert first == SpoolStatement(
        *("c0", 7, "c1", 1, (1, 1), 0, 1), completes=True, rows={("gw-x", 3): Intervals([(1, 4)])}
    )
    found.synced(one(MINE, rows=2)[1])
    found.receive(said(2, acknowledges=(7, 1), upto=5), 0.0)
    second = found.tell("c1")
    assert second == SpoolStatement(
        *("c0", 7, "c1", 2, (1, 5), 1, 2), completes=True, rows={(MINE, 1): Intervals([(1, 2)])}
    )
    found.synced(one(MINE, 3)[1])
    found.receive(said(2, acknowledges=(7, 3)), 0.0)
    assert found.tell("c1").since == 1, "it was said before"
    found.receive(said(3, acknowledges=(6, 2)), 0.0)
    assert found.tell("c1").since == 1, "of another life of its own nothing is acknowledged"
    found.receive(said(4, acknowledges=(7, 9)), 0.0)
    assert (found.tell("c1").since, found.tell("c1").rows) == (3, {})
    found.synced(
        batch.check(batch.encode("gw-x", 3, 5, [Entry("t", b"")], flags=1, origin_time_us=0))
    )
    assert found.tell("c1").rows == {("gw-x", 3): Intervals([(1, 5)])}, "it moved to the end"


@pytest.mark.parametrize("over", [0, 1])
def test_so_many_rows_are_told_at_once_and_the_rest_at_once_after_an_acknowledgement(
    over: int,
) -> None:
    many = 2 * MAX_TOLD_ROWS - 1 + over
    mine = {(f"gw-{at}", 1): Intervals([(1, 1)]) for at in range(many)}
    found = member(kept=KeptNumbers(mine))
    told = found.tell("c1")
    assert (len(told.rows), told.upto, told.completes) == (1_000, 1_000, False)
    known, goes_on = found.receive(said(2, acknowledges=(7, 1_000)), 0.0)
    assert (known, goes_on) == ({}, over == 1)
    again = found.receive(said(3, acknowledges=(7, 1_000)), 0.0)
    assert again == ({}, False), "it knows no more than before"
    rest = found.tell("c1")
    assert (len(rest.rows), rest.upto, rest.completes) == (999 + over, many, True)


def test_of_ranges_as_many_are_told_at_once_and_of_one_stream_the_latest() -> None:
    def ranges(many: int) -> Intervals:
        return Intervals([(2 * at + 1, 2 * at + 1) for at in range(many)])

    mine = {("a", 1): ranges(MAX_TOLD_RANGES - 1), ("b", 1): ranges(1), ("c", 1): ranges(1)}
    found = member(kept=KeptNumbers(mine))
    told = found.tell("c1")
    assert (list(told.rows), told.upto, told.completes) == ([("a", 1), ("b", 1)], 2, False)
    found = member(kept=KeptNumbers({("a", 1): ranges(MAX_TOLD_RANGES + 2)}))
    (numbers,) = found.tell("c1").rows.values()
    assert (len(numbers), next(iter(numbers))) == (MAX_TOLD_RANGES, (5, 5))


@pytest.mark.parametrize(
    "changes",
    [{"sender": "c9"}, {"receiver": "c2"}, {"life": 1}, {"number": 2}, {"number": 1}],
    ids=["a stranger's", "another's", "of a life before", "twice", "overtaken"],
)
def test_what_is_not_for_it_or_was_said_before_is_not_taken(changes: dict[str, object]) -> None:
    found = member()
    found.receive(said(2, life=2), 0.0)
    rows = {(THEIRS, 1): Intervals([(1, 1)])}
    changed = dataclasses.replace(said(3, rows, life=2), **changes)  # type: ignore[arg-type]
    assert found.receive(changed, 4.0) == ({}, False)
    assert found.kept.elsewhere == {}
    found.handle_timer(5.0)
    assert found.live == {"c0"}, "nor is anybody heard by it"
    assert found.receive(said(3, rows, life=2), 6.0) == (rows, False)
    assert found.live == {"c0", "c1"}


def test_what_lies_between_two_statements_is_not_taken_for_known() -> None:
    found = Sharing(("c0", 7), GROUP, KeptNumbers(), LIMITS, 0.0)
    found.receive(said(1, since=0, upto=4, completes=False), 0.0)
    assert (found.is_settled, found.tell("c1").acknowledges) == (False, (1, 4))
    found.receive(said(2, since=5, upto=9), 0.0)
    assert (found.is_settled, found.tell("c1").acknowledges) == (False, (1, 4))
    found.receive(said(3, since=4, upto=9), 0.0)
    assert (found.is_settled, found.tell("c1").acknowledges) == (True, (1, 9))
    found.receive(said(4, since=0, upto=2), 0.0)
    assert found.tell("c1").acknowledges == (1, 9)
    found.receive(said(1, life=2, since=0, upto=1), 0.0)
    assert found.tell("c1").acknowledges == (2, 1)


def test_numbers_in_two_spools_are_counted_once_whoever_says_it_first() -> None:
    found = member()
    stream = (MINE, 1)
    found.synced(one(MINE, 1, rows=4)[1])
    found.receive(said(2, {stream: Intervals([(3, 6)])}), 0.0)
    assert found.counters.doubled == 2
    found.receive(said(3, {stream: Intervals([(3, 6)])}), 0.0)
    assert found.counters.doubled == 2
    found.synced(one(MINE, 5, rows=3)[1])
    assert found.counters.doubled == 4
    found.synced(one(MINE, 5, rows=3)[1])
    assert found.counters.doubled == 4


def test_of_others_streams_so_many_are_known_and_what_is_left_out_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sharing, "MAX_KNOWN_STREAMS", 2)
    found = member()
    rows = {(name, 1): Intervals([(1, 1)]) for name in ("gw-a", "gw-b")}
    assert found.receive(said(2, rows), 0.0)[0] == rows
    more = {("gw-b", 1): Intervals([(2, 2)]), ("gw-c", 1): Intervals([(1, 1)])}
    known, _ = found.receive(said(3, more), 0.0)
    assert list(known) == [("gw-b", 1)]
    assert found.kept.elsewhere[("gw-b", 1)] == Intervals([(1, 2)])
    assert (len(found.kept.elsewhere), found.counters.left_out) == (2, 1)


def test_the_owner_is_the_same_however_many_origins_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sharing, "MAX_OWNERS", 3)
    found = member()
    names = [f"gw-{at}" for at in range(10)]
    for name in [*names, *names]:
        assert found.owner(name) == owner_of(name, GROUP)


def test_streams_that_are_over_are_known_and_told_no_more() -> None:
    mine = {("gw-a", 1): Intervals([(1, 1)]), ("gw-a", 2): Intervals([(1, 1)])}
    theirs = {("gw-b", 1): Intervals([(1, 1)]), ("gw-b", 2): Intervals([(1, 1)])}
    found = member(kept=KeptNumbers(mine, theirs))
    found.forget(lambda stream: stream[1] == 1)
    assert list(found.kept.mine) == [("gw-a", 2)]
    assert list(found.kept.elsewhere) == [("gw-b", 2)]
    told = found.tell("c1")
    assert (list(told.rows), told.upto, told.completes) == ([("gw-a", 2)], 2, True)


# -- what is sent ----------------------------------------------------------------------------------

STATED = ["spooled", "c1", 1, "c0", 1, 0, 0, 0, 1, True, [["gw", 1, [[1, 2], [4, 4]]]]]


def test_a_statement_is_read_as_it_is_written() -> None:
    told = said(1, {("gw", 1): Intervals([(1, 2), (4, 4)])})
    assert SpoolStatement.decode(msgpack.packb(STATED)) == told
    assert msgpack.unpackb(told.encode()) == STATED
    assert unsigned(signed(b"body", b"s" * MAX_SIGNATURE_BYTES)) == (
        b"body",
        b"s" * MAX_SIGNATURE_BYTES,
    )


@pytest.mark.parametrize(
    ("at", "found"),
    [
        (0, "other"),
        (1, ""),
        (1, 7),
        (2, -1),
        (2, True),
        (2, "1"),
        (3, ""),
        (4, -1),
        (5, 1.0),
        (8, None),
        (9, 1),
        (10, {}),
        (10, [["gw", 1]]),
        (10, [["", 1, []]]),
        (10, [["g" * 257, 1, []]]),
        (10, [["gw", -1, []]]),
        (10, [["gw", True, []]]),
        (10, [["gw", 1, [[1, 2, 3]]]]),
        (10, [["gw", 1, [[0, 1]]]]),
        (10, [["gw", 1, [[2, 1]]]]),
        (10, [["gw", 1, [[1, True]]]]),
        (10, [["gw", 1, 7]]),
        (10, [["gw", 1, [[1, 1]] * (MAX_TOLD_RANGES + 1)]]),
        (10, [["gw", at, []] for at in range(MAX_TOLD_ROWS + 1)]),
    ],
)
def test_a_statement_with_anything_wrong_is_refused(at: int, found: object) -> None:
    stated = [*STATED[:at], found, *STATED[at + 1 :]]
    with pytest.raises(ProtocolError):
        SpoolStatement.decode(msgpack.packb(stated))


@pytest.mark.parametrize(
    "rows",
    [
        [["g" * 256, 2**64 - 1, [[1, 2**64 - 1]]]],
        [["gw", 0, [[1, 1]] * MAX_TOLD_RANGES]],
        [["gw", at, []] for at in range(MAX_TOLD_ROWS)],
    ],
)
def test_a_statement_at_its_limits_is_read(rows: list[list[object]]) -> None:
    assert len(SpoolStatement.decode(msgpack.packb([*STATED[:-1], rows])).rows) == len(rows)


def test_what_is_no_signed_statement_is_refused() -> None:
    for data in (b"", b"\xc1", msgpack.packb([b"body"]), msgpack.packb(["body", b""])):
        with pytest.raises(ProtocolError, match="what a spool has"):
            unsigned(data)
    with pytest.raises(ProtocolError, match="what a spool has, signed"):
        unsigned(signed(b"body", b"s" * (MAX_SIGNATURE_BYTES + 1)))
