"""The configuration's section ``[alerts]``: what is an alert, and on which ways it leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from alerts import thresholds
from alerts.matcher import AlertMatcher, MatcherError
from alerts.terms import CHAT_SERVICES, AlertRoute
from gateway.alerting.judging import AlertLimits
from gateway.alerting.plan import AlertPlan
from gateway.alerting.rules import RULES
from gateway.base.toml import checks
from gateway.base.toml.toml_file import Fault, hold
from light_dataclasses import dataclass

WAYS: Final = ("mail", "webhook", "ntfy", "telegram", "chat", "alertmanager", "syslog")
"""The ways on which alerts leave, each a section."""
FORGETFUL: Final = frozenset(("alertmanager",))
"""Ways to a receiver that knows no alert of before when it is started anew."""
MOST_S: Final = 31 * 86_400.0
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64}){0,7}")
_NTFY_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TELEGRAM_CHAT = re.compile(r"-?\d{1,20}|@[A-Za-z0-9_]{5,32}")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_TARGET = re.compile(r"[!-~]*")
"""The characters of a URL that a request has behind its method; others are to be escaped."""
_ADDRESS = re.compile(r"[^@\s<>,;:\"]{1,64}@[^@\s<>,;:\"]{1,255}")


@dataclass(frozen=True, slots=True)
class WebhookSection:
    """A POST of JSON to ``url``, signed with the key in ``secret_file`` if there is one.

    ``ca_file`` has the authorities of the server's certificate, in place of the system's.
    """

    url: str
    secret_file: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        hold(url_faults("url", self.url))


@dataclass(frozen=True, slots=True)
class MailSection:
    """Mails to all of ``to``, by the server ``host``.

    With ``tls`` "starttls" the connection is secured before anything is said, with "tls" from the
    beginning, with "off" never. ``user`` logs in with the password in ``password_file``.
    """

    host: str
    sender: str
    to: list[str]
    port: int = 587
    tls: str = checks.chosen("starttls", "starttls", "tls", "off")
    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.hosts("host", [self.host])
        yield from checks.within("port", self.port, 1, checks.MOST_PORT)
        yield from checks.marked(self)
        if not self.to:
            yield Fault("to", "names nobody")
        for name, values in (("sender", [self.sender]), ("to", self.to)):
            for value in values:
                if not _ADDRESS.fullmatch(value):
                    yield Fault(name, f"{value!r} is no mail address, such as ops@example.org")
        if bool(self.user) != (self.password_file is not None):
            missing = "user" if not self.user else "password_file"
            yield Fault(missing, "is missing: a log-in has both, or neither")
        if not (self.user.isascii() and self.user.isprintable()):
            yield Fault("user", f"{self.user!r} has a character that no log-in by mail may have")
        if self.user and self.tls == "off" and not checks.is_loopback(self.host):
            yield Fault("tls", "'off', and the password would pass in the clear")


@dataclass(frozen=True, slots=True)
class NtfySection:
    """Messages to a topic of an ntfy server, by the token in ``token_file`` if there is one."""

    topic: str
    url: str = "https://ntfy.sh"
    token_file: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        if not _NTFY_TOPIC.fullmatch(self.topic):
            yield Fault("topic", f"{self.topic!r} is not 1 to 64 letters, digits, '_' and '-'")
        yield from url_faults("url", self.url, with_secret=self.token_file is not None)


@dataclass(frozen=True, slots=True)
class TelegramSection:
    """Messages of a bot to a chat of Telegram.

    ``token_file`` has what BotFather gave for the bot, ``chat`` is a number, or a channel's @name.
    """

    chat: str
    token_file: Path
    url: str = "https://api.telegram.org"
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        if not _TELEGRAM_CHAT.fullmatch(self.chat):
            yield Fault(
                "chat", f"{self.chat!r} is no number of a chat, such as '-1001234', nor @name"
            )
        yield from url_faults("url", self.url, with_secret=True)


@dataclass(frozen=True, slots=True)
class ChatSection:
    """Messages to a channel of ``service`` ("slack", "discord" or "teams"), by an incoming webhook.

    Who has its address may write to the channel, so it is the first line of ``url_file``.
    """

    service: str
    url_file: Path
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        hold(checks.one_of("service", self.service, CHAT_SERVICES))


@dataclass(frozen=True, slots=True)
class AlertmanagerSection:
    """A Prometheus Alertmanager at ``url`` (API v2).

    ``user`` logs in with the password in ``password_file``.
    """

    url: str
    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from url_faults("url", self.url, with_secret=self.password_file is not None)
        if bool(self.user) != (self.password_file is not None):
            missing = "user" if not self.user else "password_file"
            yield Fault(missing, "is missing: a log-in has both, or neither")


@dataclass(frozen=True, slots=True)
class SyslogSection:
    """Lines to a syslog (RFC 5424): ``to`` is a socket's path, or HOST:PORT for UDP."""

    to: str = "/dev/log"

    def __post_init__(self) -> None:
        if not self.to.startswith("/"):
            hold(checks.host_and_port("to", self.to))


