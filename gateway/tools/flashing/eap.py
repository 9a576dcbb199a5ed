"""Proof of a device to a network (IEEE 802.1X, by EAP), and what is wrong with its settings."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from gateway.base.toml.toml_file import Fault

FOLDER = "/etc/hedgerow-network"
"""The folder of a Pi's files of its networks: root's alone."""


class Eap(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The proof that a network asks a device for (EAP).

    Attributes:
        method: ``tls`` (RFC 5216) with a certificate of the device; ``peap`` or ``ttls``
            (RFC 5281) with a password, in a tunnel of TLS.
        identity: who the device is.
        ca_certificate: PEM of who vouches for the network's server; the device answers no other.
        server_name: what the name in the server's certificate ends with; empty takes every server
            that the authority vouches for.
        anonymous_identity: what is said outside the tunnel in place of the identity.
        certificate: of ``tls``, the device's own in PEM, with those between it and its authority.
        key: of ``tls``, the certificate's in PEM, without a passphrase.
        inner: how the password is given in the tunnel; ``pap`` is for ``ttls`` alone.
        password: of ``peap`` and ``ttls``; a secret.
        password_file: whose first line is the password.

    """

    method: Literal["tls", "peap", "ttls"]
    identity: str
    ca_certificate: Path
    server_name: str = ""
    anonymous_identity: str = ""
    certificate: Path | None = None
    key: Path | None = None
    inner: Literal["mschapv2", "pap"] = "mschapv2"
    password: str = ""
    password_file: Path | None = None

    def __repr__(self) -> str:
        return f"Eap({self.method!r}, {self.identity!r})"

    def files(self) -> dict[str, Path]:
        """Return the files that a Pi needs, by what each is called there."""
        named = {"ca.pem": self.ca_certificate, "certificate.pem": self.certificate}
        named["key.pem"] = self.key
        return {name: path for name, path in named.items() if path is not None}


def place(network: str, name: str) -> str:
    """Return where a Pi has a file of a network.

    Args:
        network: as `CardDevice.eaps` calls it, such as ``wired``.
        name: as `Eap.files` calls the file.

    """
    return f"{FOLDER}/{network}.{name}"


def faults(eap: Eap, where: str) -> Iterator[Fault]:
    """Yield all that is wrong with what is said of a network, but for its files.

    Args:
        eap: with its password filled in.
        where: how a fault names it.

    """
    texts = {
        "identity": eap.identity,
        "server_name": eap.server_name,
        "anonymous_identity": eap.anonymous_identity,
        "password": eap.password,
    }
    for field, text in texts.items():
        if not text.isprintable():
            yield Fault(f"{where}.{field}", "has characters that can't be printed")
    if not eap.identity:
        yield Fault(f"{where}.identity", "not given: who the network knows the device as")
    own = {"certificate": eap.certificate, "key": eap.key}
    if eap.method == "tls":
        for field, path in own.items():
            if path is None:
                yield Fault(f"{where}.{field}", 'not given, and method = "tls" needs one')
        if eap.password:
            yield Fault(
                f"{where}.password", 'method = "tls" has none, but a certificate and its key'
            )
        return
    if not eap.password:
        yield Fault(f"{where}.password", f'not given, and method = "{eap.method}" needs one')
    for field, path in own.items():
        if path is not None:
            yield Fault(f"{where}.{field}", f'method = "{eap.method}" has none, but a password')
    if eap.method == "peap" and eap.inner == "pap":
        yield Fault(
            f"{where}.inner", 'PEAP has no PAP in its tunnel: "mschapv2", or method = "ttls"'
        )


def file_faults(
    eap: Eap, where: str, contents: Mapping[str, bytes], now: datetime.datetime
) -> Iterator[Fault]:
    """Yield all that is wrong with the files of a network.

    Args:
        eap: what names them.
        where: how a fault names it.
        contents: of each of `Eap.files`.
        now: what certificates have to be valid at.

    """
    from cryptography import x509  # noqa: PLC0415  # only cards with 802.1X need it
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

    found: dict[str, list[x509.Certificate]] = {}
    for field, name in (("ca_certificate", "ca.pem"), ("certificate", "certificate.pem")):
        if name not in contents:
            continue
        file = eap.files()[name]
        try:
            found[field] = x509.load_pem_x509_certificates(contents[name])
        except ValueError as error:
            yield Fault(f"{where}.{field}", f"{file}: no certificate in PEM: {error}")
            continue
        for one in found[field]:
            named = one.subject.rfc4514_string()
            if one.not_valid_after_utc <= now:
                until = one.not_valid_after_utc.date()
                yield Fault(f"{where}.{field}", f"{file}: {named} was valid until {until}")
            elif one.not_valid_before_utc > now:
                since = one.not_valid_before_utc.date()
                yield Fault(f"{where}.{field}", f"{file}: {named} is valid from {since} only")
    if "key.pem" not in contents:
        return
    try:
        key = load_pem_private_key(contents["key.pem"], None)
    except TypeError:
        yield Fault(
            f"{where}.key",
            f"{eap.key}: it has a passphrase, which nobody types on a Pi: "
            "openssl pkey -in KEY -out KEY-WITHOUT",
        )
        return
    except ValueError as error:
        yield Fault(f"{where}.key", f"{eap.key}: no key in PEM: {error}")
        return
    own = found.get("certificate")
    if own and key.public_key() != own[0].public_key():
        yield Fault(f"{where}.key", f"{eap.key}: is not the key of {eap.certificate}")
