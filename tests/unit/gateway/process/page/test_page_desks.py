"""The page's desks where what stands behind them fails: each error has its status and words."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from certificate_fleet import Fleet
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coap_engine import codes
from coap_engine.message import CoapResponse
from dtls.errors import KeystoreError
from gateway.base.event_log.audit import AuditTrail
from gateway.base.toml.toml_file import ConfigError
from gateway.process.access import enrolment_follower
from gateway.process.access.device_keys import DeviceKeyError, KnownDevice, NoDeviceKeyError
from gateway.process.page.administration import Administration
from gateway.process.page.api_request import ApiRequest
from gateway.process.page.device_key_api import DeviceKeyApi
from gateway.process.page.key_files import (
    AUTHORITIES,
    OWN,
    KeyFiles,
    KeyPlace,
    UnfitUploadError,
)
from gateway.process.page.keys_api import KeysApi
from gateway.process.page.record_api import RecordApi
from gateway.process.page.site_api import SiteApi
from gateway.process.page.site_asker import SiteQuestion
from gateway.process.page.user_api import UserApi
from gateway.trust.certificates.importing import ImportedContent
from gateway.trust.certificates.pkcs12_files import Pkcs12Error
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.enrolment.client import ServiceError
from gateway.trust.enrolment.following import TrustNews
from gateway.trust.policy.explaining import Policies
from gateway.web.api_error import ApiError
from tests.policies import admins

ADMIN = admins().principal("user", "anna")
IO_ERROR = OSError(errno.EIO, "Input/output error")


def policies() -> Policies:
    return Policies(admins(), admins())


def asked(names: Mapping[str, str] | None = None, **body: Any) -> ApiRequest:
    return ApiRequest(ADMIN, "", names or {}, {}, body)


async def refused(work: Any) -> tuple[int, str]:
    with pytest.raises(ApiError) as raised:
        await work
    return int(raised.value.status), raised.value.why


# -- keys of devices -------------------------------------------------------------------------------


class FailingDesk:
    """A desk of keys that can do nothing."""

    uri = "coaps://gw:5684"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def known(self) -> list[KnownDevice]:
        return []

    async def make(self, identity: str, check: Callable[[], None]) -> bytes:
        check()
        raise self.error

    async def revoke(self, identity: str, check: Callable[[], None]) -> None:
        check()
        raise self.error


@pytest.mark.parametrize(
    ("error", "made", "revoked"),
    [
        (NoDeviceKeyError("no key"), (409, "identity: no key"), (404, "identity: no key")),
        (DeviceKeyError("too many"), (409, "identity: too many"), (409, "identity: too many")),
        (
            IO_ERROR,
            (507, "gateway.state_dir: it can't be kept: Input/output error"),
            (507, "gateway.state_dir: it can't be kept: Input/output error"),
        ),
    ],
)
async def test_a_key_that_can_not_be_made_or_revoked_is_told_why(
    error: Exception, made: tuple[int, str], revoked: tuple[int, str]
) -> None:
    api = DeviceKeyApi(FailingDesk(error), policies)
    assert await refused(api.make(asked(identity="meter"))) == made
    assert await refused(api.revoke(asked({"identity": "meter"}))) == revoked


async def test_an_identity_that_can_be_none_is_told_as_the_askers_mistake() -> None:
    api = DeviceKeyApi(FailingDesk(KeystoreError("keys", None, "1 to 128 of '!' to '~'")), policies)
    told = await refused(api.make(asked(identity="meter")))
    assert told == (400, "identity: 1 to 128 of '!' to '~'")
    assert await api.known(asked()) == {"uri": "coaps://gw:5684", "devices": []}


# -- records and users -----------------------------------------------------------------------------


async def test_a_trail_that_can_not_be_read_is_told_and_keeps_no_user_from_being_seen(
    tmp_path: Path,
) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    trail = AuditTrail(tmp_path / "audit.jsonl")
    nothing: Any = None
    records = RecordApi(nothing, trail, policies, nothing, "gw", None)
    told = await refused(records.audit(asked()))
    assert told == (503, "the audit trail can't be read: Is a directory")
    desk: Any = SimpleNamespace(file=None, names=("anna", "bob"))
    users = UserApi(desk, Administration(policies), policies, trail, "gw")
    rows = [json.loads(bytes(row)) for row in (await users.users(asked()))["users"]]
    assert [(row["name"], row["has_password"], row["changed_s"]) for row in rows] == [
        *(("anna", True, None), ("bob", True, None))
    ]


# -- the tree --------------------------------------------------------------------------------------


class TreeAsker:
    """Answers as gateways of a tree do, or not at all."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: ApiError | None = None

    async def response(self, asked: ApiRequest, question: SiteQuestion) -> CoapResponse:
        self.asked.append("/".join(question.path))
        if self.error is not None:
            raise self.error
        status = {"id": "gw", "places": {}, "parent": None, "neighbours": []}
        return CoapResponse(codes.CONTENT, (), json.dumps(status).encode())


