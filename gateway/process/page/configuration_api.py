"""The page's side of a gateway's configuration: shows it, checks a change, applies it on trial.

What a change does is `gateway.process.config_trials`, as for `hedgerow config set`: it is checked,
and goes back by itself if the gateway does not come up. Where the gateway may not write its
configuration, as a confined service may not, the page says which command does it.
"""

from __future__ import annotations

import asyncio
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from gateway.base.toml import edited
from gateway.base.toml.edited import EditError, KeyChange
from gateway.process.access.whole_change import WholeChanges
from gateway.process.config_trials import WITHIN_S, change_on_trial
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.change_on_trial import Check, Find, PlannedChange, WantedChange
from gateway.process.config_trials.changing import ChangedMeanwhileError
from gateway.process.config_trials.trial import TrialNote
from gateway.process.config_trials.trial_files import BEFORE, TrialFiles, last_note
from gateway.process.configuration import written_change
from gateway.process.configuration.shown import shown
from gateway.process.configuration.written_change import WrittenChangeError
from gateway.process.page import editable_keys, writable_files
from gateway.process.page.administration import Administration
from gateway.process.page.api_request import ApiRequest, Handlers
from gateway.web.api_error import ApiError
from light_dataclasses import dataclass

CHANGES_MAX: Final = 64
"""Of one request."""
ANSWERED_S: Final = 0.5
"""So long an answer has to be read before the gateway starts anew."""
WAITING: Final = "waiting"
"""A trial that the gateway has not begun yet."""
_WHAT: Final = "configuration"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigPlace:
    """The configuration that the page shows and changes.

    Attributes:
        file: it; None where the gateway has none.
        state_dir: of the gateway.

    """

    file: Path | None
    state_dir: Path


