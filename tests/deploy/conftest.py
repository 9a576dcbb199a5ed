"""What stands on booted systems: left out unless the mark `deploy` is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# No package holds these under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

import bed
from fleet import DeployedFleet


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what boots systems, for a run that does not ask for it."""
    if "deploy" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("deploy") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedFleet]:
    """Three Pis that site.yml has made gateways of."""
    if (why := bed.why_not()) is not None:
        if os.environ.get("CI"):
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    with bed.made_in(tmp_path_factory.mktemp("bed")) as made:
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        fleet.add("gw-root", "", "", neighbours=())
        fleet.add("gw-north", "campus", "north", neighbours=("gw-root",))
        fleet.add("gw-south", "campus", "south", neighbours=("gw-root", "gw-north"))
        bed.boot_all(list(made.pis.values()))
        fleet.provision()
        yield fleet
