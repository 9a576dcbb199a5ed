"""The fleet of `hedgerow simulate --subject directory` runs in each build."""

from __future__ import annotations

from gateway.tools.directory_simulation.world import DirectoryOptions, run
from tree_handler.spanning.parameters import Parameters


def test_a_simulated_fleet_runs_in_the_build_that_is_tested() -> None:
    report = run(DirectoryOptions(seed=1, gateways=3))
    assert report.violations == ()
    assert report.events > 1_000


def test_a_run_follows_from_its_seed_alone_and_says_how_to_run_it_again() -> None:
    options = DirectoryOptions.drawn(5, 3)
    assert options == DirectoryOptions(seed=5, gateways=3)
    assert (options.leaves, options.parameters) == (0, Parameters())
    assert "--subject directory" in options.replay
    assert "--seed 5" in options.replay
