"""Runners of tasks: in Spark, or here. One message that kills each process is found."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from cloud_ingest.ingest.decoding import carry_out
from cloud_ingest.ingest.found_births import find_births
from cloud_ingest.ingest.halving import KILLED, halved
from cloud_ingest.ingest.range_halves import TasksFailedError
from cloud_ingest.ingest.tasks import TaskOrder, TaskResult
from cloud_ingest.mapping.births import Birth

if TYPE_CHECKING:
    from pyspark import SparkContext

_Answer = TypeVar("_Answer")
_DIED: Final = ("Python worker exited unexpectedly", "ExecutorLostFailure")
"""The words of Spark when the process of a task has ended each time that the task was tried."""


class TaskRunner(Protocol):
    """A place where tasks are carried out."""

    @property
    def at_once(self) -> int:
        """The most tasks that one micro-batch is shared out to."""
        ...

    def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
        """Carry them out.

        Raises:
            TasksFailedError: one of them failed each time that it was tried.
            OSError: storage failed.

        """
        ...

    def births(self, orders: list[TaskOrder]) -> list[list[Birth]]:
        """Find what births of Sparkplug they hold.

        Raises:
            TasksFailedError: one of them failed each time that it was tried.
            OSError: storage failed.

        """
        ...


class SparkTasks:
    """Tasks in Spark's processes.

    Args:
        context: of the session.

    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def at_once(self) -> int:
        """Return the parallelism of the cluster."""
        return self._context.defaultParallelism

    def prepare(self) -> None:
        """Have Spark's processes started, with all imported, before there are tasks.

        Starting them takes about as long as starting a query does, which happens meanwhile. What
        goes wrong with it goes wrong with the first task, too, which tells it.
        """
        with contextlib.suppress(Exception):
            count = self.at_once
            self._context.parallelize(range(count), count).foreach(_import_all)

    def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
        """Carry out the orders on the cluster."""
        return self._each(orders, carry_out)

    def births(self, orders: list[TaskOrder]) -> list[list[Birth]]:
        """Find the births in the orders on the cluster."""
        return self._each(orders, find_births)

    def _each(self, orders: list[TaskOrder], act: Callable[[TaskOrder], _Answer]) -> list[_Answer]:
        tasks = self._context.parallelize(orders, len(orders)).map(act)
        try:
            return list(tasks.collect())
        except Exception as error:
            raise TasksFailedError(str(error)) from error


def _import_all(place: int) -> None:
    """Nothing more: who gets this has imported its module, and so what a task needs."""


class LocalTasks:
    """Carries tasks out in this process, one after the other."""

    at_once = 1

    def run(self, orders: list[TaskOrder]) -> list[TaskResult]:
        """Carry out the orders here, one after the other."""
        return list(map(carry_out, orders))

    def births(self, orders: list[TaskOrder]) -> list[list[Birth]]:
        """Find the births in the orders here, one after the other."""
        return list(map(find_births, orders))


def carried_out(tasks: TaskRunner, orders: list[TaskOrder]) -> list[TaskResult]:
    """Carry orders out; of one whose process ends each time, the message is found and set aside.

    A process that is killed for something else is not tried so often: Spark begins a task again.

    Raises:
        TasksFailedError: tasks failed, and no message is to blame.
        OSError: storage failed.

    """
    try:
        return tasks.run(orders)
    except TasksFailedError as error:
        if _killed(error) is None:
            raise
    return [halved(order, lambda one: tasks.run([one])[0], _killed) for order in orders]


def _killed(error: Exception) -> str | None:
    text = str(error)
    found = next((what for what in _DIED if what in text), None)
    return None if found is None else f"{KILLED}{found}"
