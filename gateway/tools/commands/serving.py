"""`hedgerow run`: its arguments, and what it does.

A gateway's start imports the arguments of no other command: `main` knows this one alone.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.base import exit_codes
from gateway.base.event_log import lines
from gateway.tools.commands.carrying_out import carry_out
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.tools.commands.gateway_arguments import add_config, config_file
from gateway.tools.commands.parser import Parser

NAME: Final = "run"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a gateway until it is told to end, and return the exit code.

    Args:
        arguments: of the program, the first of which is `NAME`; None: those of this process.

    """
    return carry_out(command_line, arguments)


def command_line() -> argparse.ArgumentParser:
    """Make a parser that knows `NAME` alone, and takes and refuses of it what that of all does."""
    parser = Parser(prog="hedgerow")
    add(parser.add_subparsers(metavar="COMMAND", required=True))
    return parser


def add(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``run``.

    Args:
        commands: of the program.

    """
    run = commands.add_parser(
        NAME, help="run a gateway", description="Run a gateway until SIGTERM or SIGINT."
    )
    add_config(run)
    run.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning"], help="default: info"
    )
    run.add_argument(
        "--log-file",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="FILE",
        help="also write the log to a file (default: gateway.log in its state folder), where "
        "`hedgerow logs` finds it; it is begun anew at 1 MiB, and the one before it kept",
    )
    run.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from gateway.base import event_loop  # noqa: PLC0415  # other commands know the arguments, and need no broker
    from gateway.process.configuration import config  # noqa: PLC0415  # as above

    file = config_file(options)
    lines.begin(options.log_level.upper())
    # These report every connection, packet and refused request; our own lines say what matters.
    for noisy in ("amqtt", "transitions", "websockets", "coap-server"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    from gateway.process.config_trials.judge import ConfigJudge  # noqa: PLC0415  # as above
    from gateway.process.running import restart  # noqa: PLC0415  # as above
    from gateway.process.running.trial_watch import TrialWatch  # noqa: PLC0415  # as above

    trial = TrialWatch(
        ConfigJudge(file, lambda path: config.load(path, config.GatewaySettings)), restart.in_place
    )
    try:
        settings = trial.at_start()
        if options.log_file is not None:
            is_named = options.log_file != Path()
            log = options.log_file if is_named else settings.gateway.state_dir / lines.FILE_NAME
            try:
                lines.also_to(log)
            except OSError as error:
                why = f"{log}: {error.strerror or error}"
                raise config.ConfigError("--log-file", why) from error
        from gateway.process.running import service  # noqa: PLC0415  # what is wrong is told before

        if event_loop.run(service.serve(settings, trial)):
            restart.in_place()
    except config.ConfigError as error:
        if trial.fails(str(error)):
            restart.in_place()
        from gateway.process.configuration.passing import may_pass  # noqa: PLC0415  # it knows SQLite

        more = f" (`hedgerow check` tells {len(error.more)} more)" if error.more else ""
        if may_pass(error):
            raise FailedError(f"{error}{more}", exit_codes.FAILED) from error
        raise WrongUseError(f"{error}{more}") from error
    except event_loop.EventLoopError as error:
        raise WrongUseError(str(error)) from error
    return 0
