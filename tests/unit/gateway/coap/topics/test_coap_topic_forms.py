"""Topics, properties and shares of CoAP over MQTT, each without a broker (docs/mqtt-coap.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coap_engine import codes
from coap_engine.message import CoapRequest, CoapResponse, Option, RequestReceived
from gateway.broker.hooks import Client
from gateway.broker.outbound.delivery import Delivery
from gateway.broker.outbound.message import Message
from gateway.broker.outbound.routes import Grant
from gateway.broker.sessions.registry import Sessions
from gateway.coap.access import CoapAccess
from gateway.coap.remote.forward_proxy import ForwardProxy
from gateway.coap.responders import AskPeer, RespondTo
from gateway.coap.topics.asker import CoapFace, TopicAsker
from gateway.coap.topics.bridge import CoapBridge
from gateway.coap.topics.observing import TopicObservations
from gateway.coap.topics.private_delivery import PrivateDelivery
from gateway.coap.topics.properties import (
    FORMATS,
    PropertyRefusedError,
    answer_properties,
    request_options,
)
from gateway.coap.topics.shared_observations import AGAIN_S
from gateway.coap.topics.shares import TopicLimits
from gateway.coap.topics.topics import (
    CoapTarget,
    CoapTopicError,
    answer_prefix,
    answer_topic,
    target,
)
from gateway.mqtt import PropertyId, ReasonCode, Version
from gateway.trust.policy.policy import Policy, PolicyRules
from tests.policies import access_of
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord

IF_MATCH, ETAG, IF_NONE_MATCH, LOCATION_PATH = 1, 4, 5, 8
URI_PATH, CONTENT_FORMAT, MAX_AGE, URI_QUERY, ACCEPT = 11, 12, 14, 15, 17
USER, CONTENT_TYPE = int(PropertyId.USER_PROPERTY), int(PropertyId.CONTENT_TYPE)
VALVE = "$coap/observe/gw-a/valve"

# -- properties -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({}, []),
        ({CONTENT_TYPE: "Text/Plain; charset=UTF-8"}, [(CONTENT_FORMAT, b"")]),
        ({CONTENT_TYPE: "application/cbor"}, [(CONTENT_FORMAT, b"\x3c")]),
        ({USER: [("accept", "application/json")]}, [(ACCEPT, b"\x32")]),
        ({USER: [("if-none-match", "")]}, [(IF_NONE_MATCH, b"")]),
        ({USER: [("if-match", "")]}, [(IF_MATCH, b"")]),
        ({USER: [("if-match", "0102030405060708")]}, [(IF_MATCH, bytes(range(1, 9)))]),
        ({USER: [("etag", "00")]}, [(ETAG, b"\x00")]),
        ({USER: [("etag", "0102030405060708")]}, [(ETAG, bytes(range(1, 9)))]),
        ({USER: [("other", "x"), ("etag", "0A"), ("etag", "0b")]}, [(ETAG, b"\n"), (ETAG, b"\v")]),
    ],
)
def test_properties_stand_for_options(properties: dict[int, Any], options: list[Option]) -> None:
    assert request_options(properties) == options


@pytest.mark.parametrize(
    ("properties", "code", "why"),
    [
        ({CONTENT_TYPE: "image/png"}, 0x8F, "content type: 'image/png'"),
        ({USER: [("accept", "image/png")]}, codes.NOT_ACCEPTABLE, "accept: 'image/png'"),
        ({USER: [("etag", "")]}, codes.BAD_OPTION, "etag is not hexadecimal: ''"),
        ({USER: [("etag", "xy")]}, codes.BAD_OPTION, "etag is not hexadecimal: 'xy'"),
        (
            {USER: [("etag", "010203040506070809")]},
            codes.BAD_OPTION,
            "etag is not hexadecimal: '010203040506070809'",
        ),
        (
            {USER: [("if-match", "010203040506070809")]},
            codes.BAD_OPTION,
            "if-match is not hexadecimal: '010203040506070809'",
        ),
        (
            {USER: [("accept", "x" * 101)]},
            codes.NOT_ACCEPTABLE,
            f"accept: '{'x' * 100}'",
        ),
    ],
)
def test_a_property_that_no_option_stands_for_is_refused_and_shown(
    properties: dict[int, Any], code: int, why: str
) -> None:
    with pytest.raises(PropertyRefusedError) as refused:
        request_options(properties)
    assert refused.value.response == CoapResponse(code, (), why.encode())


def test_an_answer_has_its_options_as_properties() -> None:
    options = (
        (ETAG, b"\x01\xff"),
        (LOCATION_PATH, b"jobs"),
        (LOCATION_PATH, b"\xff7"),
        (CONTENT_FORMAT, b"\x2a\xf8"),
        (MAX_AGE, b"\x01\x00"),
        (60, b"\x05"),
    )
    assert answer_properties(CoapResponse(codes.CREATED, options)) == {
        USER: [
            ("code", "2.01"),
            ("etag", "01ff"),
            ("content-format", "11000"),
            ("max-age", "256"),
            ("location", "/jobs/\ufffd7"),
        ]
    }
    for name, number in FORMATS.items():
        form = (CONTENT_FORMAT, bytes([number]) if number else b"")
        told = answer_properties(CoapResponse(codes.CONTENT, (form,)))
        assert told == {CONTENT_TYPE: name, USER: [("code", "2.05")]}


# -- topics ---------------------------------------------------------------------------------------


def path(*segments: str) -> tuple[Option, ...]:
    return tuple((URI_PATH, one.encode()) for one in segments)


@pytest.mark.parametrize(
    ("topic", "found"),
    [
        ("GET/gw-a", CoapTarget(codes.GET, "gw-a", ())),
        ("iPATCH/gw-a/a%2Fb/%3F", CoapTarget(codes.IPATCH, "gw-a", path("a/b", "?"))),
        ("observe/gw-a/a?x=1&y", CoapTarget(
            codes.GET, "gw-a", (*path("a"), (URI_QUERY, b"x=1"), (URI_QUERY, b"y"))
        )),
        ("FETCH/q/campus/*/*/a", CoapTarget(codes.FETCH, "", path("q", "campus", "*", "*", "a"))),
        ("PUT/gw-a/a?", CoapTarget(codes.PUT, "gw-a", (*path("a"), (URI_QUERY, b"")))),
    ],
)  # fmt: skip
def test_a_topic_says_who_is_asked_for_what(topic: str, found: CoapTarget) -> None:
    assert target(f"$coap/{topic}") == found


@pytest.mark.parametrize(
    ("most", "why"),
    [
        ("GET/gw-a" + 64 * "/a", "more than 64 segments and criteria"),
        ("GET/gw-a" + 62 * "/a" + "?x&y", "more than 64 segments and criteria"),
        ("GET/q" + 63 * "/a", "more than 64 segments and criteria"),
        ("GET/gw-a/" + 255 * "a", "a segment over 255 bytes"),
        ("GET/gw-a?" + 255 * "a", "a segment over 255 bytes"),
    ],
)
def test_a_topic_has_so_many_options_and_bytes_and_no_more(most: str, why: str) -> None:
    target(f"$coap/{most}")
    more = "&z" if "?x" in most else most[-2:] if most[-2] == "/" else "a"
    with pytest.raises(CoapTopicError, match=why):
        target(f"$coap/{most}{more}")


@pytest.mark.parametrize("name", ["", "$c", "a/b", "a+", "#", "$"])
def test_a_name_that_could_mislead_has_no_topics_for_answers(name: str) -> None:
    assert answer_prefix(name) == ""


def test_an_answer_of_3_1_1_is_named_by_its_client_its_code_and_its_request() -> None:
    prefix = answer_prefix("c-1$")
    assert prefix == "$coap/answer/c-1$/"
    assert answer_topic(prefix, codes.NOT_FOUND, "$coap/GET/gw-a/x") == (
        "$coap/answer/c-1$/4.04/GET/gw-a/x"
    )


# -- observations and the bridge ------------------------------------------------------------------


class NotedAnswers:
    """Notes what is asked, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked_for: dict[int, tuple[CoapRequest, RespondTo]] = {}
        self.at_once: tuple[CoapResponse, bool] | None = None
        self.ends: list[int] = []

    def asked(
        self, asked: RequestReceived, now: float, respond: RespondTo, ask: AskPeer
    ) -> tuple[CoapResponse, bool] | None:
        self.asked_for[asked.exchange] = asked.request, respond
        self.ask, self.peer = ask, asked.peer
        return self.at_once

    def refusals(self) -> dict[str, int]:
        return {}

    def ended(self, exchange: int) -> None:
        self.ends.append(exchange)


