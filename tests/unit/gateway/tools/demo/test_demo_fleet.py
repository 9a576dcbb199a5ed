"""A process of the demo that ends at its start says why, and one that was killed is gone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gateway.process.state_folder import listeners_file
from gateway.tools.demo.fleet import SITES, Fleet, FleetError, Member

SITE = SITES[0]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet of one gateway, whose program is what a test writes to `python`."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "python").touch(mode=0o755)
    (tmp_path / SITE.gateway_id).mkdir()
    return Fleet(tmp_path, members={SITE.gateway_id: Member(SITE, 1, 2, 3, 4)})


@pytest.mark.parametrize(
    ("said", "why"), [("echo no port is free", "no port is free"), (":", "it has logged nothing")]
)
async def test_a_gateway_that_ends_at_its_start_is_told_with_its_last_words(
    said: str, why: str, fleet: Fleet
) -> None:
    (fleet.folder / "python").write_text(f"#!/bin/sh\n{said}\nexit 3\n")
    with pytest.raises(FleetError) as raised:
        await fleet.start_gateway(SITE.gateway_id)
    assert str(raised.value) == f"{SITE.gateway_id} ended with 3: {why}"


async def test_a_gateway_has_started_when_it_listens_and_is_gone_when_it_was_killed(
    fleet: Fleet,
) -> None:
    listeners = fleet.state_dir(SITE.gateway_id) / listeners_file.NAME
    listeners.write_text("of the one before")
    (fleet.folder / "python").write_text(f"#!/bin/sh\n: >{listeners}\nexec sleep 600\n")
    await fleet.start_gateway(SITE.gateway_id)
    try:
        assert listeners.read_text() == ""
        process = fleet.members[SITE.gateway_id].process
        assert process is not None and process.returncode is None
    finally:
        await fleet.kill(SITE.gateway_id)
    assert process.returncode == -9
    assert fleet.members[SITE.gateway_id].process is None
