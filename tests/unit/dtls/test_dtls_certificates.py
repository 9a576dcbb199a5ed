"""Goal: a certificate opens a session for whom it names, and any that is not good opens none.

Method: sessions of both roles, joined without a network, with certificates of a test's authority.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from authority import Authority, Issued
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from dtls_clients import CertificateClientContext, kept, server_certificates, take_up
from OpenSSL import crypto

from dtls import resumption
from dtls.certificates import SUITES, ServerCertificates, unusable_key
from dtls.context import ClientContext, Context, ServerContext
from dtls.errors import CertificateKeyError
from dtls.identity import ANONYMOUS, PeerIdentity, Proof
from dtls.session import MTU_BYTES, DtlsSession, SessionState

IDENTITY = "meter-1"
KEY = b"0123456789abcdef"
NOW = 1000.0


class Site:
    """A server with certificates and a key, and clients of its authority."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        self.folder = folder
        self.authority = authority
        self.later_s = 0.0
        self.own = authority.issue("gw", is_server=True)
        self.context = self.made()

    def made(self, *, revoked: list[bytes] | None = None) -> ServerContext:
        lists, clock = revoked or [], lambda: time.time() + self.later_s
        shown = server_certificates(self.own, self.authority, revoked=lists, wall_clock=clock)
        return ServerContext({IDENTITY.encode(): KEY}.get, shown)

    def client(self, shown: Issued | None, **more: Any) -> CertificateClientContext:
        return CertificateClientContext(shown, self.authority, **more)

    def begun(
        self, client: Context, session: Any = None
    ) -> tuple[DtlsSession, DtlsSession, list[int]]:
        """Both ends after the handshake, and how large each datagram was."""
        one, other = DtlsSession(client), DtlsSession(self.context)
        if session is not None:
            take_up(one, session)
        one.start(NOW)
        sizes = []
        while (up := one.datagrams_to_send()) or (down := other.datagrams_to_send()):
            for datagram in up:
                sizes.append(len(datagram))
                other.receive_datagram(datagram, NOW)
            for datagram in down if not up else other.datagrams_to_send():
                sizes.append(len(datagram))
                one.receive_datagram(datagram, NOW)
        return one, other, sizes

    def refused(self, client: Context) -> str:
        """Return the reason why the server refuses a client."""
        one, other, _ = self.begun(client)
        assert one.state is other.state is SessionState.CLOSED
        assert not other.was_established
        assert other.identity is ANONYMOUS
        assert "\n" not in other.reason
        return other.reason


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, Authority(tmp_path))


@pytest.mark.parametrize("ed25519", [False, True], ids=["P-256", "Ed25519"])
def test_a_certificate_opens_a_session_for_its_name_with_its_roles(
    site: Site, ed25519: bool
) -> None:
    shown = site.authority.issue("pump-7", roles=["device"], ed25519=ed25519)
    client, server, _ = site.begun(site.client(shown))
    assert client.state is server.state is SessionState.ESTABLISHED
    assert server.identity == PeerIdentity(Proof.CERTIFICATE, "pump-7", frozenset({"device"}))
    assert server.identity.der == shown.der
    assert str(server.identity) == "cert:pump-7"
    assert server.identity.may_write
    client.send(b"hello")
    (record,) = client.datagrams_to_send()
    server.receive_datagram(record, NOW)
    assert server.received() == [b"hello"]


@pytest.mark.parametrize("suite", SUITES)
def test_a_client_with_one_suite_of_certificates_alone_is_served(site: Site, suite: str) -> None:
    client, server, _ = site.begun(site.client(site.authority.issue("pump-7"), suites=[suite]))
    assert client.state is server.state is SessionState.ESTABLISHED


def test_a_certificate_without_any_extended_key_usage_is_taken(site: Site) -> None:
    _, server, _ = site.begun(site.client(site.authority.issue("pump-7", has_usage=False)))
    assert server.identity.name == "pump-7"


def test_a_certificate_comes_with_those_between_it_and_the_authority(site: Site) -> None:
    between = Authority(site.folder, "site-north", above=site.authority)
    shown = between.issue("pump-7")
    _, server, _ = site.begun(site.client(shown, between=[between.x509]))
    assert server.identity.name == "pump-7"
    assert "unable to get local issuer certificate" in site.refused(site.client(shown))


def test_no_datagram_of_a_handshake_with_long_chains_is_larger_than_the_mtu(site: Site) -> None:
    above, chain = site.authority, []
    for number in range(6):
        above = Authority(site.folder, f"between-{number}", above=above)
        chain.insert(0, above.x509)
    _, server, sizes = site.begun(site.client(above.issue("pump-7"), between=chain))
    assert server.identity.name == "pump-7"
    assert sum(sizes) > 4 * MTU_BYTES
    assert max(sizes) <= MTU_BYTES


