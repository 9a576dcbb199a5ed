"""Goal: a member of the fleet that means harm starves nobody, and nothing of it stays.

Method: two honest gateways, each a process, and a member that is a client of its own (see
`hostile_member`): it changes the root, moves thousands of gateways, leaves gaps, says who is
absent, comes and goes, and reads nothing, all at once. A client publishes at its victim meanwhile,
and all that is acknowledged arrives at the other gateway. Then the member leaves: what it took
comes back.
``--soak`` goes on for longer and holds the 99th percentile of PUBACKs against its limit.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from attacked_fleet import NEIGHBOUR, AttackedFleet
from attacking import attacking
from hostile_member import HostileMember
from victim import say

LINES = 700
"""At once, and a few a second: what all links and the tree may say, and all else."""


def test_a_member_that_misbehaves_in_all_ways_at_once_holds_up_nobody(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    is_soak = bool(request.config.getoption("--soak"))
    with AttackedFleet.running(tmp_path, is_soak=is_soak) as fleet:
        gateway = fleet.gateway
        open_files = gateway.open_files()
        least = Counter({"rounds": 20, "requests": 1, "links": 20})
        with attacking(HostileMember, gateway.address, ("gw", NEIGHBOUR), least=least) as attack:
            fleet.serves_beside(attack)
            seen = attack.stop()
            say(str(seen))
        gateway.wait_for(lambda: set(gateway.links()) == {NEIGHBOUR})
        gateway.wait_for(lambda: gateway.open_files() <= open_files)
        assert len(gateway.log().splitlines()) < LINES
        fleet.starts_again()
