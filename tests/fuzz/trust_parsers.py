"""Parsers of certificates, revocation lists, and of what who enrols sends.

What is handed over is signed by whoever made it up: it is parsed before it is known that no
authority of the fleet did.
"""

from __future__ import annotations

import datetime
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from parser_cost import CLIENT, MEMBER, STRANGER, Parser, Shape

from gateway.node.signing import revoking, trust
from gateway.node.signing.revocations import Revocations
from gateway.node.signing.revoking import Revoking
from gateway.node.signing.trust import Trust
from gateway.trust.certificates import key_work
from gateway.trust.credentials import crl as crls
from gateway.trust.enrolment import requests
from gateway.trust.tls.certificates import identify

_KEY = Ed25519PrivateKey.generate()
_NOW = datetime.datetime.now(datetime.UTC)
_DAY = datetime.timedelta(days=1)
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gw")])
_CHAIN_BYTES = trust.MAX_CERTIFICATE_BYTES
_HANDSHAKE_BYTES = 16 << 10
"""Of a certificate of a client that OpenSSL has verified, which bounds no more than its record."""


def _certificate(
    subject: x509.Name, extension: x509.ExtensionType | None = None, at: int = 0
) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_NAME)
        .public_key(_KEY.public_key())
        .serial_number(1 + at)
        .not_valid_before(_NOW - _DAY)
        .not_valid_after(_NOW + _DAY)
    )
    if extension is not None:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(_KEY, None).public_bytes(Encoding.DER)


def _fitting(made: Callable[[int], bytes], one_bytes: int) -> Shape:
    """As many of something as fit, each of about so many bytes."""

    @functools.cache
    def shape(size: int) -> bytes:
        count = size // one_bytes
        while len(data := made(count)) > size:
            count = count * 19 // 20
        return data

    return shape


def _names(count: int) -> bytes:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, "a") for _ in range(count)]
    return _certificate(x509.Name(attributes))


def _roles(count: int) -> bytes:
    uri = x509.UniformResourceIdentifier("urn:hedgerow:role:a")
    return _certificate(_NAME, x509.SubjectAlternativeName([uri] * count))


def _usages(count: int) -> bytes:
    return _certificate(_NAME, x509.ExtendedKeyUsage([x509.ObjectIdentifier("1.2.3")] * count))


def _extensions(count: int) -> bytes:
    builder = x509.CertificateBuilder(_NAME, _NAME, _KEY.public_key(), 1, _NOW - _DAY, _NOW + _DAY)
    for number in range(count):
        oid = x509.ObjectIdentifier(f"1.2.3.{number}")
        builder = builder.add_extension(x509.UnrecognizedExtension(oid, b""), critical=False)
    return builder.sign(_KEY, None).public_bytes(Encoding.DER)


