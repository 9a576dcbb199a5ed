"""Finds connections whose other end is gone without a word, for clients without a keep-alive."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


def keep_watch(connection: Any) -> None:
    """Let TCP close a connection two minutes after its other end has gone (tcp(7)).

    Args:
        connection: a socket; anything else is left alone.

    """
    if not hasattr(connection, "setsockopt"):
        return
    with contextlib.suppress(OSError):  # no TCP
        for level, option, value in _OPTIONS:
            connection.setsockopt(level, option, value)
