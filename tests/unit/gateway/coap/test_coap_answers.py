"""Goal: who answers a request, who tells of changes after that, and what strangers may cost."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from aiocoap import Code, Message, resource

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, RequestReceived
from coap_engine.observation import OBSERVED_BODY_BYTES
from coap_engine.rates import Rates
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from gateway.coap.access import CoapAccess
from gateway.coap.answers import RENDERING_RATES, Answers
from gateway.coap.directory.answers import DirectoryAnswers
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.coap.peers import session_peer, udp_peer
from gateway.coap.requester import plain_requester
from gateway.coap.responders import RespondTo
from gateway.trust.policy.policy import Policy, PolicyRules
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from tests.policies import access_of, open_access

IF_MATCH, URI_PATH, MAX_AGE, URI_QUERY = 1, 11, 14, 15
PATH = (URI_PATH, b"well")
OPERATOR = CoapPeer(("session", 1), "psk:operator", "psk:operator", is_address_proven=True)


class Well(resource.Resource):  # type: ignore[misc]  # aiocoap is untyped
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def render_get(self, _request: Any) -> Any:
        self.asked += 1
        return Message(payload=b"%d" % self.asked)

    async def render_post(self, _request: Any) -> Any:
        self.asked += 1
        return Message(code=Code.CHANGED)


class NeverAtHand:
    """Has no answer, and tells of the changes of one path."""

    def __init__(self) -> None:
        self.segments = frozenset((PATH[1],))
        self.observers: dict[int, RespondTo] = {}

    def answer(self, _request: CoapRequest, _peer: CoapPeer, _now: float) -> CoapResponse | None:
        return None

    def observe(self, exchange: int, request: CoapRequest, respond: RespondTo) -> bool:
        if request.options == (PATH,):
            self.observers[exchange] = respond
            return True
        return False

    def ended(self, exchange: int) -> None:
        self.observers.pop(exchange, None)


def nobody(*_: object) -> None:
    raise AssertionError("no peer is to be asked")


class World:
    """One resource, and what was told."""

    def __init__(self, rates: Rates, access: CoapAccess | None = None) -> None:
        site = resource.Site()
        self.well = Well()
        site.add_resource(("well",), self.well)
        self.source = NeverAtHand()
        self.answers = Answers(
            site, access or open_access(), (self.source,),
            lambda _peer: plain_requester(PeerAddress(("192.0.2.1", 1)), ("192.0.2.2", 5683)),
            rates,
        )  # fmt: skip
        self.told: list[tuple[int, bytes, bool]] = []
        self.exchanges = 0

    def ask(
        self, peer: CoapPeer, now: float = 0.0, body: bytes = b"", *, observe: bool = False
    ) -> tuple[CoapResponse, bool] | None:
        self.exchanges += 1
        request = CoapRequest(codes.GET, (PATH,), body, observe=observe)
        return self.answers.asked(
            RequestReceived(self.exchanges, peer, request),
            now,
            lambda exchange, response, is_last: self.told.append(
                (exchange, response.payload, is_last)
            ),
            nobody,
        )

    async def wait(self, told: int) -> None:
        while len(self.told) < told:
            await asyncio.sleep(0)


def stranger(number: int) -> CoapPeer:
    return udp_peer(PeerAddress((f"192.0.2.{number}", 40_000)))


async def test_who_had_no_answer_at_hand_tells_of_changes_after_the_resource_s_answer() -> None:
    world = World(Rates())
    assert world.ask(stranger(1), observe=True) is None
    await world.wait(1)
    assert world.told == [(1, b"1", False)]
    assert world.answers.open_requests == 1
    world.source.observers[1](1, CoapResponse(codes.CONTENT, (), b"changed"), False)
    assert world.told[1:] == [(1, b"changed", False)]
    world.answers.ended(1)
    assert not world.source.observers
    assert world.answers.open_requests == 0
    await world.answers.stop()


async def test_what_a_request_to_observe_has_for_a_body_is_held_only_if_it_is_short() -> None:
    world = World(Rates())
    for body in (b"x" * OBSERVED_BODY_BYTES, b"x" * (OBSERVED_BODY_BYTES + 1)):
        assert world.ask(stranger(1), body=body, observe=True) is None
    await world.wait(2)
    assert world.told == [(1, b"1", False), (2, b"2", True)]
    assert set(world.source.observers) == {1}
    assert world.answers.open_requests == 1
    await world.answers.stop()


async def test_what_is_open_and_may_be_no_more_by_another_policy_ends_at_once() -> None:
    access = access_of({"psk:meter": "reader"})
    meter = session_peer(1, PeerAddress(("192.0.2.1", 1)), PeerIdentity(Proof.PSK, "meter"))
    world = World(Rates(), access)
    for peer in (stranger(1), meter):
        assert world.ask(peer, observe=True) is None
    await world.wait(2)
    assert world.ask(stranger(2)) is None  # its answer is being worked out
    access.follow(Policy(PolicyRules(assigned={"psk:meter": frozenset({"reader"})})))
    world.answers.revise()
    refusal = b"reading this needs a key (coaps)"
    assert world.told[2:] == [(1, refusal, True), (3, refusal, True)]
    assert set(world.source.observers) == {2}
    access.follow(Policy(PolicyRules()))
    world.answers.revise()
    assert world.told[4:] == [(2, b"psk:meter (no role) may not GET this", True)]
    assert world.answers.open_requests == 0
    await world.answers.stop()
    assert len(world.told) == 5


@pytest.mark.parametrize("ends", ["right", "log-in"])
async def test_a_write_is_not_made_for_who_may_no_more_when_its_resource_is_asked(
    ends: str,
) -> None:
    """A write waits for a turn among all requests before its resource is asked."""
    access = access_of({"psk:meter": "operator"})
    meter = session_peer(1, PeerAddress(("192.0.2.1", 1)), PeerIdentity(Proof.PSK, "meter"))
    world, told, is_in = World(Rates(), access), list[CoapResponse](), [True]
    for number in range(2):
        request = CoapRequest(codes.POST, (PATH,), is_still_in=lambda: is_in[0])
        asked = RequestReceived(number, meter, request)
        answers = world.answers.asked(
            asked, 0.0, lambda _, told_now, __: told.append(told_now), nobody
        )
        assert answers is None
        if number:
            break
        while not told:
            await asyncio.sleep(0)
    if ends == "right":
        access.follow(Policy(PolicyRules()))
        world.answers.revise()
    else:
        is_in[0] = False
    while len(told) < 2:
        await asyncio.sleep(0)
    assert [one.code for one in told] == [codes.CHANGED, codes.FORBIDDEN]
    assert world.well.asked == 1
    await world.answers.stop()


@pytest.mark.parametrize(
    ("host_of", "code", "kind"),
    [
        pytest.param(lambda _: 1, codes.TOO_MANY_REQUESTS, "renderings_host", id="one host"),
        pytest.param(lambda n: n, codes.SERVICE_UNAVAILABLE, "renderings_full", id="many hosts"),
    ],
)
async def test_strangers_have_so_many_resources_asked_a_second_and_others_theirs(
    host_of: Any, code: int, kind: str
) -> None:
    world = World(Rates(host=5.0, strangers=10.0))
    refused = [one for n in range(100) if (one := world.ask(stranger(host_of(n)))) is not None]
    assert {(response.code, is_last) for response, is_last in refused} == {(code, True)}
    assert all(dict(response.options)[MAX_AGE] == b"\x01" for response, _ in refused)
    assert world.answers.refusals()[kind] == len(refused)
    assert world.ask(OPERATOR) is None
    assert world.ask(stranger(1), now=2.0) is None
    begun = 100 - len(refused) + 2
    await world.wait(begun)
    assert world.well.asked == begun <= 12
    await world.answers.stop()


@pytest.mark.parametrize("option", [(35, b"coap://gw/well"), (39, b"coap")])
async def test_rfc_7252_section_5_7_2_nobody_is_asked_for_another(
    option: tuple[int, bytes],
) -> None:
    world = World(Rates())
    request = CoapRequest(codes.GET, (PATH,), route=(option,))
    answer = world.answers.asked(RequestReceived(1, OPERATOR, request), 0.0, nobody, nobody)
    assert answer is not None
    assert (answer[0].code, world.well.asked) == (codes.PROXYING_NOT_SUPPORTED, 0)


async def test_a_resource_is_asked_20_times_a_second_for_a_stranger_s_host_and_50_for_all() -> None:
    world = World(RENDERING_RATES)
    here = stranger(1)
    first = [world.ask(here) for _ in range(21)]
    assert [answer is None for answer in first] == [True] * 20 + [False]
    assert world.answers.refusals() == {"renderings_host": 1, "renderings_full": 0}
    others = [world.ask(stranger(2 + number // 10)) for number in range(31)]
    assert [answer is None for answer in others] == [True] * 30 + [False]
    assert world.answers.refusals() == {"renderings_host": 1, "renderings_full": 1}
    await world.answers.stop()


async def test_who_may_no_more_registers_nothing_that_waits_for_its_turn() -> None:
    access = access_of({"psk:meter": "device"})
    meter = session_peer(1, PeerAddress(("192.0.2.1", 1)), PeerIdentity(Proof.PSK, "meter"))
    turns, told = deque[Callable[[], None]](), list[tuple[int, int]]()
    registry = Registry()
    directory = DirectoryAnswers(
        DirectoryService(registry), lambda: 0.0, LookUpTurns(lambda _, turn: turns.append(turn))
    )
    requester = plain_requester(PeerAddress(("192.0.2.1", 1)), ("192.0.2.2", 5683))
    answers = Answers(resource.Site(), access, (directory,), lambda _peer: requester, Rates())
    links = b",".join(b"</%d>" % number for number in range(1_500))
    for exchange in (1, 2):
        options = ((URI_PATH, b"rd"), (URI_QUERY, b"ep=n%d" % exchange))
        asked = RequestReceived(exchange, meter, CoapRequest(codes.POST, options, links))
        assert answers.asked(asked, 0.0, lambda n, to, _: told.append((n, to.code)), nobody) is None
    turns.popleft()()
    access.follow(Policy(PolicyRules()))
    answers.revise()
    while turns:
        turns.popleft()()
    assert told == [(1, codes.CREATED), (2, codes.FORBIDDEN)]
    assert [one.endpoint for one in registry.registrations()] == ["n1"]
    await answers.stop()


class Deferring(NeverAtHand):
    """Answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[Callable[[CoapResponse], None]] = []
        self.ends = 0

    def answer(self, _request: CoapRequest, _peer: CoapPeer, _now: float) -> Any:
        return self

    def begin(self, done: Callable[[CoapResponse], None], _ask: object) -> Callable[[], None]:
        self.done.append(done)

        def end() -> None:
            self.ends += 1

        return end


