"""The picture of a mail in the documents is of a mail that a server gets.

`PYTHONPATH=tests:. python tests/unit/alerts/test_pictured_mail.py` draws it anew, to be looked at.
"""

from __future__ import annotations

import email.policy
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path
from typing import Any, Final

from aiosmtpd.controller import Controller
from drawn_frame import svg
from ports import free_port

from alerts.record import AlertRecord
from alerts.ways.mail import MailServer, MailWay
from gateway.alerting.rules import DISK_READ_ONLY, RULES
from gateway.tools.top.styled_text import Style, TopFrame

PICTURE: Final = Path(__file__).parents[3] / "docs/pictures/alert-mail.svg"
SINCE_US: Final = 1_795_835_560_000_000
LINK: Final = "https://gw-barn.example.org:9641/ack/..."
"""In place of one that is signed."""


class Mailbox:
    """Keeps the mails that it gets."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        parser = BytesParser(EmailMessage, policy=email.policy.default)
        self.mails.append(parser.parsebytes(envelope.content))
        return "250 OK"


def mail() -> EmailMessage:
    """Return a mail about a card that takes nothing any more, as it arrives."""
    terms = RULES[DISK_READ_ONLY]
    record = AlertRecord(
        alert=f"{DISK_READ_ONLY}:gw-barn:{SINCE_US}",
        change="raised",
        rule=DISK_READ_ONLY,
        gateway="gw-barn",
        part="",
        site="campus/north",
        severity=terms.severity,
        since_us=SINCE_US,
        at_us=SINCE_US,
        message="its disk takes nothing any more: it is read-only",
        value=None,
        what_to_do=terms.what_to_do,
    )
    box = Mailbox()
    server = Controller(box, hostname="127.0.0.1", port=free_port())
    server.start()
    try:
        MailWay(
            MailServer(host="127.0.0.1", port=server.port, starts_tls=False, tls=None),
            own_name="gw-barn",
            sender="hedgerow@example.org",
            to=["ops@example.org"],
            link=lambda _: LINK,
        ).take([record])
    finally:
        server.stop()
    (one,) = box.mails
    return one


def pictured(one: EmailMessage) -> str:
    """Return the picture of a mail, as a reader of mails in a terminal shows it."""
    heads = [(f"{name:8} {one[name]}", Style.STRONG) for name in ("From", "To", "Subject")]
    body = [(line, Style.PLAIN) for line in one.get_content().splitlines()]
    lines = tuple(((text, style),) for text, style in (*heads, ("", Style.PLAIN), *body))
    return svg(TopFrame(lines), "A mail about an alert")


def test_the_picture_of_the_documents_is_a_mail_that_arrives() -> None:
    assert PICTURE.read_text() == pictured(mail())


if __name__ == "__main__":
    PICTURE.write_text(pictured(mail()))
