"""Observing resources (RFC 7641): who is told what, in which order, and for how long."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer, CoapResponse, Option
from coap_engine.observation import ConfirmRules
from coap_engine.observations import Notification, Observations
from coap_engine.rates import Rates
from coap_engine.share import Quota
from coap_engine.shares import ShareLimits, Shares

PROVEN = CoapPeer(("session", 1), "pump", "pump", is_address_proven=True)
STRANGER = CoapPeer(("192.0.2.1", 5683), "192.0.2.1")
TOKEN = b"\x4a"
TEXT: Option = (option_numbers.CONTENT_FORMAT, b"")


def celsius(degrees: str, *options: Option) -> CoapResponse:
    return CoapResponse(codes.CONTENT, (TEXT, *options), f"{degrees} Cel".encode())


def observed(
    peer: CoapPeer = PROVEN, rules: ConfirmRules | None = None, now: float = 0.0
) -> Observations:
    """One observation, exchange 1, whose first response is sent."""
    observations = Observations(Shares(), rules or ConfirmRules())
    assert observations.register(peer, TOKEN, 1, now).refusal is None
    assert observations.first_response(1, celsius("18.5"), now) is not None
    return observations


def told(notification: Notification | None) -> tuple[str, str] | None:
    if notification is None:
        return None
    kind = "CON" if notification.is_confirmable else "NON"
    return kind, notification.response.payload.decode()


def order(one: int, two: int) -> bool:
    """Return whether two is newer than one to a client, within 128 s (RFC 7641, section 3.4)."""
    return (one < two and two - one < 1 << 23) or (one > two and one - two > 1 << 23)


def test_rfc_7641_figure_1_two_notifications_upon_changes() -> None:
    observations = Observations(Shares())
    observations.register(PROVEN, TOKEN, 1, 10.0)
    first = observations.first_response(1, celsius("22.9"), 10.0)
    second = observations.notify(1, celsius("22.8"), 40.0)
    third = observations.notify(1, celsius("23.1"), 60.0)
    assert (told(second), told(third)) == (("NON", "22.8 Cel"), ("NON", "23.1 Cel"))
    assert second is not None and third is not None and first is not None
    assert (second.peer, second.token, second.exchange) == (PROVEN, TOKEN, 1)
    assert second.observe is not None and third.observe is not None
    assert order(first, second.observe)
    assert order(second.observe, third.observe)


def test_numbers_grow_within_a_millisecond_and_over_their_end() -> None:
    observations = observed(now=16_777.214)
    numbers = []
    for now in (16_777.214, 16_777.214, 16_777.215, 16_777.3):
        notification = observations.notify(1, celsius("20"), now)
        assert notification is not None and notification.observe is not None
        numbers.append(notification.observe)
    assert max(numbers) < 1 << 24
    assert all(order(one, two) for one, two in itertools.pairwise(numbers))


def test_numbers_grow_over_a_registration_anew() -> None:
    observations = observed(now=5.0)
    before = [observations.notify(1, celsius(str(n)), 5.0) for n in range(9)][-1]
    assert observations.register(PROVEN, TOKEN, 2, 5.0).replaced == 1
    after = observations.first_response(2, celsius("9"), 5.0)
    assert before is not None and before.observe is not None and after is not None
    assert order(before.observe, after)


def test_a_registration_with_the_same_token_takes_the_place_of_the_first() -> None:
    observations = observed()
    assert observations.register(STRANGER, TOKEN, 2, 1.0).replaced is None
    assert observations.register(PROVEN, b"other", 3, 1.0).replaced is None
    assert observations.register(PROVEN, TOKEN, 4, 1.0).replaced == 1
    assert [observations.has(exchange) for exchange in (1, 2, 3, 4)] == [False, True, True, True]
    assert observations.notify(1, celsius("20"), 1.0) is None


def test_observe_1_ends_an_observation() -> None:
    observations = observed()
    assert observations.deregister(STRANGER, TOKEN) is None
    assert observations.deregister(PROVEN, TOKEN) == 1
    assert observations.deregister(PROVEN, TOKEN) is None
    assert observations.notify(1, celsius("20"), 1.0) is None
    assert len(observations) == 0


def test_a_registration_that_is_answered_with_an_error_is_none() -> None:
    observations = Observations(Shares())
    observations.register(PROVEN, TOKEN, 1, 0.0)
    assert observations.first_response(1, CoapResponse(codes.UNAUTHORIZED), 0.0) is None
    assert not observations.has(1)


def test_rfc_7641_section_4_2_an_error_ends_an_observation_and_has_no_number() -> None:
    observations = observed()
    notification = observations.notify(1, CoapResponse(codes.SERVICE_UNAVAILABLE), 1.0)
    assert notification is not None
    assert notification.response.code == codes.SERVICE_UNAVAILABLE
    assert (notification.observe, notification.is_last) == (None, True)
    assert not observations.has(1)


def test_rfc_7641_section_4_2_another_content_format_ends_an_observation() -> None:
    observations = observed()
    json = CoapResponse(codes.CONTENT, ((option_numbers.CONTENT_FORMAT, b"\x32"),), b"{}")
    notification = observations.notify(1, json, 1.0)
    assert notification is not None
    assert (notification.response, notification.is_last) == (
        CoapResponse(codes.NOT_ACCEPTABLE),
        True,
    )


def test_2_03_valid_is_a_notification_like_others() -> None:
    observations = observed()
    notification = observations.notify(1, CoapResponse(codes.VALID), 1.0)
    assert notification is not None
    assert notification.observe is not None


def test_rfc_7641_section_4_5_2_the_newest_waits_for_the_acknowledgement() -> None:
    observations = observed(rules=ConfirmRules(every=1))
    assert told(observations.notify(1, celsius("19"), 1.0)) == ("CON", "19 Cel")
    assert observations.notify(1, celsius("20"), 2.0) is None
    assert observations.notify(1, celsius("21"), 3.0) is None
    assert told(observations.acknowledged(1, 3.5)) == ("CON", "21 Cel")
    assert observations.acknowledged(1, 4.0) is None
    assert told(observations.notify(1, celsius("22"), 5.0)) == ("CON", "22 Cel")


def test_rfc_7641_section_4_5_2_the_newest_goes_in_place_of_a_repetition() -> None:
    observations = observed(rules=ConfirmRules(every=4))
    for degrees in range(4):
        last = observations.notify(1, celsius(str(degrees)), 1.0)
    assert told(last) == ("CON", "3 Cel")
    assert observations.newest(1, 3.0) is None
    observations.notify(1, celsius("4"), 3.5)
    assert told(observations.newest(1, 4.0)) == ("CON", "4 Cel")
    assert observations.notify(1, celsius("5"), 5.0) is None
    assert told(observations.acknowledged(1, 5.0)) == ("NON", "5 Cel")


def test_what_waits_takes_part_in_the_share_of_bytes_and_ends_where_there_is_no_room() -> None:
    quota = Quota(host=3_000, strangers=9_000, principal=5_000, everybody=9_000, retry_s=30)
    shares = Shares(ShareLimits(held_bytes=quota))
    observations = Observations(shares)
    body = CoapResponse(codes.CONTENT, (TEXT,), b"x" * 2_000)
    for exchange in (1, 2, 3):
        assert observations.register(PROVEN, bytes([exchange]), exchange, 0.0).refusal is None
        assert observations.first_response(exchange, celsius("1"), 1.0, is_confirmable=True)
        assert observations.notify(exchange, celsius("2"), 0.0) is None
    assert shares.held_bytes.held == 0, "how many may wait bounds what is short"
    for exchange in (1, 2, 3, 1):
        assert observations.notify(exchange, body, 1.0) is None
    assert shares.held_bytes.held == 4_000
    last = observations.acknowledged(3, 2.0)
    assert last is not None
    assert (last.response.code, last.is_last) == (codes.SERVICE_UNAVAILABLE, True)
    whole = observations.acknowledged(2, 2.0)
    assert whole is not None
    assert whole.response.payload == body.payload
    assert shares.held_bytes.held == 2_000
    assert observations.cancel(1)
    assert shares.held_bytes.held == 0


def test_what_waits_for_who_has_most_makes_room_for_others() -> None:
    quota = Quota(host=9_000, strangers=9_000, principal=9_000, everybody=9_000, retry_s=30)
    shares = Shares(ShareLimits(held_bytes=quota))
    observations = Observations(shares)
    body = CoapResponse(codes.CONTENT, (TEXT,), b"x" * 4_000)
    other = CoapPeer(("session", 2), "valve", "valve", is_address_proven=True)
    for exchange, peer in ((1, PROVEN), (2, PROVEN), (3, other)):
        assert observations.register(peer, bytes([exchange]), exchange, 0.0).refusal is None
        assert observations.first_response(exchange, celsius("1"), 1.0, is_confirmable=True)
        assert observations.notify(exchange, body, 0.0) is None
    told = [observations.acknowledged(exchange, 1.0) for exchange in (1, 2, 3)]
    assert [one and one.response.code for one in told] == [
        codes.SERVICE_UNAVAILABLE, codes.CONTENT, codes.CONTENT,
    ]  # fmt: skip
    assert shares.held_bytes.held == 0


def test_an_error_that_waits_is_the_last() -> None:
    observations = observed(rules=ConfirmRules(every=1))
    observations.notify(1, celsius("19"), 1.0)
    assert observations.notify(1, CoapResponse(codes.UNAUTHORIZED), 2.0) is None
    assert observations.notify(1, celsius("20"), 3.0) is None
    last = observations.acknowledged(1, 4.0)
    assert last is not None
    assert (last.response.code, last.is_last) == (codes.UNAUTHORIZED, True)
    assert not observations.has(1)


@pytest.mark.parametrize(("options", "left"), [((), 60 - 7), (((14, b"\x05"),), 0)])
def test_what_waited_is_fresh_for_so_much_less(options: tuple[Option, ...], left: int) -> None:
    observations = observed(rules=ConfirmRules(every=1))
    observations.notify(1, celsius("19"), 1.0)
    observations.notify(1, celsius("20", *options), 2.0)
    notification = observations.acknowledged(1, 9.5)
    assert notification is not None
    max_age = dict(notification.response.options)[option_numbers.MAX_AGE]
    assert int.from_bytes(max_age, "big") == left


def test_rfc_7641_section_4_5_every_so_often_a_notification_is_confirmable() -> None:
    observations = observed(rules=ConfirmRules(every=4))
    kinds = []
    for second in range(12):
        notification = observations.notify(1, celsius(str(second)), float(second))
        assert notification is not None
        kinds.append(notification.is_confirmable)
        if notification.is_confirmable:
            observations.acknowledged(1, float(second))
    assert kinds == [False, False, False, True] * 3


def test_rfc_7641_section_4_5_no_day_is_without_a_confirmable_notification() -> None:
    observations = observed(rules=ConfirmRules(every=10**9, after_s=1e9))
    assert told(observations.notify(1, celsius("1"), 86_399.0)) == ("NON", "1 Cel")
    assert told(observations.notify(1, celsius("2"), 86_400.0)) == ("CON", "2 Cel")


def test_an_observer_with_unproven_address_is_asked_first_and_often() -> None:
    observations = observed(STRANGER)
    kinds = ""
    for second in range(11):
        notification = observations.notify(1, celsius(str(second)), float(second))
        assert notification is not None
        kinds += "C" if notification.is_confirmable else "N"
        if notification.is_confirmable:
            observations.acknowledged(1, float(second))
    assert kinds == "CNNNNCNNNNC"
    assert told(observations.notify(1, celsius("x"), 40.0)) == ("CON", "x Cel")


def test_a_forged_address_gets_one_notification_and_loses_all_its_observations() -> None:
    observations = observed(STRANGER)
    observations.register(STRANGER, b"other", 2, 0.0)
    sent = [observations.notify(1, celsius(str(n)), float(n)) for n in range(100)]
    assert [notification is not None for notification in sent] == [True] + [False] * 99
    assert observations.gave_up(1) == [1, 2]
    assert (observations.silent, len(observations)) == (2, 0)
    assert observations.gave_up(1) == []


def test_an_address_proven_by_an_echo_is_proven() -> None:
    observations = Observations(Shares())
    observations.register(STRANGER, TOKEN, 1, 0.0, is_proven=True)
    observations.first_response(1, celsius("1"), 0.0)
    assert told(observations.notify(1, celsius("2"), 1.0)) == ("NON", "2 Cel")


def test_notifications_wait_for_a_first_response_that_is_to_be_acknowledged() -> None:
    observations = Observations(Shares())
    observations.register(PROVEN, TOKEN, 1, 0.0)
    observations.first_response(1, celsius("1"), 0.0, is_confirmable=True)
    assert observations.notify(1, celsius("2"), 1.0) is None
    assert told(observations.acknowledged(1, 1.0)) == ("NON", "2 Cel")


def test_a_reset_of_the_last_message_ends_an_observation() -> None:
    observations = observed()
    observations.register(PROVEN, b"other", 2, 0.0)
    observations.sent(1, 7)
    observations.sent(1, 8)
    observations.sent(2, 9)
    assert observations.reset(PROVEN, 7) is None
    assert observations.reset(STRANGER, 8) is None
    assert observations.reset(PROVEN, 8) == 1
    assert observations.reset(PROVEN, 8) is None
    assert (observations.rejected, observations.has(2)) == (1, True)


def test_observations_end_with_their_session_or_by_whoever_answers() -> None:
    observations = observed()
    observations.register(PROVEN, b"other", 2, 0.0)
    observations.register(STRANGER, TOKEN, 3, 0.0)
    assert observations.forget_peer(PROVEN) == [1, 2]
    assert observations.cancel(3)
    assert not observations.cancel(3)


def test_without_room_a_request_to_observe_is_refused_and_one_anew_is_not() -> None:
    quota = Quota(host=2, strangers=10, principal=1, everybody=10, retry_s=60)
    observations = Observations(Shares(ShareLimits(quota, quota, quota, Rates())))
    for exchange in (1, 2):
        assert observations.register(STRANGER, bytes([exchange]), exchange, 0.0).refusal is None
    refused = observations.register(STRANGER, b"\x03", 3, 0.0)
    assert refused.refusal is not None
    assert not observations.has(3)
    anew = observations.register(STRANGER, b"\x01", 4, 0.0)
    assert (anew.refusal, anew.replaced) == (None, 1)


PEERS = st.sampled_from([PROVEN, STRANGER, dataclasses.replace(STRANGER, address=("192.0.2.1", 9))])


class ObservationMachine(RuleBasedStateMachine):
    """Observers that answer, reject or are silent, and a resource that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.shares = Shares()
        self.observations = Observations(self.shares, ConfirmRules(every=3))
        self.now = 100.0
        self.exchange = 0
        self.value = 0
        self.running: dict[int, tuple[CoapPeer, bytes]] = {}
        self.under_way: set[int] = set()
        self.last_number: dict[tuple[CoapPeer, bytes], int] = {}
        self.last_told: dict[int, str] = {}
        self.changed: dict[int, str] = {}

    def ended(self, exchanges: list[int]) -> None:
        for exchange in exchanges:
            del self.running[exchange]
            self.under_way.discard(exchange)

    def take(self, notification: Notification | None, *, is_repetition: bool = False) -> None:
        if notification is None:
            return
        exchange = notification.exchange
        assert self.running[exchange] == (notification.peer, notification.token)
        assert is_repetition or exchange not in self.under_way
        if notification.is_last:
            self.ended([exchange])
            return
        assert notification.observe is not None
        before = self.last_number[self.running[exchange]]
        assert order(before, notification.observe)
        self.last_number[self.running[exchange]] = notification.observe
        self.last_told[exchange] = notification.response.payload.decode()
        if notification.is_confirmable:
            self.under_way.add(exchange)

    @rule(peer=PEERS, token=st.sampled_from([b"", b"a", b"b"]), is_error=st.booleans())
    def register(self, peer: CoapPeer, token: bytes, is_error: bool) -> None:
        self.exchange += 1
        registered = self.observations.register(peer, token, self.exchange, self.now)
        before = [e for e, observer in self.running.items() if observer == (peer, token)]
        assert ([registered.replaced] if registered.replaced else []) == before
        self.ended(before)
        self.running[self.exchange] = (peer, token)
        response = CoapResponse(codes.UNAUTHORIZED) if is_error else celsius("first")
        number = self.observations.first_response(self.exchange, response, self.now)
        if is_error:
            assert number is None
            self.ended([self.exchange])
            return
        assert number is not None
        before_number = self.last_number.get((peer, token))
        assert before_number is None or order(before_number, number)
        self.last_number[peer, token] = number
        self.last_told[self.exchange] = self.changed[self.exchange] = "first Cel"

    @rule()
    def change(self) -> None:
        self.value += 1
        for exchange in list(self.running):
            self.changed[exchange] = f"{self.value} Cel"
            self.take(self.observations.notify(exchange, celsius(str(self.value)), self.now))

    @rule(data=st.data(), verb=st.sampled_from(["acknowledged", "newest", "silent", "reset"]))
    def answer(self, data: st.DataObject, verb: str) -> None:
        if not self.under_way:
            return
        exchange = data.draw(st.sampled_from(sorted(self.under_way)))
        peer = self.running[exchange][0]
        match verb:
            case "acknowledged":
                self.under_way.discard(exchange)
                self.take(self.observations.acknowledged(exchange, self.now))
            case "newest":
                self.take(self.observations.newest(exchange, self.now), is_repetition=True)
            case "silent":
                of_peer = [e for e, observer in self.running.items() if observer[0] == peer]
                assert self.observations.gave_up(exchange) == of_peer
                self.ended(of_peer)
            case _:
                self.observations.sent(exchange, exchange)
                assert self.observations.reset(peer, exchange) == exchange
                self.ended([exchange])

    @rule(seconds=st.floats(0, 60))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(peer=PEERS, token=st.sampled_from([b"", b"a", b"b"]))
    def deregister(self, peer: CoapPeer, token: bytes) -> None:
        ended = [e for e, observer in self.running.items() if observer == (peer, token)]
        gone = self.observations.deregister(peer, token)
        assert ([gone] if gone else []) == ended
        self.ended(ended)

    @invariant()
    def accounts_are_right_and_nobody_is_behind_who_is_not_waited_for(self) -> None:
        assert len(self.observations) == len(self.running) == self.shares.observations.held
        for exchange in self.running.keys() - self.under_way:
            assert self.last_told[exchange] == self.changed[exchange]


TestObservations = ObservationMachine.TestCase
TestObservations.settings = settings(deadline=None, max_examples=40, stateful_step_count=40)
