"""Files of certificates, as a configuration names them: what listeners, links and CoAP go by."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dtls.certificates import unusable_key
from gateway.base.toml.toml_file import Fault
from gateway.node.links.link_tls import LinkTls
from gateway.node.signing import newest_lists
from gateway.node.signing.fleet_keys import SigningFiles
from gateway.node.signing.revoking import Revoking
from gateway.process.configuration.config import (
    CoapSection,
    ConfigError,
    ConsoleSection,
    GatewaySettings,
    MqttSection,
)
from gateway.trust.certificates import stores, validity
from gateway.trust.certificates.expiry import CertificateExpiry
from gateway.trust.credentials.crl import Crl
from gateway.trust.credentials.tls_file_faults import NoGatewayError, TlsFileError
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles
from light_dataclasses import dataclass

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SecureFiles:
    """The content of the files of certificates; None where the configuration names none.

    Attributes:
        broker: of the broker's listeners.
        links: of links, in both directions.
        signing: of signatures, where links use TLS and signatures are on.
        expiring: when the certificates in them end.
        coap: of CoAP over DTLS.
        console: of the console, where it speaks HTTPS.
        revoking: whose revocation lists count, and those of the files.

    """

    broker: Tls | None
    links: LinkTls | None
    signing: SigningFiles | None
    expiring: tuple[CertificateExpiry, ...]
    coap: Tls | None
    console: Tls | None
    revoking: Revoking


def read(settings: GatewaySettings, spread: Iterable[Crl] = ()) -> SecureFiles:
    """Read them all.

    Args:
        settings: say which.
        spread: revocation lists from elsewhere, which count where they are newer.

    Raises:
        ConfigError: one can't be read, or what it holds is wrong; it names the field.

    """
    password = settings.keys.password_file
    unread: ConfigError | None = None
    revoking = Revoking()
    try:
        revoking = _revoking(settings)
    except ConfigError as error:  # who reads a file for what it is for tells more of it
        unread = error
    lists = (*spread, *revoking.lists)
    broker = broker_tls(settings.mqtt, password, lists)
    links = _links(settings, lists)
    found = SecureFiles(
        broker,
        links,
        None if links is None else _signing(settings, lists),
        _expiring(settings, lists),
        coap_tls(settings.coap, password, lists),
        console_tls(settings.console, password, lists),
        revoking,
    )
    if unread is not None:
        raise unread
    return found


def tls_files(
    mqtt: MqttSection, password_file: Path | None = None, spread: Sequence[Crl] = ()
) -> TlsFiles | None:
    """Return where the broker's certificates are, which serve links too; None without TLS.

    Args:
        mqtt: the section.
        password_file: see `stores.in_the_clear`.
        spread: revocation lists from elsewhere.

    Raises:
        TlsFileError: one under a password can't be opened.

    """
    if mqtt.certificate_file is None or mqtt.key_file is None:
        return None
    files = TlsFiles(
        mqtt.certificate_file,
        mqtt.key_file,
        ClientCertificate(mqtt.client_certificate),
        mqtt.client_ca_file,
        mqtt.client_crl_file,
        tuple(spread),
    )
    return stores.in_the_clear(files, password_file)


def broker_tls(
    mqtt: MqttSection, password_file: Path | None = None, spread: Sequence[Crl] = ()
) -> Tls | None:
    """Return what the broker's listeners over TLS show and ask for; None without TLS.

    Raises:
        ConfigError: a file is not usable; it names the field.

    """
    with _naming("mqtt"):
        files = tls_files(mqtt, password_file, spread)
        return None if files is None else Tls(files)


def coap_files(
    coap: CoapSection, password_file: Path | None = None, spread: Sequence[Crl] = ()
) -> TlsFiles | None:
    """Return where CoAP's certificates are; None where it shows none; see `tls_files`."""
    if coap.certificate_file is None or coap.key_file is None:
        return None
    files = TlsFiles(
        coap.certificate_file,
        coap.key_file,
        ClientCertificate.REQUIRED,
        coap.client_ca_file,
        coap.client_crl_file,
        tuple(spread),
    )
    return stores.in_the_clear(files, password_file)


