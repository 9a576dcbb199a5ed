"""Goal: a read is answered again at once, to whom it may be, while what was answered is right."""

from __future__ import annotations

import pytest
from aiocoap import resource

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, Option, RequestReceived
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from gateway.coap.access import CoapAccess
from gateway.coap.answers import READS_MAX, Answers
from gateway.coap.peers import VouchedAddress, session_peer, udp_peer
from gateway.coap.responders import KeptResponse, RespondTo
from gateway.trust.policy.policy import Policy, PolicyRules
from tests.policies import access_of

ETAG, URI_PATH, REQUEST_ID = 4, 11, 65_001
WELL: Option = (URI_PATH, b"well")
TAG: Option = (ETAG, b"12345678")
STRANGER = udp_peer(PeerAddress(("192.0.2.1", 40_000)))
READERS = {"psk:meter": "reader"}


def known(name: str, session_id: int = 1) -> CoapPeer:
    identity = PeerIdentity(Proof.PSK, name)
    return session_peer(session_id, PeerAddress(("192.0.2.2", 40_000)), identity)


class Well:
    """Has a level, and counts how often it is asked for it."""

    segments = frozenset((WELL[1],))

    def __init__(self) -> None:
        self.asked = 0
        self.level = b"1"
        self.is_at_hand = True
        self.kept: list[KeptResponse] = []

    def answer(self, _request: CoapRequest, _peer: CoapPeer, now: float) -> CoapResponse | None:
        if not self.is_at_hand:
            return None
        self.asked += 1
        response = CoapResponse(codes.CONTENT, (TAG,), self.level)
        self.kept.append(KeptResponse(response, now + 10.0))
        return self.kept[-1]

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        return True

    def ended(self, _exchange: int) -> None:
        pass


class World:
    """One well, and who asks for its level."""

    def __init__(self, access: CoapAccess | None = None) -> None:
        self.well = Well()
        self.access = access_of(READERS, public=()) if access is None else access
        self.answers = Answers(resource.Site(), self.access, (self.well,), lambda _peer: None)
        self.now = 0.0
        self._exchanges = 0

    def ask(
        self,
        *options: Option,
        peer: CoapPeer = known("meter"),  # noqa: B008  # nobody changes it
        code: int = codes.GET,
        observe: bool = False,
        route: tuple[Option, ...] = (),
    ) -> tuple[CoapResponse, bool]:
        self._exchanges += 1
        request = CoapRequest(code, tuple(sorted((WELL, *options))), observe=observe, route=route)

        def nobody(*_: object) -> None:
            raise AssertionError("nothing is answered later, and no peer asked")

        answer = self.answers.asked(
            RequestReceived(self._exchanges, peer, request), self.now, nobody, nobody
        )
        assert answer is not None
        return answer


async def test_a_read_is_answered_again_without_asking_who_has_the_answer() -> None:
    world = World()
    first, again = world.ask(), world.ask()
    assert first == again
    assert (again[0].payload, again[1]) == (b"1", True)
    assert world.ask(peer=known("meter", 2)) == first  # another session of the same peer
    assert world.well.asked == 1


async def test_it_is_asked_for_anew_when_it_is_right_no_more() -> None:
    world = World()
    world.ask()
    world.well.level, world.now = b"2", 10.0
    assert world.ask()[0].payload == b"2"


async def test_it_is_asked_for_anew_when_it_was_taken_back() -> None:
    world = World()
    world.ask()
    world.well.level = b"2"
    world.well.kept[0].take_back()
    assert world.ask()[0].payload == b"2"


async def test_who_may_not_read_it_is_refused_whoever_has_read_it_before() -> None:
    world = World()
    world.ask()
    for peer in (STRANGER, known("nobody"), CoapPeer(VouchedAddress("gw-b", None, ()), "gw-b")):
        assert world.ask(peer=peer)[0].code in (codes.UNAUTHORIZED, codes.FORBIDDEN)
    assert world.well.asked == 1


async def test_who_may_read_it_no_more_by_another_policy_is_refused_at_once() -> None:
    world = World()
    assert world.ask()[0].code == codes.CONTENT
    world.access.follow(Policy(PolicyRules()))
    assert world.ask()[0].code == codes.FORBIDDEN


@pytest.mark.parametrize(
    "request_",
    [{"observe": True}, {"route": ((3, b"gw"),)}, {"code": codes.FETCH}],
    ids=["observe", "route", "FETCH"],
)
async def test_another_request_with_the_same_options_is_no_such_read(
    request_: dict[str, object],
) -> None:
    world = World()
    world.ask()
    world.ask(**request_)  # type: ignore[arg-type]  # each is one of its arguments
    assert world.well.asked == 2


async def test_who_has_the_body_already_is_told_so_each_time() -> None:
    world = World()
    for _ in range(2):
        assert world.ask(TAG)[0].code == codes.VALID
    assert world.ask()[0].code == codes.CONTENT


async def test_requests_that_a_client_makes_long_are_not_remembered() -> None:
    world = World()
    for _ in range(2):
        assert world.ask(*[(ETAG, b"%08d" % n) for n in range(20)])[0].payload == b"1"
    assert world.well.asked == 2


async def test_no_more_reads_are_remembered_than_the_limit_says() -> None:
    world = World()
    for n in [*range(READS_MAX), 0]:
        world.ask((ETAG, b"%08d" % n))
    assert world.well.asked == READS_MAX
    world.ask((ETAG, b"one more"))
    world.ask((ETAG, b"%08d" % 0))
    assert world.well.asked == READS_MAX + 2


async def test_a_name_that_a_read_has_is_looked_at_each_time() -> None:
    class Named(Well):
        segments = None  # type: ignore[assignment]  # it serves named requests, whatever their path

    world = World()
    named = Named()
    named.is_at_hand = False
    sources = (named, world.well)
    world.answers = Answers(resource.Site(), world.access, sources, lambda _peer: None)
    for _ in range(2):
        world.ask((REQUEST_ID, b"1"))
    assert world.well.asked == 2
