"""The files that say who may do what: read at start, and again at SIGHUP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dtls.certificates import unusable_key
from dtls.errors import KeystoreError
from dtls.keystore import Keystore
from dtls.keystore import load as load_keys
from gateway import expiry
from gateway.access_faults import AccessFileError, read_access_file
from gateway.broker.access.guard import Access
from gateway.broker.access.passwords import Passwords
from gateway.certificate_files import TlsFileError
from gateway.certificates import stores
from gateway.config import AccessSection, CoapSection, ConfigError, GatewaySettings, MqttSection
from gateway.config_file import Fault
from gateway.expiry import Expiring
from gateway.links.link_tls import LinkTls
from gateway.policy import policy_file
from gateway.policy.action import Where
from gateway.policy.open_policy import OPEN
from gateway.policy.policy import Policy, PolicyRules
from gateway.signing.fleet_keys import SigningFiles
from gateway.tls.context import ClientCertificate, Tls, TlsFiles

DEFAULT_ROLES = AccessSection().default_roles

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """What the files hold; None where the configuration names none.

    Attributes:
        broker: of those who come to the broker.
        links: of links, in both directions.
        signing: of signatures, where links use TLS and signatures are on.
        expiring: when the certificates in them end.
        keystore: the pre-shared keys of CoAP's peers.
        coap_tls: certificates over DTLS, CoAP's own and those that it takes.
        policy: what CoAP's peers may do.

    """

    broker: Access
    links: LinkTls | None
    signing: SigningFiles | None
    expiring: tuple[Expiring, ...]
    keystore: Keystore
    coap_tls: Tls | None
    policy: Policy


def read(settings: GatewaySettings) -> AccessFiles:
    """Read them all.

    Raises:
        ConfigError: one can't be read, or what it holds is wrong; it names the field.

    """
    access = settings.access
    told = policy(access)
    topics, others = policies(settings, told)
    broker = Access(
        None if access.password_file is None else passwords(access.password_file),
        None if topics.told is OPEN else topics,  # as fast as can be
        broker_tls(settings.mqtt, settings.keys.password_file),
        access.client_ids == "user",
    )
    keys = keystore(settings.coap.psk_file)
    for line in read_alone(settings, told):
        _log.warning("%s", line)
    links, secure = _links(settings), coap_tls(settings.coap, settings.keys.password_file)
    signing = None if links is None else _signing(settings)
    return AccessFiles(broker, links, signing, _expiring(settings), keys, secure, others)


def policies(settings: GatewaySettings, told: PolicyRules) -> tuple[Policy, Policy]:
    """What decides over MQTT, and what for all else.

    Args:
        settings: the configuration.
        told: its policy.

    """
    own, access = settings.gateway, settings.access
    here = Where(own.id, own.domain, own.group)
    decides = Policy(replace(told, public=settings.coap.public), here)
    if not access.anonymous:
        return decides, decides
    everybody = Policy(OPEN, here)
    if access.policy_file is None:
        return everybody, everybody
    return decides, decides if told.is_versioned else everybody


def tls_files(mqtt: MqttSection, password_file: Path | None = None) -> TlsFiles | None:
    """Where the broker's certificates are, which serve links too; None without TLS.

    Args:
        mqtt: the section.
        password_file: see `stores.in_the_clear`.

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
    )
    return stores.in_the_clear(files, password_file)


def broker_tls(mqtt: MqttSection, password_file: Path | None = None) -> Tls | None:
    """What the broker's listeners over TLS show and ask for; None without TLS.

    Raises:
        ConfigError: a file is not usable; it names the field.

    """
    with _naming("mqtt"):
        files = tls_files(mqtt, password_file)
        return None if files is None else Tls(files)


def coap_files(coap: CoapSection, password_file: Path | None = None) -> TlsFiles | None:
    """Where CoAP's certificates are; None where it shows none; see `tls_files`."""
    if coap.certificate_file is None or coap.key_file is None:
        return None
    files = TlsFiles(
        coap.certificate_file,
        coap.key_file,
        ClientCertificate.REQUIRED,
        coap.client_ca_file,
        coap.client_crl_file,
    )
    return stores.in_the_clear(files, password_file)


