"""Says whether this Pi may reboot now without taking a second gateway of the fleet out.

    may_reboot.py COMMAND...

The command is `hedgerow status --json` about the gateway of this Pi. Ends with 0 if the Pi may
reboot; else with 1, and says why not. Who is away may be rebooting, or be one that its reboot has
broken: in either case no other gateway reboots.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

ANSWER_S = 30.0


def reason_to_wait(status: object) -> str:
    """Return why the Pi may not reboot, as one line; empty if it may.

    Args:
        status: the status that its gateway gives of itself; anything else counts as no answer.

    """
    if not isinstance(status, Mapping):
        return "its gateway does not answer, so nobody knows who is away"
    own, members, reached = (status.get(name) for name in ("id", "members", "reached"))
    if not (isinstance(own, str) and _is_names(members) and _is_names(reached)):
        return "its gateway does not tell who is there: gateway_ask_as may not read /status"
    away = sorted(set(members) - set(reached) - {own})
    return f"{', '.join(away)} away, as after a reboot that has not ended" if away else ""


def _is_names(told: object) -> bool:
    return isinstance(told, list) and all(isinstance(name, str) for name in told)


def status_of(command: Sequence[str]) -> object:
    """Run the command and return what it told; None if it told nothing that can be read."""
    try:
        done = subprocess.run(  # noqa: S603  # root's unit names the command
            command, capture_output=True, timeout=ANSWER_S, check=True
        )
        return json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def main(command: Sequence[str]) -> int:
    """Ask, and return the exit code."""
    reason = reason_to_wait(status_of(command))
    if reason:
        sys.stdout.write(f"The reboot waits for the next turn: {reason}\n")
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
