"""Goal: a QR code says where to have the authority, which one it is, and how a device logs in."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from gateway.tools.first_start.new_owner import DeviceLogin, OwnedGateway

SHA256 = "ab" * 32


def owned(address: str, device: DeviceLogin | None = None) -> OwnedGateway:
    return OwnedGateway("gw", address, 8883, 9641, SHA256, b"", device)


@pytest.mark.parametrize(("address", "host"), [("10.0.0.7", "10.0.0.7"), ("fd00::7", "[fd00::7]")])
@pytest.mark.parametrize("password", ["drawn-by_chance", "a&user=admin#?%"])
def test_a_device_finds_address_authority_and_its_own_log_in(
    address: str, host: str, password: str
) -> None:
    told = owned(address, DeviceLogin("first-device", password)).invitation()
    url = urlsplit(told)
    assert f"{url.scheme}://{url.netloc}{url.path}" == f"https://{host}:9641/ca.pem"
    assert parse_qs(url.fragment) == {
        "sha256": [SHA256],
        "mqtts": [f"{host}:8883"],
        "user": ["first-device"],
        "password": [password],
    }


def test_what_stands_behind_the_address_is_sent_to_nobody() -> None:
    url = urlsplit(owned("10.0.0.7", DeviceLogin("first-device", "secret")).invitation())
    assert not url.query
    assert "secret" in url.fragment


def test_a_gateway_of_a_fleet_has_no_device_to_tell_of() -> None:
    one = owned("10.0.0.7")
    assert one.invitation() == f"https://10.0.0.7:9641/ca.pem#sha256={SHA256}&mqtts=10.0.0.7:8883"
    assert one.as_json()["device"] is None


def test_no_password_is_in_what_is_logged() -> None:
    assert "secret" not in repr(owned("10.0.0.7", DeviceLogin("first-device", "secret")))
