"""Each way out over a real server on loopback, also one that is slow, refuses or is silent."""

from __future__ import annotations

import contextlib
import email
import errno
import json
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from authority import Authority

from alerts.desk import trial
from alerts.record import RecordsRefusedError, WayOut
from alerts.terms import CHAT_SERVICES
from alerts.text import stamp
from alerts.ways.alertmanager import AlertmanagerWay
from alerts.ways.deadline import DeadlineError
from alerts.ways.http_post import HttpServer
from alerts.ways.mail import MailServer, MailWay
from alerts.ways.ntfy import NtfyWay
from alerts.ways.syslog import SyslogWay
from alerts.ways.team_chat import TeamChatWay
from alerts.ways.telegram import TelegramWay
from alerts.ways.trouble import in_words
from alerts.ways.webhook import WebhookWay, signature

RAISED, CLEARED = trial("gw-a", "campus/north", 1_700_000_000_000_000)
HOSTILE = msgspec.structs.replace(
    RAISED, message="hot\r\nBcc: all@example.org\x1b[2J", part="a\nb", severity="critical"
)
EXCHANGE_S = 1.0
PATIENCE_S = 20.0


class RawServer:
    """Takes connections on loopback, reads one request of each, and answers as it is told."""

    def __init__(self, answer: Callable[[socket.socket], None], tls: ssl.SSLContext | None) -> None:
        self._answer = answer
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        self.is_over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/hook"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with contextlib.suppress(OSError), connection:
                    if self._tls is not None:
                        connection = self._tls.wrap_socket(connection, server_side=True)
                    self.requests.append(_request(connection))
                    self._answer(connection)

    def close(self) -> None:
        self.is_over.set()
        self._listener.close()

    def body(self) -> Any:
        return json.loads(self.requests[-1].partition(b"\r\n\r\n")[2])

    def headers(self) -> dict[str, str]:
        lines = self.requests[-1].partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines}


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := connection.recv(65_536)):
            return data
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    while len(body) < length and (more := connection.recv(65_536)):
        body += more
    return head + b"\r\n\r\n" + body


