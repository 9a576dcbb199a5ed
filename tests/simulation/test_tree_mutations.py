"""Each guard of the tree, turned off alone: the simulation must find what it guards against.

A network that is bad without the guard runs with it too, without a violation: a test can't pass
because a network is bad anyway, nor if the guard stays on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from searching import first_seed

from tree_handler import boot_epoch
from tree_handler.simulation.checks import astray
from tree_handler.simulation.gateway import Gateway
from tree_handler.simulation.network import Edge
from tree_handler.simulation.report import Report
from tree_handler.simulation.runs import FaultOptions, Options, Simulation, run
from tree_handler.spanning.agreement import Agreements
from tree_handler.spanning.bpdu import Kind
from tree_handler.spanning.neighbour import Neighbour

STORM = Options(
    0,
    gateways=8,
    degree=3.0,
    delay_ms=10.0,
    jitter_ms=1.0,
    spread=5.0,
    quiet_s=2.0,
    settle_hellos=0,
    traffic_per_s=0.0,
    faults=FaultOptions(rate_per_s=8.0, outage_s=0.3),
)


def broken(report: Report) -> set[int]:
    return {violation.invariant for violation in report.violations}


def tell_without_stopping(self: Agreements, neighbour: Neighbour) -> None:
    self._say(neighbour, Kind.LEAVE, neighbour.asked)
    self._reset(neighbour)


def take_two_parents(self: Agreements) -> None:
    candidate, self.candidate = self.candidate, None
    assert candidate is not None
    self._place.parent = candidate
    candidate.granted = True
    self._forward(candidate)


@pytest.mark.parametrize(
    ("name", "unguarded"), [("leave", tell_without_stopping), ("change_over", take_two_parents)]
)
def test_without_stopping_before_telling_and_a_single_parent_rings_form(
    name: str, unguarded: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forms_a_ring(seed: int) -> bool:
        return 1 in broken(run(replace(STORM, seed=seed)))

    with monkeypatch.context() as patched:
        patched.setattr(Agreements, name, unguarded)
        found = first_seed(forms_a_ring, within=100)
    assert not forms_a_ring(found)


# -- lost disks ------------------------------------------------------------------------------------


class Reborn(Simulation):
    """Three gateways in a triangle, whose root loses its disk and draws an earlier epoch."""

    def __init__(self) -> None:
        super().__init__(Options(1, gateways=0, traffic_per_s=0.0))
        for number, gateway_id in enumerate(("gw-a", "gw-b", "gw-c")):
            self.add(gateway_id, 9.0 - number, f"10.0.0.{number + 1}")
            self.traffic.disks[gateway_id].boot_epoch = 1_000
        pairs = (("gw-a", "gw-b"), ("gw-b", "gw-c"), ("gw-a", "gw-c"))
        self.network.edges = [Edge(pair, 0.001, 0.0) for pair in pairs]
        self.start_all()
        self.clock.run(3.0)

    def lose_the_roots_disk(self) -> None:
        self.gateways.pop("gw-a").stop(silently=False)
        self.traffic.lose_disk("gw-a")
        self.start("gw-a")


def test_a_root_that_lost_its_disk_is_told_its_latest_epoch_and_is_root_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(boot_epoch, "first", lambda drawn: 7)
    network = Reborn()
    network.lose_the_roots_disk()
    network.clock.run(network.clock.now + 2.0)
    assert network.gateways["gw-a"].tree.identity.boot_epoch > 1_001
    assert not astray(network.gateways, network.network)


def test_without_being_told_it_stays_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_epoch, "first", lambda drawn: 7)
    monkeypatch.setattr(Gateway, "outlived", lambda self, epoch: None)
    network = Reborn()
    network.lose_the_roots_disk()
    network.clock.run(network.clock.now + 2.0)
    assert astray(network.gateways, network.network)
