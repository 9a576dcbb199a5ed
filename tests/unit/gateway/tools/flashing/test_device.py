"""A device of a fleet's file is held to what systems of a Pi take, at each exact value."""

from __future__ import annotations

import msgspec
import pytest

from gateway.tools.flashing import device
from gateway.tools.flashing.device import CardDevice, Modem, StaticNetwork, Wifi

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKz1"
NORTH = CardDevice(id="gw-north", user="anna", ssh_keys=(KEY,), country="DE")
HEX = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789"


def told(**changed: object) -> list[str]:
    """Return what is wrong, as a person reads it."""
    one = msgspec.structs.replace(NORTH, **changed)
    return [f"{fault.where}: {fault.why}" for fault in device.faults(one)]


@pytest.mark.parametrize(
    "changed",
    [
        {"ssh_keys": (KEY,) * 64},
        {"host_name": "a" * 63},
        {"user": "a" * 32},
        {"user": "", "ssh_keys": ()},
        {"wifi": Wifi("house", "12345678")},
        {"wifi": Wifi("house", "x" * 63)},
        {"wifi": Wifi("house", HEX)},
        {"wifi": Wifi("s" * 32, "12345678")},
        {"wifi": (Wifi("house", "12345678"), *(Wifi(f"w{n}", "12345678") for n in range(7)))},
        {"wifi": Wifi("house", security="open")},
        {"network": StaticNetwork("10.0.0.2/24", "10.0.0.1", ("10.0.0.1", "::1", "1.1.1.1"))},
        {"modem": Modem(apn="internet", pin="1234")},
        {"modem": Modem(apn="a" * 100, pin="12345678", user="u", password="p")},
    ],
)
def test_what_is_just_within_its_range_is_taken(changed: dict[str, object]) -> None:
    assert told(**changed) == []


PASSPHRASE = "wifi.passphrase: not 8 to 63 printable ASCII characters"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"ssh_keys": (KEY,) * 65}, "ssh_keys: 65 keys, and at most 64 may be"),
        (
            {"host_name": "a" * 64},
            f"host_name: {'a' * 64!r} is not 1 to 63 lower-case letters, digits, hyphens",
        ),
        ({"user": "a" * 33}, f"user: {'a' * 33!r} is no name for a user who may log in"),
        ({"user": "root"}, "user: 'root' is no name for a user who may log in"),
        ({"user": "hedgerow"}, "user: 'hedgerow' is no name for a user who may log in"),
        ({"user": ""}, "user: user and ssh_keys go together: nobody logs in with a password"),
        ({"timezone": "Berlin!"}, "timezone: 'Berlin!' is no time zone, such as Europe/Berlin"),
        ({"country": "de"}, "country: 'de' is no country of two letters, such as DE"),
        ({"place": "a\nb"}, "place: 'a\\nb' has characters that can't be printed"),
        ({"wifi": Wifi("house", "1234567")}, f"{PASSPHRASE}, nor 64 hex digits"),
        ({"wifi": Wifi("house", "x" * 64)}, f"{PASSPHRASE}, nor 64 hex digits"),
        ({"wifi": Wifi("house", HEX[:-1] + "g")}, f"{PASSPHRASE}, nor 64 hex digits"),
        ({"wifi": Wifi("house", HEX, security="wpa3")}, PASSPHRASE),
        (
            {"wifi": Wifi("house")},
            f'{PASSPHRASE}, nor 64 hex digits (a network without one has security = "open")',
        ),
        (
            {"network": StaticNetwork("10.0.0.2")},
            "network.address: '10.0.0.2' is no address with a prefix: 10.0.0.2/24",
        ),
        (
            {"network": StaticNetwork("nowhere/24")},
            "network.address: 'nowhere/24' is no address with a prefix: 10.0.0.2/24",
        ),
        (
            {"network": StaticNetwork("10.0.0.2/24", "10.0.1.1")},
            "network.gateway: '10.0.1.1' is not in the network of 10.0.0.2/24",
        ),
        (
            {"network": StaticNetwork("10.0.0.2/24", "", ("1.1.1.1",) * 4)},
            "network.name_servers: more than 3",
        ),
        (
            {"network": StaticNetwork("10.0.0.2/24", "", (), "0eth")},
            "network.interface: '0eth' is no interface, such as eth0",
        ),
        ({"modem": Modem(apn="-")}, "modem.apn: '-' is no access point's name, such as internet"),
        ({"modem": Modem(apn="internet", pin="123")}, "modem.pin: not 4 to 8 digits"),
        ({"modem": Modem(apn="internet", pin="123456789")}, "modem.pin: not 4 to 8 digits"),
        (
            {"modem": Modem(apn="internet", password="p")},
            "modem.user: not given, and there is a password",
        ),
        (
            {"modem": Modem(apn="internet", user="u\x07")},
            "modem.user: has characters that can't be printed",
        ),
    ],
)
def test_what_is_just_beyond_its_range_is_told_by_its_field(
    changed: dict[str, object], why: str
) -> None:
    assert told(**changed) == [why]


def test_a_router_that_is_no_address_is_told_once() -> None:
    [fault] = told(network=StaticNetwork("10.0.0.2/24", "nowhere"))
    assert fault.startswith("network.gateway: ")


def test_a_device_that_is_shown_tells_no_secret() -> None:
    assert repr(Wifi("house", "a secret")) == "Wifi('house')"
    assert repr(Modem(apn="internet", password="a secret")) == "Modem('internet')"
    assert repr(NORTH) == "CardDevice('gw-north')"
    assert Wifi("house", HEX).key() == HEX.lower()
    assert Wifi("house", HEX, security="wpa3").key() == HEX


@pytest.mark.parametrize(
    ("changed", "fixed", "wired"),
    [
        ({}, "", "eth0"),
        ({"network": StaticNetwork("10.0.0.2/24")}, "eth0", "eth0"),
        ({"network": StaticNetwork("10.0.0.2/24", interface="end0")}, "end0", "end0"),
        (
            {"network": StaticNetwork("10.0.0.2/24"), "wifi": Wifi("house", "12345678")},
            "wlan0",
            "eth0",
        ),
    ],
)
def test_a_fixed_address_is_the_radios_where_there_is_one_and_no_interface_is_named(
    changed: dict[str, object], fixed: str, wired: str
) -> None:
    one = msgspec.structs.replace(NORTH, **changed)
    assert (one.fixed_interface, one.wired_interface) == (fixed, wired)
    assert (one.host, msgspec.structs.replace(one, host_name="pi").host) == ("gw-north", "pi")
