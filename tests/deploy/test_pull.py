"""A Pi behind NAT follows its operator's repository: what is good stays, what is not goes.

Debian's Ansible and the wheels come through a proxy on the bed, from where this machine has them.
Its host name is another one than its gateway's, as it is on a Pi that nobody has renamed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import bed
import broken_releases
import package_proxy
import pytest
from commands import until
from empty_bed import empty_bed
from fleet import PASSWORD, DeployedFleet
from following import ENROLMENT, Follower, Repository, running
from upgrade_load import Load

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3600)]

FIELD = "gw-field"
TRIAL_S = 120


@pytest.fixture(scope="module")
def follower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Follower]:
    with ExitStack() as stack:
        made = stack.enter_context(empty_bed(tmp_path_factory))
        stack.enter_context(package_proxy.served(made))
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        repository = Repository(fleet.source)
        repository.begin()
        fleet.add("gw-root", "", "", neighbours=())
        pi = fleet.add(FIELD, "campus", "field", neighbours=("gw-root",))
        fleet.hosts[FIELD] |= {
            "gateway_keys_service": ENROLMENT,
            "gateway_healthy_s": 60,
            "gateway_steady_s": 15,  # with the one above less than a trial
            "gateway_trial_s": TRIAL_S,
        }
        (pi.root / "etc/hostname").write_text("raspberrypi\n")
        package_proxy.tell(pi)
        keys = ("-m", "gateway.tools.cli", "keys", "serve", "--listen", ENROLMENT)
        serve = made.operator(sys.executable, *keys, "--ca", str(fleet.certificates))
        stack.enter_context(running(*serve))
        stack.enter_context(running(*made.operator(*repository.serve())))
        bed.boot_all(list(made.pis.values()))
        fleet.provision()
        set_up(fleet, repository)
        yield Follower(fleet, FIELD, repository)


def set_up(fleet: DeployedFleet, repository: Repository) -> dict[str, int]:
    play = fleet.play("pull_timer.yml", "--limit", FIELD, hedgerow_repository=repository.url)
    return play.worked().recap(FIELD)


def next_commit(follower: Follower) -> None:
    follower.fleet.next_release()
    follower.repository.commit("One more release")


def test_a_second_run_changes_nothing_and_the_timer_waits(follower: Follower) -> None:
    assert set_up(follower.fleet, follower.repository)["changed"] == 0
    assert follower.pi.says("systemctl", "is-active", "hedgerow-pull.timer") == "active"


def test_it_reboots_in_its_turn_where_it_must_and_while_no_other_gateway_is_away(
    follower: Follower,
) -> None:
    fleet, pi = follower.fleet, follower.pi
    unit, timer = "hedgerow-reboot.service", "hedgerow-reboot.timer"

    def set_window(window: str) -> None:
        given = {"hedgerow_repository": follower.repository.url, "hedgerow_reboot_window": window}
        fleet.play("pull_timer.yml", "--limit", FIELD, **given).worked()

    def epoch() -> int:
        return int(fleet.status(FIELD).get("boot_epoch", 0))

    set_window("Sat,Sun 02:00-04:00")
    # By its name it is the first of the two that have the window.
    told = pi.says("systemctl", "show", "--property=TimersCalendar", timer)
    assert "OnCalendar=Sat,Sun *-*-* 02:00:00" in told
    before = epoch()
    pi.run("systemctl", "start", unit)  # nothing waits for a reboot
    fleet.one_tree()
    assert epoch() == before
    pi.run("touch", "/run/reboot-required")
    root = fleet.bed.pis["gw-root"]
    root.run("systemctl", "stop", "hedgerow")
    until("the root is away", lambda: fleet.status(FIELD).get("reached") == [])
    pi.run("systemctl", "start", unit)
    assert "gw-root away" in pi.says("journalctl", f"--unit={unit}", "--no-pager", "-o", "cat")
    assert epoch() == before
    root.run("systemctl", "start", "hedgerow")
    fleet.one_tree()
    pi.run("systemctl", "start", "--no-block", unit)
    until("it has rebooted", lambda: epoch() > before)
    fleet.one_tree()
    set_window("")
    assert not (pi.root / "etc/systemd/system" / timer).exists()


def test_a_new_commit_is_fetched_tried_and_confirmed_and_nothing_is_lost(
    follower: Follower,
) -> None:
    fleet = follower.fleet
    next_commit(follower)
    marks = follower.marks()
    with Load(
        fleet.bed.switch, follower.pi.address, fleet.bed.pis["gw-root"].address, PASSWORD
    ) as load:
        code, said = follower.pull()
        assert code == 0, said
        fleet.one_tree()
    assert not load.lost
    assert follower.marks() == marks + 1
    told = follower.releases()
    assert told["trial"] is None
    assert told["last"]["outcome"] == "confirmed"
    assert told["current"] == told["last"]["release"]
    # The wheels of other projects are those of the release that ran.
    fetched = said.partition("Download those that are not]")[2].partition("TASK [")[0]
    assert "skipping: " in fetched
    # There is nothing new, and nothing is done.
    code, said = follower.pull()
    assert code == 0, said
    assert "Repository has not changed, quitting" in said
    assert follower.releases() == told


def test_a_commit_that_is_never_healthy_is_returned_from_and_not_tried_again(
    follower: Follower,
) -> None:
    fleet = follower.fleet
    before = follower.releases()["current"]
    file, *changes = broken_releases.IS_NEVER_HEALTHY
    with Load(
        fleet.bed.switch, follower.pi.address, fleet.bed.pis["gw-root"].address, PASSWORD
    ) as load:
        with fleet.changed_source(file, *changes):
            follower.repository.commit("Is never healthy")
            code, said = follower.pull()
        assert code != 0
        assert "is not healthy" in said, said[-4000:]
        told = follower.releases()
        fleet.one_tree()
    assert not load.lost
    assert told["current"] == before
    assert told["last"]["outcome"] == "returned"
    assert told["last"]["release"] != before
    code, said = follower.pull()
    assert code == 0, said
    assert "Repository has not changed, quitting" in said
    assert follower.releases() == told
    follower.repository.commit("Is as it was")


def test_a_commit_whose_trial_a_power_cut_ended_is_tried_again(follower: Follower) -> None:
    next_commit(follower)
    marks = follower.marks()
    follower.pi.run("systemctl", "start", "--no-block", "hedgerow-pull.service")
    until("it is on trial", lambda: follower.releases()["trial"] is not None, 600)
    follower.pi.cut_power()
    follower.pi.boot()
    until("it is back", lambda: follower.releases()["trial"] is None, TRIAL_S + 60)
    assert follower.marks() == marks
    follower.fleet.one_tree()
    code, said = follower.pull()
    assert code == 0, said[-4000:]
    assert follower.releases()["last"]["outcome"] == "confirmed"
    assert follower.marks() == marks + 1
    follower.fleet.one_tree()


def test_a_pi_whose_ansible_is_too_old_for_the_roles_gets_no_timer(follower: Follower) -> None:
    fleet = follower.fleet
    old = fleet.add("gw-old", "campus", "field", neighbours=("gw-root",), suite="bookworm")
    fleet.hosts["gw-old"]["gateway_keys_service"] = ENROLMENT
    package_proxy.tell(old)
    bed.boot_all([old])
    url = follower.repository.url
    play = fleet.play("pull_timer.yml", "--limit", "gw-old", hedgerow_repository=url)
    assert play.returncode != 0
    assert "The Ansible of this Pi is 2.14." in play.output
    assert "and the roles are for 2.19 and later" in play.output
    assert not (old.root / "etc/systemd/system/hedgerow-pull.timer").exists()
