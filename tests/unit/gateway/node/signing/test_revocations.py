"""Goal: a revocation list reaches all gateways, never an older one, and nobody else's does."""

from __future__ import annotations

import errno
import math
import os
import ssl
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import msgpack
import pytest
from authority import Authority, Issued
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.node.links.node import TreeNode
from gateway.node.signing import revocation_part, revoking
from gateway.node.signing.newest_lists import NewestLists
from gateway.node.signing.revocation_part import RevocationKind, RevocationPart
from gateway.node.signing.revocations import FILE_NAME, Revocations, kept_lists
from gateway.node.signing.revoking import Revoking, UntrustedListError
from gateway.node.signing.topics import REVOCATIONS
from gateway.trust.credentials import crl as crls
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles
from tree_handler.errors import ProtocolError

DAY = timedelta(days=1)
values = st.recursive(
    st.none() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=20) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=10,
)


def made(
    authority: Authority,
    number: int | None = 1,
    *revoked: Issued,
    days_ago: float = 1,
    ends_in_days: float = 1,
    extension: x509.ExtensionType | None = None,
) -> x509.CertificateRevocationList:
    """A list of an authority."""
    now = datetime.now(UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.x509.subject)
        .last_update(now - days_ago * DAY)
        .next_update(now + ends_in_days * DAY)
    )
    if number is not None:
        builder = builder.add_extension(x509.CRLNumber(number), critical=False)
    if extension is not None:
        builder = builder.add_extension(extension, critical=True)
    for issued in revoked:
        one = x509.RevokedCertificateBuilder().serial_number(issued.x509.serial_number)
        builder = builder.add_revoked_certificate(one.revocation_date(now - DAY).build())
    return builder.sign(authority.key, hashes.SHA256())


def der(crl: x509.CertificateRevocationList) -> bytes:
    return crl.public_bytes(Encoding.DER)


class Peer:
    """A gateway's part, and what it sends over its links."""

    def __init__(self, folder: Path, *authorities: Authority, wall_s: float | None = None) -> None:
        folder.mkdir()
        self.trusted = tuple(authority.x509 for authority in authorities)
        self.wall_s, self.now = time.time() if wall_s is None else wall_s, 0.0
        self.kept = Revocations(folder, lambda: self.wall_s)
        self.kept.follow(Revoking(self.trusted))
        self.sent: list[tuple[int, list[Any]]] = []
        self.told: list[str] = []
        node = SimpleNamespace(
            send=lambda link, _, payload: self.sent.append((link, msgpack.unpackb(payload)))
        )
        self.part = RevocationPart(
            cast(TreeNode, node), self.kept, self.told.append, lambda: self.now
        )

    def configure(self, *lists: x509.CertificateRevocationList) -> None:
        """Have the files say this."""
        if self.kept.follow(Revoking(self.trusted, lists)):
            self.part.announce()

    def receive(self, link: int, kind: int, rows: object) -> None:
        self.part.receive(link, REVOCATIONS, msgpack.packb((kind, rows)), self.now)


def settle(*links: tuple[Peer, Peer, int]) -> None:
    """Carry all that is sent, until nothing is."""
    while any(one.sent or other.sent for one, other, _ in links):
        for one, other, number in links:
            for sender, receiver in ((one, other), (other, one)):
                due = [row for link, row in sender.sent if link == number]
                sender.sent = [sent for sent in sender.sent if sent[0] != number]
                for kind, rows in due:
                    receiver.receive(number, kind, rows)


def link_up(*links: tuple[Peer, Peer, int]) -> None:
    for one, other, number in links:
        one.part.link_up(number, "other", 0.0)
        other.part.link_up(number, "one", 0.0)
    settle(*links)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def name(authority: Authority) -> bytes:
    return crls.name_of(authority.x509)


@pytest.fixture
def line(tmp_path: Path, authority: Authority) -> tuple[Peer, Peer, Peer]:
    a, b, c = (Peer(tmp_path / one, authority) for one in "abc")
    return a, b, c


def test_a_list_that_one_reads_goes_on_to_all_and_then_nothing_is_said(
    line: tuple[Peer, Peer, Peer],
    authority: Authority,
) -> None:
    a, b, c = line
    links = ((a, b, 1), (b, c, 2))
    link_up(*links)
    crl = made(authority, 7)
    a.configure(crl)
    settle(*links)
    assert a.kept.lists == b.kept.lists == c.kept.lists == (crl,)
    assert (a.told, b.told, c.told) == ([], ["one"], ["one"])


