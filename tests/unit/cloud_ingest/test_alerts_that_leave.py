"""Each way out gets each change of each alert once, in order, whenever the job is killed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from watched_fleet import WatchedFleet

from alerts import record as alert_record
from alerts.record import AlertRecord, AlertRecordError
from cloud_ingest.evidence.facts import BatchFacts
from cloud_ingest.fleet import writer as writing
from cloud_ingest.fleet.alerts import AlertBook
from cloud_ingest.fleet.outgoing import (
    MAX_PENDING_A_GATEWAY,
    OutgoingAlerts,
    OutgoingState,
)
from cloud_ingest.fleet.rules import AlertRules
from cloud_ingest.fleet.state_file import StateFile
from cloud_ingest.fleet.way_out_thread import LONG_S, WayOutThread
from cloud_ingest.fleet.writer import FleetWriter

pytestmark = pytest.mark.usefixtures("without_tables")
DAY_US = 86_400_000_000


class KilledError(Exception):
    """The writer dies here."""


@pytest.fixture
def without_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the state is kept: writing Delta tables takes most of the time, and tells nobody."""
    monkeypatch.setattr(writing, "write_deltalake", lambda *_, **__: None)


class AtOnce(WayOutThread):
    """Without a thread: a kill at a drawn step is one of the writer, too."""

    def offer(self, records: Sequence[AlertRecord]) -> None:
        self._hand_over(records)


class Told:
    """A way out that keeps what it gets; it may refuse."""

    def __init__(self) -> None:
        self.records: list[AlertRecord] = []
        self.refuses = False

    def take(self, records: Sequence[AlertRecord]) -> None:
        (record,) = records
        if self.refuses:
            raise OSError("no network")
        self.records.append(record)

    @property
    def changes(self) -> list[tuple[str, str]]:
        """Rule and change of each, copies left out."""
        met = {one.delivery_id: one for one in self.records}
        return [(one.rule, one.change) for one in met.values()]


class Alerts:
    def __init__(self, remind_us: int = DAY_US) -> None:
        self.book, self.known = AlertBook(), OutgoingState()
        self.out = OutgoingAlerts(self.book, self.known, remind_us, is_used=True)

    def changes(self, now_us: int) -> list[tuple[str, str, int]]:
        self.out.look(now_us)
        found = [(one.rule, one.change, one.number) for one in self.out.pending]
        self.out.handed({one.delivery_id for one in self.out.pending})
        return found


def _batches() -> list[BatchFacts]:
    fleet = WatchedFleet(3, batch_s=20.0)
    fleet[0].temperature_cel = lambda now: 90.0 if 60 < now < 120 or 200 < now < 260 else 40.0
    fleet.when(100, lambda: setattr(fleet[1], "is_down", True))
    fleet.when(240, lambda: setattr(fleet[1], "is_down", False))
    fleet[2].disk_free = 0.01
    return list(fleet.batches(360))


def _records() -> tuple[AlertRecord, ...]:
    alerts = Alerts()
    alerts.book.judge(("collector-silent", "", "/spool"), True, 1, "not written", 2.5)
    alerts.out.look(2)
    return alerts.out.pending


WANTED = [
    ("disk-full", "raised"),
    *[("hot", change) for change in ("raised", "cleared", "raised", "cleared")],
    ("silent", "raised"),
    ("silent", "cleared"),
]


def test_each_change_is_told_once(tmp_path: Path) -> None:
    told = Told()
    writer = FleetWriter(str(tmp_path), query="q", way_out=AtOnce(told))
    for facts in _batches():
        writer.after(facts)
    writer.close()
    assert Counter(told.changes) == Counter(WANTED)
    assert len({one.delivery_id for one in told.records}) == len(told.records)


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_at_any_moment_loses_no_change_and_a_copy_is_known_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    told, draw, left = Told(), random.Random(seed), [5]
    replace, take = StateFile.replace, Told.take

    def step() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KilledError

    def replaced(store: StateFile, data: bytes) -> None:
        step()
        replace(store, data)
        step()

    class Killed(BaseException):
        """A kill of the writer, which no handler of `Exception` catches."""

    def taken(self: Told, records: Sequence[AlertRecord]) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        take(self, records)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    monkeypatch.setattr(StateFile, "replace", replaced)
    monkeypatch.setattr(Told, "take", taken)
    waiting, kills = _batches(), 0
    writer = FleetWriter(str(tmp_path), query="q", way_out=AtOnce(told))
    while waiting:
        try:
            writer.after(waiting[0])
        except (KilledError, Killed):
            kills += 1
            left[0] = -1
            writer = FleetWriter(str(tmp_path), query="q", way_out=AtOnce(told))
            left[0] = draw.randint(1, 9)
            continue
        waiting.pop(0)
    left[0] = -1
    writer.close()
    assert kills >= 5
    assert Counter(told.changes) == Counter(WANTED)