@dataclass(frozen=True, slots=True)
class AlertTopicSection:
    """A retained message of what is wrong, on ``topic`` below the gateway's own topics.

    With ``home_assistant.discovery`` Home Assistant shows it as a problem of the gateway.
    """

    topic: str = "alerts"

    def __post_init__(self) -> None:
        if not _TOPIC.fullmatch(self.topic):
            why = f"{self.topic!r} is not a topic of letters, digits, '_', '-' and '/'"
            hold([Fault("topic", why)])


@dataclass(frozen=True, slots=True)
class RouteSection:
    """Alerts that fit to all patterns of ``match`` go all ways of ``to``.

    With ``after_s`` only those that stand for so long after they were told, and that nobody has
    acknowledged. In ``quiet`` hours, such as "22:00-07:00", they wait for their end; with
    ``digest``, a time such as "08:00", all of a day leave together then. Times are local.
    """

    to: list[str]
    match: dict[str, Any] = field(default_factory=dict)
    after_s: float = checks.ranged(0.0, 0, MOST_S)
    quiet: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        for way in self.to:
            yield from checks.one_of("to", way, WAYS)
        try:
            AlertMatcher.of(self.match)
        except MatcherError as error:
            yield Fault("match", str(error))
        yield from checks.marked(self)
        begins, dash, ends = self.quiet.partition("-")
        if self.quiet and (not dash or None in map(_minute, (begins, ends)) or begins == ends):
            yield Fault("quiet", f"{self.quiet!r} are no hours such as '22:00-07:00'")
        if self.digest and _minute(self.digest) is None:
            yield Fault("digest", f"{self.digest!r} is no time such as '08:00'")
        if bool(self.quiet) + bool(self.digest) + (self.after_s > 0) > 1:
            yield Fault("quiet", "stands beside digest or after_s: a route has one of them")

    @property
    def route(self) -> AlertRoute:
        """The route as alerts take it: times of day are minutes of the day, None where none is
        given."""
        begins, _, ends = self.quiet.partition("-")
        first, last = _minute(begins), _minute(ends)
        return AlertRoute(
            AlertMatcher.of(self.match),
            tuple(self.to),
            after_s=self.after_s,
            quiet_min=None if first is None or last is None else (first, last),
            digest_min=_minute(self.digest),
        )