class ConfigurationApi:
    """Answers.

    Args:
        place: of the configuration.
        administration: says who may.
        check: finds what is wrong with a configuration.
        find: finds the gateway that is told, which is this process.

    """

    def __init__(
        self, place: ConfigPlace, administration: Administration, check: Check, find: Find
    ) -> None:
        self._place = place
        self._administration = administration
        self._check = check
        self._find = find
        self._changing = asyncio.Lock()
        self._changes = WholeChanges()
        self._telling: asyncio.TimerHandle | None = None
        self._is_stopped = False

    @property
    def handlers(self) -> Handlers:
        """Return what answers each operation."""
        return {
            "configuration": self.configuration,
            "configuration_trial": self.trial,
            "check_configuration": self.check,
            "change_configuration": self.change,
        }

    def stop(self) -> None:
        """Tell the gateway nothing any more: what is written is on trial from its next start on."""
        self._is_stopped = True
        if self._telling is not None:
            self._telling.cancel()

    # -- show ------------------------------------------------------------------------------------

    async def configuration(self, asked: ApiRequest) -> Any:
        """Tell each key, its value, and where that comes from."""
        files = self._files(asked)
        try:
            return await asyncio.to_thread(self._shown, files)
        except (OSError, ValueError, RecursionError) as error:
            raise _unreadable(files.file, error) from error

    def _shown(self, files: TrialFiles) -> dict[str, Any]:
        data = files.file.read_bytes()
        text = data.decode()
        why_not = writable_files.why_not([files.file, files.before])
        return {
            "file": str(files.file),
            "digest": trials.digest(data),
            "may_write": not why_not,
            "why_not": why_not,
            "trial": self._trial(files),
            "keys": list(editable_keys.told(shown(text, tomllib.loads(text)))),
        }

    async def trial(self, asked: ApiRequest) -> Any:
        """Tell what came of the last change."""
        files = self._files(asked)
        try:
            return {"trial": await asyncio.to_thread(self._trial, files)}
        except OSError as error:
            raise _unreadable(files.file, error) from error

    def _trial(self, files: TrialFiles) -> dict[str, Any] | None:
        trial = files.open_trial()
        if trial is None:
            note = last_note(self._place.state_dir)
            return None if note is None else _told(note)
        note = files.note(trial)
        found = {"id": trial.id, "state": WAITING, "why": ""} if note is None else _told(note)
        return {**found, "within_s": trial.within_s}

    # -- change ----------------------------------------------------------------------------------

    async def check(self, asked: ApiRequest) -> Any:
        """Say what a change would do, and write nothing."""
        files = self._files(asked)
        return await self._changes.carry_out(self._rehearsed_alone(files, asked))

    async def _rehearsed_alone(self, files: TrialFiles, asked: ApiRequest) -> dict[str, Any]:
        async with self._alone():
            told = await _in_thread(files.file, partial(self._rehearsed, files, asked.body))
        self._administration.check_again(asked, _WHAT)
        return told

    def _rehearsed(self, files: TrialFiles, body: Mapping[str, Any]) -> dict[str, Any]:
        changes = changes_of(body)
        now = files.file.read_bytes()
        after = edited.with_keys(now.decode(), changes).encode()
        faults = [] if after == now else list(self._check(after, files.file))
        return {
            "digest": trials.digest(now),
            "changes": _differences(now.decode(), after.decode()),
            "faults": faults,
            "command": _command(files.file, body),
        }

    async def change(self, asked: ApiRequest) -> Any:
        """Write a change on trial, and have the gateway go by it."""
        files = self._files(asked)
        planned = await self._changes.carry_out(self._gone_by(files, asked))
        if planned is None:
            return {"outcome": "unchanged", "restarts_for": [], "trial": None}
        return {
            "outcome": "on trial" if _is_tried(planned) else "written",
            "restarts_for": list(planned.restarting),
            "trial": planned.trial and {"id": planned.trial.id, "within_s": planned.trial.within_s},
        }

    async def _gone_by(self, files: TrialFiles, asked: ApiRequest) -> PlannedChange | None:
        """Have a change written if its visitor still may, and soon the gateway told of it."""
        async with self._alone():
            checked = await _in_thread(files.file, partial(self._checked, files, asked.body))
            # To find what is wrong with a configuration may take a second.
            self._administration.check_again(asked, _WHAT)
            write = partial(
                change_on_trial.written, files, checked.wanted, checked.faults, self._find
            )
            planned = await _in_thread(files.file, write)
        if planned is not None and _is_tried(planned) and not self._is_stopped:
            loop = asyncio.get_running_loop()
            self._telling = loop.call_later(ANSWERED_S, change_on_trial.tell, planned)
        return planned

    def _checked(self, files: TrialFiles, body: Mapping[str, Any]) -> _CheckedChange:
        changes = changes_of(body)
        if why_not := writable_files.why_not([files.file, files.before]):
            why = f"{why_not}; `{_command(files.file, body)}` does it on the machine"
            raise ApiError(HTTPStatus.CONFLICT, why)
        wanted = WantedChange(
            lambda text: edited.with_keys(text, changes),
            body.get("within_s", WITHIN_S),
            body["if_unchanged"],
        )
        checked = _CheckedChange(wanted, self._check)
        now = files.file.read_bytes()
        if trials.digest(now) == wanted.if_unchanged:  # else it is refused as it is written
            after = wanted.edit(now.decode()).encode()
            if after != now:
                checked.faults(after, files.file)
        return checked

    def _alone(self) -> asyncio.Lock:
        if self._changing.locked():
            why = "another change is being checked; try again in a moment"
            raise ApiError(HTTPStatus.TOO_MANY_REQUESTS, why)
        return self._changing

    def _files(self, asked: ApiRequest) -> TrialFiles:
        self._administration.check(asked.visitor, _WHAT)
        file = self._place.file
        if file is None:
            raise ApiError(HTTPStatus.NOT_FOUND, "this gateway has no configuration file")
        given = TrialFiles(file.with_name(file.name.removesuffix(BEFORE)))
        # A gateway that went back, and may not put the file back, goes by the one of before.
        return given if given.before == file.absolute() else TrialFiles(file)


