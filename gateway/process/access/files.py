"""The files that say who may do what: read at start, and again at SIGHUP."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dtls.errors import KeystoreError
from dtls.keystore import Keystore
from dtls.keystore import load as load_keys
from gateway.base.toml.toml_file import Fault
from gateway.broker.access.guard import Access
from gateway.broker.access.passwords import Passwords
from gateway.node.signing.revoking import Revoking
from gateway.process.configuration.config import AccessSection, ConfigError, GatewaySettings
from gateway.trust.policy import policy_file
from gateway.trust.policy.action import ActionPlace
from gateway.trust.policy.faults import AccessFileError, read_access_file
from gateway.trust.policy.open_policy import OPEN
from gateway.trust.policy.policy import Policy, PolicyRules
from light_dataclasses import dataclass

if TYPE_CHECKING:
    from gateway.coap.oscore.keys import OscoreKeys
    from gateway.node.links.link_tls import LinkTls
    from gateway.node.signing.fleet_keys import SigningFiles
    from gateway.process.access.secure_files import SecureFiles
    from gateway.trust.certificates.expiry import CertificateExpiry
    from gateway.trust.credentials.crl import Crl
    from gateway.trust.tls.context import Tls

DEFAULT_ROLES = AccessSection().default_roles

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """The content of all files of access; None where the configuration names none.

    Attributes:
        broker: of those who come to the broker.
        keystore: the pre-shared keys of CoAP's peers.
        policy: what CoAP's peers may do.
        oscore: of devices that protect their requests themselves.
        links: of links, in both directions.
        signing: of signatures, where links use TLS and signatures are on.
        expiring: when the certificates in them end.
        coap_tls: certificates over DTLS, CoAP's own and those that it takes.
        revoking: whose revocation lists count, and those of the files.
        console_tls: certificates over HTTPS, the console's own and those that it takes.

    """

    broker: Access
    keystore: Keystore
    policy: Policy
    oscore: tuple[OscoreKeys, ...]
    links: LinkTls | None = None
    signing: SigningFiles | None = None
    expiring: tuple[CertificateExpiry, ...] = ()
    coap_tls: Tls | None = None
    revoking: Revoking = Revoking()
    console_tls: Tls | None = None


def read(settings: GatewaySettings, spread: Iterable[Crl] = ()) -> AccessFiles:
    """Read them all.

    Args:
        settings: say which.
        spread: revocation lists from elsewhere, which count where they are newer.

    Raises:
        ConfigError: one can't be read, or what it holds is wrong; it names the field.

    """
    access = settings.access
    told = policy(access)
    topics, others = policies(settings, told)
    secure = _secure(settings, spread)
    broker = Access(
        None if access.password_file is None else passwords(access.password_file),
        None if topics.told is OPEN else topics,  # as fast as can be
        binds_client_ids=access.client_ids == "user",
    )
    keys = keystore(settings.coap.psk_file)
    for line in read_alone(settings, told):
        _log.warning("%s", line)
    files = AccessFiles(broker, keys, others, oscore_keys_of(settings.coap.oscore_file))
    return files if secure is None else _together(files, secure)


def with_lists(settings: GatewaySettings, files: AccessFiles, spread: Iterable[Crl]) -> AccessFiles:
    """Read the certificates again with other revocation lists, and nothing else.

    What else the files say now, right or wrong, can't keep a certificate from being revoked.

    Args:
        settings: say which files.
        files: as they were read.
        spread: revocation lists from elsewhere.

    Raises:
        ConfigError: one can't be read, or what it holds is wrong; it names the field.

    """
    secure = _secure(settings, spread)
    return files if secure is None else _together(files, secure)


def with_passwords(settings: GatewaySettings, files: AccessFiles) -> AccessFiles:
    """Read the passwords of users again, and nothing else.

    Args:
        settings: say which file.
        files: as they were read.

    Raises:
        ConfigError: it can't be read, or what it holds is wrong; it names the field.

    """
    path = settings.access.password_file
    found = None if path is None else passwords(path)
    return replace(files, broker=replace(files.broker, passwords=found))


def _secure(settings: GatewaySettings, spread: Iterable[Crl]) -> SecureFiles | None:
    """Read what the configuration names of certificates; None where it names none."""
    if not settings.has_certificates:
        return None
    from gateway.process.access import secure_files  # noqa: PLC0415  # X.509 takes a while to load

    return secure_files.read(settings, spread)


def _together(files: AccessFiles, secure: SecureFiles) -> AccessFiles:
    return replace(
        files,
        broker=replace(files.broker, tls=secure.broker),
        links=secure.links,
        signing=secure.signing,
        expiring=secure.expiring,
        coap_tls=secure.coap,
        console_tls=secure.console,
        revoking=secure.revoking,
    )


def policies(settings: GatewaySettings, told: PolicyRules) -> tuple[Policy, Policy]:
    """Return what decides over MQTT, and what for all else.

    Args:
        settings: the configuration.
        told: its policy.

    """
    own, access = settings.gateway, settings.access
    here = ActionPlace(own.id, own.domain, own.group)
    decides = Policy(replace(told, public=settings.coap.public), here)
    if not access.anonymous:
        return decides, decides
    everybody = Policy(OPEN, here)
    if access.policy_file is None:
        return everybody, everybody
    return decides, decides if told.is_versioned else everybody


def keystore(path: Path | None) -> Keystore:
    """Return the pre-shared keys of a file; none if there is no file.

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


def oscore_keys_of(path: Path | None) -> tuple[OscoreKeys, ...]:
    """Return what a file says of devices that use OSCORE; nothing if there is no file.

    Raises:
        ConfigError: it is not usable.

    """
    if path is None:
        return ()
    from gateway.coap.oscore import keys as oscore_keys  # noqa: PLC0415  # only where it is used

    try:
        return tuple(oscore_keys.load(path))
    except oscore_keys.OscoreKeysError as error:
        raise ConfigError("coap.oscore_file", str(error)) from error


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
    """Yield what a configuration has to be told that names keys or users, and no policy for them.

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
