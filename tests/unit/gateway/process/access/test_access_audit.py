"""Goal: each change of who may do what stands in the trail, with names and without secrets."""

from __future__ import annotations

import stat
from pathlib import Path
from unittest.mock import Mock

import fleet_keys
import pytest

from gateway.base.event_log.audit import AuditTrail
from gateway.process.access import changes as access_audit
from gateway.process.configuration import config
from gateway.tools import cli
from gateway.tools.commands import psk_lines

CONFIGURATION = """
[gateway]
id = "gw-a"
state_dir = "state"
[mqtt]
tls_port = 0
certificate_file = "ca/gw-a.pem"
key_file = "ca/gw-a.key.pem"
client_certificate = "optional"
client_ca_file = "ca/ca.pem"
client_crl_file = "ca/revoked.pem"
[coap]
psk_file = "psk"
[tree]
key_file = "tree.key"
discovery = false
[access]
password_file = "passwords"
policy_file = "access.toml"
"""


@pytest.fixture
def settings(tmp_path: Path) -> config.GatewaySettings:
    (tmp_path / "state").mkdir()
    fleet_keys.issue(tmp_path / "ca", "gw-a", "gw-b")
    for name, text in (
        ("gateway.toml", CONFIGURATION),
        ("tree.key", "ab" * 32),
        ("passwords", "alice:$hash$1\n"),
        ("access.toml", "[default]\n"),
        ("psk", ""),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    psk_lines.add(tmp_path / "psk", "device-1")
    return config.load(tmp_path / "gateway.toml", config.GatewaySettings)


def changes(tmp_path: Path) -> list[dict[str, object]]:
    found = [one.as_json() for one in AuditTrail(tmp_path / "state" / "audit.jsonl").changes()]
    return [{name: value for name, value in one.items() if name != "time_s"} for one in found]


def test_nothing_is_noted_while_nothing_changes(
    tmp_path: Path, settings: config.GatewaySettings
) -> None:
    for _ in range(3):
        access_audit.note(settings, "start")
    assert [one["what"] for one in changes(tmp_path)] == ["the trail begins"]


def test_what_changed_is_named_also_over_a_restart(
    tmp_path: Path, settings: config.GatewaySettings
) -> None:
    access_audit.note(settings, "start")
    psk_lines.take_out(tmp_path / "psk", "device-1")
    key = psk_lines.add(tmp_path / "psk", "device-2")
    access_audit.note(settings, "start")
    psk_lines.take_out(tmp_path / "psk", "device-2")
    psk_lines.add(tmp_path / "psk", "device-2")
    (tmp_path / "passwords").write_text("alice:$hash$2\nbob:$hash$3\n")
    access_audit.note(settings, "reload")
    who = "coap.psk_file changed"
    assert changes(tmp_path)[1:] == [
        {"who": "start", "what": who, "added": ["device-2"], "removed": ["device-1"]},
        {
            "who": "reload",
            "what": "access.password_file changed",
            "added": ["bob"],
            "replaced": ["alice"],
        },
        {"who": "reload", "what": who, "replaced": ["device-2"]},
    ]
    text = (tmp_path / "state" / "audit.jsonl").read_text()
    assert key not in text and "$hash$" not in text
    for name in ("audit.jsonl", "audited.json"):
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600


def test_certificates_revocations_and_the_policy_are_followed(
    tmp_path: Path, settings: config.GatewaySettings
) -> None:
    access_audit.note(settings, "start")
    fleet_keys.keys("renew", "--ca", tmp_path / "ca", "gw-a")
    fleet_keys.keys("revoke", "--ca", tmp_path / "ca", "gw-b")
    (tmp_path / "access.toml").write_text('[default]\nsubscribe = ["#"]\n')
    access_audit.note(settings, "reload")
    fields = [(one["what"], sorted(one)) for one in changes(tmp_path)[1:]]
    assert fields == [
        ("access.policy_file changed", ["added", "removed", "what", "who"]),
        ("mqtt.certificate_file changed", ["added", "removed", "what", "who"]),
        ("mqtt.client_crl_file changed", ["added", "what", "who"]),
    ]


def test_very_many_names_are_counted(tmp_path: Path, settings: config.GatewaySettings) -> None:
    access_audit.note(settings, "start")
    lines = "".join(f"user-{number}:$hash$\n" for number in range(1_000))
    (tmp_path / "passwords").write_text(lines)
    access_audit.note(settings, "reload")
    added = changes(tmp_path)[-1]["added"]
    assert isinstance(added, list)
    assert (len(added), added[-1]) == (51, "and 950 more")


def test_the_trail_is_read_by_a_command(
    tmp_path: Path, settings: config.GatewaySettings, capsys: pytest.CaptureFixture[str]
) -> None:
    access_audit.note(settings, "start")
    psk_lines.take_out(tmp_path / "psk", "device-1")
    access_audit.note(settings, "reload")
    capsys.readouterr()
    assert cli.main(["keys", "log", "--config", str(tmp_path / "gateway.toml")]) == 0
    assert capsys.readouterr().out.endswith("  reload  coap.psk_file changed  removed=device-1\n")


def test_a_file_that_can_not_be_read_is_told_of_and_is_no_change(
    tmp_path: Path, settings: config.GatewaySettings, caplog: pytest.LogCaptureFixture
) -> None:
    access_audit.note(settings, "start")
    whole = (tmp_path / "passwords").read_text()
    (tmp_path / "passwords").unlink()
    assert "access.password_file: " in access_audit.note(settings, "reload")
    assert "does not tell what has changed of access.password_file" in caplog.text
    (tmp_path / "passwords").write_text(f"{whole}bob:$hash$2\n")
    assert access_audit.note(settings, "reload") == ""
    assert changes(tmp_path)[1:] == [
        {"who": "reload", "what": "access.password_file changed", "added": ["bob"]}
    ]


def test_a_trail_that_does_not_know_what_was_before_says_so(
    tmp_path: Path, settings: config.GatewaySettings
) -> None:
    access_audit.note(settings, "start")
    damages = (
        lambda file: file.write_bytes(b"\0"),
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b"[]"),
        lambda file: file.write_bytes(b'{"psk_file": []}'),
    )
    for damage in damages:
        damage(tmp_path / "state" / "audited.json")
        access_audit.note(settings, "start")
    again = "the trail begins again, changes before are not known"
    assert [one["what"] for one in changes(tmp_path)] == ["the trail begins", *[again] * 4]


def test_a_trail_that_can_not_be_written_is_told_of_and_catches_up(
    tmp_path: Path, settings: config.GatewaySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    access_audit.note(settings, "start")
    psk_lines.take_out(tmp_path / "psk", "device-1")
    with monkeypatch.context() as patched:
        patched.setattr(AuditTrail, "append", Mock(side_effect=OSError(28, "No space left")))
        assert "No space left" in access_audit.note(settings, "reload")
    assert access_audit.note(settings, "reload") == ""
    assert changes(tmp_path)[-1]["removed"] == ["device-1"]


def test_lists_of_neighbours_that_can_not_be_read_are_told_of_and_are_no_change(
    tmp_path: Path, settings: config.GatewaySettings
) -> None:
    access_audit.note(settings, "start")
    (tmp_path / "state" / access_audit.SPREAD).write_text(
        "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"
    )
    assert "revocations of neighbours: " in access_audit.note(settings, "reload")
    assert len(changes(tmp_path)) == 1
