"""The door for links: who may try, how often, and what is shown of those who may not."""

from __future__ import annotations

from pathlib import Path

import pytest
from authority import Authority

from gateway.mqtt import Connect, Version
from gateway.node.links.handshake import HandshakeError, NoPlaceError
from gateway.node.links.link_admission import (
    MAX_HANDSHAKES,
    MAX_HANDSHAKES_PER_ADDRESS,
    LinkAdmission,
)
from gateway.node.links.link_tls import LinkTls
from gateway.node.links.refusal import Refusal, RefusedError
from gateway.trust.tls.context import ClientCertificate, TlsFiles
from gateway.trust.tls.peer_certificate import PeerCertificate

CONNECT = Connect(Version.V311, "gw-b")
ONE, OTHER = "10.0.0.1", "10.0.0.2"
GATEWAY = frozenset(("gateway",))


def shown(door: LinkAdmission) -> list[tuple[str, str, int]]:
    """Return whose links were refused as status has it: the latest first."""
    return [(one["address"], one["why"], one["times"]) for one in door.status()]


@pytest.fixture
def tls(tmp_path: Path) -> LinkTls:
    authority = Authority(tmp_path)
    own = authority.issue("gw-a", is_gateway=True)
    kind = ClientCertificate.OPTIONAL
    return LinkTls(TlsFiles(own.certificate, own.key, kind, authority.file), "gw-a")


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        (None, "a link without a certificate"),
        (
            PeerCertificate("gw-b", frozenset(("sensor",))),
            "a link with a certificate without the role gateway",
        ),
        (PeerCertificate("gw-c", GATEWAY), "a link of 'gw-b' with the certificate of 'gw-c'"),
    ],
)
async def test_who_shows_no_certificate_of_its_own_may_not_try_and_is_shown_with_the_reason(
    tls: LinkTls, certificate: PeerCertificate | None, why: str
) -> None:
    counted: list[str] = []
    door = LinkAdmission(is_required=True, tls=tls, counted=counted.append)
    assert door.why_no_link(CONNECT, certificate, ONE) == why
    assert shown(door) == [(ONE, why, 1)]
    assert counted == []  # the listener counts it


async def test_who_shows_a_certificate_may_try_and_is_known_by_its_role(tls: LinkTls) -> None:
    door = LinkAdmission(is_required=True, tls=tls)
    assert not door.is_leaf("gw-b")
    assert door.why_no_link(CONNECT, PeerCertificate("gw-b", frozenset(("collector",))), ONE) == ""
    assert door.is_leaf("gw-b")
    assert door.why_no_link(CONNECT, PeerCertificate("gw-b", GATEWAY), ONE) == ""
    assert not door.is_leaf("gw-b")
    assert shown(door) == []


async def test_without_a_certificate_of_its_own_a_gateway_lets_nobody_try() -> None:
    door = LinkAdmission(is_required=True)
    why = "a link, and this gateway has no certificate for links"
    assert door.why_no_link(CONNECT, PeerCertificate("gw-b", GATEWAY), ONE) == why
    assert not door.is_leaf("gw-b")


@pytest.mark.parametrize(
    ("addresses", "most"),
    [
        ([ONE] * MAX_HANDSHAKES_PER_ADDRESS, MAX_HANDSHAKES_PER_ADDRESS),
        ([f"10.0.1.{n}" for n in range(MAX_HANDSHAKES)], MAX_HANDSHAKES),
    ],
)
async def test_so_many_shake_hands_at_once_of_one_address_and_in_all(
    addresses: list[str], most: int
) -> None:
    counted: list[str] = []
    door = LinkAdmission(counted=counted.append)
    under_way = []
    for address in addresses:
        assert door.why_no_link(CONNECT, None, address) == ""
        hands = door.shaking_hands(address)
        hands.__enter__()
        under_way.append(hands)
    assert len(under_way) == most
    why = "a link while too many shake hands"
    assert door.why_no_link(CONNECT, None, addresses[0]) == why
    assert counted == ["link over the limit of hand-shakes"]
    assert door.why_no_link(CONNECT, None, OTHER) == (why if most == MAX_HANDSHAKES else "")
    under_way.pop().__exit__(None, None, None)
    assert door.why_no_link(CONNECT, None, addresses[0]) == ""
    for hands in under_way:
        hands.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("error", "is_guess", "is_shown"),
    [
        (HandshakeError("proof", "gw-b"), True, True),
        (TimeoutError(), True, True),
        (ConnectionResetError(), False, True),
        (NoPlaceError("other life", 7, Refusal.OTHER_LIFE, "gw-b"), False, True),
        (NoPlaceError("linked already", "gw-b", Refusal.DUPLICATE, "gw-b"), False, False),
        (RefusedError(Refusal.OTHER_CERTIFICATE), False, True),
    ],
)
async def test_hand_shakes_that_guessed_count_against_their_address_and_no_others_do(
    error: Exception, is_guess: bool, is_shown: bool
) -> None:
    door = LinkAdmission(failures_at_once=2, failures_per_s=0.0001)
    for _ in range(3):
        with pytest.raises(type(error)), door.shaking_hands(ONE):
            raise error
    assert [times for _, _, times in shown(door)] == [3] * is_shown
    why = "a link after too many failures" if is_guess else ""
    assert door.why_no_link(CONNECT, None, ONE) == why
    assert door.why_no_link(CONNECT, None, OTHER) == ""
