"""Alerts of the ingest job leave on a gateway's ways: once on each, whatever is down or killed."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from unreadable_files import Unopened

from alerts import outgoing
from alerts.desk import trial
from alerts.matcher import AlertMatcher
from alerts.record import AlertRecord, Change, RecordsRefusedError
from alerts.terms import AlertRoute
from cloud_ingest.fleet.alerts import AlertBook
from cloud_ingest.fleet.outgoing import OutgoingAlerts, OutgoingState
from cloud_ingest.fleet.way_out_thread import WayOutThread
from gateway.alerting import fleet_ways, spooled_ways
from gateway.alerting.fleet_ways import FleetWaysSection
from gateway.alerting.section import AlertsSection, SyslogSection
from gateway.alerting.spooled_ways import SpooledWays
from gateway.base.toml.toml_file import ConfigError, load
from gateway.tools import cli

LIMIT_S = 60


class Way:
    """Keeps what it gets, or fails as it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.tries = 0
        self.names: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.thread: threading.Thread | None = None
        """The last that told something by it."""

    def take(self, records: Sequence[AlertRecord]) -> None:
        self.thread = threading.current_thread()
        self.tries += 1
        self.may_answer.wait()
        if self.error is not None:
            raise self.error
        self.names += [one.delivery_id for one in records]


