"""Attacks by strangers, other sites and viewers on a gateway's page: refused, counted, audited."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psutil
import pytest
from authority import Authority
from page_gateway import LIMIT_S, PageGateway, looker, page_gateway

from gateway.process.configuration import config
from gateway.process.console import server
from gateway.process.page.audit_notes import REFUSED_AT_ONCE
from gateway.process.page.face import BODY_BYTES_MAX, STRANGERS_AT_ONCE
from gateway.process.running.alert_sources import WRONG_PASSWORD
from gateway.web import web_sessions


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[PageGateway]:
    async with page_gateway(tmp_path) as made:
        yield made


async def raw(gateway: PageGateway, data: bytes) -> bytes:
    """All that is answered to some bytes, until the gateway closes."""
    reader, writer = await asyncio.open_connection(*gateway.console)
    writer.write(data)
    async with asyncio.timeout(LIMIT_S):
        answer = await reader.read()
    writer.close()
    return answer


def counted(gateway: PageGateway) -> dict[str, int]:
    refusals: dict[str, int] = gateway.process.status()["broker"]["refusals"]
    return {
        kind: many
        for kind, many in refusals.items()
        if kind.startswith("page: ") or kind == WRONG_PASSWORD
    }


async def test_who_guesses_passwords_has_to_wait(gateway: PageGateway) -> None:
    async with looker(gateway) as guesser:
        found = [await guesser.log_in("anna", f"guess-{number}") for number in range(40)]
        assert found[0] == 401
        assert 429 in found
        assert await guesser.log_in("anna") == 429  # the right one, too, until then
    assert sum(counted(gateway).values()) >= 40
    assert counted(gateway)[WRONG_PASSWORD] >= 5  # which the alert refused-logins goes by
    refused = [one for one in gateway.audit if one["what"] == "refused at the page"]
    assert 0 < len(refused) <= REFUSED_AT_ONCE + 1
    assert "anna" in {one["who"] for one in refused} <= {"anna", "stranger"}
    assert "guess-" not in json.dumps(gateway.audit)


async def test_a_flood_of_refusals_does_not_push_the_trail_out(gateway: PageGateway) -> None:
    async with looker(gateway, "vera") as vera:
        for number in range(60):
            path = ("sensors/valve", "members/gw")[number % 2]
            method, body = (("PUT", {"value": "1"}), ("DELETE", None))[number % 2]
            assert (await vera.ask(method, path, body))[0] == 403
        for _ in range(20):
            assert await vera.log_in("vera") in (200, 429)
    assert len(gateway.audit) < 50
    assert sum(counted(gateway).values()) >= 60


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Hedgerow-CSRF": ""},
        {"X-Hedgerow-CSRF": "0" * 64},
        {"X-Hedgerow-CSRF": "ä"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_another_site_changes_nothing(gateway: PageGateway, headers: dict[str, str]) -> None:
    async with looker(gateway, "anna") as anna:
        status, _ = await anna.ask("PUT", "sensors/valve", {"value": "1"}, headers)
        assert status == 403
    assert not any(one["what"] == "actuator set" for one in gateway.audit)
    assert counted(gateway)["page: forbidden: set_sensor"] == 1


@pytest.mark.parametrize("form", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_form_of_another_site_is_no_request(gateway: PageGateway, form: str) -> None:
    async with looker(gateway, "anna") as anna:
        for path in ("login", "messages"):
            status, _ = await anna.ask("POST", path, {}, {"Content-Type": form})
            assert status == 415


async def test_a_log_in_has_a_new_id_and_ends_the_one_before(gateway: PageGateway) -> None:
    async with looker(gateway) as anna:
        name = None
        tokens = []
        for _ in range(2):
            assert await anna.log_in("anna") == 200
            (cookie,) = list(anna.session.cookie_jar)
            name, tokens = cookie.key, [*tokens, cookie.value]
            assert cookie["httponly"] and cookie["samesite"] == "Strict"
        assert tokens[0] != tokens[1]
    async with looker(gateway) as thief:
        thief.session.cookie_jar.update_cookies({str(name): tokens[0]})
        assert (await thief.get("status"))[0] == 401
        # An id that a stranger made up is none, and a log-in does not take it over.
        thief.session.cookie_jar.update_cookies({str(name): "fixed"})
        assert await thief.log_in("vera") == 200
        assert (await thief.get("status"))[0] == 200
    async with looker(gateway) as thief:
        thief.session.cookie_jar.update_cookies({str(name): "fixed"})
        assert (await thief.get("status"))[0] == 401


async def test_a_session_ends_by_rest_by_age_and_by_log_out(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("IDLE_S", "AGE_S"):
        async with looker(gateway, "anna") as anna:
            assert (await anna.get("status"))[0] == 200
            with monkeypatch.context() as patched:
                patched.setattr(web_sessions, limit, -1.0)
                assert (await anna.get("status"))[0] == 401
    async with looker(gateway, "anna") as anna:
        (cookie,) = list(anna.session.cookie_jar)
        assert (await anna.ask("POST", "logout", {}))[0] == 200
        anna.session.cookie_jar.update_cookies({cookie.key: cookie.value})
        assert (await anna.get("status"))[0] == 401


async def test_who_loses_the_role_or_the_password_is_out(gateway: PageGateway) -> None:
    async with looker(gateway, "anna") as anna, looker(gateway, "olga") as olga:
        policy = gateway.folder / "access.toml"
        policy.write_text(policy.read_text().replace('"console:anna" = ["admin"]', ""))
        lines = (gateway.folder / "passwords").read_text().splitlines()
        kept = [line for line in lines if not line.startswith("olga:")]
        (gateway.folder / "passwords").write_text("\n".join(kept))
        await gateway.process.reload()
        assert (await anna.ask("PUT", "sensors/valve", {"value": "1"}))[0] == 403
        assert (await olga.get("status"))[0] == 401


async def test_a_user_without_a_role_does_not_come_in(gateway: PageGateway) -> None:
    async with looker(gateway) as nina:
        assert await nina.log_in("nina") == 403
        assert (await nina.get("status"))[0] == 401


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/gateway.toml",
        "/static/../face.py",
        "//etc/passwd",
        "/page.js%00.html",
        "/api/v1/../../status",
        "/api/v1/members/%ff",
        "/api/v1//status",
        "/api/v2/status",
    ],
)
async def test_no_path_leads_out_of_the_page(gateway: PageGateway, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    answer = await raw(gateway, request)
    assert answer.split()[1] in (b"404", b"405", b"400"), answer[:200]
    assert b"root:" not in answer and b"[gateway]" not in answer


@pytest.mark.parametrize(
    ("head", "body", "status"),
    [
        (f"Content-Length: {BODY_BYTES_MAX + 1}", b"", b"413"),
        ("Transfer-Encoding: chunked", b"10001\r\n" + b"x" * 0x10001 + b"\r\n0\r\n\r\n", b"413"),
        ("Content-Length: 5\r\nContent-Length: 6", b"", b"400"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", b"", b"400"),
        ("Content-Length: -1", b"", b"400"),
        ("Cookie: a=b\r\nCookie: c=d", b"", b"400"),
        ("A: " + "a" * 9000, b"", b"431"),
        ("\r\n".join("a: b" for _ in range(120)), b"", b"431"),
    ],
)
async def test_what_is_too_large_or_ambiguous_is_refused(
    gateway: PageGateway, head: str, body: bytes, status: bytes
) -> None:
    start = "POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answer = await raw(gateway, f"{start}{head}\r\n\r\n".encode() + body)
    assert answer.split()[1] == status, answer[:200]
    assert b"Connection: close" in answer


async def test_a_deep_or_broken_body_is_no_error_of_the_gateway(gateway: PageGateway) -> None:
    async with looker(gateway) as stranger:
        for body in (
            b"[" * 30_000,
            b'{"user": ' * 5_000,
            b"\xff\xfe",
            b'{"user": 1, "password": 2}',
        ):
            headers = {"Content-Type": "application/json"}
            url = f"{gateway.base}/api/v1/login"
            async with stranger.session.post(url, data=body, headers=headers) as answer:
                assert answer.status == 400


async def test_many_requests_at_once_are_answered_one_after_the_other(
    gateway: PageGateway,
) -> None:
    one = b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = await raw(gateway, one * 20 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 21
    halves = one[: len(one) // 2], one[len(one) // 2 :] + last
    reader, writer = await asyncio.open_connection(*gateway.console)
    for part in halves:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.01)
    async with asyncio.timeout(LIMIT_S):
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 2
    writer.close()


async def test_half_requests_from_one_address_keep_nobody_out(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looker(gateway, "anna") as anna:
        half = [await asyncio.open_connection(*gateway.console) for _ in range(100)]
        for _, writer in half:
            writer.write(b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n")
        assert (await anna.get("status"))[0] == 200
        async with looker(gateway, "olga") as olga:
            assert (await olga.get("status"))[0] == 200
        for _, writer in half:
            writer.close()


async def test_one_visitor_does_not_take_all_connections(gateway: PageGateway) -> None:
    async with looker(gateway, "vera") as vera:
        (cookie,) = list(vera.session.cookie_jar)
        head = f"Host: localhost\r\nCookie: {cookie.key}={cookie.value}\r\n\r\n"
        asked = f"GET /api/v1/log?wait_s=25 HTTP/1.1\r\n{head}".encode()
        wait = f"GET /api/v1/messages?filter=x&wait_s=25 HTTP/1.1\r\n{head}".encode()
        held = []
        for number in range(2 * server.WEB_CONNECTIONS_MAX):
            held.append(await asyncio.open_connection(*gateway.console))
            held[-1][1].write(wait if number % 2 else asked)
        async with looker(gateway, "anna") as anna:
            assert (await anna.get("status"))[0] == 200
        for _, writer in held:
            writer.close()


async def test_who_does_not_read_is_let_go(
    gateway: PageGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READ_S", 0.3)
    asked = b"GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400
    before = psutil.Process().memory_info().rss
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect(gateway.console)
        slow.setblocking(False)
        slow.send(asked)  # some fifty megabytes of answers, which nobody reads
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(ConnectionError):
                while True:
                    with contextlib.suppress(BlockingIOError):
                        slow.send(b"G")
                    await asyncio.sleep(0.02)
    assert psutil.Process().memory_info().rss - before < 20_000_000


async def test_the_page_goes_by_the_gateways_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    made = authority.issue("gw", is_server=True)
    trusted = ssl.create_default_context(cafile=str(authority.file))
    files = f'certificate_file = "{made.certificate}"\nkey_file = "{made.key}"\n'
    async with (
        page_gateway(tmp_path / "gateway", console=files, tls=trusted) as secure,
        looker(secure, "anna") as anna,
    ):
        (cookie,) = list(anna.session.cookie_jar)
        assert cookie["secure"]
        async with anna.session.get(secure.base) as answer:
            assert "max-age" in answer.headers["Strict-Transport-Security"]
        assert (await anna.get("status"))[0] == 200


FIELDS = (
    *("Authorization: Bearer {}", "Cookie: {}={}", "X-Hedgerow-CSRF: {}", "Origin: {}"),
    *("Sec-Fetch-Site: {}", "Content-Type: {}", "If-None-Match: {}", "Accept-Encoding: {}"),
)


JUNK = (b"\xff\xfe", b"\xed\xa0\x80", b"%00%0d%0a", b"a\tb", b"\x7f\x1b[2J")


@pytest.mark.parametrize("field", FIELDS)
async def test_no_bytes_of_a_field_are_an_error_of_the_gateway(
    gateway: PageGateway, field: str
) -> None:
    async with looker(gateway, "anna") as anna:
        (cookie,) = list(anna.session.cookie_jar)
        proof = "" if field.startswith("Cookie") else f"Cookie: {cookie.key}={cookie.value}\r\n"
        form = "" if field.startswith("Content") else "Content-Type: application/json\r\n"
        rest = f"Host: localhost\r\nConnection: close\r\nContent-Length: 2\r\n{proof}{form}"
        for what, junk in itertools.product(
            ("POST /api/v1/messages", "GET /api/v1/status", "GET /page.js", "GET /ca.pem"), JUNK
        ):
            head = f"{what} HTTP/1.1\r\n{rest}{field}\r\n\r\n".encode()
            answer = await raw(gateway, head.replace(b"{}", junk) + b"{}")
            status = int(answer.split(b" ", 2)[1])
            assert status in (200, 304, 400, 401, 403, 404, 415), answer
            assert junk not in answer or status == 200
        assert (await anna.get("status"))[0] == 200


TOPICS = (
    *("", "a/#", "a/+", "+", "a\0b", "\ud800", "x" * 2_000),
    *("$SYS/broker/version", "$hedgerow/tree", "$coap/sensors/valve", "$share/all/a", "$"),
)


@pytest.mark.parametrize("topic", TOPICS)
async def test_not_even_an_administrator_publishes_what_no_client_may(
    gateway: PageGateway, topic: str
) -> None:
    async with looker(gateway, "anna") as anna:
        status, told = await anna.ask("POST", "messages", {"topic": topic, "payload": "x"})
        assert status in (400, 403), told


async def test_strangers_get_the_authority_and_nothing_else_that_its_file_holds(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    made = authority.issue("gw", is_server=True)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(b"# fleet key: hush\n" + authority.file.read_bytes())
    with trusted.open("ab") as file:
        file.write(made.key.read_bytes())
    mqtt = f'tls_port = 0\ncertificate_file = "{made.certificate}"\nkey_file = "{made.key}"\n'
    mqtt += f'client_certificate = "optional"\nclient_ca_file = "{trusted}"\n'
    async with (
        page_gateway(tmp_path / "gateway", mqtt=mqtt) as gateway,
        aiohttp.ClientSession() as stranger,
    ):

        async def asked(method: str = "GET") -> tuple[int, bytes]:
            async with stranger.request(method, f"{gateway.base}/ca.pem") as answer:
                return answer.status, await answer.read()

        status, told = await asked()
        assert status == 200
        assert told.count(b"BEGIN") == told.count(b"BEGIN CERTIFICATE") == 1
        assert b"hush" not in told
        assert await asked("HEAD") == (200, b"")
        assert (await asked("PUT"))[0] == 405
        found = [(await asked())[0] for _ in range(2 * STRANGERS_AT_ONCE)]
        assert set(found) == {200, 429}


async def test_a_name_of_another_site_reads_nothing_where_nobody_logs_in(tmp_path: Path) -> None:
    async with page_gateway(tmp_path, users=False) as made, looker(made) as here:
        assert (await here.ask("GET", "status", None, {"Host": "evil.example"}))[0] == 421
        assert (await here.get("status"))[0] == 200


@pytest.mark.parametrize(
    ("section", "access", "why"),
    [
        (
            'host = "0.0.0.0"\nweb = true',
            "anonymous = true",
            "console.web: at 0.0.0.0 others reach",
        ),
        ("enabled = false\nweb = true", "", "web: of no use while enabled is false"),
    ],
)
def test_a_page_that_others_reach_without_passwords_is_refused(
    tmp_path: Path, section: str, access: str, why: str
) -> None:
    file = tmp_path / "gateway.toml"
    (tmp_path / "k").touch(mode=0o600)
    (tmp_path / "k").write_text("ab" * 32)
    file.write_text(
        f'[gateway]\nid = "gw"\nstate_dir = "{tmp_path}"\n[tree]\nkey_file = "{tmp_path}/k"\n'
        f'tls = "off"\n[console]\n{section}\n[access]\n{access}\n'
    )
    with pytest.raises(config.ConfigError) as raised:
        config.load(file, config.GatewaySettings)
    assert why in str(raised.value)
