"""A second of what `make soak` fuzzes for long: the CoAP engine, from a fixed seed."""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "fuzz"))

import coap_datagrams


def test_every_row_of_datagrams_is_dealt_with() -> None:
    for seed in coap_datagrams.seeds():
        coap_datagrams.coap(seed)


def test_a_row_of_datagrams_with_bytes_changed_is_dealt_with() -> None:
    chance = random.Random(1)
    for _ in range(1_500):
        data = coap_datagrams.mutated(chance)
        try:
            coap_datagrams.coap(data)
        except Exception as error:
            how = f"python tests/fuzz coap --replay {data.hex()}"
            raise AssertionError(f"replay with: {how}") from error
