"""Topic mode in simulated networks: nothing lost or doubled, with overlays as the fast path."""

from __future__ import annotations

import pytest

from tree_handler.simulation.runs import run
from tree_handler.simulation.topics import TopicOptions, TopicSimulation


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("gateways", "seeds"), [(3, 4), (4, 4), (6, 2)])
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


def test_what_only_gateways_have_that_are_paused_may_be_given_up() -> None:
    """Their links have ended, so nobody can ask them; what they have comes when they are back."""
    assert not run(TopicOptions.drawn(247, 4)).violations


def test_a_run_is_the_same_each_time() -> None:
    options = TopicOptions.drawn(3, 4)
    assert run(options) == run(options)
