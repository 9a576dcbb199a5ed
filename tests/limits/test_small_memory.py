"""Goal: a machine with little memory starts on whatever it kept, and serves within it.

Method: a state folder has the file of a Resource Directory that four devices' keys filled to all
that a machine with more memory lets them (400 MiB, 564 MB of a process). A gateway whose process
may have 384 MB starts on it, is killed and starts again; clients retain and queue as much as they
are let. Linux kills a process that takes more than its group may have; here it is refused memory
instead (``RLIMIT_DATA``), which none of its parts expects, so that it would end or say so.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from gateways import Gateway
from raw_client import Client
from victim import say

from resource_directory import journal
from resource_directory.link_format import WebLink
from resource_directory.registry import Registry, RegistryLimits

MEMORY_BYTES = 384_000_000
LINKS = [
    WebLink(f"/sensors/{number:04}", (("rt", "temperature"), ("unit", "Cel"), ("obs", None)))
    for number in range(2_048)
]
BODY = bytes(64 << 10)
REFUSED = 0x80
FLOOD = 1_500
"""Messages of that size: 96 MiB, of what is retained and of what waits."""


def filled(path: Path) -> int:
    """Write the file of a directory that is full; how many registrations it has."""
    registry = Registry("/rd/1-")
    now = time.time()
    for owner in range(4):
        held = 0
        while True:
            name = f"device-{owner}-{held}"
            made = registry.register(
                name,
                LINKS,
                0.0,
                base=f"coap://{name}",
                lifetime_s=90_000,
                owner=f"psk:{owner}",
            )
            made.expires_at = now + 90_000
            held += made.held
            if held + made.held > RegistryLimits().size_per_owner:
                break
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for one in registry.registrations():
            file.write(journal.registered(one))
    return len(registry)


def flooded(client: Client, *, retain: bool) -> int:
    """Publish until it is refused, or enough; how many were taken."""
    taken = 0
    for number in range(FLOOD):
        answer = client.publish(f"r/{number}", BODY, qos=1, retain=retain)
        if answer is None or answer.reason >= REFUSED:
            break
        taken += 1
    return taken


@pytest.mark.soak("half a million links are read twice")
def test_a_process_with_384_mb_starts_on_a_full_directory_and_serves(tmp_path: Path) -> None:
    kept = filled(tmp_path / "state" / "resource-directory")
    size = (tmp_path / "state" / "resource-directory").stat().st_size
    say(f"{kept} registrations in a file of {size >> 20} MiB")
    limited = ("prlimit", f"--data={MEMORY_BYTES}")
    gateway = Gateway(tmp_path, "", 'tls = "off"', command=limited)
    try:
        broker = gateway.broker(5)
        away = broker.connect("away", clean=False, props=[(0x11, 3_600)])
        away.subscribe(("r/#", 1))
        away.disconnect()
        for start in (1, 2):
            assert gateway.log().count("registrations are left out") == start
            say(f"start {start}: {gateway.rss_bytes() >> 20} MiB")
            client = gateway.broker(5).connect()
            retained, queued = flooded(client, retain=True), flooded(client, retain=False)
            say(f"{retained} retained, {queued} queued: {gateway.rss_bytes() >> 20} MiB")
            assert retained < FLOOD == queued
            client.ping()
            assert gateway.rss_bytes() < MEMORY_BYTES
            say(f"within {gateway.kill_and_start():.1f} s again")
        assert "MemoryError" not in gateway.log()
        gateway.stop()
    finally:
        gateway.process.kill()
        gateway.process.wait()
