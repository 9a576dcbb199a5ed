"""A mistake in ``[alerts]`` is named with its field."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.alerting.rules import RULES
from gateway.alerting.section import (
    AlertsSection,
    ChatSection,
    MailSection,
    NtfySection,
    RouteSection,
    SyslogSection,
    TelegramSection,
    WebhookSection,
)
from gateway.alerting.ways import open_ways
from gateway.base.toml.toml_file import ConfigError, read
from gateway.process.configuration import change
from gateway.process.configuration.config import GatewaySettings

PAGE = Path(__file__).parents[4] / "docs/alerts.md"
BASE = """
[gateway]
id = "gw"
state_dir = "state"
[tree]
key_file = "tree.key"
tls = "off"
discovery = false
[mqtt]
"""
MAIL = 'mail = {host = "mail.example.org", sender = "gw@example.org", to = ["ops@example.org"]'


def faults(tmp_path: Path, lines: str) -> list[str]:
    for name in ("tree.key", "secret"):
        (tmp_path / name).write_text("ab" * 32)
    document = tomllib.loads(f"{BASE}\n[alerts]\n{lines}\n")
    found = read(document, tmp_path / "gateway.toml", GatewaySettings).faults
    return [f"{one.where}: {one.why}" for one in found]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ('off = ["hott"]', "alerts.off: 'hott'"),
        ("after_s = {hot = true}", "alerts.after_s.hot: True is no number of seconds"),
        ("after_s = {hott = 3}", "alerts.after_s: 'hott'"),
        ("look_s = 0", "alerts.look_s: 0 is not 0.1 to 3600"),
        ('webhook = {url = "ftp://x"}', "alerts.webhook.url: 'ftp://x' is not https://"),
        ('webhook = {url = "https://x:99999/"}', "alerts.webhook.url: 'https://x:99999/'"),
        ('webhook = {url = "https://a:b@x/"}', "alerts.webhook.url: holds a user or password"),
        ('webhook = {url = "https://a@x/"}', "alerts.webhook.url: holds a user or password"),
        ('webhook = {url = "https://:b@x/"}', "alerts.webhook.url: holds a user or password"),
        ('webhook = {url = "https://x", secret_file = "none"}', "alerts.webhook.secret_file"),
        ('webhook = {url = "https://x/a b"}', "alerts.webhook.url: 'https://x/a b' has a space"),
        ('webhook = {url = "https://x/?q=ä"}', "alerts.webhook.url: 'https://x/?q=ä' has a space"),
        ("webhook = {}", "alerts.webhook.url: missing"),
        (
            'ntfy = {topic = "t", url = "http://x", token_file = "secret"}',
            "alerts.ntfy.url: 'http://x': the secret would pass in the clear",
        ),
        ('ntfy = {topic = "a b"}', "alerts.ntfy.topic: 'a b' is not 1 to 64"),
        (
            'telegram = {chat = "ops", token_file = "bot"}',
            "alerts.telegram.chat: 'ops' is no number",
        ),
        ('telegram = {chat = "1"}', "alerts.telegram.token_file: missing"),
        ('chat = {service = "irc", url_file = "hook"}', "alerts.chat.service: 'irc'"),
        ('chat = {service = "slack"}', "alerts.chat.url_file: missing"),
        ("after_s = 3", "alerts.after_s: 3 is not a table"),
        (MAIL.replace('["ops@example.org"]', "[]") + "}", "alerts.mail.to: names nobody"),
        (MAIL + ", port = 0}", "alerts.mail.port: 0 is not 1 to 65535"),
        (MAIL + ', password_file = "secret"}', "alerts.mail.user: is missing: a log-in has both"),
        (
            'alertmanager = {url = "https://x", user = "x"}',
            "alerts.alertmanager.password_file: is missing: a log-in has both, or neither",
        ),
        (
            'alertmanager = {url = "https://x", password_file = "secret"}',
            "alerts.alertmanager.user: is missing: a log-in has both, or neither",
        ),
        (MAIL + ', user = "x"}', "alerts.mail.password_file: is missing"),
        (
            MAIL + ', user = "jürgen", password_file = "secret"}',
            "alerts.mail.user: 'jürgen' has a character that no log-in",
        ),
        (MAIL + ', tls = "maybe"}', "alerts.mail.tls: 'maybe'"),
        (
            MAIL + ', tls = "off", user = "x", password_file = "secret"}',
            "alerts.mail.tls: 'off', and the password would pass in the clear",
        ),
        (MAIL.replace("ops@example.org", "ops") + "}", "alerts.mail.to: 'ops' is no mail address"),
        ('syslog = {to = "nowhere"}', "alerts.syslog.to: 'nowhere' is not HOST:PORT"),
        ('mqtt = {topic = "#"}', "alerts.mqtt.topic: '#' is not a topic"),
        ('routes = [{to = ["mail"]}]', "alerts.routes: 'mail' has no section [alerts.mail]"),
        ('routes = [{to = ["pigeon"]}]', "alerts.routes[0].to: 'pigeon'"),
        ('routes = [{to = [], match = {colour = "red"}}]', "alerts.routes[0].match: 'colour'"),
        *(
            (f'routes = [{{to = [], quiet = "{hours}"}}]', f"alerts.routes[0].quiet: '{hours}'")
            for hours in ("22", "22-7", "22:00-25:00", "07:00-07:00", "22:00-07:00-09:00")
        ),
        ('routes = [{to = [], digest = "8"}]', "alerts.routes[0].digest: '8' is no time"),
        ("routes = [{to = [], after_s = -1}]", "alerts.routes[0].after_s: -1 is not 0 to"),
        (
            'routes = [{to = [], digest = "08:00", after_s = 9}]',
            "alerts.routes[0].quiet: stands beside digest or after_s",
        ),
        ('ack_url = "gw:9641"', "alerts.ack_url: 'gw:9641' is not https://"),
        ('ack_url = "https://gw/x"', "alerts.ack_url: 'https://gw/x' is more than https://"),
        ('ack_url = "https://u:p@gw"', "alerts.ack_url: holds a user or password"),
        ('ack_url = "https://gw"\n[console]\nenabled = false', "alerts.ack_url: needs the console"),
        ("mial = {}", "alerts.mial: unknown key, did you mean 'mail'?"),
    ],
)
def test_a_wrong_value_is_named_with_its_field(tmp_path: Path, lines: str, told: str) -> None:
    assert any(one.startswith(told) for one in faults(tmp_path, lines)), faults(tmp_path, lines)


@pytest.mark.parametrize("said", ["s-3", "12 34:s-3", "http://hooks.example.org/s-3", "https://"])
def test_a_secret_of_another_form_is_refused_and_shown_to_nobody(tmp_path: Path, said: str) -> None:
    file = tmp_path / "secret"
    file.write_text(said)
    file.chmod(0o600)
    for section, told in (
        (AlertsSection(telegram=TelegramSection("-1", file)), "alerts.telegram.token_file: "),
        (AlertsSection(chat=ChatSection("slack", file)), "alerts.chat.url_file: "),
    ):
        with pytest.raises(ConfigError, match=f"{told}.* holds no ") as refused:
            open_ways(section, "gw")
        assert "s-3" not in str(refused.value)


def test_a_secret_that_its_protocol_can_not_carry_is_refused_and_shown_to_nobody(
    tmp_path: Path,
) -> None:
    file = tmp_path / "secret"
    file.write_text("schlüssel")
    file.chmod(0o600)
    mail = MailSection("mail.example.org", "a@b.org", ["c@d.org"], user="u", password_file=file)
    for section, told in (
        (AlertsSection(ntfy=NtfySection("t", token_file=file)), "alerts.ntfy.token_file: "),
        (AlertsSection(mail=mail), "alerts.mail.password_file: "),
    ):
        with pytest.raises(ConfigError, match=f"{told}.* character that is not ASCII") as refused:
            open_ways(section, "gw")
        assert "ü" not in str(refused.value)


def test_a_whole_section_is_read(tmp_path: Path) -> None:
    lines = f"""
