"""Faults of a gateway and its machine, and what to do; from what was looked at, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from alerts.thresholds import ENDING_DAYS, HOT_CEL
from gateway.backups import backup_state
from gateway.backups.backup_state import BackupState
from gateway.base.firmware import THROTTLED_NOW, UNDER_VOLTAGE_NOW, UNDER_VOLTAGE_SINCE
from gateway.base.printable import printable
from gateway.process.status.links_text import without_links
from light_dataclasses import dataclass

LITTLE_BYTES = 64_000_000
"""With less room on its disk a gateway soon refuses messages."""


class Weight(StrEnum):
    """The weight of a finding."""

    WRONG = "wrong"
    LOOK = "look"


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing.

    Attributes:
        weight: whether it has to be mended, or may be as it is meant.
        about: one word, such as ``links`` or ``disk``.
        what: was found.
        advice: what to do.

    """

    weight: Weight
    about: str
    what: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorObservations:
    """The observations that the doctor judges; None where there is none.

    Attributes:
        faults: of the configuration, each in words, and what to do where that is known.
        silence: why the gateway tells nothing; empty if it does.
        silence_remedy: what to do about that; empty if the journal has to tell.
        status: what it tells.
        broker: why its broker does not answer; empty if it does.
        reboot_for: the packages whose upgrade waits for a reboot, as far as they are noted.
        clock_is_set: whether a time service keeps the clock.
        free_bytes: of the disk with its state.
        throttled: the firmware's bits.
        temperature_c: of the processor.
        releases: what is on trial, and how the last trial ended.
        backup: how it stands with backups by a timer.

    """

    faults: Mapping[str, str] = field(default_factory=dict)
    silence: str = ""
    silence_remedy: str = ""
    status: Mapping[str, Any] | None = None
    broker: str | None = None
    reboot_for: Sequence[str] | None = None
    clock_is_set: bool | None = None
    free_bytes: int | None = None
    throttled: int | None = None
    temperature_c: float | None = None
    releases: Mapping[str, Any] | None = None
    backup: BackupState = field(default_factory=BackupState)


def findings(examined: DoctorObservations) -> list[Symptom]:
    """Return all that is wrong, and what is worth a look, in the order in which to mend it."""
    return [
        *_of_the_configuration(examined),
        *_of_the_machine(examined),
        *_of_the_process(examined),
        *_of_the_tree(examined.status or {}),
        *_of_certificates(examined.status or {}),
        *_of_releases(examined.releases or {}),
        *_of_backups(examined.backup),
    ]


def _of_the_configuration(examined: DoctorObservations) -> Iterator[Symptom]:
    for fault, remedy in examined.faults.items():
        advice = remedy or "mend that line, then reload"
        yield Symptom(Weight.WRONG, "configuration", fault, advice)


def _of_the_machine(examined: DoctorObservations) -> Iterator[Symptom]:
    free, bits, hot_c = examined.free_bytes, examined.throttled, examined.temperature_c
    if free is not None and free < LITTLE_BYTES:
        what = f"{free / 1e6:.1f} MB are free"
        yield Symptom(Weight.WRONG, "disk", what, "make room, or set a smaller log.max_bytes")
    if bits is not None and bits & UNDER_VOLTAGE_NOW:
        advice = "take a better supply and a shorter cable: cards are damaged by this"
        yield Symptom(Weight.WRONG, "power", "the supply's voltage is too low", advice)
    elif bits is not None and bits & UNDER_VOLTAGE_SINCE:
        what = "the supply's voltage has been too low since the boot"
        yield Symptom(Weight.LOOK, "power", what, "take a better supply and a shorter cable")
    if (bits is not None and bits & THROTTLED_NOW) or (hot_c is not None and hot_c >= HOT_CEL):
        degrees = "" if hot_c is None else f" at {hot_c:.0f} °C"
        yield Symptom(Weight.LOOK, "power", f"the processor is slowed down{degrees}", "cool it")
    if examined.reboot_for is not None:
        what = "an upgrade waits for a reboot"
        if examined.reboot_for:
            what = f"{what}: {', '.join(examined.reboot_for)}"
        advice = (
            "`sudo systemctl reboot` in a quiet hour, and never two on the same way at once;"
            " `reboot.yml` does it so for a fleet"
        )
        yield Symptom(Weight.LOOK, "system", what, advice)
    if examined.clock_is_set is False:
        what = "no time service keeps the clock"
        advice = "`timedatectl`: is an NTP server reached? Certificates fail where it is far off"
        yield Symptom(Weight.LOOK, "clock", what, advice)


