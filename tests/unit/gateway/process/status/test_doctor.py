"""The doctor names each fault of a gateway, and says how to mend it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alerts.thresholds import ENDING_DAYS, HOT_CEL
from gateway.backups.backup_state import BackupState
from gateway.base.firmware import THROTTLED_NOW, UNDER_VOLTAGE_SINCE
from gateway.process.status.doctor import DoctorObservations, Symptom, Weight, findings
from gateway.tools import cli
from gateway.tools.commands import doctor

HEALTHY: dict[str, Any] = {
    "id": "gw-a",
    "members": ["gw-a", "gw-b"],
    "neighbours": [{"id": "gw-b", "forwarding": True}],
    "disk": {"failure": None, "free_bytes": 10**9},
    "drain": None,
    "certificates": [{"field": "mqtt.certificate_file", "name": "gw-a", "days_left": 300}],
}
WELL = DoctorObservations(
    status=HEALTHY,
    broker="",
    clock_is_set=True,
    free_bytes=10**9,
    throttled=0,
    temperature_c=40.0,
    releases={"trial": None, "last": {"outcome": "confirmed"}},
)


def changed(**fields: Any) -> DoctorObservations:
    from dataclasses import replace

    return replace(WELL, **fields)


def told(**more: Any) -> DoctorObservations:
    return changed(status={**HEALTHY, **more})


def test_of_a_healthy_gateway_nothing_is_said() -> None:
    assert findings(WELL) == []


def test_what_could_not_be_looked_at_is_not_called_wrong() -> None:
    assert findings(DoctorObservations()) == []


@pytest.mark.parametrize(
    ("examined", "weight", "words"),
    [
        (
            told(failing={"certificates": "no"}),
            Weight.WRONG,
            "gateway: certificates has failed: no",
        ),
        (told(set_aside={"sweep": 3}), Weight.LOOK, "gateway: set aside 3 times: sweep"),
        (changed(faults={"a.toml:1: x": ""}), Weight.WRONG, "configuration: a.toml:1: x"),
        (changed(silence="not running", status=None), Weight.WRONG, "gateway: not running"),
        (changed(broker="MQTT: refused"), Weight.WRONG, "broker: MQTT: refused"),
        (changed(free_bytes=10**6), Weight.WRONG, "disk: 1.0 MB are free"),
        (changed(throttled=0x50001), Weight.WRONG, "power: the supply's voltage is too low"),
        (changed(throttled=0x50000), Weight.LOOK, "power: the supply's voltage has been"),
        (changed(temperature_c=85.0), Weight.LOOK, "power: the processor is slowed down at 85"),
        (changed(clock_is_set=False), Weight.LOOK, "clock: no time service"),
        (changed(reboot_for=()), Weight.LOOK, "system: an upgrade waits for a reboot"),
        (
            changed(reboot_for=("libc6", "linux-image-6.12")),
            Weight.LOOK,
            "system: an upgrade waits for a reboot: libc6, linux-image-6.12",
        ),
        (changed(status={"id": "gw-a", "up_s": 1}), Weight.LOOK, "gateway: it tells this identity"),
        (told(disk={"failure": "full"}), Weight.WRONG, "disk: messages are refused: full"),
        (told(neighbours=[]), Weight.WRONG, "links: no link to any gateway, and it knows gw-b"),
        (
            told(neighbours=[{"id": "gw-b", "forwarding": False}]),
            Weight.WRONG,
            "links: none of its links forwards",
        ),
        (told(drain={}), Weight.LOOK, "gateway: it is draining"),
        (
            told(certificates=[{"field": "f", "name": "gw-a", "days_left": -1}]),
            Weight.WRONG,
            "certificates: f: 'gw-a' has ended",
        ),
        (
            told(certificates=[{"field": "f", "name": "gw-a", "days_left": 12}]),
            Weight.LOOK,
            "certificates: f: 'gw-a' ends in 12 days",
        ),
        (
            changed(releases={"trial": {"release": "2", "before": "1", "left_s": 60.0}}),
            Weight.LOOK,
            "release: 2 is on trial, for 60 s more",
        ),
        (
            changed(releases={"unread": "trial.json: no JSON", "last": None}),
            Weight.WRONG,
            "release: its trial can't be read: trial.json: no JSON",
        ),
        (
            changed(releases={"last": {"outcome": "returned", "release": "2", "why": "it ended"}}),
            Weight.LOOK,
            "release: 2 was sent back: it ended",
        ),
    ],
)
def test_each_thing_is_named_with_its_weight(
    examined: DoctorObservations, weight: Weight, words: str
) -> None:
    found = [one for one in findings(examined) if f"{one.about}: {one.what}".startswith(words)]
    assert [one.weight for one in found] == [weight], findings(examined)
    assert all(one.advice for one in found)


@pytest.mark.parametrize(
    ("state", "weight", "what", "advice"),
    [
        (
            BackupState("overdue", "for 4 days\x1b", 9e5),
            Weight.WRONG,
            "overdue: for 4 days\\x1b",
            "`journalctl -u hedgerow-gateway-backup`; once it is mended,"
            " `systemctl start hedgerow-gateway-backup`",
        ),
        (
            BackupState("trial failed", "no key", 5.0),
            Weight.WRONG,
            "trial failed: no key",
            "`hedgerow backup check` where the key is; it clears with the next trial",
        ),
        (
            BackupState("good", "no room", 5.0),
            Weight.LOOK,
            "the last one failed: no room",
            "the one before is good: `journalctl -u hedgerow-gateway-backup`",
        ),
        (
            BackupState("none yet", "no room"),
            Weight.LOOK,
            "the last one failed: no room",
            "there is none yet: `journalctl -u hedgerow-gateway-backup`",
        ),
    ],
)
def test_a_backup_that_failed_is_told_with_what_stands_in_its_place(
    state: BackupState, weight: Weight, what: str, advice: str
) -> None:
    assert findings(changed(backup=state)) == [Symptom(weight, "backup", what, advice)]


def test_a_backup_that_is_good_or_off_is_not_told_of() -> None:
    for state in (BackupState("good", "", 5.0), BackupState("off"), BackupState("none yet")):
        assert findings(changed(backup=state)) == []


@pytest.mark.parametrize(
    ("at", "beyond"),
    [
        ({"free_bytes": 64_000_000}, {"free_bytes": 63_999_999}),
        ({"temperature_c": HOT_CEL - 0.1}, {"temperature_c": HOT_CEL}),
        ({"clock_is_set": True}, {"clock_is_set": False}),
        ({"throttled": 0}, {"throttled": THROTTLED_NOW}),
        ({"throttled": None}, {"throttled": UNDER_VOLTAGE_SINCE}),
        ({"reboot_for": None}, {"reboot_for": []}),
    ],
)
def test_each_limit_of_the_machine_is_exact(at: dict[str, Any], beyond: dict[str, Any]) -> None:
    assert findings(changed(**at)) == []
    assert len(findings(changed(**beyond))) == 1


@pytest.mark.parametrize(
    ("days", "told_days"),
    [
        (ENDING_DAYS, []),
        (ENDING_DAYS - 1, [(Weight.LOOK, f"f: 'gw-a' ends in {ENDING_DAYS - 1} days")]),
        (0, [(Weight.LOOK, "f: 'gw-a' ends in 0 days")]),
        (-1, [(Weight.WRONG, "f: 'gw-a' has ended")]),
    ],
)
def test_a_certificate_is_told_of_before_its_end(
    days: int, told_days: list[tuple[Weight, str]]
) -> None:
    found = findings(told(certificates=[{"field": "f", "name": "gw-a", "days_left": days}]))
    assert [(one.weight, one.what) for one in found] == told_days
    assert all(("timedatectl" in one.advice) == (days < 0) for one in found)


def test_a_gateway_that_is_alone_in_the_fleet_lacks_no_link() -> None:
    assert findings(told(neighbours=[], members=["gw-a"])) == []
    both = [{"id": "gw-b", "forwarding": False}, {"id": "gw-c", "forwarding": True}]
    assert findings(told(neighbours=both)) == []


def test_who_may_not_look_is_told_so_and_not_to_mend_what_is_not_wrong() -> None:
    remedy = "it is hedgerow's: repeat this as that user, or with sudo"
    denied = changed(
        faults={"a.toml:3: tree.key_file: Permission denied": remedy},
        silence="permission denied",
        silence_remedy=remedy,
        status=None,
    )
    assert {one.advice for one in findings(denied)} == {remedy}


def test_the_command_says_that_a_gateway_does_not_run_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "tree.key").chmod(0o600)
    file = tmp_path / "gateway.toml"
    file.write_text(
        f'[gateway]\nid = "gw-a"\nstate_dir = "{tmp_path}"\n'
        '[tree]\nkey_file = "tree.key"\ntls = "off"\n[access]\nanonymous = true\n'
    )
    assert cli.main(["doctor", "--config", str(file), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert not document["is_well"]
    about = {one["about"] for one in document["findings"] if one["weight"] == "wrong"}
    assert {"gateway", "broker"} <= about


def test_what_debian_notes_of_a_reboot_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, noted = tmp_path / "gateway.toml", tmp_path / "reboot-required"
    file.write_text("")
    monkeypatch.setattr(doctor, "REBOOT", noted)

    def told() -> list[str]:
        cli.main(["doctor", "--config", str(file), "--json"])
        found = json.loads(capsys.readouterr().out)["findings"]
        return [one["what"] for one in found if one["about"] == "system"]

    assert told() == []
    noted.write_text("*** System restart required ***\n")
    assert told() == ["an upgrade waits for a reboot"]
    noted.with_suffix(".pkgs").write_text("linux-base\nlibc6\nlinux-base\n")
    assert told() == ["an upgrade waits for a reboot: libc6, linux-base"]


def test_a_trial_that_can_not_be_read_is_none_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("")
    monkeypatch.setattr(doctor, "RELEASES", tmp_path)

    def told() -> str:
        cli.main(["doctor", "--config", str(file), "--json"])
        return capsys.readouterr().out

    assert "trial.json" not in told()
    (tmp_path / "trial.json").write_bytes(b"\0")
    assert "trial.json: no JSON" in told()