def test_a_key_still_opens_a_session_where_there_are_certificates(site: Site) -> None:
    _, server, _ = site.begun(ClientContext(IDENTITY, KEY))
    assert server.identity == PeerIdentity(Proof.PSK, IDENTITY)
    assert site.refused(ClientContext("stranger", KEY)) == "unknown psk identity 'stranger'"


def _below(folder: Path) -> Path:
    (folder / "below").mkdir()
    return folder / "below"


def _signed_with_sha1(site: Site) -> CertificateClientContext:
    issued = site.authority.issue("pump-7")
    weak = crypto.X509.from_cryptography(issued.x509)
    weak.sign(crypto.PKey.from_cryptography_key(site.authority.key), "sha1")
    return site.client(replace(issued, x509=weak.to_cryptography()))


def _below_a_short_key(site: Site) -> CertificateClientContext:
    above = Authority(site.folder, "site-north", above=site.authority)
    short = crypto.PKey.from_cryptography_key(rsa.generate_private_key(65537, 1024))
    between, issued = crypto.X509.from_cryptography(above.x509), above.issue("pump-7")
    between.set_pubkey(short)
    between.sign(crypto.PKey.from_cryptography_key(site.authority.key), "sha256")
    shown = crypto.X509.from_cryptography(issued.x509)
    shown.sign(short, "sha256")
    shown_again = replace(issued, x509=shown.to_cryptography())
    return site.client(shown_again, between=[between.to_cryptography()])


Bad = Callable[[Site], CertificateClientContext]
BAD: dict[str, tuple[Bad, str]] = {
    "none": (lambda s: s.client(None), "peer did not return a certificate"),
    "expired": (
        lambda s: s.client(s.authority.issue("pump-7", expired=True)),
        "certificate of 'CN=pump-7': certificate has expired (2",
    ),
    "not yet valid": (
        lambda s: s.client(s.authority.issue("pump-7", is_early=True)),
        "certificate of 'CN=pump-7': certificate is not yet valid",
    ),
    "of a server": (
        lambda s: s.client(s.authority.issue("pump-7", is_server=True)),
        "certificate of 'CN=pump-7': unsuitable certificate purpose",
    ),
    "of another authority": (
        lambda s: s.client(Authority(s.folder, "rogue").issue("pump-7")),
        "certificate of 'CN=pump-7': unable to get local issuer certificate",
    ),
    "of an authority of the same name": (
        lambda s: s.client(Authority(_below(s.folder), "authority").issue("pump-7")),
        "certificate of 'CN=pump-7': ",
    ),
    "signed with a digest that is broken": (
        _signed_with_sha1,
        "certificate of 'CN=pump-7': signed with sha1",
    ),
    "below an authority with a short key": (
        _below_a_short_key,
        "certificate of 'CN=site-north': RSA with 1024 bits",
    ),
    "without a name": (
        lambda s: s.client(s.authority.issue()),
        "certificate of '': certificate with 0 common names",
    ),
    "with two names": (
        lambda s: s.client(s.authority.issue("pump-7", "gw")),
        "certificate with 2 common names",
    ),
    "with control characters": (
        lambda s: s.client(s.authority.issue("pump\r\n7")),
        "common name has control characters",
    ),
}


@pytest.mark.filterwarnings("ignore:X509:DeprecationWarning")  # it alone signs weakly
@pytest.mark.parametrize("which", BAD)
def test_a_certificate_that_is_not_good_is_refused_with_the_reason(site: Site, which: str) -> None:
    made, why = BAD[which]
    assert why in site.refused(made(site))


def test_a_client_whose_name_is_refused_is_told_that_it_is_its_certificate(site: Site) -> None:
    client, _, _ = site.begun(site.client(site.authority.issue("pump-7", "gw")))
    assert "bad certificate" in client.reason


def test_a_certificate_that_is_revoked_is_refused_and_others_are_not(site: Site) -> None:
    gone, good = site.authority.issue("pump-7"), site.authority.issue("pump-8")
    site.context = site.made(revoked=[site.authority.revoke(gone)])
    assert site.refused(site.client(gone)) == "certificate of 'CN=pump-7': certificate revoked"
    assert site.begun(site.client(good))[1].identity.name == "pump-8"


def test_a_list_that_should_have_been_renewed_refuses_all(site: Site) -> None:
    site.context = site.made(revoked=[site.authority.revoke(outdated=True)])
    assert "CRL has expired" in site.refused(site.client(site.authority.issue("pump-7")))


