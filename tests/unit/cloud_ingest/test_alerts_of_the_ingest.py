"""Alerts on the job itself and on its collectors: from evidence, once, and cleared."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import deltalake
import pytest
from job_steps import Steps
from watched_fleet import at

from cloud_ingest.dashboard.standing import standing, tables_alert
from cloud_ingest.evidence.facts import Activity, BatchFacts
from cloud_ingest.evidence.signs import CollectorSign, IngestSigns
from cloud_ingest.fleet.kinds import ABOUT, KINDS
from cloud_ingest.fleet.rules import AlertRules, RulesError, read
from cloud_ingest.fleet.watch import FleetWatch
from cloud_ingest.job.collector_signs import UntoldBeginnings, collector_signs
from cloud_ingest.job.micro_batches import Ingest, IngestSettings
from cloud_ingest.spool import committed
from cloud_ingest.spool.segments import SpoolRange, ranges, read_mark, segments
from cloud_ingest.tables.store import TableStore

ROOT = Path(__file__).parents[3]
GOOD = CollectorSign("/spool/a", at(0), {}, 0, 0)
EMPTY = BatchFacts(committed_us=at(0))


class Job:
    """A watch, and what a job tells it."""

    def __init__(self, rules: AlertRules | None = None) -> None:
        self.rules = rules or AlertRules()
        self.watch = FleetWatch(self.rules)
        self.number = 0

    def sees(self, second: float, *collectors: CollectorSign, **said: Any) -> None:
        self.watch.ingest_says(IngestSigns(collectors, **said), at(second))
        self.watch.changes(at(second))

    def lives(self, since: int, until: int, step: int = 10, **fields: Any) -> None:
        """Its collector writes its status meanwhile."""
        for second in range(since, until, step):
            self.sees(second, replace(GOOD, status_us=at(second), **fields))

    def batch(self, second: float, messages: int, undecodable: int = 0) -> None:
        self.number += 1
        told = Activity("gw-a", messages, undecodable, 0, None, None, at(second))
        self.watch.take(
            replace(EMPTY, batch_id=self.number, committed_us=at(second), activity=(told,))
        )
        self.watch.changes(at(second))

    def killed(self) -> None:
        self.watch = FleetWatch(self.rules, self.watch.state())

    def alerts(self) -> list[tuple[str, str | None, bool]]:
        """Kind, spool, and whether it is open; they name no gateway."""
        table = FleetWatch(self.rules, self.watch.state()).changes(at(0)).replace["alerts"]
        rows = table.to_pylist()
        assert all(row["gateway"] == "" for row in rows)
        assert all(row["severity"] and row["what_to_do"] for row in rows)
        return [(row["kind"], row["sensor"], row["cleared"] is None) for row in rows]


def test_a_collector_that_writes_its_status_no_more_is_silent_until_it_does() -> None:
    job = Job()
    job.lives(0, 100)
    for second in range(100, 300, 10):
        job.sees(second, replace(GOOD, status_us=at(90)))
    assert job.alerts() == [("collector-silent", "/spool/a", True)]
    job.lives(300, 400)
    assert job.alerts() == [("collector-silent", "/spool/a", False)]


@pytest.mark.parametrize("apart_s", [-40 * 365 * 86_400, -86_400, 86_400, 40 * 365 * 86_400])
def test_a_collectors_clock_that_is_wrong_makes_no_collector_silent_nor_a_job_behind(
    apart_s: int,
) -> None:
    job = Job()
    for second in range(0, 1_000, 10):
        job.sees(second, replace(GOOD, status_us=at(second + apart_s), marked=second, committed=0))
        job.sees(
            second + 5,
            replace(GOOD, status_us=at(second + apart_s), marked=second, committed=second),
        )
    assert job.alerts() == []


def test_a_jobs_clock_that_leaps_makes_no_collector_silent() -> None:
    job = Job()
    job.lives(0, 100)
    job.lives(90_000, 90_100)
    job.lives(200, 400)
    assert job.alerts() == []


@pytest.mark.parametrize("leap_s", [-86_400, 86_400, 40 * 365 * 86_400])
def test_a_leap_of_the_jobs_clock_between_two_looks_makes_nobody_silent_and_no_job_behind(
    leap_s: int,
) -> None:
    job = Job()

    def sees(second: float, sign: CollectorSign) -> None:
        off_s = leap_s if second > 100 else 0
        job.sees(second + off_s, sign, steady_us=round(second * 1e6))

    sees(98, replace(GOOD, status_us=at(98), marked=9, committed=9))
    same = replace(GOOD, status_us=at(99), marked=20, committed=9)
    sees(100, same)
    sees(101, same)
    sees(102, replace(same, status_us=at(101), committed=20))
    assert job.alerts() == []
    for second in range(103, 500, 10):  # it is found out even so
        sees(second, replace(same, status_us=at(101), marked=30, committed=20))
    assert job.alerts() == [
        ("collector-silent", "/spool/a", True),
        ("ingest-behind", "/spool/a", True),
    ]


def test_a_quarantine_that_grows_grows_until_something_came_that_does_not_go_there() -> None:
    job = Job()
    job.batch(0, 1_000, 900)
    job.sees(5_000, GOOD)
    job.batch(5_010, 1_000, 900)
    assert job.alerts() == [("quarantine-growing", None, True)]
    job.batch(10_000, 1_000, 0)
    assert job.alerts() == [("quarantine-growing", None, False)]


def test_what_is_read_again_or_stood_in_quarantine_before_does_not_grow_the_quarantine() -> None:
    job = Job()
    job.batch(0, 1_000, 0)
    job.batch(10_000, 1_000, 0)
    for collected_us in (at(0), at(9_000), 0):
        job.number += 1
        told = Activity("gw-a", 1_000, 900, 0, None, None, collected_us)
        job.watch.take(
            replace(EMPTY, batch_id=job.number, committed_us=at(10_010), activity=(told,))
        )
        job.watch.changes(at(10_010))
    assert job.alerts() == []
    job.batch(10_020, 1_000, 900)
    assert job.alerts() == [("quarantine-growing", None, True)]


def test_a_copy_of_a_spool_has_no_collector_that_could_be_silent() -> None:
    job = Job()
    for second in range(0, 1_000, 50):
        job.sees(second, replace(GOOD, status_us=None))
    assert job.alerts() == []


def test_a_spool_that_is_read_no_longer_takes_its_alerts_along() -> None:
    job = Job()
    for second in range(0, 200, 10):
        job.sees(second, GOOD)
    assert job.alerts() == [("collector-silent", "/spool/a", True)]
    job.sees(210)
    assert job.alerts() == [("collector-silent", "/spool/a", False)]


def test_a_disk_that_refuses_is_told_with_what_it_refused() -> None:
    job = Job()
    job.lives(0, 50, refusals={"append": 3})  # before this job began to look
    assert job.alerts() == []
    job.lives(50, 100, refusals={"append": 4})
    assert job.alerts() == [("collector-disk", "/spool/a", True)]
    table = job.watch.changes(at(100)).replace["alerts"].to_pylist()
    assert "append" in table[0]["message"] and "/spool/a" in table[0]["message"]
    job.lives(100, 300, refusals={"append": 4})
    assert job.alerts()[0][2]
    job.lives(300, 400, refusals={"append": 4})
    assert job.alerts() == [("collector-disk", "/spool/a", False)]
    job.lives(400, 450, refusals={})  # the collector began anew
    assert job.alerts() == [("collector-disk", "/spool/a", False)]


def test_a_job_that_does_not_reach_in_time_what_stood_in_a_spool_is_behind() -> None:
    job = Job()
    for second in range(0, 1_000, 10):  # the spool grows by 100 bytes a second, half is read
        job.sees(
            second,
            replace(GOOD, status_us=at(second), marked=100 * second, committed=50 * second),
        )
    assert job.alerts() == [("ingest-behind", "/spool/a", True)]
    job.lives(1_000, 1_020, marked=100_000, committed=100_000)
    assert job.alerts() == [("ingest-behind", "/spool/a", False)]


def test_a_job_that_always_has_more_to_read_and_keeps_up_is_not_behind() -> None:
    job = Job()
    for second in range(0, 3_000, 10):
        job.sees(
            second,
            replace(
                GOOD, status_us=at(second), marked=1_000 + 100 * second, committed=100 * second
            ),
        )
    assert job.alerts() == []


def test_a_query_that_is_begun_again_three_times_in_an_hour_is_failing() -> None:
    job = Job()
    job.lives(0, 20)
    for second in (20, 400, 800):
        assert job.alerts() == []
        good = replace(GOOD, status_us=at(second))
        job.sees(second, good, begun_again=("a disk is full",))
    assert job.alerts() == [("ingest-failing", None, True)]
    row = job.watch.changes(at(900)).replace["alerts"].to_pylist()[0]
    assert "a disk is full" in row["message"] and row["value"] == 3
    job.lives(800, 4_500, step=50)
    assert job.alerts() == [("ingest-failing", None, False)]


def test_a_job_that_is_killed_again_and_again_is_failing_and_one_that_ends_is_not() -> None:
    for is_killed in (False, True):
        job = Job()
        for life in range(4):
            job.sees(300 * life, replace(GOOD, status_us=at(300 * life)), has_started=True)
            if not is_killed:
                job.watch.ingest_ends()
            job.killed()
        assert job.alerts() == ([("ingest-failing", None, True)] if is_killed else [])


def test_a_job_that_was_killed_three_times_says_so_in_the_tables_once_it_lives(spool: Any) -> None:
    tables = spool.folder.parent / "tables"
    for life in range(4):
        spool.readings("gw-a", 1, 1 + 4 * life, 4)
        spool.sync()
        whole = segments(spool.folder, read_mark(spool.folder))
        there = ranges(spool.folder, whole, 0, whole[-1].start + whole[-1].length)
        ingest = Ingest(IngestSettings(TableStore(str(tables))))
        ingest.take(cast(Any, Steps("q", there)), life)
        ingest.nothing_came([spool.folder])
    ingest.close()
    rows = deltalake.DeltaTable(tables / "alerts").to_pyarrow_table().to_pylist()
    assert [(row["kind"], row["gateway"], row["severity"]) for row in rows] == [
        ("ingest-failing", "", "critical")
    ]


def test_the_watch_waits_for_no_micro_batch(spool: Any) -> None:
    spool.readings("gw-a", 1, 1, 4)
    spool.sync()
    whole = segments(spool.folder, read_mark(spool.folder))
    there = ranges(spool.folder, whole, 0, whole[-1].start + whole[-1].length)
    tables = spool.folder.parent / "tables"
    ingest = Ingest(IngestSettings(TableStore(str(tables))))
    ingest.take(cast(Any, Steps("q", there)), 0)
    with ingest.busy:
        beside = threading.Thread(target=ingest.nothing_came, args=([spool.folder],), daemon=True)
        beside.start()
        beside.join(60)
        assert not beside.is_alive()
    ingest.close()


def test_a_quarantine_that_grows_is_told_until_messages_are_read_again() -> None:
    job = Job()
    for second in range(0, 600, 10):
        job.batch(second, 100, 1)
    assert job.alerts() == []
    for second in range(600, 900, 10):
        job.batch(second, 100, 50)
    assert job.alerts() == [("quarantine-growing", None, True)]
    for second in range(900, 1_800, 10):
        job.batch(second, 100)
    assert job.alerts() == [("quarantine-growing", None, False)]


def test_a_few_messages_that_cannot_be_read_are_no_alert() -> None:
    job = Job()
    for second in range(0, 600, 10):
        job.batch(second, 1, 1)
    assert job.alerts() == []


def test_a_kill_at_any_moment_changes_no_alert_of_the_ingest() -> None:
    told = []
    for every in (0, 1, 7):
        job = Job()
        for step in range(120):
            second = 10 * step
            status = second if step < 30 or step > 60 else 290
            job.sees(second, replace(GOOD, status_us=at(status), marked=second, committed=30))
            if every and step % every == 0:
                job.killed()
        told.append(job.alerts())
    assert told[0] == told[1] == told[2]
    assert {kind for kind, *_ in told[0]} == {"collector-silent", "ingest-behind"}


def test_rules_of_the_ingest_are_read_and_a_wrong_key_is_named() -> None:
    rules = read("[ingest.behind]\nopens-s = 60\nclears-s = 5\n[ingest.failing]\non = false")
    assert (rules.ingest.behind.opens_s, rules.ingest.failing.on) == (60, False)
    with pytest.raises(RulesError, match=r"ingest.behind: clears-s 60 is not less than opens-s 50"):
        read("[ingest.behind]\nopens-s = 50")
    with pytest.raises(RulesError, match=r"ingest: .*`late`"):
        read("[ingest.late]\non = true")


def test_what_a_spool_shows_is_read_whatever_its_status_says(tmp_path: Path) -> None:
    whole: Mapping[str, Any] = {"refusals": {"append": 2, "odd": "x", "low": -1}}
    for text, refusals in (
        (json.dumps(whole), {"append": 2}),
        ("[]", {}),
        ("{", {}),
        ('{"refusals": 7}', {}),
        (None, {}),
    ):
        path = tmp_path / "status.json"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        (sign,) = collector_signs([tmp_path], "ingest")
        assert (sign.refusals, sign.status_us is None) == (refusals, text is None)
    segment = f"{0:020}.log"
    (tmp_path / "synced").write_text(f"{segment} 500\n")
    committed.note([SpoolRange(str(tmp_path), segment, 0, 300)], "ingest")
    (sign,) = collector_signs([tmp_path], "ingest")
    assert sign.marked - sign.committed == 200


def test_what_nobody_was_told_is_told_the_next_time() -> None:
    untold = UntoldBeginnings()
    untold.begun_again("one")
    signs = untold.signs(())
    assert (signs.begun_again, signs.has_started) == (("one",), True)
    untold.begun_again("two")
    untold.told(signs)
    signs = untold.signs(())
    assert (signs.begun_again, signs.has_started) == (("two",), False)


def test_who_reads_tables_that_nobody_writes_says_so_since_the_job_cannot() -> None:
    late = standing(1_000, 1_000, 1_000 + 3_600_000)
    alert = tables_alert(late)
    assert alert is not None
    assert (alert["kind"], alert["opened_ms"], alert["gateway"]) == (
        "tables-not-written",
        1_000,
        "",
    )
    assert "60 min" in alert["message"] and "what-to-do-when" in alert["what_to_do"]
    assert tables_alert(standing(1_000, 1_000, 2_000)) is None
    assert tables_alert(standing(None, None, 2_000)) is None


def test_each_kind_says_how_bad_it_is_and_what_to_do_on_a_page_that_is_there() -> None:
    assert ABOUT.keys() == set(KINDS)
    for about in ABOUT.values():
        for word in about.what_to_do.split():
            if word.startswith("docs/"):
                page, _, anchor = word.partition("#")
                headings = [
                    line.lstrip("# ").lower().replace("`", "").replace(" ", "-")
                    for line in (ROOT / page).read_text().splitlines()
                    if line.startswith("#")
                ]
                assert anchor in headings, word
