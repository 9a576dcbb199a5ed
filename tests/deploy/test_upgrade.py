"""Upgrades: under load with nothing lost, and releases that must not stay."""

from __future__ import annotations

import json
import random
import sys
import time

import broken_releases
import pytest
from commands import until
from fleet import PASSWORD, DeployedFleet
from upgrade_load import Load

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

SOUTH = "gw-south"
TRIAL_S = 25
"""The time in which the Pi goes back by itself, once nobody is there."""
SETTLED_S = 900.0
"""A trial that a power cut ended begins anew at the boot, and has its whole time."""


def releases(fleet: DeployedFleet, name: str, *arguments: str) -> str:
    """The command that the playbook calls, on the Pi."""
    switch = "PYTHONPATH=/opt/hedgerow/switch"
    return fleet.bed.pis[name].run("env", switch, "python3", "-B", "-m", "releases", *arguments)


def test_an_upgrade_of_all_under_load_loses_nothing(deployed: DeployedFleet) -> None:
    before = {name: deployed.release(name) for name in deployed.hosts}
    addresses = [deployed.bed.pis[name].address for name in ("gw-north", SOUTH)]
    deployed.next_release()
    with Load(deployed.bed.switch, addresses[0], addresses[1], PASSWORD) as load:
        done = deployed.play("upgrade.yml").worked()
        deployed.one_tree()
    assert not load.lost
    after = {name: deployed.release(name) for name in deployed.hosts}
    assert len(set(after.values())) == 1
    assert all(after[name] != before[name] for name in before)
    again = sum(count - 1 for count in load.received.values())
    sys.stderr.write(
        f"\nupgrade of {len(after)}: {done.took_s:.0f} s; {len(load.acknowledged)} messages "
        f"acknowledged, 0 lost, {again} came again; longest wait {load.longest_gap_s:.1f} s\n"
    )


def test_a_change_of_one_module_takes_less_than_a_megabyte_and_beside_a_damaged_base_all_of_it(
    deployed: DeployedFleet,
) -> None:
    south = deployed.bed.pis[SOUTH]

    def upgrade() -> tuple[int, str]:
        before = south.sent_bytes()
        deployed.next_release()
        played = deployed.play("upgrade.yml", "--limit", SOUTH, gateway_steady_s=5).worked()
        return south.sent_bytes() - before, played.output

    partly, said = upgrade()
    assert "gets all of the release" not in said
    (delta,) = (deployed.folder / "wheelhouse").glob(f"{deployed.release(SOUTH)}.from-*.zst")
    kept = south.root / "opt/hedgerow/releases" / deployed.release(SOUTH) / "wheels.tar"
    archive = kept.stat().st_size
    kept.write_bytes(b"damaged" + kept.read_bytes()[7:])
    whole, _ = upgrade()
    assert delta.stat().st_size < 1_000_000
    # Both have sent the modules of as many tasks, within some.
    assert whole - partly > archive * 3 // 4
    sys.stderr.write(
        f"\nan upgrade of one module: {delta.stat().st_size} of {archive} bytes; with Ansible's"
        f" modules {partly} of {whole}\n"
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (broken_releases.CRASHES, "its service ended"),
        (broken_releases.IS_NEVER_HEALTHY, "it does not answer"),
        (broken_releases.ANSWERS_NO_CLIENT, "does not answer: mqtt"),
        (broken_releases.READS_OTHER_STATE, "its service ended"),
    ],
    ids=["crashes", "is never healthy", "answers no client", "cannot read the state"],
)
def test_a_release_that_is_not_healthy_is_sent_back(
    deployed: DeployedFleet, change: tuple[str, tuple[str, str]], why: str
) -> None:
    before = deployed.release(SOUTH)
    with deployed.changed_source(change[0], *change[1:]):
        play = deployed.play("upgrade.yml", "--limit", SOUTH, gateway_healthy_s=45)
    assert play.returncode != 0
    assert "is not healthy" in play.output
    assert why in play.output, play.output[-3000:]
    assert deployed.release(SOUTH) == before
    deployed.one_tree()
    last = json.loads(releases(deployed, SOUTH, "status"))["last"]
    assert last["outcome"] == "returned"
    epoch = deployed.bed.pis[SOUTH].root / "var/lib/hedgerow/format"
    assert epoch.read_text() == "1\n"


def test_a_release_that_fails_in_the_second_ring_is_kept_in_the_first_and_gets_no_further(
    deployed: DeployedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("gw-north", SOUTH, "gw-root"), 1):
        monkeypatch.setitem(deployed.hosts[name], "hedgerow_ring", number)
    before = {name: deployed.release(name) for name in deployed.hosts}
    crashes = broken_releases.CRASHES_IN_THE_SOUTH
    with deployed.changed_source(crashes[0], *crashes[1:]):
        play = deployed.play("upgrade.yml", gateway_healthy_s=45, gateway_steady_s=5)
    assert play.returncode != 0
    assert f"{SOUTH}: " in play.output
    assert "its service ended" in play.output, play.output[-3000:]
    changed = {name for name in before if deployed.release(name) != before[name]}
    assert changed == {"gw-north"}
    for name, outcome in (("gw-north", "confirmed"), (SOUTH, "returned")):
        assert json.loads(releases(deployed, name, "status"))["last"]["outcome"] == outcome
    deployed.one_tree()