def test_another_key_than_the_certificate_has_is_refused(site: Site) -> None:
    shown = other = site.authority.issue("pump-7")
    while other is shown or len(other.der) != len(shown.der):
        other = site.authority.issue("pump-8")
    context = site.client(shown)
    # The client's library would not do it, so the certificate is changed on its way.
    one, server = DtlsSession(context), DtlsSession(site.context)
    one.start(NOW)
    for _ in range(4):
        for datagram in one.datagrams_to_send():
            server.receive_datagram(datagram.replace(shown.der, other.der), NOW)
        for datagram in server.datagrams_to_send():
            one.receive_datagram(datagram, NOW)
    assert server.state is SessionState.CLOSED
    assert "signature" in server.reason
    assert server.identity is ANONYMOUS


@pytest.mark.parametrize("kind", ["certificate", "key"])
def test_a_session_that_is_resumed_is_the_same_peers(site: Site, kind: str) -> None:
    shown = site.authority.issue("pump-7", roles=["device"])
    context = site.client(shown) if kind == "certificate" else ClientContext(IDENTITY, KEY)
    client, server, whole = site.begun(context)
    first = server.identity
    session = kept(client)
    client.close("enough")
    again, server, short = site.begun(context, session)
    assert again.state is server.state is SessionState.ESTABLISHED
    assert (server.identity, server.identity.der) == (first, first.der)
    assert sum(short) < sum(whole)


@pytest.mark.parametrize("kind", ["certificate", "key"])
def test_a_session_is_not_resumed_where_keys_or_lists_have_changed(site: Site, kind: str) -> None:
    shown = site.authority.issue("pump-7")
    context = site.client(shown) if kind == "certificate" else ClientContext(IDENTITY, KEY)
    client, _, whole = site.begun(context)
    session = kept(client)
    client.close("enough")
    site.context = site.made(revoked=[site.authority.revoke(shown)])
    _, server, again = site.begun(context, session)
    if kind == "certificate":
        assert server.state is SessionState.CLOSED
        assert "revoked" in server.reason
    else:
        assert sum(again) >= sum(whole)


def test_a_session_is_not_resumed_with_a_certificate_that_has_expired_meanwhile(
    site: Site,
) -> None:
    context = site.client(site.authority.issue("pump-7"))
    client, _, _ = site.begun(context)
    session = kept(client)
    client.close("enough")

    site.later_s = 2 * 24 * 3600.0
    client, server, _ = site.begun(context, session)
    assert server.reason == "certificate has expired"
    assert client.state is server.state is SessionState.CLOSED
    assert not server.was_established


def test_the_identity_of_a_key_is_found_in_every_form_of_a_session() -> None:
    identity = b"\x04\x07meter-1"
    for before in (b"", b"\xa1\x02\x02\x00", b"\xa3\x82\x01\x00" + bytes(256)):
        fields = b"\x02\x01\x01" + before + b"\xa8\x09" + identity + b"\xaa\x01\x00"
        form = b"\x30\x82" + len(fields).to_bytes(2, "big") + fields
        assert resumption.psk_identity(form) == b"meter-1"
    assert resumption.psk_identity(b"\x30\x03\x02\x01\x01") == b""


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (ec.generate_private_key(ec.SECP256R1()), ""),
        (ec.generate_private_key(ec.SECP384R1()), "a key on secp384r1"),
        (ed25519.Ed25519PrivateKey.generate(), "a key for Ed25519"),
        (rsa.generate_private_key(65537, 2048), "a key for RSA"),
    ],
)
def test_a_servers_key_is_on_p_256(key: Any, why: str) -> None:
    told = unusable_key(key)
    assert told.startswith(why)
    assert bool(told) == bool(why)


def test_a_server_with_a_key_of_another_kind_is_not_made(site: Site) -> None:
    own = site.authority.issue("gw", is_server=True, ed25519=True)
    with pytest.raises(CertificateKeyError, match="Ed25519"):
        server_certificates(own, site.authority)


def test_what_was_found_of_a_certificate_is_remembered_until_others_came(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each handshake asks who it is, and the first one looks at the certificate as well."""
    monkeypatch.setattr("dtls.certificates.REMEMBERED_MAX", 2)  # the authority's is one of them
    usual = server_certificates(site.own, site.authority)
    looked_at: list[bytes] = []

    def identify(der: bytes) -> PeerIdentity:
        looked_at.append(der)
        return usual.identify(der)

    shown = ServerCertificates(usual.own, usual.key, usual.authorities, identify, time.time)
    site.context = ServerContext({IDENTITY.encode(): KEY}.get, shown)
    one, other = (site.client(site.authority.issue(name)) for name in ("pump-7", "pump-8"))
    looks = []
    for client in (one, one, other, other, one):
        assert site.begun(client)[1].state is SessionState.ESTABLISHED
        looks.append(len(looked_at))
        looked_at.clear()
    assert looks == [2, 1, 2, 1, 2]
