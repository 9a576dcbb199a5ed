"""The program `hedgerow`: its commands, or a clear word where the system has not what they need.

Imports make tens of thousands of objects that stay. At Python's own pace the garbage collector goes
over them again and again meanwhile, which was a sixth of a gateway's start. So it is slowed down
before the first import; what a gateway wants of it while it serves,
`gateway.process.running.freed_memory` says.
"""

from __future__ import annotations

import gc
import platform
import sys

from gateway.base import exit_codes

_NOT_ON_WINDOWS = (
    "hedgerow: not on Windows: gateways run on Linux. In WSL (wsl --install Debian) the commands "
    "work, and `hedgerow flash --to FOLDER` makes image files there, which Raspberry Pi Imager "
    "writes to cards"
)


YOUNG_AT_START = 50_000
"""Containers made, less those freed, before the garbage collector looks: more than imports make."""


def main() -> int:
    """Run the command that the arguments name, and return its exit code."""
    gc.set_threshold(YOUNG_AT_START, *gc.get_threshold()[1:])
    if platform.system() == "Windows":
        sys.stderr.write(f"{_NOT_ON_WINDOWS}\n")
        return exit_codes.WRONG_USE
    try:
        if sys.argv[1:2] == ["run"]:
            from gateway.tools.commands import serving  # noqa: PLC0415  # no other command

            return serving.main()
        from gateway.tools import cli  # noqa: PLC0415  # imports modules that Windows has not

        return cli.main()
    except KeyboardInterrupt:  # while modules are loaded, which takes a second on a small machine
        return exit_codes.INTERRUPTED
