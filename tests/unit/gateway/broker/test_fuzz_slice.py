"""A few seconds of what `make soak` fuzzes for long, from a fixed seed and without coverage."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "fuzz"))

import corpus
import targets

from gateway.broker.outbound.aliases import OutgoingAliases
from gateway.broker.outbound.message import Message
from gateway.broker.topics.subscription_tree import SubscriptionTree
from gateway.mqtt import Scanner

Run = Callable[[bytes], None]
INPUTS = {"parser": 8_000, "connection": 1_000}


@pytest.mark.parametrize("target", targets.TARGETS)
def test_every_seed_is_dealt_with(target: str) -> None:
    for seed in corpus.seeds():
        targets.TARGETS[target](seed)


@pytest.mark.parametrize("target", targets.TARGETS)
def test_a_seed_with_pieces_changed_is_dealt_with(target: str) -> None:
    chance = random.Random(1)
    for _ in range(INPUTS[target]):
        data = corpus.mutated(chance)
        try:
            targets.TARGETS[target](data)
        except Exception as error:
            how = f"python tests/fuzz {target} --replay {data.hex()}"
            raise AssertionError(f"replay with: {how}") from error


def loses_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Scanner.feed

    def fed(self: Scanner, data: bytes) -> None:
        feed(self, data[:-1] if self.buffered_bytes else data)

    monkeypatch.setattr(Scanner, "feed", fed)


def writes_a_byte_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    packet = Message.packet
    monkeypatch.setattr(Message, "packet", lambda *given: packet(*given) + b"\0")


def forgets_a_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SubscriptionTree, "remove", lambda self, topic_filter, session: False)


def breaks_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OutgoingAliases, "shorten", lambda self, packet: packet[:-1])


@pytest.mark.parametrize(
    "broken", [loses_a_byte, writes_a_byte_too_many, forgets_a_subscription, breaks_an_alias]
)
def test_a_broker_that_is_broken_is_found_out_by_the_seeds_alone(
    broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    found: list[Any] = []
    for seed in corpus.seeds():
        try:
            targets.connection(seed)
        except Exception as error:  # whichever: an assertion, or what the target can't read
            found.append(error)
    assert found
