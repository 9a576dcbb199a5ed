"""Goal: no MQTT client takes more than its share, and nobody else waits for it.

Method: two linked gateway processes with the limits of the default configuration. One user, or many
strangers, attack one of them from a process of their own; meanwhile another user publishes there
with QoS 1 what a client of his gets at the neighbour, and others of his come in. How long PUBACKs
took and how much memory grew is printed (``-s``). Then the gateway is killed: it starts on what the
attack left there, and a session that was away gets all that was acknowledged. ``--soak``
(`make soak`) has the attacks last longer, and holds the 99th percentile against its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from attacked_fleet import MEMORY_BYTES, AttackedFleet
from attacking import Attacker, attacking
from dtls_attackers import HalfOpener, HelloSender
from mqtt_attackers import Impostor, PasswordGuesser, QueueFiller, SessionOpener, SilentCaller
from victim import ABSENT, PUBLISHER, say

pytestmark = pytest.mark.drawn(4)

SESSIONS_PER_USER = 5_000
CHECKS_BYTES = 2 * 64 << 20
"""The memory that two passwords take while they are being checked."""


def scope(fixture_name: str, config: pytest.Config) -> Literal["function", "module"]:
    """One fleet stands all attacks, one after the other; a long one has a fleet of its own."""
    return "function" if config.getoption("--soak") else "module"


@pytest.fixture(scope="session")
def is_soak(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope=scope)
def fleet(tmp_path_factory: pytest.TempPathFactory, is_soak: bool) -> Iterator[AttackedFleet]:
    with AttackedFleet.running(tmp_path_factory.mktemp("fleet"), is_soak=is_soak) as running:
        yield running


def stood(
    fleet: AttackedFleet,
    make: Callable[..., Attacker],
    *arguments: object,
    least: Counter[str],
    memory_bytes: int = MEMORY_BYTES,
) -> Counter[str]:
    """Attack while all others are served; return what the attacker saw, at least this much."""
    with attacking(make, *arguments, least=least) as attack:
        fleet.serves_beside(attack, memory_bytes)
        seen = attack.stop()
    say(str(seen))
    assert seen >= least
    return seen


def dtls_port(fleet: AttackedFleet) -> int:
    return int(fleet.gateway.listeners["coaps"].rpartition(":")[2])


def test_sessions_that_one_user_opens_without_end_leave_room_for_others(
    fleet: AttackedFleet, is_soak: bool
) -> None:
    least = Counter(accepted=SESSIONS_PER_USER // 2 if is_soak else 100)
    seen = stood(fleet, SessionOpener, fleet.gateway.address, 10_000, least=least)
    assert seen["accepted"] <= SESSIONS_PER_USER
    fleet.starts_again()
    fleet.victim.comes_in_anew()


def test_wrong_passwords_again_and_again_hold_up_nobody(fleet: AttackedFleet) -> None:
    stood(
        fleet,
        PasswordGuesser,
        fleet.gateway.address,
        1.0,
        least=Counter(floods=1),
        memory_bytes=MEMORY_BYTES + CHECKS_BYTES,
    )
    fleet.starts_again()


def test_who_comes_with_another_ones_client_identifier_is_refused_and_ends_nothing(
    fleet: AttackedFleet,
) -> None:
    others = (PUBLISHER, ABSENT)
    seen = stood(fleet, Impostor, fleet.gateway.address, *others, least=Counter(refused=100))
    assert seen["accepted"] == 0
    fleet.starts_again()


def test_a_thousand_silent_connections_that_come_again_keep_nobody_out(
    fleet: AttackedFleet,
) -> None:
    least = Counter(opened=1_000)
    with attacking(SilentCaller, fleet.gateway.address, 1_000, least=least) as attack:
        fleet.serves_beside(attack)
        fleet.starts_again()
        seen = attack.stop()
    say(str(seen))
    assert seen >= least


def test_dtls_handshakes_that_go_no_further_hold_up_nobody(fleet: AttackedFleet) -> None:
    stood(fleet, HalfOpener, dtls_port(fleet), least=Counter({"half-open": 65}))
    fleet.starts_again()


def test_client_hellos_without_a_cookie_hold_up_nobody(fleet: AttackedFleet) -> None:
    stood(fleet, HelloSender, dtls_port(fleet), least=Counter(sent=1_000))
    fleet.starts_again()


def test_what_one_user_queues_for_sessions_that_are_away_holds_up_nobody(
    fleet: AttackedFleet,
) -> None:
    """Also the flood with QoS 1. With ``--soak`` it is more than what the log keeps."""
    stood(fleet, QueueFiller, fleet.gateway.address, 20, least=Counter(acknowledged=1_000))
    fleet.starts_again()
