"""The keys and certificates that a gateway holds, as they are told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
)
from cryptography.x509.oid import NameOID
from key_stores import CERTIFICATE

from gateway.trust.certificates.holdings import HeldItem, ServingFile, held


def test_what_is_held_is_told_with_its_end_its_kind_or_why_it_is_not_read(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65_537, 2_048)
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "an office")])
    now = CERTIFICATE.not_valid_before_utc
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(255)
    builder = builder.public_key(key.public_key()).not_valid_before(now)
    of_rsa = builder.not_valid_after(now + timedelta(days=2)).sign(key, hashes.SHA256())
    file, missing = tmp_path / "own.pem", tmp_path / "missing.pem"
    file.write_bytes(of_rsa.public_bytes(Encoding.PEM) + CERTIFICATE.public_bytes(Encoding.PEM))
    files = [
        ServingFile("mqtts.certificate_file", file, file, "MQTT"),
        ServingFile("coaps.client_crl_file", missing, missing, "CoAP"),
    ]
    first, second, unread = held(iter(files))
    assert (first.what, first.key, first.name, first.serial) == (
        *("certificate", "RSA 2048"),
        *("O=an office", "ff"),
    )
    assert second.key == "P-256"
    assert [first.state(now + timedelta(days=days)) for days in (0, 1.5, 2, 2.5)] == [
        "ends in 2 days",
        "ends in 0 days",
        "ends in 0 days",
        "ended",
    ]
    assert (unread.what, unread.state(now), unread.days_left(now)) == (
        *("revocation list", "No such file or directory"),
        None,
    )
    assert HeldItem(files[1], "revocation list").state(now) == "does not end"
    told = unread.as_json(now)
    assert (told["why"], told["ends"], told["serial"]) == ("No such file or directory", None, None)
