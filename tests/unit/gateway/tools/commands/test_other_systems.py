"""`hedgerow` says in one line where it runs, on a system that lacks what its commands need."""

from __future__ import annotations

import subprocess
import sys

WINDOWS = """
import builtins, platform, sys
posix = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
given = builtins.__import__
def imported(name, *more, **words):
    if name.partition(".")[0] in posix:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return given(name, *more, **words)
builtins.__import__ = imported
platform.system = lambda: "Windows"
from gateway.program import main
sys.exit(main())
"""


def test_windows_is_told_in_one_line_where_the_commands_work() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS, "flash", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("hedgerow: not on Windows: gateways run on Linux. In WSL")
    assert "`hedgerow flash --to FOLDER`" in line
