"""Carries a command out: what goes wrong is one line, and an exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from gateway.base import exit_codes, remedies
from gateway.tools.commands import output
from gateway.tools.commands.errors import FailedError, WrongUseError

Command = Callable[[argparse.Namespace], int]


def carry_out(
    command_line: Callable[[], argparse.ArgumentParser], arguments: Sequence[str] | None
) -> int:
    """Run the command that arguments name, and return its exit code.

    Args:
        command_line: makes the parser; its options name what to call, as ``command``, and may say
            what goes on before it prints anything, as ``goes_on``.
        arguments: of the program; None: those that this process was given.

    """
    try:
        with output.arriving():
            options = command_line().parse_args(arguments)
            command: Command = options.command
            with output.going_on(getattr(options, "goes_on", "")):
                return command(options)
    except WrongUseError as error:
        output.complain(f"hedgerow: {remedies.with_remedy(str(error), error)}")
        return exit_codes.WRONG_USE
    except FailedError as error:
        output.complain(f"hedgerow: {remedies.with_remedy(str(error), error)}")
        return error.exit_code
    except OSError as error:  # of a file that no command has expected trouble with
        where = f"{error.filename}: " if error.filename else ""
        why = f"{where}{error.strerror or error}"
        output.complain(f"hedgerow: {remedies.with_remedy(why, error)}")
        return exit_codes.FAILED
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
