"""Goal: a peer takes the share of its host or of who it is, and no other's place."""

from __future__ import annotations

import pytest

from coap_engine.message import CoapPeer
from dtls.datagrams import PeerAddress
from dtls.identity import ANONYMOUS, LOCAL, PeerIdentity, Proof
from gateway.coap.peers import KNOWN_MAX, SessionAddress, session_peer, udp_peer
from gateway.coap.requester import plain_requester


def peer_at(host: str, port: int = 40_000) -> CoapPeer:
    return udp_peer(PeerAddress((host, port)))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_a_host_is_an_ipv4_address_or_a_64_of_ipv6(one: str, other: str, same: bool) -> None:
    assert (peer_at(one).host == peer_at(other, 40_001).host) is same
    assert peer_at(one) != peer_at(other, 40_001)


@pytest.mark.parametrize(
    ("host", "proven"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", False),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
        ("1270::1", False),
    ],
)
def test_only_this_machine_has_its_own_addresses(host: str, proven: bool) -> None:
    peer = peer_at(host)
    assert peer.is_address_proven is proven
    assert peer.principal is None


def test_sessions_are_never_equal_and_share_what_their_identity_may_take() -> None:
    address, meter = PeerAddress(("192.0.2.1", 40_000)), PeerIdentity(Proof.PSK, "meter-1")
    one, other = session_peer(1, address, meter), session_peer(2, address, meter)
    assert one != other
    assert one.host == other.host == one.principal == "psk:meter-1"
    assert one.is_address_proven


def test_a_flood_of_addresses_is_not_remembered() -> None:
    first = udp_peer(PeerAddress(("192.0.2.1", 1)))
    for port in range(2 * KNOWN_MAX):
        udp_peer(PeerAddress(("192.0.2.2", port)))
    assert udp_peer.cache_info().currsize <= KNOWN_MAX
    assert udp_peer(PeerAddress(("192.0.2.1", 1))) == first


def test_an_address_in_a_session_is_told_apart_by_the_session_alone() -> None:
    here, there = PeerAddress(("192.0.2.1", 1)), PeerAddress(("192.0.2.2", 2))
    meter = PeerIdentity(Proof.PSK, "meter-1")
    one, moved, other = (
        SessionAddress(1, here, meter), SessionAddress(1, there), SessionAddress(2, here, meter),
    )  # fmt: skip
    assert one == moved
    assert not one != moved  # noqa: SIM202  # both operators are its own
    assert one != other
    assert not one == other  # noqa: SIM201  # as above
    assert one != (1, here, meter)
    assert {one, moved, other} == {one, other}


def test_a_requester_is_told_apart_by_its_key_and_named_by_what_it_has_shown() -> None:
    address, local = PeerAddress(("192.0.2.1", 40_000)), ("192.0.2.2", 5683)
    one = plain_requester(address, local)
    assert one == plain_requester(address, local)
    assert hash(one) == hash(plain_requester(address, local))
    assert one != plain_requester(PeerAddress(("192.0.2.1", 40_001)), local)
    assert one != one.known_as(PeerIdentity(Proof.PSK, "meter-1"))
    assert repr(one) == f"<{ANONYMOUS} at coap://192.0.2.1:40000>"
    assert (one.uri_base, one.uri_base_local) == ("coap://192.0.2.1:40000", "coap://192.0.2.2")
    assert one.authenticated_claims == ()
    meter = one.known_as(PeerIdentity(Proof.PSK, "meter-1"))
    assert meter.authenticated_claims == ("psk:meter-1",)
    assert repr(meter) == "<psk:meter-1 at coap://192.0.2.1:40000>"
    assert meter.blockwise_key != one.blockwise_key
    here = plain_requester(PeerAddress(("127.0.0.1", 5683)), ("127.0.0.1", 5683))
    assert (here.identity, here.uri_base) == (LOCAL, "coap://127.0.0.1")