def says(answer: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(answer)


OK = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def drips(connection: socket.socket) -> None:
    for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 1000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def drips_words(status: str) -> Callable[[socket.socket], None]:
    """Answer at once, and never end the words behind it; the connection is this answer's alone."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n".encode())
        for _ in range(1_000):
            connection.sendall(b"x")
            time.sleep(0.05)

    return answer


def is_silent(connection: socket.socket) -> None:
    connection.settimeout(PATIENCE_S)
    with contextlib.suppress(OSError):
        connection.recv(1)


def floods(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 500 Oops\r\n\r\n")
    for _ in range(2_000):
        connection.sendall(b"x" * 65_536)


@contextlib.contextmanager
def serving(
    answer: Callable[[socket.socket], None], tls: ssl.SSLContext | None = None
) -> Iterator[RawServer]:
    server = RawServer(answer, tls)
    try:
        yield server
    finally:
        server.close()


def webhook(url: str, secret: bytes | None = None, ca: Path | None = None) -> WayOut:
    return WebhookWay(HttpServer.at(url, ca, EXCHANGE_S), secret, lambda: 1_700_000_000.0)


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (says(b"HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\nfull"), OSError, "answers 500: full"),
        (says(b"HTTP/1.1 302 Go\r\nLocation: http://x/\r\n\r\n"), OSError, "answers 302"),
        (says(b"HTTP/1.1 422 No\r\n\r\n"), RecordsRefusedError, "answers 422"),
        (says(b"220 mail.example.org ESMTP\r\n"), OSError, "no answer of HTTP"),
        (says(b""), OSError, "no answer|closed|reset"),
        (drips, TimeoutError, "longer than 1 s"),
        (drips_words("503 Later"), OSError, "answers 503$"),
        (drips_words("422 Never"), RecordsRefusedError, "answers 422$"),
        (is_silent, TimeoutError, "timed out|longer"),
        (floods, OSError, "answers 500: xxx"),
        (says(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 5_000 + b"\r\n"), OSError, "no answer"),
    ],
)
def test_a_server_that_misbehaves_takes_nothing_and_keeps_nobody(
    answer: Callable[[socket.socket], None], error: type[Exception], why: str
) -> None:
    with serving(answer) as server:
        begun_s = time.monotonic()
        with pytest.raises(error, match=why):
            webhook(server.url).take([RAISED])
        assert time.monotonic() - begun_s < PATIENCE_S / 2


def test_an_answer_that_is_cut_after_its_status_counts() -> None:
    with serving(says(b"HTTP/1.1 204 OK\r\nContent-Length: 10\r\n\r\nhalf")) as server:
        webhook(server.url).take([RAISED])


def test_what_is_said_behind_a_status_that_takes_is_not_waited_for() -> None:
    with serving(drips_words("200 OK")) as server:
        begun_s = time.monotonic()
        webhook(server.url).take([RAISED])
        assert time.monotonic() - begun_s < PATIENCE_S / 2


@pytest.mark.parametrize(
    ("status", "is_taken"), [(199, False), (200, True), (299, True), (300, False)]
)
def test_a_status_from_200_to_299_takes_and_no_other(status: int, is_taken: bool) -> None:
    with serving(says(b"HTTP/1.1 %d Word\r\nContent-Length: 0\r\n\r\n" % status)) as server:
        if is_taken:
            webhook(server.url).take([RAISED])
            return
        with pytest.raises(OSError, match=f"^answers {status}$"):
            webhook(server.url).take([RAISED])


def test_nobody_there_is_an_error_of_the_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        webhook(f"http://127.0.0.1:{port}/").take([RAISED])


def test_a_webhook_gets_json_that_it_can_check() -> None:
    with serving(OK) as server:
        webhook(server.url, b"a secret").take([RAISED, HOSTILE])
        told, headers = server.body(), server.headers()
        body = server.requests[-1].partition(b"\r\n\r\n")[2]
        assert server.requests[-1].startswith(b"POST /hook HTTP/1.1\r\n")
    assert [one["delivery_id"] for one in told["alerts"]] == [
        RAISED.delivery_id,
        HOSTILE.delivery_id,
    ]
    assert told["alerts"][0]["rule"] == "test"
    signed = signature(b"a secret", headers["webhook-id"], "1700000000", body)
    assert headers["webhook-signature"] == f"v1,{signed}"
    assert b"a secret" not in server.requests[-1]


def test_a_webhook_is_told_the_site_of_alerts_that_are_all_of_one() -> None:
    elsewhere = msgspec.structs.replace(RAISED, site="campus/south")
    with serving(OK) as server:
        for records, site in (
            ([RAISED], "campus/north"),
            ([RAISED, CLEARED], "campus/north"),
            ([RAISED, elsewhere], ""),
        ):
            webhook(server.url).take(records)
            assert server.body()["site"] == site


def test_a_server_of_another_authority_is_told_nothing(tmp_path: Path) -> None:
    own, other = Authority(tmp_path, "own"), Authority(tmp_path, "other")
    issued = own.issue("server", is_server=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate, issued.key)
    with serving(OK, tls) as server:
        with pytest.raises(OSError, match="certificate verify failed"):
            webhook(server.url, ca=other.file).take([RAISED])
        webhook(server.url, ca=own.file).take([RAISED])
        assert server.body()["alerts"][0]["gateway"] == "gw-a"


def test_ntfy_gets_a_message_with_a_priority_and_the_token() -> None:
    with serving(OK) as server:
        NtfyWay(HttpServer.at(server.url), "ops", "tk_1").take([HOSTILE])
        told, headers = server.body(), server.headers()
    assert (told["topic"], told["priority"]) == ("ops", 5)
    assert headers["authorization"] == "Bearer tk_1"
    assert "\x1b" not in told["message"]
    with serving(OK) as server:
        NtfyWay(HttpServer.at(server.url), "ops", None).take([CLEARED])
        assert server.body()["priority"] == 2
        assert "authorization" not in server.headers()


def test_telegram_gets_plain_text_for_a_chat_at_the_bots_own_path() -> None:
    with serving(OK) as server:
        way = TelegramWay(HttpServer.at(server.url), "1:s-3", "-100", lambda _: "https://gw/ack")
        way.take([HOSTILE])
        told = server.body()
        assert server.requests[-1].startswith(b"POST /hook/bot1:s-3/sendMessage HTTP/1.1\r\n")
    assert (told["chat_id"], told["disable_notification"]) == ("-100", False)
    assert "https://gw/ack" in told["text"]
    assert "\x1b" not in told["text"]
    assert "parse_mode" not in told, "what machines said would be read as a form"
    assert told["link_preview_options"] == {"is_disabled": True}, "its servers would open the link"
    with serving(OK) as server:
        TelegramWay(HttpServer.at(server.url), "1:s-3", "@ops").take([CLEARED] * 200)
        assert server.body()["disable_notification"] is True
        assert len(server.body()["text"]) <= 4_096


def test_a_bots_secret_stands_in_no_error() -> None:
    answer = says(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
    with serving(answer) as server, pytest.raises(OSError, match="answers 401") as told:
        TelegramWay(HttpServer.at(server.url), "1:s-3", "-100").take([RAISED])
    assert "s-3" not in str(told.value)


CALLS_ALL = msgspec.structs.replace(
    RAISED, message="<!channel> <https://evil.example|x> & @everyone ``` **b** [a](http://evil)"
)


def chat_text(service: str, told: Any) -> str:
    """Return the text of a message as the service would show it."""
    if service == "slack":
        return str(told["text"])
    if service == "discord":
        return str(told["content"])
    blocks = told["attachments"][0]["content"]["body"]
    return "\n".join(run["text"] for block in blocks for run in block["inlines"])


@pytest.mark.parametrize("service", CHAT_SERVICES)
def test_a_teams_chat_gets_text_that_calls_nobody(service: str) -> None:
    with serving(OK) as server:
        TeamChatWay(HttpServer.at(server.url), service).take([CALLS_ALL])
        told = server.body()
    text = chat_text(service, told)
    assert "RAISED  test" in text
    if service == "slack":
        assert "<" not in text
        assert "&lt;!channel&gt;" in text
        assert told["mrkdwn"] is False
    elif service == "discord":
        assert told["allowed_mentions"] == {"parse": []}
        assert text.count("```") == 2, "the block ends where it was begun to"
    else:
        blocks = told["attachments"][0]["content"]["body"]
        assert {block["type"] for block in blocks} == {"RichTextBlock"}, "Markdown is for others"


@pytest.mark.parametrize("service", CHAT_SERVICES)
def test_a_teams_chat_gets_no_more_than_it_takes(service: str) -> None:
    most = {"slack": 40_000, "discord": 2_000, "teams": 28_000}
    with serving(OK) as server:
        TeamChatWay(HttpServer.at(server.url), service).take([CALLS_ALL] * 500)
        assert len(chat_text(service, server.body())) <= most[service]


def test_alertmanager_gets_labels_and_an_end_that_is_over_when_it_is() -> None:
    with serving(OK) as server:
        way = AlertmanagerWay(HttpServer.at(server.url), "gw", "pw")
        way.take([RAISED])
        (raised,) = server.body()
        assert server.headers()["authorization"] == "Basic Z3c6cHc="
        assert server.requests[-1].startswith(b"POST /hook/api/v2/alerts HTTP/1.1\r\n")
        way.take([RAISED, CLEARED])
        (cleared,) = server.body()
    assert raised["labels"] == cleared["labels"]
    assert raised["labels"]["alertname"] == "test"
    assert raised["startsAt"] == cleared["startsAt"] == "2023-11-14T22:13:20Z"
    assert raised["endsAt"] == "2023-11-18T22:13:20Z"
    assert cleared["endsAt"] == "2023-11-14T22:13:21Z"


def test_syslog_gets_one_line_for_each(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
        local.bind(str(tmp_path / "log"))
        local.settimeout(PATIENCE_S)
        SyslogWay(str(tmp_path / "log"), "gw-a").take([HOSTILE, CLEARED])
        lines = [local.recv(4_096).decode() for _ in range(2)]
    assert lines[0].startswith("<26>1 2023-11-14T22:13:20Z gw-a hedgerow - test - raised: test")
    assert lines[1].startswith("<29>1 ")
    assert all(line.isprintable() for line in lines)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.1", 0))
        far.settimeout(PATIENCE_S)
        SyslogWay(f"127.0.0.1:{far.getsockname()[1]}", "gw-a").take([RAISED])
        assert far.recv(4_096).startswith(b"<28>1 ")
    with pytest.raises(OSError, match="No such file"):
        SyslogWay(str(tmp_path / "none"), "gw-a").take([RAISED])


# -- mail ------------------------------------------------------------------------------------------


class Mailbox:
    """Keeps the mails that it gets."""

    def __init__(self, refuses: str = "", whom: dict[str, str] | None = None) -> None:
        self.refuses = refuses
        self.whom = whom or {}
        self.mails: list[tuple[list[str], bytes, bool]] = []

    async def handle_RCPT(  # noqa: N802
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if (answer := self.whom.get(address)) is not None:
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if self.refuses:
            return self.refuses
        self.mails.append((envelope.rcpt_tos, envelope.content, session.ssl is not None))
        return "250 OK"


class Server(Controller):
    """An SMTP server that offers STARTTLS and takes one user."""

    def __init__(self, box: Mailbox, tls: ssl.SSLContext | None) -> None:
        self._tls = tls
        super().__init__(box, hostname="127.0.0.1", port=_free_port())

    def factory(self) -> SMTP:
        def check(_s: Any, _se: Any, _e: Any, _m: Any, data: LoginPassword) -> AuthResult:
            is_right = (data.login, data.password) == (b"gw", b"pass word")
            return AuthResult(success=is_right, handled=False)

        needs = {"authenticator": check, "auth_required": True} if self._tls else {}
        return SMTP(self.handler, tls_context=self._tls, require_starttls=bool(self._tls), **needs)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def mailing(box: Mailbox, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    server = Server(box, tls)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def mail(port: int, **more: Any) -> MailWay:
    base: dict[str, Any] = {"starts_tls": False, "tls": None, "exchange_s": EXCHANGE_S}
    server = MailServer(host="127.0.0.1", port=port, **(base | more))
    return MailWay(server, "gw-a", "gw-a@example.org", ["ops@example.org", "eve@example.org"])


def test_a_mail_goes_to_all_and_says_what_to_do() -> None:
    box = Mailbox()
    with mailing(box) as port:
        mail(port).take([RAISED])
        mail(port).take([RAISED])
    (to, first, _), (_, again, _) = box.mails
    assert to == ["ops@example.org", "eve@example.org"]
    assert b"Subject: [hedgerow] raised: test (warning): gw-a" in first
    assert b"what to do: nothing" in first
    names = [line for line in (first + again).splitlines() if line.startswith(b"Message-ID")]
    assert len(names) == 2
    assert len(set(names)) == 1


def test_what_others_said_makes_no_header_of_its_own() -> None:
    box = Mailbox()
    with mailing(box) as port:
        mail(port).take([HOSTILE])
    (to, content, _) = box.mails[0]
    assert to == ["ops@example.org", "eve@example.org"]
    assert b"\nBcc:" not in content
    assert b"\x1b" not in content


def test_over_starttls_with_a_log_in_a_mail_goes_secured_and_a_wrong_password_does_not(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("mail", is_server=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate, issued.key)
    trust = ssl.create_default_context(cafile=str(authority.file))
    box = Mailbox()
    with mailing(box, tls) as port:
        secured: dict[str, Any] = {"starts_tls": True, "tls": trust, "exchange_s": 10}
        mail(port, user="gw", password="pass word", **secured).take([RAISED])
        with pytest.raises(OSError, match="535") as failed:
            mail(port, user="gw", password="another", **secured).take([RAISED])
        assert "another" not in str(failed.value)
        with pytest.raises(OSError, match="certificate verify failed"):
            mail(port, starts_tls=True, tls=ssl.create_default_context()).take([RAISED])
    assert [is_secured for *_, is_secured in box.mails] == [True]


def test_over_tls_from_the_beginning_a_mail_goes_to_the_server_of_that_name_alone(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("mail", is_server=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(issued.certificate, issued.key)
    trust = ssl.create_default_context(cafile=str(authority.file))
    box = Mailbox()
    server = Controller(box, hostname="127.0.0.1", port=_free_port(), ssl_context=tls)
    server.start()
    try:
        mail(server.port, tls=trust, exchange_s=10).take([RAISED])
        with pytest.raises(OSError, match="certificate verify failed"):
            mail(server.port, tls=ssl.create_default_context(), exchange_s=10).take([RAISED])
    finally:
        server.stop()
    assert len(box.mails) == 1


def test_a_mail_server_that_refuses_or_is_silent_takes_nothing() -> None:
    with mailing(Mailbox("452 full")) as port, pytest.raises(OSError, match="452"):
        mail(port).take([RAISED])
    for answer in (is_silent, drips, says(b"HTTP/1.1 400 Bad\r\n\r\n"), says(b"")):
        listener = socket.create_server(("127.0.0.1", 0))

        def serve(
            listener: socket.socket = listener,
            answer: Callable[[socket.socket], None] = answer,
        ) -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        begun_s = time.monotonic()
        with pytest.raises(OSError, match=r".+"):
            mail(listener.getsockname()[1]).take([RAISED])
        assert time.monotonic() - begun_s < PATIENCE_S / 2
        listener.close()


def test_a_mail_whose_last_answer_did_not_come_is_sent_again_under_the_same_name() -> None:
    class Cut(Mailbox):
        """Takes a mail, and the first time closes the connection in place of an answer."""

        async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
            answer = await super().handle_DATA(server, session, envelope)
            if len(self.mails) == 1:
                server.transport.abort()
            return answer

    box = Cut()
    with mailing(box) as port:
        way = mail(port)
        with pytest.raises(OSError, match=r".+") as failed:
            way.take([RAISED])
        assert not isinstance(failed.value, RecordsRefusedError)
        way.take([RAISED])
    names = [email.message_from_bytes(content)["Message-ID"] for _, content, _ in box.mails]
    assert len(names) == 2
    assert len(set(names)) == 1, "the receiver knows the copy by its name"


def test_who_has_had_a_mail_gets_no_copy_while_another_address_is_tried_again() -> None:
    box = Mailbox(whom={"eve@example.org": "451 later"})
    with mailing(box) as port:
        way = mail(port)
        for _ in range(3):
            with pytest.raises(OSError, match=r"eve@example.org \(451\)") as failed:
                way.take([RAISED])
            assert not isinstance(failed.value, RecordsRefusedError)
        assert [to for to, *_ in box.mails] == [["ops@example.org"]]
        box.whom = {}
        way.take([RAISED])
        way.take([RAISED])  # a copy, as after a kill
    both = ["ops@example.org", "eve@example.org"]
    assert [to for to, *_ in box.mails] == [["ops@example.org"], ["eve@example.org"], both]


def test_a_wrong_address_keeps_nobody_else_waiting_and_is_told() -> None:
    box = Mailbox(whom={"eve@example.org": "550 nobody"})
    with mailing(box) as port:
        way = mail(port)
        with pytest.raises(RecordsRefusedError, match=r"eve@example.org \(550\) for good"):
            way.take([RAISED])
        box.whom["ops@example.org"] = "550 nobody"
        with pytest.raises(OSError, match="550") as failed:
            way.take([CLEARED])
    assert not isinstance(failed.value, RecordsRefusedError), "somebody may mend the server"
    assert [to for to, *_ in box.mails] == [["ops@example.org"]]


def test_a_mail_server_is_told_that_no_more_comes() -> None:
    class Left(Mailbox):
        """Knows whether its client said that it leaves."""

        def __init__(self) -> None:
            super().__init__()
            self.has_quit = threading.Event()

        async def handle_QUIT(self, *_: Any) -> str:  # noqa: N802
            self.has_quit.set()
            return "221 Bye"

    box = Left()
    with mailing(box) as port:
        mail(port).take([RAISED])
        assert box.has_quit.wait(PATIENCE_S / 4)
    assert len(box.mails) == 1


def test_a_mail_server_that_never_ends_its_greeting_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"220-and more\r\n" * 50_000)

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(OSError, match="more than any mail server"):
            mail(listener.getsockname()[1]).take([RAISED])


def test_the_ways_are_loaded_only_where_they_are_used() -> None:
    program = (
        "import sys; import gateway.process.configuration.config;"
        "import gateway.alerting.ways as ways;"
        "from gateway.alerting.section import AlertsSection;"
        "assert ways.open_ways(AlertsSection(), 'gw') == {};"
        "found = {'smtplib', 'http.client', 'alerts.ways.mail'} & set(sys.modules);"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def refused_by_smtp() -> Exception:
    return smtplib.SMTPAuthenticationError(535, b"5.7.8 no\x1b such user")


def unverified() -> Exception:
    found = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] (_ssl.c:1006)")
    found.verify_message = "self-signed certificate"
    return found


def untold() -> Exception:
    found = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    found.reason = "WRONG_VERSION_NUMBER"
    return found


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("answers 500: full"), "answers 500: full"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (DeadlineError("it took longer than 30 s"), "it took longer than 30 s"),
        (TimeoutError(), "TimeoutError"),
        (refused_by_smtp(), "the mail server says 535 5.7.8 no  such user"),
        (unverified(), "its certificate: self-signed certificate"),
        (untold(), "TLS: wrong version number"),
        (ValueError("a fault"), "ValueError: a fault"),
    ],
)
def test_trouble_is_told_in_words(error: Exception, words: str) -> None:
    assert in_words(error) == words


def test_a_syslog_that_is_not_there_is_named(tmp_path: Path) -> None:
    way = SyslogWay(str(tmp_path / "log"), "gw-a")
    with pytest.raises(OSError, match="No such file") as refused:
        way.take([RAISED])
    assert in_words(refused.value) == f"{tmp_path}/log: No such file or directory"


def test_the_arguments_of_a_webhooks_address_are_sent_behind_its_path() -> None:
    with serving(OK) as server:
        for url, path, target in (
            (f"{server.url}?key=1&x", "", b"/hook?key=1&x"),
            (f"{server.url}/?key=1", "/topic", b"/hook/topic?key=1"),
            (server.url.removesuffix("/hook"), "", b"/"),
        ):
            HttpServer.at(url).post(b"x", {}, path)
            assert server.requests[-1].split(b" ")[:2] == [b"POST", target]


def test_a_time_beyond_the_calendar_is_told_as_the_first_of_all() -> None:
    assert stamp(1_700_000_000_999_999) == "2023-11-14T22:13:20Z"
    for beyond in (1 << 70, -(1 << 70)):
        assert stamp(beyond) == "1970-01-01T00:00:00Z"
