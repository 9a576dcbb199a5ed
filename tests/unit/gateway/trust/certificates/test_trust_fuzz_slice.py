"""A second of what `make soak` fuzzes for long: signed words, and policies."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "fuzz"))

import policy_files
import signed_words

from tree_handler.proof import Verdict
from tree_handler.simulation.model_keys import ModelRing

TARGETS = {
    "signed": (signed_words, signed_words.signed),
    "policy": (policy_files, policy_files.policy),
}


@pytest.mark.parametrize("name", TARGETS)
def test_every_seed_is_dealt_with(name: str) -> None:
    module, run = TARGETS[name]
    for seed in module.seeds():
        run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_a_word_with_pieces_changed_is_dealt_with(name: str) -> None:
    module, run = TARGETS[name]
    chance = random.Random(1)
    for _ in range(1_500):
        data = module.mutated(chance)
        try:
            run(data)
        except Exception as error:
            how = f"python tests/fuzz {name} --replay {data.hex()}"
            raise AssertionError(f"replay with: {how}") from error


def test_a_ring_that_believes_all_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def believes(*_args: object) -> Verdict:
        return Verdict.PROVEN

    monkeypatch.setattr(ModelRing, "verify", believes)
    with pytest.raises(AssertionError):
        for seed in signed_words.seeds():
            signed_words.signed(seed)
