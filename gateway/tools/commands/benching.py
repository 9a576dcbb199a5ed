"""The command `hedgerow bench`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from gateway.process.configuration import place
from gateway.process.configuration.config import ConfigError, GatewaySettings, load
from gateway.process.fleet_status import rating
from gateway.process.fleet_status.rating import Rating
from gateway.tools.bench.errors import BenchError
from gateway.tools.bench.figures import RecommendedLoad, as_document, as_text, verdict
from gateway.tools.bench.measured_gateway import NICE
from gateway.tools.bench.run import measured
from gateway.tools.commands import output
from gateway.tools.commands.errors import FailedError, WrongUseError, expect_folder
from gateway.tools.commands.progress_bar import GoingOn

T = TypeVar("T")


def run(options: argparse.Namespace) -> int:
    """Measure this machine, print what was found, and return the exit code.

    Args:
        options: those of `gateway.tools.commands.bench`.

    Raises:
        WrongUseError: an option is wrong, or there is no folder to measure in.
        FailedError: nothing could be measured.

    """
    kept_in = _state_dir(options.config, is_kept=True) if options.keep else None
    folder: Path = options.folder or kept_in or _state_dir(options.config, is_kept=False)
    expect_folder("--folder", folder)
    os.nice(NICE)
    line = GoingOn(options.seconds)
    told = _nobody if options.json else _complaining
    try:
        with line:
            step = line.step if line.is_shown else told
            figures = asyncio.run(_ended_by_sigterm(measured(folder, options.seconds, step)))
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
    except BenchError as error:
        raise FailedError(str(error)) from error
    except OSError as error:
        raise FailedError(f"{folder}: {error.strerror or error}") from error
    if options.json:
        output.print_json(as_document(figures))
    else:
        sys.stdout.write(as_text(figures) + "\n")
    if kept_in is not None:
        _keep(kept_in, verdict(figures))
    return 0


def _keep(state_dir: Path, given: RecommendedLoad) -> None:
    try:
        rating.keep(state_dir, Rating(given.messages_per_s, given.clients))
    except OSError as error:
        raise FailedError(f"--keep: {error.filename}: {error.strerror}") from error


def _complaining(what: str) -> None:
    output.complain(f"{what} ...")


async def _ended_by_sigterm(run: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or until SIGTERM; either way nothing of it is left."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run


def _state_dir(config: Path | None, *, is_kept: bool) -> Path:
    """Return the state folder of a configuration.

    Args:
        config: its file; None: where it is looked for.
        is_kept: whether something is to be kept there, so that no other folder will do.

    Raises:
        WrongUseError: there is no configuration, or it is wrong.

    """
    try:
        return load(config or place.find(), GatewaySettings).gateway.state_dir
    except place.NoConfigError as error:
        if is_kept:
            raise WrongUseError(f"--keep: {error}: name the gateway's with --config") from error
        raise WrongUseError(
            f"--folder: not given, and {error}: name a folder on the disk that is to be measured"
        ) from error
    except ConfigError as error:
        if is_kept:
            raise WrongUseError(f"--keep: {error}") from error
        raise WrongUseError(f"{error}: --folder names the disk without a configuration") from error


def _nobody(_what: str) -> None:
    """Tell nobody."""
