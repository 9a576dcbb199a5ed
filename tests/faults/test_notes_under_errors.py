"""The notes of a life and of changes, of whose calls each fails: done once the disk takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from failing_calls import OF_THE_DISK, Draw, FailingCalls, Fault

from gateway.base.event_log.audit import AuditTrail
from gateway.process.access import changes
from gateway.process.configuration import config
from gateway.process.state_folder.identity import next_boot_epoch
from gateway.process.state_folder.life import GatewayLife, Renewals

WHAT = "access.password_file changed"
AGAIN = "the trail begins again, changes before are not known"
"""The note of a file of earlier changes that is itself at fault: it is set aside."""


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_a_life_that_is_outlived_ends_as_soon_as_the_next_one_can_be_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def outlived(name: str, number: int = 0) -> None:
        (folder / name).mkdir()
        ends: list[bool] = []
        later: list[Callable[[], None]] = []
        life = GatewayLife(
            folder / name,
            next_boot_epoch(folder / name),
            Renewals(lambda: ends.append(True), lambda: 0.0),
            lambda _seconds, step: later.append(step),
        )
        if number:
            calls.fail(number, fault)
        life.outlived(life.epoch + 1_000)
        calls.mend()
        for step in later:
            step()
        assert ends == [True]
        assert next_boot_epoch(folder / name) > life.epoch + 1_000

    outlived("first")
    begun = calls.counts["disk"]
    outlived("whole")
    for number in draw(calls.counts["disk"] - begun):
        outlived(str(number), number)


@pytest.mark.parametrize("fault", OF_THE_DISK, ids=str)
def test_each_change_is_noted_once_the_disk_takes_it_and_nothing_that_did_not_change(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, draw: Draw
) -> None:
    calls = FailingCalls(folder, monkeypatch)

    def changed(name: str, number: int = 0) -> None:
        own = folder / name
        (own / "state").mkdir(parents=True)
        (own / "tree.key").write_text("ab" * 32)
        (own / "gateway.toml").write_text(
            '[gateway]\nid = "gw"\nstate_dir = "state"\n[coap]\npsk_file = "psk"\n'
            '[tree]\nkey_file = "tree.key"\ndiscovery = false\n'
            '[access]\npassword_file = "passwords"\npolicy_file = "access.toml"\n'
        )
        for file, text in (("psk", "a:" + "00" * 16), ("passwords", "b:x"), ("access.toml", "")):
            (own / file).touch(0o600)
            (own / file).write_text(f"{text}\n")
        (own / "tree.key").chmod(0o600)
        settings = config.load(own / "gateway.toml", config.GatewaySettings)
        assert changes.note(settings, "start") == ""
        (own / "passwords").write_text("b:x\nc:y\n")
        if number:
            calls.fail(number, fault)
            has_failed = len(calls.failed)
            told = changes.note(settings, "reload")
            calls.mend()
            assert told or len(calls.failed) == has_failed or added(own) or begins_again(own)
        assert changes.note(settings, "reload") == ""
        assert added(own) or begins_again(own)
        noted = {one.what for one in AuditTrail(own / "state" / "audit.jsonl").changes()}
        assert noted <= {"the trail begins", WHAT, AGAIN}

    def begins_again(own: Path) -> bool:
        return any(one.what == AGAIN for one in AuditTrail(own / "state" / "audit.jsonl").changes())

    def added(own: Path) -> bool:
        noted = AuditTrail(own / "state" / "audit.jsonl").changes()
        found = [one.of for one in noted if one.what == WHAT]
        return bool(found) and all(one == {"added": ["c"]} for one in found)

    changed("first")
    begun = calls.counts["disk"]
    changed("whole")
    for number in draw(max(1, (calls.counts["disk"] - begun) // 2)):
        changed(str(number), number)
