"""A gateway starts anew in its own process: its program is run again, as it was called.

Whoever supervises it (systemd, a container, a terminal) sees the same process go on. So a gateway
takes up what is read at a start alone without anybody who has the right to start services.
"""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

from gateway.process.running import sd_notify

START_US: Final = 180_000_000
"""So long systemd's watchdog is patient with the start; then the service has its own time again."""


def in_place() -> NoReturn:
    """Run this program anew, with the same arguments."""
    if sd_notify.watchdog_interval_s() is not None:
        sd_notify.notify(f"WATCHDOG=1\nWATCHDOG_USEC={START_US}")
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  # what runs already