def _of_the_process(examined: DoctorObservations) -> Iterator[Symptom]:
    status = examined.status
    if examined.silence:
        journal = "`systemctl status hedgerow`, `journalctl -u hedgerow`: its last line says why"
        advice = examined.silence_remedy or journal
        yield Symptom(Weight.WRONG, "gateway", examined.silence, advice)
    if examined.broker:
        advice = "see the journal; it restarts by itself if systemd runs it"
        yield Symptom(Weight.WRONG, "broker", examined.broker, advice)
    if status is not None and (failure := status.get("disk", {}).get("failure")):
        what = f"messages are refused: {failure}"
        yield Symptom(Weight.WRONG, "disk", what, "make room, or take a new card")
    for name, why in sorted((status or {}).get("failing", {}).items()):
        advice = (
            "`journalctl -u hedgerow` has more; mend it, and reload if it is files that are read"
        )
        yield Symptom(Weight.WRONG, "gateway", f"{name} has failed: {why}", advice)
    for what, count in sorted((status or {}).get("set_aside", {}).items()):
        advice = "`journalctl -u hedgerow | grep 'set aside'` says which, and why"
        yield Symptom(Weight.LOOK, "gateway", f"set aside {count} times: {what}", advice)
    if status is not None and "neighbours" not in status:
        what = "it tells this identity only that it runs"
        yield Symptom(Weight.LOOK, "gateway", what, "give --psk-file, and the identity a role")


def _of_the_tree(status: Mapping[str, Any]) -> Iterator[Symptom]:
    neighbours = status.get("neighbours")
    advice = 'docs/operations.md, "Two gateways that do not link", has each reason'
    for line in without_links(status):
        yield Symptom(Weight.WRONG, "links", line, advice)
    if neighbours == [] and len(status.get("members", ())) > 1:
        others = ", ".join(one for one in status["members"] if one != status["id"])
        what = f"no link to any gateway, and it knows {others}"
        yield Symptom(Weight.WRONG, "links", what, "cable, switch, firewall (TCP 8883)?")
    elif neighbours and not any(one["forwarding"] for one in neighbours):
        what = "none of its links forwards"
        yield Symptom(Weight.WRONG, "links", what, "look again in ten seconds; then as above")
    if status.get("drain") is not None:
        what = "it is draining, and takes no clients"
        yield Symptom(Weight.LOOK, "gateway", what, "a restart takes it back into the fleet")


def _of_certificates(status: Mapping[str, Any]) -> Iterator[Symptom]:
    for one in status.get("certificates", ()):
        days = one["days_left"]
        if days < ENDING_DAYS:
            weight = Weight.WRONG if days < 0 else Weight.LOOK
            ends = "has ended" if days < 0 else f"ends in {days} days"
            advice = "`hedgerow keys renew`, copy, reload (docs/keys.md)"
            if days < 0:
                advice = f"is this machine's clock right (`timedatectl`)? Then {advice}"
            yield Symptom(weight, "certificates", f"{one['field']}: {one['name']!r} {ends}", advice)


def _of_releases(releases: Mapping[str, Any]) -> Iterator[Symptom]:
    if unread := releases.get("unread"):
        advice = "what runs now stays: see /opt/hedgerow, and run upgrade.yml or site.yml again"
        yield Symptom(Weight.WRONG, "release", f"its trial can't be read: {unread}", advice)
    if trial := releases.get("trial"):
        what = f"{trial['release']} is on trial, for {trial['left_s']:.0f} s more"
        advice = f"unless upgrade.yml confirms it, {trial['before']} runs again"
        yield Symptom(Weight.LOOK, "release", what, advice)
    last = releases.get("last") or {}
    if last.get("outcome") == "returned":
        what = f"{last['release']} was sent back: {last['why']}"
        yield Symptom(Weight.LOOK, "release", what, "mend it before the next upgrade")


def _of_backups(backup: BackupState) -> Iterator[Symptom]:
    why = printable(backup.backup_why)
    if backup.backup in backup_state.WRONG:
        advice = (
            "`journalctl -u hedgerow-gateway-backup`; once it is mended,"
            " `systemctl start hedgerow-gateway-backup`"
        )
        if backup.backup == backup_state.TRIAL_FAILED:
            advice = "`hedgerow backup check` where the key is; it clears with the next trial"
        yield Symptom(Weight.WRONG, "backup", f"{backup.backup}: {why}", advice)
    elif why:
        what = f"the last one failed: {why}"
        advice = "the one before is good: `journalctl -u hedgerow-gateway-backup`"
        if backup.backup == backup_state.NONE_YET:
            advice = "there is none yet: `journalctl -u hedgerow-gateway-backup`"
        yield Symptom(Weight.LOOK, "backup", what, advice)
