"""The ways out that a configuration names; what none of them needs is not loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alerts.ack_link import AckLinks
from alerts.record import AlertRecord, WayOut
from dtls import private_file
from gateway.alerting.section import AlertsSection, MailSection
from gateway.base.toml.toml_file import ConfigError

LinkOf = Callable[[AlertRecord], str]
"""Gives that by which an alert is taken on."""


def open_ways(
    section: AlertsSection, own_id: str, links: AckLinks | None = None
) -> dict[str, WayOut]:
    """Return the ways out by name; nothing is connected yet.

    Args:
        section: of the configuration.
        own_id: how the gateway calls itself.
        links: by which an alert is taken on; None where there are none.

    Raises:
        ConfigError: a secret or an authority can't be read.

    """
    found: dict[str, WayOut] = {}
    link = None if links is None else _link(links)
    if section.mail is not None:
        found["mail"] = _mail(section.mail, own_id, link)
    if section.syslog is not None:
        from alerts.ways.syslog import SyslogWay  # noqa: PLC0415  # only where it is used

        found["syslog"] = SyslogWay(section.syslog.to, own_id)
    found |= _over_http(section, link)
    return {way: found[way] for way in section.ways}


def _link(links: AckLinks) -> LinkOf:
    return lambda record: links.link(record.alert, record.at_us)


def _over_http(section: AlertsSection, link: LinkOf | None) -> dict[str, WayOut]:
    found: dict[str, WayOut] = {}
    webhook, ntfy, alertmanager = section.webhook, section.ntfy, section.alertmanager
    if webhook is None and ntfy is None and alertmanager is None:
        return found
    from alerts.ways.http_post import HttpServer  # noqa: PLC0415  # only where it is used

    def at(way: str, url: str, authorities: Path | None) -> HttpServer:
        try:
            return HttpServer.at(url, authorities)
        except OSError as error:
            raise ConfigError(f"alerts.{way}.ca_file", f"{authorities}: {_why(error)}") from error

    if webhook is not None:
        from alerts.ways.webhook import WebhookWay  # noqa: PLC0415

        secret = _secret("alerts.webhook.secret_file", webhook.secret_file)
        found["webhook"] = WebhookWay(
            at("webhook", webhook.url, webhook.ca_file), secret.encode() if secret else None
        )
    if ntfy is not None:
        from alerts.ways.ntfy import NtfyWay  # noqa: PLC0415

        token = _secret("alerts.ntfy.token_file", ntfy.token_file)
        found["ntfy"] = NtfyWay(at("ntfy", ntfy.url, ntfy.ca_file), ntfy.topic, token or None, link)
    if alertmanager is not None:
        from alerts.ways.alertmanager import AlertmanagerWay  # noqa: PLC0415

        password = _secret("alerts.alertmanager.password_file", alertmanager.password_file)
        server = at("alertmanager", alertmanager.url, alertmanager.ca_file)
        found["alertmanager"] = AlertmanagerWay(server, alertmanager.user, password)
    return found


def _mail(own: MailSection, own_id: str, link: LinkOf | None) -> WayOut:
    from alerts.ways.mail import MailServer, MailWay  # noqa: PLC0415
    from alerts.ways.trust import tls_context  # noqa: PLC0415  # only where it is used

    try:
        tls = None if own.tls == "off" else tls_context(own.ca_file)
    except OSError as error:
        raise ConfigError("alerts.mail.ca_file", f"{own.ca_file}: {_why(error)}") from error
    server = MailServer(
        host=own.host,
        port=own.port,
        starts_tls=own.tls == "starttls",
        tls=tls,
        user=own.user,
        password=_secret("alerts.mail.password_file", own.password_file),
    )
    return MailWay(server, own_id, own.sender, own.to, link)


def _secret(field: str, file: Path | None) -> str:
    """Return the first line of a file with a secret; empty without a file."""
    if file is None:
        return ""
    try:
        line = private_file.read(file).partition(b"\n")[0].removesuffix(b"\r").decode()
    except OSError as error:
        raise ConfigError(field, f"{file}: {_why(error)}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(field, f"{file}: its first line is not UTF-8") from error
    if not line or not line.isprintable():
        raise ConfigError(field, f"{file}: its first line is no secret")
    return line


def _why(error: OSError) -> str:
    return error.strerror or str(error)
