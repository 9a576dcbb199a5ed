"""Thirty booted systems, provisioned from one inventory, are a fleet.

On a PC with two cores that takes longer than a test may: it runs with ``--soak`` alone. What it
prints stands in docs/day-two.md, "What it takes".
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import bed
import pytest
from empty_bed import empty_bed
from fleet import PASSWORD, DeployedFleet, Play
from upgrade_load import Load

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(7200)]

SYSTEMS = 30
DOMAINS = ("campus", "harbour", "works")
GROUPS = ("east", "north", "south")
PLAY_S = 3600.0
TREE_S = 600.0
"""To ask thirty gateways, each with a process of its own, takes half a minute alone."""


def places() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Name, domain, group and neighbours of each gateway, those that it dials before it.

    The root, a gateway for each domain in a ring with it, and in the groups of a domain gateways
    of which each has its forerunner and the one before that: rings of three all the way down.
    """
    yield "gw-root", "", "", ()
    for before, domain in zip(("", *DOMAINS), DOMAINS, strict=False):
        yield f"gw-{domain}", domain, "", ("gw-root", *([f"gw-{before}"] if before else []))
    counts = Counter[tuple[str, str]]()
    line: dict[str, list[str]] = {domain: ["gw-root", f"gw-{domain}"] for domain in DOMAINS}
    for number in range(SYSTEMS - 1 - len(DOMAINS)):
        domain = DOMAINS[number % len(DOMAINS)]
        group = GROUPS[number // len(DOMAINS) % len(GROUPS)]
        counts[domain, group] += 1
        name = f"gw-{domain}-{group}-{counts[domain, group]}"
        yield name, domain, group, tuple(line[domain][-2:])
        line[domain].append(name)


@pytest.fixture(scope="module")
def of_thirty(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DeployedFleet]:
    """Thirty booted systems and their inventory; nothing is provisioned yet."""
    if not request.config.getoption("--soak"):
        pytest.skip("thirty systems take up to 45 minutes on two cores: --soak")
    with ExitStack() as stack:
        made = stack.enter_context(empty_bed(tmp_path_factory))
        stack.enter_context(bed.room_for(SYSTEMS))
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"), play_s=PLAY_S)
        for name, domain, group, neighbours in places():
            fleet.add(name, domain, group, neighbours)
        bed.boot_all(list(made.pis.values()))
        yield fleet


@pytest.fixture(scope="module")
def first(of_thirty: DeployedFleet) -> Play:
    """The first run of site.yml, behind which all are one tree."""
    return of_thirty.provision(within_s=TREE_S)


@pytest.fixture(scope="module")
def told(of_thirty: DeployedFleet, first: Play) -> dict[str, dict[str, Any]]:
    """The status that each gateway tells."""
    tell(of_thirty, "first run", first, dict.fromkeys(of_thirty.hosts, 0))
    return {name: of_thirty.status(name) for name in of_thirty.hosts}


def sent(fleet: DeployedFleet) -> dict[str, int]:
    return {name: pi.sent_bytes() for name, pi in fleet.bed.pis.items()}


def tell(fleet: DeployedFleet, what: str, play: Play, before: dict[str, int]) -> None:
    each = sorted(count - before[name] for name, count in sent(fleet).items())
    sys.stderr.write(
        f"\n{what} over {len(each)}: {play.took_s:.0f} s; {each[0] / 1e6:.2f} to "
        f"{each[-1] / 1e6:.2f} MB to each, {sum(each) / 1e6:.0f} MB to all\n"
    )


def farthest(told: dict[str, dict[str, Any]]) -> str:
    return max(told, key=lambda name: int(told[name]["hops"] or 0))


def gateway_of_another_domain(fleet: DeployedFleet, than: str) -> str:
    """The last one of the inventory that is not in this one's domain."""
    domain = fleet.hosts[than]["gateway_domain"]
    others = [
        name
        for name, one in fleet.hosts.items()
        if one["gateway_domain"] != domain and one["gateway_group"]
    ]
    return others[-1]


def test_all_thirty_are_one_tree_over_mutual_tls_and_each_knows_all(
    of_thirty: DeployedFleet, told: dict[str, dict[str, Any]]
) -> None:
    assert len(told) == SYSTEMS
    assert len({one["root"] for one in told.values()}) == 1
    assert [name for name, one in told.items() if one["parent"] is None] == [
        told["gw-root"]["root"]
    ]
    assert all(set(one["members"]) == set(of_thirty.hosts) for one in told.values())
    # As the inventory has them, there are more links than a tree's, and each is over TLS.
    dialled = [
        (name, each["address"])
        for name, one in told.items()
        for each in one["dialling"]["addresses"]
        if each["linked"]
    ]
    assert len(dialled) >= SYSTEMS
    assert all(address.endswith(":8883") for _, address in dialled)
    assert not [refused for one in told.values() for refused in one.get("refused_links", ())]
    sys.stderr.write(f"hops: {sorted(Counter(one['hops'] for one in told.values()).items())}\n")


def test_an_operator_reads_a_sensor_of_the_farthest_through_another(
    of_thirty: DeployedFleet, told: dict[str, dict[str, Any]]
) -> None:
    far = farthest(told)
    place = of_thirty.hosts[far]
    through = of_thirty.bed.pis[gateway_of_another_domain(of_thirty, far)].address
    path = f"{place['gateway_domain']}/{place['gateway_group']}/{far}/sensors/valve"
    code, said = of_thirty.hedgerow("get", f"coaps://{through}/q/{path}")
    assert code == 0, said
    assert '"v":' in said


def test_a_message_of_quality_1_arrives_at_another_end(
    of_thirty: DeployedFleet, told: dict[str, dict[str, Any]]
) -> None:
    far = farthest(told)
    ends = [of_thirty.bed.pis[one] for one in (gateway_of_another_domain(of_thirty, far), far)]
    with Load(of_thirty.bed.switch, *(pi.address for pi in ends), PASSWORD) as load:
        pass
    assert load.acknowledged
    assert not load.lost


def test_a_second_run_changes_nothing(
    of_thirty: DeployedFleet, told: dict[str, dict[str, Any]]
) -> None:
    before = sent(of_thirty)
    again = of_thirty.play("site.yml").worked()
    tell(of_thirty, "second run", again, before)
    assert [name for name in of_thirty.hosts if again.recap(name)["changed"]] == []