class _CheckedChange:
    """A change that has been checked, and is not checked again as it is written.

    Args:
        wanted: it.
        check: finds what is wrong with a configuration.

    """

    def __init__(self, wanted: WantedChange, check: Check) -> None:
        self.wanted = wanted
        self._check = check
        self._found: dict[bytes, Sequence[str]] = {}

    def faults(self, after: bytes, file: Path) -> Sequence[str]:
        """Return all that is wrong with a configuration."""
        if after not in self._found:
            self._found[after] = self._check(after, file)
        return self._found[after]


async def _in_thread(file: Path, work: Callable[[], T]) -> T:
    """Have a thread work at a configuration's file.

    Raises:
        ApiError: it can't be done.

    """
    try:
        return await asyncio.to_thread(work)
    except change_on_trial.WrongChangeError as error:
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "; ".join(error.faults)) from error
    except ChangedMeanwhileError as error:
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error
    except EditError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{file}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error


def _is_tried(planned: PlannedChange) -> bool:
    """Return whether a gateway runs that is to be told of a trial."""
    return planned.trial is not None and planned.running is not None


def _told(note: TrialNote) -> dict[str, Any]:
    return {"id": note.id, "state": note.state, "why": note.why}


def changes_of(body: Mapping[str, Any]) -> list[KeyChange]:
    """Return the changes that a request asks for.

    Raises:
        ApiError: there is none, or one is none, or of a key that the page does not change.

    """
    found = [
        *_each(body, "set", written_change.set_to),
        *_each(body, "unset", written_change.unset),
    ]
    if not found:
        raise ApiError(HTTPStatus.BAD_REQUEST, "set: neither it nor unset has anything")
    known = editable_keys.by_path()
    for change in found:
        path = ".".join(change.path)
        key = known.get(path)
        if key is None or tuple(path.split(".")) != change.path:
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{path[:128]}: is no key")
        if why := editable_keys.why_not(key):
            raise ApiError(HTTPStatus.FORBIDDEN, f"{path}: {why}")
        if isinstance(change.value, dict):
            raise ApiError(HTTPStatus.BAD_REQUEST, f"{path}: is a table, and has to be a value")
    if len({change.path for change in found}) < len(found):
        raise ApiError(HTTPStatus.BAD_REQUEST, "set: a key stands twice")
    return found


def _each(body: Mapping[str, Any], field: str, read: Callable[[str], KeyChange]) -> list[KeyChange]:
    texts = body.get(field, [])
    if len(texts) > CHANGES_MAX or not all(isinstance(text, str) for text in texts):
        raise ApiError(
            HTTPStatus.BAD_REQUEST, f"{field}: is no list of {CHANGES_MAX} texts at most"
        )
    try:
        return list(map(read, texts))
    except WrittenChangeError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{field}: {error}") from error


def _differences(before: str, after: str) -> list[dict[str, Any]]:
    """Return each key whose value changes: never a line of the file, which may have secrets."""
    old, new = (
        {row["key"]: row for row in editable_keys.told(shown(text, tomllib.loads(text)))}
        for text in (before, after)
    )
    return [
        {
            "key": path,
            "before": old[path]["value"],
            "after": row["value"],
            "was_from": old[path]["source"],
            "is_from": row["source"],
            "applied_by": row["applied_by"],
        }
        for path, row in new.items()
        if (row["value"], row["source"]) != (old[path]["value"], old[path]["source"])
    ]


def _command(file: Path, body: Mapping[str, Any]) -> str:
    """Return what to type on the machine for the same change."""
    taken_out = (part for name in body.get("unset", []) for part in ("--unset", name))
    words = ["sudo", "hedgerow", "config", "set", "--config", str(file), *taken_out]
    return shlex.join([*words, "--", *body["set"]] if body.get("set") else words)


def _unreadable(file: Path, error: Exception) -> ApiError:
    what = error.strerror if isinstance(error, OSError) else str(error)
    where = getattr(error, "filename", None) or file
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, f"{where}: {what or error}")
