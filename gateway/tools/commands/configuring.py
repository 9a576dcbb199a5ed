"""The command `hedgerow config`: shows a configuration, and changes it on trial."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gateway.base import exit_codes
from gateway.base.columns import columns
from gateway.base.near_words import near
from gateway.base.printable import printable
from gateway.base.toml import edited
from gateway.base.toml.edited import EditError
from gateway.process.config_trials import change_on_trial
from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.change_on_trial import (
    PlannedChange,
    WantedChange,
    WrongChangeError,
)
from gateway.process.config_trials.changing import ChangedMeanwhileError
from gateway.process.config_trials.trial_files import TrialFiles
from gateway.process.configuration import keys as config_keys
from gateway.process.configuration import written_change
from gateway.process.configuration.shown import FILE, ShownKey, shown
from gateway.process.configuration.written_change import WrittenChangeError
from gateway.process.running import configuration_faults
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.output import going_on, print_json
from gateway.tools.commands.running_gateway import RunningGateway

_VALUE_CHARACTERS: Final = 60


# -- show ------------------------------------------------------------------------------------------


def show(options: argparse.Namespace, file: Path) -> int:
    """Show keys."""
    try:
        data = file.read_bytes()
        text = data.decode()
        document = tomllib.loads(text)
        trial = TrialFiles(file).open_trial()
    except OSError as error:
        raise WrongUseError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise WrongUseError(f"{file}: {error}: `hedgerow check` says where") from error
    rows = list(_chosen(shown(text, document), options.key))
    if options.json:
        print_json(
            {
                "file": str(file),
                "digest": trials.digest(data),
                "is_on_trial": trial is not None,
                "keys": [row.as_json() for row in rows],
            }
        )
    elif len(rows) == 1:
        sys.stdout.write(_in_full(rows[0], file))
    else:
        table = (("key", "value", "from"), *((r.key.path, _short(r), _from(r)) for r in rows))
        sys.stdout.write("".join(f"{line}\n" for line in columns(table)))
        if trial is not None:
            sys.stdout.write("it is on trial\n")
    return exit_codes.DONE


def _chosen(rows: Iterator[ShownKey], wanted: str | None) -> Iterator[ShownKey]:
    found = False
    for row in rows:
        path = row.key.path
        if wanted is None or path == wanted or path.startswith(f"{wanted}."):
            found = True
            yield row
    if not found:
        assert wanted is not None
        raise WrongUseError(_unknown(wanted))


def _unknown(wanted: str) -> str:
    paths = [key.path for key in config_keys.all_keys()]
    right = near(wanted, paths)
    if right is None:
        alike = [path for path in paths if path.rpartition(".")[2] == wanted.rpartition(".")[2]]
        right = alike[0] if alike else None
    hint = f", did you mean {right}?" if right else ": `hedgerow config show` lists all"
    return f"{wanted!r} is no key{hint}"


def _in_full(row: ShownKey, file: Path) -> str:
    told = row.as_json()
    lines = [f"{told['key']} = {_toml(row.value)}", f"  {told['text']}" if told["text"] else ""]
    lines.append(f"  from: {file}:{row.line}" if row.source == FILE else f"  from: {row.source}")
    span = f", {told['range'][0]:g} to {told['range'][1]:g}" if told["range"] else ""
    words = f", one of {', '.join(told['choices'])}" if told["choices"] else ""
    lines.append(f"  type: {told['kind']}{span}{words}")
    needed = "a file has to have it" if told["is_needed"] else _toml(told["default"])
    lines.append(f"  default: {needed}")
    lines.append(f"  a change takes a {told['applied_by']}")
    return "".join(f"{printable(line)}\n" for line in lines if line)


def _short(row: ShownKey) -> str:
    text = printable(_toml(row.value))
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 3]}..."


def _from(row: ShownKey) -> str:
    return f"line {row.line}" if row.source == FILE and row.line else row.source


def _toml(value: Any) -> str:
    match value:
        case None:
            return "(none)"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case dict():
            return f"{{{', '.join(f'{name} = {_toml(one)}' for name, one in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
        case _:
            return str(value)


# -- set -------------------------------------------------------------------------------------------


def set_keys(options: argparse.Namespace, file: Path) -> int:
    """Change keys."""
    try:
        changes = [
            *map(written_change.set_to, options.changes),
            *map(written_change.unset, options.unset),
        ]
    except WrittenChangeError as error:
        raise WrongUseError(f"config set: {error}") from error
    if not changes:
        raise WrongUseError("config set: neither KEY=VALUE nor --unset KEY is given")
    return change(options, file, lambda text: edited.with_keys(text, changes))


# -- any change of a configuration -----------------------------------------------------------------

_PLANNED: Final = "planned"
_WRITTEN: Final = "written"
_TOLD: Final = {
    _PLANNED: "{file}: nothing is written\n",
    _WRITTEN: "{file}: written; a gateway goes by it, on trial, from its next start on\n",
    trials.CONFIRMED: "{file}: the gateway goes by it\n",
}


def change(options: argparse.Namespace, file: Path, edit: change_on_trial.Edit) -> int:
    """Check a change of a configuration, write it on trial, and tell what came of it.

    Args:
        options: those of `configuration.add_trial`, and ``json``.
        file: the configuration.
        edit: makes the change.

    Raises:
        WrongUseError: the change is wrong, or a file can't be written.
        FailedError: the gateway did not come up by it, or somebody else was faster.

    """
    files = TrialFiles(file)
    wanted = WantedChange(edit, options.within, options.if_unchanged, options.dry_run)
    try:
        planned = change_on_trial.written(
            files, wanted, configuration_faults.in_words, RunningGateway.find
        )
    except OSError as error:
        raise WrongUseError(f"{error.filename or file}: {error.strerror or error}") from error
    except (EditError, WrongChangeError, UnicodeDecodeError) as error:
        raise WrongUseError(f"{file}: {error}") from error
    except ChangedMeanwhileError as error:
        raise FailedError(str(error)) from error
    if planned is None:
        if options.json:
            print_json({"outcome": "unchanged"})
        else:
            sys.stdout.write(f"{file}: nothing changes\n")
        return exit_codes.DONE
    if not options.json:
        lines = planned.difference.splitlines()
        sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))
    outcome, why = _applied(options, files, planned)
    if options.json:
        told = {"outcome": outcome, "why": why, "restarts_for": list(planned.restarting)}
        print_json({**told, "difference": planned.difference})
    if outcome == trials.RETURNED:
        raise FailedError(f"{file}: the gateway went back to what was before: {printable(why)}")
    if not options.json:
        sys.stdout.write(_TOLD[outcome].format(file=file))
    return exit_codes.DONE


def _applied(
    options: argparse.Namespace, files: TrialFiles, planned: PlannedChange
) -> tuple[str, str]:
    """Have the gateway go by the change, and wait for its verdict."""
    if options.dry_run:
        return _PLANNED, ""
    if planned.trial is None or planned.running is None or options.no_apply:
        return _WRITTEN, ""
    change_on_trial.tell(planned)
    if not options.json:
        what = f"starts anew for {', '.join(planned.restarting)}" if planned.restarting else "reads"
        sys.stdout.write(f"the gateway {what}; it has {planned.trial.within_s:g} s to come up\n")
        sys.stdout.flush()
    with going_on("waiting for it to come up", planned.trial.within_s):
        note = change_on_trial.verdict(files, planned.trial, RunningGateway.find)
    return note.state, note.why
