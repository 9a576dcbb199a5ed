"""NetworkManager's connections of a device (nm-settings-keyfile(5)): cable, Wi-Fi, modem."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from gateway.tools.flashing.cloud_config import MODEM_METRIC
from gateway.tools.flashing.device import CardDevice, Modem, Wifi
from gateway.tools.flashing.eap import Eap, place

_FAMILIES = ("ipv4", "ipv6")


def keyfiles(device: CardDevice) -> dict[str, str]:
    """NetworkManager's connections, by the names of their files."""
    found: dict[str, str] = {}
    fixed = device.fixed_interface
    if fixed not in ("", "wlan0") or device.wired is not None:
        wired = device.wired_interface
        settings = ["[ethernet]", *(_eap(device.wired, "wired") if device.wired else ())]
        found["hedgerow-wired.nmconnection"] = _keyfile(
            device, wired, "ethernet", settings, is_fixed=fixed == wired
        )
    for number, wifi in enumerate(device.wifis):
        behind = f"-{number + 1}" if number else ""
        found[f"hedgerow-wifi{behind}.nmconnection"] = _keyfile(
            device,
            "wlan0",
            "wifi",
            _wifi(wifi, f"wifi-{number + 1}"),
            behind=behind,
            priority=len(device.wifis) - number,
            is_fixed=fixed == "wlan0",
        )
    if device.modem is not None:
        found["hedgerow-modem.nmconnection"] = _modem(device, device.modem)
    return found


def _wifi(wifi: Wifi, network: str) -> list[str]:
    # As numbers, so that no character of a name means anything.
    ssid = "".join(f"{byte};" for byte in wifi.ssid.encode())
    lines = ["[wifi]", "mode=infrastructure", f"ssid={ssid}"]
    if wifi.hidden:
        lines.append("hidden=true")
    if wifi.eap is not None:
        lines += ["", "[wifi-security]", "key-mgmt=wpa-eap", *_eap(wifi.eap, network)]
    elif wifi.security != "open":
        kind = "sae" if wifi.security == "wpa3" else "wpa-psk"
        lines += ["", "[wifi-security]", f"key-mgmt={kind}", f"psk={_escaped(wifi.key())}"]
        if kind == "sae":
            lines.append("pmf=3")  # required there; netplan writes the same
    return lines


def _eap(eap: Eap, network: str) -> list[str]:
    lines = ["", "[802-1x]", f"eap={eap.method};", f"identity={_escaped(eap.identity)}"]
    lines.append(f"ca-cert={place(network, 'ca.pem')}")
    if eap.server_name:
        lines.append(f"domain-suffix-match={_escaped(eap.server_name)}")
    if eap.anonymous_identity:
        lines.append(f"anonymous-identity={_escaped(eap.anonymous_identity)}")
    if eap.method == "tls":
        lines.append(f"client-cert={place(network, 'certificate.pem')}")
        lines.append(f"private-key={place(network, 'key.pem')}")
        lines.append("private-key-password-flags=4")  # the key has no passphrase
    else:
        lines += [f"phase2-auth={eap.inner}", f"password={_escaped(eap.password)}"]
    return lines


def _modem(device: CardDevice, modem: Modem) -> str:
    given = {"username": modem.user, "password": modem.password, "pin": modem.pin}
    lines = ["[gsm]", f"apn={modem.apn}"]
    lines += [f"{key}={_escaped(value)}" for key, value in given.items() if value]
    sections = [f"[{family}]\nmethod=auto\nroute-metric={MODEM_METRIC}" for family in _FAMILIES]
    return "\n".join([*_connection(device, "modem", "gsm"), "", *lines, "", *sections, ""])


def _escaped(value: str) -> str:
    # A backslash begins an escape in a keyfile, and a space at the begin is none of the value.
    return value.replace("\\", "\\\\").replace(" ", "\\s")


def _connection(device: CardDevice, short: str, kind: str) -> list[str]:
    name = f"hedgerow-{short}"
    own = uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{device.host}")
    return ["[connection]", f"id={name}", f"uuid={own}", f"type={kind}"]


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
    lines = _connection(device, f"{interface}{behind}", kind)
    if priority:
        lines.append(f"autoconnect-priority={priority}")
    lines += [f"interface-name={interface}", "", *settings, ""]
    for section in _FAMILIES:
        is_six = section == "ipv6"
        lines += [f"[{section}]", *_method(device, is_six=is_six, is_fixed=is_fixed), ""]
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
