"""A lost gateway is lost until it is back, and one gateway alone has to tell of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from gateway.alerting import lost_gateways
from gateway.alerting.lost_gateways import TOLD_TOPIC, LostGateways
from tests.held_objects import held_objects
from tree_handler.batch import Entry, Header
from tree_handler.errors import ProtocolError
from tree_handler.members.absence import AbsenceNotice
from tree_handler.members.hierarchy import Membership
from tree_handler.members.member import MemberRecord


def record(name: str, capability: float, group: str = "north", epoch: int = 1) -> MemberRecord:
    domain = "campus" if group else ""
    address = {"address": "10.0.0.1", "mqtt_port": 1883}
    return MemberRecord(
        name,
        epoch,
        0,
        domain,
        group,
        capability=capability,
        **address,  # type: ignore[arg-type]
    )


class Seen:
    """A fleet of a root and a group of three, as all who are there see it."""

    def __init__(self) -> None:
        self.members = Membership()
        self.records = [
            record("gw-root", 9, ""),
            record("gw-head", 8),
            record("gw-next", 7),
            record("gw-leaf", 1),
        ]
        for one in self.records:
            self.members.update(one)
        self.lost = LostGateways(self.members)

    def loses(self, *names: str) -> None:
        self.members.suspect(frozenset(names))

    def takes_out(self, name: str) -> None:
        self.members.is_absent(AbsenceNotice(name, 1, 0))
        self.members.suspect(self.members.suspects - {name})

    def forgets(self, name: str) -> None:
        notice = AbsenceNotice(name, 1, 0)
        self.members.is_said_absent(notice)
        self.members.is_forgotten(notice)
        self.members.suspect(self.members.suspects - {name})

    def hears(self, teller: str, lost: str, epoch: int = 1, version: int = 0) -> None:
        entry = Entry(TOLD_TOPIC + lost, AbsenceNotice(lost, 1, version).encode())
        self.lost.receive(entry, cast(Header, SimpleNamespace(origin=teller, epoch=epoch)))

    @property
    def told_by(self) -> dict[str, str | None]:
        return dict(self.lost.look().told_by)


def test_the_head_of_a_group_tells_of_its_members_and_its_substitute_of_the_head() -> None:
    seen = Seen()
    assert seen.told_by == {}
    seen.loses("gw-leaf")
    assert seen.told_by == {"gw-leaf": "gw-head"}
    seen.loses("gw-leaf", "gw-head")
    assert seen.told_by == {"gw-leaf": "gw-next", "gw-head": "gw-next"}
    assert seen.lost.look().above["gw-leaf"] == "gw-head", "so one alert hides the other"


def test_of_a_group_that_is_lost_as_a_whole_the_root_tells() -> None:
    seen = Seen()
    seen.loses("gw-leaf", "gw-head", "gw-next")
    assert set(seen.told_by.values()) == {"gw-root"}


def test_who_is_taken_out_of_the_records_is_lost_until_it_is_back() -> None:
    seen = Seen()
    seen.loses("gw-leaf")
    seen.takes_out("gw-leaf")
    look = seen.lost.look()
    assert (look.lost, look.told_by) == ({"gw-leaf"}, {"gw-leaf": "gw-head"})
    assert look.sites["gw-leaf"] == "campus/north"
    assert look.above["gw-leaf"] == "gw-head"
    seen.members.update(record("gw-leaf", 1, epoch=2))
    assert seen.lost.look().lost == frozenset()


def test_of_a_gateway_that_left_by_a_drain_nobody_tells() -> None:
    seen = Seen()
    seen.members.update(replace(seen.records[3], draining=True, version=1))
    seen.loses("gw-leaf")
    assert seen.told_by == {}
    assert seen.lost.look().lost == {"gw-leaf"}, "its neighbours need not be told of either"


def test_while_nothing_changes_nothing_is_computed_anew() -> None:
    seen = Seen()
    seen.loses("gw-leaf")
    assert seen.lost.look() is seen.lost.look()


def test_one_that_will_not_come_back_is_lost_no_more_whenever_that_is_said() -> None:
    for taken_out in (True, False):
        seen = Seen()
        seen.loses("gw-leaf")
        if taken_out:
            seen.takes_out("gw-leaf")
        seen.forgets("gw-leaf")
        look = seen.lost.look()
        assert (look.lost, look.told_by, look.forgotten) == (frozenset(), {}, {"gw-leaf"})


def test_one_that_comes_back_all_the_same_can_be_lost_again() -> None:
    seen = Seen()
    seen.loses("gw-leaf")
    seen.forgets("gw-leaf")
    seen.members.update(record("gw-leaf", 1, epoch=2))
    assert seen.lost.look().forgotten == frozenset()
    seen.loses("gw-leaf")
    assert seen.told_by == {"gw-leaf": "gw-head"}


def test_whoever_has_told_of_a_lost_one_goes_on_while_it_is_there_in_the_same_life() -> None:
    seen = Seen()
    seen.loses("gw-leaf")
    seen.hears("gw-next", "gw-leaf")
    assert seen.told_by == {"gw-leaf": "gw-next"}, "though it is not the head"
    seen.takes_out("gw-leaf")
    assert seen.told_by == {"gw-leaf": "gw-next"}
    seen.loses("gw-next")
    assert seen.told_by["gw-leaf"] == "gw-head"
    seen.loses()
    assert seen.told_by["gw-leaf"] == "gw-next"
    seen.members.update(record("gw-next", 7, epoch=2))  # what it knew it may know no more
    assert seen.told_by == {"gw-leaf": "gw-head"}


@pytest.mark.parametrize(("teller", "version"), [("gw-stranger", 0), ("gw-next", 1)])
def test_a_word_of_a_stranger_or_of_another_loss_changes_nothing(teller: str, version: int) -> None:
    seen = Seen()
    seen.loses("gw-leaf")
    seen.hears(teller, "gw-leaf", version=version)
    assert seen.told_by == {"gw-leaf": "gw-head"}


def test_what_it_has_told_of_it_says_once_in_each_life() -> None:
    seen = Seen()
    seen.loses("gw-leaf")
    (entry,) = seen.lost.to_say(["gw-leaf", "gw-back-again"], "gw-head", 1)
    assert entry.qos == 1
    assert entry.topic == TOLD_TOPIC + "gw-leaf"
    assert AbsenceNotice.decode(entry.payload) == AbsenceNotice("gw-leaf", 1, 0)
    assert seen.lost.to_say(["gw-leaf"], "gw-head", 1) == []
    assert len(seen.lost.to_say(["gw-leaf"], "gw-head", 2)) == 1


def test_words_are_bounded_and_one_that_says_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_gateways, "MAX_LOST", 3)
    seen = Seen()
    for number in range(3):
        seen.hears("gw-next", f"gw-{number}")
    full = held_objects(seen.lost)
    for number in range(3, 10):
        seen.hears("gw-next", f"gw-{number}")
    assert held_objects(seen.lost) <= full + 1
    header = cast(Header, SimpleNamespace(origin="gw-next", epoch=1))
    with pytest.raises(ProtocolError):
        seen.lost.receive(Entry(TOLD_TOPIC + "gw-leaf", b"\xc1"), header)
    seen.lost.receive(Entry("$hedgerow/other", b""), header)


def test_of_more_lost_gateways_than_are_remembered_the_first_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lost_gateways, "MAX_LOST", 2)
    seen = Seen()
    seen.loses("gw-leaf")
    seen.loses("gw-leaf", "gw-next")
    assert seen.lost.look().lost == {"gw-leaf", "gw-next"}
    seen.loses("gw-leaf", "gw-next", "gw-head")
    assert seen.lost.look().lost == {"gw-next", "gw-head"}


def test_who_is_lost_again_is_remembered_as_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_gateways, "MAX_LOST", 2)
    seen = Seen()
    seen.loses("gw-leaf")
    seen.loses("gw-leaf", "gw-next")
    seen.loses("gw-next")
    seen.loses("gw-leaf", "gw-next")
    seen.loses("gw-leaf", "gw-next", "gw-head")
    assert seen.lost.look().lost == {"gw-leaf", "gw-head"}
