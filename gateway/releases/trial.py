"""A release on trial: it is confirmed in time, or the one before it runs again.

Pure. Time is what the machine was up for, for a Pi has no clock that survives; a boot counts too,
so that one which restarts the machine again and again comes to an end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from types import NoneType

BOOTS = 3
"""So often a Pi may boot during a trial. One is an operator's, or a power cut."""
RESTARTS = 4
"""So often systemd may start the service again."""


class TrialError(ValueError):
    """The trial can't do what it is asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class ServiceEnds:
    """The ends of the service that systemd has counted.

    Attributes:
        restarts: how often it was started again, counted from some moment.
        failed_at: what tells when it ended so that it is not started again, in this boot; None
            while it has not.

    """

    restarts: int
    failed_at: int | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial that is open.

    Attributes:
        release: the one on trial.
        before: the one that ran, and was healthy.
        left_s: seconds in which it can still be confirmed.
        boots_left: how often the Pi may still boot.
        boot_id: of the boot that was counted last.
        why: why the one before has to run again; empty while the trial goes on.
        schemes: of the listeners that the one before had: ``mqtt``, ``coaps``.
        restarts: systemd's count of restarts as it was seen last; None if it was not seen yet. It
            goes on from what was before the trial, and may begin anew at any start.
        ends: how often the service was started again in this trial, since the last boot.
        failed_at: when the service had failed as it was seen last; likewise.
        ring: of the roll-out, from 1; None if nobody said.

    """

    release: str
    before: str
    left_s: float
    boots_left: int
    boot_id: str
    why: str = ""
    schemes: tuple[str, ...] = ()
    restarts: int | None = None
    ends: int = 0
    failed_at: int | None = None
    ring: int | None = None


def begun(
    current: str,
    release: str,
    within_s: float,
    boot_id: str,
    opened: Trial | None,
    schemes: Sequence[str] = (),
    told: ServiceEnds | None = None,
) -> Trial:
    """Return a trial of a release.

    One that is open ends without a verdict: what ran before it stays the way back, and what that
    listened on is what has to answer.

    Args:
        current: the release that runs.
        release: the one to try.
        within_s: in which it has to be confirmed.
        boot_id: of this boot.
        opened: the trial that is open; None if none is.
        schemes: of the listeners of the release that runs.
        told: by systemd of the service so far; None if it does not say.

    Raises:
        TrialError: it runs already, and not on trial; or is what an open trial goes back to.

    """
    if opened is None and release == current:
        raise TrialError(f"{release} runs already")
    if opened is not None and (opened.why or release == opened.before):
        raise TrialError(f"{opened.release} is on trial: first let {opened.before} return")
    before = current
    if opened is not None:
        before, schemes = opened.before, opened.schemes
    trial = Trial(release, before, within_s, BOOTS, boot_id, "", tuple(schemes))
    if told is None:
        return trial
    return replace(trial, restarts=told.restarts, failed_at=told.failed_at)


def passed(trial: Trial, seconds: float, boot_id: str, told: ServiceEnds | None) -> Trial:
    """Return the trial after some time.

    Args:
        trial: as it was.
        seconds: that passed.
        boot_id: of this boot.
        told: by systemd of the service; None if it does not say.

    """
    is_same_boot = boot_id == trial.boot_id
    boots_left = trial.boots_left - (not is_same_boot)
    since = trial if is_same_boot else replace(trial, restarts=0, ends=0, failed_at=None)
    seen, ends, failed_at = since.restarts, since.ends, since.failed_at
    if told is not None:
        if seen is not None:
            ends += told.restarts - seen if told.restarts >= seen else told.restarts
            # One that is not started again has ended as often as it takes. The one before the
            # trial may have: that failure counts for nothing.
            if told.failed_at not in (None, failed_at):
                ends += RESTARTS
        seen, failed_at = told.restarts, told.failed_at
    left_s = trial.left_s - max(0.0, seconds)
    why = trial.why
    if not why and boots_left < 0:
        why = f"the Pi booted {BOOTS + 1} times and nobody confirmed it"
    elif not why and ends >= RESTARTS:
        why = f"its service ended {ends} times"
    elif not why and left_s <= 0:
        why = "nobody confirmed it in time"
    return replace(
        trial,
        left_s=left_s,
        boots_left=boots_left,
        boot_id=boot_id,
        why=why,
        restarts=seen,
        ends=ends,
        failed_at=failed_at,
    )


def confirmable(trial: Trial | None, release: str, current: str, complaints: Sequence[str]) -> None:
    """Make sure that a release may be confirmed.

    Args:
        trial: the one that is open; None if none is.
        release: to confirm.
        current: the release that runs.
        complaints: of its listeners (`answers.silent`).

    Raises:
        TrialError: it is not on trial, is not what runs, is on its way back, or does not answer.

    """
    if trial is None or trial.release != release:
        raise TrialError(f"{release} is not on trial")
    if trial.why:
        raise TrialError(f"{release} has failed: {trial.why}")
    if current != release:
        raise TrialError(f"{release} is on trial, and {current} is what runs")
    if complaints:
        raise TrialError(f"{release} does not answer: {'; '.join(complaints)}")


def encode(trial: Trial) -> bytes:
    """For a file."""
    return json.dumps(asdict(trial)).encode() + b"\n"


def decode(data: bytes) -> Trial:
    """From a file.

    Raises:
        TrialError: it holds no trial; the message names the field.

    """
    try:
        told = json.loads(data)
    except ValueError as error:
        raise TrialError(f"no JSON: {error}") from error
    if not isinstance(told, dict):
        raise TrialError("no JSON object")
    for name, kind in _FIELDS.items():
        value = told.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TrialError(f"{name}: {value!r}")
    if not math.isfinite(told["left_s"]):
        raise TrialError(f"left_s: {told['left_s']!r}")
    # One that a release before this one began has none.
    schemes = told.get("schemes", [])
    if not isinstance(schemes, list) or not all(isinstance(one, str) for one in schemes):
        raise TrialError(f"schemes: {schemes!r}")
    ends = told.get("ends", 0)
    if type(ends) is not int:
        raise TrialError(f"ends: {ends!r}")
    for name in ("restarts", "failed_at", "ring"):
        if type(told.get(name)) not in (int, NoneType):
            raise TrialError(f"{name}: {told[name]!r}")
    known = {name: told[name] for name in _FIELDS}
    return Trial(
        **known,
        schemes=tuple(schemes),
        restarts=told.get("restarts"),
        ends=ends,
        failed_at=told.get("failed_at"),
        ring=told.get("ring"),
    )


_FIELDS: dict[str, type | tuple[type, ...]] = {
    "release": str,
    "before": str,
    "left_s": (int, float),
    "boots_left": int,
    "boot_id": str,
    "why": str,
}