def others(fleet: DeployedFleet, name: str) -> list[str]:
    """Those that are installed there and do not run."""
    current = fleet.release(name)
    folder = fleet.bed.pis[name].root / "opt/hedgerow/releases"
    return sorted(
        path.name
        for path in folder.iterdir()
        if path.name != current and (path / "installed").exists()
    )


def other_release(fleet: DeployedFleet, name: str) -> str:
    """One of them, which an upgrade leaves behind where none is yet."""
    if not others(fleet, name):
        fleet.next_release()
        fleet.play("upgrade.yml", "--limit", name).worked()
    return others(fleet, name)[0]


def test_a_release_that_nobody_confirms_goes_back_without_ansible(deployed: DeployedFleet) -> None:
    other = other_release(deployed, SOUTH)
    before = deployed.release(SOUTH)
    releases(deployed, SOUTH, "try", other, "--within-s", "5")
    assert deployed.release(SOUTH) == other
    until("it is back", lambda: deployed.release(SOUTH) == before)
    deployed.one_tree()


def test_a_pi_that_is_told_to_reboot_comes_back_as_a_member(deployed: DeployedFleet) -> None:
    epoch = deployed.status(SOUTH)["boot_epoch"]
    deployed.bed.pis[SOUTH].reboot()
    deployed.one_tree()
    assert deployed.status(SOUTH)["boot_epoch"] > epoch


def test_a_pi_that_waits_for_a_reboot_gets_it_in_its_window_and_no_other_does(
    deployed: DeployedFleet,
) -> None:
    def epochs() -> dict[str, int]:
        return {name: deployed.status(name)["boot_epoch"] for name in deployed.hosts}

    south, before = deployed.bed.pis[SOUTH], epochs()
    south.run("touch", "/run/reboot-required")
    day, hour = south.run("env", "LC_ALL=C", "date", "+%a %H").split()
    closed = f"{day} {(int(hour) + 12) % 24:02}:00-{(int(hour) + 12) % 24:02}:59"
    waits = deployed.play("reboot.yml", hedgerow_reboot_window=closed).worked()
    assert f"is not in {closed}; the reboot waits" in waits.output
    assert epochs() == before
    deployed.play("reboot.yml").worked()
    deployed.one_tree()
    assert {name for name, epoch in epochs().items() if epoch > before[name]} == {SOUTH}
    # Nobody waits any more.
    again = deployed.play("reboot.yml").worked()
    assert "TASK [gateway : Reboot]" not in again.output


def test_a_power_cut_at_any_moment_of_an_upgrade_leaves_a_gateway_that_works(
    deployed: DeployedFleet, request: pytest.FixtureRequest
) -> None:
    cuts = 20 if request.config.getoption("--soak") else 3
    draw = random.Random(request.config.getoption("--seed"))
    south = deployed.bed.pis[SOUTH]
    for number in range(cuts):
        other = other_release(deployed, SOUTH)
        before = deployed.release(SOUTH)
        # From before the trial is on the disk to after it has gone back.
        after_s = draw.uniform(0.0, TRIAL_S + 8)
        tried = draw.random() < 0.5
        begun_s = time.monotonic()
        south.run(
            *("systemd-run", "--quiet", "--setenv=PYTHONPATH=/opt/hedgerow/switch", "python3"),
            *("-B", "-m", "releases", "try", other, "--within-s", str(TRIAL_S)),
        )
        if tried:
            after_s = draw.uniform(0.0, 1.0)
        time.sleep(max(0.0, begun_s + after_s - time.monotonic()))  # the moment is drawn
        south.cut_power()
        south.boot()
        until(
            f"cut {number} after {after_s:.2f} s: it is settled",
            lambda: json.loads(releases(deployed, SOUTH, "status"))["trial"] is None,
        )
        assert deployed.release(SOUTH) == before
        deployed.one_tree()


def test_a_power_cut_while_a_playbook_upgrades_loses_nothing_and_the_playbook_ends_it(
    deployed: DeployedFleet, request: pytest.FixtureRequest
) -> None:
    cuts = 20 if request.config.getoption("--soak") else 2
    draw = random.Random(request.config.getoption("--seed"))
    south = deployed.bed.pis[SOUTH]
    addresses = [deployed.bed.pis[name].address for name in ("gw-north", SOUTH)]
    told = []
    with Load(deployed.bed.switch, addresses[0], addresses[1], PASSWORD) as load:
        deployed.next_release()
        whole_s = deployed.play("upgrade.yml", "--limit", SOUTH).worked().took_s
        for number in range(cuts):
            before = deployed.release(SOUTH)
            deployed.next_release()
            begun = deployed.start("upgrade.yml", "--limit", SOUTH)
            after_s = draw.uniform(0.0, whole_s)
            time.sleep(after_s)  # the moment is drawn
            south.cut_power()
            cut = deployed.finish(begun)
            south.boot()
            until(
                f"cut {number} after {after_s:.1f} of {whole_s:.1f} s: it is settled",
                lambda: json.loads(releases(deployed, SOUTH, "status"))["trial"] is None,
                SETTLED_S,
            )
            deployed.one_tree()
            stood = deployed.release(SOUTH) == before
            deployed.play("upgrade.yml", "--limit", SOUTH).worked()
            assert deployed.release(SOUTH) != before
            deployed.one_tree()
            told.append(
                f"after {after_s:.1f} s: play {cut.returncode}, {'before' if stood else 'new'}"
            )
    assert not load.lost
    sys.stderr.write(f"\n{len(load.acknowledged)} acknowledged, 0 lost; {'; '.join(told)}\n")
