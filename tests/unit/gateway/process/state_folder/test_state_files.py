"""Goal: whatever a power cut or a card has made of a file of the state folder, the gateway starts.

Method: one gateway fills its folder, and stops. Each file of it is then damaged in each way, and
the gateway is started in this process over a copy: it starts, what it lacks is told at ERROR with
the file's name, and what was there is beside it, as it was. `ROWS` has a row for each file: one
without a row fails.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from filled_gateway import KNOWN, World, filled, known
from fleet_gateway import Fleet, until

from gateway.process.state_folder import state_format
from tree_handler.batch import Entry

PAGE = 4_096
OTHER = "other version"


def _flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) * 2 // 3],
    "one bit": _flipped,
    "zero page": lambda data: b"\0" * min(PAGE, len(data)) + data[PAGE:],
    "foreign": lambda _: b"# vim: set ft=ini :\n[remote]\nname = other\n",
    "missing": lambda _: None,
}


@dataclass(frozen=True)
class Row:
    """The effects that damage to one file may have.

    Attributes:
        lost: what nothing else knows.
        is_silent: kinds of damage of which nothing has to be said: none of it is needed, or it is
            the log's to find.
        is_kept_aside: whether the damaged file is found beside its place.
        other: what a release of another form may have written there.

    """

    lost: frozenset[str] = frozenset()
    is_silent: frozenset[str] = frozenset()
    is_kept_aside: bool = True
    other: bytes = b'{"version": 99, "content": []}'


ALL = frozenset((*DAMAGE, OTHER))
LOGGED = frozenset({"retained", "session"})
ROWS = {
    "alert_links": Row(other=b"\x01" * 64),
    "alerts.json": Row(),
    "audit.jsonl": Row(
        # A line that is cut or wrong is left out by who reads it.
        is_silent=ALL - {"empty", "missing"},
        is_kept_aside=False,
    ),
    "audited.json": Row(),
    "boot_epoch": Row(),
    "broker.sqlite3": Row(
        # SQLite knows no checksums. A file without bytes is as good as none.
        lost=LOGGED,
        is_silent=frozenset({"one bit"}),
        is_kept_aside=False,
    ),
    "certificates": Row(),
    "device_keys.json": Row(lost=frozenset({"device key"})),
    "clocks.msgpack": Row(
        # It counts for one life: a start deletes it.
        is_silent=frozenset({"missing"}),
    ),
    "format": Row(),
    "former_keys": Row(),
    "members": Row(lost=frozenset({"member"})),
    # A name that is torn at the end was not carried out.
    "named-writes": Row(lost=frozenset({"name"}), is_silent=frozenset({"cut"})),
    "oscore-numbers": Row(),
    "oscore-numbers.copy": Row(),
    "own_keys": Row(),
    "resource-directory": Row(
        lost=frozenset({"endpoint"}),
        is_kept_aside=False,  # a torn end is no damage
    ),
    "revoked.pem": Row(lost=frozenset({"list"})),
    "routed.msgpack": Row(),
    "shared-subscriptions": Row(),
    "sensors.json": Row(lost=frozenset({"sensor"})),
    # The log has tests of its own (test_log_*): here it only must not keep the gateway down.
    "log/00000000000000000000.log": Row(lost=LOGGED, is_silent=ALL, is_kept_aside=False),
    "log/inner": Row(is_silent=ALL, is_kept_aside=False),
    "log/trimmed": Row(),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Made once: each test starts over a copy."""
    made = asyncio.run(filled(tmp_path_factory.mktemp("world")))
    shutil.copytree(made.state, made.folder / "whole")
    return made


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    made = Fleet(tmp_path)
    yield made
    await made.stop()


@pytest.fixture(autouse=True)
def whole(world: World) -> Iterator[None]:
    shutil.rmtree(world.state)
    shutil.copytree(world.folder / "whole", world.state)
    yield


def _errors(caplog: pytest.LogCaptureFixture, path: Path) -> list[str]:
    said = [one for one in caplog.records if one.levelno >= logging.WARNING]
    return [one.getMessage() for one in said if path.name in one.getMessage()]


def _damage(path: Path, kind: str) -> bytes | None:
    """Damage a file as a disk does: nobody has written it. Returns what it is now."""
    before = path.stat()
    made = ROWS[_name(path)].other if kind == OTHER else DAMAGE[kind](path.read_bytes())
    if made is None or kind == OTHER:
        path.unlink()
    if made is not None:
        path.write_bytes(made)
    if made is not None and kind != OTHER:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return made


def _name(path: Path) -> str:
    return f"log/{path.name}" if path.parent.name == "log" else path.name


def test_each_file_of_the_folder_has_a_row(world: World) -> None:
    found = {_name(path) for path in world.state.rglob("*") if path.is_file()}
    assert found == set(ROWS)


async def test_over_a_whole_folder_all_is_known_and_nothing_is_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.started() as gateway:
        assert await known(gateway) == KNOWN
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.drawn(35)
@pytest.mark.parametrize("kind", [*DAMAGE, OTHER])
@pytest.mark.parametrize("name", ROWS)
async def test_over_a_damaged_file_it_starts_and_what_is_lost_is_told(
    world: World, caplog: pytest.LogCaptureFixture, name: str, kind: str
) -> None:
    path, row = world.state / name, ROWS[name]
    made = _damage(path, kind)
    async with world.started() as gateway:
        lost = KNOWN - await known(gateway)
        assert gateway.process.parts.life.epoch > max(world.epochs)
    assert lost <= row.lost
    told = _errors(caplog, path)
    if kind in row.is_silent:
        return
    assert told, f"nothing is told of {name}"
    aside = path.with_name(f"{path.name}.damaged-1")
    if row.is_kept_aside and made is not None:
        assert aside.read_bytes() == made


async def test_beside_a_whole_neighbour_a_gateway_whose_files_are_all_empty_knows_the_fleet_again(
    fleet: Fleet,
) -> None:
    one, other = fleet.gateway("one"), fleet.gateway("other")
    await one.start()
    await other.start(neighbours=[f"127.0.0.1:{one.port}"])
    await until(lambda: one.links and other.links)
    before = other.process.parts.life.epoch
    other.process.parts.broker.accept(Entry("first", b"1", qos=1, retain=True))
    await until(lambda: list(one.process.parts.broker.core.retention.match("first")))
    await other.stop()
    state = other.folder / "state"
    for path in state.iterdir():
        if path.is_file():
            path.write_bytes(b"")
    state_format.claim(state)
    await other.start(neighbours=[f"127.0.0.1:{one.port}"])
    assert other.process.parts.life.epoch > before
    await until(lambda: one.links and other.links)
    await until(lambda: other.process.parts.members.known.get("one"))
    await until(lambda: list(other.process.parts.broker.core.retention.match("first")))
    other.process.parts.broker.accept(Entry("second", b"2", qos=1, retain=True))
    await until(lambda: list(one.process.parts.broker.core.retention.match("second")))


async def test_a_log_that_is_missing_as_a_whole_is_told_and_sessions_stay(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(world.state / "log")
    async with world.started() as gateway:
        assert gateway.process.parts.life.epoch > max(world.epochs)
        assert {"retained", "session"} <= await known(gateway)
        assert gateway.process.parts.node.log.damaged_bytes > 0
    assert f"{world.state / 'log'}: missing, and it was there: " in caplog.text
