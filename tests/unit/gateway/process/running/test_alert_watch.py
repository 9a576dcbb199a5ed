"""Alerts leave whatever hangs: a way out, the machine's files, the disk with what is kept."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from machine_files import machine_with_a_card
from ports import free_port

from alerts.record import AlertRecord, RecordsRefusedError, WayOut
from alerts.state import AlertState
from alerts.ways.mail import MailServer, MailWay
from gateway.alerting.judging import SeenByGateway
from gateway.alerting.plan import AlertPlan
from gateway.alerting.problem_topic import ProblemTopic
from gateway.alerting.rules import RULES
from gateway.base.watched_tasks import WatchedTasks
from gateway.process.running import alert_watch
from gateway.process.running.alert_sources import MachineEyes, MachineLook
from gateway.process.running.alert_watch import AlertWatch
from gateway.process.running.kept_alerts import STATE_FILE, KeptAlerts, runtime_folder
from tree_handler.batch import Entry
from tree_handler.members.place import Place

LIMIT_S = 60


class Way:
    """A way out that keeps what it gets, refuses it, or hangs."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.taken: list[AlertRecord] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def take(self, records: Sequence[AlertRecord]) -> None:
        self.may_answer.wait()
        if self.error is not None:
            raise self.error
        self.taken += records

    @property
    def changes(self) -> list[str]:
        met = {one.delivery_id: one for one in self.taken if one.rule != "part-failing"}
        return [one.change for one in met.values()]


class Mailbox:
    """A mail server's handler that keeps the RAISED and CLEARED lines of the mails."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.lines += re.findall(r"(?m)^((?:RAISED|CLEARED)  [a-z-]+)", envelope.content.decode())
        return "250 OK"

    @property
    def told(self) -> set[str]:
        return set(self.lines)


SOON = {
    name: replace(RULES[name], after_s=0, clears_after_s=0)
    for name in ("hot", "under-voltage", "throttled", "disk-worn")
}


ENDS_SOON = AlertPlan(
    terms={"disk-read-only": replace(RULES["disk-read-only"], clears_after_s=0)},
    ways=("mail",),
    look_s=0.05,
    gather_s=0,
)


class Sources:
    """The sources of a gateway's alerts, with the faults that a test sets."""

    def __init__(self) -> None:
        self.watched = WatchedTasks()
        self.wrong: dict[str, Any] = {}
        self.looks: list[MachineLook] = []
        self.said: set[str] = set()
        self.untried: list[set[str]] = []

    def say_told(self, lost: Collection[str]) -> None:
        self.said.update(lost)

    def own(self) -> Any:
        return SimpleNamespace(id="gw-a", place=Place("campus", "north"))

    def steady_s(self) -> float:
        return time.monotonic()

    def seen(self, look: MachineLook, untried: Collection[str]) -> SeenByGateway:
        self.looks.append(look)
        self.untried.append(set(untried))
        temperature = look.machine.temperature_cel
        return SeenByGateway(
            gateway="gw-a",
            site="campus/north",
            ahead_s=0.0,
            temperature_cel=temperature,
            under_voltage=look.machine.under_voltage,
            is_throttled=look.strain.is_throttled,
            disk_life_used=look.strain.disk_life_used,
            failing=dict(self.watched.failing),
            untried=untried,
            **{"is_read_only": False} | self.wrong,
        )


