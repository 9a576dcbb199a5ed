"""Key stores of tests: under one password, hashed as often as a test likes."""

from __future__ import annotations

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    PrivateFormat,
    pkcs12,
)

from gateway.trust.certificates import private_keys
from gateway.trust.certificates import x509_forms as forms

PASSWORD = b"open sesame"
KEY = private_keys.make("p256")
CERTIFICATE = forms.authority(KEY, 30)


def store(rounds: int, pbes: pkcs12.PBES = pkcs12.PBES.PBESv2SHA256AndAES256CBC) -> bytes:
    encryption = (
        PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(rounds)
        .key_cert_algorithm(pbes)
        .hmac_hash(hashes.SHA256())
        .build(PASSWORD)
    )
    return pkcs12.serialize_key_and_certificates(b"x", KEY, CERTIFICATE, None, encryption)


def patched(data: bytes, old: int, new: int) -> bytes:
    """With other counts, of as many bytes."""
    width = (old.bit_length() + 8) // 8
    return data.replace(
        bytes([2, width]) + old.to_bytes(width), bytes([2, width]) + new.to_bytes(width)
    )
