"""Retained messages are shown in turns, however many of them are compared with a filter."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from loop_turns import LoopTurns, each_row_alone

from gateway.broker.retained.messages import RetainedMessages
from gateway.process.page import topic_api
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.topic_api import LOOKED_AT_MAX, SHOWN_MAX, TopicApi
from gateway.process.page.topic_tap import TopicTap
from gateway.trust.policy.principal import Principal

ANNA = Principal("console", "anna")


class Retained:
    """Retained messages, which know how many of them were looked at in each turn of the loop."""

    def __init__(self) -> None:
        self.messages: RetainedMessages[Any] = RetainedMessages(lambda message: 1)
        self.counted = LoopTurns()

    def retain(self, topic: str) -> None:
        self.messages.set(topic, SimpleNamespace(qos=1, payload=topic.encode()))

    def walk(self, topic_filter: str, most: int) -> Iterator[tuple[str, Any] | None]:
        for one in self.messages.walk(topic_filter, 0.0, most):
            self.counted.note()
            yield one


@pytest.fixture
async def retained() -> Retained:
    return Retained()


async def shown(retained: Retained, topic_filter: str) -> tuple[list[dict[str, Any]], bool]:
    core: Any = SimpleNamespace(retention=retained)
    api = TopicApi(core, TopicTap(), None, asks_plugins=False)
    answer = await api.retained(ApiRequest(ANNA, "", {}, {"filter": topic_filter}, {}))
    told = msgspec.json.decode(msgspec.json.encode(answer))
    return told["messages"], told["has_more"]


async def test_no_turn_of_the_loop_looks_at_more_messages_than_it_may(
    retained: Retained, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    for number in range(5_000):
        retained.retain(f"a/{number % 2}/{number}/b{number % 3}")
    messages, has_more = await shown(retained, "a/0/+/b1")
    assert has_more and len(messages) == SHOWN_MAX
    looked_at = retained.counted.stop()
    assert looked_at.total() > LOOKED_AT_MAX
    assert max(looked_at.values()) == 1


async def test_no_turn_of_the_loop_shows_more_messages_than_it_may(
    retained: Retained, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    counted, real = LoopTurns(), topic_api.shown

    def noted(*given: Any) -> dict[str, Any]:
        counted.note()
        return real(*given)

    monkeypatch.setattr(topic_api, "shown", noted)
    for number in range(SHOWN_MAX + 1):
        retained.retain(f"a/{number:03}")
    messages, has_more = await shown(retained, "#")
    assert has_more and [one["topic"] for one in messages] == [
        f"a/{n:03}" for n in range(SHOWN_MAX)
    ]
    turns = counted.stop()
    assert turns.total() == SHOWN_MAX
    assert max(turns.values()) == 1
    retained.counted.stop()
