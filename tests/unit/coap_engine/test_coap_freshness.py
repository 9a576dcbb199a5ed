"""Echo (RFC 9175, section 2): who has to show one, and which one counts."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coap_engine import codes, option_numbers
from coap_engine.freshness import Freshness, FreshnessRules
from coap_engine.message import CoapPeer

PEER = CoapPeer(("192.0.2.1", 5683), "192.0.2.1")
NEIGHBOUR = dataclasses.replace(PEER, address=("192.0.2.1", 5684))
SESSION = CoapPeer(("session", 1), "pump", "pump", is_address_proven=True)


def freshness(rules: FreshnessRules | None = None) -> Freshness:
    secrets = itertools.count(1)
    return Freshness(
        lambda length: next(secrets).to_bytes(length, "big"), rules or FreshnessRules()
    )


def test_rfc_9175_section_2_3_a_request_is_challenged_and_comes_again_with_the_echo() -> None:
    echoes = freshness()
    assert echoes.is_needed_to_act(PEER, codes.PUT, 5.0)
    challenge = echoes.challenge(PEER, 5.0)
    ((number, echo),) = challenge.options
    assert (challenge.code, number, len(echo)) == (codes.UNAUTHORIZED, option_numbers.ECHO, 8)
    assert echoes.check(PEER, echo, 6.0)
    assert not echoes.is_needed_to_act(PEER, codes.PUT, 6.0)
    assert (echoes.asked, echoes.refused) == (1, 0)


@pytest.mark.parametrize("other", [NEIGHBOUR, dataclasses.replace(PEER, address=("192.0.2.2", 1))])
def test_an_echo_is_good_for_its_address_only(other: CoapPeer) -> None:
    echoes = freshness()
    assert not echoes.check(other, echoes.echo(PEER, 5.0), 5.0)
    assert not echoes.is_proven(other, 5.0)
    assert echoes.refused == 1


@given(
    asked_at=st.floats(0, 1e6),
    waited_s=st.floats(0, 400),
    before=st.lists(st.floats(0, 1e6), max_size=3),
)
def test_an_echo_is_good_for_one_window_at_least_and_two_at_most(
    asked_at: float, waited_s: float, before: list[float]
) -> None:
    echoes = freshness(FreshnessRules(window_s=60.0))
    for now in sorted(now for now in before if now < asked_at):
        echoes.echo(NEIGHBOUR, now)
    is_good = echoes.check(PEER, echoes.echo(PEER, asked_at), asked_at + waited_s)
    if waited_s < 59.999:
        assert is_good
    if waited_s > 120.001:
        assert not is_good


def test_an_echo_of_long_ago_is_never_good_again() -> None:
    echoes = freshness(FreshnessRules(window_s=1.0))
    old = echoes.echo(PEER, 0.0)
    assert not any(echoes.check(PEER, old, float(now)) for now in range(2, 400))


@given(st.binary(max_size=50))
def test_no_other_bytes_are_an_echo(echo: bytes) -> None:
    echoes = freshness()
    assert not echoes.check(PEER, echo, 5.0)


def test_two_processes_do_not_take_each_others_echoes() -> None:
    first = Freshness(bytes)
    second = Freshness(lambda length: b"\x01" * length)
    assert not second.check(PEER, first.echo(PEER, 5.0), 5.0)


def test_reads_need_no_echo_and_writes_do_until_the_address_is_proven() -> None:
    echoes = freshness()
    needed = {code for code in range(1, 8) if echoes.is_needed_to_act(PEER, code, 0.0)}
    assert needed == {codes.POST, codes.PUT, codes.DELETE, codes.PATCH, codes.IPATCH}
    assert not any(echoes.is_needed_to_act(SESSION, code, 0.0) for code in range(1, 8))
    assert not freshness(FreshnessRules(writes=False)).is_needed_to_act(PEER, codes.PUT, 0.0)


def test_rfc_9175_section_2_4_no_answer_is_more_than_three_times_the_request() -> None:
    echoes = freshness()
    assert not echoes.is_needed_to_answer(PEER, 4, 136, 0.0)
    assert echoes.is_needed_to_answer(PEER, 4, 137, 0.0)
    assert not echoes.is_needed_to_answer(PEER, 20, 184, 0.0)
    assert echoes.is_needed_to_answer(PEER, 20, 185, 0.0)
    assert not echoes.is_needed_to_answer(SESSION, 20, 1_033, 0.0)
    echoes.check(PEER, echoes.echo(PEER, 0.0), 0.0)
    assert not echoes.is_needed_to_answer(PEER, 20, 1_033, 0.0)


def test_a_proven_address_is_proven_for_some_minutes() -> None:
    echoes = freshness(FreshnessRules(proven_s=300.0))
    echoes.check(PEER, echoes.echo(PEER, 10.0), 10.0)
    assert echoes.is_proven(PEER, 309.0)
    assert not echoes.is_proven(PEER, 310.0)
    assert echoes.remembered == 0


def test_few_addresses_are_remembered_as_proven_and_the_first_is_forgotten_first() -> None:
    echoes = freshness(FreshnessRules(proven_peers=2))
    peers = [dataclasses.replace(PEER, address=("192.0.2.1", port)) for port in range(3)]
    for peer in peers:
        assert echoes.check(peer, echoes.echo(peer, 0.0), 0.0)
    assert [echoes.is_proven(peer, 1.0) for peer in peers] == [False, True, True]
    assert echoes.remembered == 2
