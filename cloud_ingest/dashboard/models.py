"""All read models, each as new as its tables: what changed is read again, and nothing else."""

from __future__ import annotations

import datetime
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

from cloud_ingest.dashboard import alerts_view, fleet_view, loss_view, sensors_view, standing
from cloud_ingest.dashboard.latest_readings import LatestReadings
from cloud_ingest.dashboard.rollups import Rollups, SensorSeries
from cloud_ingest.dashboard.status_history import StatusHistory
from cloud_ingest.dashboard.tree_view import TreeHistory
from cloud_ingest.query.lake import TABLES, Lake, LakeError
from cloud_ingest.tables.dataset import dataset
from gateway.web.ready_answer import ReadyAnswer

SHOWN: Final = tuple(name for name in TABLES if name != "quarantine")
ROLLED_UP: Final = ("telemetry", "latency")
TOPOLOGY_DAYS: Final = 30
"""So many days of the tree can be replayed."""
AGAIN_S: Final = {"latency": 60.0, "telemetry": 10.0}
"""Tables that grow all the time are looked at no more often."""


class Models:
    """The read models over a lake.

    One thread at a time may call `refresh`; what else there is may be read from any.

    Args:
        lake: the tables.

    """

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.history = StatusHistory()
        self.latest = LatestReadings()
        self.rollups = Rollups(lake, beside=(self.history, self.latest))
        self.versions: dict[str, int] = {}
        """Of the tables that there are, as they were last read."""
        self.problems: dict[str, str] = {}
        """Tables that can't be read now, and why."""
        self.written_ms: dict[str, int] = {}
        """The time of each table's last write, milliseconds since 1970, by its writer's clock."""
        self.attention: dict[str, Any] = {}
        """The list of what wants attention, as `standing.attention` tells it."""
        self.tree = TreeHistory(None)
        self.series: dict[tuple[str, str], SensorSeries] = {}
        self.series_of: Mapping[str, Sequence[SensorSeries]] = {}
        """The same, by gateway."""
        self._opened: dict[str, DeltaTable] = {}
        self._small: dict[str, pa.Table | None] = {}
        self._again: dict[str, float] = {}
        self._unfinished = set(ROLLED_UP)
        self.alerts: dict[str, list[Any]] = {}
        self.answers: dict[str, ReadyAnswer] = {}
        """The answers that do not depend on who asks for what, by name."""
        self.changes = Counter[str]()
        """The number of times that a table's rows may have changed, counted when all tell it."""
        self.revision = 0
        """The number of times that something new was taken up, and all answers told it."""
        self._heard_ms: int | None = None
        self._tell(set(SHOWN))

    @property
    def is_complete(self) -> bool:
        """Return whether all that the tables have is taken up."""
        return not self._unfinished

    @property
    def gateways(self) -> pa.Table | None:
        """The table `gateways` as last read; None while there is none."""
        return self._small.get("gateways")

    def standing(self, now_ms: int) -> dict[str, Any]:
        """Tell who keeps the tables new, as `standing.standing` does, and if nobody does an alert.

        Args:
            now_ms: of this machine's clock, since 1970.

        """
        written = [at for name, at in self.written_ms.items() if name != "acknowledgements"]
        told = standing.standing(max(written, default=None), self._heard_ms, now_ms)
        return {**told, "alert": standing.tables_alert(told)}

    def place(self, gateway: str) -> tuple[str, str]:
        """Return domain and group of a gateway by the table; both empty where it is unknown."""
        table = self.gateways
        if table is not None:
            row = table.filter(pc.equal(table["gateway"], gateway)).slice(0, 1).to_pylist()
            if row:
                return row[0]["domain"] or "", row[0]["group"] or ""
        return "", ""

    def refresh(self, now_s: float | None = None) -> frozenset[str]:
        """Take up what is new; a table that can't be read stays as it was.

        Args:
            now_s: of a clock that only goes forward; None for the machine's.

        Returns:
            The tables of which something is shown now that was not before.

        """
        at_s = time.monotonic() if now_s is None else now_s
        changed = set()
        for name in SHOWN:
            try:
                if self._look_at(name, at_s):
                    changed.add(name)
                self.problems.pop(name, None)
            except LakeError as error:
                self.problems[name] = str(error)
                self._unfinished.discard(name)
                self.versions.pop(name, None)  # it is tried again, but not at once
                self.changes[name] += 1  # some of it may have been taken up
        if changed:
            self._tell(changed)
            self.changes.update(changed)
            self.revision += 1
        return frozenset(changed)

    def refresh_all(self) -> None:
        """Take up all that there is."""
        self.refresh()
        while not self.is_complete:
            self.refresh()

    def _look_at(self, name: str, now_s: float) -> bool:
        if now_s < self._again.get(name, now_s) and name not in self._unfinished:
            return False
        table = self._opened.get(name)
        if table is None:
            table = self.lake.open(name)
            if table is None:
                self._unfinished.discard(name)
                return False
            self._opened[name] = table
        else:
            self.lake.guarded(name, table.update_incremental)
        version = table.version()
        if version == self.versions.get(name) and name not in self._unfinished:
            return False
        self.written_ms[name] = self.lake.guarded(name, lambda: _written_ms(table))
        self._again[name] = now_s + AGAIN_S.get(name, 0.0)
        rows = self.lake.guarded(name, lambda: dataset(table))
        if name in ROLLED_UP:
            # Whoever asks meanwhile is still told that there is more.
            if self.rollups.follow(name, rows):
                self._unfinished.add(name)
            else:
                self._unfinished.discard(name)
        else:
            self._small[name] = self.lake.guarded(name, lambda: _read(name, rows))
        self.versions[name] = version
        return True

    def _tell(self, changed: set[str]) -> None:
        if changed & {"alerts", "acknowledgements", "gateways"}:
            table = self._small.get
            self.alerts = alerts_view.alerts(table("alerts"), table("acknowledgements"))
            self.answers["alerts"] = ReadyAnswer.of(self.alerts)
            self._heard_ms = standing.heard_ms(table("gateways"))
            self.attention = standing.attention(table("gateways"), self.alerts)
            self.answers["fleet"] = ReadyAnswer.of(fleet_view.fleet(table("gateways"), self.alerts))
        if "topology" in changed:
            self.tree = TreeHistory(self._small.get("topology"))
            self.answers["moments"] = ReadyAnswer.of(self.tree.moments())
        if "gaps" in changed:
            self.answers["gaps"] = ReadyAnswer.of(loss_view.gaps(self._small.get("gaps")))
        if "telemetry" in changed:
            found = self.rollups.series()
            self.series = {(each.gateway, each.sensor): each for each in found}
            by_gateway = defaultdict(list)
            for each in found:
                by_gateway[each.gateway].append(each)
            self.series_of = by_gateway
            self.answers["sensors"] = ReadyAnswer.of(sensors_view.catalogue(found))


def _written_ms(table: DeltaTable) -> int:
    return int(table.history(1)[0]["timestamp"])


def _read(name: str, rows: ds.Dataset) -> pa.Table:
    if name != "topology":
        return rows.to_table()
    days = rows.to_table(columns=["day"])["day"]
    if not len(days):
        return rows.to_table()
    first = pc.max(days).as_py() - datetime.timedelta(days=TOPOLOGY_DAYS)
    return rows.to_table(filter=pc.field("day") >= pa.scalar(first, pa.date32()))
