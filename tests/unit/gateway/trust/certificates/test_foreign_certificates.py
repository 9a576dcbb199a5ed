"""A certificate of somebody else's authority is read for what it says, or refused by its name."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtensionOID, NameOID

from gateway.trust.certificates import unpacking
from gateway.trust.certificates.importing import imported, is_authority
from gateway.trust.certificates.pkcs12_files import Pkcs12Error
from gateway.trust.tls.certificates import identify
from gateway.trust.tls.peer_certificate import CertificateError

NOW = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
KEY = ec.generate_private_key(ec.SECP256R1())
GARBAGE = b"\xff\x01"


def certificate(*extensions: x509.ExtensionType, issuer: str = "an office") -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw-a")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(KEY.public_key())
        .serial_number(7)
        .not_valid_before(NOW - datetime.timedelta(days=1))
        .not_valid_after(NOW + datetime.timedelta(days=1))
    )
    for one in extensions:
        builder = builder.add_extension(one, critical=False)
    return builder.sign(KEY, hashes.SHA256())


def with_garbage() -> x509.Certificate:
    return certificate(x509.UnrecognizedExtension(ExtensionOID.BASIC_CONSTRAINTS, GARBAGE))


def with_one_twice() -> x509.Certificate:
    """A builder refuses to make it, so the second one's name is changed in the bytes."""
    first, second = x509.ObjectIdentifier("1.2.3.4"), x509.ObjectIdentifier("1.2.3.5")
    both = certificate(*(x509.UnrecognizedExtension(one, b"\x05\x00") for one in (first, second)))
    der = both.public_bytes(Encoding.DER)
    assert der.count(b"\x06\x03\x2a\x03\x05") == 1
    return x509.load_der_x509_certificate(
        der.replace(b"\x06\x03\x2a\x03\x05", b"\x06\x03\x2a\x03\x04")
    )


def pem(*certificates: x509.Certificate) -> bytes:
    key = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key + b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def store(*certificates: x509.Certificate) -> bytes:
    own, *others = certificates
    return pkcs12.serialize_key_and_certificates(b"gw-a", KEY, own, others, NoEncryption())


@pytest.mark.parametrize("made", [with_garbage, with_one_twice])
@pytest.mark.parametrize("packed", [pem, store])
def test_one_whose_extensions_are_none_is_named_and_not_imported(
    made: Callable[[], x509.Certificate], packed: Callable[..., bytes]
) -> None:
    for content in (packed(made()), packed(certificate(), made())):
        with pytest.raises(Pkcs12Error, match="the extensions of CN=gw-a can't be read"):
            unpacking.opened(content, None)


@pytest.mark.parametrize("made", [with_garbage, with_one_twice])
def test_a_peer_with_such_a_certificate_is_refused(made: Callable[[], x509.Certificate]) -> None:
    with pytest.raises(CertificateError, match="certificate that can't be read"):
        identify(made().public_bytes(Encoding.DER))


def test_one_that_does_not_say_so_is_no_authority() -> None:
    vouches = x509.BasicConstraints(ca=True, path_length=None)
    assert is_authority(certificate(vouches))
    assert not is_authority(certificate(x509.BasicConstraints(ca=False, path_length=None)))
    assert not is_authority(certificate())


def test_one_without_constraints_that_answers_a_request_is_that_keys_own() -> None:
    answer, authority = certificate(), certificate(issuer="gw-a")
    both = b"".join(one.public_bytes(Encoding.PEM) for one in (authority, answer))
    found = imported(unpacking.opened(both, None), [KEY], NOW)
    assert found.key is KEY
    assert found.chain[0] == answer
