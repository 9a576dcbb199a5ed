"""Goal: a gateway gets its certificate from its fleet's authority alone, and nobody gets another's.

The service and its clients are the real ones, over TLS on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from gateway.base import replaced_file
from gateway.trust.certificates import authority_folder, founding, private_keys, token_book
from gateway.trust.certificates import x509_forms as forms
from gateway.trust.certificates.authority import Authority, NotIssuedError, NotNotedError
from gateway.trust.certificates.issued import IssuedIndex
from gateway.trust.certificates.signature_keys import PrivateKey
from gateway.trust.certificates.token_book import TokenBook, TokenGrant
from gateway.trust.enrolment import client, desk, requests, service
from gateway.trust.enrolment.client import EnrolmentClient, ServiceError, vouched_by
from gateway.trust.enrolment.desk import EnrolmentDesk
from gateway.trust.enrolment.following import FollowedFiles, TrustFollower, is_due
from gateway.trust.enrolment.service import EnrolmentService
from gateway.trust.enrolment.tokens import EnrolmentToken, fingerprint_of

DAY = datetime.timedelta(days=1)


@dataclass
class Fleet:
    """An authority and its service."""

    authority: Authority
    at: str

    def token(self, name: str, *addresses: str, hours: int = 1) -> EnrolmentToken:
        now_s = time.time()
        grant = TokenGrant(name, addresses, ("gateway",), 90, now_s + hours * 3600, "")
        secret = TokenBook(self.authority.folder).make(grant, now_s)
        vouching = fingerprint_of(self.authority.vouching())
        return EnrolmentToken(name, self.at, vouching, secret)

    async def enrol(self, token: EnrolmentToken, key: PrivateKey) -> requests.EnrolmentAnswer:
        def ask() -> requests.EnrolmentAnswer:
            return EnrolmentClient(token.service, vouched_by(token)).enrol(token, key)

        return await asyncio.to_thread(ask)

    def client(self, own: tuple[Path, Path] | None = None) -> EnrolmentClient:
        return EnrolmentClient(self.at, (self.authority.folder / "ca.pem").read_text(), own)


@pytest.fixture
async def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    monkeypatch.setattr(service, "LOOK_S", 0.05)
    authority = founding.found(tmp_path / "ca")
    serving = EnrolmentService(authority, EnrolmentDesk(authority, time.time))
    port = await serving.start("127.0.0.1", 0)
    yield Fleet(authority, f"127.0.0.1:{port}")
    await serving.stop()


def certificate(text: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(text.encode())


@pytest.mark.parametrize("kind", private_keys.KINDS)
async def test_a_token_gives_a_certificate_for_a_key_that_never_left(
    fleet: Fleet, kind: str
) -> None:
    key = private_keys.make(kind)
    found = await fleet.enrol(fleet.token("gw-a", "10.0.0.1"), key)
    made = certificate(found.certificate)
    assert authority_folder.is_of(key, made)
    made.verify_directly_issued_by(fleet.authority.trusted()[0])
    hosts = forms.alternative_names_of(made).get_values_for_type(x509.IPAddress)
    assert "10.0.0.1" in map(str, hosts)
    assert not (fleet.authority.folder / "gw-a.key.pem").exists()


async def test_what_a_request_says_of_itself_is_left_out_of_account(fleet: Fleet) -> None:
    token, key = fleet.token("gw-a"), private_keys.make("p256")
    builder = x509.CertificateSigningRequestBuilder().subject_name(forms.named("gw-root"))
    others = forms.alternative_names("gw-root", ("admin",), ["10.9.9.9"])
    request = builder.add_extension(others, critical=False).sign(key, private_keys.digest(key))
    text = request.public_bytes(serialization.Encoding.PEM).decode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(requests, "asked", lambda *_: text)
        found = await fleet.enrol(token, key)
    made = certificate(found.certificate)
    assert forms.common_name(made.subject) == "gw-a"
    assert forms.roles_of(forms.alternative_names_of(made)) == ("gateway",)


async def test_a_token_is_good_once(fleet: Fleet) -> None:
    token, key = fleet.token("gw-a"), private_keys.make("p256")
    first = await fleet.enrol(token, key)
    assert (await fleet.enrol(token, key)).certificate == first.certificate
    with pytest.raises(ServiceError, match="the token has been used"):
        await fleet.enrol(token, private_keys.make("p256"))
    fleet.authority.revoke(["gw-a"])
    with pytest.raises(ServiceError, match="not valid any more"):
        await fleet.enrol(token, key)


async def test_who_is_revoked_has_no_open_token_any_more(fleet: Fleet) -> None:
    await fleet.enrol(fleet.token("gw-a"), private_keys.make("p256"))
    open_token, of_another = fleet.token("gw-a"), fleet.token("gw-b")
    fleet.authority.revoke(["gw-a"])
    with pytest.raises(ServiceError, match="no token of that name"):
        await fleet.enrol(open_token, private_keys.make("p256"))
    await fleet.enrol(of_another, private_keys.make("p256"))
    noted = [(one.what, one.of["name"]) for one in fleet.authority.trail.changes()]
    assert noted.count(("token taken back", "gw-a")) == 1
    assert ("token taken back", "gw-b") not in noted
    await fleet.enrol(fleet.token("gw-a"), private_keys.make("p256"))


async def test_a_revocation_by_its_number_takes_the_open_token_of_its_name_back(
    fleet: Fleet,
) -> None:
    found = await fleet.enrol(fleet.token("gw-a"), private_keys.make("p256"))
    open_token = fleet.token("gw-a")
    fleet.authority.revoke([f"{certificate(found.certificate).serial_number:x}"])
    with pytest.raises(ServiceError, match="no token of that name"):
        await fleet.enrol(open_token, private_keys.make("p256"))


def test_a_revocation_between_a_token_and_its_certificate_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = founding.found(tmp_path / "ca")
    authority.issue("gw-a")
    book, now_s, key = TokenBook(authority.folder), time.time(), private_keys.make("p256")
    grant = TokenGrant("gw-a", (), ("gateway",), 90, now_s + 60, "")
    secret = book.make(grant, now_s)
    serving, spend = desk.EnrolmentDesk(authority, time.time), TokenBook.spend

    def then_it_is_revoked(*arguments: Any) -> TokenGrant:
        spent = spend(*arguments)
        authority.revoke(["gw-a"])
        return spent

    monkeypatch.setattr(TokenBook, "spend", then_it_is_revoked)
    body = {"name": "gw-a", "secret": secret.hex(), "request": requests.asked(key, "gw-a")}
    with pytest.raises(desk.RefusedRequestError) as refused:
        serving.answer("POST", requests.ENROL, json.dumps(body).encode(), desk.Asker("192.0.2.1"))
    assert refused.value.status == HTTPStatus.FORBIDDEN
    assert all(one.revoked for one in authority.issued())


@pytest.mark.parametrize("damage", ["unwritable", "no book"])
def test_a_certificate_is_revoked_though_tokens_can_not_be_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    authority = founding.found(tmp_path / "ca")
    authority.issue("gw-a")
    book, now_s = TokenBook(authority.folder), time.time()
    book.make(TokenGrant("gw-a", (), ("gateway",), 90, now_s + 60, ""), now_s)
    if damage == "no book":
        (authority.folder / token_book.BOOK).write_text("{")
        authority.revoke(["gw-a"])
    else:
        replace = replaced_file.replace

        def full(file: Path, *arguments: Any, **named: Any) -> None:
            if file.name == token_book.BOOK:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            replace(file, *arguments, **named)

        monkeypatch.setattr(replaced_file, "replace", full)
        with pytest.raises(NotNotedError, match=r"open tokens are not taken back: .*No space"):
            authority.revoke(["gw-a"])
    assert all(one.revoked for one in authority.issued())


async def test_a_token_that_a_release_before_noted_as_used_gives_no_second_certificate(
    fleet: Fleet,
) -> None:
    def as_before() -> None:
        """The book as a release wrote it that kept no numbers."""
        book = fleet.authority.folder / token_book.BOOK
        found = json.loads(book.read_bytes())
        for one in found:
            del one["serial"]
        book.write_text(json.dumps(found))

    token, key = fleet.token("gw-a"), private_keys.make("p256")
    first = await fleet.enrol(token, key)
    as_before()
    assert (await fleet.enrol(token, key)).certificate == first.certificate
    fleet.authority.revoke(["gw-a"])
    with pytest.raises(ServiceError, match="not valid any more"):
        await fleet.enrol(token, key)
    authority_folder.write_index(fleet.authority.folder, IssuedIndex())
    with pytest.raises(ServiceError, match="the token has been used"):
        await fleet.enrol(token, key)
    assert not any(one.name == "gw-a" for one in fleet.authority.issued())


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_new_token_for_the_same_key_gives_what_the_new_token_says(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    key, real = private_keys.make("p256"), forms.now
    with monkeypatch.context() as patched:
        if has_ended:
            patched.setattr(forms, "now", lambda: real() - 100 * DAY)
        first = certificate((await fleet.enrol(fleet.token("gw-a", "10.0.0.1"), key)).certificate)
    token = fleet.token("gw-a", "10.0.0.2")
    found = certificate((await fleet.enrol(token, key)).certificate)
    assert found.serial_number != first.serial_number
    assert found.not_valid_after_utc > real() + 80 * DAY
    hosts = forms.alternative_names_of(found).get_values_for_type(x509.IPAddress)
    assert "10.0.0.2" in map(str, hosts) and "10.0.0.1" not in map(str, hosts)
    assert (await fleet.enrol(token, key)).certificate.encode() == found.public_bytes(
        serialization.Encoding.PEM
    )


def test_who_guessed_waits_no_longer_because_the_wall_clock_was_set_back(tmp_path: Path) -> None:
    now_s, wall_s = 0.0, time.time()
    authority = founding.found(tmp_path / "ca")
    serving = desk.EnrolmentDesk(authority, lambda: wall_s, lambda: now_s)
    body = requests.json.dumps(
        {
            "name": "gw-a",
            "secret": "00" * 16,
            "request": requests.asked(private_keys.make("p256"), "gw-a"),
        }
    ).encode()

    def refused() -> HTTPStatus:
        with pytest.raises(desk.RefusedRequestError) as told:
            serving.answer("POST", requests.ENROL, body, desk.Asker("192.0.2.1"))
        return told.value.status

    told = [refused() for _ in range(desk.FAILURES_AT_ONCE + 1)]
    assert told[-1] is HTTPStatus.TOO_MANY_REQUESTS
    wall_s -= 24 * 3600
    now_s += 1 / desk.FAILURES_PER_S
    assert refused() is HTTPStatus.FORBIDDEN


async def test_two_that_come_at_the_same_time_do_not_both_get_one(fleet: Fleet) -> None:
    token = fleet.token("gw-a")
    asked = (fleet.enrol(token, private_keys.make("p256")) for _ in range(4))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, requests.EnrolmentAnswer) for one in answers) == 1
    assert sum(one.name == "gw-a" for one in fleet.authority.issued()) == 1


@pytest.mark.parametrize("guesses", [12])
async def test_who_guesses_has_to_wait(fleet: Fleet, guesses: int) -> None:
    token = fleet.token("gw-a")
    wrong = EnrolmentToken("gw-a", token.service, token.fingerprint, bytes(16))
    refusals = []
    for _ in range(guesses):
        with pytest.raises(ServiceError) as refused:
            await fleet.enrol(wrong, private_keys.make("p256"))
        refusals.append(str(refused.value))
    assert any("too many failures" in one for one in refusals)
    assert list(fleet.authority.trail.changes())[-1].what == "certificate issued"  # the service's


async def test_no_secret_is_told_to_a_service_of_another_authority(
    fleet: Fleet, tmp_path: Path
) -> None:
    stranger = founding.found(tmp_path / "stranger")
    asked: list[str] = []

    class Listening(EnrolmentDesk):
        def answer(self, method: str, path: str, *more: object) -> requests.EnrolmentAnswer:
            asked.append(path)
            # It says that the fleet's authority is its own.
            return requests.EnrolmentAnswer((fleet.authority.folder / "ca.pem").read_text(), "")

    serving = EnrolmentService(stranger, Listening(stranger, time.time))
    port = await serving.start("127.0.0.1", 0)
    try:
        mine = fleet.token("gw-a")
        token = EnrolmentToken("gw-a", f"127.0.0.1:{port}", mine.fingerprint, mine.secret)
        with pytest.raises(ServiceError, match="its certificate"):
            await fleet.enrol(token, private_keys.make("p256"))
    finally:
        await serving.stop()
    assert asked == [requests.TRUST]


async def test_no_secret_is_told_to_a_stolen_gateway_that_stands_in_for_the_service(
    fleet: Fleet,
) -> None:
    fleet.authority.issue("gw-stolen")
    folder = fleet.authority.folder
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "gw-stolen.pem", folder / "gw-stolen.key.pem")
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(1 << 16)
        heard.extend(data)
        if data.startswith(b"GET /trust"):
            body = requests.json.dumps(
                requests.EnrolmentAnswer((folder / "ca.pem").read_text(), "").as_json()
            )
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    mine = fleet.token("gw-a")
    token = EnrolmentToken("gw-a", f"127.0.0.1:{port}", mine.fingerprint, mine.secret)
    with pytest.raises(ServiceError, match="lacks the role enrolment"):
        await fleet.enrol(token, private_keys.make("p256"))
    server.close()
    assert mine.secret.hex().encode() not in heard


@pytest.mark.parametrize("head", ["Connection: close", "Content-Length: 4000000"])
async def test_a_service_that_never_ends_its_answer_keeps_nobody(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    monkeypatch.setattr(client, "EXCHANGE_S", 0.5)
    folder = fleet.authority.folder
    fleet.authority.issue("slow", roles=["enrolment"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "slow.pem", folder / "slow.key.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(f"HTTP/1.1 200 OK\r\n{head}\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            for _ in range(1_000):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    slow = EnrolmentClient(f"127.0.0.1:{port}", (folder / "ca.pem").read_text())
    with pytest.raises(ServiceError, match="its answer: it took longer than"):
        await asyncio.to_thread(slow.trust)
    server.close()


async def test_a_service_whose_answer_is_of_no_use_is_let_go_at_once(fleet: Fleet) -> None:
    folder = fleet.authority.folder
    fleet.authority.issue("wrong", roles=["enrolment"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "wrong.pem", folder / "wrong.key.pem")
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        with contextlib.suppress(OSError):
            await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    asking = EnrolmentClient(f"127.0.0.1:{port}", (folder / "ca.pem").read_text())
    with pytest.raises(ServiceError, match="an answer that can't be read") as failed:
        await asyncio.to_thread(asking.trust)
    async with asyncio.timeout(60):
        await left.wait()
    assert failed.value.__traceback__ is not None  # which still holds the connection
    server.close()


async def test_a_token_of_another_authority_is_of_no_use(fleet: Fleet) -> None:
    mine = fleet.token("gw-a")
    token = EnrolmentToken("gw-a", mine.service, bytes(32), mine.secret)
    with pytest.raises(ServiceError, match="the fingerprint is another one"):
        await fleet.enrol(token, private_keys.make("p256"))


# -- renewal ---------------------------------------------------------------------------------------


async def test_who_has_a_certificate_gets_another_one_of_the_same_name(fleet: Fleet) -> None:
    fleet.authority.issue("gw-a", ["10.0.0.1"], days=90)
    folder = fleet.authority.folder
    own = (folder / "gw-a.pem", folder / "gw-a.key.pem")
    before = certificate(own[0].read_text())
    (key, *_) = private_keys.load(own[1].read_bytes())
    found = await asyncio.to_thread(fleet.client(own).renew, "gw-a", key)
    after = certificate(found.certificate)
    assert after.serial_number != before.serial_number
    assert forms.alternative_names_of(after) == forms.alternative_names_of(before)
    (*_, last) = fleet.authority.trail.changes()
    assert (last.who, last.what) == ("certificate of gw-a from 127.0.0.1", "certificate renewed")


async def test_nobody_renews_without_a_certificate_or_with_one_that_is_revoked(
    fleet: Fleet,
) -> None:
    key = private_keys.make("p256")
    with pytest.raises(ServiceError, match="no certificate was shown"):
        await asyncio.to_thread(fleet.client().renew, "gw-a", key)
    fleet.authority.issue("gw-a")
    folder = fleet.authority.folder
    own = (folder / "gw-a.pem", folder / "gw-a.key.pem")
    fleet.authority.revoke(["gw-a"])
    with pytest.raises(ServiceError):
        await asyncio.to_thread(fleet.client(own).renew, "gw-a", key)
    assert len([one for one in fleet.authority.issued() if one.name == "gw-a"]) == 1


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b"nonsense", b'{"name": 1}', b'{"request": "x"}', b"[" * 5_000]
)
@pytest.mark.parametrize("path", [requests.ENROL, requests.RENEW])
async def test_whatever_is_asked_gets_an_answer(fleet: Fleet, path: str, body: bytes) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = fleet.at.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 40"), answer
    writer.close()


async def test_a_body_without_end_is_refused(fleet: Fleet) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = fleet.at.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(b"POST /enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
    writer.write(b"x" * 20_000)
    assert (await reader.read()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_silent_connections_of_an_address_keep_nobody_else_waiting(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "TIME_S", 600.0)  # none of them ends before the client gives up
    host, _, port = fleet.at.partition(":")
    silent = [
        await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
        for _ in range(2 * service.CONNECTIONS_MAX)
    ]
    found = await asyncio.to_thread(fleet.client().trust)
    assert "BEGIN CERTIFICATE" in found.authorities
    for _, writer in silent:
        writer.close()


async def test_silent_connections_of_many_addresses_make_room(fleet: Fleet) -> None:
    host, _, port = fleet.at.partition(":")
    silent = [
        await asyncio.open_connection(host, int(port), local_addr=(f"127.0.1.{1 + number}", 0))
        for number in range(service.CONNECTIONS_MAX + 8)
    ]
    found = await asyncio.to_thread(fleet.client().trust)
    assert "BEGIN CERTIFICATE" in found.authorities
    for _, writer in silent:
        writer.close()


def test_a_key_of_another_kind_is_refused() -> None:
    key = rsa.generate_private_key(65_537, 2048)
    builder = x509.CertificateSigningRequestBuilder().subject_name(forms.named("gw-a"))
    request = builder.sign(key, private_keys.hashes.SHA256())
    with pytest.raises(requests.EnrolmentRequestError, match="neither Ed25519 nor P-256"):
        requests.key_of(request.public_bytes(serialization.Encoding.PEM).decode())


async def test_the_service_renews_a_list_whose_time_is_half_over(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = forms.now
    with monkeypatch.context() as patched:
        patched.setattr(forms, "now", lambda: real() - datetime.timedelta(days=500))
        fleet.authority.revoke()
    file = fleet.authority.folder / "revoked.pem"
    async with asyncio.timeout(30):
        while x509.load_pem_x509_crl(file.read_bytes()).last_update_utc < real() - 2 * DAY:
            await asyncio.sleep(0.05)


# -- following -------------------------------------------------------------------------------------


class Followed:
    """A gateway's files, and what follows for it."""

    def __init__(self, fleet: Fleet, folder: Path, interval_s: float = 0.0) -> None:
        folder.mkdir()
        self.folder, self.fleet = folder, fleet
        self.take("ca.pem", "revoked.pem", "gw-a.pem", "gw-a.key.pem")
        self.files = FollowedFiles(
            *(folder / name for name in ("gw-a.pem", "gw-a.key.pem", "ca.pem", "revoked.pem"))
        )
        self.looks_every(interval_s)

    def looks_every(self, interval_s: float) -> None:
        """Follow with this interval from now on, as after a restart."""
        self.follower = TrustFollower(self.fleet.at, lambda: self.files, interval_s, lambda: None)

    def take(self, *names: str) -> None:
        for name in names:
            source = self.fleet.authority.folder / name
            (self.folder / name).write_bytes(source.read_bytes())

    async def look(self) -> list[str]:
        return await asyncio.to_thread(self.follower.look)

    async def look_when_served(self) -> list[str]:
        """Look as soon as the service has a certificate that is trusted, which it takes in time."""
        for _ in range(100):
            try:
                return await self.look()
            except ServiceError:
                await asyncio.sleep(0.1)
        return await self.look()

    @property
    def own(self) -> x509.Certificate:
        return certificate((self.folder / "gw-a.pem").read_text())


