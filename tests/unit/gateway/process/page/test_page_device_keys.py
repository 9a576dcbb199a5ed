"""Keys of devices at the page: made, shown once, used by a real client, and revoked."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from page_answers import checked
from page_gateway import LIMIT_S, Looker, PageGateway, looker, page_gateway

from gateway.base import replaced_file
from gateway.coap_client import ClientError, CoapClient
from gateway.process.access.device_keys import FILE_NAME

POLICY = """version = 1
[principals]
"console:vera" = ["reader"]
"console:olga" = ["operator"]
"console:anna" = ["admin"]
"console:nina" = ["keeper"]
"psk:boss" = ["admin"]
"psk:*" = ["device"]
[roles.keeper]
includes = ["reader", "device"]
allow = ["membership"]
"""
SVG = "{http://www.w3.org/2000/svg}"
IN_FILE = "cd" * 16


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    async with opened(tmp_path) as made:
        yield made


def opened(folder: Path, *, is_secure: bool = True) -> Any:
    psk = folder / "psk"
    if not psk.exists():
        psk.touch(mode=0o600)
        psk.write_text(f"boss:{IN_FILE}\nstolen:{'ef' * 16}\n")
    coap = f'psk_file = "{psk}"\ndtls_port = 0\n' if is_secure else ""
    return page_gateway(folder, coap=coap, policy=POLICY)


async def made(at: Looker, identity: str) -> Any:
    status, told = await at.ask("POST", "device-keys", {"identity": identity})
    assert status == 200, told
    return checked("make_device_key", told)


async def known(at: Looker) -> dict[str, bool]:
    status, told = await at.get("device-keys")
    assert status == 200, told
    return {one["identity"]: one["is_made"] for one in checked("device_keys", told)["devices"]}


async def reads(gateway: PageGateway, identity: str, key: str) -> bool:
    """Return whether a device can read the gateway's resources with its key."""
    port = gateway.process.parts.coap.ports["coaps"]
    client = CoapClient(psk_identity=identity, psk_key=bytes.fromhex(key))
    try:
        uri = f"coaps://127.0.0.1:{port}/.well-known/core"
        return (await client.request("GET", uri, timeout_s=LIMIT_S)).ok
    except ClientError:
        return False
    finally:
        await client.close()


