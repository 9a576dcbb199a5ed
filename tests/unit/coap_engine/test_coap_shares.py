"""Limits for each host and for all: strangers can't take all, and accounts stay few."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coap_engine import codes, option_numbers
from coap_engine.message import CoapPeer
from coap_engine.rates import ADMITTED, DROPPED, REFUSED, Rates, RateShares
from coap_engine.share import Quota, Share, ShareRefusal
from coap_engine.shares import ShareLimits, Shares

QUOTA = Quota(host=3, strangers=7, principal=5, everybody=12, retry_s=300)


def stranger(host: str, port: int = 5683) -> CoapPeer:
    return CoapPeer((host, port), host)


def authenticated(identity: str) -> CoapPeer:
    return CoapPeer(("session", identity), identity, identity, is_address_proven=True)


def test_a_host_that_asks_too_much_is_told_so_with_a_time() -> None:
    share = Share(QUOTA)
    for port in range(3):
        assert share.take(stranger("192.0.2.1", port)) is None
    refusal = share.take(stranger("192.0.2.1", 3))
    assert refusal is not None
    assert refusal.response().code == codes.TOO_MANY_REQUESTS
    assert refusal.response().options == ((option_numbers.MAX_AGE, b"\x01\x2c"),)
    assert (share.refused_host, share.refused_full) == (1, 0)
    assert share.take(stranger("192.0.2.2")) is None


def test_a_crowd_of_strangers_does_not_shut_out_those_that_are_authenticated() -> None:
    share = Share(QUOTA)
    refusals = [share.take(stranger(f"192.0.2.{host}")) for host in range(100)]
    assert refusals.count(None) == 7
    assert refusals[-1] == ShareRefusal(codes.SERVICE_UNAVAILABLE, 300)
    assert share.refused_full == 93
    assert [share.take(authenticated("pump")) for _ in range(5)] == [None] * 5


def test_a_stranger_has_no_account_of_an_authenticated_peer_by_the_same_name() -> None:
    share = Share(QUOTA)
    assert share.take(stranger("pump"), 3) is None
    assert share.take(authenticated("pump"), 5) is None
    share.give_back(stranger("pump"), 3)
    assert share.held == 5


def test_all_refusals_are_told_by_kind() -> None:
    shares = Shares(ShareLimits(QUOTA, QUOTA, QUOTA, Rates(1.0, 1.0, 1.0, 4)))
    shares.observations.take(stranger("192.0.2.1"), 4)
    shares.held_bytes.take(authenticated("pump"), 6)
    shares.datagrams.admit(stranger("192.0.2.1"), 0.0)
    shares.datagrams.admit(stranger("192.0.2.2"), 0.0)
    assert shares.refusals() == {
        "requests_host": 0,
        "requests_full": 0,
        "observations_host": 1,
        "observations_full": 0,
        "held_bytes_host": 1,
        "held_bytes_full": 0,
        "datagrams_host": 0,
        "datagrams_full": 1,
        "own_requests_host": 0,
        "own_requests_full": 0,
    }


PEERS = st.one_of(st.sampled_from("abcd").map(stranger), st.sampled_from("abcd").map(authenticated))


class ShareMachine(RuleBasedStateMachine):
    """Shares are held against what each peer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.share = Share(QUOTA)
        self.held: Counter[CoapPeer] = Counter()

    def of(self, is_stranger: bool) -> int:
        return sum(n for peer, n in self.held.items() if (peer.principal is None) == is_stranger)

    @rule(peer=PEERS, amount=st.integers(0, 6))
    def take(self, peer: CoapPeer, amount: int) -> None:
        refusal = self.share.take(peer, amount)
        is_stranger = peer.principal is None
        most = QUOTA.host if is_stranger else QUOTA.principal
        has_its_part = self.held[peer] + amount > most
        is_full = self.of(True) + self.of(False) + amount > QUOTA.everybody or (
            is_stranger and self.of(True) + amount > QUOTA.strangers
        )
        if has_its_part:
            assert refusal == ShareRefusal(codes.TOO_MANY_REQUESTS, QUOTA.retry_s)
        elif is_full:
            assert refusal == ShareRefusal(codes.SERVICE_UNAVAILABLE, QUOTA.retry_s)
        else:
            assert refusal is None
            self.held[peer] += amount
        within_the_reserve = (
            self.of(False) + (amount if refusal else 0) <= QUOTA.everybody - QUOTA.strangers
        )
        if not is_stranger and not has_its_part and within_the_reserve:
            assert refusal is None, "strangers are in its way"

    @rule(peer=PEERS, data=st.data())
    def give_back(self, peer: CoapPeer, data: st.DataObject) -> None:
        amount = data.draw(st.integers(0, self.held[peer]))
        self.share.give_back(peer, amount)
        self.held[peer] -= amount

    @invariant()
    def is_accounted_for(self) -> None:
        assert self.share.held == self.of(True) + self.of(False)
        assert self.share.held_by_strangers == self.of(True)
        assert self.share.holders == sum(n > 0 for n in self.held.values())


