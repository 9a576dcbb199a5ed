"""Goal: whatever call for its files fails while a gateway starts, it starts, or says why in a line.

Method: a whole gateway, with something in each file of its state folder, is started in this
process over a copy of the folder, and the n-th call for the folder fails: once, or from then on.
A start that is refused names a file of the folder, or the folder; the next start, over a disk that
works again, knows all that nothing has told to be lost.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
from collections.abc import AsyncIterator, Iterator

import by_seed
import pytest
from failing_calls import FOR_EVER, FailingCalls, Fault
from filled_gateway import KNOWN, World, filled, known

from gateway.process.configuration.config import ConfigError

FAULTS = (
    Fault("EIO-once", errno.EIO),
    Fault("EIO-for-some-calls", errno.EIO, 5),
    Fault("EIO-for-ever", errno.EIO, FOR_EVER),
    Fault("EMFILE-once", errno.EMFILE),
    Fault("ENOMEM-once", errno.ENOMEM),
    Fault("ENOMEM-for-ever", errno.ENOMEM, FOR_EVER),
)
DRAWN = 4


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Made once: each start is over a copy."""
    made = asyncio.run(filled(tmp_path_factory.mktemp("world")))
    shutil.copytree(made.state, made.folder / "whole")
    return made


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """In place of that of the other tests here: what is said counts."""
    caplog.set_level(logging.WARNING)
    yield


async def _started(world: World) -> tuple[set[str], str]:
    """Start and stop it; return what it knew, and the line with which it was refused, if it was."""
    try:
        async with world.started() as gateway:
            return await known(gateway), ""
    except (ConfigError, OSError) as error:
        return set(), str(error) or repr(error)


async def _calls(world: World) -> int:
    with pytest.MonkeyPatch.context() as patch:
        calls = FailingCalls(world.state, patch, also=("pread",))
        assert await _started(world) == (KNOWN, "")
        assert {"read", "scandir", "rename"} <= set(calls.counts)
        return calls.counts["disk"]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_whatever_call_fails_at_a_start_the_next_knows_all_that_is_not_told_to_be_lost(
    world: World, caplog: pytest.LogCaptureFixture, pytestconfig: pytest.Config, fault: Fault
) -> None:
    _restore(world)
    calls = await _calls(world)
    wrong = [
        f"{fault} at call {number} of {calls}: {why}"
        for number in by_seed.some(pytestconfig, range(1, calls + 1), DRAWN)
        async for why in _broken(world, caplog, number, fault)
    ]
    assert wrong == [], "\n".join(wrong)


async def _broken(
    world: World, caplog: pytest.LogCaptureFixture, number: int, fault: Fault
) -> AsyncIterator[str]:
    """Yield what does not hold of a start whose call with a number fails, and of the next."""
    _restore(world)
    caplog.clear()
    with pytest.MonkeyPatch.context() as patch:
        failing = FailingCalls(world.state, patch, also=("pread",))
        failing.fail(number, fault)
        try:
            _, line = await _started(world)
        except Exception as error:  # a traceback is no line
            yield f"{error!r} ends the start"
            return
        failed = failing.failed[:3]
    if line and str(world.state) not in line:
        yield f"refused without a file's name, at {failed}: {line!r}"
    knows, line = await _started(world)
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    if line:
        yield f"the next start is refused: {line!r}, after {failed}"
    elif knows != KNOWN and fault.lasts == 1:
        yield f"{KNOWN - knows} is lost for one error, at {failed}"
    elif knows != KNOWN and not any(str(world.state) in one for one in told):
        yield f"{KNOWN - knows} is lost without a word, at {failed}"


def _restore(world: World) -> None:
    shutil.rmtree(world.state)
    shutil.copytree(world.folder / "whole", world.state)