def test_who_links_later_is_told(line: tuple[Peer, Peer, Peer], authority: Authority) -> None:
    a, b, _ = line
    crl = made(authority, 7)
    b.configure(crl)
    link_up((a, b, 1))
    assert a.kept.lists == (crl,)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"number": 1}, {"number": 2, "days_ago": 2}),
        ({"number": 2, "days_ago": 2}, {"number": 2, "days_ago": 1}),
        ({"number": None, "days_ago": 0.5}, {"number": 0}),
    ],
    ids=["number", "thisUpdate", "none"],
)
def test_the_newer_one_counts_whichever_comes_first(
    tmp_path: Path, authority: Authority, name: bytes, older: dict[str, Any], newer: dict[str, Any]
) -> None:
    old, new = made(authority, **older), made(authority, **newer)
    peer = Peer(tmp_path / "a", authority)
    assert peer.kept.take(name, der(old))
    assert peer.kept.take(name, der(new))
    assert not peer.kept.take(name, der(old))
    assert peer.kept.lists == (new,)
    peer.configure(old)  # from a file neither
    assert peer.kept.lists == (new,)


def test_a_restart_has_what_was_handed_over(
    tmp_path: Path, authority: Authority, name: bytes
) -> None:
    peer = Peer(tmp_path / "a", authority)
    crl = made(authority, 3)
    peer.kept.take(name, der(crl))
    assert Revocations(tmp_path / "a").lists == (crl,)


