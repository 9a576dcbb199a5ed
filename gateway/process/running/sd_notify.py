"""Tells systemd how the process is doing (sd_notify(3)): ready, alive, stopping.

A datagram to the socket that systemd names; where there is none, as under a shell, nothing.
"""

from __future__ import annotations

import os
import socket


def notify(state: str) -> None:
    """Send a state such as ``READY=1``; a service manager that is gone is not waited for."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return


def tell_ready() -> None:
    """Tell that the gateway serves; the watchdog has the service's own patience from then on."""
    patience_us = os.environ.get("WATCHDOG_USEC", "")
    has_watchdog = watchdog_interval_s() is not None
    notify(f"READY=1\nWATCHDOG_USEC={patience_us}" if has_watchdog else "READY=1")


def watchdog_interval_s() -> float | None:
    """Return how often systemd wants to hear that the process is alive: half of its patience."""
    patience_us = os.environ.get("WATCHDOG_USEC", "")
    if not patience_us.isdigit() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(
        os.getpid()
    ):
        return None
    return int(patience_us) / 2e6
