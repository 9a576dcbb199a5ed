"""Ports of a test's own, for programs that can't be asked for the one that they were given."""

from __future__ import annotations

import os
import random
import socket
from collections import deque

_LATELY: deque[int] = deque(maxlen=500)
"""Those given out last: who has got one may not have opened it yet."""


def free_port() -> int:
    """A port that nothing takes while the broker is down.

    It is below those that systems give out, and of this worker of pytest alone; neither TCP nor
    UDP has it.
    """
    first = 20_000 + 1_000 * (_number_of_this_worker() % 12)
    while True:
        port = random.randrange(first, first + 1_000)
        if port in _LATELY:
            continue
        with socket.socket() as probe, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            _LATELY.append(port)
            return port


def _number_of_this_worker() -> int:
    """Behind those of another pytest that runs at the same time, where ``make test`` says so."""
    among_its_own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return int(os.environ.get("FIRST_WORKER", "0")) + among_its_own