def test_an_authority_that_counts_anew_is_told_of(
    tmp_path: Path, authority: Authority, name: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    peer = Peer(tmp_path / "a", authority)
    peer.kept.take(name, der(made(authority, 5)))
    peer.configure(made(authority, 4, days_ago=2))
    assert not caplog.messages  # a file of before: neighbours are there for that
    peer.configure(made(authority, 1, days_ago=0.5))
    assert "number 1, and an earlier one has 5: it does not count" in caplog.text


def test_a_damaged_file_is_none(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"-----BEGIN X509 CRL-----\nAAAA\n")
    assert Revocations(tmp_path).lists == ()


def test_without_its_authority_a_list_counts_for_nothing_and_is_there_when_that_is_trusted_again(
    tmp_path: Path, authority: Authority, name: bytes
) -> None:
    peer = Peer(tmp_path / "a", authority)
    peer.kept.take(name, der(made(authority, 7)))
    peer.kept.follow(Revoking())
    assert peer.kept.editions == {}
    again = Revocations(tmp_path / "a")
    again.follow(Revoking())
    again.follow(Revoking((authority.x509,)))
    assert {number for number, _ in again.editions.values()} == {7}


def test_where_nobody_may_revoke_no_list_is_asked_for_nor_taken(
    tmp_path: Path, authority: Authority, name: bytes
) -> None:
    kept = Revocations(tmp_path)
    assert not kept.follow(Revoking())
    assert not kept.is_newer(name, (7, 0.0))
    assert kept.encoded(name) is None
    with pytest.raises(UntrustedListError, match="authority that is not trusted"):
        kept.take(name, der(made(authority, 7)))
    assert kept.save() == ""
    assert not (tmp_path / FILE_NAME).exists()


def test_lists_are_taken_as_soon_as_a_reload_names_who_may_revoke(
    tmp_path: Path, authority: Authority, name: bytes
) -> None:
    kept = Revocations(tmp_path)
    kept.follow(Revoking())
    kept.follow(Revoking((authority.x509,)))
    assert kept.take(name, der(made(authority, 7)))
    assert Revocations(tmp_path).lists == kept.lists


def test_lists_of_authorities_that_nobody_trusts_are_bounded(tmp_path: Path) -> None:
    (folder := tmp_path / "a").mkdir()
    kept = Revocations(folder)
    for number in range(revoking.MAX_AUTHORITIES + 3):
        authority = Authority(tmp_path, f"authority-{number}")
        kept.follow(Revoking((authority.x509,), (made(authority),)))
    assert len(kept.lists) == revoking.MAX_AUTHORITIES + 1


def test_a_start_does_not_go_on_without_lists_that_cannot_be_read_and_leaves_them(
    tmp_path: Path, authority: Authority, name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer(tmp_path / "a", authority)
    peer.kept.take(name, der(made(authority, 7)))
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(OSError, match="Too many open files"):
            Revocations(tmp_path / "a")
    assert len(Revocations(tmp_path / "a").lists) == 1


def bad_lists(tmp_path: Path, authority: Authority) -> dict[str, bytes]:
    (tmp_path / "foreign").mkdir()
    impostor = Authority(tmp_path / "foreign", "authority")
    partial = x509.DeltaCRLIndicator(1)
    return {
        "not signed by it": der(made(impostor, 9)),
        "a part of one": der(made(authority, 9, extension=partial)),
        "ended": der(made(authority, 9, ends_in_days=-0.5)),
        "not yet": der(made(authority, 9, days_ago=-0.5)),
        "no list": b"\x30\x03abc",
    }


def test_what_proves_nothing_is_not_taken(
    tmp_path: Path, authority: Authority, name: bytes
) -> None:
    peer = Peer(tmp_path / "a", authority)
    for why, data in bad_lists(tmp_path, authority).items():
        with pytest.raises(UntrustedListError):
            peer.kept.take(name, data)
        assert peer.kept.lists == (), why


def test_a_neighbour_that_hands_over_bad_ones_is_not_asked_for_a_while(
    line: tuple[Peer, Peer, Peer], tmp_path: Path, authority: Authority, name: bytes
) -> None:
    a = line[0]
    bad = bad_lists(tmp_path, authority)["not signed by it"]
    a.part.link_up(1, "liar", 0.0)
    for number in range(1, 20):
        a.receive(1, RevocationKind.HAVE, [[name, bytes((number,)), 0]])
        a.receive(1, RevocationKind.LIST, [[name, bad]])
    assert a.sent == [(1, [RevocationKind.WANT, [name]])] * revocation_part.UNTRUSTED_AT_ONCE
    a.part.link_down(1, 0.0)
    a.part.link_up(2, "liar", 0.0)  # over another link it is the same
    a.sent.clear()
    a.receive(2, RevocationKind.HAVE, [[name, b"\x09", 0]])
    assert not a.sent
    a.part.link_up(3, "honest", 0.0)
    a.receive(3, RevocationKind.HAVE, [[name, b"\x09", 0]])
    assert a.sent == [(3, [RevocationKind.WANT, [name]])]


def test_what_nobody_asked_for_is_not_looked_at(
    line: tuple[Peer, Peer, Peer], authority: Authority, name: bytes
) -> None:
    a = line[0]
    a.part.link_up(1, "b", 0.0)
    a.receive(1, RevocationKind.LIST, [[name, der(made(authority))]])
    assert a.kept.lists == ()


def test_lists_of_an_authority_that_is_not_trusted_are_not_asked_for(
    line: tuple[Peer, Peer, Peer], tmp_path: Path
) -> None:
    (tmp_path / "foreign").mkdir()
    stranger = crls.name_of(Authority(tmp_path / "foreign", "other").x509)
    a = line[0]
    a.part.link_up(1, "b", 0.0)
    a.receive(1, RevocationKind.HAVE, [[stranger, b"\x09", 0]])
    assert not a.sent


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(-1, 4), values)
def test_any_message_is_taken_or_refused(
    line: tuple[Peer, Peer, Peer], kind: int, rows: object
) -> None:
    a = line[0]
    for payload in (msgpack.packb((kind, rows)), msgpack.packb(rows)):
        with suppress(ProtocolError):
            a.part.receive(1, REVOCATIONS, payload, 0.0)
    assert a.kept.lists == ()


class TestUnited:
    @pytest.fixture
    def server(self, authority: Authority) -> Issued:
        return authority.issue("localhost", is_server=True)

    def tls(self, authority: Authority, server: Issued, crl: Path | None, *spread: crls.Crl) -> Tls:
        own = (server.certificate, server.key, ClientCertificate.REQUIRED, authority.file)
        return Tls(TlsFiles(*own, crl, spread))

    def test_the_newer_of_file_and_neighbour_counts(
        self, tmp_path: Path, authority: Authority, server: Issued
    ) -> None:
        alice = authority.issue("alice")
        before, after = made(authority, 1), made(authority, 2, alice)
        path = tmp_path / "crl.pem"
        path.write_bytes(before.public_bytes(Encoding.PEM))
        told = self.tls(authority, server, path, after)
        assert told.revoked == [after]
        assert not told.still_accepts(alice.der, told)
        path.write_bytes(after.public_bytes(Encoding.PEM))
        assert self.tls(authority, server, path, before).revoked == [after]

    def test_a_file_that_has_ended_is_of_use_beside_a_newer_list_and_not_the_other_way(
        self, tmp_path: Path, authority: Authority, server: Issued
    ) -> None:
        ended, current = made(authority, 1, ends_in_days=-0.5), made(authority, 2)
        path = tmp_path / "crl.pem"
        path.write_bytes(ended.public_bytes(Encoding.PEM))
        assert self.tls(authority, server, path, current).revoked == [current]
        path.write_bytes(current.public_bytes(Encoding.PEM))
        newer = made(authority, 3, ends_in_days=-0.5)
        told = self.tls(authority, server, path, newer)
        assert told.revoked == [newer]  # so every certificate is refused
        (over,) = told.over
        assert "the newer list that a neighbour handed over was to be renewed until" in str(over)

    def test_without_a_file_lists_count_where_all_authorities_have_one(
        self, tmp_path: Path, authority: Authority, server: Issued
    ) -> None:
        crl = made(authority, 1)
        assert self.tls(authority, server, None, crl).revoked == [crl]
        other = Authority(tmp_path, "other")
        authority.file.write_bytes(authority.file.read_bytes() + other.file.read_bytes())
        told = self.tls(authority, server, None, crl)
        assert told.revoked == []
        assert not told.context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF
        both = self.tls(authority, server, None, crl, made(other, 1))
        assert len(both.revoked) == 2
        assert both.context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF

    def test_a_part_of_a_list_is_never_in_place_of_a_whole_one(
        self, tmp_path: Path, authority: Authority, server: Issued
    ) -> None:
        whole, part = made(authority, 1), made(authority, 2, extension=x509.DeltaCRLIndicator(1))
        path = tmp_path / "crl.pem"
        path.write_bytes(whole.public_bytes(Encoding.PEM))
        assert self.tls(authority, server, path, part).revoked == [whole]


def test_a_list_that_was_refused_by_a_wrong_clock_is_asked_for_when_the_clock_is_set(
    tmp_path: Path, authority: Authority
) -> None:
    a = Peer(tmp_path / "a", authority)
    b = Peer(tmp_path / "b", authority, wall_s=0.0)  # 1970: the board has no clock
    a.configure(made(authority))
    link_up((a, b, 1))
    assert b.kept.editions == {}
    assert b.part.next_timer() < math.inf
    b.wall_s, b.now = a.wall_s, b.part.next_timer()
    b.part.handle_timer(b.now)
    settle((a, b, 1))
    assert b.kept.editions == a.kept.editions
    b.part.handle_timer(b.part.next_timer())
    assert b.part.next_timer() == math.inf  # and a still network says nothing


def test_a_list_that_is_never_valid_is_asked_for_ever_more_rarely(
    tmp_path: Path, authority: Authority
) -> None:
    a = Peer(tmp_path / "a", authority)
    b = Peer(tmp_path / "b", authority, wall_s=0.0)
    a.configure(made(authority))
    link_up((a, b, 1))
    asked = 0
    while b.now < 30 * 86_400.0:
        b.wall_s = b.now = b.part.next_timer()
        b.part.handle_timer(b.now)
        asked += len(b.sent)
        settle((a, b, 1))
    assert 30 <= asked <= 45


def test_a_list_is_taken_of_an_authority_that_is_trusted_and_up_to_its_size(
    tmp_path: Path,
) -> None:
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    newest = NewestLists(Revoking((ours.x509,)), ())
    name, now = crls.name_of(ours.x509), datetime.now(UTC)
    assert newest.encoded(name) is None
    with pytest.raises(UntrustedListError, match="too large, bytes: 1048577"):
        newest.take(name, bytes((1 << 20) + 1), now)
    with pytest.raises(UntrustedListError, match="of an authority that is not trusted"):
        newest.take(crls.name_of(other.x509), der(made(other)), now)
    first = der(made(ours, 1))
    assert newest.take(name, first, now)
    assert not newest.take(name, first, now)
    assert newest.encoded(name) == first
    assert not newest.is_newer(crls.name_of(other.x509), (9, 9.0))


def test_who_only_looks_reads_the_lists_that_are_whole_and_leaves_a_damaged_file(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    assert kept_lists(tmp_path) == []
    whole = made(authority).public_bytes(Encoding.PEM)
    file = tmp_path / FILE_NAME
    file.write_bytes(whole + whole[:100])
    assert [der(one) for one in kept_lists(tmp_path)] == [der(x509.load_pem_x509_crl(whole))]
    assert file.read_bytes() == whole + whole[:100]
    assert kept_lists(tmp_path / "missing") == []


def test_lists_that_could_not_be_kept_are_kept_by_the_next_save_and_by_none_behind_it(
    tmp_path: Path, authority: Authority
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    kept = Revocations(folder)
    away = folder.rename(tmp_path / "away")
    assert kept.follow(Revoking((authority.x509,), (made(authority, 7),)))
    assert "No such file or directory" in kept.save()
    away.rename(folder)
    assert not kept_lists(folder)
    assert kept.save() == ""
    assert [der(one) for one in kept_lists(folder)] == [der(one) for one in kept.lists]
    assert len(kept.lists) == 1
    (folder / FILE_NAME).unlink()
    assert kept.save() == ""
    assert not (folder / FILE_NAME).exists()
    assert kept.follow(Revoking((authority.x509,), (made(authority, 8),)))
    assert (folder / FILE_NAME).exists()
