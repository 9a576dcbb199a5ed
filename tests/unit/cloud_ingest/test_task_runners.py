"""Tasks are carried out on Spark or here; what fails there is told as a failure of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from job_steps import Steps

from cloud_ingest.ingest.halving import KILLED
from cloud_ingest.ingest.plan import SpoolStretch
from cloud_ingest.ingest.range_halves import TasksFailedError
from cloud_ingest.ingest.tasks import TaskOrder, TaskResult
from cloud_ingest.job.task_runners import LocalTasks, SparkTasks, carried_out
from cloud_ingest.mapping.births import Birth
from cloud_ingest.tables.store import TableStore


class Failing:
    """A cluster on which each task fails.

    Args:
        why: what Spark says of it.

    """

    defaultParallelism = 3  # noqa: N815  # Spark's own name

    def __init__(self, why: str) -> None:
        self._why = why
        self.asked: list[tuple[list[Any], int]] = []

    def parallelize(self, items: Iterable[Any], parts: int) -> Failing:
        self.asked.append((list(items), parts))
        return self

    def map(self, act: Callable[[Any], Any]) -> Failing:
        return self

    def foreach(self, act: Callable[[Any], None]) -> None:
        raise RuntimeError(self._why)

    def collect(self) -> list[Any]:
        raise RuntimeError(self._why)


@pytest.fixture
def orders(spool: Any, tmp_path: Path) -> list[TaskOrder]:
    spool.readings("gw-a", 1, 1, 3)
    spool.sync()
    stretch = SpoolStretch(str(spool.folder), spool.segment.name, 0, spool.length, None)
    store = TableStore(str(tmp_path / "tables"))
    return [TaskOrder([stretch], {}, store.at("telemetry"), store.at("quarantine"), 7)]


def test_tasks_on_spark_do_what_they_do_here(orders: list[TaskOrder]) -> None:
    context: Any = Steps("query", ())
    there, here = SparkTasks(context), LocalTasks()
    assert (there.at_once, here.at_once) == (2, 1)
    for found in (there.run(orders), here.run(orders)):
        (result,) = found
        assert [file.rows for file in result.telemetry] == [3]
    assert there.births(orders) == here.births(orders) == [[]]


def test_what_fails_on_spark_is_a_failure_of_tasks_with_its_words(
    orders: list[TaskOrder],
) -> None:
    context: Any = Failing("no executor")
    tasks = SparkTasks(context)
    for act in (tasks.run, tasks.births):
        with pytest.raises(TasksFailedError, match=r"^no executor$"):
            act(orders)
    assert context.asked == [(orders, 1)] * 2


def test_processes_that_can_not_be_started_early_are_told_of_by_the_first_task_alone() -> None:
    context: Any = Failing("no executor")
    SparkTasks(context).prepare()
    assert context.asked == [([0, 1, 2], 3)]


class Dying:
    """Stands in for tasks whose processes end at more than one order at once, or always.

    Args:
        why: what Spark says of it.

    """

    at_once = 2

    def __init__(self, why: str) -> None:
        self._why = why
        self.run_with: list[int] = []

    def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
        self.run_with.append(len(orders))
        if len(orders) > 1:
            raise TasksFailedError(self._why)
        return LocalTasks().run(orders)

    def births(self, orders: list[TaskOrder]) -> list[list[Birth]]:
        raise NotImplementedError


@pytest.mark.parametrize(
    "why",
    ["x Python worker exited unexpectedly (crashed)", "ExecutorLostFailure (executor 1 exited)"],
)
def test_where_a_process_of_a_task_ends_each_order_is_carried_out_alone(
    orders: list[TaskOrder], why: str
) -> None:
    tasks = Dying(why)
    found = carried_out(tasks, [*orders, *orders])
    assert [[file.rows for file in result.telemetry] for result in found] == [[3], [3]]
    assert tasks.run_with == [2, 1, 1]


def test_what_no_message_is_to_blame_for_is_raised_as_it_is(orders: list[TaskOrder]) -> None:
    tasks = Dying("a stage was cancelled")
    with pytest.raises(TasksFailedError, match="a stage was cancelled"):
        carried_out(tasks, [*orders, *orders])
    assert tasks.run_with == [2]


def test_a_message_that_ends_each_process_is_set_aside_with_what_spark_says_of_it(
    orders: list[TaskOrder], tmp_path: Path
) -> None:
    class Poisoned(Dying):
        """Tasks that end at whatever they are to look at."""

        def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
            for order in orders:
                for stretch in order.stretches:
                    if not getattr(stretch, "why", ""):
                        raise TasksFailedError(self._why)
            return LocalTasks().run(orders)

    (result,) = carried_out(Poisoned("ExecutorLostFailure (1)"), orders)
    assert result.telemetry == []
    rows = [
        row
        for file in result.quarantine
        for row in pq.read_table(tmp_path / "tables" / "quarantine" / file.path).to_pylist()
    ]
    assert [row["sequence"] for row in rows] == [1, 2, 3]
    assert {row["reason"] for row in rows} == {f"{KILLED}ExecutorLostFailure"}