def test_what_a_way_out_does_not_take_waits_in_order_and_tables_do_not(tmp_path: Path) -> None:
    told = Told()
    told.refuses = True
    writer = FleetWriter(str(tmp_path), query="q", way_out=AtOnce(told))
    batches = _batches()
    for facts in batches[:-1]:
        writer.after(facts)
    assert not told.records
    told.refuses = False
    writer.after(batches[-1])
    writer.close()
    assert Counter(told.changes) == Counter(WANTED)
    hot = [one.change for one in told.records if one.rule == "hot"]
    assert hot == ["raised", "cleared", "raised", "cleared"]


class Hanging(Told):
    """A way out that does not answer until it is let go; no test waits longer than it must."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def take(self, records: Sequence[AlertRecord]) -> None:
        self.asked.set()
        self.may_answer.wait()
        super().take(records)


def test_a_way_out_that_hangs_holds_up_no_table_and_gets_each_change_once_it_answers(
    tmp_path: Path,
) -> None:
    told = Hanging()
    writer = FleetWriter(str(tmp_path), query="q", way_out=WayOutThread(told))
    for facts in _batches():
        writer.after(facts)
    assert told.asked.wait()
    assert sum(each.name == "way-out" for each in threading.enumerate()) == 1
    assert not told.records
    told.may_answer.set()
    writer.close()
    assert Counter(told.changes) == Counter(WANTED)
    assert len({one.delivery_id for one in told.records}) == len(told.records)


def test_a_writer_ends_beside_a_way_out_that_hangs_and_the_next_one_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloud_ingest.fleet.writer.LAST_WAIT_S", 0.0)
    hangs = Hanging()
    writer = FleetWriter(str(tmp_path), query="q", way_out=WayOutThread(hangs))
    for facts in _batches():
        writer.after(facts)
    writer.close()
    told = Told()
    writer = FleetWriter(str(tmp_path), query="q", way_out=AtOnce(told))
    writer.close()
    assert Counter(told.changes) == Counter(WANTED)
    hangs.may_answer.set()


def test_a_way_out_that_hangs_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    hangs, (record,) = Hanging(), _records()
    out = WayOutThread(hangs, clock=lambda: now_s[0])
    out.offer([record])
    assert hangs.asked.wait()
    for now_s[0] in (LONG_S, LONG_S + 1, LONG_S + 2):
        assert not out.is_free()
    assert [each.message for each in caplog.records] == [
        "alerts wait: their way out has not answered for 60 s; tables do not wait for it"
    ]
    hangs.may_answer.set()
    out.wait(60)
    assert out.is_free()
    assert (out.taken(), out.taken()) == ([record.delivery_id], [])


def test_a_way_out_that_comes_later_is_told_of_what_is_open(tmp_path: Path) -> None:
    writer = FleetWriter(str(tmp_path), query="q")
    batches = _batches()
    for facts in batches[:-1]:
        writer.after(facts)
    told = Told()
    writer = FleetWriter(str(tmp_path), query="q", way_out=AtOnce(told))
    writer.after(batches[-1])
    writer.close()
    assert told.changes == [("disk-full", "raised")]


def test_an_alert_that_stays_open_is_told_of_again_each_day() -> None:
    alerts = Alerts()
    alerts.book.judge(("hot", "gw-a", ""), True, 1, "hot")
    found = [alerts.changes(day * DAY_US // 2 + 1) for day in range(6)]
    assert found == [
        [("hot", "raised", 0)],
        [],
        [("hot", "reminded", 1)],
        [],
        [("hot", "reminded", 2)],
        [],
    ]
    alerts.book.judge(("hot", "gw-a", ""), False, 3 * DAY_US, "")
    assert alerts.changes(3 * DAY_US) == [("hot", "cleared", 0)]


def test_without_reminders_it_is_told_of_once() -> None:
    alerts = Alerts(remind_us=0)
    alerts.book.judge(("hot", "gw-a", ""), True, 1, "hot")
    assert [alerts.changes(day * DAY_US) for day in range(1, 5)] == [
        [("hot", "raised", 0)],
        [],
        [],
        [],
    ]


def test_what_came_and_went_between_two_looks_is_told_of_as_both() -> None:
    alerts = Alerts()
    for at_us in (1, 100):
        alerts.book.judge(("hot", "gw-a", ""), True, at_us, "hot")
        alerts.book.judge(("hot", "gw-a", ""), False, at_us + 1, "")
    once = [("hot", "raised", 0), ("hot", "cleared", 0)]
    assert alerts.changes(200) == once * 2
    assert alerts.changes(300) == []


def test_an_alert_of_a_gateway_that_is_erased_leaves_no_name() -> None:
    alerts = Alerts()
    alerts.book.judge(("hot", "gw-a", ""), True, 1, "hot")
    alerts.out.look(2)
    alerts.book.forget("gw-a")
    alerts.known.forget("gw-a")
    assert alerts.changes(3) == []
    assert b"gw-a" not in msgspec.msgpack.encode((alerts.book, alerts.known))


def test_a_way_out_that_is_away_for_long_costs_a_bounded_room_and_others_keep_theirs() -> None:
    alerts = Alerts()
    alerts.book.judge(("hot", "gw-quiet", ""), True, 1, "hot")
    for at_us in range(10, 60_000, 10):
        alerts.book.judge(("hot", "gw-noisy", ""), True, at_us, "hot")
        alerts.book.judge(("hot", "gw-noisy", ""), False, at_us + 5, "")
        if at_us % 1_000 == 0:
            alerts.out.look(at_us)
    kept = Counter(one.gateway for one in alerts.out.pending)
    assert kept == {"gw-quiet": 1, "gw-noisy": MAX_PENDING_A_GATEWAY}
    assert alerts.known.dropped > 0


def test_a_record_is_read_as_it_was_written_and_fits_a_line() -> None:
    (record,) = _records()
    assert alert_record.decode(record.encode()) == record
    assert str(record) == (
        "raised: collector-silent (critical): the ingest itself, /spool: not written"
    )
    assert "what-to-do-when" in record.what_to_do
    for wrong in (b"", b"{}", b"[]", record.encode().replace(b"raised", b"odd")):
        with pytest.raises(AlertRecordError):
            alert_record.decode(wrong)


def test_without_a_way_out_nothing_is_kept_for_one() -> None:
    book, known = AlertBook(), OutgoingState()
    out = OutgoingAlerts(book, known, DAY_US, is_used=False)
    book.judge(("hot", "gw-a", ""), True, 1, "hot")
    book.judge(("hot", "gw-a", ""), False, 2, "")
    out.look(3)
    assert (known, book.just_cleared) == (OutgoingState(), [])
    assert AlertRules().kept.remind_s == 86_400


def test_an_alert_that_is_forgotten_and_not_cleared_is_told_as_cleared() -> None:
    alerts = Alerts()
    alerts.book.judge(("hot", "gw-a", ""), True, 5, "")
    alerts.book.judge(("hot", "gw-b", ""), True, 5, "")
    assert alerts.changes(6) == [("hot", "raised", 0)] * 2
    alerts.book.forget("gw-a")
    alerts.out.look(7)
    (gone,) = alerts.out.pending
    assert (gone.gateway, gone.change, gone.number, gone.at_us) == ("gw-a", "cleared", 0, 7)
    alerts.out.handed({gone.delivery_id})
    assert alerts.changes(8) == []


def test_what_is_offered_while_a_record_is_on_its_way_is_left_alone() -> None:
    hangs, (record,) = Hanging(), _records()
    out = WayOutThread(hangs)
    out.offer([record])
    assert hangs.asked.wait()
    out.offer([record])
    out.offer([])
    hangs.may_answer.set()
    out.wait(60)
    assert out.taken() == [record.delivery_id]


def test_without_room_for_a_thread_alerts_wait_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told, (record,) = Told(), _records()
    out = WayOutThread(told)
    with monkeypatch.context() as patch:

        def refuse(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            out.offer([record])
            assert out.is_free()
    assert [each.message for each in caplog.records] == [
        "alerts wait for their way out: RuntimeError: can't start new thread"
    ]
    out.offer([record])
    out.wait(60)
    assert (out.taken(), len(told.records)) == ([record.delivery_id], 1)


class Slow(Told):
    """A way out that takes seconds for each record, by a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.asked, self.may_answer = threading.Semaphore(0), threading.Semaphore(0)

    def take(self, records: Sequence[AlertRecord]) -> None:
        self.asked.release()
        self.may_answer.acquire()
        super().take(records)