def coap_tls(
    coap: CoapSection, password_file: Path | None = None, spread: Sequence[Crl] = ()
) -> Tls | None:
    """Return what CoAP over DTLS shows and asks for; None without certificates.

    Raises:
        ConfigError: a file is not usable; it names the field.

    """
    with _naming("coap"):
        if (files := coap_files(coap, password_file, spread)) is None:
            return None
        tls = Tls(files)
        if why := unusable_key(tls.key):
            raise TlsFileError("key_file", files.key, why, more=tls.over)
        return tls


def console_files(
    console: ConsoleSection, password_file: Path | None = None, spread: Sequence[Crl] = ()
) -> TlsFiles | None:
    """Return where the console's certificates are; None where it speaks HTTP; see `tls_files`."""
    if not console.enabled or console.certificate_file is None or console.key_file is None:
        return None
    takes = ClientCertificate.NONE if console.client_ca_file is None else ClientCertificate.OPTIONAL
    files = TlsFiles(
        console.certificate_file,
        console.key_file,
        takes,
        console.client_ca_file,
        console.client_crl_file,
        tuple(spread),
    )
    return stores.in_the_clear(files, password_file)


def console_tls(
    console: ConsoleSection, password_file: Path | None = None, spread: Sequence[Crl] = ()
) -> Tls | None:
    """Return what the console shows and takes; None where it speaks HTTP.

    Raises:
        ConfigError: a file is not usable; it names the field.

    """
    with _naming("console"):
        files = console_files(console, password_file, spread)
        return None if files is None else Tls(files)


def hold_over(section: str, tls: Tls | None) -> None:
    """Raise what a section names and is over by this machine's clock.

    Args:
        section: of the configuration.
        tls: as its files were read.

    Raises:
        ConfigError: something is; it names the field.

    """
    for first in (over := iter(() if tls is None else tls.over)):
        with _naming(section):
            raise TlsFileError(first.field, first.path, first.why, first.line, over)


@contextmanager
def _naming(section: str) -> Iterator[None]:
    """Have what is wrong with files of certificates name the field."""
    try:
        yield
    except TlsFileError as error:
        more = (Fault(f"{section}.{other.field}", str(other)) for other in error.more)
        raise ConfigError(f"{section}.{error.field}", str(error), *more) from error


def _expiring(settings: GatewaySettings, spread: Sequence[Crl]) -> tuple[CertificateExpiry, ...]:
    found: tuple[CertificateExpiry, ...] = ()
    password = settings.keys.password_file
    with _naming("mqtt"):
        if (files := tls_files(settings.mqtt, password, spread)) is not None:
            found += validity.read(files)
    with _naming("coap"):
        if (files := coap_files(settings.coap, password, spread)) is not None:
            found += validity.read(files, "coap.")
    with _naming("console"):
        if (files := console_files(settings.console, password, spread)) is not None:
            found += validity.read(files, "console.")
    return found


def _links(settings: GatewaySettings, spread: Sequence[Crl]) -> LinkTls | None:
    files = tls_files(settings.mqtt, settings.keys.password_file, spread)
    if settings.tree.tls == "off" or files is None or not settings.mqtt.has_link_files:
        return None
    try:
        with _naming("mqtt"):
            return LinkTls(files, settings.gateway.id)
    except ConfigError as error:
        if settings.tree.has_ways or not isinstance(error.__cause__, NoGatewayError):
            raise
        _log.warning("no gateway may open a link: %s", error.why)
        return None


def _signing(settings: GatewaySettings, spread: Sequence[Crl]) -> SigningFiles | None:
    files = tls_files(settings.mqtt, settings.keys.password_file, spread)
    if files is None or settings.tree.signatures == "off":
        return None
    try:
        return SigningFiles.read(files)
    except TlsFileError as error:
        raise ConfigError(f"mqtt.{error.field}", str(error)) from error


def _revoking(settings: GatewaySettings) -> Revoking:
    """Return whose lists count, and those of the files.

    Raises:
        ConfigError: one can't be read. The others are no answer without it: whose lists count is
            what keeps the lists that neighbours have handed over.

    """
    password = settings.keys.password_file
    with _naming("mqtt"):
        mqtt = newest_lists.read(tls_files(settings.mqtt, password))
    with _naming("coap"):
        coap = newest_lists.read(coap_files(settings.coap, password))
    with _naming("console"):
        console = newest_lists.read(console_files(settings.console, password))
    return mqtt.joined(coap, console)
