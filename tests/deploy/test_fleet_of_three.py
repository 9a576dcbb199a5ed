"""Three booted systems, provisioned over Ansible, are a fleet."""

from __future__ import annotations

import pytest
from fleet import DeployedFleet

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1200)]


def test_three_provisioned_gateways_are_one_tree_over_mutual_tls(deployed: DeployedFleet) -> None:
    told = {name: deployed.status(name) for name in deployed.hosts}
    assert {one["root"] for one in told.values()} == {"gw-root"} or len(
        {one["root"] for one in told.values()}
    ) == 1
    for one in told.values():
        assert all(neighbour["address"].endswith(":8883") for neighbour in one["neighbours"])