def issue_long_ago(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, days: int, life: int
) -> None:
    """A certificate of gw-a that was issued so many days ago."""
    real = forms.now
    with monkeypatch.context() as patched:
        patched.setattr(forms, "now", lambda: real() - datetime.timedelta(days=days))
        authority.issue("gw-a", days=life)


async def test_nothing_is_written_while_nothing_is_new(fleet: Fleet, tmp_path: Path) -> None:
    fleet.authority.issue("gw-a", days=90)
    followed = Followed(fleet, tmp_path / "gw-a")
    assert await followed.look() == []


async def test_a_certificate_is_renewed_when_a_third_of_its_life_is_left(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue_long_ago(fleet.authority, monkeypatch, 61, 90)
    followed = Followed(fleet, tmp_path / "gw-a")
    before = followed.own
    assert is_due(before, forms.now())
    assert await followed.look() == ["gw-a.pem"]
    after = followed.own
    assert after.public_key() == before.public_key()
    assert after.not_valid_after_utc > before.not_valid_after_utc + datetime.timedelta(days=50)
    assert not is_due(after, forms.now())
    assert await followed.look() == []


async def test_who_has_a_certificate_that_ended_gets_no_other_one_and_hears_what_is_revoked(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue_long_ago(fleet.authority, monkeypatch, 100, 90)
    fleet.authority.issue("gw-b")
    followed = Followed(fleet, tmp_path / "gw-a")
    before = followed.own
    with pytest.raises(ServiceError, match=r"gw-a\.pem ended at .*: .*takes a new token"):
        await followed.look()
    fleet.authority.revoke(["gw-b"])
    assert await followed.look() == ["revoked.pem"]
    assert followed.own == before


async def test_whatever_goes_wrong_with_one_look_the_next_one_is_made(
    fleet: Fleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.authority.issue("gw-a")
    followed, looks = Followed(fleet, tmp_path / "gw-a"), asyncio.Event()

    class Stumbling(TrustFollower):
        count = 0

        def look(self) -> list[str]:
            self.count += 1
            if self.count > 1:
                loop.call_soon_threadsafe(looks.set)
            raise TypeError("nobody thought of that")

    loop = asyncio.get_running_loop()
    task = asyncio.create_task(
        Stumbling(fleet.at, lambda: followed.files, 0.01, lambda: None).run()
    )
    async with asyncio.timeout(60):
        await looks.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert "certificates are not followed: TypeError('nobody thought of that')" in caplog.text


async def test_what_is_revoked_is_heard_of(fleet: Fleet, tmp_path: Path) -> None:
    fleet.authority.issue("gw-a")
    fleet.authority.issue("gw-b")
    followed = Followed(fleet, tmp_path / "gw-a")
    (gone, *_) = fleet.authority.revoke(["gw-b"])
    assert await followed.look() == ["revoked.pem"]
    lists = x509.load_pem_x509_crl((followed.folder / "revoked.pem").read_bytes())
    assert [one.serial_number for one in lists] == [gone.certificate.serial_number]


async def test_in_a_roll_over_trust_comes_first_and_the_certificate_when_all_have_heard(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.authority.issue("gw-a")
    followed = Followed(fleet, tmp_path / "gw-a", interval_s=3_600.0)
    before = followed.own
    founding.begin_roll_over(fleet.authority)
    assert await followed.look() == ["ca.pem", "revoked.pem"]
    assert followed.own == before
    followed.looks_every(0.0)  # as if two had passed
    await asyncio.sleep(1.1)  # times in certificates are whole seconds
    assert await followed.look() == ["gw-a.pem"]
    followed.own.verify_directly_issued_by(fleet.authority.trusted()[0])
    founding.end_roll_over(fleet.authority)
    await asyncio.sleep(0.5)  # the service takes a certificate of the new one
    assert await followed.look() == ["ca.pem", "revoked.pem"]
    assert len(x509.load_pem_x509_certificates((followed.folder / "ca.pem").read_bytes())) == 1
    assert await followed.look_when_served() == []


async def test_what_changes_while_the_files_are_read_is_read_by_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = founding.found(tmp_path / "ca")
    serving = EnrolmentService(authority, EnrolmentDesk(authority, time.time))
    looks, is_changing, read = 0, False, Path.read_bytes
    authorities = authority.folder / authority_folder.CA

    def reads(path: Path) -> bytes:
        nonlocal looks
        found = read(path)
        if path == authority.folder / f"{service.NAME}.pem":
            looks += 1
            if is_changing:
                os.utime(authorities, ns=(looks, looks))
        return found

    async def look() -> int:
        await serving.start("127.0.0.1", 0)
        await serving.stop()
        return looks

    monkeypatch.setattr(Path, "read_bytes", reads)
    before = 0
    while (read_so_far := await look()) > before:  # its own certificate is new
        before = read_so_far
    os.utime(authorities, ns=(0, 0))
    is_changing = True
    assert await look() == before + 1
    is_changing = False
    assert await look() == before + 2
    assert await look() == before + 2


async def test_what_a_service_says_that_can_not_stand_is_not_written(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue_long_ago(fleet.authority, monkeypatch, 61, 90)
    fleet.authority.issue("gw-b")
    followed = Followed(fleet, tmp_path / "gw-a")
    before = {one.name: one.read_bytes() for one in followed.folder.iterdir()}
    folder = fleet.authority.folder
    stranger = founding.found(tmp_path / "stranger")
    stranger.issue("gw-a")
    authorities, revoked = (folder / "ca.pem").read_text(), (folder / "revoked.pem").read_text()
    for said in (
        requests.EnrolmentAnswer("", revoked, (folder / "gw-a.pem").read_text()),
        requests.EnrolmentAnswer(authorities, revoked, (folder / "gw-b.pem").read_text()),
        requests.EnrolmentAnswer(authorities, revoked, (stranger.folder / "gw-a.pem").read_text()),
        requests.EnrolmentAnswer(
            authorities,
            (stranger.folder / "revoked.pem").read_text(),
            (folder / "gw-a.pem").read_text(),
        ),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(EnrolmentClient, "renew", lambda *_, said=said: said)
            with pytest.raises(ValueError):
                await followed.look()
    assert {one.name: one.read_bytes() for one in followed.folder.iterdir()} == before


def refusal(
    serving: EnrolmentDesk, method: str, path: str, body: object, shown: bytes | None = None
) -> tuple[int, str]:
    with pytest.raises(desk.RefusedRequestError) as refused:
        serving.answer(method, path, json.dumps(body).encode(), desk.Asker("192.0.2.1", shown))
    return refused.value.status, str(refused.value)


def test_what_is_wrong_with_a_request_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = founding.found(tmp_path / "ca")
    authority.issue("gw-a")
    serving, key = EnrolmentDesk(authority, time.time), private_keys.make("p256")
    request = requests.asked(key, "gw-a")
    enrol = {"name": "gw-a", "request": request, "secret": "00"}
    assert refusal(serving, "POST", "/other", {}) == (404, "there is no such request")
    assert refusal(serving, "GET", requests.ENROL, {}) == (404, "there is no such request")
    for body, why in (
        ([], "no JSON object"),
        (enrol | {"name": 1}, "name: no text"),
        (enrol | {"request": "x"}, "request: no PKCS#10 in PEM"),
        (enrol | {"secret": "xy"}, "secret: not hexadecimal"),
    ):
        assert refusal(serving, "POST", requests.ENROL, body) == (400, why)
    assert refusal(serving, "POST", requests.RENEW, {"request": request}) == (
        401,
        "no certificate was shown",
    )
    (own,) = authority.issued()
    der = own.certificate.public_bytes(serialization.Encoding.DER)

    def taken_back(*_: object, **__: object) -> None:
        raise NotIssuedError("it was taken back")

    monkeypatch.setattr(Authority, "renew", taken_back)
    assert refusal(serving, "POST", requests.RENEW, {"request": request}, der) == (
        403,
        "it was taken back",
    )


def test_a_request_is_signed_by_the_key_that_it_is_for() -> None:
    key = private_keys.make("ed25519")
    assert private_keys.same_key(requests.key_of(requests.asked(key, "gw-a")), key.public_key())
    found = x509.load_pem_x509_csr(requests.asked(key, "gw-a").encode())
    der = bytearray(found.public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    other = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(requests.EnrolmentRequestError, match="not signed by its own key"):
        requests.key_of(other.decode())


def test_an_answer_is_read_as_it_was_written_and_nothing_else() -> None:
    for answer in (
        requests.EnrolmentAnswer("a", "r"),
        requests.EnrolmentAnswer("a", "r", "c", {"w": 1}),
    ):
        assert requests.EnrolmentAnswer.parse(json.dumps(answer.as_json()).encode()) == answer
    for wrong, why in (
        (b"{", "no JSON"),
        (b"1", "no JSON object"),
        (b"{}", "authorities: no text"),
        (b'{"authorities": "a"}', "revoked: no text"),
        (b'{"authorities": "a", "revoked": "r", "certificate": 1}', "certificate: no text"),
        (b'{"authorities": "a", "revoked": "r", "welcome": []}', "welcome: no object"),
    ):
        with pytest.raises(requests.EnrolmentRequestError, match=rf"^{why}$"):
            requests.EnrolmentAnswer.parse(wrong)


async def said_to(at: str, data: bytes, *, ends: bool = False) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = at.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(data)
    if ends:
        await writer.drain()
        writer.close()
        return b""
    answer = await reader.read()
    writer.close()
    return answer


async def test_what_is_no_request_is_answered_by_its_kind(fleet: Fleet) -> None:
    for data, status in (
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"GET /trust HTTP/1.1\r\n" + b"a: b\r\n" * (service.LINES_MAX + 1), b"431"),
    ):
        assert (await said_to(fleet.at, data))[9:12] == status
    await said_to(fleet.at, b"", ends=True)  # it leaves before all is there
    await said_to(fleet.at, b"GET /trust HTTP/1.1\r\nHost: x\r\n", ends=True)
    answer = await said_to(fleet.at, b"GET /trust?a=b HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")


class FailingDesk(EnrolmentDesk):
    """A desk that can't read its authority's files, or waits before it says so."""

    def __init__(self, authority: Authority, may_end: threading.Event) -> None:
        super().__init__(authority, time.time)
        self.may_end = may_end
        self.asked = 0

    def answer(self, *_: object) -> requests.EnrolmentAnswer:
        self.asked += 1
        self.may_end.wait(20)
        raise PermissionError(errno.EACCES, "not for you")


async def test_a_service_says_that_its_files_fail_and_its_log_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "LOOK_S", 0.01)
    monkeypatch.setattr(service, "CONNECTIONS_MAX", 1)
    authority, may_end = founding.found(tmp_path / "ca"), threading.Event()
    failing = FailingDesk(authority, may_end)
    serving = EnrolmentService(authority, failing)
    loop = asyncio.get_running_loop()
    real, failures = loop.sock_accept, [OSError(errno.EMFILE, "too many open files")]

    async def accept(listening: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return await real(listening)

    monkeypatch.setattr(loop, "sock_accept", accept)
    at = f"127.0.0.1:{await serving.start('127.0.0.1', 0)}"
    asked = b"GET /trust HTTP/1.1\r\nHost: x\r\n\r\n"
    first = asyncio.ensure_future(said_to(at, asked))
    while not failing.asked:
        await asyncio.sleep(0.001)
    with pytest.raises((OSError, ssl.SSLError)):  # all the room is taken by who asks
        await said_to(at, asked)
    may_end.set()
    answer = await first
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"see the service's log" in answer
    (authority.folder / "issued.json").write_text("[]")
    while "no index of certificates" not in caplog.text:
        await asyncio.sleep(0.001)
    assert "no connection is taken: [Errno 24]" in caplog.text
    assert "not for you" in caplog.text
    assert failing.asked == 1
    left = asyncio.ensure_future(said_to(at, b"GET"))
    await asyncio.sleep(0.01)
    await serving.stop()
    with contextlib.suppress(OSError):
        assert await left == b""


async def test_what_answers_in_the_services_place_is_named(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(client, "TIMEOUT_S", 0.3)
    folder = fleet.authority.folder
    fleet.authority.issue("other", roles=["enrolment"])
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(folder / "other.pem", folder / "other.key.pem")
    answers = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "can't be read: no JSON object"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 1\r\n\r\nx", "Busy$"),
        (b'HTTP/1.1 400 Bad\r\nContent-Length: 13\r\n\r\n{"error":"x"}', ": x$"),
        (b"nonsense", "nonsense"),
    ]
    sent = [answer for answer, _ in answers]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(sent.pop(0))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=made)
    at = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    asker = EnrolmentClient(at, (folder / "ca.pem").read_text())
    for _, why in answers:
        with pytest.raises(ServiceError, match=why):
            await asyncio.to_thread(asker.trust)
    server.close()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        asker = EnrolmentClient(at, (folder / "ca.pem").read_text())
        with pytest.raises(ServiceError, match=r"no answer within 0\.3 s"):
            await asyncio.to_thread(asker.trust)
