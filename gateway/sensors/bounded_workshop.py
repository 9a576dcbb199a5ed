"""Builds sensors so that a developer's own driver that hangs keeps nobody waiting for long.

What ships waits for nothing when it is made. All other classes are made in a process first, which
is killed where one does not come back: then none of them is made here. Then each is made here, in a
thread and for a bounded time too, since a driver may hang the second time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.sensors.bounded_calls import LIMIT_S, BoundedCalls, CallHangsError
from gateway.sensors.catalogue import ConfiguredSensor, Workshop, is_own_code
from gateway.sensors.options import DriverHangsError, SensorConfigError

if TYPE_CHECKING:
    from gateway.sensors.driver_process import DriverProcesses

_PROCESSES: Final = 2
"""One at a time, and one that the kernel holds though it is killed."""

_log = logging.getLogger(__name__)

_Table = Mapping[str, Any]


class BoundedWorkshop:
    """A `SensorFactory`; its calls wait for drivers, so they are for threads.

    Args:
        workshop: makes sensors.
        limit_s: for the sensors of each table.

    """

    def __init__(self, workshop: Workshop, limit_s: float = LIMIT_S) -> None:
        self._workshop = workshop
        self._limit_s = limit_s
        self._processes: DriverProcesses | None = None
        self._making = threading.Lock()
        self._calls = BoundedCalls(limit_s)

    def __call__(
        self,
        tables: Sequence[_Table],
        *,
        known: Sequence[ConfiguredSensor] = (),
        is_afar: bool = False,
    ) -> list[ConfiguredSensor]:
        """Build the sensors of tables; arguments and errors as of `Workshop.build`.

        Raises:
            DriverHangsError: a driver does not come back.

        """
        own = self._own(tables, known)
        if own:
            self._rehearse(own, is_afar=is_afar)
        return self._built(tables, own, known, is_afar=is_afar)

    def at_start(
        self,
        tables: Sequence[_Table],
        *,
        known: Sequence[ConfiguredSensor] = (),
        is_afar: bool = False,
    ) -> list[ConfiguredSensor]:
        """Likewise without the process: a start takes no second for each driver, and is over."""
        return self._built(tables, self._own(tables, known), known, is_afar=is_afar)

    @staticmethod
    def _own(
        tables: Sequence[_Table], known: Sequence[ConfiguredSensor]
    ) -> list[tuple[str, _Table]]:
        found: list[tuple[str, _Table]] = []
        for number, table in enumerate(tables):
            is_known = any(each.table == table for each in known)
            if not is_known and is_own_code(table) and all(one != table for _, one in found):
                found.append((f"sensors[{number}]", table))
        return found

    def _rehearse(self, own: Sequence[tuple[str, _Table]], *, is_afar: bool) -> None:
        from gateway.sensors.driver_process import (  # noqa: PLC0415  # what ships needs none
            ChildFailedError,
            DriverProcesses,
            DriverRequest,
            NoRoomError,
        )

        with self._making:
            if self._processes is None:
                self._processes = DriverProcesses(_PROCESSES)
        request = DriverRequest("build", self._workshop.folder, own, is_afar, self._limit_s)
        try:
            self._processes.come_of(request)
        except ChildFailedError as error:
            raise SensorConfigError(error.where or own[0][0], str(error)) from error
        except NoRoomError as error:  # memory is short, perhaps: threads are bounded as well
            _log.warning("drivers are not tried in a process before they are made: %s", error)

    def _built(
        self,
        tables: Sequence[_Table],
        own: Sequence[tuple[str, _Table]],
        known: Sequence[ConfiguredSensor],
        *,
        is_afar: bool,
    ) -> list[ConfiguredSensor]:
        made = list(known)
        for where, table in own:
            work = partial(self._workshop.made, table, where, is_afar=is_afar)
            try:
                made += self._calls.come_of(work)
            except CallHangsError as error:
                raise DriverHangsError(where, str(error)) from error
        return self._workshop.build(tables, known=made, is_afar=is_afar)