TestShare = ShareMachine.TestCase
TestShare.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)


def test_a_host_has_its_rate_of_datagrams_and_a_burst_of_a_second() -> None:
    datagrams = RateShares(Rates(host=10.0, strangers=100.0, principal=20.0, hosts=8))
    first = [datagrams.admit(stranger("192.0.2.1"), 5.0) for _ in range(13)]
    assert first == [ADMITTED] * 10 + [REFUSED, DROPPED, DROPPED]
    assert datagrams.refusal().code == codes.TOO_MANY_REQUESTS
    assert datagrams.refused_host == 3
    later = [datagrams.admit(stranger("192.0.2.1"), 5.25) for _ in range(3)]
    assert later == [ADMITTED, ADMITTED, DROPPED]
    assert datagrams.admit(stranger("192.0.2.2"), 5.25) == ADMITTED


def test_datagrams_of_many_strangers_do_not_keep_those_of_authenticated_peers_out() -> None:
    datagrams = RateShares(Rates(host=10.0, strangers=100.0, principal=20.0, hosts=8))
    verdicts = Counter(datagrams.admit(stranger(f"h{n}"), 1.0) for n in range(10_000))
    assert verdicts[ADMITTED] <= 100
    assert verdicts[REFUSED] <= 8
    assert [datagrams.admit(authenticated("pump"), 1.0) for _ in range(20)] == [ADMITTED] * 20


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.floats(0, 0.7), st.integers(1, 30), st.booleans()),
        max_size=60,
    )
)
@settings(max_examples=100)
def test_rates_hold_and_buckets_stay_few_whoever_sends(
    bursts: list[tuple[int, float, int, bool]],
) -> None:
    rates = Rates(host=10.0, strangers=30.0, principal=10.0, hosts=8)
    datagrams = RateShares(rates)
    now = 100.0
    admitted: Counter[CoapPeer] = Counter()
    began = now
    for name, pause_s, number, is_stranger in bursts:
        now += pause_s
        peer = stranger(f"h{name}") if is_stranger else authenticated(f"h{name % 4}")
        for _ in range(number):
            admitted[peer] += datagrams.admit(peer, now) == ADMITTED
        assert datagrams.hosts <= rates.hosts + 4
    span_s = now - began
    assert all(number <= 10 + 10 * span_s + 1e-6 for number in admitted.values())
    of_strangers = sum(n for peer, n in admitted.items() if peer.principal is None)
    assert of_strangers <= 30 + 30 * span_s + 1e-6


def test_a_forgotten_bucket_would_have_been_full() -> None:
    datagrams = RateShares(Rates(host=2.0, strangers=1e6, principal=2.0, hosts=8))
    admitted = sum(
        datagrams.admit(stranger("192.0.2.1"), now / 10) == ADMITTED for now in range(1, 1001)
    )
    assert admitted == pytest.approx(2 * 100, abs=3)


@pytest.mark.parametrize(
    ("kind", "of_a_host", "of_strangers", "of_a_principal", "of_everybody"),
    [
        ("requests", 256, 2_048, 1_024, 4_096),
        ("observations", 64, 1_024, 1_024, 4_096),
        ("held_bytes", 2 << 20, 4 << 20, 4 << 20, 16 << 20),
        ("own_requests", 4, 32, 16, 64),
    ],
)
def test_by_default_each_limit_takes_what_it_says_and_not_one_more(
    kind: str, of_a_host: int, of_strangers: int, of_a_principal: int, of_everybody: int
) -> None:
    quota: Quota = getattr(ShareLimits(), kind)
    share = Share(quota)
    assert share.take(stranger("192.0.2.1"), of_a_host + 1) is not None
    for host in range(of_strangers // of_a_host):
        assert share.take(stranger(f"192.0.2.{host}"), of_a_host) is None
    assert share.held_by_strangers == of_strangers
    assert share.take(stranger("192.0.2.250")) is not None, "all strangers together"
    assert share.take(authenticated("pump"), of_a_principal + 1) is not None
    for number in range((of_everybody - of_strangers) // of_a_principal):
        assert share.take(authenticated(f"pump-{number}"), of_a_principal) is None
    left = of_everybody - share.held
    assert share.take(authenticated("last"), left + 1) is not None
    assert share.take(authenticated("last"), left) is None
    assert share.take(authenticated("nobody")) is not None, "everybody together"
    assert share.held == of_everybody
