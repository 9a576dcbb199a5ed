"""Two gateways that dial each other get one link, in whatever order things happen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from gateway.node.links.handshake import NoPlaceError
from gateway.node.links.pairing import Pairing
from gateway.node.links.refusal import Refusal

A, B = "gw-a", "gw-b"
STEPS = ("answered", "proved", "verdict")


@dataclass
class Up:
    dialler_id: str
    peer_epoch: int = 1


@dataclass
class End:
    """One gateway, as its node has it."""

    own_id: str
    links: list[Up] = field(default_factory=list)
    replaced: int = 0
    kept_out: list[int] = field(default_factory=list)
    reached: int | None = None

    def __post_init__(self) -> None:
        self.pairing = Pairing(
            self.own_id,
            lambda _: self.links,
            lambda _: self.reached,
            lambda _, epoch: self.kept_out.append(epoch),
        )

    def link(self, dialler_id: str) -> None:
        self.replaced += len(self.links)
        self.links = [Up(dialler_id)]


class Dial:
    """One hand-shake: what happens of it, step by step, until it ends."""

    def __init__(self, dialler: End, other: End) -> None:
        self._dialler, self._other = dialler, other
        self.is_over = self._is_accepted = False

    def step(self, name: str) -> None:
        if self.is_over:
            return
        dialler, other = self._dialler, self._other
        try:
            if name == "answered":
                dialler.pairing.answered(other.own_id, 1)
            elif name == "proved":
                other.pairing.proved(dialler.own_id, 1)
                other.link(dialler.own_id)
                self._is_accepted = True
            else:
                dialler.pairing.concluded(other.own_id)
                dialler.link(dialler.own_id)
                self.is_over = True
        except NoPlaceError as error:
            assert error.refusal is Refusal.DUPLICATE
            if name == "proved":
                dialler.pairing.concluded(other.own_id)
            self.is_over = True


def interleavings(first: int, second: int) -> Iterator[tuple[int, ...]]:
    """Orders of two sequences of so many steps, as which of them goes on."""
    if not first or not second:
        yield (0,) * first + (1,) * second
        return
    for rest in interleavings(first - 1, second):
        yield (0, *rest)
    for rest in interleavings(first, second - 1):
        yield (1, *rest)


@pytest.mark.parametrize("order", list(interleavings(3, 3)))
def test_of_two_hand_shakes_exactly_one_becomes_a_link_and_none_is_replaced(
    order: tuple[int, ...],
) -> None:
    a, b = End(A), End(B)
    dials, at = (Dial(a, b), Dial(b, a)), [0, 0]
    for which in order:
        dials[which].step(STEPS[at[which]])
        at[which] += 1
    assert [link.dialler_id for link in a.links] == [link.dialler_id for link in b.links]
    assert len(a.links) == 1
    assert a.replaced + b.replaced == 0
    assert a.pairing.duplicates + b.pairing.duplicates == 1


@pytest.mark.parametrize("lost_by", [A, B])
@pytest.mark.parametrize("dialled_by", [A, B])
def test_who_has_lost_a_link_gets_a_new_one_unless_the_other_dialled_it_and_is_the_lower(
    dialled_by: str, lost_by: str
) -> None:
    ends = {A: End(A), B: End(B)}
    loser, other = ends[lost_by], ends[A if lost_by == B else B]
    other.links = [Up(dialled_by)]  # it has not noticed yet
    dial = Dial(loser, other)
    for name in STEPS:
        dial.step(name)
    waits = (dialled_by, lost_by) == (A, B)  # until the other one notices, which dials itself
    assert [link.dialler_id for link in loser.links] == ([] if waits else [lost_by])


def test_a_second_address_of_a_neighbour_is_not_dialled_to_the_end() -> None:
    a = End(A)
    a.pairing.answered(B, 1)
    with pytest.raises(NoPlaceError) as refused:
        a.pairing.answered(B, 1)
    assert refused.value.tell is Refusal.DUPLICATE
    a.pairing.concluded(B)
    a.pairing.answered(B, 1)


@pytest.mark.parametrize("other_epoch", [1, 9])
def test_another_life_is_kept_out_while_one_is_linked_or_reached(other_epoch: int) -> None:
    for there in (End(A, links=[Up(B, 5)]), End(A, reached=5)):
        for asked in (there.pairing.answered, there.pairing.proved):
            with pytest.raises(NoPlaceError, match="gw-b is in the tree already") as refused:
                asked(B, other_epoch)
            assert refused.value.tell is Refusal.OTHER_LIFE
        assert there.kept_out == [other_epoch, other_epoch]


def test_the_life_that_is_in_the_tree_may_have_more_links() -> None:
    a = End(A, reached=5)
    a.pairing.answered(B, 5)
    a.pairing.concluded(B)
    a.pairing.proved(B, 5)
    assert a.kept_out == []


@pytest.mark.parametrize("is_there", [True, False])
def test_another_life_that_is_only_said_to_be_reached_is_asked_for_and_counts_if_it_is_there(
    is_there: bool,
) -> None:
    asked: list[tuple[str, int]] = []
    reached = dict[str, int]()

    def is_in_the_tree(peer_id: str, epoch: int) -> bool:
        asked.append((peer_id, epoch))
        return is_there

    kept_out: list[tuple[str, int]] = []
    pairing = Pairing(
        A,
        lambda _: [],
        reached.get,
        lambda peer_id, epoch: kept_out.append((peer_id, epoch)),
        is_in_the_tree,
    )
    pairing.proved(B, 7)
    reached[B] = 7
    pairing.proved(B, 7)
    assert asked == []
    reached[B] = 5
    if is_there:
        with pytest.raises(NoPlaceError, match="gw-b is in the tree already, under boot 5"):
            pairing.proved(B, 7)
    else:
        pairing.proved(B, 7)
    assert asked == [(B, 5)]
    assert kept_out == ([(B, 7)] if is_there else [])
