"""The first boot of images without cloud-init: ``firstrun.sh``, which systemd runs once.

That is Raspberry Pi OS 12 (bookworm): the kernel's command line has systemd run a script in place
of the usual target, and start anew.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gateway.tools.flashing.cloud_config import GROUPS, PREPARE
from gateway.tools.flashing.device import CardDevice
from gateway.tools.flashing.keyfiles import keyfiles

COMMAND_LINE = (
    "systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot "
    "systemd.run_failure_action=reboot systemd.unit=kernel-command-line.target"
)
_CONNECTIONS = "/etc/NetworkManager/system-connections"


def script(device: CardDevice) -> str:
    """Return the script: each of its steps may be done again, since power may be lost in each."""
    return "".join(f"{line}\n" for line in _lines(device))


def _lines(device: CardDevice) -> Iterator[str]:
    yield from settings(device)
    yield f"sh {PREPARE} prepare"
    yield "sync"
    # The last step: without these words the next boot is a usual one.
    yield (
        "sed -i -e 's| systemd\\.run[^ ]*||g' -e 's| systemd\\.unit=kernel-command-line\\.target||'"
        " /boot/firmware/cmdline.txt"
    )
    yield "sync"
    yield "exit 0"


def settings(device: CardDevice) -> Iterator[str]:
    """Yield the lines of a script that sets a device: its name, time zone, user and networks."""
    host = shlex.quote(device.host)
    yield "#!/bin/sh"
    yield "# Made by `hedgerow flash`. What fails is told of, and the rest is done all the same."
    yield "exec >>/boot/firmware/hedgerow-first-boot.log 2>&1"
    yield f"printf '%s\\n' {host} >/etc/hostname"
    yield r"sed -i '/^127\.0\.1\.1[[:space:]]/d' /etc/hosts"
    yield f"printf '127.0.1.1\\t%s\\n' {host} >>/etc/hosts"
    yield f"ln -sf /usr/share/zoneinfo/{shlex.quote(device.timezone)} /etc/localtime"
    yield f"printf '%s\\n' {shlex.quote(device.timezone)} >/etc/timezone"
    if device.user:
        yield from _user(device)
    for name, text in keyfiles(device).items():
        file = shlex.quote(f"{_CONNECTIONS}/{name}")
        yield f"( umask 077; printf '%s' {shlex.quote(text)} >{file} )"
    if device.wifis:
        yield "rfkill unblock wifi 2>/dev/null || true"
        yield "rm -f /var/lib/systemd/rfkill/*:wlan"


def _user(device: CardDevice) -> Iterator[str]:
    user = shlex.quote(device.user)
    yield f"id {user} >/dev/null 2>&1 || useradd --create-home --shell /bin/bash {user}"
    yield f"passwd --lock {user}"
    yield f'for group in {" ".join(GROUPS)}; do usermod --append --groups "$group" {user}; done'
    yield f"home=$(getent passwd {user} | cut -d: -f6)"
    yield f'install -d -m 700 -o {user} -g {user} "$home/.ssh"'
    keys = shlex.quote("".join(f"{key}\n" for key in device.ssh_keys))
    yield f'printf %s {keys} >"$home/.ssh/authorized_keys"'
    yield f'chown {user}:{user} "$home/.ssh/authorized_keys"'
    yield 'chmod 600 "$home/.ssh/authorized_keys"'
    yield f"( umask 337; printf '%s ALL=(ALL) NOPASSWD:ALL\\n' {user} >/etc/sudoers.d/010_{user} )"
    yield "printf 'PasswordAuthentication no\\n' >/etc/ssh/sshd_config.d/10-hedgerow.conf"
    yield "systemctl enable ssh.service"
    yield "systemctl disable userconfig.service 2>/dev/null || true"
