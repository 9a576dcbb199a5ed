"""Whatever the job's own steps fail with, rows go on: each message once, in one of two tables."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import deltalake
import pytest
from job_steps import Steps

from cloud_ingest.fleet import writer
from cloud_ingest.fleet.gateway_state import GatewayState
from cloud_ingest.fleet.judging import Judge
from cloud_ingest.fleet.state_file import StateFile
from cloud_ingest.ingest import set_aside
from cloud_ingest.ingest.halving import BLAMED, KILLED
from cloud_ingest.ingest.plan import TriggerPlan
from cloud_ingest.ingest.range_halves import TasksFailedError
from cloud_ingest.ingest.tasks import TaskOrder, TaskResult, batches
from cloud_ingest.job import micro_batches
from cloud_ingest.job.micro_batches import MOMENTS, Ingest, IngestSettings
from cloud_ingest.job.task_runners import LocalTasks
from cloud_ingest.spool.segments import SpoolRange, ranges, read_mark, segments
from cloud_ingest.tables.delta import IngestTable, TableError
from cloud_ingest.tables.store import TableStore

EACH = 12
GATEWAYS = ("gw-a", "gw-b", "gw-c")


def fill(spool: Any, first: int = 1) -> None:
    for origin in GATEWAYS:
        for begin in range(first, first + EACH, 4):
            spool.readings(origin, 1, begin, 4)
        spool.roll()
    spool.sync()


def begun(spool: Any) -> Ingest:
    return Ingest(IngestSettings(TableStore(str(tables(spool)))))


def tables(spool: Any) -> Path:
    return Path(spool.folder.parent / "tables")


def there(spool: Any) -> list[SpoolRange]:
    whole = segments(spool.folder, read_mark(spool.folder))
    end = whole[-1].start + whole[-1].length
    return ranges(spool.folder, whole, 0, end)


def take(ingest: Ingest, spool: Any, number: int = 0) -> None:
    ingest.take(cast(Any, Steps("q", there(spool))), number)


def rows(spool: Any, name: str) -> list[dict[str, Any]]:
    read = deltalake.DeltaTable(tables(spool) / name).to_pyarrow_table()
    found: list[dict[str, Any]] = read.to_pylist()
    return found


def check(spool: Any, aside: set[tuple[str, int]], last: int = EACH) -> None:
    """All are there once, and these are in quarantine."""
    kept = Counter((row["origin"], row["sequence"]) for row in rows(spool, "telemetry"))
    held = Counter((row["origin"], row["sequence"]) for row in rows(spool, "quarantine"))
    assert kept + held == Counter((o, n) for o in GATEWAYS for n in range(1, last + 1))
    assert set(held) == aside


class DyingTasks(LocalTasks):
    """Processes that end when they look at one message, as Spark tells of it."""

    def __init__(self, *at: tuple[str, int]) -> None:
        self._at = at

    def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
        for order in orders:
            for stretch in order.stretches:
                if hasattr(stretch, "why"):  # it is not looked at
                    continue
                for _, _, header in batches(stretch):
                    keep = stretch.keep or ((header.first, header.last),)
                    for origin, number in self._at:
                        if header.origin == origin and any(a <= number <= b for a, b in keep):
                            raise TasksFailedError("Python worker exited unexpectedly (crashed)")
        return super().run(orders)


def test_a_message_that_ends_each_process_that_looks_at_it_is_in_quarantine(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    poison = (("gw-a", 3), ("gw-c", 12))
    monkeypatch.setattr(micro_batches, "SparkTasks", lambda context: DyingTasks(*poison))
    ingest = begun(spool)
    take(ingest, spool)
    check(spool, set(poison))
    assert all(row["reason"].startswith(KILLED) for row in rows(spool, "quarantine"))
    assert ingest.set_aside.counts[set_aside.MESSAGES] == len(poison)


def test_tasks_that_fail_for_want_of_storage_or_of_spark_blame_nobody(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    for text in ("TableError: No space left on device", "SparkContext was shut down"):

        class FailingTasks(LocalTasks):
            def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
                raise TasksFailedError(text)  # noqa: B023

        with monkeypatch.context() as failing:
            failing.setattr(micro_batches, "SparkTasks", lambda context: FailingTasks())
            ingest = begun(spool)
            with pytest.raises(TasksFailedError, match=text):
                take(ingest, spool)
        assert rows(spool, "quarantine") == []
        assert not ingest.set_aside.counts
    take(begun(spool), spool)
    check(spool, set())


def test_where_all_processes_end_whatever_they_look_at_nobody_is_blamed(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)

    class DeadTasks(LocalTasks):
        def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
            raise TasksFailedError("ExecutorLostFailure")

    monkeypatch.setattr(micro_batches, "SparkTasks", lambda context: DeadTasks())
    with pytest.raises(TasksFailedError):
        take(begun(spool), spool)
    assert rows(spool, "quarantine") == []


def failing_plan(*at: tuple[str, int]) -> Callable[..., Any]:
    plan = TriggerPlan.take

    def failing(self: TriggerPlan, place: Any, header: Any) -> Any:
        if (header.origin, header.first) in at:
            raise ArithmeticError(f"{header.origin} {header.first}")
        return plan(self, place, header)

    return failing


def test_a_batch_with_which_the_driver_fails_is_in_quarantine_whole_and_all_others_are_read(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.payloads("gw-a", 1, 1, [b"x" * (1 << 20)] * 2)
    spool.payloads("gw-a", 1, 3, [b"3", b"4"])
    spool.payloads("gw-b", 1, 1, [b"1"])
    spool.sync()
    frame = spool.segment.read_bytes()[: there(spool)[0].end]
    monkeypatch.setattr(TriggerPlan, "take", failing_plan(("gw-a", 1)))
    ingest = begun(spool)
    take(ingest, spool)
    assert {(row["origin"], row["sequence"]) for row in rows(spool, "telemetry")} == {
        *(("gw-a", 3), ("gw-a", 4), ("gw-b", 1)),
    }
    (aside,) = rows(spool, "quarantine")
    assert aside["reason"] == f"{BLAMED}ArithmeticError: gw-a 1"
    assert frame.startswith(aside["bytes"])
    assert len(aside["bytes"]) > 2 << 20
    assert ingest.set_aside.counts[set_aside.BATCHES] == 1
    again = begun(spool)  # all is read once more: nothing comes twice
    take(again, spool, 1)
    assert len(rows(spool, "telemetry")) == 3
    assert len(rows(spool, "quarantine")) == 1


def test_a_step_of_the_driver_that_fails_once_blames_nobody_and_doubles_nothing(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    for number, moment in enumerate(("planned", "quarantined", "before commit", "committed")):
        ingest = begun(spool)
        failures = iter([ArithmeticError("once")])

        def watch(now: str) -> None:
            if now == moment and (error := next(failures, None)):  # noqa: B023
                raise error

        ingest.watch = watch
        take(ingest, spool, number)
        check(spool, set())
        assert not ingest.set_aside.counts
        assert ingest.telemetry.last_batch("hedgerow/q") == number


def test_a_step_that_always_fails_is_told_as_what_it_is(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)

    def failing(*_: object) -> None:
        raise ArithmeticError("always")

    with monkeypatch.context() as context:
        context.setattr(IngestTable, "commit", failing)
        with pytest.raises(ArithmeticError, match="always"):
            take(begun(spool), spool)
    assert rows(spool, "quarantine") == []
    take(begun(spool), spool)
    check(spool, set())


class Killed(BaseException):
    """The end of the process: nothing of its memory is used again."""


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_that_is_killed_while_it_halves_loses_and_doubles_nothing(
    moment: str, spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    monkeypatch.setattr(TriggerPlan, "take", failing_plan(("gw-b", 5)))
    poison = ("gw-a", 3)
    monkeypatch.setattr(micro_batches, "SparkTasks", lambda context: DyingTasks(poison))
    for times in (1, 2, 3, 5):
        ingest = begun(spool)
        left = iter(range(times))

        def watch(now: str) -> None:
            if now == moment and next(left, None) == times - 1:  # noqa: B023
                raise Killed

        ingest.watch = watch
        with contextlib.suppress(Killed):
            take(ingest, spool)
    take(begun(spool), spool)
    telemetry = Counter((row["origin"], row["sequence"]) for row in rows(spool, "telemetry"))
    whole = {("gw-b", number) for number in range(5, 9)}
    everything = {(origin, n) for origin in GATEWAYS for n in range(1, EACH + 1)}
    assert telemetry == Counter(everything - whole - {poison})
    aside = [(row["origin"], row["sequence"]) for row in rows(spool, "quarantine")]
    assert sorted(aside, key=str) == [poison, (None, None)]


# -- what is told about rows -----------------------------------------------------------------------


def gateways(spool: Any) -> set[str]:
    return {row["gateway"] for row in rows(spool, "gateways")}


def test_a_gateway_with_whose_facts_the_watch_fails_is_left_out_of_the_watch_alone(
    spool: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(spool)
    heard = Judge.heard

    def failing(self: Judge, gateway: GatewayState, at_us: int) -> None:
        if gateway.gateway == "gw-b":
            raise OverflowError("gw-b is too much")
        heard(self, gateway, at_us)

    monkeypatch.setattr(Judge, "heard", failing)
    ingest = begun(spool)
    with caplog.at_level(logging.WARNING):
        take(ingest, spool)
    ingest.close()
    check(spool, set())
    assert gateways(spool) == {"gw-a", "gw-c"}
    assert ingest.set_aside.counts[set_aside.FACTS] == 1
    assert "gw-b is too much" in caplog.text


def failing_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StateFile, "replace", failing)
    monkeypatch.setattr(writer, "write_deltalake", failing)


def test_rows_go_on_while_the_fleets_tables_cannot_be_written_and_these_catch_up(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest = begun(spool)
    with monkeypatch.context() as full:
        failing_writes(full)
        for number in range(3):
            fill(spool, 1 + EACH * number)
            take(ingest, spool, number)
    check(spool, set(), 3 * EACH)
    assert ingest.set_aside.counts[set_aside.FLEET] >= 3
    ingest.nothing_came([spool.folder])
    ingest.close()
    assert {row["messages"] for row in rows(spool, "gateways")} == {3 * EACH}
    assert set_aside.FACTS not in ingest.set_aside.counts


def test_a_job_that_dies_while_they_cannot_be_written_tells_them_all_at_its_next_start(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        failing_writes(full)
        ingest = begun(spool)
        for number in range(3):
            fill(spool, 1 + EACH * number)
            take(ingest, spool, number)
    after = begun(spool)
    take(after, spool, 2)  # the one that it was at is begun again
    after.close()
    assert {row["messages"] for row in rows(spool, "gateways")} == {3 * EACH}
    check(spool, set(), 3 * EACH)


def test_rows_go_on_over_a_state_of_the_watch_that_cannot_be_read(spool: Any) -> None:
    fill(spool)
    state = tables(spool) / "_fleet" / "state"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"\xc1")
    ingest = begun(spool)
    take(ingest, spool)
    ingest.close()
    check(spool, set())
    assert ingest.set_aside.counts[set_aside.FLEET] >= 1
    state.unlink()
    fill(spool, 1 + EACH)
    take(ingest, spool, 1)
    ingest.close()
    assert {row["messages"] for row in rows(spool, "gateways")} == {2 * EACH}


def test_rows_go_on_where_files_cannot_be_joined_or_a_snapshot_not_be_written(
    spool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool)
    ingest = begun(spool)

    def failing(*_: object) -> None:
        raise TableError("no room to join files")

    ingest.after = failing
    monkeypatch.setattr("cloud_ingest.ingest.kept_ledger.KeptLedger.keep", failing)
    take(ingest, spool)
    check(spool, set())
    assert ingest.set_aside.counts == {set_aside.UPKEEP: 2}


def test_what_is_set_aside_is_said_when_its_count_has_doubled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    aside = set_aside.AsideCounts()
    for number in range(1_000):
        aside.note(set_aside.FACTS, f"why {number}\nand more")
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == [
        "set aside: 1 facts by now: why 0 and more",
        "set aside: 2 facts by now: why 1 and more",
    ]
    assert len(said) == 10
