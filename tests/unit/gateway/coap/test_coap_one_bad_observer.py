"""One observer, request or look-up that raises keeps no other from its answer (decision 64)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from aiocoap import resource

from coap_engine import codes
from coap_engine.codec import CON, CoapMessage
from coap_engine.engine import Engine
from coap_engine.message import CoapPeer, CoapRequest, CoapResponse, RequestReceived
from dtls.datagrams import PeerAddress
from gateway.coap.access import CoapAccess
from gateway.coap.answers import Answers, RequestAnswers
from gateway.coap.directory.answers import DirectoryAnswers
from gateway.coap.directory.lookup_turns import LookUpTurns
from gateway.coap.peers import udp_peer
from gateway.coap.responders import AskForBody, PendingResponse, RespondTo
from gateway.coap.shell import EngineShell
from gateway.trust.policy.policy import Policy, PolicyRules
from resource_directory.link_format import parse
from resource_directory.registry import Registry
from resource_directory.service import DirectoryService
from resource_directory.watches import Watches
from tests.policies import access_of, open_access

URI_PATH = 11
LINKS = parse(b"</a>;rt=a")
PEER = udp_peer(PeerAddress(("192.0.2.1", 40_000)))


class Told:
    """Notifications to observers. Those to some observers raise an error."""

    def __init__(self, *bad: int) -> None:
        self.bad = set(bad)
        self.told: list[tuple[int, int, bool]] = []

    def __call__(self, exchange: int, response: CoapResponse, is_last: bool) -> None:
        if exchange in self.bad:
            raise OSError(28, "No space left on device")
        self.told.append((exchange, response.code, is_last))


def get(path: str, *, observe: bool = False) -> CoapRequest:
    options = tuple((URI_PATH, part.encode()) for part in path.split("/"))
    return CoapRequest(codes.GET, options, observe=observe)


class Directory:
    """A directory that is observed; its clock can fail."""

    def __init__(self) -> None:
        self.watches = Watches()
        self.registry = Registry("/rd/1-", listeners=(self.watches,))
        self.soon: deque[Callable[[], None]] = deque()
        self.fails = 0
        self.answers = DirectoryAnswers(
            DirectoryService(self.registry, self.watches),
            self.now,
            LookUpTurns(lambda _, turn: self.soon.append(turn)),
        )

    def now(self) -> float:
        self.fails -= 1
        if self.fails >= 0:
            raise ValueError("bad clock")
        return 100.0

    def register(self, name: str) -> None:
        self.registry.register(name, LINKS, 100.0, base=f"coap://{name}")
        self.answers.changed()

    def turns(self) -> None:
        while self.soon:
            self.soon.popleft()()


def test_an_observer_of_a_look_up_that_raises_costs_the_others_no_notification() -> None:
    directory, told = Directory(), Told(1)
    for exchange in (1, 2):
        directory.answers.observe(exchange, get("rd-lookup/res"), told)
    for name in ("n1", "n2"):
        directory.register(name)
        directory.turns()
    assert told.told == [(2, codes.CONTENT, False)] * 2


def test_a_look_up_that_can_not_be_answered_again_ends_alone_and_the_others_are_told_of() -> None:
    directory, told = Directory(), Told()
    directory.answers.observe(1, get("rd-lookup/res"), told)
    directory.answers.observe(2, get("rd-lookup/ep"), told)
    directory.fails = 1
    directory.register("n1")
    directory.turns()
    ended, other = told.told
    assert ended[1:] == (codes.INTERNAL_SERVER_ERROR, True)
    assert other == (3 - ended[0], codes.CONTENT, False)
    directory.answers.ended(ended[0])
    directory.register("n2")
    directory.turns()
    assert told.told[2:] == [other]


class Source:
    """Answers at once, or as a test's `PendingResponse` does, and is observed."""

    def __init__(self, later: PendingResponse | None = None) -> None:
        self.segments = frozenset((b"a", b"b"))
        self.later = later
        self.ends: list[int] = []
        self.bad_ends: set[int] = set()

    def answer(
        self, _request: CoapRequest, _peer: CoapPeer, _now: float
    ) -> CoapResponse | PendingResponse | None:
        return self.later or CoapResponse(codes.CONTENT, (), b"1")

    def observe(self, _exchange: int, _request: CoapRequest, _respond: RespondTo) -> bool:
        return True

    def ended(self, exchange: int) -> None:
        self.ends.append(exchange)
        if exchange in self.bad_ends:
            raise ValueError("bad end")


def answers_of(source: Source, access: CoapAccess | None = None) -> Answers:
    return Answers(resource.Site(), access or open_access(), (source,), lambda _: None)


def nobody(_peer: CoapPeer, _request: CoapRequest, done: Callable[[Any], None]) -> None:
    done(None)


def ask(answers: Answers, exchange: int, told: Told, *, observe: bool = True) -> Any:
    asked = RequestReceived(exchange, PEER, get("a", observe=observe))
    return answers.asked(asked, 0.0, told, nobody)