CERTIFICATES: dict[str, Shape] = {
    "names": _fitting(_names, 14),
    "roles": _fitting(_roles, 21),
    "usages": _fitting(_usages, 4),
    "extensions": _fitting(_extensions, 20),
    "digits": lambda size: b"\x30\x84" + (size - 6).to_bytes(4, "big") + b"\x30\x80" * (size // 3),
}


def _chain(data: bytes) -> object:
    return Trust([_authority()]).check((data,), _NOW.timestamp())


@functools.cache
def _authority() -> x509.Certificate:
    builder = x509.CertificateBuilder(
        _NAME, _NAME, _KEY.public_key(), 7, _NOW - 9 * _DAY, _NOW + 9 * _DAY
    ).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(_KEY, None)


def _revoked(data: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        kept = Revocations(Path(folder))
        kept.follow(Revoking((_authority(),)))
        return kept.take(crls.name_of(_authority()), data)


def _der(tag: int, *content: bytes) -> bytes:
    """One value of ASN.1 (X.690, 8.1)."""
    whole = b"".join(content)
    size = len(whole)
    if size < 0x80:
        return bytes((tag, size)) + whole
    octets = (size.bit_length() + 7) // 8
    return bytes((tag, 0x80 | octets)) + size.to_bytes(octets, "big") + whole


_ED25519 = _der(0x30, _der(0x06, b"\x2b\x65\x70"))
_CRL_NUMBER = _der(0x30, _der(0x06, b"\x55\x1d\x14"), _der(0x04, _der(0x02, b"\1")))


def _list(rows: bytes, extensions: bytes) -> bytes:
    """A list that nobody has signed (RFC 5280, 5.1)."""
    times = (_der(0x17, f"{at:%y%m%d%H%M%SZ}".encode()) for at in (_NOW - _DAY, _NOW + _DAY))
    listed = _der(0x30, rows) if rows else b""
    issuer = _NAME.public_bytes()
    extended = _der(0xA0, _der(0x30, _CRL_NUMBER, extensions))
    signed = _der(0x30, _der(0x02, b"\1"), _ED25519, issuer, *times, listed, extended)
    return _der(0x30, signed, _ED25519, _der(0x03, bytes(65)))


_ROW = _der(0x30, _der(0x02, b"\1"), _der(0x17, b"260101000000Z"))


def _extension(number: int) -> bytes:
    oid = bytes((0x2A, 0x80 | number >> 14, 0x80 | number >> 7 & 0x7F, number & 0x7F))
    return _der(0x30, _der(0x06, oid), b"\4\0")


def _many_extensions(size: int) -> bytes:
    return b"".join(map(_extension, range(1 << 14, (1 << 14) + (size - 300) // 10)))


def _enrolling(data: bytes) -> object:
    found = requests.read_object(data)
    return requests.key_of(requests.text_of(found, "request"))


def _request(size: int) -> bytes:
    def made(count: int) -> bytes:
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, "a") for _ in range(count)]
        asked = x509.CertificateSigningRequestBuilder(x509.Name(attributes)).sign(_KEY, None)
        return json.dumps({"request": asked.public_bytes(Encoding.PEM).decode()}).encode()

    return _fitting(made, 20)(size)


_SALTED = _der(0x30, _der(0x04, bytes(8)), _der(0x02, b"\1"))


def _within(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = _der(0x04, _der(0x30, data))
    return data


TRUST: dict[str, Parser] = {
    "key or store under a password": Parser(
        key_work.check,
        STRANGER,
        key_work.MOST_BYTES,
        {
            "salts": lambda size: _der(0x30, _SALTED * (size // len(_SALTED) - 2)),
            "depth": lambda size: b"\x30\x80" * (size // 2),
            "strings": lambda size: _within(bytes(size - 200), 15),
            "pieces": lambda size: b"\x24\x80" + b"\4\1\x30" * (size // 3 - 2) + b"\0\0",
            "empty": lambda size: b"\5\0" * (size // 2),
        },
        own_lines=2_000_000,  # in a process of its own, or of a file that the configuration names
    ),
    "certificate of a client": Parser(identify, CLIENT, _HANDSHAKE_BYTES, CERTIFICATES),
    "certificate of a gateway": Parser(_chain, MEMBER, _CHAIN_BYTES, CERTIFICATES),
    "revocation list": Parser(
        _revoked,
        MEMBER,
        revoking.MAX_BYTES,
        {
            "rows": lambda size: _list(_ROW * ((size - 300) // len(_ROW)), b""),
            "extensions": lambda size: _list(b"", _many_extensions(size)),
        },
    ),
    "enrolment": Parser(
        _enrolling,
        STRANGER,
        requests.BODY_BYTES_MAX,
        {
            "names": _request,
            "depth": lambda size: b"[" * size,
            "lists": lambda size: b"[" + b",".join([b"[]"] * (size // 3 - 1)) + b"]",
            "keys": lambda size: b'{"request":"' + b"\\u0000" * ((size - 20) // 6) + b'"}',
        },
    ),
}
