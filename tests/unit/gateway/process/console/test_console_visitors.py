"""The console shows a page to visitors with a right to it: by password or on this machine."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from http import HTTPStatus
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from authority import Authority, Issued

from gateway.broker.access.passwords import Passwords
from gateway.broker.limits import Limits
from gateway.process.configuration.config import (
    AccessSection,
    ConfigError,
    ConsoleSection,
    GatewaySection,
    GatewaySettings,
    TreeSection,
)
from gateway.process.console.exchange import HttpExchange
from gateway.process.console.page_access import PageAccess
from gateway.process.console.pages import HttpRequest, Page, RequestError
from gateway.process.console.server import Console
from gateway.trust.policy import policy_file
from gateway.trust.policy.open_policy import OPEN
from gateway.trust.policy.policy import Policy
from gateway.trust.tls.context import ClientCertificate, Tls, TlsFiles

SECRET = b"open: sesame"
PASSWORDS = Passwords({"alice": PasswordHasher(1, 8, 1).hash(SECRET)})
POLICY = """version = 1
[principals]
"console:alice" = ["dashboards"]
[roles.dashboards]
allow = ["console /metrics"]
"""
DENIED = '[[rules]]\nwho = ["local"]\ndeny = ["console /#"]\n'
HERE, ELSEWHERE = "127.0.0.1", "192.0.2.7"
OK = None


def policy(text: str = POLICY) -> Policy:
    return Policy(policy_file.parse(text, "access.toml"))


def request(path: str = "/metrics", user: str = "", password: bytes = SECRET) -> HttpRequest:
    proof = base64.b64encode(user.encode() + b":" + password).decode()
    return HttpRequest("GET", path, f"Basic {proof}" if user else "")


def visitors(decides: Policy | None = None, passwords: Passwords | None = PASSWORDS) -> PageAccess:
    limits = Limits(failures_at_once=2, failures_per_s=0.01)
    return PageAccess(decides or policy(), passwords, limits)


async def answered(
    door: PageAccess, asked: HttpRequest, host: str = ELSEWHERE
) -> HTTPStatus | None:
    refusal = door.refusal(asked, host)
    return await refusal if isawaitable(refusal) else refusal


@pytest.mark.parametrize(
    ("asked", "host", "status"),
    [
        (request(), HERE, OK),
        (request(), "::1", OK),
        (request(), "::ffff:127.0.0.1", OK),
        (request(), ELSEWHERE, HTTPStatus.UNAUTHORIZED),
        (request(), "127.0.0.2", HTTPStatus.UNAUTHORIZED),
        (request("/healthz"), ELSEWHERE, OK),
        (request(user="alice"), ELSEWHERE, OK),
        (request("/other", user="alice"), ELSEWHERE, HTTPStatus.FORBIDDEN),
        (request(user="alice", password=b"wrong"), ELSEWHERE, HTTPStatus.UNAUTHORIZED),
        (request(user="alice", password=b""), HERE, HTTPStatus.UNAUTHORIZED),
        (request(user="bob"), ELSEWHERE, HTTPStatus.UNAUTHORIZED),
        (HttpRequest("GET", "/metrics", "Basic %%%"), ELSEWHERE, HTTPStatus.UNAUTHORIZED),
        (HttpRequest("GET", "/metrics", "Basic Oj=="), ELSEWHERE, HTTPStatus.UNAUTHORIZED),
        (HttpRequest("GET", "/metrics", "Bearer x"), ELSEWHERE, HTTPStatus.UNAUTHORIZED),
    ],
)
async def test_a_page_is_for_whom_the_policy_gives_it(
    asked: HttpRequest, host: str, status: HTTPStatus | None
) -> None:
    assert await answered(visitors(), asked, host) is status


async def test_where_there_is_no_password_file_no_password_is_right() -> None:
    assert await answered(visitors(passwords=None), request(user="alice")) is not OK


async def test_where_everybody_may_do_everything_no_proof_is_needed() -> None:
    assert await answered(visitors(Policy(OPEN)), request()) is OK


async def test_a_rule_may_open_a_page_to_strangers_and_close_it_on_this_machine() -> None:
    rules = """[[rules]]
