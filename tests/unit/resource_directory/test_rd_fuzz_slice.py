"""A second of what `make soak` fuzzes for long: the Resource Directory, from a fixed seed."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import directory_requests

from resource_directory import journal
from tests.directory_records import record


def test_every_row_of_requests_is_dealt_with() -> None:
    for seed in directory_requests.seeds():
        directory_requests.rd(seed)


def test_what_is_asked_with_bytes_changed_is_dealt_with() -> None:
    chance = random.Random(1)
    for _ in range(1_500):
        data = directory_requests.mutated(chance)
        try:
            directory_requests.rd(data)
        except Exception as error:
            how = f"python tests/fuzz rd --replay {data.hex()}"
            raise AssertionError(f"replay with: {how}") from error


def test_a_journal_that_takes_any_time_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = [0, "/rd/9", "b", "", "coap://h", True, 100, float("inf"), None, [], ""]
    data = b"\2" + record(fields)
    directory_requests.rd(data)
    monkeypatch.setattr(journal, "math", SimpleNamespace(isfinite=lambda _: True))
    with pytest.raises(AssertionError):
        directory_requests.rd(data)
