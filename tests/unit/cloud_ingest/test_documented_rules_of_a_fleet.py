"""The rules of a fleet's alerts are as docs/monitoring.md says, where no file says otherwise."""

from __future__ import annotations

import pytest

from cloud_ingest.fleet.ingest_rules import IngestThresholds
from cloud_ingest.fleet.rules import Kept, RulesError, Thresholds, read

PAGE = """
silent = {intervals = 3, least-s = 30}
gap = {after-s = 60, forgets-s = 86400}
flapping-root = {elections = 4, window-s = 600}
clock-off = {opens-s = 30, clears-s = 10, records = 3}
disk-wearing = {opens-bytes-per-day = 20e9, clears-bytes-per-day = 15e9, window-s = 3600}
disk-full = {opens-free = 0.05, clears-free = 0.08}
under-voltage = {clears-records = 3}
hot = {opens-cel = 80, clears-cel = 75}
backup-overdue = {on = true}
sensor-stuck = {after-s = 0, readings = 10}
sensor-range = {margin = 0}
two-lives = {returns = 2, clears-s = 600}
given-up = {clears-s = 86400}
sensors-unwatched = {clears-s = 86400}
flapping = {raises = 4, window-s = 1800, steady-s = 900}

[kept]
gateways = 10000
sensors = 256
forget-gateway-s = 2592000
closed-s = 7776000
remind-s = 86400

[ingest]
behind = {opens-s = 300, clears-s = 60}
failing = {times = 3, window-s = 3600}
quarantine-growing = {share = 0.05, least = 100, window-s = 600}
collector-silent = {after-s = 60}
collector-disk = {clears-s = 300}
"""
"""The words of the page's tables, as a file would say them."""


def test_what_the_page_says_is_what_holds_without_a_file() -> None:
    rules = read(PAGE)
    assert rules.of("gw-a", None) == Thresholds()
    assert rules.kept == Kept()
    assert rules.ingest == IngestThresholds()


@pytest.mark.parametrize(
    ("kind", "key", "last", "over"),
    [
        ("silent", "intervals", "2", "1.9"),
        ("silent", "least-s", "15", "14.9"),
        ("flapping-root", "elections", "2", "1"),
        ("flapping-root", "elections", "32", "33"),
        ("clock-off", "records", "1", "0"),
        ("clock-off", "records", "16", "17"),
        ("clock-off", "clears-s", "29.9", "30"),
        ("clock-off", "clears-s", "0", "-0.1"),
        ("disk-wearing", "window-s", "60", "59.9"),
        ("disk-full", "opens-free", "0", "-0.01"),
        ("disk-full", "opens-free", "0.079", "0.08"),
        ("disk-full", "clears-free", "1", "1.01"),
        ("under-voltage", "clears-records", "16", "17"),
        ("hot", "clears-cel", "79.9", "80"),
        ("sensor-stuck", "readings", "2", "1"),
        ("two-lives", "returns", "2", "1"),
        ("two-lives", "returns", "8", "9"),
        ("flapping", "raises", "2", "1"),
        ("flapping", "raises", "32", "33"),
        ("kept", "gateways", "1", "0"),
        ("kept", "gateways", "100000", "100001"),
        ("kept", "sensors", "0", "-1"),
        ("kept", "sensors", "10000", "10001"),
        ("ingest.behind", "clears-s", "299.9", "300"),
        ("ingest.failing", "times", "32", "33"),
        ("ingest.quarantine-growing", "share", "1", "1.01"),
        ("ingest.quarantine-growing", "window-s", "86400", "86401"),
        ("ingest.collector-silent", "after-s", "10", "9.9"),
    ],
)
def test_a_key_is_taken_up_to_its_bound(kind: str, key: str, last: str, over: str) -> None:
    read(f"[{kind}]\n{key} = {last}\n")
    with pytest.raises(RulesError):
        read(f"[{kind}]\n{key} = {over}\n")


def test_a_file_has_a_thousand_overrides_and_no_more() -> None:
    override = '[[override]]\ngateway = "gw"\n[override.hot]\non = false\n'
    read(override * 1_000)
    with pytest.raises(RulesError, match="1000"):
        read(override * 1_001)