who = ["stranger"]
allow = ["console /metrics"]
[[rules]]
who = ["local"]
deny = ["console /#"]
"""
    door = visitors(policy(POLICY + rules))
    assert await answered(door, request()) is OK
    assert await answered(door, request("/other")) is HTTPStatus.UNAUTHORIZED
    assert await answered(door, request(), HERE) is HTTPStatus.UNAUTHORIZED


async def test_who_guesses_has_to_wait_even_with_the_right_password() -> None:
    door = visitors()
    for _ in range(2):
        refused = await answered(door, request(user="alice", password=b"guess"))
        assert refused is HTTPStatus.UNAUTHORIZED
    assert await answered(door, request(user="alice")) is HTTPStatus.TOO_MANY_REQUESTS
    assert await answered(door, request(user="alice"), "192.0.2.8") is OK


@pytest.mark.parametrize("told", [b"alice", b":right", b":"])
async def test_what_names_no_user_with_a_password_is_no_guess(told: bytes) -> None:
    door = visitors()
    for _ in range(5):
        asked = HttpRequest("GET", "/metrics", f"Basic {base64.b64encode(told).decode()}")
        assert await answered(door, asked) is HTTPStatus.UNAUTHORIZED
    assert await answered(door, request(user="alice")) is OK


async def test_a_password_is_computed_with_once_until_the_files_are_read_again() -> None:
    door, asked = visitors(), request(user="alice")
    assert await answered(door, asked) is OK
    assert door.refusal(asked, ELSEWHERE) is OK  # at once, without a thread
    door.follow(policy(), Passwords({"alice": PasswordHasher(1, 8, 1).hash(b"another")}))
    assert await answered(door, asked) is HTTPStatus.UNAUTHORIZED
    door.follow(policy("version = 1\n"), PASSWORDS)
    assert await answered(door, asked) is HTTPStatus.FORBIDDEN


def test_two_proofs_in_one_request_are_none() -> None:
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YTpi\r\n"
    read = HttpExchange().feed(head + b"\r\n")
    assert read is not None
    assert read.authorization == "Basic YTpi"
    with pytest.raises(RequestError):
        HttpExchange().feed(head + b"Authorization: Basic Yzpk\r\n\r\n")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    door = visitors(policy(POLICY + DENIED))
    console = Console({"/metrics": lambda: Page("text/plain", b"up 1\n")}, door)
    yield await console.start("127.0.0.1", 0)
    await console.stop()


async def test_over_http_a_browser_is_told_what_it_takes(port: int) -> None:
    async def ask(proof: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + proof + b"\r\n")
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer

    refused = await ask(b"")
    assert refused.startswith(b"HTTP/1.1 401 ")
    assert b'\r\nWWW-Authenticate: Basic realm="hedgerow", charset="UTF-8"\r\n' in refused
    proof = b"Authorization: " + request(user="alice").authorization.encode() + b"\r\n"
    assert (await ask(proof)).endswith(b"\r\n\r\nup 1\n")


class Secure:
    """A console over HTTPS that takes certificates of a test's authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self._own = self.authority.issue("gw", is_server=True)
        self._crl = folder / "crl.pem"
        pages = {"/metrics": lambda: Page("text/plain", b"up 1\n")}
        rules = '"cert:scraper" = ["dashboards"]\n[roles.dash'
        decides = policy(POLICY.replace("[roles.dash", rules) + DENIED)
        self.console = Console(pages, visitors(decides), self.revoke())
        self.port = 0

    def revoke(self, *issued: Issued) -> Tls:
        self._crl.write_bytes(self.authority.revoke(*issued))
        own = (self._own.certificate, self._own.key, ClientCertificate.OPTIONAL)
        return Tls(TlsFiles(*own, self.authority.file, self._crl))

    async def ask(self, issued: Issued | None = None, proof: bytes = b"") -> bytes:
        context = self.authority.client_context(issued)
        reader, writer = await asyncio.open_connection("localhost", self.port, ssl=context)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + proof + b"\r\n")
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[Secure]:
    made = Secure(tmp_path)
    made.port = await made.console.start("127.0.0.1", 0)
    yield made
    await made.console.stop()


async def test_over_https_a_password_or_a_certificate_opens_a_page(secure: Secure) -> None:
    proof = b"Authorization: " + request(user="alice").authorization.encode() + b"\r\n"
    scraper = secure.authority.issue("scraper")
    assert (await secure.ask(proof=proof)).endswith(b"up 1\n")
    assert (await secure.ask(scraper)).endswith(b"up 1\n")
    assert (await secure.ask()).startswith(b"HTTP/1.1 401 ")
    assert (await secure.ask(secure.authority.issue("other"))).startswith(b"HTTP/1.1 403 ")

    secure.console.follow(secure.revoke(scraper))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await secure.ask(scraper)
    assert (await secure.ask(proof=proof)).endswith(b"up 1\n")


