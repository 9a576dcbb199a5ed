"""Any gateway can check another gateway's signature by the fleet's authority alone."""

from __future__ import annotations

import functools
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from authority import DAY, Authority, Issued
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.node.links.handshake import HandshakeError
from gateway.node.links.link_tls import LinkTls
from gateway.node.signing.fleet_keys import FleetKeys, SigningFiles
from gateway.node.signing.own import OwnKey
from gateway.node.signing.ring import MAX_KEYS, CertificateRing, fingerprint_of
from gateway.node.signing.trust import Trust, UntrustedError
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import ClientCertificate, TlsFiles
from tree_handler.proof import MAX_SIGNATURE_BYTES, Verdict, context
from tree_handler.seal import Seals
from tree_handler.spanning.election import Identity

MESSAGE = context("batch 1", "hedgerow") + b"a digest"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def own(issued: Issued) -> OwnKey:
    return OwnKey.read(issued.certificate, issued.key)


def trust(*authorities: Authority, revoked: bytes | None = None) -> Trust:
    lists = [] if revoked is None else [x509.load_pem_x509_crl(revoked)]
    found = [x509.load_pem_x509_certificate(one.file.read_bytes()) for one in authorities]
    return Trust(found, lists)


def ring(*authorities: Authority, revoked: bytes | None = None) -> CertificateRing:
    return CertificateRing(trust(*authorities, revoked=revoked), time.time())


@pytest.mark.parametrize("ed25519", [False, True])
def test_what_a_gateway_signs_is_proven_to_who_has_its_certificate(
    authority: Authority, ed25519: bool
) -> None:
    a = own(authority.issue("gw-a", is_gateway=True, ed25519=ed25519))
    keys = ring(authority)
    signature = a.signer.sign(MESSAGE)
    assert len(signature) <= MAX_SIGNATURE_BYTES
    assert keys.verify("gw-a", MESSAGE, signature) is Verdict.UNKNOWN
    assert keys.add(a.chain) == "gw-a"
    assert keys.add(a.chain) is None  # it is there
    assert keys.verify("gw-a", MESSAGE, signature) is Verdict.PROVEN
    assert keys.verify("gw-a", MESSAGE + b"!", signature) is Verdict.FORGED
    assert not keys.verify("gw-b", MESSAGE, signature)


def test_one_member_can_not_sign_for_another(authority: Authority) -> None:
    a, b = (own(authority.issue(name, is_gateway=True)) for name in ("gw-a", "gw-b"))
    keys = ring(authority)
    keys.add(a.chain)
    keys.add(b.chain)
    forged = b.signer.sign(MESSAGE)
    posing = a.signer.sign(b"")[:4] + forged[4:]
    assert keys.verify("gw-a", MESSAGE, forged) is Verdict.UNKNOWN
    assert keys.verify("gw-a", MESSAGE, posing) is Verdict.FORGED


@given(signature=st.binary(max_size=300), message=st.binary(max_size=100))
def test_no_bytes_are_a_signature_by_chance(signature: bytes, message: bytes) -> None:
    keys, prefix = _any_ring()
    for text in (signature, prefix + signature):
        assert keys.verify("gw-a", message, text) is not Verdict.PROVEN


_RINGS: list[tuple[CertificateRing, bytes]] = []


def _any_ring() -> tuple[CertificateRing, bytes]:
    if not _RINGS:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(Path(folder))
            a = own(authority.issue("gw-a", is_gateway=True))
            keys = ring(authority)
            keys.add(a.chain)
            _RINGS.append((keys, a.signer.sign(b"")[:4]))
    return _RINGS[0]


