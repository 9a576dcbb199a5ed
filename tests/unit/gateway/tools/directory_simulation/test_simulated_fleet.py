"""The fleet of `hedgerow simulate --subject directory` runs in each build."""

from __future__ import annotations

import pytest

from gateway.tools.directory_simulation.costs import measure
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


def test_what_changes_and_look_ups_cost_in_a_small_fleet_and_what_they_could_have_cost() -> None:
    costs = {cost.what: cost for cost in measure(4)}
    assert {cost.gateways for cost in costs.values()} == {4}
    assert {
        cost.what: (cost.messages, cost.found, cost.head, cost.others) for cost in costs.values()
    } == {
        "a new kind of device": (3, 1, 1, 0),
        "look-up scope=group": (0, 4, 0, 0),
        "look-up scope=domain": (0, 4, 0, 0),
        "look-up scope=all": (12, 17, 5, 0),
        "look-up scope=all rt=new-kind": (6, 1, 2, 0),
        "look-up scope=all count=20": (12, 17, 5, 0),
        "a request to all (256 at most)": (12, 4, 5, 0),
        "look-up scope=all through heads (calculated)": (12, 0, 2, 0),
        "a new kind, digests at heads alone (calculated)": (0, 0, 0, 0),
        "look-up of a new kind, digests at heads alone (calculated)": (18, 0, 0, 0),
    }
    seen, through_heads = (
        costs[f"look-up scope=all{more}"] for more in ("", " through heads (calculated)")
    )
    assert abs(through_heads.octets - seen.octets) < seen.octets / 10
    # An answer that has no link is shorter than one that has.
    few = costs["look-up scope=all rt=new-kind"]
    none = costs["look-up of a new kind, digests at heads alone (calculated)"]
    assert none.octets / none.messages < few.octets / few.messages
    assert few.octets / few.messages < seen.octets / seen.messages
    assert seen.seconds == pytest.approx(0.015)
