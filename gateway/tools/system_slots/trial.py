"""A system on trial: confirmed in time, or the one before is started again.

Pure. Every decision is a list of steps that the shell carries out in their order; each step is on
the card before the next one, and after a power cut between any two of them the next start decides
anew. Until it is confirmed, a system on trial is only ever started by a try, which the firmware
forgets: so whatever happens to it, the start after that is the one before.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

from gateway.tools.system_slots.slots import Slot, SystemSlotError
from light_dataclasses import dataclass

ATTEMPTS = 2
"""So often a system is tried: one try may be ended by a power cut."""
MOST_ATTEMPTS = 10
MOST_WITHIN_S = 900.0
"""Then hedgerow-system-deadline restarts the Pi, in which not even the watch may run."""


@dataclass(frozen=True, slots=True)
class SystemTrial:
    """A trial that is open.

    Attributes:
        slot: the one on trial.
        version: of the system in it.
        attempts_left: how often it can still be started.
        within_s: seconds that each start has to be confirmed in.
        has_gateway: whether a gateway ran before, which therefore has to run.
        why: why the one before has to run again; empty while the trial goes on.

    """

    slot: Slot
    version: str
    attempts_left: int
    within_s: float
    has_gateway: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class StartedSlots:
    """The slots that are started.

    Attributes:
        slot: the one that runs.
        default: the one that ``autoboot.txt`` has started.

    """

    slot: Slot
    default: Slot


@dataclass(frozen=True, slots=True)
class KeepTrial:
    """Have this trial on the disk."""

    trial: SystemTrial


@dataclass(frozen=True, slots=True)
class MakeDefault:
    """Have ``autoboot.txt`` start this slot."""

    slot: Slot


@dataclass(frozen=True, slots=True)
class CloseTrial:
    """Note how a trial ended, and that it did; confirmed if it says no ``why``."""

    trial: SystemTrial


@dataclass(frozen=True, slots=True)
class RestartPi:
    """Restart the Pi: once into the other slot, or as ``autoboot.txt`` has it."""

    is_try: bool


TrialStep = KeepTrial | MakeDefault | CloseTrial | RestartPi


def check_install(running: StartedSlots, opened: SystemTrial | None) -> None:
    """Make sure that the other slot may be written over.

    Raises:
        SystemSlotError: it is needed.

    """
    if opened is not None:
        raise SystemSlotError(
            f"{opened.version} is on trial in slot {opened.slot.value}: first confirm it or go back"
        )
    if running.slot is not running.default:
        raise SystemSlotError(
            f"slot {running.slot.value} runs, and {running.default.value} is what is started: "
            "restart first"
        )


def begun(running: StartedSlots, trial: SystemTrial) -> tuple[TrialStep, ...]:
    """Try what is whole in the other slot.

    Args:
        running: what is started.
        trial: of the other slot, with all attempts left.

    Raises:
        SystemSlotError: the slot is not the other one, or a number is out of range.

    """
    check_install(running, None)
    if trial.slot is running.slot:
        raise SystemSlotError(f"slot {trial.slot.value} runs already")
    if not 1 <= trial.attempts_left <= MOST_ATTEMPTS:
        raise SystemSlotError(f"attempts: {trial.attempts_left} is not 1 to {MOST_ATTEMPTS}")
    if not 0 < trial.within_s <= MOST_WITHIN_S:
        raise SystemSlotError(f"within: {trial.within_s} is not more than 0 to {MOST_WITHIN_S:g} s")
    return _tried(trial)


def at_boot(running: StartedSlots, trial: SystemTrial | None) -> tuple[TrialStep, ...]:
    """Return what a start has to do about a trial; nothing where the trial goes on.

    Args:
        running: what was started.
        trial: the open one; None if there is none.

    """
    if trial is None:
        return ()
    if running.slot is trial.slot:
        if running.default is trial.slot:  # confirmed, and cut off before that was noted
            return (CloseTrial(replace(trial, why="")),)
        return (RestartPi(is_try=False),) if trial.why else ()
    if running.default is trial.slot:  # the firmware can't start it, though it once did
        failed = replace(trial, why=trial.why or "the firmware does not start it")
        return (MakeDefault(running.slot), CloseTrial(failed))
    if not trial.why and trial.attempts_left > 0:
        return _tried(trial)
    return (CloseTrial(replace(trial, why=trial.why or "it did not come up, or not to its end")),)


def passed(trial: SystemTrial, seconds: float) -> SystemTrial:
    """Return the trial so long after the start of the system on trial."""
    if trial.why or seconds < trial.within_s:
        return trial
    return replace(trial, why="its gateway was not healthy in time")


def confirmed(running: StartedSlots, trial: SystemTrial | None) -> tuple[TrialStep, ...]:
    """Have the system on trial stay.

    Raises:
        SystemSlotError: it does not run, or is on its way back.

    """
    if trial is None:
        raise SystemSlotError("no system is on trial")
    if running.slot is not trial.slot:
        raise SystemSlotError(
            f"{trial.version} is on trial in slot {trial.slot.value}, and {running.slot.value} runs"
        )
    if trial.why:
        raise SystemSlotError(f"{trial.version} has failed: {trial.why}")
    return (MakeDefault(trial.slot), CloseTrial(trial))


def sent_back(running: StartedSlots, trial: SystemTrial, why: str) -> tuple[TrialStep, ...]:
    """End a trial with the system before, whichever of the two runs."""
    failed = replace(trial, why=trial.why or why)
    if running.slot is trial.slot:
        return (KeepTrial(failed), RestartPi(is_try=False))
    return (CloseTrial(failed),)


def _tried(trial: SystemTrial) -> tuple[TrialStep, ...]:
    """Counted before it is started: one that ends in the middle of it has been counted."""
    one = replace(trial, attempts_left=trial.attempts_left - 1)
    return (KeepTrial(one), RestartPi(is_try=True))


def as_json(trial: SystemTrial) -> dict[str, Any]:
    """For files and ``--json``."""
    return {**asdict(trial), "slot": trial.slot.value}


def encode(trial: SystemTrial) -> bytes:
    """For a file."""
    return json.dumps(as_json(trial)).encode() + b"\n"


def decode(data: bytes) -> SystemTrial:
    """From a file.

    Raises:
        SystemSlotError: it holds no trial; the message names the field.

    """
    try:
        told = json.loads(data)
    except ValueError as error:
        raise SystemSlotError(f"no JSON: {error}") from error
    if not isinstance(told, dict):
        raise SystemSlotError("no JSON object")
    for name, kinds in _FIELDS.items():
        value = told.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise SystemSlotError(f"{name}: {value!r}")
    if not math.isfinite(told["within_s"]):
        raise SystemSlotError(f"within_s: {told['within_s']!r}")
    if told["slot"] not in ("A", "B"):
        raise SystemSlotError(f"slot: {told['slot']!r}")
    return SystemTrial(**{**{name: told[name] for name in _FIELDS}, "slot": Slot(told["slot"])})


_FIELDS: dict[str, tuple[type, ...]] = {
    "slot": (str,),
    "version": (str,),
    "attempts_left": (int,),
    "within_s": (int, float),
    "has_gateway": (bool,),
    "why": (str,),
}
