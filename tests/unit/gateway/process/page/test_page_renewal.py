"""A certificate is renewed from the page, by a real enrolment service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from enrolled_gateway import Enrolled, enrolled_gateway
from page_gateway import looker, page_gateway


@pytest.fixture
async def enrolled(tmp_path: Path) -> AsyncIterator[Enrolled]:
    async with enrolled_gateway(tmp_path) as made:
        yield made


async def test_a_certificate_is_renewed_at_once_for_the_key_that_it_has(
    enrolled: Enrolled, tmp_path: Path
) -> None:
    before, key = enrolled.own, enrolled.bytes["gateway.key.pem"]
    async with (
        page_gateway(tmp_path / "gateway", mqtt=enrolled.mqtt, more=enrolled.keys) as gateway,
        looker(gateway, "anna") as anna,
    ):
        assert (await anna.get("keys"))[1]["service"] == f"127.0.0.1:{enrolled.port}"
        status, told = await anna.ask("POST", "keys/renew", {})
        assert status == 200, told
        assert "gateway.pem" in told["writes"]
        assert await gateway.process.reload() == ""
        assert [one["what"] for one in gateway.audit].count("certificate renewed") == 1
        await enrolled.service.stop()
        status, told = await anna.ask("POST", "keys/renew", {})
        assert status == 502 and "127.0.0.1" in told["error"]
    assert enrolled.own.serial_number != before.serial_number
    assert enrolled.own.public_key() == before.public_key()
    assert enrolled.bytes["gateway.key.pem"] == key
