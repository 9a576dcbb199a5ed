"""The files that say who may do what: read at start, and again at SIGHUP."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from dtls.errors import KeystoreError
from dtls.keystore import Keystore
from dtls.keystore import load as load_keys
from gateway import expiry
from gateway.access_faults import AccessFileError, read_access_file
from gateway.broker.access.guard import Access
from gateway.broker.access.passwords import Passwords
from gateway.certificate_files import TlsFileError
from gateway.config import ConfigError, GatewaySettings, MqttSection
from gateway.config_file import Fault
from gateway.expiry import Expiring
from gateway.links.link_tls import LinkTls
from gateway.policy import policy_file
from gateway.policy.policy import Policy, PolicyRules
from gateway.tls.context import ClientCertificate, Tls, TlsFiles

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """What the files hold; None where the configuration names none.

    Attributes:
        broker: of those who come to the broker.
        links: of links, in both directions.
        expiring: when the certificates in them end.
        keystore: the pre-shared keys of CoAP's peers.

    """

    broker: Access
    links: LinkTls | None
    expiring: tuple[Expiring, ...]
    keystore: Keystore


def read(settings: GatewaySettings) -> AccessFiles:
    """Read them all.

    Raises:
        ConfigError: one can't be read, or what it holds is wrong; it names the field.

    """
    access = settings.access
    broker = Access(
        None if access.password_file is None else passwords(access.password_file),
        None if access.policy_file is None else Policy(policy(access.policy_file)),
        broker_tls(settings.mqtt),
    )
    keys = keystore(settings.coap.psk_file)
    return AccessFiles(broker, _links(settings), _expiring(settings.mqtt), keys)


def tls_files(mqtt: MqttSection) -> TlsFiles | None:
    """Where the broker's certificates are, which serve links too; None without TLS."""
    if mqtt.certificate_file is None or mqtt.key_file is None:
        return None
    return TlsFiles(
        mqtt.certificate_file,
        mqtt.key_file,
        ClientCertificate(mqtt.client_certificate),
        mqtt.client_ca_file,
        mqtt.client_crl_file,
    )


def broker_tls(mqtt: MqttSection) -> Tls | None:
    """What the broker's listeners over TLS show and ask for; None without TLS.

    Raises:
        ConfigError: a file is not usable; it names the field.

    """
    files = tls_files(mqtt)
    try:
        return None if files is None else Tls(files)
    except TlsFileError as error:
        more = (Fault(f"mqtt.{other.field}", str(other)) for other in error.more)
        raise ConfigError(f"mqtt.{error.field}", str(error), *more) from error


def keystore(path: Path | None) -> Keystore:
    """The pre-shared keys of a file; none if there is no file.

    Raises:
        ConfigError: the file is not usable.

    """
    if path is None:
        return Keystore()
    try:
        return load_keys(path)
    except KeystoreError as error:
        more = (Fault("coap.psk_file", str(other)) for other in error.more)
        raise ConfigError("coap.psk_file", str(error), *more) from error


def _expiring(mqtt: MqttSection) -> tuple[Expiring, ...]:
    files = tls_files(mqtt)
    try:
        return () if files is None else expiry.read(files)
    except TlsFileError as error:
        raise ConfigError(f"mqtt.{error.field}", str(error)) from error


def _links(settings: GatewaySettings) -> LinkTls | None:
    files = tls_files(settings.mqtt)
    if settings.tree.tls == "off" or files is None or not settings.mqtt.has_link_files:
        return None
    try:
        return LinkTls(files, settings.gateway.id)
    except TlsFileError as error:
        if settings.tree.has_ways:
            raise ConfigError(f"mqtt.{error.field}", str(error)) from error
        _log.warning("no gateway may open a link: %s", error)
        return None


def passwords(path: Path) -> Passwords:
    """Read the password file.

    Raises:
        ConfigError: it is not usable.

    """
    try:
        return Passwords.parse(read_access_file(path), str(path))
    except AccessFileError as error:
        raise _config_error("access.password_file", error) from error


def policy(path: Path) -> PolicyRules:
    """Read the access policy.

    Raises:
        ConfigError: it is not usable.

    """
    try:
        return policy_file.parse(read_access_file(path), str(path))
    except AccessFileError as error:
        raise _config_error("access.policy_file", error) from error


def _config_error(where: str, error: AccessFileError) -> ConfigError:
    return ConfigError(where, str(error), *(Fault(where, str(other)) for other in error.more))
