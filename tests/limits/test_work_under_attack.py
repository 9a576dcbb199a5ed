"""Goal: who makes a gateway work with few bytes makes nobody wait.

Method: one gateway process with the limits of the default configuration and a neighbour. A user
publishes with QoS 1, one message after the other: first alone, then beside an attack. In one run
both are measured, and the gateway's processor time; what is printed (``-s``) stands in
docs/trust.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from attacked_fleet import KEY, AttackedFleet, plain_address
from attacking import Attack, attacking
from hostile_fleet import port_of
from mqtt_attackers import GREEDY, GREEDY_PASSWORD
from served_dashboard import served
from victim import P99_MS, Figures, say
from work_attackers import (
    HEAD,
    ClientsProperties,
    EmptyFrames,
    FilterSender,
    HalfRequests,
    ObservedRegistrations,
    Registrations,
    SharedValues,
    Sockets,
    StrangersProperties,
    StrangersRegistrations,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))

import coap_parsers

MEASURED_S = 10.0
SOAK = "20 s for each attack; how much work an input may cost is counted in test_work_of_parsers.py"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedFleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with AttackedFleet.running(folder, is_soak=True, mqtt="websocket_port = 0") as running:
        yield running


def measured(
    fleet: AttackedFleet, attack: Attack | None, pid: int | None = None
) -> tuple[Figures, float]:
    """Measure a publisher's waits, and which part of a processor the gateway takes.

    With ``pid`` it is the part that this process takes.
    """
    process = psutil.Process(pid or fleet.gateway.process.pid)
    begun_s, before = time.monotonic(), process.cpu_times()
    end_s = begun_s + MEASURED_S
    figures = fleet.victim.publishes(lambda: time.monotonic() >= end_s)
    after, took_s = process.cpu_times(), time.monotonic() - begun_s
    used_s = after.user + after.system - before.user - before.system
    assert attack is None or not attack.is_over
    return figures, used_s / took_s


def attacks(fleet: AttackedFleet) -> dict[str, tuple[Any, ...]]:
    gateway = fleet.gateway

    def at(scheme: str) -> tuple[str, int]:
        host, _, port = gateway.listeners[scheme].rpartition(":")
        return host, int(port)

    return {
        "CONNECTs of 25,000 properties": (StrangersProperties, gateway.address, 100),
        "PUBLISHes and SUBSCRIBEs of as many": (ClientsProperties, gateway.address, 8),
        "1,000 deep filters": (FilterSender, gateway.address, 10),
        "empty frames of a websocket": (EmptyFrames, at("ws")),
        "a client's empty frames": (EmptyFrames, at("ws"), (GREEDY, GREEDY_PASSWORD)),
        "half requests at the console": (HalfRequests, at("console"), 100),
        "shared values in CBOR": (
            SharedValues,
            plain_address(gateway),
            100,
            coap_parsers.shared(300),
        ),
        "registrations of a device": (
            *(Registrations, port_of(gateway, "coaps"), 200),
            *("thermometer", KEY.encode()),
        ),
        "registrations that a thousand look-ups observe": (
            *(ObservedRegistrations, port_of(gateway, "coaps"), 2),
            *("thermometer", KEY.encode()),
        ),
        "registrations of a stranger": (StrangersRegistrations, plain_address(gateway), 500),
    }


@pytest.mark.soak(SOAK)
@pytest.mark.parametrize(
    "name",
    [
        *("CONNECTs of 25,000 properties", "PUBLISHes and SUBSCRIBEs of as many"),
        *("1,000 deep filters", "empty frames of a websocket", "a client's empty frames"),
        *("half requests at the console", "shared values in CBOR"),
        *("registrations of a device", "registrations of a stranger"),
        "registrations that a thousand look-ups observe",
    ],
)
def test_work_that_few_bytes_make_holds_up_nobody(fleet: AttackedFleet, name: str) -> None:
    alone, its_own = measured(fleet, None)
    with attacking(*attacks(fleet)[name]) as attack:
        beside, used = measured(fleet, attack)
        if "console" in name:
            assert fleet.gateway.get("/healthz") == "ok\n"
        seen = attack.stop()
    say(
        f"{name}: p99 {alone.p99_ms:.1f} -> {beside.p99_ms:.1f} ms, "
        f"{beside.p99_ms / alone.p99_ms:.1f} times as long; processor {its_own:.0%} -> {used:.0%}; "
        f"{beside}; {dict(seen)}"
    )
    assert beside.p99_ms < P99_MS
    fleet.gateway.wait_for(lambda: fleet.gateway.get("/healthz") == "ok\n")


@pytest.mark.soak(SOAK)
@pytest.mark.parametrize("said", [b"", HEAD], ids=["open sockets", "half requests"])
def test_a_dashboard_that_is_full_of_visitors_holds_up_nobody(
    fleet: AttackedFleet, tmp_path: Path, said: bytes
) -> None:
    with served(tmp_path) as board:
        alone, its_own = measured(fleet, None, board.process.pid)
        with attacking(Sockets, board.address, 520, said) as attack:
            beside, used = measured(fleet, attack, board.process.pid)
            assert board.page() == 200
            seen = attack.stop()
    say(
        f"{'half requests' if said else 'open sockets'} at the dashboard: p99 {alone.p99_ms:.1f} "
        f"-> {beside.p99_ms:.1f} ms, {beside.p99_ms / alone.p99_ms:.1f} times as long; processor "
        f"of the dashboard {its_own:.0%} -> {used:.0%}; {beside}; {dict(seen)}"
    )
    assert beside.p99_ms < P99_MS
