"""The columns of telemetry by the partition that their rows belong to.

A day is a file, whatever few bytes it has, so who may say when his messages were made could have a
task write thousands of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from cloud_ingest.ingest.columns import TelemetryColumns
from cloud_ingest.mapping.births import Births
from cloud_ingest.mapping.reading import Mappings
from cloud_ingest.mapping.rules import MappingRule
from cloud_ingest.member_place import UNKNOWN_PLACE, is_column
from cloud_ingest.tables.schemas import day_of

MAX_DAYS: Final = 64
"""Of one gateway in one task; what is of more of them stands in the day when it was collected."""


class PartitionColumns:
    """Rows of telemetry, partition by partition, until they are taken as tables.

    Args:
        places: domain and group, by origin, of those that are known.
        rules: how messages of other makes are read.
        births: what aliases of Sparkplug stand for.

    """

    def __init__(
        self,
        places: Mapping[str, tuple[str, str]],
        rules: Sequence[MappingRule] = (),
        births: Births | None = None,
    ) -> None:
        # Earlier versions kept any text as a place, and one is a folder's name.
        self._places = {name: told for name, told in places.items() if all(map(is_column, told))}
        self._mappings = Mappings(rules, births) if rules else None
        self._columns: dict[tuple[str, str], TelemetryColumns] = {}
        self._days: dict[str, set[str]] = {}
        """Of each gateway, also of rows that were taken."""

    def begin(
        self, origin: str, epoch: int, *, logged: bool, origin_us: int | None, collected_us: int
    ) -> TelemetryColumns:
        """Return the columns of a batch's partition, ready for its rows.

        Args:
            origin: the gateway that made the batch.
            epoch: its boot epoch.
            logged: whether the batch is of its log.
            origin_us: when it accepted the messages, microseconds since 1970.
            collected_us: when the collector had them.

        """
        domain, group = self._places.get(origin, (UNKNOWN_PLACE, UNKNOWN_PLACE))
        key = self._day(origin, origin_us, collected_us), domain
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = TelemetryColumns(self._mappings)
        columns.batch(
            origin=origin,
            boot_epoch=epoch,
            logged=logged,
            origin_time=origin_us,
            collected_time=collected_us,
            group=group,
        )
        return columns

    def _day(self, origin: str, origin_us: int | None, collected_us: int) -> str:
        day = day_of(origin_us, collected_us)
        days = self._days.setdefault(origin, set())
        if day not in days:
            if len(days) >= MAX_DAYS:
                return day_of(None, collected_us)
            days.add(day)
        return day

    def taken(self) -> Iterator[tuple[dict[str, str], pa.Table]]:
        """Yield each partition that has rows, and these; none of them is held any more."""
        held, self._columns = self._columns, {}
        for (day, domain), columns in held.items():
            if columns.rows:
                yield {"day": day, "domain": domain}, columns.table()
