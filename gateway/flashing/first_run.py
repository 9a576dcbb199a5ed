"""The first boot of images without cloud-init: ``firstrun.sh``, which systemd runs once.

That is Raspberry Pi OS 12 (bookworm): the kernel's command line has systemd run a script in place
of the usual target, and start anew. The network is NetworkManager's (nm-settings-keyfile(5)).
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Iterator

from gateway.flashing.cloud_config import GROUPS, PREPARE
from gateway.flashing.device import CardDevice, Wifi

COMMAND_LINE = (
    "systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot "
    "systemd.run_failure_action=reboot systemd.unit=kernel-command-line.target"
)
_CONNECTIONS = "/etc/NetworkManager/system-connections"


def script(device: CardDevice) -> str:
    """The script: each of its steps may be done again, since power may be lost in each."""
    return "".join(f"{line}\n" for line in _lines(device))


def _lines(device: CardDevice) -> Iterator[str]:
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
    yield f"sh {PREPARE} prepare"
    yield "sync"
    # The last step: without these words the next boot is a usual one.
    yield (
        "sed -i -e 's| systemd\\.run[^ ]*||g' -e 's| systemd\\.unit=kernel-command-line\\.target||'"
        " /boot/firmware/cmdline.txt"
    )
    yield "sync"
    yield "exit 0"


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


def keyfiles(device: CardDevice) -> dict[str, str]:
    """NetworkManager's connections, by the names of their files."""
    found: dict[str, str] = {}
    fixed = device.fixed_interface
    if fixed and fixed != "wlan0":
        found["hedgerow-wired.nmconnection"] = _keyfile(
            device, fixed, "ethernet", ["[ethernet]"], is_fixed=True
        )
    for number, wifi in enumerate(device.wifis):
        behind = f"-{number + 1}" if number else ""
        found[f"hedgerow-wifi{behind}.nmconnection"] = _keyfile(
            device,
            "wlan0",
            "wifi",
            _wifi(wifi),
            behind=behind,
            priority=len(device.wifis) - number,
            is_fixed=fixed == "wlan0",
        )
    return found


def _wifi(wifi: Wifi) -> list[str]:
    # As numbers, so that no character of a name means anything.
    ssid = "".join(f"{byte};" for byte in wifi.ssid.encode())
    lines = ["[wifi]", "mode=infrastructure", f"ssid={ssid}"]
    if wifi.hidden:
        lines.append("hidden=true")
    if wifi.security != "open":
        kind = "sae" if wifi.security == "wpa3" else "wpa-psk"
        # A backslash begins an escape in a keyfile, and a space at the begin is none of the value.
        psk = wifi.key().replace("\\", "\\\\").replace(" ", "\\s")
        lines += ["", "[wifi-security]", f"key-mgmt={kind}", f"psk={psk}"]
        if kind == "sae":
            lines.append("pmf=3")  # required there; netplan writes the same
    return lines


def _keyfile(
    device: CardDevice,
    interface: str,
    kind: str,
    settings: list[str],
    *,
    is_fixed: bool,
    behind: str = "",
    priority: int = 0,
) -> str:
    name = f"hedgerow-{interface}{behind}"
    own = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{device.host}")
    lines = ["[connection]", f"id={name}", f"uuid={own}", f"type={kind}"]
    if priority:
        lines.append(f"autoconnect-priority={priority}")
    lines += [f"interface-name={interface}", "", *settings, ""]
    for section, is_ours in (("ipv4", False), ("ipv6", True)):
        lines += [f"[{section}]", *_method(device, is_six=is_ours, is_fixed=is_fixed), ""]
    return "\n".join(lines)


def _method(device: CardDevice, *, is_six: bool, is_fixed: bool) -> Iterator[str]:
    network = device.network
    if network is None or not is_fixed:
        yield "method=auto"
        return
    if (":" in network.address) == is_six:
        yield "method=manual"
        yield f"address1={network.address}" + (f",{network.gateway}" if network.gateway else "")
    else:
        yield "method=auto"
    # A server belongs to its own family's section, whichever of them has the fixed address.
    servers = [each for each in network.name_servers if (":" in each) == is_six]
    if servers:
        yield "dns=" + "".join(f"{each};" for each in servers)
