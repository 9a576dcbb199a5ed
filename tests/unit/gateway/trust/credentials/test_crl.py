"""A revocation list is gone by if all that it says is known here; the newest one counts."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from cryptography.x509.oid import NameOID

from gateway.trust.credentials import crl

NOW = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
NUMBER = x509.ObjectIdentifier("2.5.29.20")


def made(*extensions: tuple[x509.ExtensionType, bool]) -> x509.CertificateRevocationList:
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an office")]))
        .last_update(NOW)
        .next_update(NOW + datetime.timedelta(days=1))
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(ed25519.Ed25519PrivateKey.generate(), None)


def test_a_list_is_whole_unless_it_says_what_is_critical_and_not_known_here() -> None:
    assert crl.is_whole(made())
    assert crl.is_whole(made((x509.CRLNumber(4), False)))
    assert not crl.is_whole(made((x509.DeltaCRLIndicator(3), True)))


def test_a_list_whose_extensions_can_not_be_read_is_not_gone_by() -> None:
    garbage = made((x509.UnrecognizedExtension(NUMBER, b"\xff\x01"), False))
    assert not crl.is_whole(garbage)
    assert crl.edition_of(garbage) == (crl.NO_NUMBER, NOW.timestamp())


def test_of_two_lists_the_one_with_the_greater_number_is_newer() -> None:
    unnumbered, first, second = (
        crl.edition_of(made(*extensions))
        for extensions in ((), [(x509.CRLNumber(1), False)], [(x509.CRLNumber(2), False)])
    )
    assert unnumbered < first < second


def test_a_list_is_its_authoritys_if_it_names_and_signed_it() -> None:
    key, other = ed25519.Ed25519PrivateKey.generate(), ec.generate_private_key(ec.SECP256R1())
    revoked = made_by(key, "an office")
    assert crl.has_signed(authority("an office", key.public_key()), revoked)
    assert not crl.has_signed(authority("another", key.public_key()), revoked)
    assert not crl.has_signed(authority("an office", other.public_key()), revoked)
    exchange = x25519.X25519PrivateKey.generate().public_key()  # a key that signs nothing
    assert not crl.has_signed(authority("an office", exchange), revoked)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def made_by(key: ed25519.Ed25519PrivateKey, name: str) -> x509.CertificateRevocationList:
    builder = x509.CertificateRevocationListBuilder().issuer_name(named(name))
    return builder.last_update(NOW).next_update(NOW + datetime.timedelta(days=1)).sign(key, None)


def authority(
    name: str, key: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | x25519.X25519PublicKey
) -> x509.Certificate:
    builder = x509.CertificateBuilder().subject_name(named(name)).issuer_name(named(name))
    builder = builder.public_key(key).serial_number(1).not_valid_before(NOW)
    builder = builder.not_valid_after(NOW + datetime.timedelta(days=1))
    return builder.sign(ed25519.Ed25519PrivateKey.generate(), None)