async def test_a_tree_is_asked_for_once_in_5_s_for_each_visitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    asker = TreeAsker()
    site = SiteApi(cast(Any, asker), tmp_path, lambda _: None)
    for now[0], count in ((100.0, 1), (104.9, 1), (105.0, 2)):
        assert (await site.tree(asked()))["roots"] == ["gw"]
        assert len(asker.asked) == count
    other = ApiRequest(admins().principal("user", "bob"), "", {}, {}, {})
    await site.tree(other)
    assert asker.asked == ["status"] * 3
    for number in range(16):
        visitor = admins().principal("user", f"u{number}")
        await site.tree(ApiRequest(visitor, "", {}, {}, {}))
    await site.tree(asked())  # of many visitors the earlier ones are asked for again
    assert len(asker.asked) == 20
    asker.error = ApiError(HTTPStatus.GATEWAY_TIMEOUT, "no answer in time")
    now[0] += 60.0
    assert await refused(site.tree(asked())) == (403, "no answer in time")


# -- files of certificates -------------------------------------------------------------------------


class KeyFolder:
    """The files of a gateway, which a configuration names."""

    def __init__(self, folder: Path) -> None:
        self.fleet = Fleet(folder / "tls")
        self.password = folder / "password"
        self.section: dict[str, Path | None] = {
            "key_file": self.fleet.key,
            "certificate_file": self.fleet.certificate,
            "client_ca_file": self.fleet.trusted,
        }

    def files(self) -> KeyFiles:
        """Return what works at them."""
        given = self.password if self.password.exists() else None
        section, keys = SimpleNamespace(**self.section), SimpleNamespace(password_file=given)
        return KeyFiles(cast(Any, SimpleNamespace(mqtt=section, keys=keys)))

    def set_password(self, text: str, mode: int = 0o600) -> None:
        self.password.write_text(text)
        self.password.chmod(mode)

    @property
    def content(self) -> ImportedContent:
        key = load_pem_private_key(self.fleet.key.read_bytes(), None)
        assert isinstance(key, PrivateKey)
        chain = x509.load_pem_x509_certificates(self.fleet.certificate.read_bytes())
        authorities = x509.load_pem_x509_certificates(self.fleet.trusted.read_bytes())
        return ImportedContent(key, chain, authorities)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyFolder:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    return KeyFolder(tmp_path)


MINE, THEIRS = KeyPlace("mqtt", OWN), KeyPlace("mqtt", AUTHORITIES)


def test_what_is_written_is_the_key_for_its_owner_and_then_the_chain_for_all(
    folder: KeyFolder,
) -> None:
    files, content = folder.files(), folder.content
    held = files.held(MINE)
    key, chain = files.planned(MINE, content, held)
    assert (key.path, key.mode) == (folder.fleet.key, 0o600)
    assert (chain.path, chain.mode) == (folder.fleet.certificate, 0o644)
    assert load_pem_private_key(key.data, None)
    assert key.data == key.clear
    assert chain.data == folder.fleet.certificate.read_bytes()
    assert (key.instead_of, chain.instead_of) == tuple(held.values())
    (authorities,) = files.planned(THEIRS, content, files.held(THEIRS))
    assert (authorities.data, authorities.mode) == (folder.fleet.trusted.read_bytes(), 0o644)
    assert files.trusted(MINE) == list(content.authorities)
    assert files.waiting() == folder.fleet.folder / "requested.key.pem"
    assert not files.has_password()


