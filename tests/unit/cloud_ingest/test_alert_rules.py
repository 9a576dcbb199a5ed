"""The rules of alerts: a file whose wrong key is named, and what is for some alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cloud_ingest.fleet.rules import AlertRules, RulesError, Thresholds, read


def test_without_a_file_all_have_the_defaults() -> None:
    assert read("").of("gw-a", None) == Thresholds() == AlertRules().of("gw-a", "campus", "x")


def test_the_last_override_that_fits_wins_key_by_key() -> None:
    rules = read(
        """
        [hot]
        opens-cel = 70
        clears-cel = 60
        [kept]
        sensors = 5
        [[override]]
        gateway = "gw-n*"
        hot = {opens-cel = 90, clears-cel = 65}
        silent = {intervals = 6}
        [[override]]
        domain = "campus"
        hot = {opens-cel = 95}
        [[override]]
        sensor = "door/*"
        sensor-stuck = {after-s = 60}
        """
    )
    assert rules.kept.sensors == 5
    assert (rules.of("gw-a", "-").hot.opens_cel, rules.of("gw-a", "-").hot.clears_cel) == (70, 60)
    north = rules.of("gw-north", "campus")
    assert (north.hot.opens_cel, north.hot.clears_cel, north.silent.intervals) == (95, 65, 6)
    assert rules.of("gw-a", None, "door/1").sensor_stuck.after_s == 60
    assert rules.of("gw-a", None, "water/1").sensor_stuck.after_s == 0
    assert rules.of("gw-a", None).sensor_stuck.after_s == 0


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[hot]\nopens-cel = 'warm'", "hot.opens-cel: "),
        ("[hot]\nopens-cell = 1", "hot: .*`opens-cell`"),
        ("[warm]\nopens-cel = 1", "`warm`"),
        ("[hot]\nopens-cel = 70", "hot: clears-cel 75 is not less than opens-cel 70"),
        ("[silent]\nintervals = 1", "silent.intervals: "),
        ("[silent]\nleast-s = 1", "silent.least-s: "),
        ("[disk-full]\nopens-free = 2", "disk-full.opens-free: "),
        ("[sensor-range]\nlow = 5\nhigh = 4", "sensor-range: "),
        ("[kept]\ngateways = 0", "kept.gateways: "),
        ("[[override]]\ngateway = 7", r"override\[0\].gateway: "),
        ("[[override]]\n[[override]]\nhot = {on = 1}", r"override\[1\].hot.on: "),
        ("[[override]]\nhot = {opens-cel = 1}", r"override\[0\].hot: clears-cel"),
        (
            "[hot]\nopens-cel = 50\nclears-cel = 45\n[[override]]\nhot = {clears-cel = 60}",
            r"override\[0\].hot: clears-cel 60 is not less than opens-cel 50",
        ),
        ("[[override]]\nnew = {}", r"override\[0\]: .*`new`"),
        ("override = 1", "override: "),
        ("[hot", "at end of document"),
    ],
)
def test_an_error_names_its_key(text: str, where: str) -> None:
    with pytest.raises(RulesError, match=where):
        read(text)


def test_the_documented_file_is_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "monitoring.md").read_text()
    text = page.partition("```toml\n# alerts.toml\n")[2].partition("```")[0]
    assert text
    rules = read(text)
    assert rules.of("gw-a", None).silent == Thresholds().silent
    assert rules.of("gw-roof-1", None).hot.opens_cel == 85
    assert rules.of("gw-a", None, "tank/level").sensor_range.high == 4.0
