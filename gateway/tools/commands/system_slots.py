"""The command `hedgerow system`, and how it says what came of it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from gateway.tools.commands import output, progress_bar
from gateway.tools.commands.errors import FailedError
from gateway.tools.flashing import boot_partition
from gateway.tools.flashing.errors import FlashError
from gateway.tools.system_slots import installing
from gateway.tools.system_slots.board import FIRMWARE, Board
from gateway.tools.system_slots.folder import SystemFolder
from gateway.tools.system_slots.gateway_health import GatewayHealth
from gateway.tools.system_slots.guard import SystemGuard
from gateway.tools.system_slots.installing import SlotInstaller
from gateway.tools.system_slots.slots import SystemSlotError

FIRMWARE_VARIABLE = "HEDGEROW_FIRMWARE"
PARTITIONS_VARIABLE = "HEDGEROW_PARTITIONS"
"""Name what stands in for a Pi's firmware and disk where there is none: for tests."""
_NOT_ON_TRIAL = "nothing is on trial; `hedgerow system try` starts the other slot"


def run(options: argparse.Namespace) -> int:
    """Carry out a verb; returns the exit code.

    Raises:
        FailedError: it did not work out; the system that runs still does.

    """
    board = Board(
        options.firmware or Path(os.environ.get(FIRMWARE_VARIABLE, FIRMWARE)),
        options.partitions or os.environ.get(PARTITIONS_VARIABLE, ""),
    )
    guard = SystemGuard(SystemFolder(options.data), board, GatewayHealth())
    try:
        told = _done(options, guard, board)
    except FlashError as error:
        raise FailedError(f"system: {error}", error.exit_code) from error
    except SystemSlotError as error:
        raise FailedError(f"system: {error}") from error
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise FailedError(f"system: {where}{error.strerror or error}") from error
    if told:
        sys.stdout.write(f"{told}\n")
    return 0


def _done(options: argparse.Namespace, guard: SystemGuard, board: Board) -> str:
    match options.verb:
        case "status":
            return _status(guard.status(), as_json=options.json)
        case "install":
            return _install(options, guard, board)
        case "try":
            return f"{guard.try_other(options.within, options.attempts)} is started now, on trial"
        case "confirm":
            return f"{guard.confirm()} stays"
        case "back":
            was_open = guard.send_back(options.why)
            return "the system before runs, or is started now" if was_open else _NOT_ON_TRIAL
        case _:
            guard.watch(installing.version_of(Path("/")))
            return ""


def _install(options: argparse.Namespace, guard: SystemGuard, board: Board) -> str:
    boot_partition.check_programs()
    installer = SlotInstaller(board, board.running().slot)

    def write() -> str:
        keyring = options.keyring or installing.KEYRING
        return installer.install(options.image, keyring, progress_bar.show)

    starts = not options.no_restart
    version = guard.install(write, options.within, options.attempts, starts=starts)
    if options.json:
        output.print_json({"version": version, "is_tried": starts})
        return ""
    return f"{version} is {'started now, on trial' if starts else 'whole in the other slot'}"


def _status(told: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        output.print_json(told)
        return ""
    lines = []
    for slot, version in sorted(told["versions"].items()):
        about = ["runs"] * (slot == told["running"]) + ["is started"] * (slot == told["default"])
        lines.append(f"{slot}  {version or 'no whole system'}  {', '.join(about)}".rstrip())
    if (trial := told["trial"]) is not None:
        left = f"{trial['attempts_left']} more attempts"
        lines.append(f"on trial: {trial['version']} in slot {trial['slot']}, {left}")
    if (last := told["last"]) is not None:
        why = f": {last['why']}" if last["why"] else ""
        lines.append(f"last trial: {last['version']} {last['outcome']}{why}")
    return "\n".join(lines)
