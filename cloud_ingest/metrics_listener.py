"""``/metrics`` of the ingest job and of the dashboard, for a Prometheus or a proxy on this machine.

Figures of a process hold nothing secret, and the listener has no log-in and no limit on who waits:
so it is for this machine alone. The library that serves it is loaded where somebody asks for it.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PORT_MAX: Final = 65_535

MetricsSource = Callable[[], "Iterable[Metric]"]
"""Gives all metrics as they are now; called from a thread."""


class MetricsAddressError(ValueError):
    """An address to serve metrics at is wrong; the message says why."""


def parse_address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT`` of this machine.

    Raises:
        MetricsAddressError: it is none.

    """
    host, _, port = text.rpartition(":")
    name = host.removeprefix("[").removesuffix("]")
    if not name or not port.isascii() or not port.isdecimal() or int(port) > PORT_MAX:
        raise MetricsAddressError(f"{text!r} is not HOST:PORT")
    try:
        is_here = name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        why = "is reached from elsewhere, where it has no log-in: have a proxy on this machine"
        raise MetricsAddressError(f"{text!r} {why}")
    return ("127.0.0.1" if name == "localhost" else name), int(port)


@contextlib.contextmanager
def serving(host: str, port: int, figures: MetricsSource) -> Iterator[int]:
    """Serve figures meanwhile, with those of the process; give the port.

    Args:
        host: of `parse_address`.
        port: likewise; 0 takes a free one.
        figures: what is told.

    Raises:
        OSError: the address is in use.

    """
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415
    from prometheus_client.process_collector import PROCESS_COLLECTOR  # noqa: PLC0415

    class _Collected:
        def collect(self) -> Iterator[Metric]:
            yield from figures()
            yield from PROCESS_COLLECTOR.collect()

        def describe(self) -> list[Metric]:
            return []  # else it is asked for its figures before there are any

    registry = CollectorRegistry()
    registry.register(_Collected())
    server, thread = start_http_server(port, host, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
