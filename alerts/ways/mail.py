"""Alerts as mails (RFC 5321, RFC 5322), over TLS and with a log-in where they are asked for."""

from __future__ import annotations

import contextlib
import email.policy
import smtplib
import ssl
import time
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from email.utils import formatdate

from alerts.record import AlertRecord
from alerts.text import batch_id, body, is_urgent, title
from alerts.ways.deadline import EXCHANGE_S, within
from light_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """A mail server, and the account that alerts are submitted with.

    Attributes:
        host: of the server.
        port: likewise.
        starts_tls: whether the connection is secured before anything is said ...
        tls: ... and from whom on it is trusted; None for no TLS.
        user: logs in; empty for nobody.
        password: of that user.
        exchange_s: how long a mail may take.

    """

    host: str
    port: int
    starts_tls: bool
    tls: ssl.SSLContext | None
    user: str = ""
    password: str = ""
    exchange_s: float = EXCHANGE_S


class MailWay:
    """Sends alerts as mails.

    Args:
        server: takes them.
        own_name: how this machine calls itself to the server.
        sender: in ``From``.
        to: who gets them.
        link: gives that by which an alert is taken on; None where there is none.

    """

    def __init__(
        self,
        server: MailServer,
        own_name: str,
        sender: str,
        to: Sequence[str],
        link: Callable[[AlertRecord], str] | None = None,
    ) -> None:
        self._server = server
        self._own_name = own_name
        self._sender = sender
        self._to = list(to)
        self._link = link

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Send the records as one mail."""
        server = self._server
        connection = self._connection()
        with within(server.exchange_s, lambda: connection.sock), contextlib.closing(connection):
            connection.connect(server.host, server.port)
            # What the server's certificate is held against, where TLS begins later.
            connection._host = server.host  # type: ignore[attr-defined]  # set by the constructor alone
            if server.starts_tls:
                connection.starttls(context=server.tls)
            if server.user:
                connection.login(server.user, server.password)
            refused = connection.send_message(self._mail(records), self._sender, self._to)
            with contextlib.suppress(smtplib.SMTPException, OSError):
                connection.putcmd("QUIT")  # it is taken: nobody waits for another word
        if refused:
            raise OSError(f"the mail server refuses {', '.join(sorted(refused))}")

    def _connection(self) -> smtplib.SMTP:
        server = self._server
        if server.tls is not None and not server.starts_tls:
            return smtplib.SMTP_SSL(
                local_hostname=self._own_name, timeout=server.exchange_s, context=server.tls
            )
        return smtplib.SMTP(local_hostname=self._own_name, timeout=server.exchange_s)

    def _mail(self, records: Sequence[AlertRecord]) -> EmailMessage:
        mail = EmailMessage(policy=email.policy.SMTP)
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._to)
        mail["Subject"] = f"[hedgerow] {title(records)}"
        mail["Date"] = formatdate(time.time())
        # The same records have the same one, so a copy after a kill is known by it.
        mail["Message-ID"] = f"<{batch_id(records)}@{self._own_name}.hedgerow>"
        mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody is out of office to it
        if is_urgent(records):
            mail["Importance"] = "high"
        mail.set_content(body(records, self._link), charset="utf-8")
        return mail
