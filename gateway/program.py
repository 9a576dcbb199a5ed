"""The program `hedgerow`: its commands, or a clear word where the system has not what they need."""

from __future__ import annotations

import platform
import sys

from gateway import exit_codes

_NOT_ON_WINDOWS = (
    "hedgerow: not on Windows: gateways run on Linux. In WSL (wsl --install Debian) the commands "
    "work, and `hedgerow flash --to FOLDER` makes image files there, which Raspberry Pi Imager "
    "writes to cards"
)


def main() -> int:
    """Run the command that the arguments name, and return its exit code."""
    if platform.system() == "Windows":
        sys.stderr.write(f"{_NOT_ON_WINDOWS}\n")
        return exit_codes.WRONG_USE
    from gateway import cli  # noqa: PLC0415  # imports modules that Windows has not

    return cli.main()