class Spool:
    """Ways out over one file that outlives them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.open: list[SpooledWays] = []

    def ways(self, routes: Sequence[AlertRoute] = (), **ways: Way) -> SpooledWays:
        made = SpooledWays(self.file, ways, routes, gather_s=0)
        self.open.append(made)
        return made


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spool]:
    monkeypatch.setattr(spooled_ways, "TURN_S", 0.01)
    made = Spool(tmp_path / "ways.json")
    yield made
    for one in made.open:
        one.close()


def records(count: int, rule: str = "silent") -> list[AlertRecord]:
    raised, _ = trial("gw-a", "campus/north", 1_700_000_000_000_000)
    return [msgspec.structs.replace(raised, alert=f"{rule}-{n}", rule=rule) for n in range(count)]


def until(holds: Callable[[], object]) -> None:
    ends_s = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < ends_s, "not within the time"
        time.sleep(0.01)


def test_a_way_that_is_down_or_hangs_keeps_no_other_from_telling(spool: Spool) -> None:
    down, hanging, well = Way(OSError("no route")), Way(), Way()
    hanging.may_answer.clear()
    spool.ways(mail=down, webhook=hanging, ntfy=well).take(records(3))
    until(lambda: len(well.names) == 3)
    until(lambda: down.tries == 1)
    assert hanging.names == []
    hanging.may_answer.set()
    until(lambda: len(hanging.names) == 3)


def test_what_was_taken_is_told_after_a_kill_and_what_was_told_is_not_told_again(
    spool: Spool,
) -> None:
    down, well = Way(OSError("no route")), Way()
    first = spool.ways(mail=down, ntfy=well)
    first.take(records(2))
    until(lambda: len(well.names) == 2 and down.tries)
    until(lambda: json.loads(spool.file.read_bytes())["ways"]["ntfy"]["delivered"] == 2)
    first.close()
    mail, ntfy = Way(), Way()
    again = spool.ways(mail=mail, ntfy=ntfy)
    again.take(records(2))  # the job was killed before it noted that they were taken
    again.take(records(3))
    until(lambda: len(mail.names) == 3 and ntfy.names)
    assert ntfy.names == [records(3)[2].delivery_id]
    assert len(set(mail.names)) == 3


def test_what_a_way_never_gets_is_dropped_and_the_log_says_how_much_and_why(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    down, well = Way(OSError("no route")), Way()
    first = spool.ways(mail=down, ntfy=well)
    first.take(records(outgoing.MAX_WAITING + 2))
    until(lambda: len(well.names) == outgoing.MAX_WAITING and down.tries)
    assert "alerts by mail: 2 dropped: too many waited" in caplog.text
    first.close()
    spool.ways(ntfy=well).close()  # the configuration has no mail by now
    assert "alerts by mail: 500 dropped: the configuration has this way no more" in caplog.text


def test_a_way_that_was_closed_while_it_told_leaves_the_file_to_the_next(spool: Spool) -> None:
    slow = Way()
    slow.may_answer.clear()
    first = spool.ways(mail=slow)
    first.take(records(1))
    until(lambda: slow.tries)
    first.close()
    second = Way(OSError("no route"))
    spool.ways(mail=second).take(records(3))
    until(lambda: second.tries)
    slow.may_answer.set()
    until(lambda: slow.thread is not None and not slow.thread.is_alive())
    assert slow.names
    assert len(json.loads(spool.file.read_bytes())["met"]) == 3


def test_what_can_not_be_kept_is_not_taken_and_comes_again(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = Way()
    made = spool.ways(mail=way)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.base.kept_file.KeptFile.write", full)
        with pytest.raises(OSError, match="No space"):
            made.take(records(2))
    made.take(records(2))
    until(lambda: len(way.names) == 2)


def test_routes_say_what_goes_where_and_the_end_goes_where_the_begin_went(spool: Spool) -> None:
    mail, ntfy = Way(), Way()
    routes = [AlertRoute(AlertMatcher.of({"rule": "silent"}), ("mail",))]
    raised = records(1)[0]
    cleared = msgspec.structs.replace(raised, change="cleared")
    made = spool.ways(routes, mail=mail, ntfy=ntfy)
    made.take([raised, *records(1, "hot")])
    made.take([cleared])
    until(lambda: len(mail.names) == 2)
    assert ntfy.names == []


def test_who_was_told_of_an_alert_is_told_of_its_end_whatever_the_routes_are_by_then(
    spool: Spool,
) -> None:
    mail, ntfy = Way(), Way()

    def changed(change: Change, number: int = 0) -> AlertRecord:
        return msgspec.structs.replace(records(1)[0], change=change, number=number)

    def sent() -> object:
        return json.loads(spool.file.read_bytes())["sent"]

    first = spool.ways([AlertRoute(AlertMatcher(), ("mail",))], mail=mail, ntfy=ntfy)
    first.take([changed("raised")])
    assert sent() == {"silent-0": ["mail"]}
    until(lambda: mail.names)
    first.close()
    again = spool.ways([AlertRoute(AlertMatcher(), ("ntfy",))], mail=mail, ntfy=ntfy)
    again.take([changed("reminded", 1), *records(1, "hot")])
    assert sent() == {"silent-0": ["mail"], "hot-0": ["ntfy"]}
    again.take([changed("cleared")])
    assert sent() == {"hot-0": ["ntfy"]}, "what is over is forgotten"
    until(lambda: len(mail.names) == 3 and ntfy.names)
    assert ntfy.names == [records(1, "hot")[0].delivery_id]


def test_the_log_says_once_why_a_way_fails_and_nothing_of_one_that_is_well_again(
    spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    way = Way(OSError("no route"))
    times_s = itertools.count(0, 1_000)  # a way that has failed is left alone for a while
    made = SpooledWays(spool.file, {"mail": way}, gather_s=0, clock=lambda: float(next(times_s)))
    spool.open.append(made)
    made.take(records(1))
    until(lambda: way.tries >= 3)
    way.error = None
    until(lambda: made.figures()["mail"].delivered == 1)
    told = [one for one in caplog.messages if one.startswith("alerts by mail")]
    assert told == ["alerts by mail: no route"]


def test_what_a_way_never_takes_is_dropped_and_counted(spool: Spool) -> None:
    way = Way(RecordsRefusedError("answers 422"))
    spool.ways(mail=way).take(records(1))
    until(lambda: json.loads(spool.file.read_bytes())["ways"]["mail"]["dropped"] == 1)


def test_alerts_of_the_jobs_book_leave_with_their_site_by_their_routes(spool: Spool) -> None:
    north, south = Way(), Way()
    domains = {
        "north": AlertMatcher.of({"group": "north"}),
        "south": AlertMatcher.of({"group": "south"}),
    }
    routes = [AlertRoute(matcher, (way,)) for way, matcher in domains.items()]
    thread = WayOutThread(spool.ways(routes, north=north, south=south))
    book = AlertBook()
    out = OutgoingAlerts(
        book,
        OutgoingState(),
        0,
        is_used=True,
        site_of=lambda gateway: f"campus/{gateway.removeprefix('gw-')}",
    )
    book.judge(("silent", "gw-north", ""), True, 1_000_000, "nothing came")
    book.judge(("hot", "gw-south", ""), True, 2_000_000, "85 degrees", 85.0)
    out.look(3_000_000)
    thread.offer(out.pending)
    thread.wait(LIMIT_S)
    assert len(thread.taken()) == 2
    until(lambda: north.names and south.names)
    assert north.names == ["silent:gw-north:1000000/raised/0"]
    assert south.names == ["hot:gw-south:2000000/raised/0"]


FILE = """
state_dir = "{folder}"
[alerts.syslog]
to = "/dev/log"
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("", ""), ""),
        (('[alerts.syslog]\nto = "/dev/log"', "[alerts]"), "alerts: has no way out"),
        (("state_dir", "statedir"), "statedir"),
        (('to = "/dev/log"', "[alerts.mqtt]"), "alerts.mqtt: is for a gateway"),
        (('to = "/dev/log"', '[[alerts.routes]]\nto = ["syslog"]\nafter_s = 9'), "has an after_s"),
        (('to = "/dev/log"', "to = 5"), "alerts.syslog.to"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(
    tmp_path: Path, change: tuple[str, str], told: str, capsys: Any
) -> None:
    path = tmp_path / "ways.toml"
    path.write_text(FILE.format(folder=tmp_path).replace(*change))
    if not told:
        assert load(path, FleetWaysSection).alerts.ways == ("syslog",)
        return
    with pytest.raises(ConfigError, match=told):
        load(path, FleetWaysSection)
    arguments = ["ingest", "--tables", str(tmp_path / "tables"), "--ways", str(path)]
    assert cli.main(arguments) == 2
    assert "--ways" in capsys.readouterr().err


@pytest.mark.usefixtures("process_of_a_service")
def test_the_folder_of_what_waits_is_made_or_named(tmp_path: Path) -> None:
    os.umask(0)
    alerts = AlertsSection(syslog=SyslogSection("127.0.0.1:1"))
    made = fleet_ways.opened(FleetWaysSection(tmp_path / "a/b", alerts))
    made.take(records(1))
    made.close()
    assert (tmp_path / "a/b" / fleet_ways.FILE_NAME).exists()
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    for folder in ("file", "file/below"):
        with pytest.raises(ConfigError, match=r"state_dir: .*/file: a file, not a folder"):
            fleet_ways.opened(FleetWaysSection(tmp_path / folder, alerts))


def test_what_was_told_and_can_not_be_noted_is_told_of_in_the_log(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    way = Way()
    way.may_answer.clear()
    made = spool.ways(mail=way)
    made.take(records(1))
    until(lambda: way.tries)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gateway.base.kept_file.KeptFile.write", full)
        way.may_answer.set()
        until(lambda: f"{spool.file}: No space left on device" in caplog.text)
    assert made.figures()["mail"].delivered == 1


def test_what_waits_and_can_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts = AlertsSection(syslog=SyslogSection("127.0.0.1:1"))
    fleet_ways.opened(FleetWaysSection(tmp_path, alerts)).close()
    (tmp_path / fleet_ways.FILE_NAME).touch()
    Unopened(monkeypatch, fleet_ways.FILE_NAME)
    with pytest.raises(ConfigError) as raised:
        fleet_ways.opened(FleetWaysSection(tmp_path, alerts))
    file = tmp_path / fleet_ways.FILE_NAME
    assert str(raised.value) == f"state_dir: {file}: Too many open files"
