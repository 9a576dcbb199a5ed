"""Alerts as mails (RFC 5321, RFC 5322), over TLS and with a log-in where they are asked for."""

from __future__ import annotations

import contextlib
import email.policy
import smtplib
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from email.utils import formatdate
from typing import BinaryIO, Final

from alerts.record import AlertRecord, RecordsRefusedError
from alerts.text import batch_id, body, is_urgent, title
from alerts.ways.deadline import EXCHANGE_S, within
from light_dataclasses import dataclass

_REPLY_BYTES: Final = 65_536
"""Of all that a server says on one connection."""
_FIRST_FINAL: Final = 500
"""Codes from here on will be the same the next time (RFC 5321, section 4.2.1)."""


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


class _BoundedReplies:
    """Reads what a server says on one connection, up to `_REPLY_BYTES`.

    Args:
        file: the connection's.

    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = _REPLY_BYTES

    def readline(self, most: int = -1) -> bytes:
        """Read a line.

        Raises:
            OSError: the server has said too much.

        """
        line = self._file.readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise OSError("it says more than any mail server has to")
        return line

    def close(self) -> None:
        """Close the connection's file."""
        self._file.close()


class _MailConnection(smtplib.SMTP):
    """Keeps a server that never ends its reply from taking the memory.

    Args:
        server: to connect to.
        own_name: how this machine calls itself to the server.

    """

    def __init__(self, server: MailServer, own_name: str) -> None:
        super().__init__(local_hostname=own_name, timeout=server.exchange_s)
        self.file: _BoundedReplies | None = None

    def getreply(self) -> tuple[int, bytes]:
        """Read one reply."""
        if self.file is None and self.sock is not None:
            self.file = _BoundedReplies(self.sock.makefile("rb"))
        return super().getreply()


class _SecuredConnection(_MailConnection, smtplib.SMTP_SSL):
    """Likewise over TLS."""

    def __init__(self, server: MailServer, own_name: str) -> None:
        smtplib.SMTP_SSL.__init__(
            self, local_hostname=own_name, timeout=server.exchange_s, context=server.tls
        )


def _named(refused: Mapping[str, int]) -> str:
    return ", ".join(f"{address} ({code})" for address, code in sorted(refused.items()))


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
        self._had: dict[str, set[str]] = {address: set() for address in self._to}
        """Records of the last try that an address has had and others have not, by `delivery_id`."""

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Send the records as one mail, to each address that has not had them.

        Raises:
            OSError: the server can't be reached, or does not take them now for some address.
            RecordsRefusedError: it will never take the mail for some address; the others have it.

        """
        refused: dict[str, int] = {}
        owed = self._owed(records)
        if owed:
            server = self._server
            connection = self._connection()
            with within(server.exchange_s, lambda: connection.sock), contextlib.closing(connection):
                self._greet(connection)
                for wanted, to in owed.items():
                    refused |= self._send(connection, wanted, to)
                with contextlib.suppress(smtplib.SMTPException, OSError):
                    connection.putcmd("QUIT")  # it is taken: nobody waits for another word
        are_final = all(code >= _FIRST_FINAL for code in refused.values())
        if refused and not (are_final and len(refused) < len(self._had)):
            raise OSError(f"the mail server refuses {_named(refused)}")
        for had in self._had.values():
            had.clear()
        if refused:  # nobody else is to wait for an address that is wrong
            raise RecordsRefusedError(f"the mail server refuses {_named(refused)} for good")

    def _owed(self, records: Sequence[AlertRecord]) -> dict[tuple[AlertRecord, ...], list[str]]:
        """Return which records go to which addresses."""
        found: dict[tuple[AlertRecord, ...], list[str]] = {}
        named = {one.delivery_id for one in records}
        for address, had in self._had.items():
            had.intersection_update(named)  # what does not come again was dropped
            wanted = tuple(one for one in records if one.delivery_id not in had)
            if wanted:
                found.setdefault(wanted, []).append(address)
        return found

    def _greet(self, connection: smtplib.SMTP) -> None:
        server = self._server
        # What the server's certificate is held against, whenever TLS begins.
        connection._host = server.host  # type: ignore[attr-defined]  # set by the constructor alone
        connection.connect(server.host, server.port)
        if server.starts_tls:
            connection.starttls(context=server.tls)
        if server.user:
            connection.login(server.user, server.password)

    def _send(
        self, connection: smtplib.SMTP, records: Sequence[AlertRecord], to: Sequence[str]
    ) -> dict[str, int]:
        """Send one mail; return whom the server refuses, with its code."""
        try:
            refused = connection.send_message(self._mail(records), self._sender, to)
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
        for address in to:
            if address not in refused:
                self._had[address].update(one.delivery_id for one in records)
        return {address: code for address, (code, _) in refused.items()}

    def _connection(self) -> smtplib.SMTP:
        server = self._server
        if server.tls is not None and not server.starts_tls:
            return _SecuredConnection(server, self._own_name)
        return _MailConnection(server, self._own_name)

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
