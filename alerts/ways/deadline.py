"""A time limit on all of an exchange, however slowly its other end speaks."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

EXCHANGE_S: Final = 30.0
"""From the connection to the last byte of the answer."""


class DeadlineError(TimeoutError):
    """An exchange took longer than it may, though its other end spoke now and then."""


@contextlib.contextmanager
def within(seconds: float, socket_of: Callable[[], socket.socket | None]) -> Iterator[None]:
    """Shut a socket when the time is over: whoever waits for it gets an error.

    A time limit of the socket's own holds for each read: a server that says a byte now and then
    keeps it from ever ending.

    Args:
        seconds: how long.
        socket_of: gives the socket, once there is one.

    Raises:
        DeadlineError: it was shut.

    """
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        if (open_socket := socket_of()) is not None:
            with contextlib.suppress(OSError):
                # Not that of TLS: it would take its state away from who is reading.
                socket.socket.shutdown(open_socket, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        if not is_over.is_set():
            raise
        failure = error
    finally:
        timer.cancel()
    if is_over.is_set():  # also where what was cut off looked like an end
        raise DeadlineError(f"it took longer than {seconds:g} s") from failure