@dataclass(frozen=True, slots=True)
class AlertsSection:
    """The alerts that a gateway raises, and the ways on which they leave.

    It looks every ``look_s``. What stands is told again every ``remind_s`` (0: never) until it is
    acknowledged; the first record waits ``gather_s`` for others of its site. ``off`` names rules
    that raise nothing, ``after_s`` for how long something has to be wrong, by rule.
    Without ``routes`` all alerts go all ways. With ``ack_url``, at which the console is reached,
    mails and messages to ntfy have a link by which an alert is acknowledged.
    """

    enabled: bool = True
    look_s: float = checks.ranged(10.0, 0.1, 3_600)
    gather_s: float = checks.ranged(10.0, 0, 3_600)
    remind_s: float = checks.ranged(86_400.0, 0, MOST_S)
    free_share: float = checks.ranged(thresholds.LITTLE_FREE, 0, 0.6)
    hot_cel: float = checks.ranged(thresholds.HOT_CEL, 0, 200)
    used_share: float = checks.ranged(0.9, 0.01, 1)
    failed_logins: int = checks.ranged(20, 1, 1_000_000)
    off: list[str] = field(default_factory=list)
    after_s: dict[str, Any] = field(default_factory=dict)
    routes: list[RouteSection] = field(default_factory=list)
    ack_url: str = ""
    mail: MailSection | None = None
    webhook: WebhookSection | None = None
    ntfy: NtfySection | None = None
    telegram: TelegramSection | None = None
    chat: ChatSection | None = None
    alertmanager: AlertmanagerSection | None = None
    syslog: SyslogSection | None = None
    mqtt: AlertTopicSection | None = None

    def __post_init__(self) -> None:
        hold(self._faults())

    def _faults(self) -> Iterator[Fault]:
        yield from checks.marked(self)
        if self.ack_url:
            yield from url_faults("ack_url", self.ack_url)
            if urlsplit(self.ack_url).query or urlsplit(self.ack_url).path.strip("/"):
                yield Fault("ack_url", f"{self.ack_url!r} is more than https://HOST[:PORT]")
        for rule in self.off:
            yield from checks.one_of("off", rule, tuple(RULES))
        for rule, seconds in self.after_s.items():
            yield from checks.one_of("after_s", rule, tuple(RULES))
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                yield Fault(f"after_s.{rule}", f"{seconds!r} is no number of seconds")
            else:
                yield from checks.within(f"after_s.{rule}", seconds, 0, MOST_S)
        for route in self.routes:
            for way in route.to:
                if getattr(self, way) is None:
                    yield Fault("routes", f"{way!r} has no section [alerts.{way}]")

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways that there are."""
        return tuple(way for way in WAYS if getattr(self, way) is not None)

    def with_way(self, way: str) -> AlertsSection:
        """Return the section with no other way than this one."""
        others: dict[str, Any] = {name: None for name in WAYS if name != way}
        return replace(self, routes=[], **others)

    @property
    def plan(self) -> AlertPlan:
        """Return the plan of alerts by these settings."""
        terms = {
            name: replace(terms, after_s=float(self.after_s.get(name, terms.after_s)))
            for name, terms in RULES.items()
            if name not in self.off
        }
        limits = AlertLimits(
            free_share=self.free_share,
            hot_cel=self.hot_cel,
            used_share=self.used_share,
            failed_logins=self.failed_logins,
        )
        return AlertPlan(
            terms=terms,
            limits=limits,
            ways=self.ways,
            renewed=tuple(way for way in self.ways if way in FORGETFUL),
            routes=tuple(one.route for one in self.routes),
            look_s=self.look_s,
            gather_s=self.gather_s,
            remind_s=self.remind_s,
        )


def _minute(text: str) -> int | None:
    """Return a time such as ``22:00`` as a minute of the day; None if it is none."""
    found = _TIME.fullmatch(text)
    return None if found is None else 60 * int(found[1]) + int(found[2])


def url_faults(where: str, url: str, *, with_secret: bool = False) -> Iterator[Fault]:
    """Find what is wrong with a URL to which something is sent.

    Args:
        where: the field that names it.
        url: the URL.
        with_secret: whether something is sent that others must not read.

    """
    try:
        parts = urlsplit(url)
        host, is_port = parts.hostname, parts.port != 0
    except ValueError:
        host, is_port = None, False
    if not host or not is_port or parts.scheme not in ("http", "https") or not url.isprintable():
        yield Fault(where, f"{url!r} is not https://HOST[:PORT]/PATH")
    elif not _TARGET.fullmatch(parts.path + parts.query):
        why = "has a space or a letter beyond ASCII behind its host: %20 stands for a space"
        yield Fault(where, f"{url!r} {why}")
    elif parts.username is not None or parts.password is not None:
        yield Fault(where, "holds a user or password: a file is to have it")
    elif with_secret and parts.scheme == "http" and not _is_here(host):
        yield Fault(where, f"{url!r}: the secret would pass in the clear; https:// is needed")


def _is_here(host: str) -> bool:
    return host == "localhost" or checks.is_loopback(host)
