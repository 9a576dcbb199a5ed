"""A saved record of a life that no log knows gives way to the life that is there, and no other."""

from __future__ import annotations

import pytest

from tree_handler.batch import CONTROL_PREFIX, NOTE_PREFIX, Epoch
from tree_handler.intervals import Intervals
from tree_handler.replication.replication import RepairSettings, Replication
from tree_handler.routing.interest import Interest, Interests
from tree_handler.routing.locator import Locator, ReachUpdate
from tree_handler.routing.routed import Routed

LINK = 1
OTHER = "gw-1"
CONTROL = CONTROL_PREFIX + OTHER


def record(epoch: int, wants: str) -> Interest:
    return Interest(OTHER, epoch, 1, subscribes=frozenset([wants]))


class Gateway:
    """One that has saved what another wanted in its life 500."""

    def __init__(self, have: dict[Epoch, Intervals]) -> None:
        core = Replication("gw-2", 1, have, RepairSettings(floods_clients=False))
        self.interests = Interests("gw-2")
        self.interests.update(record(500, "before"))
        self.locator = Locator("gw-2", 1)
        self.locator.forwards([LINK])
        self.routed = Routed(core, self.interests, self.locator)

    def is_told(self, new: Interest) -> None:
        self.routed.update(new, 1.0)

    def reaches(self, epoch: int) -> None:
        self.locator.receive(LINK, ReachUpdate(True, {OTHER: epoch}))
        self.routed.moved(1.0)

    @property
    def wants(self) -> set[str]:
        known = self.interests.get(OTHER)
        assert known is not None
        return {*known.subscribes}


@pytest.mark.parametrize("is_reached_first", [True, False])
def test_who_lost_its_disk_and_drew_an_earlier_epoch_gets_what_it_wants_where_no_log_knows_better(
    *, is_reached_first: bool
) -> None:
    gateway = Gateway({})
    if is_reached_first:
        gateway.reaches(20)
        gateway.is_told(record(20, "now"))
    else:
        gateway.is_told(record(20, "now"))
        gateway.reaches(20)
    assert gateway.wants == {"now"}
    assert gateway.interests.destinations("now") == {OTHER}
    assert not gateway.interests.destinations("before")


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({(CONTROL, 500): Intervals([(1, 1)])}, id="a batch of that life"),
        pytest.param({(NOTE_PREFIX + CONTROL, 2): Intervals([(500, 500)])}, id="that it is over"),
    ],
)
def test_where_a_log_knows_the_later_life_it_counts_and_its_gateway_hears_of_it(
    known: dict[Epoch, Intervals],
) -> None:
    gateway = Gateway(known)
    gateway.reaches(20)
    gateway.is_told(record(20, "now"))
    assert gateway.wants == {"before"}


def test_what_comes_late_of_an_earlier_life_that_is_not_there_takes_no_place() -> None:
    gateway = Gateway({})
    gateway.reaches(500)
    gateway.is_told(record(20, "long ago"))
    assert gateway.wants == {"before"}


def test_of_two_records_of_the_life_that_comes_into_reach_the_later_one_counts() -> None:
    gateway = Gateway({})
    gateway.is_told(Interest(OTHER, 20, 2, subscribes=frozenset(["later"])))
    gateway.is_told(record(20, "now"))
    gateway.reaches(20)
    assert gateway.wants == {"later"}
