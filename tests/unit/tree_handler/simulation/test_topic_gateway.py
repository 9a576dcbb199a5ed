"""A simulated gateway in topic mode: what goes in overlays is counted, and other things are not."""

from __future__ import annotations

from typing import cast

from tree_handler.batch import Entry, Flags
from tree_handler.simulation.runs import FaultOptions
from tree_handler.simulation.topics import TopicGateway, TopicOptions, TopicTraffic


def test_batches_that_begin_in_an_overlay_are_counted() -> None:
    calm = FaultOptions(rate_per_s=0.0)
    simulation = TopicOptions(7, 2, traffic_per_s=0.0, faults=calm).simulation()
    simulation.start_all()
    traffic = cast(TopicTraffic, simulation.traffic)
    traffic.begin(simulation.gateways, 0.0)
    gateways = [cast(TopicGateway, one) for one in simulation.gateways.values()]
    for gateway in gateways:
        gateway.subscribe("#")

    def publish(flags: int) -> int:
        before = traffic.in_overlays
        gateways[0].publish([Entry("a/b", b"", qos=1)], flags)
        simulation.clock.run(simulation.clock.now + 40.0)
        return traffic.in_overlays - before

    assert publish(Flags.LOGGED) == 0  # nobody knew yet that it publishes this
    assert gateways[0].overlays.way("a/b") is not None
    assert publish(Flags.LOGGED) == 1
    assert publish(Flags.NONE) == 1
    assert traffic.missing(simulation.gateways, simulation.network) == []
    simulation.check_more()
    assert simulation.checks.violations == []
