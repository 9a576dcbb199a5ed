"""A gateway that was cut off while an origin lived on: how soon it has all, in every mode."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tree_handler.batch import Entry, Flags
from tree_handler.simulation.network import Edge
from tree_handler.simulation.replicating import ReplicatingGateway
from tree_handler.simulation.routed import RoutedOptions
from tree_handler.simulation.routed_gateway import RoutedGateway
from tree_handler.simulation.runs import Options
from tree_handler.simulation.topics import TopicOptions

WITHIN_S = 3.0
"""From the moment at which the way is there again: dialling, the tree, and a few round trips."""
STEP_S = 0.1


class CutOff:
    """Two gateways, one of which restarts again and again while the other can't be reached."""

    def __init__(self, subject: type[Options], lives: int, batches: int) -> None:
        simulation = self.simulation = subject(1, gateways=0, traffic_per_s=0.0).simulation()
        for number, gateway_id in enumerate(("gw-a", "gw-b")):
            simulation.add(gateway_id, 9.0 - number, f"10.0.0.{number + 1}")
        edge = Edge(("gw-a", "gw-b"), 0.005, 0.0)
        simulation.network.edges = [edge]
        simulation.start_all()
        self.pass_time(3.0)
        self._subscribe("gw-b")
        self.pass_time(3.0)
        self.publish(1)
        self.pass_time(3.0)
        simulation.network.cut(edge)
        for _ in range(lives):
            self.publish(batches)
            self.pass_time(0.5)
            simulation.gateways.pop("gw-a").stop(silently=False)
            simulation.start("gw-a")
            self.pass_time(0.5)
        self.publish(batches)
        self.pass_time(5.0)
        simulation.network.heal(edge)

    def pass_time(self, seconds: float) -> None:
        clock = self.simulation.clock
        clock.run(clock.now + seconds)

    def _subscribe(self, gateway_id: str) -> None:
        gateway = self.simulation.gateways[gateway_id]
        if isinstance(gateway, RoutedGateway):
            gateway.subscribe("a")

    def publish(self, batches: int) -> None:
        origin = self.simulation.gateways["gw-a"]
        assert isinstance(origin, ReplicatingGateway)
        for _ in range(batches):
            assert origin.publish([Entry("a", b"", qos=1)], Flags.LOGGED)

    def kept_back(self) -> Iterator[str]:
        disks = self.simulation.traffic.disks
        for stream, numbers in disks["gw-a"].holds().items():
            left = numbers.without(disks["gw-b"].handed[stream])
            if stream[0] == "gw-a" and len(left):
                yield f"{stream} {left}"

    def caught_up_after_s(self, at_most_s: float = 300.0) -> float:
        """Return how many seconds it takes until clients at the other end have all."""
        clock = self.simulation.clock
        begun_s = clock.now
        while list(self.kept_back()) and clock.now < begun_s + at_most_s:
            self.pass_time(STEP_S)
        return clock.now - begun_s


@pytest.mark.parametrize("subject", [Options, RoutedOptions, TopicOptions])
@pytest.mark.parametrize("lives", [1, 9, 20])
def test_who_was_cut_off_has_all_soon_however_often_the_origin_was_started_meanwhile(
    subject: type[Options], lives: int
) -> None:
    network = CutOff(subject, lives, batches=3)
    assert network.caught_up_after_s() < WITHIN_S
    assert not network.simulation.checks.violations


@pytest.mark.parametrize("subject", [Options, RoutedOptions, TopicOptions])
def test_lives_that_take_many_requests_each_are_caught_up_with_as_soon(
    subject: type[Options],
) -> None:
    network = CutOff(subject, 6, batches=70)
    assert network.caught_up_after_s() < WITHIN_S
    assert not network.simulation.checks.violations
