"""Goal: a look-up is told again while it is fresh, and as an old one while nobody answers."""

from __future__ import annotations

from gateway.coap.fleet_directory.kept import KeptLookUps
from resource_directory.link_format import WebLink
from tests.held_objects import held_objects, held_text

LINKS = [WebLink("/a"), WebLink("/b")]


def test_it_is_fresh_for_five_seconds_and_of_use_for_ten_minutes() -> None:
    kept = KeptLookUps()
    assert kept.fresh("x", 0.0) is None
    assert kept.stale("x", 0.0) == (0, ())
    kept.keep("x", LINKS, 100.0)
    assert list(kept.fresh("x", 104.9) or ()) == LINKS
    assert kept.fresh("x", 105.0) is None
    assert kept.stale("x", 699.9) == (599, tuple(LINKS))
    assert kept.stale("x", 700.0) == (0, ())


def test_an_answer_without_links_is_fresh_as_well() -> None:
    kept = KeptLookUps()
    kept.keep("x", [], 0.0)
    assert kept.fresh("x", 1.0) == ()


def test_nobody_is_told_what_was_kept_for_another() -> None:
    kept = KeptLookUps()
    kept.keep(("gw-a", "somebody"), LINKS, 0.0)
    assert kept.fresh(("gw-a", "anybody"), 0.0) is None


def test_20000_links_are_kept_and_of_more_the_oldest_answers_go() -> None:
    kept = KeptLookUps()
    for number in range(20):
        kept.keep(number, LINKS[:1] * 999, 0.0)
    assert all(kept.fresh(number, 1.0) for number in range(20))
    kept.keep(0, LINKS[:1] * 999, 1.0)
    assert all(kept.fresh(number, 1.0) for number in range(20)), "one is told anew in its own room"
    kept.keep("more", [], 1.0)
    assert [number for number in range(20) if kept.fresh(number, 1.0) is None] == [1]
    kept.keep("larger than all", LINKS[:1] * 20_000, 1.0)
    assert kept.fresh("larger than all", 1.0) is None
    kept.keep("as large as all", LINKS[:1] * 19_999, 1.0)
    assert kept.fresh("as large as all", 1.0)


def test_long_links_and_long_look_ups_are_kept_by_their_characters() -> None:
    long = [WebLink("/a", (("title", "x" * 60_000), ("obs", None)))]
    kept = KeptLookUps()
    for number in range(200):
        kept.keep(("gw-a", number), long, 0.0)
    standing = [number for number in range(200) if kept.fresh(("gw-a", number), 1.0)]
    assert 60 < len(standing) < 80
    assert standing[-1] == 199
    for number in range(10_000):
        kept.keep(("gw-a", (f"rt={number}{'y' * 2_000}",)), [], 1.0)
    assert held_text(kept) < 3_000
    assert held_objects(kept) < 12_000
    for number in range(10_000):
        kept.keep(("gw-b", number), LINKS, 2.0)
    assert not kept.fresh(("gw-b", 0), 3.0)
    assert all(kept.fresh(("gw-b", number), 3.0) for number in range(4_000, 10_000))
