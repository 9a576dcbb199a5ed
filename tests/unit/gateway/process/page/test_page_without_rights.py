"""A gateway that systemd confines may not write its files: its page says so, and what to type."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from certificate_fleet import PASSWORD, Fleet
from page_gateway import PageGateway, looker, page_gateway


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path / "tls")


@pytest.fixture
async def gateway(
    tmp_path: Path, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PageGateway]:
    """One whose configuration and certificates are on a file system that is read only for it."""
    may = os.access
    folders = (tmp_path / "gateway", fleet.folder)

    def confined(path: Path, mode: int) -> bool:
        is_read_only = bool(mode & os.W_OK) and Path(path).resolve() in (
            *folders,
            *(one for folder in folders for one in folder.glob("*")),
        )
        return not is_read_only and may(path, mode)

    async with page_gateway(tmp_path / "gateway", mqtt=fleet.mqtt) as made:
        monkeypatch.setattr(os, "access", confined)
        yield made


async def test_a_configuration_is_shown_and_checked_and_the_command_is_told(
    gateway: PageGateway,
) -> None:
    file = gateway.folder / "gateway.toml"
    before = file.read_bytes()
    async with looker(gateway, "anna") as anna:
        _, told = await anna.get("configuration")
        assert not told["may_write"] and str(file) in told["why_not"]
        change = {"set": ['gateway.domain="it\'s a;$(reboot)"', "tree.hello_s=1.5"]}
        status, checked = await anna.ask("POST", "configuration/checks", change)
        assert status == 200
        assert checked["command"].startswith(f"sudo hedgerow config set --config {file} -- ")
        # As the shell takes it: one word for each value, and nothing that runs.
        assert """'gateway.domain="it'"'"'s a;$(reboot)"'""" in checked["command"]
        body = {**change, "if_unchanged": told["digest"]}
        status, refused = await anna.ask("POST", "configuration", body)
        assert status == 409 and "sudo hedgerow config set" in refused["error"]
    assert file.read_bytes() == before
    assert sorted(path.name for path in gateway.folder.glob("gateway.toml*")) == ["gateway.toml"]


async def test_certificates_are_looked_into_and_stay_as_they_are(
    gateway: PageGateway, fleet: Fleet
) -> None:
    before = fleet.bytes
    data, _ = fleet.store()
    body = {
        "section": "mqtt",
        "part": "own",
        "data": base64.b64encode(data).decode(),
        "password": PASSWORD,
    }
    async with looker(gateway, "anna") as anna:
        _, told = await anna.get("keys")
        assert all(
            one["why_not"] and "keys import FILE" in one["command"] for one in told["places"]
        )
        assert told["why_not_request"]
        assert (await anna.ask("POST", "keys/checks", body))[0] == 200
        assert (await anna.ask("POST", "keys", body))[0] == 409
        assert (await anna.ask("POST", "keys/request", {}))[0] == 409
    assert fleet.bytes == before