def coap_tls(coap: CoapSection, password_file: Path | None = None) -> Tls | None:
    """What CoAP over DTLS shows and asks for; None without certificates.

    Raises:
        ConfigError: a file is not usable; it names the field.

    """
    with _naming("coap"):
        if (files := coap_files(coap, password_file)) is None:
            return None
        tls = Tls(files)
        if why := unusable_key(tls.key):
            raise TlsFileError("key_file", files.key, why)
        return tls


@contextmanager
def _naming(section: str) -> Iterator[None]:
    """Have what is wrong with files of certificates name the field."""
    try:
        yield
    except TlsFileError as error:
        more = (Fault(f"{section}.{other.field}", str(other)) for other in error.more)
        raise ConfigError(f"{section}.{error.field}", str(error), *more) from error


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


def _expiring(settings: GatewaySettings) -> tuple[Expiring, ...]:
    found: tuple[Expiring, ...] = ()
    password = settings.keys.password_file
    with _naming("mqtt"):
        if (files := tls_files(settings.mqtt, password)) is not None:
            found += expiry.read(files)
    with _naming("coap"):
        if (files := coap_files(settings.coap, password)) is not None:
            found += expiry.read(files, "coap.")
    return found


def _links(settings: GatewaySettings) -> LinkTls | None:
    files = tls_files(settings.mqtt, settings.keys.password_file)
    if settings.tree.tls == "off" or files is None or not settings.mqtt.has_link_files:
        return None
    try:
        return LinkTls(files, settings.gateway.id)
    except TlsFileError as error:
        if settings.tree.has_ways:
            raise ConfigError(f"mqtt.{error.field}", str(error)) from error
        _log.warning("no gateway may open a link: %s", error)
        return None


def _signing(settings: GatewaySettings) -> SigningFiles | None:
    files = tls_files(settings.mqtt, settings.keys.password_file)
    if files is None or settings.tree.signatures == "off":
        return None
    try:
        return SigningFiles.read(files)
    except TlsFileError as error:
        raise ConfigError(f"mqtt.{error.field}", str(error)) from error


def passwords(path: Path) -> Passwords:
    """Read the password file.

    Raises:
        ConfigError: it is not usable.

    """
    try:
        return Passwords.parse(read_access_file(path), str(path))
    except AccessFileError as error:
        raise _config_error("access.password_file", error) from error


def read_alone(settings: GatewaySettings, told: PolicyRules) -> Iterator[str]:
    """What a configuration has to be told that names keys or users, and no policy for them.

    Args:
        settings: the configuration.
        told: its policy.

    """
    access = settings.access
    has_file = access.policy_file is not None
    is_told = access.default_roles != DEFAULT_ROLES or (has_file and told.is_versioned)
    if is_told or access.anonymous:
        return
    given = 'gives them roles, as in [principals] "{}" = ["operator"] (docs/access.md)'
    for field, principal in (("psk_file", "psk:NAME"), ("oscore_file", "oscore:NAME")):
        if getattr(settings.coap, field) is not None:
            more = f"until access.policy_file (version = 1) {given.format(principal)}"
            yield f"coap.{field}: its keys may read, and change nothing, {more}"
    if access.password_file is not None and not has_file:
        more = f"until access.policy_file {given.format('user:NAME')}"
        yield f"access.password_file: its users may read, and publish nothing, {more}"


def policy(access: AccessSection) -> PolicyRules:
    """Read the policy; without a file there are the built-in roles.

    Raises:
        ConfigError: it is not usable.

    """
    roles, path = frozenset(access.default_roles), access.policy_file
    try:
        if path is None:
            told = PolicyRules(default_roles=roles)
        else:
            told = policy_file.parse(read_access_file(path), str(path), roles)
    except AccessFileError as error:
        raise _config_error("access.policy_file", error) from error
    for role in access.default_roles:
        if role not in told.roles:
            known = ", ".join(sorted(told.roles))
            raise ConfigError("access.default_roles", f"{role!r} is none of {known}")
    return told


def _config_error(where: str, error: AccessFileError) -> ConfigError:
    return ConfigError(where, str(error), *(Fault(where, str(other)) for other in error.more))
