"""A configuration on trial: the gateway comes up by it in time, or goes by the one before.

Pure. This is stated here and nowhere else:

- Who changes a configuration writes beside it the one of before and a `ConfigTrial`, and then the
  new one. A trial is of one content: it says nothing of a file that holds another.
- The gateway judges, for nobody else sees all ways in which it may not come up, and it does so
  without anybody who waits. What it has seen is a `TrialNote` in its state folder.
- A note is of one trial, by its id. There `trying` becomes `confirmed` or `returned`, once.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, replace
from typing import Any, Final

from gateway.process.config_trials import LEAST_WITHIN_S, MOST_WITHIN_S
from light_dataclasses import dataclass

STARTS: Final = 3
"""So often a gateway may begin to start by it. One is the change's own, one a power cut's."""
MOST_BYTES: Final = 8192
"""Of the file of a trial, or of a note."""
TRYING: Final = "trying"
CONFIRMED: Final = "confirmed"
RETURNED: Final = "returned"
_STATES: Final = (TRYING, CONFIRMED, RETURNED)
_ID: Final = re.compile(r"[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MOST_WHY: Final = 1000


class TrialFileError(ValueError):
    """A file holds no trial or note; the message names the field."""


@dataclass(frozen=True, slots=True)
class ConfigTrial:
    """A trial of a configuration.

    Attributes:
        id: 16 hexadecimal digits, other ones for each trial.
        before: SHA-256 of the configuration that the gateway goes back to.
        after: SHA-256 of the one that is tried.
        within_s: in which the gateway has to have come up.
        state_dir: of the gateway by the configuration of before: where its note stands.
        needs_restart: a gateway that runs does not take all of it over at a reload.

    """

    id: str
    before: str
    after: str
    within_s: float
    state_dir: str
    needs_restart: bool = True


@dataclass(frozen=True, slots=True)
class TrialNote:
    """The state of a trial, as the gateway that is on trial notes it.

    Attributes:
        id: of the trial.
        state: ``trying``, ``confirmed`` or ``returned``.
        starts: how often it has begun to start by the new configuration, or to take it over.
        why: why it went back; else empty.

    """

    id: str
    state: str = TRYING
    starts: int = 0
    why: str = ""


def digest(data: bytes) -> str:
    """Return what a configuration is known by: SHA-256 of its bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def begun(trial: ConfigTrial, note: TrialNote | None) -> TrialNote:
    """Return the note of a gateway that is about to start by a configuration on trial.

    Args:
        trial: the trial.
        note: the one that is there; None if there is none.

    """
    if note is None or note.id != trial.id:
        note = TrialNote(trial.id)
    if note.state != TRYING:
        return note
    if note.starts >= STARTS:
        return returned(note, f"the gateway began to start {STARTS} times and did not come up")
    return replace(note, starts=note.starts + 1)


def confirmed(note: TrialNote) -> TrialNote:
    """Return the note of a gateway that has come up; one that went back stays so."""
    return note if note.state == RETURNED else replace(note, state=CONFIRMED)


def returned(note: TrialNote, why: str) -> TrialNote:
    """Return the note of a gateway that goes back; one that came up stays so.

    Args:
        note: as it is.
        why: why it goes back.

    """
    if note.state == CONFIRMED:
        return note
    return replace(note, state=RETURNED, why=note.why or why[:_MOST_WHY])


def encode(record: ConfigTrial | TrialNote) -> bytes:
    """Return the bytes of its file."""
    return json.dumps(asdict(record), indent=1).encode() + b"\n"


def decode_trial(data: bytes) -> ConfigTrial:
    """Return the trial that a file holds.

    Raises:
        TrialFileError: it holds none.

    """
    told = _told(data)
    own_id = _text(told, "id", _ID)
    before, after = _text(told, "before", _DIGEST), _text(told, "after", _DIGEST)
    within_s = told.get("within_s")
    if isinstance(within_s, bool) or not isinstance(within_s, int | float):
        raise TrialFileError(f"within_s: {within_s!r} is no number")
    if not math.isfinite(within_s) or not LEAST_WITHIN_S <= within_s <= MOST_WITHIN_S:
        raise TrialFileError(f"within_s: {within_s} is not {LEAST_WITHIN_S:g} to {MOST_WITHIN_S:g}")
    needs_restart = told.get("needs_restart")
    if not isinstance(needs_restart, bool):
        raise TrialFileError(f"needs_restart: {needs_restart!r} is neither true nor false")
    folder = _text(told, "state_dir")
    return ConfigTrial(own_id, before, after, float(within_s), folder, needs_restart)


def decode_note(data: bytes) -> TrialNote:
    """Return the note that a file holds.

    Raises:
        TrialFileError: it holds none.

    """
    told = _told(data)
    state, starts = told.get("state"), told.get("starts")
    if state not in _STATES:
        raise TrialFileError(f"state: {state!r} is none of {', '.join(_STATES)}")
    if type(starts) is not int or starts < 0:
        raise TrialFileError(f"starts: {starts!r} is no count")
    why = told.get("why")
    if not isinstance(why, str):
        raise TrialFileError(f"why: {why!r} is no text")
    return TrialNote(_text(told, "id", _ID), state, starts, why)


def _told(data: bytes) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise TrialFileError(f"{len(data)} bytes, over {MOST_BYTES}")
    try:
        told = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TrialFileError(f"no JSON: {error}") from error
    if not isinstance(told, dict):
        raise TrialFileError("no JSON object")
    return told


def _text(told: dict[str, Any], name: str, form: re.Pattern[str] | None = None) -> str:
    value = told.get(name)
    if not isinstance(value, str) or (form is not None and not form.fullmatch(value)):
        raise TrialFileError(f"{name}: {str(value)[:80]!r} is not of its form")
    return value