async def test_over_https_nothing_is_told_in_the_clear(secure: Secure) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", secure.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    async with asyncio.timeout(60):
        assert b"HTTP" not in await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("console", "fault"),
    [
        ({"host": "0.0.0.0"}, "console.certificate_file"),  # what is refused
        ({"host": "192.0.2.7"}, "console.certificate_file"),
        ({"host": "192.0.2.7", "enabled": False}, ""),
        ({"host": "127.0.0.2"}, ""),
        ({"host": "::1"}, ""),
        ({"host": "::", "certificate_file": Path("c"), "key_file": Path("k")}, ""),
        ({"certificate_file": Path("c")}, "console.key_file"),
        ({"key_file": Path("k")}, "console.certificate_file"),
        ({"client_ca_file": Path("a")}, "console.certificate_file"),
    ],
)
def test_passwords_are_taken_over_tls_or_on_this_machine_alone(
    console: dict[str, Any], fault: str
) -> None:
    own = GatewaySection(id="gw", state_dir=Path("state"))
    tree = TreeSection(key_file=Path("key"), tls="off", discovery=False)
    passwords = AccessSection(password_file=Path("passwords"))

    def settings(access: AccessSection) -> str:
        try:
            section = ConsoleSection(**console)
        except ConfigError as error:
            return f"console.{error.where}"
        try:
            GatewaySettings(own, tree, console=section, access=access)
        except ConfigError as error:
            return error.where
        return ""

    assert settings(passwords) == fault
    if "host" in console:
        assert settings(AccessSection()) == ""


@pytest.mark.parametrize(
    ("host", "is_seen"),
    [
        *(("localhost", True), ("LOCALHOST:9090", True), ("localhost.", True), ("", True)),
        *(("127.0.0.1", True), ("127.0.0.1:80", True), ("[::1]:80", True), ("[::1]", True)),
        *(("192.0.2.7:80", True), ("gw.example", True), ("gw.example:80", True)),
        *(("evil.example", False), ("evil.example:80", False), ("localhost.evil.example", False)),
        *(("127.0.0.1.evil.example", False), ("gw.example.evil.example:80", False)),
        *(("[evil.example]:80", False), ("\xb9.example", False), (":80", False)),
    ],
)
def test_a_page_whose_name_was_made_to_point_here_reads_nothing(host: str, is_seen: bool) -> None:
    door = PageAccess(policy(), PASSWORDS, Limits(), ["gw.example"])
    asked = HttpRequest("GET", "/metrics", host=host)
    assert door.refusal(asked, HERE) == (OK if is_seen else HTTPStatus.MISDIRECTED_REQUEST)
    assert door.refusal(HttpRequest("GET", "/healthz", host=host), HERE) is OK


@pytest.mark.parametrize("host", ["gw.example", "192.0.2.7", "gw.elsewhere.example:9641"])
async def test_who_gives_no_proof_is_asked_for_it_by_whatever_name_it_came(host: str) -> None:
    # A browser names its user only after a 401.
    door = PageAccess(policy(), PASSWORDS, Limits(), ["gw.example"])
    nameless = HttpRequest("GET", "/metrics", host=host)
    assert await answered(door, nameless) is HTTPStatus.UNAUTHORIZED
    proven = HttpRequest("GET", "/metrics", request(user="alice").authorization, host)
    assert await answered(door, proven) is OK


@pytest.mark.parametrize("name", ["GW-North.Local", "gw-north.local.", "GW-NORTH.local."])
@pytest.mark.parametrize("host", ["gw-north.local:9641", "Gw-North.local", "gw-north.local."])
def test_a_name_of_the_configuration_is_met_in_whatever_case_and_form(name: str, host: str) -> None:
    section = ConsoleSection(names=[name])
    door = PageAccess(policy(), PASSWORDS, Limits(), section.names)
    assert door.refusal(HttpRequest("GET", "/metrics", host=host), HERE) is OK


async def test_who_gives_proof_asks_by_any_name() -> None:
    asked = request(user="alice")
    proven = HttpRequest("GET", "/metrics", asked.authorization, "gw.elsewhere.example")
    assert await answered(visitors(), proven) is OK


async def test_64_proved_passwords_are_known_and_with_more_all_are_proved_anew() -> None:
    checked = list[str]()

    class CountedPasswords(Passwords):
        def verify(self, user: str, password: bytes) -> bool:
            checked.append(user)
            return True

    door = visitors(passwords=CountedPasswords({}))
    for round_ in range(2):
        for number in range(64):
            await answered(door, request(user=f"u{number}"))
        assert len(checked) == 64, round_
    await answered(door, request(user="u64"))
    await answered(door, request(user="u64"))
    await answered(door, request(user="u0"))
    assert checked[64:] == ["u64", "u0"]