def test_a_key_that_was_encrypted_stays_so_and_a_store_stays_a_store(folder: KeyFolder) -> None:
    content = folder.content
    encrypted = {folder.fleet.key: b"-----BEGIN ENCRYPTED", folder.fleet.certificate: b""}
    why = ": the gateway has no password to write it with"
    with pytest.raises(UnfitUploadError) as raised:
        folder.files().planned(MINE, content, encrypted)
    assert str(raised.value) == f"{folder.fleet.key}{why}"
    folder.set_password("open sesame\n")
    key, _ = folder.files().planned(MINE, content, encrypted)
    assert load_pem_private_key(key.data, b"open sesame")
    assert load_pem_private_key(key.clear, None)
    store = folder.fleet.folder / "trust.p12"
    folder.section["client_ca_file"] = store
    (packed,) = folder.files().planned(THEIRS, content, {store: b""})
    assert (packed.path, packed.mode, packed.clear) == (
        *(store, 0o600, folder.fleet.trusted.read_bytes()),
    )
    store.write_bytes(packed.data)
    assert folder.files().trusted(MINE) == list(content.authorities)
    folder.password.unlink()
    with pytest.raises(UnfitUploadError) as raised:
        folder.files().planned(THEIRS, content, {store: b""})
    assert str(raised.value) == f"{store}{why}"


def test_an_upload_that_lacks_what_its_place_takes_is_unfit(folder: KeyFolder) -> None:
    files, content = folder.files(), folder.content
    bare = ImportedContent(None, [], content.authorities)
    with pytest.raises(UnfitUploadError, match="it has no key and no certificate of one: is it a"):
        files.planned(MINE, bare, files.held(MINE))
    alone = ImportedContent(content.key, content.chain, [])
    with pytest.raises(UnfitUploadError, match="it has no certificate of an authority"):
        files.planned(THEIRS, alone, files.held(THEIRS))
    folder.section["key_file"] = None
    with pytest.raises(UnfitUploadError, match=r"^mqtt\.key_file: the configuration names no such"):
        folder.files().held(MINE)


def test_a_password_that_others_can_read_opens_nothing(folder: KeyFolder) -> None:
    folder.set_password("open sesame", 0o644)
    with pytest.raises(Pkcs12Error, match=f"^{folder.password}: "):
        folder.files().has_password()
    folder.set_password("", 0o600)
    with pytest.raises(Pkcs12Error, match="no password in its first line"):
        folder.files().has_password()
    folder.set_password("open sesame", 0o600)
    assert folder.files().has_password()


# -- the desk of certificates ----------------------------------------------------------------------


class RenewingService:
    """An enrolment service that renews, fails, or is overtaken by an edit."""

    def __init__(self) -> None:
        self.ask_error: ServiceError | None = None
        self.write_error: ServiceError | None = None
        self.written: list[str] = ["/tls/gateway.pem"]
        self.news = TrustNews(((Path("/tls/gateway.pem"), b"old", b"new"),))

    def ask(self, *, renews: bool) -> TrustNews:
        assert renews
        if self.ask_error is not None:
            raise self.ask_error
        return self.news

    def write(self, news: TrustNews) -> list[str]:
        assert news is self.news
        if self.write_error is not None:
            raise self.write_error
        return self.written


class ReloadedGateway:
    """Counts how often it was told to read its files again."""

    def __init__(self) -> None:
        self.reloads = 0

    def reload(self) -> None:
        self.reloads += 1

    def restart(self) -> None:
        raise AssertionError


