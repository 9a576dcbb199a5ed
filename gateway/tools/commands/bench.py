"""`hedgerow bench`: its arguments; what it does is `benching`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gateway.tools.commands.errors import WrongUseError

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
        help=f"duration in seconds, {SECONDS_MIN:g} or more (default: {SECONDS:g})",
    )
    bench.add_argument(
        "--keep",
        action="store_true",
        help="keep the verdict in gateway.state_dir: the gateway tells it in its status record, "
        "and the fleet's dashboard shows it",
    )
    bench.add_argument("--json", action="store_true", help="for scripts")
    bench.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    if not options.seconds >= SECONDS_MIN:
        raise WrongUseError(f"--seconds: {options.seconds:g} is not {SECONDS_MIN:g} or more")
    from gateway.tools.commands import benching  # noqa: PLC0415  # the others measure nothing

    return benching.run(options)
