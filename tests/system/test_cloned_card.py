"""A copied card beside its original: real processes with one id and one key."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import fleet_keys
import pytest
from chain import CONVERGE_S, TreeGateway
from ports import free_port
from state_copies import copy_of_running

pytestmark = pytest.mark.timeout(300)
TOLD_S = 60.0
"""Ten seconds of patience, and what a busy machine adds."""
RETRY_S = 120.0
"""The copy tries twice a minute."""


async def hedgerow(command: str, gateway: TreeGateway, *more: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "gateway.tools.cli",
            command,
            "--config",
            str(gateway.config),
            *more,
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return out.decode()


async def status(gateway: TreeGateway) -> dict[str, Any]:
    return dict(json.loads(await hedgerow("status", gateway, "--json")))


async def linked(gateway: TreeGateway, *others: str) -> None:
    async with asyncio.timeout(CONVERGE_S):
        while [one["id"] for one in (await status(gateway))["neighbours"]] != list(others):
            await asyncio.sleep(0.1)


async def said(gateway: TreeGateway, text: str, limit_s: float = TOLD_S) -> None:
    async with asyncio.timeout(limit_s):
        while not any(text in line for line in gateway.lines):
            await asyncio.sleep(0.05)


def copied(folder: Path, original: TreeGateway, port: int) -> TreeGateway:
    """A gateway with the same id, whose card is a copy."""
    copy = TreeGateway(folder / "copy", original.gateway_id, port, 1 << 20)
    copy_of_running(original.state, copy.state)
    (copy.state / "listeners.json").unlink()
    return copy


def take_links_over_tls(gateway: TreeGateway, certificates: Path) -> int:
    """Have a gateway link inside mutual TLS, with the certificate of its id; its port for links."""
    port = free_port()
    ports = f"port = {gateway.port}\n"
    secure = f"""tls_port = {port}
certificate_file = "{certificates}/{gateway.gateway_id}.pem"
key_file = "{certificates}/{gateway.gateway_id}.key.pem"
client_certificate = "optional"
client_ca_file = "{certificates}/ca.pem"
client_crl_file = "{certificates}/revoked.pem"
"""
    text = gateway.config.read_text()
    assert ports in text and 'tls = "off"\n' in text
    text = text.replace(ports, ports + secure).replace('tls = "off"\n', "")
    gateway.config.write_text(text)
    return port


async def test_the_member_stays_and_the_copy_waits_until_it_is_gone(tmp_path: Path) -> None:
    a = TreeGateway(tmp_path / "a", "a", None, 1 << 20)
    b = TreeGateway(tmp_path / "b", "b", a.port, 1 << 20)
    await asyncio.gather(a.start(), b.start())
    copy = None
    try:
        await linked(a, "b")
        before = await status(b)
        copy = copied(tmp_path, b, a.port)
        await copy.start()
        await said(copy, "another gateway with this one's id is a member of the tree")
        await said(a, "b is in the tree already, under boot")
        await said(b, "a keeps out another gateway under the id of this one")
        # Both know, and the tree shows it, asked anywhere.
        told = await hedgerow("tree", a)
        assert "a: refused a link from 127.0.0.1: b is in the tree already" in told
        told = await hedgerow("tree", copy)
        assert f"b: no link to 127.0.0.1:{a.port} (a): a says: another gateway" in told
        # The member was not disturbed.
        now = await status(b)
        assert (now["boot_epoch"], now["pid"]) == (before["boot_epoch"], before["pid"])
        assert not any("starts again" in line for line in [*b.lines, *copy.lines])
        assert not any("to b is down" in line for line in a.lines)
        # It goes, and the copy takes its place.
        await b.stop()
        await said(copy, "link 1 to a", RETRY_S)
        await linked(a, "b")
    finally:
        await asyncio.gather(*(one.stop() for one in (a, b, copy) if one and one.is_running))


@pytest.mark.soak("the same without TLS above")
async def test_a_copy_that_has_the_certificate_too_is_kept_out_of_links_inside_tls(
    tmp_path: Path,
) -> None:
    certificates = tmp_path / "tls"
    fleet_keys.issue(certificates, "a", "b")
    a = TreeGateway(tmp_path / "a", "a", None, 1 << 20)
    port = take_links_over_tls(a, certificates)
    b = TreeGateway(tmp_path / "b", "b", port, 1 << 20)
    take_links_over_tls(b, certificates)
    await asyncio.gather(a.start(), b.start())
    copy = None
    try:
        await linked(a, "b")
        before = await status(b)
        copy = copied(tmp_path, b, port)
        take_links_over_tls(copy, certificates)
        await copy.start()
        await said(copy, "another gateway with this one's id is a member of the tree")
        await said(b, "a keeps out another gateway under the id of this one")
        now = await status(b)
        assert (now["boot_epoch"], now["pid"]) == (before["boot_epoch"], before["pid"])
        assert not any("to b is down" in line for line in a.lines)
    finally:
        await asyncio.gather(*(one.stop() for one in (a, b, copy) if one and one.is_running))


async def test_a_restored_card_whose_original_is_gone_is_let_in_at_once(tmp_path: Path) -> None:
    a = TreeGateway(tmp_path / "a", "a", None, 1 << 20)
    b = TreeGateway(tmp_path / "b", "b", a.port, 1 << 20)
    await asyncio.gather(a.start(), b.start())
    await linked(a, "b")
    copy = copied(tmp_path, b, a.port)
    b.kill()
    await b.ended()
    try:
        await copy.start()
        await linked(a, "b")
        assert not any("is a member of the tree" in line for line in copy.lines)
    finally:
        await asyncio.gather(*(one.stop() for one in (a, copy)))
