"""Lines to a syslog, as RFC 5424 has them, over UDP or a socket of this machine."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Final

from alerts.record import AlertRecord
from alerts.text import plain, stamp

_DAEMON: Final = 3
_CRITICAL, _WARNING, _NOTICE = 2, 4, 5
_LINE_BYTES: Final = 2_048
"""The length that each receiver should take (section 6.1)."""


class SyslogWay:
    """Sends alerts to a syslog; over UDP nobody says whether they arrive.

    Args:
        to: a socket's path, or HOST:PORT.
        own_name: how this machine is called.

    """

    def __init__(self, to: str, own_name: str) -> None:
        self._to = to
        self._own_name = own_name

    def take(self, records: Sequence[AlertRecord]) -> None:
        """Send the records to a syslog server over UDP, or to this machine's by its socket.

        Raises:
            OSError: it does not take them; the error names it.

        """
        try:
            self._take(records)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), self._to) from error

    def _take(self, records: Sequence[AlertRecord]) -> None:
        if self._to.startswith("/"):
            family, address = socket.AF_UNIX, self._to
            with contextlib.closing(socket.socket(family, socket.SOCK_DGRAM)) as sender:
                sender.settimeout(5.0)
                sender.connect(address)
                self._send(sender, records)
            return
        host, _, port = self._to.rpartition(":")
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
        with contextlib.closing(socket.socket(found[0][0], socket.SOCK_DGRAM)) as sender:
            sender.connect(found[0][4])
            self._send(sender, records)

    def _send(self, sender: socket.socket, records: Sequence[AlertRecord]) -> None:
        for one in records:
            sender.send(line(one, self._own_name))


def line(one: AlertRecord, own_name: str) -> bytes:
    """Return the line of a record (section 6)."""
    severity = _CRITICAL if one.severity == "critical" else _WARNING
    priority = 8 * _DAEMON + (_NOTICE if one.change == "cleared" else severity)
    text = plain(f"{one}; what to do: {one.what_to_do}; {one.alert}")
    head = f"<{priority}>1 {stamp(one.at_us)} {own_name} hedgerow - {one.rule[:32]} - "
    return f"{head}{text}".encode()[:_LINE_BYTES].decode(errors="ignore").encode()
