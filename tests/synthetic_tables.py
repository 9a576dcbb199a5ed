"""Tables as the job writes them, of a fleet that there is not: for the dashboard and for queries.

python tests/synthetic_tables.py DIR --gateways 1000 --days 365 --sensors 50
"""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from record_formats.status_record import LinkStatus, StatusRecord

TIME = pa.timestamp("us", tz="UTC")
LINKS = pa.list_(
    pa.struct(
        [
            ("peer", pa.string()),
            ("rtt_ms", pa.float64()),
            ("role", pa.string()),
            ("state", pa.string()),
        ]
    )
)
_KINDS = [
    ("value_text", pa.string()),
    ("value_bool", pa.bool_()),
    ("value_bytes", pa.binary()),
]
TELEMETRY = pa.schema(
    [
        *(("origin", pa.string()), ("boot_epoch", pa.int64()), ("logged", pa.bool_())),
        *(("sequence", pa.int64()), ("qos", pa.int8()), ("retain", pa.bool_())),
        *(("topic", pa.string()), ("origin_time", TIME), ("payload", pa.binary())),
        *(("sensor", pa.string()), ("unit", pa.string()), ("value", pa.float64())),
        *(("device_time", TIME), ("device_number", pa.int64())),
        (
            "measurements",
            pa.list_(
                pa.struct(
                    [
                        *(("sensor", pa.string()), ("unit", pa.string())),
                        *(("value", pa.float64()), ("device_time", TIME), *_KINDS),
                    ]
                )
            ),
        ),
        *(("record_error", pa.string()), *_KINDS, ("quality", pa.string())),
        *(("tags", pa.map_(pa.string(), pa.string())), ("more", pa.string())),
        *(("collected_time", TIME), ("day", pa.date32())),
        *(("domain", pa.string()), ("group", pa.string())),
    ]
)
GATEWAYS = pa.schema(
    [
        *((name, pa.string()) for name in ("gateway", "domain", "group", "health")),
        *((name, pa.string()) for name in ("version", "build")),
        *(("boot_epoch", pa.int64()), ("up_s", pa.float64())),
        *(("root", pa.string()), ("parent", pa.string())),
        *(("roles", pa.list_(pa.string())), ("links", LINKS)),
        *((name, pa.float64()) for name in ("clock_offset_ms", "temperature_cel")),
        ("under_voltage", pa.bool_()),
        *((f"disk_{name}_bytes", pa.int64()) for name in ("free", "total", "written")),
        *(("memory_bytes", pa.int64()), ("load1", pa.float64())),
        *((name, pa.int64()) for name in ("queue_messages", "mqtt_clients", "messages")),
        ("rate_per_s", pa.float64()),
        *((name, pa.int64()) for name in ("undecodable", "duplicates", "gaps", "kept_local")),
        *((name, TIME) for name in ("first_seen", "last_seen", "last_status")),
        *(("member_error", pa.string()), ("counters", pa.map_(pa.string(), pa.int64()))),
        *(("latitude", pa.float64()), ("longitude", pa.float64())),
    ]
)
TOPOLOGY = pa.schema(
    [
        *(("time", TIME), ("gateway", pa.string()), ("boot_epoch", pa.int64())),
        *(("root", pa.string()), ("parent", pa.string()), ("root_cost", pa.float64())),
        *(("links", LINKS), ("reconvergences", pa.int64()), ("day", pa.date32())),
    ]
)
ALERTS = pa.schema(
    [
        *((name, pa.string()) for name in ("alert", "kind", "gateway", "sensor")),
        *(("opened", TIME), ("cleared", TIME), ("message", pa.string()), ("value", pa.float64())),
    ]
)
GAPS = pa.schema(
    [
        *(("gateway", pa.string()), ("boot_epoch", pa.int64()), ("logged", pa.bool_())),
        *(("first", pa.int64()), ("last", pa.int64()), ("found_time", TIME)),
        ("closed_time", TIME),
    ]
)
LATENCY = pa.schema(
    [
        *(("gateway", pa.string()), ("minute", TIME), ("stage", pa.string())),
        ("count", pa.int64()),
        *((f"{name}_ms", pa.float64()) for name in ("p50", "p95", "p99", "max")),
        ("day", pa.date32()),
        ("part", pa.int64()),
    ]
)
STAGES = ("device-origin", "origin-collector", "collector-table", "origin-table")
NOW = datetime.datetime(2026, 11, 20, 12, 0, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
SITES = ("harbour", "mill", "north", "orchard", "quarry", "river", "south", "station")
HEALTH = ("good", "warning", "silent")


def rows(schema: pa.Schema, found: list[dict[str, Any]]) -> pa.Table:
    """A table of a schema; what a row leaves out is null."""
    return pa.Table.from_pylist(found, schema=schema)


def put(tables: Path, name: str, table: pa.Table, mode: str = "append") -> None:
    """Write rows to a table as the job does."""
    by = {"telemetry": ["day", "domain"], "latency": ["day"], "topology": ["day"]}
    write_deltalake(
        tables / name,
        table,
        partition_by=by.get(name),
        mode=mode,  # type: ignore[arg-type]  # deltalake names the words one by one
    )


class Fleet:
    """A fleet of a root, heads of domains and of groups, and their members.

    Args:
        count: how many gateways.
        seed: of all that is drawn.
        now: the present.

    """

    def __init__(self, count: int, seed: int = 1, now: datetime.datetime = NOW) -> None:
        self.now = now
        self._random = np.random.default_rng(seed)
        self.names = ["gw-root"]
        self.places = {"gw-root": ("campus", "core")}
        self.parents: dict[str, str | None] = {"gw-root": None}
        sites = max(1, min(len(SITES), count // 12))
        for number in range(1, count):
            site = SITES[number % sites]
            group = f"line-{1 + number // sites % max(1, count // (sites * 16))}"
            name = f"{site}-{number:04d}"
            siblings = [n for n in self.names if self.places[n] == (site, group)]
            heads = [n for n in self.names if self.places[n][0] == site]
            if len(siblings) > 2 and number % 4:
                parent = siblings[int(self._random.integers(0, min(len(siblings), 5)))]
            else:
                parent = siblings[0] if siblings else heads[0] if heads else "gw-root"
            self.names.append(name)
            self.places[name] = (site, group)
            self.parents[name] = parent

    def links(self, name: str) -> list[dict[str, Any]]:
        """Those of a gateway: to its parent, its children, and one that stands by."""
        near = [child for child, parent in self.parents.items() if parent == name]
        parent = self.parents[name]
        found = [_link(child, "designated", "forwarding") for child in near[:6]]
        if parent is not None:
            found.insert(0, _link(parent, "root", "forwarding"))
            spare = self.parents[parent] or next(
                (n for n, p in self.parents.items() if p == parent and n != name), parent
            )
            if spare not in (name, parent):
                found.append(_link(spare, "alternate", "blocking"))
        return found

    def _site(self, name: str) -> str:
        site = self.places[name][0]
        return site if site in SITES else SITES[0]

    def health(self, number: int) -> str:
        """Most are well."""
        return HEALTH[2 if number % 97 == 13 else 1 if number % 23 == 7 else 0]

    def gateways(self) -> pa.Table:
        """The table `gateways`."""
        found = []
        for number, name in enumerate(self.names):
            health = self.health(number)
            seen = self.now - (7 * HOUR if health == "silent" else datetime.timedelta(seconds=4))
            found.append(
                {
                    "gateway": name,
                    "domain": self.places[name][0],
                    "group": self.places[name][1],
                    "health": health,
                    "version": "0.1.0" if number % 9 else "0.0.9",
                    "build": "compiled" if number % 3 else "interpreted",
                    "boot_epoch": 1000 + number,
                    "up_s": 86_400.0 * (1 + number % 60),
                    "root": "gw-root",
                    "parent": self.parents[name],
                    "roles": ["head"] if self.parents[name] in (None, "gw-root") else [],
                    "links": self.links(name),
                    "clock_offset_ms": float(self._random.normal(0, 3)),
                    "temperature_cel": 46 + 18 * float(self._random.random()) + number % 23 // 22,
                    "under_voltage": number % 131 == 5,
                    "disk_free_bytes": int(2e9 + 26e9 * self._random.random()),
                    "disk_total_bytes": 31_000_000_000,
                    "disk_written_bytes": int(4e11 * self._random.random()),
                    "memory_bytes": int(5e7 + 3e7 * self._random.random()),
                    "load1": float(self._random.gamma(2, 0.15)),
                    "queue_messages": int(self._random.poisson(2)),
                    "mqtt_clients": int(self._random.poisson(14)),
                    "messages": int(2e6 * self._random.random()),
                    "rate_per_s": 0.0 if health == "silent" else float(self._random.gamma(3, 1.5)),
                    "undecodable": 0,
                    "duplicates": int(self._random.poisson(3)),
                    "gaps": 2 if number % 61 == 9 else 0,
                    "kept_local": 0,
                    "first_seen": self.now - 24 * 90 * HOUR,
                    "last_seen": seen,
                    "last_status": seen,
                    "counters": {"mqtt_connects": number},
                    "latitude": 52.1
                    + 0.4 * SITES.index(self._site(name)) % 0.7
                    + number % 37 / 900,
                    "longitude": 4.6 + 0.3 * SITES.index(self._site(name)) + number % 41 / 700,
                }
            )
        return rows(GATEWAYS, found)

    def topology(self, changes: int, hours: int = 48) -> pa.Table:
        """Everybody's parent at the beginning, then changes; the last is as things are now."""
        begin = self.now - hours * HOUR
        found = [self._placed(name, begin + n * _MS, self.parents[name]) for n, name in _at(self)]
        movable = [n for n in self.names if self.parents[n] not in (None, "gw-root")]
        for change in range(changes if movable else 0):
            name = movable[int(self._random.integers(0, len(movable)))]
            moment = begin + hours * HOUR * ((change + 1) / (changes + 2))
            elsewhere = self.parents[self.parents[name] or ""] or "gw-root"
            found.append(self._placed(name, moment, elsewhere, change + 1))
            found.append(
                self._placed(name, moment + 30 * _MS * 1000, self.parents[name], change + 2)
            )
        return rows(TOPOLOGY, sorted(found, key=lambda row: row["time"]))

    def _placed(
        self, name: str, moment: datetime.datetime, parent: str | None, changes: int = 0
    ) -> dict[str, Any]:
        links = [_link(parent, "root", "forwarding")] if parent else []
        links += [each for each in self.links(name) if each["peer"] != parent]
        return {
            "time": moment,
            "gateway": name,
            "boot_epoch": 1,
            "root": "gw-root",
            "parent": parent,
            "root_cost": 4.0,
            "links": links,
            "reconvergences": changes,
            "day": moment.date(),
        }

    def alerts(self) -> pa.Table:
        """A few that are open, and more that were."""
        found = []
        for number, name in enumerate(self.names):
            if self.health(number) == "silent":
                found.append(_alert(f"silent/{name}", "silent", name, self.now - 7 * HOUR))
                found[-1]["message"] = "not heard for 7 h"
            elif self.health(number) == "warning":
                found.append(_alert(f"hot/{name}", "hot", name, self.now - number * HOUR / 60))
                found[-1] |= {"message": "81.5 Cel is over 80 Cel", "value": 81.5}
            if number % 41 == 3:
                opened = self.now - (30 + number % 50) * HOUR
                found.append(_alert(f"clock/{name}", "clock-off", name, opened))
                found[-1] |= {"cleared": opened + HOUR / 3, "message": "off by 740 ms"}
        return rows(ALERTS, found)

    def gaps(self) -> pa.Table:
        """Of every 61st gateway one that is open and one that was closed."""
        found = []
        for number, name in enumerate(self.names):
            if number % 61 == 9:
                common = {"gateway": name, "boot_epoch": 1, "logged": True}
                at = self.now - number % 40 * HOUR
                found.append(common | {"first": 401, "last": 417, "found_time": at})
                found.append(
                    common
                    | {"first": 90, "last": 91, "found_time": at - 3 * HOUR, "closed_time": at}
                )
        return rows(GAPS, found)

    def statuses(self, name: str, hours: int = 168, every_minutes: int = 5) -> pa.Table:
        """Return the rows of `telemetry` in which a gateway says how it is."""
        number = self.names.index(name)
        peers = [(each["peer"], each["role"], each["state"]) for each in self.links(name)]
        found = []
        for minute in range(0, hours * 60, every_minutes):
            at = self.now - minute * HOUR / 60
            day = 2 * math.pi * (at.hour + at.minute / 60) / 24
            rtts = 0.6 + self._random.gamma(2, 0.2, len(peers)) + np.arange(len(peers)) % 3
            record = StatusRecord(
                interval_s=30.0,
                temperature_cel=round(52 - 6 * math.cos(day) + float(self._random.normal()), 1),
                load1=round(float(self._random.gamma(2, 0.15)), 2),
                memory_bytes=int(6.2e7 + 4e6 * math.sin(day)),
                memory_available_bytes=int(4.1e8 + 5e7 * math.cos(day)),
                disk_free_bytes=int(1.4e10 - 4e5 * (hours * 60 - minute)),
                disk_total_bytes=31_000_000_000,
                mqtt_clients=12 + number % 5 + int(self._random.integers(0, 3)),
                queue_messages=int(self._random.poisson(2)),
                clock_offset_ms=float(self._random.normal(0, 2)),
                root_cost_ms=2.5,
                links=tuple(
                    LinkStatus(peer, round(float(rtt), 1), role, state)
                    for (peer, role, state), rtt in zip(peers, rtts, strict=True)
                ),
            )
            domain, group = self.places[name]
            row = {"origin": name, "topic": f"{domain}/{group}/{name}/$status", "boot_epoch": 7}
            row |= {"payload": record.encode(), "origin_time": at, "collected_time": at}
            found.append(row | {"day": at.date(), "domain": domain, "group": group})
        return rows(TELEMETRY, found)

    def latency(self, hours: int = 24, every_minutes: int = 15) -> pa.Table:
        """Of each gateway and stage, a row each so many minutes."""
        minutes = np.arange(hours * 60 // every_minutes) * every_minutes
        begin = self.now - hours * HOUR
        start_us = int(begin.timestamp() * 1_000_000)
        count = len(minutes) * len(STAGES)
        at_us = start_us + np.repeat(minutes, len(STAGES)) * 60_000_000
        stages = np.tile(np.arange(len(STAGES)), len(minutes))
        made = []
        for number, name in enumerate(self.names):
            scale = np.array([2.0, 9.0, 480.0, 500.0])[stages] * (1 + number % 7 / 10)
            p50 = scale * self._random.lognormal(0, 0.25, count)
            made.append(
                pa.table(
                    {
                        "gateway": pa.array([name] * count),
                        "minute": pa.array(at_us, pa.int64()).cast(TIME),
                        "stage": pa.array(np.array(STAGES)[stages]),
                        "count": pa.array(self._random.poisson(300, count)),
                        "p50_ms": pa.array(p50),
                        "p95_ms": pa.array(p50 * 2.1),
                        "p99_ms": pa.array(p50 * 3.4),
                        "max_ms": pa.array(p50 * 6),
                        "day": pa.array(at_us // 86_400_000_000, pa.int32()).cast(pa.date32()),
                        "part": pa.array(np.zeros(count, np.int64)),
                    },
                    schema=LATENCY,
                )
            )
        return pa.concat_tables(made)

    def write(self, tables: Path, changes: int = 40) -> None:
        """All tables but `telemetry`."""
        put(tables, "gateways", self.gateways(), "overwrite")
        put(tables, "topology", self.topology(changes))
        put(tables, "alerts", self.alerts(), "overwrite")
        put(tables, "gaps", self.gaps(), "overwrite")
        put(tables, "latency", self.latency())


def readings(
    gateway: str, sensors: list[str], days: int, every_s: int, now: datetime.datetime = NOW
) -> Iterator[pa.Table]:
    """Readings of sensors of one gateway, a table a day, the last day the present one."""
    random = np.random.default_rng(3)
    midnight = int(now.timestamp()) // 86_400 * 86_400
    for day in range(days - 1, -1, -1):
        begin_s = midnight - day * 86_400
        last_s = int(now.timestamp()) if day == 0 else begin_s + 86_400
        at_s = np.arange(begin_s, last_s, every_s)
        times, many = np.repeat(at_s, len(sensors)), len(at_s) * len(sensors)
        which = np.tile(np.arange(len(sensors)), len(at_s))
        phase = 2 * math.pi * times / 86_400
        season = 2 * math.pi * times / (86_400 * 365.25)
        value = 14 + which % 7 - 8 * np.cos(season) - 5 * np.cos(phase + which)
        value += random.normal(0, 0.4, many)
        names = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(sensors))
        stamps = pa.array(times * 1_000_000 + which * 1000, pa.int64()).cast(TIME)
        columns: dict[str, Any] = {
            "origin": pa.array([gateway]).take(pa.array(np.zeros(many, int))),
            "boot_epoch": pa.array(np.full(many, 7)),
            "logged": pa.array(np.ones(many, bool)),
            "sequence": pa.array(np.arange(many) + 1 + (days - day) * 10_000_000),
            "topic": names.cast(pa.string()),
            "origin_time": stamps,
            "sensor": names.cast(pa.string()),
            "unit": pa.array(["Cel"]).take(pa.array(np.zeros(many, int))),
            "value": pa.array(value),
            "device_time": stamps,
            "collected_time": stamps,
            "day": pa.array(np.full(many, begin_s // 86_400), pa.int32()).cast(pa.date32()),
            "domain": pa.array(["campus"]).take(pa.array(np.zeros(many, int))),
            "group": pa.array(["core"]).take(pa.array(np.zeros(many, int))),
        }
        yield pa.table(
            [columns.get(field.name, pa.nulls(many, field.type)) for field in TELEMETRY],
            schema=TELEMETRY,
        )


def write_readings(tables: Path, gateway: str, sensors: list[str], days: int, every_s: int) -> None:
    """Write them, a commit a month of days."""
    found = list[pa.Table]()
    for table in readings(gateway, sensors, days, every_s):
        found.append(table)
        if len(found) == 30:
            put(tables, "telemetry", pa.concat_tables(found))
            found.clear()
    if found:
        put(tables, "telemetry", pa.concat_tables(found))


_MS = datetime.timedelta(milliseconds=1)


def _at(fleet: Fleet) -> Iterator[tuple[int, str]]:
    yield from enumerate(fleet.names)


def _link(peer: str, role: str, state: str) -> dict[str, Any]:
    return {"peer": peer, "rtt_ms": 0.5 + len(peer) % 7, "role": role, "state": state}


def _alert(name: str, kind: str, gateway: str, opened: datetime.datetime) -> dict[str, Any]:
    return {"alert": name, "kind": kind, "gateway": gateway, "sensor": None, "opened": opened}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--gateways", type=int, default=1000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--sensors", type=int, default=50)
    parser.add_argument("--every-s", type=int, default=60)
    options = parser.parse_args()
    fleet = Fleet(options.gateways)
    fleet.write(options.tables, changes=2000)
    put(options.tables, "telemetry", fleet.statuses("gw-root"))
    sensors = [f"hall/temperature-{number:02d}" for number in range(options.sensors)]
    write_readings(options.tables, "gw-root", sensors, options.days, options.every_s)


if __name__ == "__main__":
    main()
