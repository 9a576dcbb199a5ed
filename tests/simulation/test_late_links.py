"""A gateway that links after a search may hold alone what is sought: it is not given up."""

from __future__ import annotations

import math

import pytest

from tree_handler.batch import Entry, Flags
from tree_handler.intervals import Intervals
from tree_handler.replication.actions import ReplicationAction
from tree_handler.replication.search import Searches
from tree_handler.simulation.network import Edge
from tree_handler.simulation.replicating import ReplicatingGateway
from tree_handler.simulation.runs import Options, Simulation

STREAM_OF = "gw-origin"
NEAR_S, FAR_S = 0.01, 0.4
LINKS_AFTER_S = [2.0 + at / 8 for at in range(12)]
"""Seconds from the seeker's link to the holder's: before, while and after a search passes."""


class Island(Simulation):
    """A seeker asks the origin, whose log has trimmed a message, and somebody who is far away.

    The one gateway that holds the message can link to the origin, and does after a while.
    """

    def __init__(self) -> None:
        super().__init__(Options(1, gateways=0, traffic_per_s=0.0, log_batches=6))
        names = (STREAM_OF, "gw-holder", "gw-seeker", "gw-far")
        for number, gateway_id in enumerate(names):
            self.add(gateway_id, 9.0 - number, f"10.0.0.{number + 1}")
        self.to_holder = Edge((STREAM_OF, "gw-holder"), NEAR_S, 0.0)
        self.to_seeker = Edge((STREAM_OF, "gw-seeker"), NEAR_S, 0.0, cut=True)
        far = Edge(("gw-seeker", "gw-far"), FAR_S, 0.0)
        self.network.edges = [self.to_holder, self.to_seeker, far]
        self.start_all()
        self.traffic.begin(self.gateways, 0.0)
        for gateway_id in ("gw-holder", "gw-seeker"):
            self.traffic.disks[gateway_id].most_batches = math.inf
        self.pass_time(4.0)
        self.publish(3)
        self.pass_time(2.0)
        self.network.cut(self.to_holder)
        self.publish(8)
        self.pass_time(2.0)

    def pass_time(self, seconds: float) -> None:
        self.clock.run(self.clock.now + seconds)

    def publish(self, batches: int) -> None:
        origin = self.gateways[STREAM_OF]
        assert isinstance(origin, ReplicatingGateway)
        for _ in range(batches):
            assert origin.publish([Entry("t", b"", qos=1)], Flags.LOGGED)

    def found_by_the_seeker(self, after_s: float) -> Intervals:
        """Return what the seeker has of the messages that one gateway alone holds."""
        ((stream, numbers),) = (
            row for row in self.traffic.disks["gw-holder"].holds().items() if row[0][0] == STREAM_OF
        )
        self.network.heal(self.to_seeker)
        self.pass_time(after_s)
        self.network.heal(self.to_holder)
        self.pass_time(20.0)
        return numbers.common(self.traffic.disks["gw-seeker"].handed[stream])


def test_what_a_newcomer_holds_is_found_or_was_given_up_before_it_came() -> None:
    found = 0
    for after_s in LINKS_AFTER_S:
        island = Island()
        found += len(island.found_by_the_seeker(after_s)) > 0
        assert not island.checks.violations
    assert found > len(LINKS_AFTER_S) / 2


def test_without_asking_newcomers_what_they_hold_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link_up = Searches.link_up

    def without_asking(self: Searches, link: int, now: float) -> list[ReplicationAction]:
        link_up(self, link, now)
        return []

    monkeypatch.setattr(Searches, "link_up", without_asking)
    islands = [Island() for _ in LINKS_AFTER_S]
    for island, after_s in zip(islands, LINKS_AFTER_S, strict=True):
        island.found_by_the_seeker(after_s)
    assert any(v.invariant == 3 for island in islands for v in island.checks.violations)
