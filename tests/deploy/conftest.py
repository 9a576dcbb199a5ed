"""Fixtures of booted systems: their tests are left out unless the mark `deploy` is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# No package holds these under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

import bed
from empty_bed import empty_bed
from fleet import DeployedFleet


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedFleet]:
    """Three Pis that site.yml has made gateways of."""
    with empty_bed(tmp_path_factory) as made:
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        fleet.add("gw-root", "", "", neighbours=())
        fleet.add("gw-north", "campus", "north", neighbours=("gw-root",))
        fleet.add("gw-south", "campus", "south", neighbours=("gw-root", "gw-north"))
        bed.boot_all(list(made.pis.values()))
        fleet.provision()
        yield fleet


@pytest.fixture(scope="module")
def of_two_debians(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedFleet]:
    """A Pi of the stable Debian and one of the one before, that site.yml has made gateways of."""
    with empty_bed(tmp_path_factory) as made:
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        fleet.add("gw-new", "", "", neighbours=())
        fleet.add("gw-old", "campus", "north", neighbours=("gw-new",), suite="bookworm")
        bed.boot_all(list(made.pis.values()))
        fleet.provision()
        yield fleet
