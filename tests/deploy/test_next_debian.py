"""A Pi whose Debian 12 became 13 goes on with its release, and the next site.yml brings one for it.

The upgrade is what it comes to for a gateway: a root of Debian 13 that has the files of the gateway
and its user, and no Python 3.11.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from account import Account
from bed import Pi
from commands import until
from empty_bed import empty_bed
from fleet import PASSWORD, DeployedFleet

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]
NAME = "gw-old"
FOLDERS = ("etc/hedgerow", "etc/systemd/system", "opt/hedgerow", "var/lib/hedgerow")
"""The folders of a root that an upgrade of Debian leaves as they are."""
ACCOUNTS = ("etc/passwd", "etc/group", "etc/shadow")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedFleet]:
    """One gateway on Debian 12."""
    with ExitStack() as stack:
        made = stack.enter_context(empty_bed(tmp_path_factory))
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        fleet.add(NAME, "", "", neighbours=(), suite="bookworm").boot()
        fleet.provision()
        yield fleet


@pytest.fixture(scope="module")
def account(fleet: DeployedFleet) -> Account:
    """Of messages that it acknowledged on Debian 12 and that nobody has taken yet."""
    account = Account(fleet.bed.switch, fleet.bed.pis[NAME].address, PASSWORD)
    with account.going_on():
        account.more(50)
    return account


@pytest.fixture(scope="module")
def before(fleet: DeployedFleet, account: Account) -> Path:
    """Its root as it was on Debian 12."""
    pi = fleet.bed.pis[NAME]
    pi.switch_off()
    return pi.root


def upgrade(fleet: DeployedFleet, before: Path) -> Pi:
    """Have Debian 13 in the place of 12; the Pi is off."""
    pi = fleet.bed.pis[NAME]
    pi.switch_off()
    fleet.bed.new_card(pi, "trixie")
    for folder in FOLDERS:
        shutil.rmtree(pi.root / folder, ignore_errors=True)
        # Owners too.
        subprocess.run(["cp", "--archive", before / folder, pi.root / folder], check=True)
    for file in ACCOUNTS:
        lines = (before / file).read_text().splitlines(keepends=True)
        with (pi.root / file).open("a") as accounts:
            accounts.writelines(line for line in lines if line.startswith("hedgerow:"))
    return pi


def brought_over(fleet: DeployedFleet) -> None:
    """Play site.yml, and see that it brings a release for Debian 13 and is settled then."""
    fleet.play("site.yml").worked()
    fleet.one_tree()
    assert "-cp313-" in fleet.release(NAME)
    again = fleet.play("site.yml").worked()
    assert again.recap(NAME)["changed"] == 0, again.output


def test_a_gateway_goes_on_over_an_upgrade_of_debian_and_site_yml_brings_its_new_release(
    fleet: DeployedFleet, account: Account, before: Path
) -> None:
    pi = upgrade(fleet, before)
    pi.boot()
    fleet.one_tree()
    assert "-cp311-" in fleet.release(NAME)
    assert "it goes on with /opt/hedgerow/interpreters/3.11/bin/python3.11" in pi.journal()
    told = pi.run("/opt/hedgerow/venv/bin/hedgerow", "--version")
    assert told, "an operator's commands run, too"
    assert not account.lost(account.acknowledged)
    brought_over(fleet)


def test_without_a_copy_it_says_once_that_its_interpreter_is_gone_until_site_yml_is_played(
    fleet: DeployedFleet, before: Path
) -> None:
    pi = upgrade(fleet, before)
    shutil.rmtree(pi.root / "opt/hedgerow/interpreters")
    pi.boot()
    until("it gives up", lambda: pi.says("systemctl", "is-active", "hedgerow") == "failed")
    assert pi.journal().count("is gone: it is for python3.11") == 1
    assert pi.says("systemctl", "show", "--property=NRestarts", "--value", "hedgerow") == "0"
    brought_over(fleet)
