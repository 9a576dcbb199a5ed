"""A fleet whose Pis have the stable Debian and the one before it."""

from __future__ import annotations

import pytest
from fleet import PASSWORD, DeployedFleet
from upgrade_load import Load

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]


def test_both_are_one_tree_and_carry_each_other_s_messages(of_two_debians: DeployedFleet) -> None:
    old, new = (of_two_debians.bed.pis[name] for name in ("gw-old", "gw-new"))
    versions = [pi.run("cat", "/etc/debian_version").partition(".")[0] for pi in (old, new)]
    assert versions == ["12", "13"]
    with Load(of_two_debians.bed.switch, old.address, new.address, PASSWORD) as load:
        pass
    assert load.acknowledged
    assert not load.lost


def test_an_operator_reads_and_writes_on_the_older_one(of_two_debians: DeployedFleet) -> None:
    valve = f"coaps://{of_two_debians.bed.pis['gw-old'].address}/sensors/valve"
    assert of_two_debians.hedgerow("put", valve, "1")[0] == 0
    far = f"coaps://{of_two_debians.bed.pis['gw-new'].address}/q/campus/north/gw-old/sensors/valve"
    code, told = of_two_debians.hedgerow("get", far)
    assert code == 0, told
    assert '"v":1.0' in told


def test_a_second_run_changes_nothing_on_either(of_two_debians: DeployedFleet) -> None:
    again = of_two_debians.play("site.yml").worked()
    assert all(again.recap(name)["changed"] == 0 for name in of_two_debians.hosts), again.output


def test_the_older_one_is_upgraded(of_two_debians: DeployedFleet) -> None:
    before = of_two_debians.release("gw-old")
    of_two_debians.next_release()
    of_two_debians.play("upgrade.yml", "--limit", "gw-old").worked()
    of_two_debians.one_tree()
    assert of_two_debians.release("gw-old") != before
