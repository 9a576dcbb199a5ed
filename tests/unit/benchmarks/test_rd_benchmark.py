"""Goal: the directories' benchmark asks each peer in its own words, and says who had fewer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import coap_load, coap_servers, rd, rd_cases
from benchmarks.coap_load import Load, Programs, Run
from benchmarks.coap_servers import AIOCOAP_RD, LIBCOAP_RD, OURS, Served
from benchmarks.rd_cases import MOST_OF_AIOCOAP, Directory, Measurement, Plan

PROGRAMS = Programs(Path("generator"), Path("null"), Path("observers"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Load]]:
    """Give the ports and loads that the generator gets; each run succeeds at once."""
    loads: list[tuple[int, Load]] = []

    def run(_programs: Programs, load: Load, port: int, **_: float) -> Run:
        loads.append((port, load))
        if load.locations is not None:
            load.locations.write_text("/rd/1\n")
        return Run(10.0, answered=load.count)

    monkeypatch.setattr(coap_load, "run", run)
    monkeypatch.setattr(Served, "rss_mib", lambda _: 1.0)
    monkeypatch.setattr(Served, "threads", lambda _: 1)
    return loads


def _served(name: str, port: int) -> Served:
    return Served(name, port, None, 0)


def test_a_registration_is_one_datagram() -> None:
    assert all(len(rd_cases.links(count)) <= 1024 for count in Plan(1, 1, 1.0).link_counts)


def test_each_directory_is_asked_where_its_look_ups_are(tmp_path: Path) -> None:
    paths = [
        Directory(_served(name, 1), 1, tmp_path, Run()).look_up("ep", "ep=n#")
        for name in (OURS, AIOCOAP_RD)
    ]
    assert paths == ["/rd-lookup/ep?ep=n#", "/endpoint-lookup/?ep=n#"]


@pytest.mark.usefixtures("asked")
def test_what_a_peer_reached_with_fewer_endpoints_says_so(tmp_path: Path) -> None:
    servers = [_served(OURS, 1), _served(AIOCOAP_RD, 2)]
    results = Measurement(Plan(100_000, 1, 0.1), PROGRAMS, tmp_path).results(servers)
    (look_up,) = [result for result in results if result.case.startswith("look-ups by ep")]
    text = "\n".join(look_up.lines())
    assert text.count(f"at {MOST_OF_AIOCOAP:,} endpoints ONLY") == 1
    assert "target 1,000 x: MISSED" in text


def test_coap_rd_is_not_asked_for_what_ends_it_or_what_it_has_not(
    tmp_path: Path, asked: list[tuple[int, Load]]
) -> None:
    list(Measurement(Plan(500, 1, 0.1), PROGRAMS, tmp_path).results([_served(LIBCOAP_RD, 1)]))
    assert not [load for _, load in asked if load.method == coap_load.DELETE]
    assert not [load for _, load in asked if "lookup" in load.uri]


def test_what_a_round_registers_is_removed_again(
    tmp_path: Path, asked: list[tuple[int, Load]]
) -> None:
    list(Measurement(Plan(500, 2, 0.1, (1,)), PROGRAMS, tmp_path).results([_served(OURS, 1)]))
    created = [load.locations for _, load in asked[1:] if load.locations]
    removed = [load.paths for _, load in asked if load.method == coap_load.DELETE]
    assert created == removed
    assert len(removed) == 2


def test_every_group_of_a_full_run_has_a_name_of_its_own() -> None:
    names = [group.name for group in rd.groups(is_quick=False)]
    assert len(set(names)) == len(names) == 5


@pytest.mark.parametrize("secret", ["tree.key", "psk"])
def test_a_gateways_keys_are_its_own(
    secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare: Callable[[Path, int], list[str]] = coap_servers.all_ours(fills=False)[0].prepare
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path, 5000)
    assert (tmp_path / secret).stat().st_mode & 0o077 == 0
