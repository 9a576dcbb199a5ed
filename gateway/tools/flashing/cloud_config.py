"""Files for cloud-init on the boot partition (NoCloud; cloud-config; network version 2).

Texts are YAML in the form of JSON, of which all YAML readers are readers too: whatever a name or a
key has in it, it is a string between two quotes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gateway.tools.flashing.device import CardDevice, Modem, Wifi
from gateway.tools.flashing.eap import Eap, place

PREPARE = "/boot/firmware/hedgerow/first-boot.sh"
"""The script of the first boot; `cloud-init` runs it at each boot until the device is a member."""
GROUPS = ("adm", "dialout", "sudo", "plugdev", "users", "gpio", "i2c", "spi", "netdev")
"""Those of a first user of Raspberry Pi OS that a gateway's operator is in need of."""

MODEM_METRIC = 700
"""Of a modem's routes: NetworkManager has 100 for a cable, and 600 for Wi-Fi, which go first."""


def user_data(device: CardDevice) -> str:
    """Return the device, but for its network and its secrets."""
    config: dict[str, Any] = {
        "hostname": device.host,
        "fqdn": device.host,
        "manage_etc_hosts": True,
        "preserve_hostname": False,
        "timezone": device.timezone,
        "ssh_pwauth": False,
        "disable_root": True,
        # Nobody else, so that no image's own first user has a password.
        "users": [_user(device)] if device.user else [],
        # A boot command runs at each boot, unlike others: a first boot may be cut off at any point.
        "bootcmd": [["sh", PREPARE, "begin"]],
    }
    if device.user:
        config["runcmd"] = [["systemctl", "enable", "--now", "ssh.service"]]
    return "#cloud-config\n" + _text(config)


def meta_data(device: CardDevice, instance: str) -> str:
    """Return who the device is to cloud-init.

    Args:
        device: the device.
        instance: another one for each flashing, so that cloud-init begins anew.

    """
    return _text({"instance-id": instance, "local-hostname": device.host, "dsmode": "local"})


def network_config(device: CardDevice) -> str:
    """Return the device's network; it has the keys of the Wi-Fi."""
    ethernet = {"eth0": {**_addresses(device, "eth0"), "optional": True}}
    config: dict[str, Any] = {"version": 2, "ethernets": ethernet}
    wired = device.wired_interface
    if wired != "eth0":
        ethernet[wired] = {**_addresses(device, wired), "optional": True}
    if device.wired is not None:
        ethernet[wired] |= _with_renderer(_auth(device.wired, "802.1x", "wired"))
    if device.wifis:
        config["wifis"] = {
            "wlan0": {
                **_addresses(device, "wlan0"),
                "optional": True,
                "regulatory-domain": device.country,
                **_with_renderer(
                    {
                        "access-points": {
                            wifi.ssid: _access_point(wifi, number, len(device.wifis))
                            for number, wifi in enumerate(device.wifis, 1)
                        }
                    }
                ),
            }
        }
    if device.modem is not None:
        config["modems"] = {"hedgerow-modem": _modem(device.modem)}
    return _text({"network": config})


def command_line(text: str, device: CardDevice, more: str) -> str:
    """Return the kernel's command line (``cmdline.txt``) for a device; its own earlier words are
    replaced.

    Args:
        text: what the image has; its first line is all that the firmware reads.
        device: the device.
        more: words of the mechanism.

    """
    own = ("ds=", "systemd.run", "systemd.unit=kernel-command-line", "cfg80211.ieee80211_regdom=")
    words = [word for word in text.partition("\n")[0].split() if not word.startswith(own)]
    if device.country:
        words.append(f"cfg80211.ieee80211_regdom={device.country}")
    return " ".join([*words, *more.split()]) + "\n"


def _user(device: CardDevice) -> Mapping[str, Any]:
    return {
        "name": device.user,
        "groups": list(GROUPS),
        "shell": "/bin/bash",
        "lock_passwd": True,
        "sudo": "ALL=(ALL) NOPASSWD:ALL",
        "ssh_authorized_keys": list(device.ssh_keys),
    }


def _access_point(wifi: Wifi, number: int, count: int) -> Mapping[str, Any]:
    """Return what netplan is told of a wireless network.

    Args:
        wifi: the network.
        number: which of the device's it is, from 1; the first that is heard is taken.
        count: how many the device has.

    """
    point: dict[str, Any] = {}
    if wifi.security == "wpa2":
        point["password"] = wifi.key()
    elif wifi.security == "wpa3":
        point["auth"] = {"key-management": "sae", "password": wifi.key()}
    elif wifi.eap is not None:
        point |= _auth(wifi.eap, "eap", f"wifi-{number}")
    if wifi.hidden:
        point["hidden"] = True
    if count > 1:
        # Nor has netplan a word for an order.
        own = point.setdefault("networkmanager", {}).setdefault("passthrough", {})
        own["connection.autoconnect-priority"] = str(count + 1 - number)
    return point


def _with_renderer(settings: dict[str, Any]) -> dict[str, Any]:
    """Say who makes an interface's connections, where it matters.

    netplan refuses the whole file for one setting of NetworkManager's on an interface that it has
    not been told before is NetworkManager's; then cloud-init fails, and the first boot with it.
    """
    points = settings.get("access-points", {}).values()
    needs_it = any("networkmanager" in one for one in (settings, *points))
    return {"renderer": "NetworkManager", **settings} if needs_it else settings


def _auth(eap: Eap, key_management: str, network: str) -> dict[str, Any]:
    """Return what netplan is told of 802.1X (netplan-yaml(5), "Authentication")."""
    auth = {
        "key-management": key_management,
        "method": eap.method,
        "identity": eap.identity,
        "ca-certificate": place(network, "ca.pem"),
    }
    if eap.anonymous_identity:
        auth["anonymous-identity"] = eap.anonymous_identity
    if eap.method == "tls":
        auth["client-certificate"] = place(network, "certificate.pem")
        auth["client-key"] = place(network, "key.pem")
    else:
        auth |= {"password": eap.password, "phase2-auth": eap.inner}
    found: dict[str, Any] = {"auth": auth}
    if eap.server_name:
        # netplan has no word for it, and hands this on to NetworkManager as it is.
        given = {"802-1x.domain-suffix-match": eap.server_name}
        found["networkmanager"] = {"passthrough": given}
    return found


def _modem(modem: Modem) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "renderer": "NetworkManager",  # no other has modems
        "match": {},  # whichever there is
        "apn": modem.apn,
        "dhcp4": True,
        "dhcp6": True,
        "dhcp4-overrides": {"route-metric": MODEM_METRIC},
        "dhcp6-overrides": {"route-metric": MODEM_METRIC},
    }
    given = {"username": modem.user, "password": modem.password, "pin": modem.pin}
    return found | {key: value for key, value in given.items() if value}


def _addresses(device: CardDevice, interface: str) -> Mapping[str, Any]:
    network = device.network
    if network is None or device.fixed_interface != interface:
        return {"dhcp4": True, "dhcp6": True}
    # The other family stays on: with a name server of a family that is off, netplan makes a
    # connection that NetworkManager refuses, and the card has no network at all.
    is_six = ":" in network.address
    found: dict[str, Any] = {"dhcp4": is_six, "dhcp6": not is_six, "addresses": [network.address]}
    if network.gateway:
        everywhere = "::/0" if ":" in network.gateway else "0.0.0.0/0"
        found["routes"] = [{"to": everywhere, "via": network.gateway}]
    if network.name_servers:
        found["nameservers"] = {"addresses": list(network.name_servers)}
    return found


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
