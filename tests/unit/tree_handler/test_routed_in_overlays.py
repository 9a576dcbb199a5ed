"""Messages of routed mode that go over an overlay, and their way on (C5)."""

from __future__ import annotations

from tree_handler import batch
from tree_handler.batch import Entry, Flags, Header
from tree_handler.overlays.instance import OverlayWay
from tree_handler.replication.repairing import RepairSettings
from tree_handler.replication.replication import Replication
from tree_handler.routing import wire as routed_wire
from tree_handler.routing.actions import SendRouted
from tree_handler.routing.interest import Interest, Interests
from tree_handler.routing.locator import Locator
from tree_handler.routing.routed import Routed
from tree_handler.routing.wire import Carry

ROWS = [Entry(topic, b"", qos=1).row() for topic in ("t", "t", "u", "t")]


class Ways:
    """``t`` goes over an overlay of a, b and c; from link 1 its batches go on to link 2."""

    def __init__(self, *members: str) -> None:
        self.known = OverlayWay(b"overlay1", frozenset({1, 2}), frozenset(members))

    def way(self, topic: str) -> OverlayWay | None:
        return self.known if topic == "t" else None

    def onward(self, overlay: bytes, link: int) -> frozenset[int] | None:
        return frozenset({2}) if (overlay, link) == (b"overlay1", 1) else None


def routed(ways: Ways, own_id: str = "a") -> Routed:
    core = Replication(own_id, 1, settings=RepairSettings(floods_clients=False))
    made = Routed(core, Interests(own_id), Locator(own_id, 1), ways)
    for other in ("b", "c"):
        made.update(Interest(other, 1, 1, frozenset({"t", "u"})), 0.0)
    return made


def frame() -> tuple[bytes, Header]:
    return batch.make("a", 1, 1, ROWS[:1], flags=Flags.LOGGED, origin_time_us=0)


def sent(actions: list[object]) -> list[tuple[int, bytes]]:
    """Links, and the overlay that each message names."""
    found = []
    for action in actions:
        assert isinstance(action, SendRouted)
        message, _ = routed_wire.decode(action.payload)
        assert isinstance(message, Carry)
        found.append((action.link, message.overlay))
    return found


def test_a_run_is_what_goes_the_same_way() -> None:
    runs = routed(Ways("a", "b", "c")).runs(ROWS)
    assert [len(run.rows) for run in runs] == [2, 1, 1]
    assert [run.way is not None for run in runs] == [True, False, True]


def test_what_is_for_somebody_who_is_no_member_goes_the_routed_way() -> None:
    runs = routed(Ways("a", "b")).runs(ROWS)
    assert [run.way for run in runs] == [None]


def test_a_batch_names_its_overlay_and_leaves_over_the_links_of_it() -> None:
    core = routed(Ways("a", "b", "c"))
    (run,) = core.runs(ROWS[:1])
    assert sent([*core.accepted(*frame(), run, 0.0)]) == [(1, b"overlay1"), (2, b"overlay1")]


def test_a_batch_goes_on_in_its_overlay_and_nowhere_else() -> None:
    core = routed(Ways("a", "b", "d"), "d")
    payload = Carry((("b", 0),), frame()[0], overlay=b"overlay1").encode(3)
    assert sent([*core.receive(1, payload, 0.0)]) == [(2, b"overlay1")]
    assert not core.receive(2, payload, 0.0)
    other = Carry((("b", 0),), frame()[0], overlay=b"overlay2").encode(3)
    assert not core.receive(1, other, 0.0)
    assert core.counters["not_forwarding"] == 2