def test_only_a_certificate_of_a_gateway_of_this_fleet_is_believed(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign", "foreign")
    keys = ring(authority)
    for issued in (
        foreign.issue("gw-a", is_gateway=True),
        authority.issue("gw-a", is_server=True),  # without the role
        authority.issue("gw-a", roles=["gateway"]),  # a client's alone
        authority.issue("GW A", is_gateway=True),
        authority.issue("gw-a", "gw-b", is_gateway=True),
        authority.issue(is_gateway=True),
    ):
        with pytest.raises(UntrustedError):
            keys.add((issued.der,))
    for chain in ((), (b"no certificate",), (bytes(100_000),)):
        with pytest.raises(UntrustedError):
            keys.add(chain)
    assert not len(keys)


def test_a_renewed_certificate_leaves_what_the_old_one_signed_proven(
    authority: Authority, tmp_path: Path
) -> None:
    (tmp_path / "next").mkdir()
    following = Authority(tmp_path / "next", "next")
    before = own(authority.issue("gw-a", is_gateway=True))
    after = own(following.issue("gw-a", is_gateway=True))
    keys = ring(authority, following)
    for one in (before, after):
        keys.add(one.chain)
    for one in (before, after):
        assert keys.verify("gw-a", MESSAGE, one.signer.sign(MESSAGE))
    assert keys.follow_trust(trust(following)) == {"gw-a"}
    assert not keys.verify("gw-a", MESSAGE, before.signer.sign(MESSAGE))
    assert keys.verify("gw-a", MESSAGE, after.signer.sign(MESSAGE))


def test_what_a_revoked_certificate_signed_is_not_proven_any_more(authority: Authority) -> None:
    issued = authority.issue("gw-a", is_gateway=True)
    a, b = own(issued), own(authority.issue("gw-b", is_gateway=True))
    keys = ring(authority, revoked=authority.revoke())
    keys.add(a.chain)
    keys.add(b.chain)
    assert keys.follow_trust(trust(authority, revoked=authority.revoke(issued))) == {"gw-a"}
    assert keys.verify("gw-a", MESSAGE, a.signer.sign(MESSAGE)) is Verdict.UNKNOWN
    assert keys.verify("gw-b", MESSAGE, b.signer.sign(MESSAGE))
    with pytest.raises(UntrustedError, match="revoked"):
        keys.add(a.chain)


def test_a_key_counts_while_its_certificate_does_and_for_what_was_kept_a_while_longer(
    authority: Authority,
) -> None:
    a = own(authority.issue("gw-a", is_gateway=True))  # from yesterday until tomorrow
    now_s, day_s = time.time(), DAY.total_seconds()
    keys = CertificateRing(trust(authority), now_s)
    keys.add(a.chain)
    signature = a.signer.sign(MESSAGE)
    keys.follow_time(now_s + 2 * day_s)
    assert not keys.verify("gw-a", MESSAGE, signature)
    assert keys.verify("gw-a", MESSAGE, signature, late_s=3 * day_s)
    keys.follow_time(now_s + 5 * day_s)
    assert not keys.verify("gw-a", MESSAGE, signature, late_s=3 * day_s)


def test_so_many_certificates_of_a_gateway_are_kept_and_the_oldest_goes(
    authority: Authority,
) -> None:
    first = own(authority.issue("gw-a", is_gateway=True, expired=True))
    others = [own(authority.issue("gw-a", is_gateway=True)) for _ in range(MAX_KEYS)]
    keys = ring(authority)
    for one in (first, *others):
        keys.add(one.chain)
    assert len(keys) == MAX_KEYS
    assert fingerprint_of(first.chain) not in keys
    assert all(keys.verify("gw-a", MESSAGE, one.signer.sign(MESSAGE)) for one in others)


def test_a_certificate_older_than_all_that_are_kept_is_not_new(authority: Authority) -> None:
    issued = [
        own(authority.issue("gw-a", is_gateway=True, later_days=day)) for day in range(MAX_KEYS + 1)
    ]
    keys = ring(authority)
    assert [keys.add(one.chain) for one in issued] == ["gw-a"] * (MAX_KEYS + 1)
    before = {fingerprint for fingerprint, _ in keys}
    for _ in range(3):
        assert keys.add(issued[0].chain) is None
    assert {fingerprint for fingerprint, _ in keys} == before


@given(order=st.permutations(range(MAX_KEYS + 4)))
@settings(max_examples=20, deadline=None)
def test_rings_that_were_told_in_any_order_keep_the_same_certificates(order: list[int]) -> None:
    trusted, chains = _many_certificates_of_one_gateway()
    keys = CertificateRing(trusted, time.time())
    for at in order:
        keys.add(chains[at])
    expected = CertificateRing(trusted, time.time())
    for chain in chains:
        expected.add(chain)
    assert {one for one, _ in keys} == {one for one, _ in expected}
    assert [keys.add(chain) for chain in chains] == [None] * len(chains)  # and nothing is new


@functools.cache
def _many_certificates_of_one_gateway() -> tuple[Trust, list[tuple[bytes, ...]]]:
    """Some of them begin in the same second."""
    days = [number // 4 for number in range(MAX_KEYS + 4)]
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        some = [authority.issue("gw-a", is_gateway=True, later_days=day) for day in days]
    return Trust([authority.x509]), [(one.der,) for one in some]


def test_in_a_full_ring_a_gateway_whose_certificates_have_ended_makes_room(
    authority: Authority,
) -> None:
    gone = [authority.issue(f"gone-{n}", is_gateway=True, later_days=-3 - n) for n in range(2)]
    here = [authority.issue(f"gw-{n}", is_gateway=True) for n in range(3)]
    keys = CertificateRing(trust(authority), time.time(), max_gateways=3)
    for one in (*gone, *here[:2]):
        keys.add((one.der,))
    assert [keys.knows(name) for name in ("gone-0", "gone-1")] == [True, False]
    with pytest.raises(UntrustedError, match="too many"):
        keys.add((gone[1].der,))  # what has ended drives nobody out: it would go round for ever
    assert keys.add((here[2].der,)) == "gw-2"
    assert not keys.knows("gone-0")
    with pytest.raises(UntrustedError, match="too many"):
        keys.add((authority.issue("gw-9", is_gateway=True).der,))


def test_a_key_that_signs_nothing_here_is_named(tmp_path: Path, authority: Authority) -> None:
    issued = authority.issue("gw-a", is_gateway=True)
    key = tmp_path / "encrypted.pem"
    key.write_bytes(b"no key")
    key.chmod(0o600)
    with pytest.raises(TlsFileError, match=r"encrypted\.pem"):
        OwnKey.read(issued.certificate, key)


def test_what_is_signed_says_for_which_tree_and_what_it_is() -> None:
    assert len({context("batch 1", "a"), context("batch 1", "b"), context("request 1", "a")}) == 3


def test_a_start_knows_the_certificates_that_the_last_one_was_told_of(
    authority: Authority, tmp_path: Path
) -> None:
    a, b = (own(authority.issue(name, is_gateway=True)) for name in ("gw-a", "gw-b"))
    files = SigningFiles(a, trust(authority))
    keys = FleetKeys(files, tmp_path)
    keys.ring.add(b.chain)
    keys.save()
    again = FleetKeys(files, tmp_path)
    assert again.ring.verify("gw-b", MESSAGE, b.signer.sign(MESSAGE))
    assert again.ring.verify("gw-a", MESSAGE, again.sign(MESSAGE))
    (tmp_path / "certificates").write_bytes(b"damaged")
    assert len(FleetKeys(files, tmp_path).ring) == 1


def test_a_gateway_signs_with_a_renewed_key_at_once_and_goes_on_believing_what_counts(
    authority: Authority, tmp_path: Path
) -> None:
    before, after = (own(authority.issue("gw-a", is_gateway=True)) for _ in range(2))
    keys = FleetKeys(SigningFiles(before, trust(authority)), tmp_path)
    signature = keys.sign(MESSAGE)
    assert keys.renew(SigningFiles(after, trust(authority))) == set()
    assert keys.sign(MESSAGE)[:4] != signature[:4]
    assert keys.ring.verify("gw-a", MESSAGE, signature)
    assert keys.ring.verify("gw-a", MESSAGE, keys.sign(MESSAGE))


def test_a_life_that_began_with_an_earlier_certificate_still_stands_for_election(
    authority: Authority,
) -> None:
    issued = own(authority.issue("gw-a", is_gateway=True))
    now_s = time.time()
    keys = CertificateRing(trust(authority), now_s)
    keys.add(issued.chain)
    seals = Seals(issued.signer, keys, "t")
    root = seals.stands(Identity("gw-a", 1, 1.0, "127.0.0.1")).root
    keys.follow_time(now_s + 200 * DAY.total_seconds())
    assert seals.is_candidate(root)
    assert not keys.verify("gw-a", MESSAGE, issued.signer.sign(MESSAGE))


def of_kind(
    authority: Authority, folder: Path, key: ec.EllipticCurvePrivateKey, *extensions: Any
) -> Issued:
    """A gateway's certificate for a key, with these extensions alone beside its role."""
    role = x509.UniformResourceIdentifier("urn:hedgerow:role:gateway")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw-a")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(authority.x509.subject)
    builder = builder.public_key(key.public_key()).serial_number(7).not_valid_before(now - DAY)
    builder = builder.not_valid_after(now + DAY)
    for extension in (x509.SubjectAlternativeName([role]), *extensions):
        builder = builder.add_extension(extension, critical=False)
    made = builder.sign(authority.key, hashes.SHA256())
    certificate, key_file = folder / "made.pem", folder / "made.key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    key_file.chmod(0o600)
    return Issued(certificate, key_file, made)


def test_a_certificate_without_usages_is_for_all_and_one_that_signs_nothing_is_none(
    authority: Authority, tmp_path: Path
) -> None:
    key, trusted = ec.generate_private_key(ec.SECP256R1()), trust(authority)
    bare = of_kind(authority, tmp_path, key)
    facts = trusted.check((bare.der,), time.time())
    assert (facts.gateway_id, facts.only_receives) == ("gw-a", False)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_cert_sign"), False
    ) | dict.fromkeys(("crl_sign", "encipher_only", "decipher_only"), False)
    for signs in (True, False):
        told = x509.KeyUsage(digital_signature=signs, key_agreement=True, **usage)
        issued = of_kind(authority, tmp_path, key, told)
        if signs:
            assert trusted.check((issued.der,), time.time()).gateway_id == "gw-a"
            continue
        with pytest.raises(UntrustedError, match="not for signatures: 'gw-a'"):
            trusted.check((issued.der,), time.time())


def test_a_key_of_another_kind_signs_nothing(authority: Authority, tmp_path: Path) -> None:
    issued = of_kind(authority, tmp_path, ec.generate_private_key(ec.SECP384R1()))
    with pytest.raises(UntrustedError, match="neither Ed25519 nor P-256: 'gw-a'"):
        trust(authority).check((issued.der,), time.time())
    with pytest.raises(TlsFileError, match="signs no batches: it is neither Ed25519 nor P-256"):
        OwnKey.read(issued.certificate, issued.key)


def test_links_have_an_authority(authority: Authority) -> None:
    issued = authority.issue("gw-a", is_gateway=True)
    with pytest.raises(ValueError, match="links without an authority"):
        Trust.read(TlsFiles(issued.certificate, issued.key))
    with pytest.raises(TlsFileError, match="without an authority of gateways") as named:
        LinkTls(TlsFiles(issued.certificate, issued.key), "gw-a")
    assert named.value.field == "client_ca_file"


def test_a_certificate_that_says_no_usage_opens_links_and_one_of_nobody_none(
    authority: Authority, tmp_path: Path
) -> None:
    issued = of_kind(authority, tmp_path, ec.generate_private_key(ec.SECP256R1()))
    required = ClientCertificate.REQUIRED
    files = TlsFiles(issued.certificate, issued.key, required, authority.file)
    links = LinkTls(files, "gw-a")
    assert links.dialled(issued.der) == "gw-a"
    with pytest.raises(HandshakeError, match='certificate: "certificate that can\'t be read"'):
        links.dialled(b"")
    with pytest.raises(HandshakeError, match="without the role gateway: 'collector'"):
        links.dialled(authority.issue("collector", is_collector=True).der)
