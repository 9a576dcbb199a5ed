"""The ingest job and the dashboard tell Prometheus how they are, and nobody elsewhere."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import documented_metrics
import pytest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from synthetic_tables import Fleet

from alerts.desk import trial
from alerts.record import AlertRecord
from alerts.state import WayFigures
from cloud_ingest.dashboard import fleet_metrics
from cloud_ingest.dashboard.models import Models
from cloud_ingest.job.job_metrics import JobMetrics
from cloud_ingest.metrics_listener import MetricsAddressError, parse_address, serving
from cloud_ingest.query.lake import Lake
from cloud_ingest.spool import committed
from cloud_ingest.spool.segments import MARK_NAME, SpoolMark, SpoolRange
from gateway.alerting.spooled_ways import SpooledWays
from gateway.tools import cli

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Taking:
    """A way out that takes all."""

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Take records."""


class Refusing:
    """A way out that takes nothing now."""

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Refuse records."""
        raise OSError("answers 500")


def samples(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            key = one.name, tuple(sorted(one.labels.items()))
            assert key not in found, "each once"
            found[key] = one.value
    return found


def scraped(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return samples(answer.read().decode())


def test_the_listener_serves_what_there_is_now_with_the_process_and_ends() -> None:
    value = [1.0]

    def figures() -> Iterator[Metric]:
        yield GaugeMetricFamily("tried", "x", value[0])

    with serving("127.0.0.1", 0, figures) as port:
        assert scraped(port)["tried", ()] == 1.0
        value[0] = 2.0
        told = scraped(port)
        assert told["tried", ()] == 2.0
        assert told["process_open_fds", ()] > 0
    with pytest.raises(OSError, match="refused"):
        scraped(port)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("9642", "not HOST:PORT"),
        ("127.0.0.1:x", "not HOST:PORT"),
        ("127.0.0.1:70000", "not HOST:PORT"),
        ("0.0.0.0:9642", "reached from elsewhere"),
        ("example.org:9642", "reached from elsewhere"),
    ],
)
def test_an_address_that_others_reach_is_refused(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MetricsAddressError, match=told):
        parse_address(text)
    tables = ["--tables", str(tmp_path), "--metrics", text]
    assert cli.main(["ingest", "--spool", str(tmp_path), *tables]) == 2
    assert f"--metrics: {text!r}" in capsys.readouterr().err
    assert cli.main(["dashboard", *tables]) == 2
    assert f"--metrics: {text!r}" in capsys.readouterr().err


def test_localhost_and_ipv6_are_this_machine() -> None:
    assert parse_address("localhost:9642") == ("127.0.0.1", 9642)
    assert parse_address("[::1]:0") == ("::1", 0)


def test_the_job_tells_how_far_it_is_behind_its_spools(tmp_path: Path) -> None:
    spool = tmp_path / "main"
    spool.mkdir()
    segment = "0" * 20 + ".log"
    (spool / MARK_NAME).write_text(f"{SpoolMark(segment, 500)}\n")
    metrics = JobMetrics(lambda: 7, lambda: {"facts": 2}, [spool, tmp_path / "none"], "ingest")
    told = {one.name: one for one in metrics.collect()}
    assert told["hedgerow_ingest_micro_batches"].samples[0].value == 7
    assert told["hedgerow_ingest_waiting_bytes"].samples[0].value == 500
    committed.note([SpoolRange(str(spool), segment, 0, 300)], "ingest")
    told = {one.name: one for one in metrics.collect()}
    assert told["hedgerow_ingest_waiting_bytes"].samples[0].value == 200
    assert [one.labels for one in told["hedgerow_ingest_waiting_bytes"].samples] == [
        {"spool": "main"}
    ]
    assert told["hedgerow_ingest_set_aside"].samples[0].labels == {"what": "facts"}
    committed.note([SpoolRange(str(spool), segment, 0, 500)], "ingest")
    told = {one.name: one for one in metrics.collect()}
    assert told["hedgerow_ingest_waiting_bytes"].samples[0].value == 0


def test_spools_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spools = [tmp_path / "a/spool", tmp_path / "b/spool", tmp_path / "c"]
    for spool in spools:
        spool.mkdir(parents=True)
        (spool / MARK_NAME).write_text(f"{SpoolMark('0' * 20 + '.log', 500)}\n")
    monkeypatch.chdir(spools[2])
    metrics = JobMetrics(lambda: 7, dict, [*spools[:2], Path()], "ingest")
    told = {one.name: one for one in metrics.collect()}
    labels = [one.labels["spool"] for one in told["hedgerow_ingest_waiting_bytes"].samples]
    assert labels == [str(spools[0]), str(spools[1]), "c"]


def test_the_job_tells_what_its_ways_out_take_and_drop(tmp_path: Path) -> None:
    file = tmp_path / "ways.json"
    out = SpooledWays(file, {"mail": Refusing(), "ntfy": Taking()}, gather_s=0.0)
    metrics = JobMetrics(lambda: 7, dict, [], "ingest", out.figures)
    out.take(trial("gw-a", "campus", 1_700_000_000_000_000))

    def told() -> dict[tuple[str, str], float]:
        return {
            (
                one.name.removeprefix("hedgerow_ingest_alert_way_"),
                sample.labels["way"],
            ): sample.value
            for one in metrics.collect()
            for sample in one.samples
            if "way" in sample.labels and not sample.name.endswith("_created")
        }

    ends_s = time.monotonic() + 60
    while told()["delivered_records", "ntfy"] < 2 or not told()["failing", "mail"]:
        assert time.monotonic() < ends_s, told()
        time.sleep(0.05)
    out.close()
    assert told() == {
        ("waiting_records", "mail"): 2,
        ("waiting_records", "ntfy"): 0,
        ("failing", "mail"): 1,
        ("failing", "ntfy"): 0,
        ("delivered_records", "mail"): 0,
        ("delivered_records", "ntfy"): 2,
        ("dropped_records", "mail"): 0,
        ("dropped_records", "ntfy"): 0,
    }


def test_the_dashboard_tells_of_the_fleet_what_its_tables_say(tmp_path: Path) -> None:
    models = Models(Lake(tmp_path))
    names = {one.name for one in fleet_metrics.collect(models)}
    assert "hedgerow_fleet_gateways" in names, "also before there is a table"
    Fleet(30).write(tmp_path)
    models.refresh()
    told = {one.name: one for one in fleet_metrics.collect(models)}
    assert sum(one.value for one in told["hedgerow_fleet_gateways"].samples) == 30
    open_ones = sum(one is None for one in models.alerts["cleared_ms"])
    assert open_ones > 0
    assert sum(one.value for one in told["hedgerow_fleet_alerts"].samples) == open_ones
    tables = {
        one.labels["table"]
        for one in told["hedgerow_fleet_table_written_timestamp_seconds"].samples
    }
    assert {"gateways", "alerts"} <= tables


def test_the_document_names_each_metric_with_the_labels_that_it_has_and_no_other(
    tmp_path: Path,
) -> None:
    Fleet(3).write(tmp_path / "tables")
    spool = tmp_path / "main"
    spool.mkdir()
    (spool / MARK_NAME).write_text(f"{SpoolMark('0' * 20 + '.log', 500)}\n")
    models = Models(Lake(tmp_path / "tables"))
    models.refresh()
    ways = {"mail": WayFigures(3, 20, 1, is_failing=True)}
    job = JobMetrics(lambda: 7, lambda: {"facts": 2}, [spool], "ingest", lambda: ways)
    told = [*job.collect(), *fleet_metrics.collect(models)]
    named = documented_metrics.of_the_cloud()
    documented = {name.removesuffix("_total"): labels for name, labels in named.items()}
    assert {one.name for one in told} == documented.keys()
    for one in told:
        for sample in one.samples:
            assert sample.labels.keys() == documented[one.name], sample
