"""Goal: a peer takes the share of its host or of who it is, and no other's place."""

from __future__ import annotations

import pytest

from coap_engine.message import CoapPeer
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from gateway.coap.peers import KNOWN_MAX, session_peer, udp_peer


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
