"""One device of a fleet, as its card makes it, and what may be said of it."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from gateway.base.toml import checks as config_checks
from gateway.base.toml.toml_file import Fault
from gateway.tools.flashing import eap as flash_eap
from gateway.tools.flashing.eap import Eap

SERVICE_USER = "hedgerow"
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}")
_COUNTRY = re.compile(r"[A-Z]{2}")
_INTERFACE = re.compile(r"[a-z][a-z0-9]{0,14}")
_APN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,98}[A-Za-z0-9])?")
_PIN = re.compile(r"[0-9]{4,8}")
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")
_SSH_KEY = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}(?: [^\r\n]*)?")
_MOST_SSH_KEYS = 64
_MOST_NAME_SERVERS = 3
_MOST_NETWORKS = 8


class Wifi(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A wireless network.

    Attributes:
        ssid: its name, up to 32 bytes.
        passphrase: 8 to 63 ASCII characters; of WPA2 also the key itself as 64 hexadecimal digits.
        passphrase_file: whose first line is the passphrase.
        hidden: whether it does not tell its name.
        security: ``wpa2`` (which access points of WPA2 and WPA3 take, too), ``wpa3`` for those
            that take SAE alone, ``eap`` for those that ask a server (802.1X), or ``open``.
        eap: what is told to that server.

    """

    ssid: str
    passphrase: str = ""
    passphrase_file: Path | None = None
    hidden: bool = False
    security: Literal["wpa2", "wpa3", "eap", "open"] = "wpa2"
    eap: Eap | None = None

    def __repr__(self) -> str:
        return f"Wifi({self.ssid!r})"

    def key(self) -> str:
        """Return what is written on the card for the passphrase.

        Of WPA2 that is the key in hexadecimal (IEEE 802.11-2020, annex J.4.1): the passphrase is
        not written. SAE has no such key (12.4), so of WPA3 it is the passphrase.
        """
        if self.security != "wpa2":
            return self.passphrase
        if _HEX_KEY.fullmatch(self.passphrase):
            return self.passphrase.lower()
        name = self.ssid.encode()
        return hashlib.pbkdf2_hmac("sha1", self.passphrase.encode(), name, 4096, 32).hex()


