"""A wire between a client and a server at loopback that is slow, is cut, or carries nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"
_PIECE = 4096


@dataclass
class Wire:
    """A wire to a server's port.

    Attributes:
        port: where the wire begins.
        to: the server's.
        bytes_per_s: at most so many, each way; None for all.
        cut_after: each connection ends after so many bytes from the client; None for none.
        is_silent: whether nothing passes though connections are taken.
        loses_answers: each connection ends where the server says something.
        passed: bytes from clients so far.

    """

    to: int
    port: int = 0
    bytes_per_s: int | None = None
    cut_after: int | None = None
    is_silent: bool = False
    loses_answers: bool = False
    passed: int = 0
    _ends: list[socket.socket] = field(default_factory=list)

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._ends.append(client)
            if self.is_silent:
                continue
            try:
                server = socket.create_connection((LOOPBACK, self.to))
            except OSError:
                client.close()
                continue
            self._ends.append(server)
            for one, other, is_up in ((client, server, True), (server, client, False)):
                thread = threading.Thread(target=self._pass, args=(one, other, is_up), daemon=True)
                thread.start()

    def close(self) -> None:
        for end in self._ends:
            end.close()

    def _pass(self, source: socket.socket, target: socket.socket, is_up: bool) -> None:
        carried = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                carried += len(piece)
                self.passed += len(piece) if is_up else 0
                if is_up and self.cut_after is not None and carried > self.cut_after:
                    break
                if not is_up and self.loses_answers:
                    break
                if self.bytes_per_s is not None:
                    time.sleep(len(piece) / self.bytes_per_s)
                target.sendall(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def wire_to(port: int) -> Iterator[Wire]:
    """A wire to a port, which a test may harm at any time."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        wire = Wire(port, listener.getsockname()[1])
        threading.Thread(target=wire.serve, args=(listener,), daemon=True).start()
        try:
            yield wire
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            wire.close()
