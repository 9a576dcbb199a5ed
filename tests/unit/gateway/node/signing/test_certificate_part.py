"""Certificates of all gateways reach all, and nothing else does by that way."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgpack
import pytest
from authority import Authority
from cryptography import x509
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.node.links.node import TreeNode
from gateway.node.signing import certificate_part
from gateway.node.signing.certificate_part import CertificateKind, CertificatePart
from gateway.node.signing.fleet_keys import FleetKeys, SigningFiles
from gateway.node.signing.own import OwnKey
from gateway.node.signing.ring import fingerprint_of
from gateway.node.signing.topics import CERTIFICATES
from gateway.node.signing.trust import MAX_CERTIFICATE_BYTES, Trust
from tree_handler.errors import ProtocolError

values = st.recursive(
    st.none() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=20) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=10,
)


class Peer:
    """A gateway's part, and what it sends over its links."""

    def __init__(
        self, folder: Path, authority: Authority, name: str, wall_s: float | None = None
    ) -> None:
        self.wall_s, self.now = time.time() if wall_s is None else wall_s, 0.0
        issued = authority.issue(name, is_gateway=True)
        trusted = Trust([x509.load_pem_x509_certificate(authority.file.read_bytes())])
        files = SigningFiles(OwnKey.read(issued.certificate, issued.key), trusted)
        (folder / name).mkdir()
        self.keys = FleetKeys(files, folder / name, lambda: self.wall_s)
        self.sent: list[tuple[int, list[Any]]] = []
        self.asked_anew = 0
        node = SimpleNamespace(
            links={},
            send=lambda link, _, payload: self.sent.append((link, msgpack.unpackb(payload))),
            exchange=SimpleNamespace(take=lambda _: None),
            replication=SimpleNamespace(repair=SimpleNamespace(ask_anew=self._ask_anew)),
        )
        self.links = node.links
        self.part = CertificatePart(cast(TreeNode, node), self.keys, lambda: self.now)

    def _ask_anew(self, now: float) -> tuple[()]:
        self.asked_anew += 1
        return ()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def peers(tmp_path: Path, authority: Authority) -> list[Peer]:
    return [Peer(tmp_path, authority, name) for name in ("gw-a", "gw-b", "gw-c")]


def carry(sender: Peer, link: int, receiver: Peer, over: int) -> None:
    """Bring what one has sent over a link to the other."""
    sent, sender.sent = sender.sent, []
    for number, row in sent:
        if number == link:
            receiver.part.receive(over, CERTIFICATES, msgpack.packb(row), 0.0)
        else:
            sender.sent.append((number, row))


def link_up(one: Peer, other: Peer, number: int) -> None:
    for peer in (one, other):
        peer.links[number] = None
        peer.part.link_up(number, "", 0.0)
    for _ in range(3):
        carry(one, number, other, number)
        carry(other, number, one, number)