def test_each_record_has_its_own_time_until_it_is_late_and_each_hand_over_its_own_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow, (record,) = Slow(), _records()
    out = WayOutThread(slow, clock=lambda: slow.now_s)
    slow.now_s = 1_000.0
    for _ in range(2):
        begun_s = slow.now_s
        out.offer([record, record])
        slow.asked.acquire()
        slow.now_s = begun_s + 50.0
        slow.may_answer.release()
        slow.asked.acquire()
        slow.now_s = begun_s + 50.0 + LONG_S
        assert not out.is_free()
        assert not caplog.records
        slow.now_s += 0.5
        assert not out.is_free()
        assert len(caplog.records) == 1
        caplog.clear()
        slow.may_answer.release()
        out.wait(60)
        assert out.is_free()
    assert len(out.taken()) == 4


def test_a_failure_keeps_back_later_records_and_is_told_once_until_one_goes_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told, (record,) = Told(), _records()
    out = WayOutThread(told)
    for told.refuses, lines in ((True, 1), (True, 1), (False, 1), (True, 2), (True, 2)):
        out.offer([record, record])
        out.wait(60)
        assert len(out.taken()) == (0 if told.refuses else 2)
        assert [each.message for each in caplog.records] == [
            "alerts wait for their way out: OSError: no network"
        ] * lines
