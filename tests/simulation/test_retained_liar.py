"""Goal: nobody retains what nobody wrote, though a stolen gateway hands it over."""

from __future__ import annotations

import pytest

from tree_handler.proof import Verdict
from tree_handler.retained.message import Retained
from tree_handler.retained.proof import RetainedProofs
from tree_handler.simulation import runs
from tree_handler.simulation.liar import LIAR
from tree_handler.simulation.retained_gateway import RetainedGateway
from tree_handler.simulation.retained_liar import LiedRetainedSimulation, RetainedLiarOptions

SEEDS = range(1, 9)


@pytest.mark.parametrize("seed", SEEDS)
def test_honest_gateways_retain_the_same_and_nothing_that_nobody_wrote(seed: int) -> None:
    report = runs.run(RetainedLiarOptions.drawn(seed, 3 + seed % 4))
    assert not report.violations, str(report)
    assert report.published


def test_the_liar_is_asked_and_not_believed() -> None:
    options = RetainedLiarOptions.drawn(1, 5)
    simulation = options.simulation()
    assert isinstance(simulation, LiedRetainedSimulation)
    simulation.start_all()
    simulation.storm()
    honest = [one for name, one in simulation.gateways.items() if name != LIAR]
    assert sum(one.sync.counters.unproven for one in honest if isinstance(one, RetainedGateway))


def _shows() -> bool:
    # Of few draws one shows it where only the version is no part of the proof.
    found = [*runs.run_many(4, 5, 1, RetainedLiarOptions)]
    found.append(runs.run(RetainedLiarOptions.drawn(9, 3)))
    return any("nobody wrote" in str(one) for report in found for one in report.violations)


def test_without_proofs_what_nobody_wrote_is_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetainedProofs, "check", lambda *_: Verdict.PROVEN)
    assert _shows()


def test_without_the_version_in_the_proof_an_old_message_comes_back_as_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = RetainedProofs.check

    def of_any_version(self: RetainedProofs, told: Retained) -> Verdict:
        verdict = check(self, told)
        return verdict if verdict is not Verdict.FORGED or not told.proof else Verdict.PROVEN

    monkeypatch.setattr(RetainedProofs, "check", of_any_version)
    assert _shows()
