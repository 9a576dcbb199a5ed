"""Waits until gateways that benchmarks have started know of each other, and ends them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from typing import Any, Protocol

from benchmarks.broker_process import StartError
from benchmarks.query_client import QueryClient

_STOP_LIMIT_S = 20.0
_LOOK_S = 0.1


class StatedGateway(Protocol):
    """One that says how it is."""

    def status(self, client: QueryClient) -> dict[str, Any]:
        """Fetch the status that it gives of itself."""


def wait_for_all(gateways: Sequence[StatedGateway], limit_s: float) -> None:
    """Wait until each of them reaches all others.

    Raises:
        StartError: they did not in time.

    """
    client, end_s = QueryClient(), time.monotonic() + limit_s
    try:
        for gateway in gateways:
            while True:
                status = gateway.status(client)
                if len(status["reached"]) == len(status["members"]) - 1 == len(gateways) - 1:
                    break
                if time.monotonic() > end_s:
                    raise StartError("the gateways did not find each other")
                time.sleep(_LOOK_S)
    finally:
        client.close()


def end(process: subprocess.Popen[bytes]) -> None:
    """End a gateway, at once if it does not end by itself."""
    process.terminate()
    try:
        process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