class GivenMessages:
    """Notes messages, for clients that may read what the test says."""

    def __init__(self) -> None:
        self.given: list[tuple[str, bytes, int]] = []
        self.may = True
        self.granted: Grant | None = None

    def give(self, message: Message, grant: Grant) -> None:
        self.given.append((message.topic, message.payload, grant.qos))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> GivenMessages:
    """Note what is given, in place of a broker."""
    noted = GivenMessages()
    monkeypatch.setattr(PrivateDelivery, "may_read", lambda *_: noted.may)
    monkeypatch.setattr(PrivateDelivery, "grant", lambda *_: noted.granted)
    monkeypatch.setattr(
        PrivateDelivery, "give", lambda _self, _to, message, grant: noted.give(message, grant)
    )
    return noted


class Topics:
    """A face of CoAP below ``$coap``, of a gateway that stands for all others."""

    def __init__(self, **roles: str) -> None:
        self.members = Membership()
        self.members.update(MemberRecord("gw-a", 1, 1, "", "", "10.0.0.1", 1883))
        self.access: CoapAccess = access_of({f"user:{name}": role for name, role in roles.items()})
        self.answers = NotedAnswers()
        self.users = {"c1": "anna", "c2": "rita"}
        face = CoapFace(self.answers, self.access, lambda request: request, self.members)
        self.asker = TopicAsker(
            face, lambda client: ("user", self.users[client.client_id], frozenset())
        )
        self.told: list[tuple[str, str, int]] = []
        self.ended: list[str] = []

    def observing(self) -> TopicObservations:
        return TopicObservations(
            self.asker,
            lambda client, topic, response: self.told.append(
                (client.client_id, topic, response.code)
            ),
            lambda client, _topic: self.ended.append(client.client_id),
        )

    def begun(self) -> CoapBridge:
        bridge = CoapBridge(TopicLimits())
        bridge.begin(self.asker, PrivateDelivery.__new__(PrivateDelivery))
        return bridge

    def respond(self, number: int, code: int, *, is_last: bool = False) -> None:
        _, respond = self.answers.asked_for[number]
        respond(number, CoapResponse(code, (), b"1"), is_last)

    def have(self, **roles: str) -> None:
        assigned = {f"user:{name}": frozenset({role}) for name, role in roles.items()}
        self.access.follow(Policy(PolicyRules(assigned=assigned)))


