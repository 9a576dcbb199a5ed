"""The page's side of keys is loaded by who asks, and answers all that it would have answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.process.page.api_request import ApiRequest
from gateway.process.page.keys_api import KeysApi
from gateway.process.page.keys_when_asked import OPERATIONS, KeysWhenAsked
from gateway.trust.policy.principal import Principal

NOTHING: Any = None
ASKED = ApiRequest(Principal("user", "anna"), "", {}, {}, {})


def test_all_that_it_could_answer_is_answered_when_it_is_asked_for() -> None:
    assert set(OPERATIONS) == set(KeysApi(NOTHING, NOTHING, NOTHING).handlers)


async def test_those_who_ask_first_at_once_have_one_answerer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[KeysApi] = []

    async def answer(api: KeysApi, _asked: ApiRequest) -> str:
        asked.append(api)
        return "told"

    monkeypatch.setattr(KeysApi, "keys", answer)
    made = KeysWhenAsked(lambda: KeysApi(NOTHING, NOTHING, NOTHING))
    keys = made.handlers["keys"]
    assert await asyncio.gather(keys(ASKED), keys(ASKED)) == ["told", "told"]
    assert len(set(map(id, asked))) == 1
