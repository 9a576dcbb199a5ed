"""A look-up may tell what was registered while it was under way, and nothing that is older."""

from __future__ import annotations

import pytest

from gateway.coap.fleet_directory.kept import STALE_S
from gateway.coap.fleet_directory.partial import PARTIAL
from gateway.tools.directory_simulation.ledger import AGE_S, RegistrationLedger
from resource_directory.link_format import WebLink
from resource_directory.scoped import GATEWAY, STALE

GW, ENDPOINT = "gw-a", "gw-a.sensor"


@pytest.fixture
def ledger() -> RegistrationLedger:
    made = RegistrationLedger()
    made.registered(GW, ENDPOINT, 100.0, 200.0)
    return made


def link(endpoint: str = ENDPOINT, **attributes: str) -> WebLink:
    return WebLink(f"/r/{endpoint}", tuple({GATEWAY: GW, **attributes}.items()))


def wrong(ledger: RegistrationLedger, now: float, one: WebLink) -> list[tuple[int, str]]:
    return list(ledger.wrong([one], now))


def test_it_is_there_from_its_registration_until_it_ends(ledger: RegistrationLedger) -> None:
    times = (99.9, 100.0, 199.9, 200.0)
    assert [ledger.at([GW], now) for now in times] == [set(), {ENDPOINT}, {ENDPOINT}, set()]
    assert ledger.at(["gw-b"], 150.0) == set()
    assert ledger.at([GW], 150.0, for_s=49.9) == {ENDPOINT}
    assert ledger.at([GW], 150.0, for_s=50.0) == set()


def test_a_registration_that_is_renewed_in_time_goes_on_and_a_late_one_is_another(
    ledger: RegistrationLedger,
) -> None:
    ledger.registered(GW, ENDPOINT, 200.0, 300.0)
    gap = 300.0 + AGE_S + 10.0
    ledger.registered(GW, ENDPOINT, gap, gap + 100.0)
    assert wrong(ledger, 250.0, link()) == []
    assert wrong(ledger, 300.0 + AGE_S, link()) == []
    [(invariant, what)] = wrong(ledger, gap - 1.0, link())
    assert (invariant, f"told at {gap - 1.0:.1f} s" in what) == (8, True)
    assert wrong(ledger, gap, link()) == []


def test_what_is_removed_is_there_no_more_and_its_end_never_later(
    ledger: RegistrationLedger,
) -> None:
    ledger.removed(GW, "gw-a.other", 150.0)
    ledger.removed(GW, ENDPOINT, 150.0)
    assert ledger.at([GW], 150.0) == set()
    ledger.removed(GW, ENDPOINT, 160.0)
    assert wrong(ledger, 150.0 + AGE_S, link()) == []
    assert wrong(ledger, 150.1 + AGE_S, link()) == [
        (8, f"{ENDPOINT} at {GW}, told at {150.1 + AGE_S:.1f} s, was there [100.0, 150.0]")
    ]


def test_a_link_that_says_how_old_it_is_was_there_then(ledger: RegistrationLedger) -> None:
    # It is told in whole seconds.
    assert wrong(ledger, 200.0 + AGE_S + 31.0, link(**{STALE: "30"})) == []
    assert len(wrong(ledger, 200.0 + AGE_S + 31.1, link(**{STALE: "30"}))) == 1
    assert len(wrong(ledger, 129.0, link(**{STALE: "30"}))) == 1
    assert wrong(ledger, 130.0, link(**{STALE: "30"})) == []


def test_a_link_is_not_older_than_what_is_kept(ledger: RegistrationLedger) -> None:
    ledger.registered(GW, ENDPOINT, 150.0, 1e9)
    assert wrong(ledger, 1e6, link(**{STALE: f"{STALE_S:g}"})) == []
    assert wrong(ledger, 1e6, link(**{STALE: f"{STALE_S + 1:g}"})) == [
        (8, f"{ENDPOINT} is {STALE_S + 1:g} s old")
    ]


def test_an_endpoint_is_told_of_its_own_gateway_alone(ledger: RegistrationLedger) -> None:
    assert wrong(ledger, 150.0, link("gw-b.sensor")) == [(10, "gw-b.sensor is told as of gw-a")]
    assert wrong(ledger, 150.0, link(**{GATEWAY: "gw-b"})) == [
        (10, "gw-a.sensor is told as of gw-b")
    ]
    never = "gw-a.never"
    assert wrong(ledger, 150.0, link(never)) == [
        (8, f"{never} at {GW}, told at 150.0 s, was there [nan, nan]")
    ]
    assert wrong(ledger, 150.0, link("gw-b.sensor", rt=PARTIAL)) == []
