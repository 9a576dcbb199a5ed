"""Collectors that share what comes by its origin: nothing is in no spool, whatever goes wrong."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

# A module of this folder, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))

from shared_collectors import LIMITS, Group, Member

from cloud_ingest.collector.spooled import MAX_TOLD_ROWS
from tree_handler.intervals import Intervals
from tree_handler.replication.repair import pack_numbers

ORIGINS = ("gw-a", "gw-b", "gw-c", "gw-d")
SETTLES_S = LIMITS.hold_s + 3 * LIMITS.dead_after_s


class AGroupOfCollectors(RuleBasedStateMachine):
    """Batches, words and time in any order; kills, power cuts, full disks, words that are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.group = Group(3, replace(LIMITS, held_bytes=400))

    def _one(self, number: int) -> Member:
        return self.group.alive[number % len(self.group.alive)]

    @rule(origin=st.sampled_from(ORIGINS))
    def publish(self, origin: str) -> None:
        self.group.publish(origin)

    @precondition(lambda self: self.group.accepted and self.group.alive)
    @rule(to=st.integers(0, 2), number=st.integers(0, 1_000))
    def deliver(self, to: int, number: int) -> None:
        lacking = [one for one in self.group.accepted if self._one(to).lacks(one[1])]
        if lacking:
            self._one(to).deliver(lacking[number % len(lacking)], self.group.now)

    @rule(seconds=st.sampled_from((0.5, 2.0, 6.0, 31.0)))
    def wait(self, seconds: float) -> None:
        self.group.now += seconds

    @precondition(lambda self: self.group.alive)
    @rule(number=st.integers(0, 2), writes=st.booleans())
    def turn(self, number: int, writes: bool) -> None:
        member = self._one(number)
        member.turn(self.group.now)
        self.group.say(member)
        if writes:
            member.write()

    @precondition(lambda self: self.group.alive)
    @rule(number=st.integers(0, 2))
    def sync(self, number: int) -> None:
        self._one(number).sync()

    @precondition(lambda self: self.group.words)
    @rule(number=st.integers(0, 1_000), stays=st.booleans())
    def hear(self, number: int, stays: bool) -> None:
        words = self.group.words
        told = words[number % len(words)]
        if not stays:  # else it comes once more
            words.remove(told)
        self.group.hear(told)

    @precondition(lambda self: self.group.words)
    @rule()
    def lose_all_words(self) -> None:
        self.group.words.clear()

    @precondition(lambda self: self.group.alive)
    @rule(number=st.integers(0, 2), survivors=st.integers(0, 3))
    def cut_power(self, number: int, survivors: int) -> None:
        self._one(number).kill(survivors)

    @rule()
    def start_all(self) -> None:
        for member in self.group.members.values():
            if member.core is None:
                member.start(self.group.now)

    @precondition(lambda self: self.group.alive)
    @rule(number=st.integers(0, 2), is_full=st.booleans())
    def fill_the_disk(self, number: int, is_full: bool) -> None:
        self._one(number).is_disk_full = is_full

    def teardown(self) -> None:
        group = self.group
        for member in group.members.values():
            member.is_disk_full = False
        self.start_all()
        group.pass_time(SETTLES_S)
        for _, header in group.accepted:
            assert group.copies(header) >= 1, header
        assert not any(member.core and member.core.held for member in group.alive)
        new = [group.publish(origin)[1] for origin in ORIGINS]
        group.pass_time(3)
        assert [group.copies(header) for header in new] == [1] * len(new)


AGroupOfCollectors.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestAGroupOfCollectors = AGroupOfCollectors.TestCase


def test_with_all_alive_each_batch_is_in_one_spool_and_each_member_has_some() -> None:
    group = Group(3)
    group.pass_time(3)
    for number in range(60):
        group.publish(f"gw-{number}")
    group.pass_time(3)
    assert [group.copies(header) for _, header in group.accepted] == [1] * 60
    assert all(len(member.synced) > 5 for member in group.members.values())


def test_what_an_owner_had_not_synced_when_it_died_is_in_another_spool_seconds_later() -> None:
    group = Group(2)
    group.pass_time(3)
    for number in range(40):
        group.publish(f"gw-{number}")
        for member in group.alive:
            member.deliver(group.accepted[-1], group.now)
    first, second = group.members.values()
    first.kill()
    before = len(second.synced)
    group.pass_time(LIMITS.dead_after_s + 1)
    assert [group.copies(header) for _, header in group.accepted] == [1] * 40
    assert second.core is not None
    assert len(second.synced) > before
    assert second.core.counters.taken_over > 0


def test_an_owner_that_lives_and_stores_nothing_keeps_nothing_from_the_group() -> None:
    group = Group(2)
    group.pass_time(3)
    for member in group.alive:
        member.is_disk_full = member.name == "c0"
    for number in range(40):
        group.publish(f"gw-{number}")
    group.pass_time(LIMITS.hold_s + 2)
    assert all(group.copies(header) == 1 for _, header in group.accepted)


def test_what_the_disk_of_an_owner_refuses_is_taken_over_as_soon_as_if_it_were_dead() -> None:
    group = Group(2)
    group.pass_time(3)
    full = group.members["c0"]
    full.is_disk_full = True
    for number in range(40):
        group.publish(f"gw-{number}")
    group.pass_time(LIMITS.dead_after_s + 2)
    assert all(group.copies(header) == 1 for _, header in group.accepted)
    full.is_disk_full = False
    for number in range(40):
        group.publish(f"gw-{number}")
    group.pass_time(2)  # it speaks again with the first batch that it has: both may have that one
    before = len(full.synced)
    new = [group.publish(f"gw-{number}")[1] for number in range(40)]
    group.pass_time(2)
    assert [group.copies(header) for header in new] == [1] * 40
    assert len(full.synced) > before


def test_one_that_was_away_does_not_spool_again_what_the_other_has() -> None:
    group = Group(2)
    group.pass_time(3)
    away = group.members["c0"]
    away.kill()
    group.pass_time(LIMITS.dead_after_s + 1)
    for number in range(40):
        group.publish(f"gw-{number}")
    group.pass_time(2)
    before = len(away.synced)
    away.start(group.now)
    group.pass_time(LIMITS.dead_after_s + 2)
    assert len(away.synced) == before
    assert all(not away.lacks(header) for _, header in group.accepted)


def test_after_a_restart_with_thousands_of_idle_streams_what_is_new_is_still_told() -> None:
    group = Group(2)
    for member in group.members.values():
        idle = {(f"{member.name}-{n}", 1): Intervals([(1, 5)]) for n in range(2 * MAX_TOLD_ROWS)}
        member.file = pack_numbers(idle), pack_numbers({})
        member.start(group.now)
    group.pass_time(10)
    for member in group.members.values():
        assert member.core is not None
        assert len(member.core.kept.elsewhere) == 2 * MAX_TOLD_ROWS
    new = [group.publish(origin)[1] for origin in ORIGINS]
    group.pass_time(3)
    assert not any(member.core and member.core.held for member in group.alive)
    group.pass_time(SETTLES_S)
    assert [group.copies(header) for header in new] == [1] * len(new)