def client(name: str = "c1", version: int = Version.V5) -> Client:
    return Client(name, None, "192.0.2.1", version)


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_with_other_rights_a_client_observes_anew_and_without_any_no_more() -> None:
    topics = Topics(anna="reader", rita="reader")
    observing = topics.observing()
    one, other = client("c1"), client("c2")
    for each in (one, other):
        assert observing.why_not(each, VALVE) == ReasonCode.SUCCESS
        observing.add(each, VALVE)
    assert len(observing) == 2
    topics.have(anna="operator")
    observing.revise()
    assert topics.answers.ends == [1, 2]
    assert [number for number in topics.answers.asked_for if number > 2] == [3]
    assert topics.told == [("c2", VALVE, codes.FORBIDDEN)]
    assert topics.ended == ["c2"]
    assert observing.why_not(other, VALVE) == ReasonCode.NOT_AUTHORIZED
    observing.revise()
    assert topics.answers.ends == [1, 2]
    assert len(observing) == 1
    observing.stop()
    assert topics.answers.ends == [1, 2, 3]
    assert len(observing) == 0


async def test_where_the_gateway_is_not_there_any_more_the_client_is_told_in_a_later_turn() -> None:
    topics = Topics(anna="reader")
    observing, one = topics.observing(), client()
    observing.add(one, "$coap/observe/gw-b/valve")
    assert topics.told == []
    await turns()
    assert topics.told == [("c1", "$coap/observe/gw-b/valve", codes.NOT_FOUND)]
    assert len(observing) == 0
    topics.have()
    observing.revise()
    assert topics.ended == [], "it is told by itself"
    for topic in ("$coap/observe", "$coap/observe/gw-a/%zz"):
        assert observing.why_not(one, topic) == ReasonCode.TOPIC_FILTER_INVALID
        observing.add(one, topic)
        await turns()
        assert topics.told[-1] == ("c1", topic, codes.BAD_REQUEST)
    observing.stop()