class Bed:
    """Watches that are stopped when the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stand_in: Path | None = None
        self.sources = Sources()
        self.watches: list[AlertWatch] = []

    def watch(
        self,
        look: Callable[[], MachineLook] = MachineLook.unseen,
        plan: AlertPlan | None = None,
        **ways: WayOut,
    ) -> AlertWatch:
        plan = plan or AlertPlan(ways=tuple(ways), look_s=0.05, gather_s=0)
        kept = KeptAlerts(self.folder, self.stand_in)
        watch = AlertWatch(plan, self.sources, look, ways, None, kept)  # type: ignore[arg-type]
        self.watches.append(watch)
        watch.start()
        return watch

    async def stop(self) -> None:
        for watch in self.watches:
            await watch.stop()


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    made = Bed(tmp_path)
    yield made
    await made.stop()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_way_that_hangs_keeps_neither_the_gateway_nor_another_way(bed: Bed) -> None:
    hanging, well = Way(), Way()
    hanging.may_answer.clear()
    watch = bed.watch(mail=hanging, ntfy=well)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: well.changes == ["raised"])
    before = len(bed.sources.looks)
    await until(lambda: len(bed.sources.looks) > before + 3)
    assert watch.summary()["ways"]["mail"]["waiting"] == 1
    hanging.may_answer.set()
    await until(lambda: hanging.changes == ["raised"])
    await until(lambda: watch.summary()["ways"]["mail"]["waiting"] == 0)


async def test_a_stop_waits_but_a_moment_for_a_way_that_hangs_and_its_records_come_again(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_watch, "LAST_TAKE_S", 0.0)
    hanging, well = Way(), Way()
    hanging.may_answer.clear()
    watch = bed.watch(mail=hanging)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: watch.summary()["ways"]["mail"]["waiting"] == 1)
    async with asyncio.timeout(LIMIT_S):
        await watch.stop()
    assert watch.summary()["ways"]["mail"]["waiting"] == 1
    hanging.may_answer.set()
    bed.watch(mail=well)
    await until(lambda: well.changes == ["raised"])


async def test_an_order_by_a_message_is_refused_with_the_reason_whatever_that_is(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, refused = bed.watch(mail=Way()), list[str]()
    watch.acknowledge_soon(b"", refused.append)  # it ends a retained message
    watch.acknowledge_soon(b"none", refused.append)
    await until(lambda: refused)
    assert len(refused) == 1
    assert "none" in refused.pop()

    def gone() -> Any:
        raise OSError("unforeseen")

    monkeypatch.setattr(bed.sources, "own", gone)
    for _ in range(alert_watch.ASKED_AT_ONCE + 1):
        watch.acknowledge_soon(b"none", refused.append)
    await until(lambda: len(refused) >= alert_watch.ASKED_AT_ONCE)
    assert refused == ["OSError: unforeseen"] * 16


async def test_a_stop_in_the_moment_of_a_wake_ends_the_watch(bed: Bed) -> None:
    for _ in range(40):
        watch = bed.watch(mail=Way(OSError("no route")))
        bed.sources.wrong = {"is_read_only": True}
        seen = len(bed.sources.looks)
        await until(lambda seen=seen: len(bed.sources.looks) > seen)
        await watch.order(b'{"do": "test", "ways": ["mail"]}', "alice")  # it wakes at once
        async with asyncio.timeout(LIMIT_S):
            await watch.stop()


async def test_a_way_that_fails_is_told_and_what_it_never_takes_is_dropped(bed: Bed) -> None:
    failing, refusing = Way(OSError("no route")), Way(RecordsRefusedError("answers 422"))
    watch = bed.watch(mail=failing, webhook=refusing)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: watch.summary()["ways"]["webhook"]["dropped"] == 1)
    await until(lambda: "no route" in watch.summary()["ways"]["mail"]["trouble"])
    assert set(bed.sources.watched.failing) == {"alerts by mail", "alerts by webhook"}


async def test_of_a_way_nothing_is_known_in_this_life_until_it_is_handed_something(
    bed: Bed,
) -> None:
    watch = bed.watch(mail=Way(), ntfy=Way())
    await until(lambda: bed.sources.untried)
    assert bed.sources.untried[-1] == {"alerts by mail", "alerts by ntfy"}
    await watch.order(b'{"do": "test", "ways": ["mail"]}', "alice")
    await until(lambda: bed.sources.untried[-1] == {"alerts by ntfy"})


async def test_what_a_way_raises_that_nobody_foresaw_is_a_failure_like_others(bed: Bed) -> None:
    way = Way(ZeroDivisionError("oops"))
    watch = bed.watch(mail=way)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: "oops" in watch.summary()["ways"]["mail"]["trouble"])
    assert "alerts" not in bed.sources.watched.failing


async def test_while_the_machines_files_hang_all_else_is_seen(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.process.running.alert_watch.LOOK_TIMEOUT_S", 0.05)
    may_answer = threading.Event()

    def look() -> MachineLook:
        may_answer.wait()
        return MachineLook.unseen()

    way = Way()
    bed.watch(look, mail=way)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: way.changes == ["raised"])
    may_answer.set()


async def test_what_is_asked_of_a_watch_wakes_it_and_moves_no_look_forward(bed: Bed) -> None:
    way, plan = Way(), AlertPlan(ways=("mail",), look_s=3_600, gather_s=0)
    watch = bed.watch(plan=plan, mail=way)
    await until(lambda: bed.sources.looks)
    await watch.order(b'{"do": "test", "ways": ["mail"]}', "alice")
    await until(lambda: way.taken)
    await until(lambda: watch.summary()["ways"]["mail"]["waiting"] == 0)
    assert len(bed.sources.looks) == 1


async def test_while_the_log_refuses_messages_what_is_wrong_is_published_without_it(
    bed: Bed, tmp_path: Path
) -> None:
    published = list[Entry]()
    topic = ProblemTopic(lambda: "gw-a/alerts", published.append)
    plan, kept = AlertPlan(ways=(), look_s=0.01, gather_s=0), KeptAlerts(tmp_path, None)
    bed.sources.wrong = {"log_failure": "the disk is full"}
    sources: Any = bed.sources
    watch = AlertWatch(plan, sources, MachineLook.unseen, {}, topic, kept)
    bed.watches.append(watch)
    watch.start()
    await until(lambda: published)
    bed.sources.wrong = {"log_failure": ""}
    await until(lambda: published[-1].qos == 1)
    bed.sources.wrong = {"log_failure": None}
    seen = len(bed.sources.looks)
    await until(lambda: len(bed.sources.looks) > seen + 1)
    assert published[0].qos == 0
    assert {(one.topic, one.retain) for one in published} == {("gw-a/alerts", True)}
    assert published[-1].qos == 1


async def test_over_a_restart_an_alert_is_told_once_and_its_end_is_told(bed: Bed) -> None:
    way = Way()
    first = bed.watch(mail=way)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: way.changes == ["raised"])
    await first.stop()
    second = bed.watch(mail=way)
    await until(lambda: second.summary()["standing"] == 1)
    assert way.changes == ["raised"]
    assert second.document()["alerts"][0]["is_told"]


async def test_a_disk_that_takes_nothing_keeps_no_alert_from_leaving(
    bed: Bed, tmp_path: Path
) -> None:
    way = Way()
    bed.folder = tmp_path / "gone"
    bed.watch(mail=way)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: way.changes == ["raised"])
    await until(lambda: "alerts kept" in bed.sources.watched.failing)
    bed.folder.mkdir()
    await until(lambda: "alerts kept" not in bed.sources.watched.failing)
    assert (bed.folder / STATE_FILE).exists()


async def test_the_end_is_told_once_by_who_starts_on_the_disk_that_was_mended(
    bed: Bed, tmp_path: Path
) -> None:
    way = Way()
    bed.folder, bed.stand_in = tmp_path / "disk", tmp_path / "memory"
    bed.stand_in.mkdir()
    first = bed.watch(mail=way, plan=ENDS_SOON)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: way.changes == ["raised"])
    await until(lambda: first.summary()["ways"]["mail"]["waiting"] == 0)
    await first.stop()
    bed.folder.mkdir()  # a disk that knows nothing of it
    bed.sources.wrong = {}
    bed.watch(mail=way, plan=ENDS_SOON)
    await until(lambda: way.changes == ["raised", "cleared"])
    await until(lambda: not (tmp_path / "memory" / STATE_FILE).exists())
    seen = len(bed.sources.looks)
    await until(lambda: len(bed.sources.looks) > seen + 3)
    assert [one.change for one in way.taken if one.rule == "disk-read-only"] == [
        "raised",
        "cleared",
    ]


async def test_what_the_disk_has_is_not_undone_by_an_older_stand_in(tmp_path: Path) -> None:
    disk, memory = tmp_path / "disk", tmp_path / "memory"
    for folder in (disk, memory):
        folder.mkdir()
    kept, state = KeptAlerts(disk, memory), AlertState(left_out=1)
    kept.write_stand_in(kept.encode(state))
    state.left_out = 2
    kept.write(kept.encode(state))  # killed before the stand-in is dropped
    assert KeptAlerts(disk, memory).read().left_out == 2
    assert KeptAlerts(tmp_path / "another", memory).read().left_out == 1
    (memory / STATE_FILE).write_bytes(b"\0" * 100)
    assert KeptAlerts(disk, memory).read().left_out == 2


def test_the_folder_in_memory_is_the_one_that_the_service_was_given() -> None:
    assert runtime_folder({}) is None
    assert runtime_folder({"RUNTIME_DIRECTORY": "/run/hedgerow:/run/more"}) == Path("/run/hedgerow")


async def test_a_state_that_is_damaged_is_set_aside_and_one_that_cant_be_read_is_not_replaced(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / STATE_FILE).write_bytes(b"\0" * 100)
    way = Way()
    watch = bed.watch(mail=way)
    assert (tmp_path / f"{STATE_FILE}.damaged-1").exists()
    await watch.stop()

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied", STATE_FILE)

    kept = (tmp_path / STATE_FILE).read_bytes() if (tmp_path / STATE_FILE).exists() else None
    monkeypatch.setattr("gateway.base.kept_file.KeptFile.read", denied)
    bed.watch(mail=way)
    bed.sources.wrong = {"is_read_only": True}
    await until(lambda: way.changes == ["raised"])
    assert "Permission denied" in bed.sources.watched.failing["alerts kept"]
    after = (tmp_path / STATE_FILE).read_bytes() if (tmp_path / STATE_FILE).exists() else None
    assert after == kept


async def test_heat_and_a_weak_supply_of_the_kernels_files_are_told_and_their_end(
    bed: Bed, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    zone, chip = root / "sys/class/thermal/thermal_zone0", root / "sys/class/hwmon/hwmon0"
    for folder in (zone, chip):
        folder.mkdir(parents=True)
    (zone / "type").write_text("cpu-thermal\n")
    (zone / "temp").write_text("85000\n")
    (chip / "name").write_text("rpi_volt\n")
    (chip / "in0_lcrit_alarm").write_text("1\n")
    box = Mailbox()
    server = Controller(box, hostname="127.0.0.1", port=free_port())
    server.start()
    try:
        mail = MailWay(
            MailServer(host="127.0.0.1", port=server.port, starts_tls=False, tls=None),
            own_name="gw-a",
            sender="gw-a@example.org",
            to=["ops@example.org"],
        )
        plan = replace(AlertPlan(ways=("mail",), look_s=0.05, gather_s=0), terms=SOON)
        watch = bed.watch(MachineEyes(tmp_path, root).look, plan, mail=mail)
        await until(lambda: box.told == {"RAISED  hot", "RAISED  under-voltage"})
        await watch.stop()  # and on again: nothing is told twice
        bed.watch(MachineEyes(tmp_path, root).look, plan, mail=mail)
        (zone / "temp").write_text("50000\n")
        (chip / "in0_lcrit_alarm").write_text("0\n")
        await until(lambda: {"CLEARED  hot", "CLEARED  under-voltage"} <= box.told)
    finally:
        server.stop()
    assert len(box.lines) == 4, "each once"


async def test_a_slowed_processor_and_a_card_at_its_end_are_told_once_and_their_end(
    bed: Bed, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    firmware = root / "sys/devices/platform/soc/soc:firmware"
    life = machine_with_a_card(root) / "device/life_time"
    firmware.mkdir(parents=True)
    (firmware / "get_throttled").write_text("4\n")
    life.write_text("0x09 0x02\n")
    way = Way()
    plan = replace(AlertPlan(ways=("mail",), look_s=0.05, gather_s=0), terms=SOON)

    def told() -> set[tuple[str, str]]:
        return {(one.rule, one.change) for one in way.taken}

    watch = bed.watch(MachineEyes(tmp_path, root).look, plan, mail=way)
    await until(lambda: told() == {("throttled", "raised"), ("disk-worn", "raised")})
    await watch.stop()
    bed.watch(MachineEyes(tmp_path, root).look, plan, mail=way)
    (firmware / "get_throttled").write_text("40000\n")
    life.write_text("0x01 0x01\n")  # another card
    await until(lambda: {("throttled", "cleared"), ("disk-worn", "cleared")} <= told())
    assert sorted(way.changes) == ["cleared", "cleared", "raised", "raised"]