def carry_all(peers: list[Peer], most: int) -> int:
    """Bring over what anybody sends, until nobody does: how many messages that were.

    Links are numbered by the peers at their ends: 1 is between the first and the second.
    """
    carried = 0
    while any(peer.sent for peer in peers) and carried < most:
        for at, sender in enumerate(peers):
            sent, sender.sent = sender.sent, []
            for link, row in sent:
                other = peers[link // 10 if link % 10 == at else link % 10]
                other.part.receive(link, CERTIFICATES, msgpack.packb(row), 0.0)
                carried += 1
    return carried


@pytest.mark.parametrize("keys", [8, 9, 12])
def test_a_certificate_that_others_have_forgotten_does_not_go_round(
    peers: list[Peer], authority: Authority, keys: int
) -> None:
    for at, peer in enumerate(peers):
        for other in {0, 1, 2} - {at}:
            peer.links[min(at, other) * 10 + max(at, other)] = None
    renewed = [
        (authority.issue("gw-x", is_gateway=True, later_days=day).der,) for day in range(keys)
    ]
    for peer in peers[:2]:
        for chain in renewed:
            peer.keys.ring.add(chain)
    for chain in renewed[:-1]:  # the third was away at the last renewal
        peers[2].keys.ring.add(chain)
    for peer in peers:
        for link in peer.links:
            peer.part.link_up(link, "", 0.0)
    carry_all(peers, 500)
    assert not any(peer.sent for peer in peers)
    assert len({frozenset(one for one, _ in peer.keys.ring) for peer in peers}) == 1
    peers[2].part.receive(
        2, CERTIFICATES, msgpack.packb((int(CertificateKind.CHAINS), [renewed[0]])), 0.0
    )
    assert carry_all(peers, 500) <= 4


def test_what_one_knows_all_know_behind_two_links(peers: list[Peer]) -> None:
    a, b, c = peers
    link_up(a, b, 1)
    link_up(b, c, 2)
    carry(b, 1, a, 1)
    assert [len(peer.keys.ring) for peer in peers] == [3, 3, 3]
    assert not any(peer.sent for peer in peers)  # and then nothing is said


def test_what_was_refused_is_asked_for_when_the_certificate_is_there(peers: list[Peer]) -> None:
    a, b, _ = peers
    for _ in range(9):
        b.part.unknown("gw-a", 1)
    assert b.sent == [(1, [CertificateKind.WANT_OF, ["gw-a"]])] * 3
    carry(b, 1, a, 1)
    carry(a, 1, b, 1)
    assert b.keys.ring.knows("gw-a")
    assert b.asked_anew == 1


def test_certificates_of_nobody_are_looked_at_for_a_while_only(
    peers: list[Peer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = peers[0]
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign").issue("gw-b", is_gateway=True).der
    looked = 0
    check = Trust.check

    def count(self: Trust, chain: tuple[bytes, ...], now_s: float) -> object:
        nonlocal looked
        looked += 1
        return check(self, chain, now_s)

    monkeypatch.setattr(Trust, "check", count)
    payload = msgpack.packb((int(CertificateKind.CHAINS), [[foreign]] * 100))
    for _ in range(10):
        a.part.receive(1, CERTIFICATES, payload, 0.0)
    assert looked == certificate_part.UNTRUSTED_AT_ONCE
    assert len(a.keys.ring) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(-1, 5), values)
def test_any_message_is_taken_or_refused(peers: list[Peer], kind: int, rows: object) -> None:
    a = peers[0]
    for payload in (msgpack.packb((kind, rows)), msgpack.packb(rows)):
        with suppress(ProtocolError):
            a.part.receive(1, CERTIFICATES, payload, 0.0)
    assert len(a.keys.ring) == 1


def test_a_renewed_certificate_is_told_at_once(peers: list[Peer], authority: Authority) -> None:
    a, b, _ = peers
    link_up(a, b, 1)
    issued = authority.issue("gw-a", is_gateway=True)
    trusted = Trust([x509.load_pem_x509_certificate(authority.file.read_bytes())])
    a.keys.renew(SigningFiles(OwnKey.read(issued.certificate, issued.key), trusted))
    a.part.renewed()
    carry(a, 1, b, 1)
    assert fingerprint_of((issued.der,)) in b.keys.ring


def restart_with_another_key(peer: Peer, authority: Authority) -> bytes:
    """Have it state a key that it had; what that key signs."""
    peer.keys.begin("gw-a", 1)
    signed = peer.keys.sign(b"then")
    issued = authority.issue("gw-a", is_gateway=True)
    trusted = Trust([x509.load_pem_x509_certificate(authority.file.read_bytes())])
    peer.keys.renew(SigningFiles(OwnKey.read(issued.certificate, issued.key), trusted))
    return signed


def test_what_one_states_of_its_former_key_all_know_behind_two_links(
    peers: list[Peer], authority: Authority
) -> None:
    a, b, c = peers
    signed = restart_with_another_key(a, authority)
    b.part.unknown("gw-a", 1)
    b.sent.clear()
    link_up(b, c, 2)
    link_up(a, b, 1)
    carry(b, 2, c, 2)  # told of it, it asks
    carry(c, 2, b, 2)
    carry(b, 2, c, 2)
    for peer in (b, c):
        assert len(peer.keys.ring.former) == 1
    assert b.asked_anew == 1
    (_, statement), *_ = c.keys.ring.former
    assert c.keys.ring.former.verify("gw-a", b"then", signed, since_s=0.0, life=1)
    assert statement == a.keys.statement


def test_a_gateway_of_the_release_before_is_sent_nothing_that_it_does_not_know(
    peers: list[Peer], authority: Authority
) -> None:
    a = peers[0]
    restart_with_another_key(a, authority)
    a.links[1] = None
    a.part.link_up(1, "", 0.0)
    told = [row for _, (kind, rows) in a.sent if kind == CertificateKind.HAVE for row in rows]
    a.sent.clear()
    # It asks for all that it has not, and would end a link on which a kind comes that is not its.
    a.part.receive(1, CERTIFICATES, msgpack.packb((int(CertificateKind.WANT), told)), 0.0)
    a.part.renewed()
    assert {kind for _, (kind, _) in a.sent} <= {CertificateKind.CHAINS, CertificateKind.HAVE}


def test_statements_of_nobody_are_looked_at_for_a_while_only(
    peers: list[Peer], authority: Authority
) -> None:
    a, b, _ = peers
    restart_with_another_key(a, authority)
    statement = a.keys.statement
    assert statement is not None
    link_up(b, peers[2], 2)
    b.sent.clear()
    bent = statement.data[:-1] + bytes((statement.data[-1] ^ 1,))
    rows = [bent] * (certificate_part.UNTRUSTED_AT_ONCE + 1) + [statement.data]
    b.part.receive(1, CERTIFICATES, msgpack.packb((int(CertificateKind.FORMER), rows)), 0.0)
    assert not len(b.keys.ring.former)
    assert not b.sent


def test_who_knows_a_thousand_asks_in_messages_that_are_no_larger(peers: list[Peer]) -> None:
    a = peers[0]
    rows = [number.to_bytes(16, "big") for number in range(certificate_part.MAX_ROWS)]
    a.part.receive(1, CERTIFICATES, msgpack.packb((int(CertificateKind.HAVE), rows)), 0.0)
    assert max(len(asked) for _, (_, asked) in a.sent) <= certificate_part.MAX_ROWS
    wanted = {row for _, (_, asked) in a.sent for row in asked}
    assert wanted == {*rows, certificate_part.READS_FORMER}


DAY_S = 86_400.0


def let_time_pass(peer: Peer, until: float) -> int:
    """Let a gateway's timers be due; how many messages that made."""
    sent = 0
    while (due := peer.part.next_timer()) <= until:
        peer.wall_s += due - peer.now
        peer.now = due
        before = len(peer.sent)
        peer.part.handle_timer(due)
        sent += len(peer.sent) - before
    peer.wall_s += until - peer.now
    peer.now = until
    return sent


@pytest.mark.parametrize("wrong_s", [-10_000 * DAY_S, 100 * DAY_S], ids=["1998", "in 100 days"])
def test_what_was_refused_by_a_wrong_clock_is_asked_for_when_the_clock_is_set(
    tmp_path: Path, authority: Authority, wrong_s: float
) -> None:
    a = Peer(tmp_path, authority, "gw-a")
    signed = restart_with_another_key(a, authority)
    b = Peer(tmp_path, authority, "gw-b", wall_s=a.wall_s + wrong_s)
    link_up(a, b, 1)
    assert not len(b.keys.ring.former)
    let_time_pass(b, 5_000.0)
    carry(b, 1, a, 1)
    carry(a, 1, b, 1)
    assert not len(b.keys.ring.former)
    b.part.unknown("gw-a", 1)
    b.sent.clear()
    b.wall_s -= wrong_s  # it is set, and the link stands
    let_time_pass(b, 5_000.0 + certificate_part.LOOK_S)
    carry(b, 1, a, 1)
    carry(a, 1, b, 1)
    assert b.keys.ring.knows("gw-a")
    if not len(b.keys.ring.former):  # the certificate came behind the statement
        let_time_pass(b, b.now + certificate_part.LOOK_S)
        carry(b, 1, a, 1)
        carry(a, 1, b, 1)
    assert b.keys.ring.former.verify("gw-a", b"then", signed, since_s=0.0, life=1)
    assert b.asked_anew
    assert not let_time_pass(b, b.now + 10 * DAY_S)  # and then nothing is said


def test_what_is_never_believed_is_asked_for_ever_more_rarely(
    peers: list[Peer], tmp_path: Path
) -> None:
    a = peers[0]
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign").issue("gw-b", is_gateway=True).der
    a.links[1] = None
    payload = msgpack.packb((int(CertificateKind.CHAINS), [[foreign]]))
    a.part.receive(1, CERTIFICATES, payload, 0.0)
    asked = 0
    while a.now < 30 * DAY_S:
        asked += let_time_pass(a, a.now + 60.0)
        if a.sent:
            a.sent.clear()
            a.part.receive(1, CERTIFICATES, payload, a.now)
    assert 30 <= asked <= 45


def test_a_statement_made_by_a_clock_that_was_ahead_is_made_anew_when_it_is_set(
    tmp_path: Path, authority: Authority
) -> None:
    right_s = time.time()
    a = Peer(tmp_path, authority, "gw-a", wall_s=right_s + 400 * DAY_S)
    signed = restart_with_another_key(a, authority)
    b = Peer(tmp_path, authority, "gw-b")
    link_up(a, b, 1)
    assert not len(b.keys.ring.former)  # of a later time
    a.wall_s = right_s
    let_time_pass(a, certificate_part.LOOK_S)
    for _ in range(3):
        carry(a, 1, b, 1)
        carry(b, 1, a, 1)
    assert b.keys.ring.former.verify("gw-a", b"then", signed, since_s=0.0, life=1)


def test_who_asks_for_the_same_gateway_a_thousand_times_is_answered_once(peers: list[Peer]) -> None:
    peer = peers[0]
    row = (int(CertificateKind.WANT_OF), ["gw-a"] * certificate_part.MAX_ROWS)
    peer.part.receive(1, CERTIFICATES, msgpack.packb(row), 0.0)
    ((link, (kind, chains)),) = peer.sent
    assert (link, kind, len(chains)) == (1, CertificateKind.CHAINS, 1)


@pytest.mark.parametrize(
    "row", [b"der", [], [b"x"] * 5, ["x"], [b"x" * (MAX_CERTIFICATE_BYTES + 1)], None]
)
def test_what_is_no_chain_of_certificates_is_refused(peers: list[Peer], row: object) -> None:
    message = msgpack.packb((int(CertificateKind.CHAINS), [row]))
    with pytest.raises(ProtocolError, match="chain of certificates"):
        peers[0].part.receive(1, CERTIFICATES, message, 0.0)


def test_gateways_that_nobody_knows_are_remembered_up_to_a_number_and_the_first_goes_first(
    peers: list[Peer],
) -> None:
    a, b, c = peers
    a.part.unknown("gw-b", 1)
    for number in range(certificate_part.MAX_UNKNOWN - 1):
        a.part.unknown(f"gw-{number}", 1)
    a.part.receive(1, CERTIFICATES, said(CertificateKind.CHAINS, [b.keys.chain]), 0.0)
    assert a.asked_anew == 1  # it was known that something of gw-b was refused
    a.part.unknown("gw-c", 1)
    for number in range(certificate_part.MAX_UNKNOWN):
        a.part.unknown(f"gw-x{number}", 1)
    a.part.receive(1, CERTIFICATES, said(CertificateKind.CHAINS, [c.keys.chain]), 0.0)
    assert a.asked_anew == 1  # that of gw-c is forgotten


def test_many_certificates_go_in_messages_that_are_soon_full(
    peers: list[Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = peers
    for other in (b, c):
        a.keys.ring.add(other.keys.chain)
    monkeypatch.setattr(certificate_part, "ANSWER_BYTES", 1)
    a.part.receive(1, CERTIFICATES, said(CertificateKind.WANT_OF, ["gw-b", "gw-c", "gw-b"]), 0.0)
    assert [(row[0], len(row[1])) for _, row in a.sent] == [(CertificateKind.CHAINS, 1)] * 2
    assert a.sent[0][1][1][0] == [*b.keys.chain]


def said(kind: CertificateKind, rows: list[Any]) -> bytes:
    return bytes(msgpack.packb((int(kind), rows)))


def test_what_is_learnt_is_saved_some_seconds_later_with_what_has_come_meanwhile(
    peers: list[Peer], authority: Authority, tmp_path: Path
) -> None:
    peer = peers[0]
    file = tmp_path / "gw-a" / "certificates"

    def learns(name: str, now: float) -> None:
        chain = [authority.issue(name, is_gateway=True).der]
        row = (int(CertificateKind.CHAINS), [chain])
        peer.part.receive(1, CERTIFICATES, msgpack.packb(row), now)

    assert peer.part.next_timer() > 20.0
    learns("gw-x", 10.0)
    assert peer.part.next_timer() == 10.0 + certificate_part.SAVE_S
    learns("gw-y", 12.0)
    assert peer.part.next_timer() == 10.0 + certificate_part.SAVE_S
    peer.part.handle_timer(9.0 + certificate_part.SAVE_S)
    before = file.exists()
    peer.part.handle_timer(10.0 + certificate_part.SAVE_S)
    assert (before, file.exists()) == (False, True)
    assert peer.part.next_timer() > 20.0
