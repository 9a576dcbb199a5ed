"""Only who has a key that signs here gets a certificate for it."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from gateway.trust.certificates import private_keys
from gateway.trust.certificates.signature_keys import KeySigner, has_signed
from gateway.trust.enrolment import requests
from gateway.trust.enrolment.requests import EnrolmentRequestError


def asked_with(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_key_that_has_signed_its_request_is_told(kind: str) -> None:
    key = private_keys.make(kind)
    assert requests.key_of(requests.asked(key, "gw-a")) == key.public_key()


def test_a_key_of_another_kind_is_refused() -> None:
    for key in (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65_537, 2_048)):
        with pytest.raises(EnrolmentRequestError, match="neither Ed25519 nor P-256"):
            requests.key_of(asked_with(key))


def test_a_request_that_another_key_has_signed_and_what_is_none_are_refused() -> None:
    key = private_keys.make("p256")
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    request = x509.load_pem_x509_csr(asked_with(key).encode()).public_bytes(Encoding.DER)
    bent = x509.load_der_x509_csr(request[:-1] + bytes([request[-1] ^ 1]))
    with pytest.raises(EnrolmentRequestError, match="not signed by its own key"):
        requests.key_of(bent.public_bytes(Encoding.PEM).decode())
    with pytest.raises(EnrolmentRequestError, match=r"no PKCS#10 in PEM"):
        requests.key_of("no request")


@pytest.mark.parametrize("kind", ["p256", "ed25519"])
def test_a_signature_names_its_key_and_is_of_it_alone(kind: str) -> None:
    key, other = KeySigner(private_keys.make(kind)), KeySigner(private_keys.make(kind))
    signature = key.sign(b"message")
    assert (key.is_of(signature), other.is_of(signature)) == (True, False)
    assert has_signed(key.public_key, b"message", signature)
    assert not has_signed(key.public_key, b"another", signature)
    assert not has_signed(other.public_key, b"message", signature)
