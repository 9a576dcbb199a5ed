"""Joins an operator's connection to the relay with the way of a gateway, if the operator may.

    reach.py TABLE OPERATOR GATEWAY...

sshd of the relay runs it for each connection of an operator, whatever that asks for; what was asked
is the name of a gateway (SSH_ORIGINAL_COMMAND). The gateways that are named are those that the
operator may reach, `*` for all. Each use is noted first: where it can't be, nobody comes through.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

EVERY: Final = "*"
CONNECT_S: Final = 10.0
PIECE_BYTES: Final = 1 << 16
SHOWN_CHARACTERS: Final = 64
"""The length to which a message shows what an operator asked for."""
_AUTHPRIV_INFO: Final = 10 * 8 + 6
"""RFC 3164, section 4.1.1."""


class RefusedError(Exception):
    """The operator does not come through; the message says why, and what to do."""


@dataclass(frozen=True)
class Table:
    """Tells what the relay knows.

    Attributes:
        log: socket of the system's log, as syslog(3) writes to it.
        ways: the address at which each gateway's way ends, `HOST:PORT`.

    """

    log: str
    ways: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read it from its file, JSON."""
        told = json.loads(path.read_text())
        return cls(told["log"], told["ways"])


def chosen(table: Table, operator: str, may_reach: Sequence[str], asked: str) -> str:
    """Return the gateway that is asked for, if the operator may reach it.

    Raises:
        RefusedError: there is none, or it is another's.

    """
    if asked in table.ways and (asked in may_reach or EVERY in may_reach):
        return asked
    raise RefusedError(
        f"{operator} may not reach {shown(asked)!r}, or the relay does not know it: "
        "relay_operators of the inventory says who reaches what, and relay.yml tells the relay"
    )


def shown(text: str) -> str:
    """Return a text of others as a line may have it."""
    return "".join(one if one.isprintable() else "?" for one in text[:SHOWN_CHARACTERS])


class Trail:
    """Notes one connection in the system's log.

    Args:
        log: socket of the log.
        who: the operator.
        source: the address that the operator comes from.

    Raises:
        RefusedError: nothing can be noted.

    """

    def __init__(self, log: str, who: str, source: str) -> None:
        self._who, self._source = who, source
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.connect(log)
        except OSError as error:
            raise RefusedError(
                f"the relay can note nothing ({log}: {error.strerror}), so nobody comes through: "
                "is systemd-journald up there?"
            ) from error

    def note(self, what: str, gateway: str, **of: int) -> None:
        """Write one line.

        Raises:
            RefusedError: it can't be written.

        """
        said = {
            "who": self._who,
            "what": what,
            "gateway": shown(gateway),
            "from": self._source,
            **of,
        }
        line = f"<{_AUTHPRIV_INFO}>hedgerow-relay[{os.getpid()}]: {json.dumps(said)}"
        try:
            self._socket.send(line.encode())
        except OSError as error:
            raise RefusedError(f"the relay can note nothing ({error.strerror})") from error


def connected(gateway: str, where: str) -> socket.socket:
    """Connect with a gateway's way.

    Raises:
        RefusedError: the gateway holds none.

    """
    host, _, port = where.rpartition(":")
    try:
        way = socket.create_connection((host, int(port)), CONNECT_S)
    except OSError as error:
        raise RefusedError(
            f"{gateway} is not connected to the relay now: is it on and in a network, and does "
            "hedgerow-relayed.service run on it?"
        ) from error
    way.settimeout(None)
    return way


class _Counted:
    """Counts the bytes that it writes on."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes = 0

    def write(self, piece: bytes) -> int:
        self._file.write(piece)
        self._file.flush()
        self.bytes += len(piece)
        return len(piece)


def join(way: socket.socket) -> tuple[int, int]:
    """Carry bytes both ways until the gateway's side ends; return how many to it and from it.

    Nothing ends it by time: sshd ends what does not answer, on either side.
    """
    to_gateway = _Counted(way.makefile("wb", buffering=0))
    from_gateway = _Counted(sys.stdout.buffer)

    def carry_to_gateway() -> None:
        with contextlib.suppress(OSError):  # it has gone, which the other direction tells
            with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as asked:
                shutil.copyfileobj(asked, to_gateway, PIECE_BYTES)
            way.shutdown(socket.SHUT_WR)

    threading.Thread(target=carry_to_gateway, daemon=True).start()
    with contextlib.suppress(OSError):  # the operator has gone
        shutil.copyfileobj(way.makefile("rb", buffering=0), from_gateway, PIECE_BYTES)
    return to_gateway.bytes, from_gateway.bytes


def main(arguments: Sequence[str]) -> int:
    """Let one operator through; return the exit code."""
    table, operator, *may_reach = arguments
    asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    source = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
    try:
        known = Table.read(Path(table))
        trail = Trail(known.log, operator, source)
        try:
            gateway = chosen(known, operator, may_reach, asked)
            way = connected(gateway, known.ways[gateway])
        except RefusedError:
            trail.note("way refused", asked)
            raise
        trail.note("way opened", gateway)
        began_s = time.monotonic()
        to_bytes, from_bytes = join(way)
        lasted_s = round(time.monotonic() - began_s)
        trail.note(
            "way closed", gateway, seconds=lasted_s, to_bytes=to_bytes, from_bytes=from_bytes
        )
    except RefusedError as error:
        sys.stderr.write(f"relay: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a thread may read on what never comes
