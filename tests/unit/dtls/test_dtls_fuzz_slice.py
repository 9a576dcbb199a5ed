"""A second of what `make soak` fuzzes for long, from a fixed seed and without coverage."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import dtls_datagrams


def test_every_seed_is_dealt_with() -> None:
    for seed in dtls_datagrams.seeds():
        dtls_datagrams.dtls(seed)


def test_a_seed_with_pieces_changed_is_dealt_with() -> None:
    chance = random.Random(1)
    for _ in range(1_000):
        data = dtls_datagrams.mutated(chance)
        try:
            dtls_datagrams.dtls(data)
        except Exception as error:
            how = f"python tests/fuzz dtls --replay {data.hex()}"
            raise AssertionError(f"replay with: {how}") from error


def test_an_endpoint_that_takes_any_cookie_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtls.cookies.Cookies.check", lambda *_: True)
    with pytest.raises(AssertionError):
        for seed in dtls_datagrams.seeds():
            dtls_datagrams.dtls(seed)
