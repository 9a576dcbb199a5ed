"""Resources of aiocoap that answer in tasks: however many are asked, others get their turn."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from aiocoap import Code, Message, resource
from aiocoap.message import Direction

from dtls.datagrams import PeerAddress
from gateway.coap.rendering import AT_ONCE, Renderings
from gateway.coap.requester import plain_requester

ADDRESS = PeerAddress(("127.0.0.1", 40_000), socket.AF_INET)


class Slow(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Counts how often it is asked between two looks."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def render_get(self, _request: Any) -> Any:
        self.asked += 1
        return Message(payload=b"%d" % self.asked)


def asking() -> Any:
    request = Message(code=Code.GET, uri_path=("slow",))
    request.direction = Direction.INCOMING
    request.remote = plain_requester(ADDRESS, ("127.0.0.1", 5683))
    return request


def renderings() -> tuple[Renderings, Slow]:
    site, slow = resource.Site(), Slow()
    site.add_resource(("slow",), slow)
    return Renderings(site), slow


async def test_few_resources_are_asked_in_one_turn_of_the_loop_and_all_in_the_end() -> None:
    found, slow = renderings()
    answers: list[Any] = []
    for _ in range(100):
        found.begin(asking(), lambda message, _: answers.append(message.payload))
    most = 0
    while len(answers) < 100:
        before = slow.asked
        await asyncio.sleep(0)
        most = max(most, slow.asked - before)
    assert most <= AT_ONCE
    assert sorted(answers, key=int) == [b"%d" % number for number in range(1, 101)]
    await found.idle()


async def test_who_is_no_stranger_does_not_wait_behind_strangers() -> None:
    found, slow = renderings()
    answers: list[str] = []
    for _ in range(50):
        found.begin(asking(), lambda *_: answers.append("stranger"), is_stranger=True)
    found.begin(asking(), lambda *_: answers.append("known"))
    while "known" not in answers:
        await asyncio.sleep(0)
    assert slow.asked < 10
    await found.idle()
    assert slow.asked == 51


async def test_a_request_that_nobody_waits_for_any_more_is_not_carried_out() -> None:
    found, slow = renderings()
    ends = [found.begin(asking(), lambda *_: None) for _ in range(50)]
    for end in ends:
        end()
    await found.idle()
    assert slow.asked == 0
    assert (await found.answer(asking())).payload == b"1"