@pytest.mark.parametrize("bad", ["end", "respond"])
async def test_what_is_allowed_no_more_all_ends_though_one_raises(bad: str) -> None:
    access, source = access_of(), Source()
    told = Told(*([1] if bad == "respond" else []))
    source.bad_ends = {1} if bad == "end" else set()
    answers = answers_of(source, access)
    for exchange in (1, 2, 3):
        assert ask(answers, exchange, told) is not None
    access.follow(Policy(PolicyRules()))
    answers.revise()
    assert source.ends == [1, 2, 3]
    assert [exchange for exchange, _, is_last in told.told if is_last][-2:] == [2, 3]
    assert answers.open_requests == 0


def test_all_who_follow_the_policy_are_told_of_another_though_one_raises() -> None:
    access, told = open_access(), list[int]()

    def bad() -> None:
        raise ValueError("bad item")

    access.tell_of_changes(bad)
    access.tell_of_changes(lambda: told.append(1))
    access.follow(Policy(PolicyRules()))
    assert told == [1]


class AtOnce:
    """Has its answer, or fails, before `begin` has returned."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def begin(self, done: Callable[[CoapResponse], None], _ask: AskForBody) -> Callable[[], None]:
        if self.fails:
            raise ValueError("can't begin")
        done(CoapResponse(codes.CHANGED))
        return lambda: None


async def test_what_is_answered_before_its_beginning_returns_is_answered_and_leaves_nothing() -> (
    None
):
    told, answers = Told(), answers_of(Source(AtOnce()))
    assert ask(answers, 1, told, observe=False) is None
    assert told.told == [(1, codes.CHANGED, True)]
    assert answers.open_requests == 0


async def test_what_can_not_begin_leaves_nothing_open() -> None:
    answers = answers_of(Source(AtOnce(fails=True)))
    with pytest.raises(ValueError, match="can't begin"):
        ask(answers, 1, Told())
    assert answers.open_requests == 0


class Unsure:
    """Answers requests at once; what it is told of ends makes it raise."""

    def __init__(self) -> None:
        self.ends = 0

    def asked(self, asked: RequestReceived, *_: object) -> tuple[CoapResponse, bool]:
        long = ((8, b"x" * 70_000),) if asked.request.observe else ()
        return CoapResponse(codes.CONTENT, long, b"1"), True

    def ended(self, _exchange: int) -> None:
        self.ends += 1
        raise ValueError("bad end")

    def refusals(self) -> dict[str, int]:
        return {}


def shell_of(answers: RequestAnswers, sent: list[bytes]) -> EngineShell:
    engine = Engine(bytes)
    shell = EngineShell(engine, answers)
    shell.sends_by(PeerAddress, lambda datagram, _to: sent.append(datagram))
    return shell


async def test_an_answer_that_can_not_be_encoded_costs_no_other_request_its_own() -> None:
    sent: list[bytes] = []
    shell = shell_of(Unsure(), sent)
    now = asyncio.get_running_loop().time()
    observe = ((6, b""), (URI_PATH, b"a"))
    shell.receive(CoapMessage(CON, codes.GET, 1, b"1", observe).encode(), PEER, now)
    shell.receive(CoapMessage(CON, codes.GET, 2, b"2", ((URI_PATH, b"a"),)).encode(), PEER, now)
    shell.turn_ended(now)
    told = [(datagram[4:5], datagram[1]) for datagram in sent]
    assert told == [(b"1", codes.INTERNAL_SERVER_ERROR), (b"2", codes.CONTENT)]
    assert shell.held()["requests"] == 0
    shell.close()


class Slow:
    """Answers nothing by itself."""

    def __init__(self) -> None:
        self.responds: list[tuple[int, RespondTo]] = []

    def asked(self, asked: RequestReceived, _now: float, respond: RespondTo, _ask: object) -> None:
        self.responds.append((asked.exchange, respond))

    def ended(self, _exchange: int) -> None:
        """Nothing is left."""

    def refusals(self) -> dict[str, int]:
        return {}


async def test_a_later_answer_that_raises_keeps_none_behind_it_waiting() -> None:
    sent: list[bytes] = []

    answers = Slow()
    shell = shell_of(answers, sent)
    now = asyncio.get_running_loop().time()
    for number in (1, 2):
        token = b"%d" % number
        path = ((URI_PATH, b"a"),)
        shell.receive(CoapMessage(CON, codes.GET, number, token, path).encode(), PEER, now)
    bad = CoapResponse(codes.CONTENT, ((8, b"x" * 70_000),))
    for (exchange, respond), response in zip(
        answers.responds, (bad, CoapResponse(codes.CONTENT, (), b"good")), strict=True
    ):
        respond(exchange, response, True)
    async with asyncio.timeout(60):
        while not any(datagram.endswith(b"good") for datagram in sent):  # before it an error may go
            await asyncio.sleep(0)
    shell.close()
