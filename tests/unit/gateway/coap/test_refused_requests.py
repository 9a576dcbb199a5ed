"""Goal: the log says who was refused what, and no flood of refusals fills it."""

from __future__ import annotations

import pytest

from coap_engine import codes
from coap_engine.message import CoapPeer, CoapRequest
from dtls.datagrams import PeerAddress
from dtls.identity import PeerIdentity, Proof
from gateway.coap.peers import OscoreAddress, session_peer, udp_peer
from gateway.coap.refused_requests import RefusedRequests
from tests.policies import access_of

AT = PeerAddress(("192.0.2.1", 40_000))
PUMP = PeerIdentity(Proof.PSK, "pump\n2026 ERROR")
LAMP = PeerIdentity(Proof.OSCORE, "lamp")


@pytest.mark.parametrize(
    ("peer", "line"),
    [
        (
            session_peer(1, AT, PUMP),
            "psk:pump\\n2026 ERROR at 192.0.2.1: /a%2Fb/\\x1b[2J: psk:pump\\n2026 ERROR (no role) "
            "may not PUT this (no_right, 1 so far)",
        ),
        (
            CoapPeer(OscoreAddress(AT, LAMP), str(LAMP), str(LAMP)),
            "oscore:lamp at 192.0.2.1: /a%2Fb/\\x1b[2J: oscore:lamp (no role) may not PUT this "
            "(no_right, 1 so far)",
        ),
        (
            udp_peer(AT),
            "a stranger at 192.0.2.1: /a%2Fb/\\x1b[2J: this needs a key (coaps) "
            "(no_proof, 1 so far)",
        ),
    ],
)
def test_a_line_says_who_asked_for_what_from_where_and_why_not(
    caplog: pytest.LogCaptureFixture, peer: CoapPeer, line: str
) -> None:
    request = CoapRequest(codes.PUT, ((11, b"a/b"), (11, b"\x1b[2J")))
    refusal = access_of().refusal(request, peer)
    assert refusal is not None
    RefusedRequests().note(request, peer, refusal, 1.0)
    assert caplog.messages == [line]


def test_a_flood_is_counted_and_has_a_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    refused, stranger = RefusedRequests(), udp_peer(AT)
    request = CoapRequest(codes.PUT, tuple((11, b"x" * 255) for _ in range(200)))
    refusal = access_of().refusal(request, stranger)
    assert refusal is not None
    for number in range(1_000):
        refused.note(request, stranger, refusal, number / 250)
    assert refused.counts == {"no_proof": 1_000, "no_right": 0}
    assert 4 <= len(caplog.messages) <= 5
    assert max(map(len, caplog.messages)) < 300
