"""A Pi that loses its power at any moment of a playbook comes up, and the next run makes it whole.

``--cuts 40`` looks at forty moments of each playbook and of the minute after it, which ``--seed``
draws, and takes some hours; without it there are a few. ``--boots 20`` boots twenty of these and
only looks at the other cards; ``--plays 10`` runs the playbook again on ten of those that booted.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import cards
import pytest
from account import Account
from cards import Card, Shelf
from commands import run
from empty_bed import empty_bed
from fleet import PASSWORD, DeployedFleet
from missing_peer import skip_or_fail_in_ci
from power_cuts import HEAD, Cinema, Film, row
from recordings import PIECE_BYTES, recorded

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(4 * 3600)]
NAME = "gw-cut"
FEW = 3


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    if (why := cards.why_not()) is not None:
        skip_or_fail_in_ci(why)
    with cards.shelf_in(tmp_path_factory.mktemp("cards")) as made:
        yield made


@pytest.fixture(scope="module")
def cinema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cinema]:
    """A Pi without a gateway yet, and its operator."""
    with ExitStack() as stack:
        made = stack.enter_context(empty_bed(tmp_path_factory))
        fleet = DeployedFleet(made, tmp_path_factory.mktemp("operator"))
        pi = fleet.add(NAME, "", "", neighbours=())
        fleet.hosts[NAME] |= {
            "site_roles": ["base", "sd_card", "watchdog"],
            "base_security_updates": False,  # no Debian archive is in reach
            "base_ssh_keys_only": False,
            "hedgerow_backups": str(fleet.folder / "backups"),
        }
        yield Cinema(fleet, NAME, Account(made.switch, pi.address, PASSWORD))


@pytest.fixture(scope="module")
def provisioned(shelf: Shelf, cinema: Cinema) -> tuple[Card, Film]:
    """Its card, and the film of how site.yml made a gateway of it."""
    card = shelf.card_of(cinema.fleet.bed.pis[NAME].root, "card")
    return card, cinema.film(card, "site.yml")


def cut(cinema: Cinema, film: Film, request: pytest.FixtureRequest, *arguments: str) -> None:
    """Cut at as many moments as were asked for, tell what became of each, and want all whole."""
    count = request.config.getoption("--cuts") or FEW
    boots = request.config.getoption("--boots") or count
    plays = request.config.getoption("--plays") or boots
    draw = random.Random(f"{request.config.getoption('--seed')} {film.playbook}")
    looked = [(moment, cinema.look(film, moment)) for moment in film.cut(count, draw)]
    sys.stderr.write(f"\n{HEAD}\n")
    # One that is ended before its time has looked everywhere, and not at the beginning alone.
    draw.shuffle(looked)
    wrong = []
    for number, (moment, look) in enumerate(looked):
        told, is_well = row(film.playbook, moment, look), not look.wrong
        if number < boots:
            one = cinema.cut(film, moment, look, *arguments, is_played=number < plays)
            told, is_well = str(one), is_well and one.is_well
        if not is_well:
            wrong.append(told)
        sys.stderr.write(f"{told}\n")
        moment.left.card.remove()
    film.recording.remove()
    assert looked
    assert not wrong, "\n".join(wrong)


def test_what_is_in_memory_is_not_on_the_card_and_what_is_synced_is(
    shelf: Shelf, tmp_path: Path
) -> None:
    """The control: without it all that follows would show nothing."""
    (tmp_path / "root").mkdir()
    card = shelf.card_of(tmp_path / "root", "control")
    with recorded(card, "control") as (root, recording):
        for name in ("kept", "lost"):
            (root / name).write_text(name)
        run("sync", root / "kept")
        cut_s = time.monotonic()
    for seed in range(8):
        (left,) = recording.cut("control-cut", [cut_s], random.Random(seed))
        with left.card.mounted() as root:
            assert (root / "kept").read_text() == "kept"
            assert not (root / "lost").exists() or (root / "lost").read_text() == ""
    with card.mounted() as root:
        assert (root / "lost").read_text() == "lost"


def test_of_what_a_card_was_handed_and_not_told_to_flush_nothing_some_or_all_is_on_it(
    shelf: Shelf, tmp_path: Path
) -> None:
    old, new = (letter.encode() * PIECE_BYTES for letter in "on")
    (tmp_path / "root").mkdir()
    (tmp_path / "new").write_bytes(new * 8)
    card = shelf.card_of(tmp_path / "root", "handed")
    with recorded(card, "handed") as (root, recording):
        (root / "file").write_bytes(old * 8)
        run("sync", root / "file")
        past_the_cache = ("oflag=direct", "conv=notrunc", f"bs={PIECE_BYTES * 8}")
        run("dd", f"if={tmp_path / 'new'}", f"of={root / 'file'}", *past_the_cache)
        cut_s = time.monotonic()
    found = set()
    for seed in range(8):
        (left,) = recording.cut("handed-cut", [cut_s], random.Random(seed))
        with left.card.mounted() as root:
            said = (root / "file").read_bytes()
        blocks = {said[begin : begin + PIECE_BYTES] for begin in range(0, len(said), PIECE_BYTES)}
        assert blocks <= {old, new}
        found.add(frozenset(blocks))
    assert found == {frozenset({old}), frozenset({new}), frozenset({old, new})}


def test_a_power_cut_while_site_yml_runs_or_soon_after_it(
    cinema: Cinema, provisioned: tuple[Card, Film], request: pytest.FixtureRequest
) -> None:
    cut(cinema, provisioned[1], request)


def test_a_power_cut_while_rotate_keys_yml_runs_or_soon_after_it(
    cinema: Cinema, provisioned: tuple[Card, Film], request: pytest.FixtureRequest
) -> None:
    cut(cinema, cinema.film(provisioned[0], "rotate_keys.yml"), request)


def test_a_power_cut_while_upgrade_yml_runs_or_soon_after_it(
    cinema: Cinema, provisioned: tuple[Card, Film], request: pytest.FixtureRequest
) -> None:
    cinema.fleet.next_release()
    cut(cinema, cinema.film(provisioned[0], "upgrade.yml"), request)


def test_a_power_cut_while_restore_yml_runs_or_soon_after_it(
    cinema: Cinema, provisioned: tuple[Card, Film], request: pytest.FixtureRequest
) -> None:
    # The last one: what it takes back is not there any more.
    card, one = provisioned[0], ("--limit", NAME)
    with cinema.backed_up_on(card, *one):
        cut(cinema, cinema.film(card, "restore.yml", *one), request, *one)
