"""`hedgerow bench`: what this machine can do as a gateway."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from gateway.commands import output
from gateway.commands.errors import FailedError, WrongUseError

T = TypeVar("T")

SECONDS: Final = 120.0
SECONDS_MIN: Final = 5.0


def add(commands: Any, add_config: Callable[[argparse.ArgumentParser], None]) -> None:
    """Add the command to the parser.

    Args:
        commands: the parser's commands.
        add_config: adds ``--config``.

    """
    bench = commands.add_parser(
        "bench",
        help="measure what this machine can do as a gateway",
        description="Start a second gateway with ports and files of its own, ask it for two "
        "minutes, and say how many messages and clients this machine should be given. The gateway "
        "that serves goes on: what is measured gives way to it, takes some 80 MiB of memory, and "
        "writes some ten megabytes, which are deleted. The client that measures runs on the same "
        "machine and is slower than others, so a machine can do more than is said.",
    )
    add_config(bench)
    bench.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="on the disk that is measured (default: gateway.state_dir of the configuration)",
    )
    bench.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"for how long, {SECONDS_MIN:g} or more (default: {SECONDS:g})",
    )
    bench.add_argument("--json", action="store_true", help="for scripts")
    bench.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from gateway.bench.errors import BenchError  # noqa: PLC0415  # the others measure nothing
    from gateway.bench.figures import as_document, as_text  # noqa: PLC0415
    from gateway.bench.measured_gateway import NICE  # noqa: PLC0415
    from gateway.bench.run import measured  # noqa: PLC0415

    if not options.seconds >= SECONDS_MIN:
        raise WrongUseError(f"--seconds: {options.seconds:g} is not {SECONDS_MIN:g} or more")
    folder = options.folder or _state_dir(options.config)
    if not folder.is_dir():
        raise WrongUseError(f"--folder: {folder}: no such folder")
    os.nice(NICE)
    told = _nobody if options.json else lambda what: output.complain(f"{what} ...")
    try:
        figures = asyncio.run(_ended_by_sigterm(measured(folder, options.seconds, told)))
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
    return 0


async def _ended_by_sigterm(run: Coroutine[Any, Any, T]) -> T:
    """Run to the end, or until SIGTERM; either way nothing of it is left."""
    task = asyncio.ensure_future(run)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def _state_dir(config: Path | None) -> Path:
    """The state folder of a configuration.

    Raises:
        WrongUseError: there is no configuration, or it is wrong.

    """
    from gateway.configuration import place  # noqa: PLC0415  # --folder needs no configuration
    from gateway.configuration.config import ConfigError, GatewaySettings, load  # noqa: PLC0415

    try:
        return load(config or place.find(), GatewaySettings).gateway.state_dir
    except place.NoConfigError as error:
        raise WrongUseError(
            f"--folder: not given, and {error}: name a folder on the disk that is to be measured"
        ) from error
    except ConfigError as error:
        raise WrongUseError(f"{error}: --folder names the disk without a configuration") from error


def _nobody(_what: str) -> None:
    """Tell nobody."""
