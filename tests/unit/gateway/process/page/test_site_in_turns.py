"""Links of hundreds are answered in turns: no message and no client waits for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from loop_turns import LoopTurns, each_row_alone

from gateway.process.page.api_request import ApiRequest
from gateway.process.page.site_api import PAGE_LINKS, SiteApi
from gateway.trust.policy.principal import Principal
from gateway.web.api_error import ApiError
from resource_directory.link_format import WebLink, parse, serialise

ASKED = ApiRequest(Principal("user", "anna"), "", {}, {}, {})


def looked_up(payload: bytes, folder: Path) -> SiteApi:
    """The page of a gateway whose directory gives that payload for each look-up."""

    async def good(_visitor: Principal, _question: object) -> bytes:
        return payload

    asker: Any = SimpleNamespace(good=good)
    return SiteApi(asker, folder, lambda _: None)


async def test_links_of_the_directory_are_told_as_they_stand_there_and_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each_row_alone(monkeypatch)
    attributes = (("rt", 'a "quoted", <one>'), ("obs", None), ("title*", "UTF-8''%c3%a4"))
    links = [WebLink(f"coap://[2001:db8::{n:x}]/ä", attributes) for n in range(1, PAGE_LINKS + 1)]
    payload = serialise(links).encode()
    assert parse(payload) == links
    counted = LoopTurns()
    answer = await looked_up(payload, tmp_path).resources(ASKED)
    counted.note()
    (last_turn,) = counted.stop()
    assert last_turn >= PAGE_LINKS - 1
    told = msgspec.json.decode(msgspec.json.encode(answer))
    assert told["has_more"]
    assert told["links"] == [
        {"href": link.href, "attributes": {n: v or "" for n, v in link.attributes}}
        for link in links
    ]


async def test_a_directory_that_gives_no_links_is_said_to(tmp_path: Path) -> None:
    with pytest.raises(ApiError, match="position 5"):
        await looked_up(b"</a>;;", tmp_path).endpoints(ASKED)
