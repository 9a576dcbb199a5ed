"""The first boot of images with rpi-preseed: ``rpi-preseed.toml``, which it applies once.

That is Raspberry Pi's way without cloud-init (rpi-preseed(5)). What its sections have is one
wireless network, without 802.1X, so a script sets the device, as that of `first_run` does, and the
file has it run before the network is up.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gateway.tools.flashing import first_run
from gateway.tools.flashing.cloud_config import PREPARE
from gateway.tools.flashing.device import CardDevice

SCRIPT = "hedgerow/preseed.sh"
"""On the boot partition, in the folder whose secrets the first boot overwrites."""
_ON_THE_PI = f"/boot/firmware/{SCRIPT}"
TOML = f"""# Made by `hedgerow flash`.
config_version = "1.0"

[runcmd]
# It is cut off after 25 s, before its unit is (30 s), and then done again by the later one.
early = ["sh {_ON_THE_PI}"]
early_cmd_timeout = 25
late = ["test ! -e {_ON_THE_PI} || sh {_ON_THE_PI}"]
late_require_time_sync = false
"""


def script(device: CardDevice) -> str:
    """Return the script: it may be run any number of times, and what it starts goes on by
    itself."""
    return "".join(f"{line}\n" for line in _lines(device))


def _lines(device: CardDevice) -> Iterator[str]:
    yield from first_run.settings(device)
    # Unlike that of firstrun.sh, no new boot follows.
    yield f"hostname {shlex.quote(device.host)}"
    if device.user:
        yield "systemctl start --no-block ssh.service"
        yield "systemctl stop --no-block userconfig.service 2>/dev/null || true"
    yield f"sh {PREPARE} begin"
    yield "sync"
    yield "exit 0"
