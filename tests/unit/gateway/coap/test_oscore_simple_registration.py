"""Simple registration over OSCORE (RFC 9176, section 5.1; RFC 8613): the device is asked back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from aiocoap import resource
from aiocoap.message import Direction, Message
from aiocoap.numbers.codes import Code

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse
from dtls.datagrams import PeerAddress
from gateway.coap.answers import Answers
from gateway.coap.directory.answers import DirectoryAnswers
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.coap.oscore.answers import OscoreAnswers
from gateway.coap.requester import plain_requester
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from tests.policies import open_access
from tests.unit.gateway import oscore_world
from tests.unit.gateway.oscore_world import OSCORE, THERMOMETER, World

LINKS = b",".join(b"</s/%d>;rt=inside" % number for number in range(80))
AT = PeerAddress(("192.0.2.7", 5683))


class Registrant(World):
    """A device that registers simply, and what it answers when it is asked for its links."""

    def __init__(self, links: bytes = LINKS) -> None:
        super().__init__()
        self.links = links
        self.is_silent = self.is_proxy = False
        self.asked_back: list[str] = []
        self.registry = Registry("/rd/1-")
        self.soon: deque[Callable[[], None]] = deque()
        directory = DirectoryAnswers(
            DirectoryService(self.registry),
            lambda: 100.0,
            LookUpTurns(lambda _, turn: self.soon.append(turn)),
        )
        self.inside = Answers(
            resource.Site(),
            open_access(),
            (directory,),
            lambda _: plain_requester(AT, ("192.0.2.1", 5683)),
        )
        self.answers = OscoreAnswers(
            {THERMOMETER.known_by: self.context}, self.inside, self.clock, self.shares
        )
        self.context.recipient_replay_window.initialize_empty()

    def ask_device(
        self, peer: CoapPeer, request: CoapRequest, done: Callable[[CoapResponse | None], None]
    ) -> None:
        assert peer == oscore_world.PEER
        if self.is_silent:
            done(None)
            return
        if self.is_proxy:
            done(CoapResponse(codes.UNAUTHORIZED, (), b"Security context not found"))
            return
        message = Message(code=Code(request.code), payload=request.payload)
        message.opt.oscore = request.value(OSCORE)
        message.direction = Direction.INCOMING
        inner, request_id = self.device.unprotect(message)
        self.asked_back.append(f"{inner.code} /{'/'.join(inner.opt.uri_path)}")
        block = inner.opt.block2
        begin, end = block.start, block.start + block.size
        answer = Message(code=Code.CONTENT, payload=self.links[begin:end], content_format=40)
        if len(self.links) > block.size:
            answer.opt.block2 = (block.block_number, end < len(self.links), block.size_exponent)
        outer, _ = self.device.protect(answer, request_id)
        options = ((OSCORE, outer.opt.oscore),)
        done(CoapResponse(int(outer.code), options, outer.payload))

    def register(self) -> Any:
        request, request_id = self.protect(
            Code.POST, uri_path=(".well-known", "rd"), uri_query=("ep=device",)
        )
        assert self.begin_sending(request) is None
        ((answer, is_last),) = self.told_as
        assert is_last
        return self.open(answer, request_id)


@pytest.fixture(autouse=True)
def somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests come from an address that a base can be made of."""
    monkeypatch.setattr(oscore_world, "PEER", CoapPeer(AT, "192.0.2.7"))


@pytest.mark.parametrize("links", [b"</s/0>;rt=inside", LINKS])
async def test_a_device_that_registers_simply_over_oscore_is_asked_for_its_links_through_it(
    links: bytes,
) -> None:
    device = Registrant(links)
    assert device.register().code == Code.CHANGED
    assert set(device.asked_back) == {"GET /.well-known/core"}
    (registered,) = device.registry.registrations()
    assert (registered.endpoint, registered.base) == ("device", "coap://192.0.2.7")
    assert len(registered.links) == links.count(b"<")
    assert device.inside.open_requests == 0
    assert device.shares.held_bytes.held == 0


@pytest.mark.parametrize("way", ["silent", "proxy"])
async def test_a_device_that_does_not_answer_is_told_so_under_protection(way: str) -> None:
    device = Registrant()
    device.is_silent, device.is_proxy = way == "silent", way == "proxy"
    answer = device.register()
    assert answer.code == Code.GATEWAY_TIMEOUT
    assert answer.payload == b"no links from coap://192.0.2.7"
    assert device.inside.open_requests == 0
    assert not list(device.registry.registrations())


async def test_an_answer_of_another_than_the_device_is_none() -> None:
    device = Registrant()

    def forged(_: Any, __: Any, done: Callable[[CoapResponse | None], None]) -> None:
        done(CoapResponse(codes.CHANGED, ((option_numbers.OSCORE, b""),), bytes(40)))

    device.ask_device = forged  # type: ignore[method-assign]  # as somebody else answers
    assert device.register().code == Code.GATEWAY_TIMEOUT
    assert device.inside.open_requests == 0