async def test_a_key_is_made_shown_once_used_and_revoked(
    gateway: PageGateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with looker(gateway, "anna") as anna:
        assert (await anna.get("me"))[1]["may"]["device_keys"]
        told = await made(anna, "meter-7")
        key = told["key"]
        assert len(bytes.fromhex(key)) == 32
        assert json.loads(told["text"]) == {
            "host": "127.0.0.1",
            "port": gateway.process.parts.coap.ports["coaps"],
            "identity": "meter-7",
            "key": key,
        }
        drawing = ET.fromstring(told["svg"])
        assert {one.tag for one in drawing.iter()} == {f"{SVG}svg", f"{SVG}path"}
        assert await known(anna) == {"boss": False, "stolen": False, "meter-7": True}
        assert await reads(gateway, "meter-7", key)
        assert (await anna.ask("DELETE", "device-keys/meter-7"))[0] == 200
        assert "meter-7" not in await known(anna)
        assert not await reads(gateway, "meter-7", key)
        assert (await anna.ask("DELETE", "device-keys/meter-7"))[0] == 404
    changes = [one for one in gateway.audit if one["what"].startswith("device key ")]
    assert [(one["who"], one["what"], one["identity"], one["outcome"]) for one in changes] == [
        ("console:anna", "device key made", "meter-7", "done"),
        ("console:anna", "device key revoked", "meter-7", "done"),
    ]
    assert key not in caplog.text and key not in json.dumps(gateway.audit)


@pytest.mark.peer("openssl", "openssl")
async def test_another_program_comes_in_by_the_key(gateway: PageGateway) -> None:
    port = gateway.process.parts.coap.ports["coaps"]
    async with looker(gateway, "anna") as anna:
        key = (await made(anna, "meter-7"))["key"]
    found = {}
    for name, tried in (("right", key), ("wrong", "00" * 32)):
        client = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-dtls1_2", "-connect", f"127.0.0.1:{port}"),
            *("-psk_identity", "meter-7", "-psk", tried, "-cipher", "PSK-AES128-CCM8:@SECLEVEL=0"),
            *("-timeout", "-brief"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert client.stdout is not None
        told = b""
        try:
            async with asyncio.timeout(5 if name == "wrong" else LIMIT_S):
                while b"CONNECTION ESTABLISHED" not in told and (
                    line := await client.stdout.readline()
                ):
                    told += line
        except TimeoutError:
            pass
        found[name] = b"CONNECTION ESTABLISHED" in told
        if client.returncode is None:
            client.kill()
        await client.wait()
    assert found == {"right": True, "wrong": False}


async def test_nobody_keeps_an_answer_with_a_key(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        headers = {"X-Hedgerow-CSRF": anna.csrf, "Content-Type": "application/json"}
        for body, status in (({"identity": "meter-7"}, 200), ({"identity": "meter-7"}, 409)):
            answer = await anna.session.post(
                f"{anna.base}/api/v1/device-keys", data=json.dumps(body), headers=headers
            )
            assert answer.status == status
            assert answer.headers["Cache-Control"] == "no-store"
            assert "ETag" not in answer.headers
        told = await (await anna.session.get(f"{anna.base}/api/v1/device-keys")).text()
        assert IN_FILE not in told and 'key"' not in told


async def test_a_stolen_device_is_out_at_once_and_stays_out(tmp_path: Path) -> None:
    async with opened(tmp_path) as gateway, looker(gateway, "anna") as anna:
        assert await reads(gateway, "stolen", "ef" * 16)
        assert (await anna.ask("DELETE", "device-keys/stolen"))[0] == 200
        assert not await reads(gateway, "stolen", "ef" * 16)
        assert "stolen:" in (tmp_path / "psk").read_text()  # the file is another's
        assert await gateway.process.reload() == ""
        assert not await reads(gateway, "stolen", "ef" * 16)
        key = (await made(anna, "lamp"))["key"]
    async with opened(tmp_path) as gateway, looker(gateway, "anna") as anna:
        assert await known(anna) == {"boss": False, "lamp": True}
        assert await reads(gateway, "lamp", key)
        assert not await reads(gateway, "stolen", "ef" * 16)


async def test_a_revocation_waits_for_no_file_that_is_wrong(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        (gateway.folder / "access.toml").write_text("[[[")
        (gateway.folder / "psk").write_text("no colon")
        assert await gateway.process.reload() != ""
        assert (await anna.ask("DELETE", "device-keys/stolen"))[0] == 200
        assert not await reads(gateway, "stolen", "ef" * 16)


async def test_a_revocation_whose_browser_goes_meanwhile_takes_effect(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, began, gone = replaced_file.replace, asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(path: Path, *given: Any, **more: Any) -> None:
        if path.name == "device_keys.json":
            loop.call_soon_threadsafe(began.set)
            asyncio.run_coroutine_threadsafe(gone.wait(), loop).result(LIMIT_S)
        real(path, *given, **more)

    monkeypatch.setattr(replaced_file, "replace", slow)
    async with looker(gateway, "anna") as anna:
        asking = asyncio.create_task(anna.ask("DELETE", "device-keys/stolen"))
        async with asyncio.timeout(LIMIT_S):
            await began.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            while not any(one.get("outcome", "").startswith("failed") for one in gateway.audit):
                await asyncio.sleep(0.02)  # the gateway has seen that it is gone
            gone.set()
            while "stolen" in await known(anna):
                await asyncio.sleep(0.05)
    assert not await reads(gateway, "stolen", "ef" * 16)


async def test_changes_that_come_together_are_all_kept(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        await asyncio.gather(*(made(anna, f"meter-{number}") for number in range(8)))
        again = await asyncio.gather(
            *(anna.ask("POST", "device-keys", {"identity": "one"}) for _ in range(4))
        )
        assert sorted(status for status, _ in again) == [200, 409, 409, 409]
        assert len(await known(anna)) == 11


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"identity": ""}, 400, "identity: "),
        ({"identity": "a b"}, 400, "identity: "),
        ({"identity": "a\nboss:00"}, 400, "identity: "),
        ({"identity": "#a"}, 400, "identity: "),
        ({"identity": "é"}, 400, "identity: "),
        ({"identity": "a" * 129}, 400, "identity: 129 characters"),
        ({"identity": 5}, 400, "identity: is no string"),
        ({}, 400, "identity: is missing"),
        ({"identity": "a", "key": "ab" * 32}, 400, "key: is not known"),
        ({"identity": "boss"}, 409, "has a key: revoke that before"),
    ],
)
async def test_what_can_be_no_identity_is_refused(
    gateway: PageGateway, body: dict[str, Any], status: int, why: str
) -> None:
    async with looker(gateway, "anna") as anna:
        got, told = await anna.ask("POST", "device-keys", body)
        assert got == status and why in told["error"], told
        assert await known(anna) == {"boss": False, "stolen": False}


async def test_viewers_operators_and_other_sites_neither_see_nor_change_keys(
    gateway: PageGateway,
) -> None:
    for user in ("vera", "olga"):
        async with looker(gateway, user) as one:
            assert not (await one.get("me"))[1]["may"]["device_keys"]
            for method, path, body in (
                ("GET", "device-keys", None),
                ("POST", "device-keys", {"identity": "mine"}),
                ("DELETE", "device-keys/boss", None),
            ):
                status, told = await one.ask(method, path, body)
                assert status == 403 and "membership" in told["error"], (method, told)
    async with looker(gateway, "anna") as anna:
        for headers in ({"X-Hedgerow-CSRF": ""}, {"Origin": "https://evil.example"}):
            for method, path in (("POST", "device-keys"), ("DELETE", "device-keys/boss")):
                status, _ = await anna.ask(method, path, {"identity": "mine"}, headers)
                assert status == 403
        assert await known(anna) == {"boss": False, "stolen": False}
    refused = {one["who"] for one in gateway.audit if one["what"] == "refused at the page"}
    assert {"console:vera", "console:olga", "console:anna"} <= refused


async def test_nobody_makes_itself_more_than_it_is(gateway: PageGateway) -> None:
    """A user who may make keys, and is no admin, makes none for an identity that is admin."""
    async with looker(gateway, "nina") as nina, looker(gateway, "anna") as anna:
        assert (await anna.ask("DELETE", "device-keys/boss"))[0] == 200
        status, told = await nina.ask("POST", "device-keys", {"identity": "boss"})
        assert status == 403 and "'boss' is admin" in told["error"]
        assert (await made(nina, "meter-1"))["identity"] == "meter-1"
        assert (await anna.ask("POST", "device-keys", {"identity": "boss"}))[0] == 200
        assert (await nina.ask("DELETE", "device-keys/boss"))[0] == 403


async def test_without_dtls_no_key_is_made(tmp_path: Path) -> None:
    async with opened(tmp_path, is_secure=False) as gateway, looker(gateway, "anna") as anna:
        assert (await anna.get("device-keys"))[1] == {"uri": "", "devices": []}
        status, told = await anna.ask("POST", "device-keys", {"identity": "meter-7"})
        assert status == 409 and "set coap.psk_file" in told["error"]


async def test_a_key_that_can_not_be_kept_is_not_made(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        blocked = gateway.folder / "state" / "device_keys.json"
        blocked.mkdir()
        (blocked / "x").touch()
        status, told = await anna.ask("POST", "device-keys", {"identity": "meter-7"})
        assert status == 507 and "gateway.state_dir" in told["error"]
        assert await known(anna) == {"boss": False, "stolen": False}
        blocked.joinpath("x").unlink()
        blocked.rmdir()
        assert (await made(anna, "meter-7"))["key"]


async def test_who_is_out_by_the_time_of_its_turn_makes_and_revokes_no_key(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request waits behind another change, whose disk is slow."""
    go, real = threading.Event(), replaced_file.replace

    def slow(path: Path, *given: Any, **more: Any) -> None:
        assert path.name != FILE_NAME or go.wait(LIMIT_S)
        real(path, *given, **more)

    def under_way() -> int:
        return sum(one.get_name() == "change of access" for one in asyncio.all_tasks())

    async with looker(gateway, "anna") as anna, looker(gateway, "nina") as nina:
        await made(anna, "lamp")
        with monkeypatch.context() as patch:
            patch.setattr(replaced_file, "replace", slow)
            asked = []
            for one in (
                anna.ask("POST", "device-keys", {"identity": "meter"}),
                nina.ask("POST", "device-keys", {"identity": "mine"}),
                nina.ask("DELETE", "device-keys/lamp"),
            ):
                asked.append(asyncio.create_task(one))
                async with asyncio.timeout(LIMIT_S):
                    while under_way() < len(asked):
                        await asyncio.sleep(0.02)
            lines = (gateway.folder / "passwords").read_text().splitlines(keepends=True)
            kept = "".join(line for line in lines if not line.startswith("nina:"))
            (gateway.folder / "passwords").write_text(kept)
            assert await gateway.process.reload() == ""
            go.set()
            answers = [status for status, _ in await asyncio.gather(*asked)]
        assert answers == [200, 401, 401]
        assert {"meter", "lamp"} <= set(await known(anna)) and "mine" not in await known(anna)