class OddWell(Well, resource.ObservableResource):  # type: ignore[misc]  # aiocoap is untyped
    """Answers what the test gives it, which need not be a message."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []

    async def render_get(self, _request: Any) -> Any:
        return self.answers.pop(0)


def answers_of(site: Any, *sources: Any, rates: Rates | None = None) -> Answers:
    requester = plain_requester(PeerAddress(("192.0.2.1", 1)), ("192.0.2.2", 5683))
    return Answers(site, open_access(), sources, lambda _peer: requester, rates or Rates())


async def test_an_answer_that_comes_after_the_end_is_told_to_nobody() -> None:
    source, told = Deferring(), list[CoapResponse]()
    answers = answers_of(resource.Site(), source)
    for exchange in (1, 2):
        asked = RequestReceived(exchange, OPERATOR, CoapRequest(codes.GET, (PATH,)))
        respond = lambda _exchange, response, _last: told.append(response)  # noqa: E731
        assert answers.asked(asked, 0.0, respond, nobody) is None
    answers.ended(1)
    assert source.ends == 1
    for done in source.done:
        done(CoapResponse(codes.CONTENT, (), b"late"))
    assert [one.payload for one in told] == [b"late"]
    answers.ended(2)
    assert (answers.open_requests, source.ends) == (0, 1)


async def test_where_the_end_of_one_ends_another_that_one_is_told_nothing_more() -> None:
    access = access_of(public=("/",))
    world = World(Rates(), access)
    told: list[int] = []

    def respond(exchange: int, _response: CoapResponse, is_last: bool) -> None:
        if is_last:
            told.append(exchange)
            world.answers.ended(3 - exchange)

    for exchange in (1, 2):
        request = CoapRequest(codes.GET, (PATH,), observe=True)
        world.answers.asked(RequestReceived(exchange, stranger(1), request), 0.0, respond, nobody)
    access.follow(Policy(PolicyRules()))
    world.answers.revise()
    assert told == [1]
    assert world.answers.open_requests == 0
    await world.answers.stop()


@pytest.mark.parametrize("observe", [False, True])
async def test_what_is_no_message_is_told_as_a_failure_and_ends_the_observation(
    observe: bool, caplog: pytest.LogCaptureFixture
) -> None:
    site, well, told = resource.Site(), OddWell(), list[tuple[int, bytes, bool]]()
    site.add_resource(("well",), well)
    answers = answers_of(site)
    odd = Message(payload=b"bad", max_age="soon")
    well.answers = [Message(payload=b"good"), odd] if observe else [odd]
    asked = RequestReceived(1, OPERATOR, CoapRequest(codes.GET, (PATH,), observe=observe))
    answers.asked(asked, 0.0, lambda _, to, last: told.append((to.code, to.payload, last)), nobody)
    while not told:
        await asyncio.sleep(0)
    if observe:
        assert told.pop(0) == (codes.CONTENT, b"good", False)
        well.updated_state()
        while not told:
            await asyncio.sleep(0)
    ((code, _, is_last),) = told
    assert (code, is_last) == (codes.INTERNAL_SERVER_ERROR, True)
    assert "what a resource answered can't be sent" in caplog.text
    await answers.stop()


async def test_an_observer_has_one_format_and_what_has_none_is_not_counted() -> None:
    """RFC 7641, section 4.2: notifications have the Content-Format of the first response."""
    site, well, told = resource.Site(), OddWell(), list[tuple[int, bytes, bool]]()
    site.add_resource(("well",), well)
    answers = answers_of(site)
    well.answers = [
        Message(code=Code.VALID),
        Message(payload=b"1", content_format=0),
        Message(payload=b"2", content_format=0),
        Message(payload=b"3", content_format=50),
        Message(payload=b"4", content_format=0),
    ]
    asked = RequestReceived(1, OPERATOR, CoapRequest(codes.GET, (PATH,), observe=True))
    answers.asked(asked, 0.0, lambda _, to, last: told.append((to.code, to.payload, last)), nobody)
    for count in range(1, 5):
        while len(told) < count:
            await asyncio.sleep(0)
        well.updated_state()
    await asyncio.sleep(0)
    assert told == [
        (codes.VALID, b"", False),
        (codes.CONTENT, b"1", False),
        (codes.CONTENT, b"2", False),
        (codes.NOT_ACCEPTABLE, b"the resource has another format now: observe again", True),
    ]
    assert answers.open_requests == 0
    await answers.stop()


async def test_a_write_with_a_precondition_takes_one_share_and_is_refused_without_one() -> None:
    site = resource.Site()
    site.add_resource(("well",), well := Well())
    answers, told = answers_of(site, rates=Rates(host=2.0, strangers=100.0)), list[int]()
    request = CoapRequest(codes.POST, ((IF_MATCH, b""), PATH))
    refused = []
    for exchange in range(3):
        asked = RequestReceived(exchange, stranger(1), request)
        answer = answers.asked(asked, 0.0, lambda _, to, _l: told.append(to.code), nobody)
        if answer is not None:
            refused.append((exchange, answer[0].code, dict(answer[0].options)[MAX_AGE]))
    assert refused == [(2, codes.TOO_MANY_REQUESTS, b"\x01")]
    while len(told) < 2:
        await asyncio.sleep(0)
    assert (told, well.asked) == ([codes.CHANGED] * 2, 4), "each write has looked first"
    await answers.stop()


@pytest.mark.parametrize(
    ("option", "code", "why"),
    [
        ((65_005, b""), codes.BAD_OPTION, b"option 65005"),
        ((URI_QUERY, b"\xff"), codes.BAD_OPTION, b"option 15"),
        ((65_006, b""), codes.CHANGED, b""),
    ],
)
async def test_rfc_7252_section_5_4_1_a_critical_option_that_no_resource_knows_is_refused(
    option: tuple[int, bytes], code: int, why: bytes
) -> None:
    for before in ((), ((IF_MATCH, b""),)):
        site, told = resource.Site(), list[tuple[int, bytes]]()
        site.add_resource(("well",), Well())
        answers = answers_of(site)
        request = CoapRequest(codes.POST, (*before, PATH, option))
        answer = answers.asked(
            RequestReceived(1, OPERATOR, request), 0.0,
            lambda _, to, _last: told.append((to.code, to.payload)), nobody,  # noqa: B023
        )  # fmt: skip
        if answer is not None:
            told.append((answer[0].code, answer[0].payload))
        while not told:
            await asyncio.sleep(0)
        assert told == [(code, why)]
        await answers.stop()
