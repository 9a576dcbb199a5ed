"""Goal: a gateway that lies takes nothing from the others, and gives them nothing to go wrong by.

Each run has a gateway with a key of its own that forges batches of the others, claims to be root or
that another is in a life that it never had, and says that it has what nobody has. What is checked
of the honest ones is what `tree_handler.simulation.liar` says.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from searching import first_seed

from tree_handler.batch import Epoch
from tree_handler.errors import ProtocolError
from tree_handler.intervals import Intervals
from tree_handler.replication.anti_entropy import AntiEntropy
from tree_handler.replication.arrivals import Arrivals
from tree_handler.replication.neighbour_picture import NeighbourPicture
from tree_handler.seal import Seals
from tree_handler.simulation import runs
from tree_handler.simulation.faults import FaultOptions
from tree_handler.simulation.liar import LIAR, LiarOptions, LiarSimulation
from tree_handler.simulation.replicating import ReplicatingGateway

SEEDS = range(1, 13)


def is_found_out(seed: int) -> bool:
    """Return whether the run of a seed shows that something is wrong, or a gateway can't go on."""
    try:
        return bool(runs.run(LiarOptions.drawn(seed, 5)).violations)
    except (struct.error, ProtocolError):  # a life behind the last one that there can be
        return True


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_honest_gateways_lose_nothing_double_nothing_and_go_on(seed: int) -> None:
    report = runs.run(LiarOptions.drawn(seed, 3 + seed % 5))
    assert not report.violations, str(report)
    assert report.published


def test_the_liar_takes_part_and_is_heard() -> None:
    simulation = LiarSimulation(LiarOptions(1, faults=FaultOptions(rate_per_s=0.0)))
    simulation.start_all()
    simulation.storm()
    honest = [one for name, one in simulation.gateways.items() if name != LIAR]
    assert all(isinstance(one, ReplicatingGateway) for one in honest)
    counts = [one.replication.counters for one in honest if isinstance(one, ReplicatingGateway)]
    assert sum(one.forged + one.unknown for one in counts) > 20


def _proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arrivals, "refusal", lambda *_: None)


def _anybody_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Seals, "is_candidate", lambda *_: True)


def _is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = AntiEntropy.out_of_reach

    def out_of_reach(self: AntiEntropy, *expected: object) -> object:
        self.must_prove = False
        return made(self, *expected)  # type: ignore[arg-type]  # as it is called

    def last_known(self: NeighbourPicture, stream: Epoch) -> int:
        return self.picture.have.get(stream, Intervals()).last

    monkeypatch.setattr(AntiEntropy, "out_of_reach", out_of_reach)
    monkeypatch.setattr(NeighbourPicture, "last_known", last_known)


@pytest.mark.parametrize(("broken", "likely"), [(_proves_nothing, 1), (_is_believed, 4)])
def test_whoever_believes_a_liar_is_found_out(
    broken: Callable[[pytest.MonkeyPatch], None], likely: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    first_seed(is_found_out, within=9, likely=[likely])


def follows_a_forged_root(seed: int) -> bool:
    """Return whether an honest gateway follows a life that no gateway has lived, by the lie."""
    simulation = LiarOptions.drawn(seed, 5).simulation()
    simulation.start_all()
    simulation.storm()
    lived = {name: disk.boot_epoch or 0 for name, disk in simulation.traffic.disks.items()}
    roots = [one.tree.root for name, one in simulation.gateways.items() if name != LIAR]
    return any(root.boot_epoch > lived.get(root.gateway_id, 0) for root in roots)


def test_no_forged_root_is_followed_unless_anybody_may_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test looks while the liar lies: once he has gone, they get over it within seconds."""
    assert not any(follows_a_forged_root(seed) for seed in SEEDS)
    _anybody_stands(monkeypatch)
    assert any(follows_a_forged_root(seed) for seed in SEEDS)


@pytest.mark.parametrize("seed", [40023, 60733, 60944])
def test_hellos_over_a_link_that_ended_meanwhile_are_no_noise_of_a_still_network(seed: int) -> None:
    assert runs.run(LiarOptions.drawn(seed, 3)).violations == ()
