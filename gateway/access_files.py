"""The files that say who may do what: read at start, and again at SIGHUP."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gateway.broker.access.passwords import Passwords
from gateway.broker.access.policy import AccessControl
from gateway.broker.access.policy_file import AccessFileError, parse_policy, read_access_file
from gateway.broker.listeners.tls import ClientCertificate, Tls, TlsFileError, TlsFiles
from gateway.config import ConfigError, GatewaySettings, MqttSection


@dataclass(frozen=True, slots=True)
class AccessFiles:
    """What the files hold; None where the configuration names none."""

    tls: Tls | None
    passwords: Passwords | None
    access: AccessControl | None


def read(settings: GatewaySettings) -> AccessFiles:
    """Read them all.

    Raises:
        ConfigError: one can't be read, or what it holds is wrong; it names the field.

    """
    access = settings.access
    return AccessFiles(
        _tls(settings.mqtt),
        None if access.password_file is None else _passwords(access.password_file),
        None if access.policy_file is None else _policy(access.policy_file),
    )


def _tls(mqtt: MqttSection) -> Tls | None:
    if mqtt.certificate_file is None or mqtt.key_file is None:
        return None
    files = TlsFiles(
        mqtt.certificate_file,
        mqtt.key_file,
        ClientCertificate(mqtt.client_certificate),
        mqtt.client_ca_file,
        mqtt.client_crl_file,
    )
    try:
        return Tls(files)
    except TlsFileError as error:
        raise ConfigError(f"mqtt.{error.field}", str(error)) from error


def _passwords(path: Path) -> Passwords:
    try:
        return Passwords.parse(read_access_file(path), str(path))
    except AccessFileError as error:
        raise ConfigError("access.password_file", str(error)) from error


def _policy(path: Path) -> AccessControl:
    try:
        return AccessControl(parse_policy(read_access_file(path), str(path)))
    except AccessFileError as error:
        raise ConfigError("access.policy_file", str(error)) from error