async def test_what_failed_is_observed_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = Topics(anna="reader")
    observing = topics.observing()
    monkeypatch.setattr("gateway.coap.topics.shared_observations.AGAIN_S", 0.0)
    observing.add(client(), VALVE)
    topics.respond(1, codes.SERVICE_UNAVAILABLE, is_last=True)
    async with asyncio.timeout(30):
        while 2 not in topics.answers.asked_for:
            await asyncio.sleep(0)
    assert topics.told == [("c1", VALVE, codes.SERVICE_UNAVAILABLE)]
    topics.respond(2, codes.CONTENT)
    await turns()
    assert topics.told[1:] == [("c1", VALVE, codes.CONTENT)]
    observing.add(client("c2"), VALVE)
    assert AGAIN_S > 1
    observing.stop()


@pytest.mark.usefixtures("given")
async def test_before_coap_is_there_and_after_it_nothing_is_served() -> None:
    topics, one = Topics(anna="operator"), client()
    bridge = CoapBridge()
    for _ in range(2):
        assert bridge.asked(one, "$coap/PUT/gw-a/valve", b"1", 0, {}) == (
            ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        )
        assert bridge.subscribe(one, VALVE, 1, 0) == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        assert not bridge.unsubscribe(one, VALVE)
        bridge.revise()
        bridge.disconnected(one, "")
        bridge = topics.begun()
        assert bridge.asked(one, "$coap/PUT/gw-a/valve", b"1", 0, {}) == ReasonCode.SUCCESS
        bridge.stop()
    assert topics.answers.ends == [1, 2], "what is under way ends with it"


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("response_topic", ["answers/#", "+", "a" * 65_536, "a\0b"])
async def test_a_response_topic_that_is_none_is_refused(response_topic: str) -> None:
    bridge = Topics(anna="operator").begun()
    properties = {int(PropertyId.RESPONSE_TOPIC): response_topic}
    assert bridge.asked(client(), "$coap/GET/gw-a/valve", b"", 0, properties) == (
        ReasonCode.TOPIC_NAME_INVALID
    )


@pytest.mark.parametrize(
    ("may", "granted", "wanted"),
    [
        (False, None, []),
        (True, None, [("answers/1", b"1", 0)]),
        (True, Grant(1, False, (5,)), [("answers/1", b"1", 1)]),
    ],
)
async def test_an_answer_is_given_to_who_may_read_it_when_it_comes(
    given: GivenMessages,
    may: bool,
    granted: Grant | None,
    wanted: Sequence[tuple[str, bytes, int]],
) -> None:
    topics = Topics(anna="operator")
    bridge = topics.begun()
    properties = {int(PropertyId.RESPONSE_TOPIC): "answers/1"}
    assert bridge.asked(client(), "$coap/GET/gw-a/valve", b"", 1, properties) == 0
    given.may, given.granted = may, granted
    topics.respond(1, codes.CONTENT)
    await turns()
    assert given.given == wanted
    bridge.stop()


@pytest.mark.parametrize("ends", ["subscription", "connection", "neither"])
async def test_an_answer_of_3_1_1_is_given_to_who_has_subscribed_to_it(
    given: GivenMessages, ends: str
) -> None:
    topics, one = Topics(anna="operator"), client(version=Version.V311)
    bridge = topics.begun()
    mine = "$coap/answer/c1/#"
    assert bridge.subscribe(one, mine, 2, 0) == 1
    assert bridge.asked(one, "$coap/PUT/gw-a/valve", b"1", 1, {}) == 0
    if ends == "subscription":
        assert bridge.unsubscribe(one, mine)
        assert not bridge.unsubscribe(one, mine)
    elif ends == "connection":
        bridge.disconnected(one, "gone")
    topics.respond(1, codes.CHANGED)
    await turns()
    wanted = [("$coap/answer/c1/2.04/PUT/gw-a/valve", b"1", 1)]
    assert given.given == (wanted if ends == "neither" else [])
    assert topics.answers.ends == [], "a write is carried out"
    bridge.stop()


