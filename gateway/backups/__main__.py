"""The command that the Pi's timer calls: ``python3 -m backups``.

Makes a backup as its settings say, and prints what is in the place then. Exit codes: 0 done; 1 it
could not be made, and why: what was in the place stays.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from . import making, timed
from .making import BackupError
from .notes import NOTES, SETTINGS


def main() -> int:
    """Make a backup and return the exit code."""
    parser = argparse.ArgumentParser(prog="backups", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--settings", type=Path, default=SETTINGS)
    parser.add_argument("--notes", type=Path, default=NOTES)
    parser.add_argument("--unit", default=making.UNIT)
    asked = parser.parse_args()
    making.end_in_order()
    try:
        settings = timed.load(asked.settings)
        process = partial(making.main_pid, asked.unit)
        made = timed.TimedBackup(settings, asked.notes, process).make()
    except (BackupError, OSError) as error:
        sys.stderr.write(f"backup: {error}\n")
        return 1
    sys.stdout.write(f"{settings.to}: {made.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