off = ["hot"]
after_s = {{disk-full = 5}}
routes = [{{to = ["mail"], match = {{severity = "critical"}}}}]
{MAIL}, user = "gw", password_file = "secret"}}
ntfy = {{topic = "t", url = "http://127.0.0.1:1", token_file = "secret"}}
syslog = {{to = "/dev/log"}}
mqtt = {{}}
"""
    assert faults(tmp_path, lines) == []


def test_routes_say_when() -> None:
    night, digest, late = (
        RouteSection(to=["ntfy"], quiet="22:30-07:05"),
        RouteSection(to=["mail"], digest="08:00"),
        RouteSection(to=["mail"], after_s=900),
    )
    assert night.route.quiet_min == (22 * 60 + 30, 7 * 60 + 5)
    assert digest.route.digest_min == 8 * 60
    assert (late.route.after_s, late.route.quiet_min, late.route.digest_min) == (900, None, None)


def test_without_a_word_all_rules_hold_and_nothing_leaves() -> None:
    section = AlertsSection()
    assert section.ways == ()
    assert section.plan.terms == dict(RULES)
    assert AlertsSection(off=["hot"], after_s={"disk-full": 5}).plan.terms["disk-full"].after_s == 5


def test_what_the_page_says_is_a_configuration_with_and_without_what_is_optional(
    tmp_path: Path,
) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    secrets = {"bot": "1234:s-3", "channel": "https://hooks.example.org/T0/B0/xyz"}
    blocks.sort(key=lambda block: not block.startswith("[alerts]\n"))
    text = "\n".join(blocks).removeprefix("[alerts]\n").replace("/etc/hedgerow", str(tmp_path))
    for name in ("mail", "mail-ca.pem", "ntfy", "hook", "alertmanager", *secrets):
        (tmp_path / name).write_text(secrets.get(name, "secret"))
    assert faults(tmp_path, text) == []
    assert faults(tmp_path, re.sub(r"(?m)^# (?=[a-z_]+ = )", "", text)) == []


def test_the_page_has_each_rule_as_it_is() -> None:
    rows = re.findall(r"(?m)^\| `([a-z-]+)` \| (critical|warning) \|", PAGE.read_text())
    assert dict(rows) == {name: terms.severity for name, terms in RULES.items()}


def test_what_to_do_leads_to_a_heading_that_there_is() -> None:
    for terms in RULES.values():
        file, _, anchor = terms.what_to_do.rpartition(" ")[2].partition("#")
        page = (PAGE.parents[1] / file).read_text()
        headings = re.findall(r"(?m)^#+ (.*)$", page)
        assert anchor in {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_a_way_that_comes_or_goes_at_a_reload_takes_a_restart_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "tree.key").write_text("ab" * 32)
    before = read(tomllib.loads(BASE), tmp_path / "gateway.toml", GatewaySettings).settings
    assert before is not None
    after = replace(before, alerts=AlertsSection(syslog=SyslogSection()))
    assert change.take_over(before, after)[1] == ["alerts.syslog"]
    assert change.take_over(after, before)[1] == ["alerts.syslog"]


def test_authorities_or_a_secret_that_can_not_be_read_are_named_with_their_field(
    tmp_path: Path,
) -> None:
    none, file = tmp_path / "none", tmp_path / "secret"
    webhook = WebhookSection("https://gw.example.org", ca_file=none)
    with pytest.raises(ConfigError) as raised:
        open_ways(AlertsSection(webhook=webhook), "gw")
    told = f"alerts.webhook.ca_file: {none}: No such file or directory"
    assert str(raised.value) == told
    with pytest.raises(ConfigError) as raised:
        open_ways(AlertsSection(webhook=WebhookSection("https://gw.example.org", none)), "gw")
    assert str(raised.value) == f"alerts.webhook.secret_file: {none}: No such file or directory"
    for text in ("", "\nbehind\n", "a\tb\n"):
        file.write_text(text)
        file.chmod(0o600)
        webhook = WebhookSection("https://gw.example.org", file)
        with pytest.raises(ConfigError) as raised:
            open_ways(AlertsSection(webhook=webhook), "gw")
        told = f"alerts.webhook.secret_file: {file}: its first line is no secret"
        assert str(raised.value) == told


@pytest.mark.parametrize(
    ("key", "default", "least", "most"),
    [
        ("look_s", 10.0, 0.1, 3600.0),
        ("gather_s", 10.0, 0.0, 3600.0),
        ("remind_s", 86400.0, 0.0, 31 * 86400.0),
        ("free_share", 0.05, 0.0, 0.6),
        ("hot_cel", 80.0, 0.0, 200.0),
        ("used_share", 0.9, 0.01, 1.0),
        ("failed_logins", 20, 1, 1_000_000),
    ],
)
def test_each_number_has_the_default_of_the_documents_and_its_bounds_are_in_its_range(
    key: str, default: float, least: float, most: float
) -> None:
    assert getattr(AlertsSection(), key) == default
    configuration = (PAGE.parent / "configuration.md").read_text()
    assert re.search(rf"^{key} = {re.escape(str(default))} ", configuration, re.MULTILINE)
    step = 1 if isinstance(default, int) else 0.001
    for value in (least, most):
        assert getattr(replace(AlertsSection(), **{key: value}), key) == value
    for value in (least - step, most + step):
        with pytest.raises(ConfigError, match=f"^{key}: .* is not "):
            replace(AlertsSection(), **{key: value})


def test_a_time_of_a_rule_has_31_days_at_most() -> None:
    most_s = 31 * 86_400.0
    assert AlertsSection(after_s={"hot": most_s, "disk-full": 0}).after_s["hot"] == most_s
    for wrong in (most_s + 1, -1):
        with pytest.raises(ConfigError, match=r"^after_s\.hot: "):
            AlertsSection(after_s={"hot": wrong})
