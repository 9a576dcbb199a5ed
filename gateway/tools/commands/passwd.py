"""`hedgerow passwd`: makes or changes a user's line of the password file."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path

from dtls.byte_order_mark import first_line, why_utf_16
from gateway.broker.access import password_lines
from gateway.tools.commands.errors import FailedError, WrongUseError
from gateway.trust.policy.faults import AccessFileError, read_access_file


def run(options: argparse.Namespace) -> int:
    """Do what the arguments say.

    Raises:
        WrongUseError: an argument, the password or the file is wrong.
        FailedError: the two passwords differ, or there is no such user to take out.

    """
    user: str = options.user
    file: Path | None = options.file
    if options.delete and file is None:
        raise WrongUseError("--delete: needs --file")
    try:
        line = None if options.delete else password_lines.line(user, _password(user))
        if file is None:
            sys.stdout.write(f"{line}\n")
            return 0
        before, _ = password_lines.change(file, user, line)
        had_one = user in before
        was_written = had_one or line is not None
        managed_by = password_lines.managed_by(read_access_file(file)) if was_written else ""
    except (password_lines.PasswordLineError, AccessFileError) as error:
        raise WrongUseError(str(error)) from error
    except (OSError, RuntimeError) as error:  # the second for links that lead in a circle
        why = getattr(error, "strerror", None) or str(error)
        raise WrongUseError(f"--file: {file}: {why}") from error
    if options.delete and not had_one:
        raise FailedError(f"{file}: no user {user!r}")
    what = "taken out" if options.delete else "changed" if had_one else "added"
    sys.stderr.write(f"{user} {what}; a running gateway reads the file at SIGHUP\n")
    if managed_by:
        sys.stderr.write(f"{file}: {managed_by} writes it, and undoes this: change it there, too\n")
    return 0


def _password(user: str) -> bytes:
    if sys.stdin is None:
        raise WrongUseError("no password: standard input is closed")
    if not sys.stdin.isatty():
        given = sys.stdin.buffer.readline()
        if why := why_utf_16(given):
            raise WrongUseError(f"no password: standard input {why}")
        return first_line(given)
    try:
        password = getpass.getpass(f"Password of {user}: ")
        again = getpass.getpass("Again: ")
    except EOFError as error:
        sys.stderr.write("\n")  # the prompt's line is still open
        raise WrongUseError("no password: the input has ended") from error
    except UnicodeError as error:
        raise WrongUseError("no password: what was typed is not text") from error
    if again != password:
        raise FailedError("the passwords differ")
    return password.encode()