@pytest.mark.usefixtures("given")
async def test_a_client_of_mqtt_is_asked_nothing_itself() -> None:
    topics, asked = Topics(anna="operator"), list[CoapResponse | None]()
    bridge = topics.begun()
    assert bridge.asked(client(), "$coap/POST/gw-a/rd", b"", 0, {}) == 0
    topics.answers.ask(topics.answers.peer, CoapRequest(codes.GET), asked.append)
    assert asked == [None]
    bridge.stop()


async def test_a_topic_of_another_gateway_asks_by_its_long_path_and_of_this_one_by_the_short() -> (
    None
):
    members = Membership()
    for name, domain in (("gw-a", ""), ("gw-b", "campus")):
        members.update(MemberRecord(name, 1, 1, domain, "", "10.0.0.1", 1883))
    router = ForwardProxy("gw-a", members)
    face = CoapFace(NotedAnswers(), access_of(), router, members)
    asker = TopicAsker(face, lambda _: ("user", "anna", frozenset()))
    form: Option = (CONTENT_FORMAT, b"")

    def asked(topic: str) -> CoapRequest | CoapResponse:
        return asker.request(target(topic), [(IF_NONE_MATCH, b""), form], b"1", observe=True)

    before, query = (IF_NONE_MATCH, b""), (URI_QUERY, b"x=1")
    for topic, way, route in (
        ("$coap/PUT/gw-b/a?x=1", path("q", "campus", "-", "gw-b", "a"), ()),
        ("$coap/PUT/q/campus/-/gw-b/a?x=1", path("q", "campus", "-", "gw-b", "a"), ()),
        ("$coap/PUT/gw-a/a?x=1", path("a"), ((3, b"gw-a"),)),
    ):
        options = (before, *way, form, query)
        assert asked(topic) == CoapRequest(codes.PUT, options, b"1", True, True, route)
    assert asked("$coap/PUT/gw-c/a") == CoapResponse(codes.NOT_FOUND, (), b"no gateway gw-c")


async def test_what_is_at_hand_is_told_in_a_later_turn_and_not_after_the_end() -> None:
    topics, told = Topics(anna="reader"), list[int]()
    topics.answers.at_once = CoapResponse(codes.CONTENT), True
    ends: list[Callable[[], None]] = []
    for _ in range(2):
        request = topics.asker.request(target("$coap/GET/gw-a/valve"), [], b"")
        assert isinstance(request, CoapRequest)
        assert (request.is_fresh, request.observe) == (True, False)
        ends.append(topics.asker.ask(
            request, topics.asker.peer(client()), lambda response, _last: told.append(response.code)
        ))  # fmt: skip
    assert told == []
    ends[0]()
    await turns()
    assert told == [codes.CONTENT]


def test_who_is_connected_no_more_has_no_terms_and_is_given_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody_is_given(*_: object) -> None:
        raise AssertionError("nobody is there")

    monkeypatch.setattr(Sessions, "get", lambda *_: None)
    monkeypatch.setattr(Delivery, "give", nobody_is_given)
    sessions, to_all = Sessions.__new__(Sessions), Delivery.__new__(Delivery)
    delivery = PrivateDelivery(sessions, to_all, lambda *_: True, lambda: 0.0)
    message = Message("answers/1", b"answers/1", b"1", 1, False, {})
    assert not delivery.may_read(client(), "answers/1")
    assert delivery.grant(client(), "answers/1") is None
    delivery.give(client(), message, Grant(1, False, ()))


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("ends", ["subscription", "connection", "all"])
async def test_what_is_observed_ends_with_its_subscription_its_connection_or_all(ends: str) -> None:
    topics, one, other = Topics(anna="reader", rita="reader"), client("c1"), client("c2")
    bridge = topics.begun()
    for each in (one, other):
        assert bridge.subscribe(each, VALVE, 1, 0) == 1
    if ends == "subscription":
        assert bridge.unsubscribe(one, VALVE)
    elif ends == "connection":
        bridge.disconnected(one, "gone")
    else:
        bridge.stop()
    assert topics.answers.ends == ([1, 2] if ends == "all" else [1])
    bridge.stop()
    assert topics.answers.ends == [1, 2]
