"""Key stores and trust stores over the page: what comes in is bounded, and no key goes out."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import signal
import zipfile
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from authority import Authority
from certificate_fleet import PASSWORD, Fleet
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from page_answers import checked
from page_gateway import LIMIT_S, Looker, PageGateway, looker, page_gateway

from gateway.base import replaced_file
from gateway.trust.certificates import pkcs12_files, private_keys, unpacking
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.pkcs12_files import KeystoreContent
from gateway.trust.certificates.signature_keys import PrivateKey

OWN = {"section": "mqtt", "part": "own"}
TRUST = {"section": "mqtt", "part": "authorities"}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path / "tls")


@pytest.fixture
async def gateway(tmp_path: Path, fleet: Fleet) -> AsyncIterator[PageGateway]:
    async with page_gateway(tmp_path / "gateway", mqtt=fleet.mqtt) as made:
        yield made


class HeldUp:
    """Stands in for a function of a thread: it has begun, and goes on when the test says so.

    Args:
        real: the function.
        where: of its calls, those whose first argument is this; all if not given.

    """

    def __init__(self, real: Callable[..., Any], where: Path | None = None) -> None:
        self.began, self.goes_on = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._real, self._where = real, where

    def __call__(self, *given: Any, **more: Any) -> Any:
        if self._where in (None, given[0]):
            self._loop.call_soon_threadsafe(self.began.set)
            asyncio.run_coroutine_threadsafe(self.goes_on.wait(), self._loop).result(LIMIT_S)
        return self._real(*given, **more)


@pytest.fixture
async def opening(monkeypatch: pytest.MonkeyPatch) -> HeldUp:
    """Have uploads opened when the test says so."""
    found = HeldUp(unpacking.unpacked)
    monkeypatch.setattr(unpacking, "unpacked", found)
    return found


def upload(data: bytes, place: dict[str, str], **more: Any) -> dict[str, Any]:
    return {**place, "data": base64.b64encode(data).decode(), **more}


async def sent(at: Looker, path: str, body: Any) -> tuple[int, Any]:
    return await at.ask("POST", path, body)


def held(path: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(path.read_bytes())


async def test_what_the_files_hold_is_told_with_its_end_and_no_key(
    gateway: PageGateway, fleet: Fleet
) -> None:
    async with looker(gateway, "anna") as anna:
        status, told = await anna.get("keys")
        assert status == 200, told
        checked("keys", told)
        assert {(one["field"], one["name"]) for one in told["items"]} == {
            ("mqtt.certificate_file", "gw"),
            ("mqtt.client_ca_file", "authority"),
        }
        assert all(one["days_left"] >= 0 for one in told["items"])
        assert [(one["section"], one["part"], one["why_not"]) for one in told["places"]] == [
            ("mqtt", "own", ""),
            ("mqtt", "authorities", ""),
        ]
        assert told["request"] is None and told["service"] is None
        assert "PRIVATE" not in json.dumps(told)


async def test_a_key_store_is_looked_into_brought_in_and_gone_by(
    gateway: PageGateway, fleet: Fleet, heard: list[int]
) -> None:
    data, certificate = fleet.store()
    before = fleet.bytes
    async with looker(gateway, "anna") as anna:
        status, told = await sent(anna, "keys/checks", upload(data, OWN, password=PASSWORD))
        assert status == 200, told
        checked("check_keys", told)
        assert told["has_key"] and told["certificates"][0]["name"] == "gw"
        assert fleet.bytes == before
        status, told = await sent(anna, "keys", upload(data, OWN, password=PASSWORD))
        assert status == 200, told
        checked("import_keys", told)
        assert told["is_told"] and heard == [signal.SIGHUP]
    assert held(fleet.certificate) == [certificate]
    assert fleet.key.stat().st_mode & 0o777 == 0o600
    assert await gateway.process.reload() == ""
    (noted,) = [one for one in gateway.audit if one["what"] == "certificates brought in"]
    assert (noted["who"], noted["section"], noted["part"]) == ("console:anna", "mqtt", "own")
    assert PASSWORD not in json.dumps(gateway.audit)


async def test_an_upload_whose_browser_goes_meanwhile_is_gone_by(
    gateway: PageGateway, fleet: Fleet, heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = HeldUp(replaced_file.replace, fleet.certificate)
    monkeypatch.setattr(replaced_file, "replace", writing)
    data, certificate = fleet.store()
    async with looker(gateway, "anna") as anna, asyncio.timeout(LIMIT_S):
        asking = asyncio.create_task(sent(anna, "keys", upload(data, OWN, password=PASSWORD)))
        await writing.began.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        while not any(one.get("outcome", "").startswith("failed") for one in gateway.audit):
            await asyncio.sleep(0.02)  # the gateway has seen that it is gone
        writing.goes_on.set()
        while not heard:
            await asyncio.sleep(0.02)
    assert held(fleet.certificate) == [certificate] and heard == [signal.SIGHUP]


async def test_an_authority_is_added_and_then_stands_alone(
    gateway: PageGateway, fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "next")
    async with looker(gateway, "anna") as anna:
        body = upload(other.file.read_bytes(), TRUST, add=True)
        assert (await sent(anna, "keys", body))[0] == 200
        assert [forms.common_name(one.subject) for one in held(fleet.trusted)] == [
            "authority",
            "next",
        ]
        body = upload(fleet.authority.file.read_bytes(), TRUST)
        assert (await sent(anna, "keys", body))[0] == 200
    assert [forms.common_name(one.subject) for one in held(fleet.trusted)] == ["authority"]


async def test_a_request_is_made_handed_out_answered_and_its_key_never_leaves(
    gateway: PageGateway, fleet: Fleet, heard: list[int]
) -> None:
    async with looker(gateway, "anna") as anna:
        assert (await anna.get("keys/request"))[0] == 404
        status, told = await sent(anna, "keys/request", {"addresses": ["north.lan", "10.0.0.2"]})
        assert status == 200, told
        checked("make_key_request", told)
        assert (await sent(anna, "keys/request", {}))[0] == 409
        status, pem = await anna.get("keys/request")
        assert (status, pem.decode()) == (200, told["request"])
        asked = x509.load_pem_x509_csr(pem)
        assert asked.is_signature_valid and b"PRIVATE" not in pem
        waiting = fleet.folder / "requested.key.pem"
        assert waiting.stat().st_mode & 0o777 == 0o600
        (key,) = private_keys.load(waiting.read_bytes())
        authority_key = private_keys.make("p256")
        authority = forms.authority(authority_key, 30)
        others = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        answer = forms.certificate(authority, authority_key, key.public_key(), "gw", others, 3)
        both = pkcs12_files.as_pem([answer, authority])
        assert (await sent(anna, "keys", upload(both, TRUST, add=True)))[0] == 200
        assert waiting.exists()  # its certificate is not brought in yet
        status, told = await sent(anna, "keys", upload(both, OWN))
        assert status == 200, told
        assert held(fleet.certificate) == [answer]
        assert not waiting.exists() and (await anna.get("keys/request"))[0] == 404
        assert (await anna.ask("POST", "keys/request", {}))[0] == 200
        assert (await anna.ask("DELETE", "keys/request"))[0] == 200
        assert not waiting.exists()
    made = [one for one in gateway.audit if one["what"] == "key made and certificate requested"]
    assert [one["addresses"] for one in made] == [["north.lan", "10.0.0.2"], None]


async def test_stores_stay_stores_under_the_gateways_own_password(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "tls")
    password = tmp_path / "password"
    password.touch(mode=0o600)
    password.write_text("the gateway's own\n")
    first = load_pem_private_key(fleet.key.read_bytes(), None)
    assert isinstance(first, PrivateKey)
    store = fleet.folder / "gateway.p12"
    own = KeystoreContent(first, held(fleet.certificate)[0], [])
    store.touch(mode=0o600)
    store.write_bytes(pkcs12_files.pack(own, b"the gateway's own"))
    mqtt = fleet.mqtt.replace(str(fleet.certificate), str(store)).replace(
        str(fleet.key), str(store)
    )
    keys = f'[keys]\npassword_file = "{password}"\n'
    async with page_gateway(tmp_path / "gateway", mqtt=mqtt, more=keys) as gateway:
        data, certificate = fleet.store()
        async with looker(gateway, "anna") as anna:
            status, told = await sent(anna, "keys", upload(data, OWN, password=PASSWORD))
            assert status == 200, told
            assert told["writes"] == [str(store)]
        found = pkcs12_files.unpack(store.read_bytes(), b"the gateway's own")
        assert found.certificate == certificate
        assert store.stat().st_mode & 0o777 == 0o600
        assert await gateway.process.reload() == ""


def bomb(store: bytes) -> bytes:
    """A store that says of itself that its password is hashed eight million times."""
    honest, many = (100_000).to_bytes(3), (0x7FFFFF).to_bytes(3)
    assert honest in store
    return store.replace(b"\2\3" + honest, b"\2\3" + many)


def zipped() -> bytes:
    held_by = BytesIO()
    with zipfile.ZipFile(held_by, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(20 << 20))
    return held_by.getvalue()


async def test_hostile_uploads_are_refused_and_nothing_is_written(
    gateway: PageGateway, fleet: Fleet, heard: list[int]
) -> None:
    before = fleet.bytes
    good, _ = fleet.store()
    early, _ = fleet.store("gw", is_early=True)
    ended, _ = fleet.store("gw", expired=True)
    trust = fleet.authority.file.read_bytes()
    lone_key = private_keys.as_pem(private_keys.make("p256"))
    rows: list[tuple[bytes, dict[str, str], str]] = [
        (bomb(good), OWN, "hashed"),
        (good[:-20], OWN, ""),
        (b"", OWN, ""),
        (b"\0" * 40_000, OWN, ""),
        (b"\x30\x84\x7f\xff\xff\xff" + bytes(40), OWN, ""),
        (b"\x30\x80" * 15_000, OWN, ""),
        (zipped(), OWN, ""),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" * 400, OWN, ""),
        (b"<script>alert(1)</script>", OWN, ""),
        (lone_key, OWN, "key without a certificate"),
        (trust, OWN, "trust store"),
        (early, OWN, "begins"),
        (ended, OWN, "ended"),
        (held(fleet.certificate)[0].public_bytes(Encoding.PEM), TRUST, ""),
    ]
    async with looker(gateway, "anna") as anna:
        for data, place, why in rows:
            body = upload(data, place, password=PASSWORD)
            for path in ("keys/checks", "keys"):
                status, told = await sent(anna, path, body)
                assert status == 422 and why in told["error"], (data[:60], told)
        wrong = upload(good, OWN, password="another")
        assert (await sent(anna, "keys", wrong))[0] == 422
        for body in (
            {**OWN, "data": "no base64!"},
            {**OWN, "data": "ä"},
            {**OWN},
            {**upload(good, OWN), "section": "../../etc"},
            {**upload(good, OWN), "part": "key"},
            {**upload(good, OWN), "path": "/etc/shadow"},
            {**upload(good, OWN), "data": "A" * 60_001},
            {**upload(good, OWN), "password": "x" * 2_000},
        ):
            assert (await sent(anna, "keys", body))[0] == 400
        coap = upload(good, {"section": "coap", "part": "own"}, password=PASSWORD)
        status, told = await sent(anna, "keys", coap)
        assert status == 422 and "coap." in told["error"]
        for addresses in (["a b"], [1], ["x"] * 33, ["../x"], ["\n"]):
            assert (await sent(anna, "keys/request", {"addresses": addresses}))[0] == 400
        status, _ = await sent(anna, "keys", upload(bytes(70_000), OWN))
        assert status == 413
    assert fleet.bytes == before and heard == []
    assert not any(one["what"] == "certificates brought in" for one in gateway.audit)


async def test_one_upload_is_opened_at_a_time(gateway: PageGateway, fleet: Fleet) -> None:
    data, _ = fleet.store()
    body = upload(data, OWN, password=PASSWORD)
    async with looker(gateway, "anna") as anna:
        found = await asyncio.gather(*(sent(anna, "keys/checks", body) for _ in range(5)))
    assert sorted({status for status, _ in found}) == [200, 429]


async def check_refused(visitor: Looker, body: dict[str, Any]) -> None:
    """Check that a visitor is refused all that can be asked about keys."""
    for method, path, said in (
        ("GET", "keys", None),
        ("GET", "keys/request", None),
        ("POST", "keys/checks", body),
        ("POST", "keys", body),
        ("POST", "keys/request", {}),
        ("DELETE", "keys/request", None),
        ("POST", "keys/renew", {}),
    ):
        assert (await visitor.ask(method, path, said))[0] == 403, path


@pytest.mark.parametrize("user", ["vera", "olga"])
async def test_a_viewer_and_an_operator_have_nothing_to_do_with_keys(
    gateway: PageGateway, fleet: Fleet, user: str
) -> None:
    before = fleet.bytes
    data, _ = fleet.store()
    body = upload(data, OWN, password=PASSWORD)
    async with looker(gateway, user) as visitor:
        assert not (await visitor.get("me"))[1]["may"]["keys"]
        await check_refused(visitor, body)
    assert fleet.bytes == before
    refused = gateway.process.status()["broker"]["refusals"]
    assert refused["page: forbidden: import_keys"] == 1


async def test_another_site_brings_nothing_in(gateway: PageGateway, fleet: Fleet) -> None:
    before = fleet.bytes
    data, _ = fleet.store()
    body = upload(data, OWN, password=PASSWORD)
    async with looker(gateway, "anna") as anna:
        for headers in ({"X-Hedgerow-CSRF": ""}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await anna.ask("POST", "keys", body, headers))[0] == 403
            assert (await anna.ask("DELETE", "keys/request", None, headers))[0] == 403
    assert fleet.bytes == before


async def test_who_follows_no_service_is_told_what_to_do_instead(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna:
        status, told = await sent(anna, "keys/renew", {})
        assert status == 409 and "keys.service" in told["error"]


async def test_who_logs_out_while_an_upload_is_opened_brings_nothing_in(
    gateway: PageGateway, fleet: Fleet, heard: list[int], opening: HeldUp
) -> None:
    data, _ = fleet.store()
    before = fleet.bytes
    async with looker(gateway, "anna") as anna, asyncio.timeout(LIMIT_S):
        asking = asyncio.create_task(sent(anna, "keys", upload(data, OWN, password=PASSWORD)))
        await opening.began.wait()
        assert (await anna.ask("POST", "logout", {}))[0] == 200
        opening.goes_on.set()
        status, _ = await asking
    assert status == 401
    assert fleet.bytes == before and not heard


# -- others work at the same files -----------------------------------------------------------------


@pytest.mark.parametrize("edited", ["key", "certificate"])
async def test_an_edit_by_hand_while_an_upload_is_opened_stays_and_the_page_says_so(
    gateway: PageGateway,
    fleet: Fleet,
    heard: list[int],
    monkeypatch: pytest.MonkeyPatch,
    edited: str,
) -> None:
    real, file = unpacking.unpacked, fleet.key if edited == "key" else fleet.certificate

    def edited_meanwhile(*given: Any, **more: Any) -> Any:
        file.write_bytes(file.read_bytes() + b"# by hand\n")
        return real(*given, **more)

    monkeypatch.setattr(unpacking, "unpacked", edited_meanwhile)
    data, _ = fleet.store()
    before = fleet.bytes
    async with looker(gateway, "anna") as anna:
        status, told = await sent(anna, "keys", upload(data, OWN, password=PASSWORD))
    assert status == 409
    assert str(file) in told["error"] and "changed it meanwhile" in told["error"]
    assert fleet.bytes == before | {file.name: before[file.name] + b"# by hand\n"}
    assert not heard


async def test_a_certificate_that_can_not_be_written_leaves_the_key_of_before(
    gateway: PageGateway, fleet: Fleet, heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_full = replaced_file.replace, [True]

    def full(path: Path, *given: Any, **more: Any) -> None:
        if path == fleet.certificate and is_full.pop():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        real(path, *given, **more)

    monkeypatch.setattr(replaced_file, "replace", full)
    data, _ = fleet.store()
    before = fleet.bytes
    async with looker(gateway, "anna") as anna:
        status, told = await sent(anna, "keys", upload(data, OWN, password=PASSWORD))
    assert status == 503 and str(fleet.certificate) in told["error"]
    assert fleet.bytes == before and not heard


async def test_an_authority_that_is_put_there_by_hand_meanwhile_is_trusted_still(
    gateway: PageGateway, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other, real = Authority(tmp_path / "other", "next"), unpacking.unpacked
    both = fleet.trusted.read_bytes() + other.file.read_bytes()

    def edited_meanwhile(*given: Any, **more: Any) -> Any:
        fleet.trusted.write_bytes(both)
        return real(*given, **more)

    monkeypatch.setattr(unpacking, "unpacked", edited_meanwhile)
    async with looker(gateway, "anna") as anna:
        body = upload(fleet.authority.file.read_bytes(), TRUST)
        assert (await sent(anna, "keys", body))[0] == 409
    assert fleet.trusted.read_bytes() == both


async def test_a_key_that_another_one_puts_there_meanwhile_is_not_replaced_by_a_request(
    gateway: PageGateway, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, real = fleet.folder / "requested.key.pem", forms.request

    def meanwhile(*given: Any, **more: Any) -> bytes:
        waiting.write_bytes(b"another key\n")
        return real(*given, **more)

    monkeypatch.setattr(forms, "request", meanwhile)
    async with looker(gateway, "anna") as anna:
        status, told = await sent(anna, "keys/request", {})
    assert status == 409 and str(waiting) in told["error"]
    assert waiting.read_bytes() == b"another key\n"
    assert not (fleet.folder / "requested.csr.pem").exists()


async def test_who_may_not_is_told_so_at_once_and_not_to_try_again_in_a_moment(
    gateway: PageGateway, fleet: Fleet, opening: HeldUp
) -> None:
    body = upload(fleet.store()[0], OWN, password=PASSWORD)
    async with (
        looker(gateway, "anna") as anna,
        looker(gateway, "vera") as vera,
        asyncio.timeout(LIMIT_S),
    ):
        asking = asyncio.create_task(sent(anna, "keys/checks", body))
        await opening.began.wait()
        await check_refused(vera, body)
        opening.goes_on.set()
        assert (await asking)[0] == 200


async def test_who_goes_while_an_upload_is_opened_has_no_other_opened_beside_it(
    gateway: PageGateway, fleet: Fleet, opening: HeldUp
) -> None:
    data, _ = fleet.store()
    body = upload(data, OWN, password=PASSWORD)
    async with looker(gateway, "anna") as anna, asyncio.timeout(LIMIT_S):
        asking = asyncio.create_task(sent(anna, "keys/checks", body))
        await opening.began.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        for _ in range(5):
            assert (await sent(anna, "keys/checks", body))[0] == 429
        opening.goes_on.set()
        while (await sent(anna, "keys/checks", body))[0] == 429:
            await asyncio.sleep(0.02)
