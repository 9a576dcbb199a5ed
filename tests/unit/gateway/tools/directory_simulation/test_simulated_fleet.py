"""The fleet of `hedgerow simulate --subject directory` runs in each build."""

from __future__ import annotations

from gateway.tools.directory_simulation.world import DirectoryOptions, run


def test_a_simulated_fleet_runs_in_the_build_that_is_tested() -> None:
    report = run(DirectoryOptions(seed=1, gateways=3))
    assert report.violations == ()
    assert report.events > 1_000