def keys_api(folder: KeyFolder, running: ReloadedGateway | None = None) -> KeysApi:
    section = SimpleNamespace(**folder.section)
    none = SimpleNamespace(key_file=None, certificate_file=None, client_ca_file=None)
    settings = SimpleNamespace(
        gateway=SimpleNamespace(id="gw", state_dir=folder.fleet.folder),
        mqtt=section,
        coap=none,
        console=none,
        keys=SimpleNamespace(password_file=None, service=None),
    )
    return KeysApi(cast(Any, settings), Administration(policies), lambda _folder: running)


async def test_a_renewal_is_gone_by_at_once_or_told_why_there_is_none(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, service = ReloadedGateway(), RenewingService()
    api = keys_api(folder, gateway)
    why = "keys.service: the configuration names none; bring a certificate in instead"
    assert await refused(api.renew(asked())) == (409, why)
    monkeypatch.setattr(enrolment_follower, "follower", lambda *_: service)
    told = {"writes": ["/tls/gateway.pem"], "is_told": True}
    assert await api.renew(asked()) == told
    assert gateway.reloads == 1
    assert (await keys_api(folder).renew(asked()))["is_told"] is False
    service.written = []
    status, why = await refused(api.renew(asked()))
    assert (status, why.startswith("/tls/gateway.pem: ")) == (409, True)
    service.news = TrustNews(())
    assert await api.renew(asked()) == {"writes": [], "is_told": True}
    service.write_error = ServiceError("it answers 500")
    assert await refused(api.renew(asked())) == (502, "it answers 500")
    service.ask_error = ServiceError("no route")
    assert await refused(api.renew(asked())) == (502, "no route")
    assert gateway.reloads == 2


async def test_a_request_names_32_addresses_that_others_reach_and_waits_with_its_key(
    folder: KeyFolder,
) -> None:
    api = keys_api(folder)
    for wrong in (["10.0.0.1"] * 33, ["a b"], [7]):
        told = await refused(api.make_request(asked(addresses=wrong)))
        assert told == (400, "addresses: one is no address or host name")
    made = await api.make_request(asked(addresses=["gw.example"] * 32))
    assert made["name"] == "gw"
    request = x509.load_pem_x509_csr(made["request"].encode())
    names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "gw.example" in names.get_values_for_type(x509.DNSName)
    waiting = folder.fleet.folder / "requested.key.pem"
    key = load_pem_private_key(waiting.read_bytes(), None)
    assert key.public_key() == request.public_key()
    assert waiting.stat().st_mode & 0o777 == 0o600
    page = await api.request(asked())
    assert page.body == made["request"].encode()
    assert page.headers == {"Content-Disposition": 'attachment; filename="gw.csr.pem"'}
    why = "a key waits for its certificate: bring that in, or forget the request"
    assert await refused(api.make_request(asked())) == (409, why)
    assert await api.forget_request(asked()) == {}
    assert not waiting.exists()
    assert await refused(api.request(asked())) == (404, "no request is open")


async def test_an_upload_that_the_gateway_would_not_take_is_told_why(
    folder: KeyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = keys_api(folder)
    pem = folder.fleet.trusted.read_bytes()
    body = {"section": "mqtt", "part": "authorities", "data": base64.b64encode(pem).decode()}
    for field, names in (("section", "mqtt, coap, console"), ("part", "own, authorities")):
        told = await refused(api.check(asked(**{**body, field: "x"})))
        assert told == (400, f"{field}: is none of {names}")
    assert await refused(api.check(asked(**{**body, "data": "*"}))) == (400, "data: is not base64")
    no_file = await refused(api.check(asked(**{**body, "section": "coap"})))
    assert no_file[0] == 422

    def misfit(*_: object) -> None:
        raise ConfigError("mqtt.client_ca_file", "is odd")

    monkeypatch.setattr(KeyFiles, "check", misfit)
    why = "the gateway would not take it: mqtt.client_ca_file: is odd"
    assert await refused(api.bring_in(asked(**body))) == (422, why)
    monkeypatch.setattr(KeyFiles, "held", fails_to_read)
    assert await refused(api.bring_in(asked(**body))) == (503, "/tls/x: Input/output error")


def fails_to_read(*_: object) -> Any:
    raise OSError(errno.EIO, "Input/output error", "/tls/x")
