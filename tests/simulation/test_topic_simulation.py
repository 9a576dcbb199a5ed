"""Topic mode in simulated networks: nothing lost or doubled, with overlays as the fast path."""

from __future__ import annotations

import pytest

from tree_handler.simulation.topics import TopicOptions, TopicSimulation, replay


@pytest.mark.parametrize(("gateways", "seeds"), [(3, 6), (4, 8), (6, 3)])
def test_no_message_is_lost_or_doubled_in_topic_mode(gateways: int, seeds: int) -> None:
    in_overlays = 0
    for seed in range(1, 1 + seeds):
        simulation = TopicSimulation(TopicOptions.drawn(seed, gateways))
        simulation.start_all()
        simulation.storm()
        report = simulation.calm()
        assert not report.violations, str(report)
        in_overlays += simulation.traffic.in_overlays
    assert in_overlays > 50 * seeds


def test_a_run_is_the_same_each_time() -> None:
    assert replay(3, 4) == replay(3, 4)


def test_a_violation_names_the_call_that_replays_it() -> None:
    simulation = TopicSimulation(TopicOptions.drawn(5, 3))
    simulation.checks.found(4, "something")
    assert "simulation_topics.replay(seed=5, gateways=3)" in str(simulation.checks.violations[0])
