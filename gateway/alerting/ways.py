"""The ways out that a configuration names; what none of them needs is not loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from alerts.record import AlertRecord, WayOut
from dtls import private_file
from dtls.byte_order_mark import first_line, text_of
from gateway.alerting.section import AlertsSection, MailSection, url_faults
from gateway.base.remedies import of_pem
from gateway.base.toml.toml_file import ConfigError

if TYPE_CHECKING:
    from alerts.ack_link import AckLinks

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
    ways = (section.webhook, section.ntfy, section.telegram, section.chat, section.alertmanager)
    if ways == (None,) * len(ways):
        return found
    webhook, ntfy, telegram, chat, alertmanager = ways
    from alerts.ways.http_post import HttpServer  # noqa: PLC0415  # only where it is used

    def at(way: str, url: str, authorities: Path | None) -> HttpServer:
        try:
            return HttpServer.at(url, authorities)
        except OSError as error:
            raise ConfigError(f"alerts.{way}.ca_file", f"{authorities}: {of_pem(error)}") from error

    if webhook is not None:
        from alerts.ways.webhook import WebhookWay  # noqa: PLC0415

        secret = _secret("alerts.webhook.secret_file", webhook.secret_file)
        found["webhook"] = WebhookWay(
            at("webhook", webhook.url, webhook.ca_file), secret.encode() if secret else None
        )
    if ntfy is not None:
        from alerts.ways.ntfy import NtfyWay  # noqa: PLC0415

        token = _ascii_secret("alerts.ntfy.token_file", ntfy.token_file)
        found["ntfy"] = NtfyWay(at("ntfy", ntfy.url, ntfy.ca_file), ntfy.topic, token or None, link)
    if telegram is not None:
        from alerts.ways.telegram import TelegramWay  # noqa: PLC0415

        server = at("telegram", telegram.url, telegram.ca_file)
        found["telegram"] = TelegramWay(server, _bot(telegram.token_file), telegram.chat, link)
    if chat is not None:
        from alerts.ways.team_chat import TeamChatWay  # noqa: PLC0415

        server = at("chat", _webhook(chat.url_file), chat.ca_file)
        found["chat"] = TeamChatWay(server, chat.service, link)
    if alertmanager is not None:
        from alerts.ways.alertmanager import AlertmanagerWay  # noqa: PLC0415

        password = _secret("alerts.alertmanager.password_file", alertmanager.password_file)
        server = at("alertmanager", alertmanager.url, alertmanager.ca_file)
        found["alertmanager"] = AlertmanagerWay(server, alertmanager.user, password)
    return found


def _bot(file: Path) -> str:
    """Return what a bot shows; it stands in the path of each request."""
    from alerts.ways.telegram import TOKEN  # noqa: PLC0415  # only where it is used

    token = _secret("alerts.telegram.token_file", file)
    if not TOKEN.fullmatch(token):
        raise ConfigError("alerts.telegram.token_file", f"{file}: holds no NUMBER:SECRET of a bot")
    return token


def _webhook(file: Path) -> str:
    """Return the address of a channel, which nobody is shown."""
    url = _secret("alerts.chat.url_file", file)
    if next(iter(url_faults("", url, with_secret=True)), None) is not None:
        raise ConfigError("alerts.chat.url_file", f"{file}: holds no https://HOST/PATH")
    return url


def _mail(own: MailSection, own_id: str, link: LinkOf | None) -> WayOut:
    from alerts.ways.mail import MailServer, MailWay  # noqa: PLC0415
    from alerts.ways.trust import tls_context  # noqa: PLC0415  # only where it is used

    try:
        tls = None if own.tls == "off" else tls_context(own.ca_file)
    except OSError as error:
        raise ConfigError("alerts.mail.ca_file", f"{own.ca_file}: {of_pem(error)}") from error
    server = MailServer(
        host=own.host,
        port=own.port,
        starts_tls=own.tls == "starttls",
        tls=tls,
        user=own.user,
        password=_ascii_secret("alerts.mail.password_file", own.password_file),
    )
    return MailWay(server, own_id, own.sender, own.to, link)


def _secret(field: str, file: Path | None) -> str:
    """Return the first line of a file with a secret; empty without a file."""
    if file is None:
        return ""
    try:
        line = text_of(first_line(private_file.read(file)))
    except OSError as error:
        raise ConfigError(field, f"{file}: {of_pem(error)}") from error
    except ValueError as error:
        raise ConfigError(field, f"{file}: its first line {error}") from error
    if not line or not line.isprintable():
        raise ConfigError(field, f"{file}: its first line is no secret")
    return line


def _ascii_secret(field: str, file: Path | None) -> str:
    """Return a secret as `_secret` does, for a place where a protocol takes ASCII alone."""
    found = _secret(field, file)
    if not found.isascii():
        raise ConfigError(field, f"{file}: its first line has a character that is not ASCII")
    return found