class StaticNetwork(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An address that no DHCP server gives.

    Attributes:
        address: with its prefix, as ``10.0.0.2/24``.
        gateway: the router; empty for none.
        name_servers: up to three.
        interface: empty for ``wlan0`` where there is Wi-Fi, else ``eth0``.

    """

    address: str
    gateway: str = ""
    name_servers: tuple[str, ...] = ()
    interface: str = ""


class Modem(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A modem of LTE, the way out where neither cable nor Wi-Fi has one.

    Attributes:
        apn: the access point's name, which the provider says.
        user: empty where the provider asks for none.
        password: the user's; a secret.
        password_file: whose first line is the password.
        pin: of the SIM card, 4 to 8 digits; empty for a card that asks for none; a secret.
        pin_file: whose first line is the PIN.

    """

    apn: str
    user: str = ""
    password: str = ""
    password_file: Path | None = None
    pin: str = ""
    pin_file: Path | None = None

    def __repr__(self) -> str:
        return f"Modem({self.apn!r})"


class CardDevice(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One device.

    Attributes:
        id: the gateway's.
        files: the folder of its configuration, as `hedgerow init` writes it; None for one that is
            called as the gateway, beside the file that tells of it.
        wheels: the archive of wheels that the first boot installs, as `deploy/ansible` packs it.
        unit: the service's unit; None for the usual one.
        token: a one-time token of `hedgerow keys token`; a secret.
        token_file: whose first line is the token.
        host_name: empty for the gateway's id.
        user: who may log in, with a key alone.
        ssh_keys: the public keys of who may.
        ssh_key_files: files of such keys.
        timezone: as ``Europe/Berlin``.
        country: where the radio is used, as ``DE``.
        wifi: the wireless network, or several: the first that is heard is taken.
        network: a fixed address; None for DHCP.
        wired: what the wired network asks for (802.1X); None for nothing.
        modem: a modem of LTE; None for none.
        place: what its label says of where it goes; empty for domain and group.

    """

    id: str
    files: Path | None = None
    wheels: Path | None = None
    unit: Path | None = None
    token: str = ""
    token_file: Path | None = None
    host_name: str = ""
    user: str = ""
    ssh_keys: tuple[str, ...] = ()
    ssh_key_files: tuple[Path, ...] = ()
    timezone: str = "Etc/UTC"
    country: str = ""
    wifi: Wifi | tuple[Wifi, ...] | None = None
    network: StaticNetwork | None = None
    wired: Eap | None = None
    modem: Modem | None = None
    place: str = ""

    def __repr__(self) -> str:
        return f"CardDevice({self.id!r})"

    @property
    def host(self) -> str:
        """The machine's host name: its gateway's id, unless it is given another one."""
        return self.host_name or self.id

    @property
    def wifis(self) -> tuple[Wifi, ...]:
        """Its wireless networks."""
        if isinstance(self.wifi, Wifi):
            return (self.wifi,)
        return self.wifi or ()

    @property
    def fixed_interface(self) -> str:
        """Return the interface that has the fixed address; empty for none."""
        if self.network is None:
            return ""
        return self.network.interface or ("wlan0" if self.wifis else "eth0")

    @property
    def wired_interface(self) -> str:
        """The interface with the fixed address, if that is no wireless one; else ``eth0``."""
        return self.fixed_interface if self.fixed_interface not in ("", "wlan0") else "eth0"

    def eaps(self) -> dict[str, tuple[str, Eap]]:
        """Return the networks that ask who the device is, by what their files are called.

        Each has how a fault names it.
        """
        found = {} if self.wired is None else {"wired": ("wired", self.wired)}
        for number, wifi in enumerate(self.wifis):
            if wifi.eap is not None:
                found[f"wifi-{number + 1}"] = (f"{wifi_field(self, number)}.eap", wifi.eap)
        return found


FirstBoot = Literal["auto", "cloud-init", "firstrun", "rpi-preseed"]


def faults(device: CardDevice) -> Iterator[Fault]:
    """Yield all that is wrong with a device; files that it names have been read into it before."""
    yield from config_checks.name("id", device.id)
    if not _HOST.fullmatch(device.host):
        yield Fault(
            "host_name", f"{device.host!r} is not 1 to 63 lower-case letters, digits, hyphens"
        )
    yield from _login(device)
    if not _ZONE.fullmatch(device.timezone):
        yield Fault("timezone", f"{device.timezone!r} is no time zone, such as Europe/Berlin")
    if device.country and not _COUNTRY.fullmatch(device.country):
        yield Fault("country", f"{device.country!r} is no country of two letters, such as DE")
    if not device.place.isprintable():
        yield Fault("place", f"{device.place!r} has characters that can't be printed")
    if device.wifis:
        yield from _wireless(device)
    if device.network is not None:
        yield from _network(device.network)
    if device.wired is not None:
        yield from flash_eap.faults(device.wired, "wired")
    if device.modem is not None:
        yield from _modem(device.modem)


def _login(device: CardDevice) -> Iterator[Fault]:
    if bool(device.user) != bool(device.ssh_keys):
        yield Fault("user", "user and ssh_keys go together: nobody logs in with a password")
    if device.user and (not _USER.fullmatch(device.user) or device.user in ("root", SERVICE_USER)):
        yield Fault("user", f"{device.user!r} is no name for a user who may log in")
    if len(device.ssh_keys) > _MOST_SSH_KEYS:
        yield Fault("ssh_keys", f"{len(device.ssh_keys)} keys, and at most {_MOST_SSH_KEYS} may be")
    for key in device.ssh_keys:
        if not _SSH_KEY.fullmatch(key) or not key.isprintable():
            yield Fault("ssh_keys", f"{key[:40]!r} is no public key of OpenSSH")


def wifi_field(device: CardDevice, number: int) -> str:
    """Return how a fault names one of a device's wireless networks.

    Args:
        device: the device.
        number: of the network, from 0.

    """
    return "wifi" if isinstance(device.wifi, Wifi) else f"wifi[{number}]"


def _wireless(device: CardDevice) -> Iterator[Fault]:
    if not device.country:
        yield Fault("country", "not given, and without it the radio stays off")
    if len(device.wifis) > _MOST_NETWORKS:
        yield Fault("wifi", f"{len(device.wifis)} networks, and at most {_MOST_NETWORKS} may be")
    names = set[str]()
    for number, wifi in enumerate(device.wifis):
        where = wifi_field(device, number)
        if wifi.ssid in names:
            yield Fault(f"{where}.ssid", f"{wifi.ssid!r} stands twice")
        names.add(wifi.ssid)
        yield from _wifi(wifi, where)


def _wifi(wifi: Wifi, where: str) -> Iterator[Fault]:
    if not 1 <= len(wifi.ssid.encode("utf-8", "replace")) <= 32 or not wifi.ssid.isprintable():
        yield Fault(f"{where}.ssid", f"{wifi.ssid!r} is not 1 to 32 bytes of printable text")
    if wifi.eap is not None and wifi.security != "eap":
        yield Fault(f"{where}.eap", 'goes with security = "eap"')
    if wifi.security in ("open", "eap"):
        if wifi.passphrase:
            kind = "an open network" if wifi.security == "open" else 'security = "eap"'
            yield Fault(f"{where}.passphrase", f"{kind} has none")
        if wifi.security == "eap" and wifi.eap is None:
            yield Fault(f"{where}.eap", 'not given, and security = "eap" needs it')
        elif wifi.eap is not None:
            yield from flash_eap.faults(wifi.eap, f"{where}.eap")
        return
    is_phrase = 8 <= len(wifi.passphrase) <= 63 and wifi.passphrase.isascii()
    if is_phrase and wifi.passphrase.isprintable():
        return
    if wifi.security == "wpa2" and _HEX_KEY.fullmatch(wifi.passphrase):
        return
    allowed = "not 8 to 63 printable ASCII characters"
    if wifi.security == "wpa2":
        allowed += ", nor 64 hex digits"
    if not wifi.passphrase:
        allowed += ' (a network without one has security = "open")'
    yield Fault(f"{where}.passphrase", allowed)


def _network(network: StaticNetwork) -> Iterator[Fault]:
    try:
        own = ipaddress.ip_interface(network.address)
    except ValueError:
        own = None
    if own is None or "/" not in network.address:
        yield Fault(
            "network.address", f"{network.address!r} is no address with a prefix: 10.0.0.2/24"
        )
    for where, value in (
        *((("network.gateway", network.gateway),) if network.gateway else ()),
        *(("network.name_servers", each) for each in network.name_servers),
    ):
        yield from config_checks.address(where, value)
        if where == "network.gateway" and own is not None and not _is_in(value, own):
            yield Fault(where, f"{value!r} is not in the network of {network.address}")
    if len(network.name_servers) > _MOST_NAME_SERVERS:
        yield Fault("network.name_servers", f"more than {_MOST_NAME_SERVERS}")
    if network.interface and not _INTERFACE.fullmatch(network.interface):
        yield Fault("network.interface", f"{network.interface!r} is no interface, such as eth0")


def _modem(modem: Modem) -> Iterator[Fault]:
    if not _APN.fullmatch(modem.apn):
        yield Fault("modem.apn", f"{modem.apn!r} is no access point's name, such as internet")
    for field, value in (("user", modem.user), ("password", modem.password)):
        if not value.isprintable():
            yield Fault(f"modem.{field}", "has characters that can't be printed")
    if modem.password and not modem.user:
        yield Fault("modem.user", "not given, and there is a password")
    if modem.pin and not _PIN.fullmatch(modem.pin):
        yield Fault("modem.pin", "not 4 to 8 digits")


def _is_in(text: str, own: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> bool:
    try:
        return ipaddress.ip_address(text) in own.network
    except ValueError:
        return True  # told of already
