"""A fleet is read from what init has written, and what is not so names the file and why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.tools.provisioning import files, grown
from gateway.tools.provisioning.plan import GatewayPlan, PlanError, Ports
from gateway.trust.certificates import founding

WRITTEN = """[gateway]
id = "gw-a"
domain = "farm"
group = "barn"
address = "192.0.2.1"
[mqtt]
port = 1883
tls_port = 8883
[coap]
port = 5683
dtls_port = 5684
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "gw-a/hedgerow.toml"
    made.parent.mkdir()
    made.write_text(WRITTEN)
    return made


def test_a_gateway_is_read_as_init_has_written_it(file: Path) -> None:
    ports = Ports(1883, 8883, 5683, 5684)
    assert grown.gateways_of(file.parent.parent) == [
        GatewayPlan("gw-a", "farm/barn", "192.0.2.1", ports)
    ]
    file.write_text(WRITTEN.replace('group = "barn"\n', ""))
    assert [one.place for one in grown.gateways_of(file.parent.parent)] == ["farm"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('id = "gw-a"', 'id = "gw-b"', ": its id or ports are not as init writes them"),
        ("port = 1883", 'port = "1883"', ": its id or ports are not as init writes them"),
        ("dtls_port = 5684", "", ": no dtls_port, which init writes"),
        ("[coap]", "[other]", ": no coap, which init writes"),
        ("[gateway]", "[gateway", ": Expected ']'"),
    ],
)
def test_a_configuration_that_init_did_not_write_is_named(
    old: str, new: str, why: str, file: Path
) -> None:
    file.write_text(WRITTEN.replace(old, new, 1))
    with pytest.raises(PlanError) as raised:
        grown.gateways_of(file.parent.parent)
    assert str(raised.value).startswith(f"{file}{why}")


def test_a_folder_without_gateways_is_no_fleet(tmp_path: Path) -> None:
    with pytest.raises(PlanError) as raised:
        grown.gateways_of(tmp_path)
    assert str(raised.value) == (
        f"{tmp_path}: there is no gateway: this is no fleet that init has written"
    )
    assert grown.welcome_of_member(tmp_path, "gw-a") is None


def test_a_member_whose_keys_can_not_be_read_gets_no_welcome(file: Path) -> None:
    keys = file.with_name("psk")
    for data, why in (
        (b"no key", f"{keys}"),
        (b"\xff", "'utf-8' codec"),
        (b"", f"{keys}: no key, "),
    ):
        keys.write_bytes(data)
        with pytest.raises(PlanError) as raised:
            grown.welcome_of_member(file.parent.parent, "gw-a")
        assert str(raised.value).startswith(why)


def test_a_gateways_folder_of_certificates_is_open_to_all_and_its_key_to_nobody_else(
    tmp_path: Path,
) -> None:
    authority = founding.found(tmp_path / "authority", None, kind="p256", days=30)
    authority.issue("gw-a", ["10.0.0.1"])
    (tmp_path / "gw-a").mkdir()
    before = os.umask(0)
    try:
        files.write_certificates(tmp_path / "gw-a", tmp_path / "authority", "gw-a")
    finally:
        os.umask(before)
    tls = tmp_path / "gw-a/tls"
    assert tls.stat().st_mode & 0o777 == 0o755
    modes = {path.name: path.stat().st_mode & 0o077 for path in tls.iterdir()}
    keys = {name: mode for name, mode in modes.items() if ".key" in name}
    assert keys and set(keys.values()) <= {0, 0o040}
