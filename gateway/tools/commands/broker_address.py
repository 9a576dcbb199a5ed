"""Address of the broker for the command line, and the proof that it is the right one.

With ``--config``, or the configuration of this machine where nothing is given, that is the gateway
here: where it listens it has told in its state folder. Over TLS it must show the certificate that
its configuration names, byte for byte, so that neither an authority nor a host name has to fit.
Otherwise host, port and authority are given.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

from gateway.base.path_kind import why_no_file
from gateway.base.remedies import of_pem
from gateway.node.links.refusal import reason
from gateway.process.configuration import place as config_place
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.own_gateway import OwnGateway
from light_dataclasses import dataclass

PORT, TLS_PORT = 1883, 8883


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A listener, and what its certificate must be.

    Attributes:
        host: name or number.
        port: of TCP.
        tls: for the connection; None without TLS.
        certificate: the only one that it may show, in DER; None for any that ``tls`` accepts.

    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    certificate: bytes | None = None


def find(options: argparse.Namespace) -> BrokerAddress:
    """Return the broker that the arguments mean.

    Raises:
        WrongUseError: a file or an argument is wrong.
        FailedError: the gateway of ``--config`` is not running.

    """
    file: Path | None = options.config
    if file is None and options.host is None and options.port is None:
        file = config_place.find_readable()
    if file is not None:
        return _local(options, file)
    tls = None if options.cafile is None else _context(options, verifies=True)
    host, port = _host_and_port(options)
    return BrokerAddress(host, port or (PORT if tls is None else TLS_PORT), tls)


def _host_and_port(options: argparse.Namespace) -> tuple[str, int | None]:
    """Host and port that are named: ``10.0.0.2``, ``10.0.0.2:1883``, ``::1`` or ``[::1]:1883``.

    Raises:
        WrongUseError: the port is none, or it is named twice.

    """
    given: str = options.host or "127.0.0.1"
    if given.count(":") != 1 and not given.startswith("["):
        return given, options.port
    host, _, text = given.rpartition(":") if not given.endswith("]") else (given, "", "")
    if text and options.port is not None:
        raise WrongUseError(f"--port: --host has a port already: {given}")
    is_port = text.isascii() and text.isdigit() and 0 < int(text[:6]) < 1 << 16
    if not is_port and not given.endswith("]"):
        raise WrongUseError(f"--host: {given!r} has no port from 1 to 65535")
    return host.strip("[]"), int(text) if text else options.port


async def connect(
    where: BrokerAddress, timeout_s: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection.

    Raises:
        FailedError: nobody listens there, or it is another than the right one.

    """
    name = f"{where.host}:{where.port}"
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(where.host, where.port, ssl=where.tls)
    except TimeoutError as error:
        raise FailedError(f"{name}: no answer within {timeout_s:g} s") from error
    except ssl.SSLCertVerificationError as error:
        raise FailedError(f"{name}: its certificate: {error.verify_message}") from error
    except OSError as error:
        raise FailedError(f"{name}: {reason(error)}") from error
    if where.certificate is not None:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if shown != where.certificate:
            writer.close()
            raise FailedError(
                f"{name}: it shows another certificate than mqtt.certificate_file: reload it"
            )
    return reader, writer


def _local(options: argparse.Namespace, file: Path) -> BrokerAddress:
    own = OwnGateway.of(file)
    if (plain := own.near("mqtt")) is not None:
        return BrokerAddress(*plain)
    secure, certificate = own.near("mqtts"), _own_certificate(own)
    if secure is None or certificate is None:
        raise FailedError(f"{own.id} has no MQTT listener")
    return BrokerAddress(
        *secure,
        _context(options, verifies=False),
        _certificate(certificate),
    )


def _own_certificate(own: OwnGateway) -> Path | None:
    mqtt = own.settings.mqtt
    if mqtt.certificate_file is None or mqtt.certificate_file.suffix.lower() == ".pem":
        return mqtt.certificate_file
    from gateway.process.access import secure_files  # noqa: PLC0415  # of use with a key store alone
    from gateway.trust.credentials.tls_file_faults import TlsFileError  # noqa: PLC0415

    try:
        files = secure_files.tls_files(mqtt, own.settings.keys.password_file)
    except TlsFileError as error:
        raise WrongUseError(f"mqtt.{error.field}: {error}") from error
    return None if files is None else files.certificate


def _certificate(path: Path) -> bytes:
    try:
        first, end, _ = path.read_text().partition("-----END CERTIFICATE-----")
        return ssl.PEM_cert_to_DER_cert(first[first.find("-----BEGIN") :] + end)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no certificate in PEM"
        raise WrongUseError(f"mqtt.certificate_file: {path}: {why}") from error


def _context(options: argparse.Namespace, *, verifies: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verifies:  # the certificate itself is compared
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    for name, path in (("cafile", options.cafile), ("cert", options.cert), ("key", options.key)):
        if path is not None and not path.is_file():
            raise WrongUseError(f"--{name}: {path}: {why_no_file(path)}")
    if options.cafile is not None:
        with _naming("--cafile", options.cafile):
            context.load_verify_locations(options.cafile)
    if options.cert is not None:
        with _naming("--cert, --key", options.cert):
            context.load_cert_chain(options.cert, options.key, password="")
    return context


@contextlib.contextmanager
def _naming(option: str, path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise WrongUseError(f"{option}: {path}: {of_pem(error)}") from error
