"""Hooks of all tests: programs of other projects are used, or named where they are missing.

Asynchronous tests run on the event loop that a gateway would take; HEDGEROW_EVENT_LOOP=asyncio
has them, and the gateways that they start, run on asyncio's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from gateway.base import event_loop
from gateway.process.configuration.config import MODES

# How long one example takes says something of the machine, not of the code. Each run draws other
# examples; those of many commits are as good as many of one.
settings.register_profile("hedgerow", deadline=None, max_examples=50)
settings.register_profile("soak", deadline=None, max_examples=500)
settings.load_profile("hedgerow")
# What tests share, which no package holds under --import-mode=importlib.
sys.path.insert(0, str(Path(__file__).parent))
missing_peer = importlib.import_module("missing_peer")
warm_starts = importlib.import_module("warm_starts")
warm_starts.install()
# What is collected stays: to look for garbage in it took a fifth of a collection's time.
gc.set_threshold(100_000, 50, 50)
# Tests write keys as text, and a gateway takes none that others can read.
os.umask(0o027)


TOGETHER = {
    "spark": "one Spark takes a gibibyte and all cores, and one session serves all tests",
    "multicast": "all find each other on one group and port of the loopback",
    "fleet of three": "they boot the same three systems, of which the last module retires one",
}
"""Tests of several modules that stay in one process, one after the other, and why."""
_SPARK = (
    *("test_spark_ingest.py", "test_spark_session.py", "test_ingest_command.py"),
    *("test_demo.py", "test_kill.py"),
    *("test_page_with_spark.py", "test_ingest_kill.py", "test_ingest_crashes.py"),
    "test_ingest_rounds.py",
    *("test_ingest_elsewhere.py", "test_an_hour_through_the_job.py"),
)
_MULTICAST = ("test_multicast_discovery.py", "test_dns_sd.py")
_FLEET_OF_THREE = ("test_fleet_of_three.py", "test_upgrade.py", "test_who_comes_and_goes.py")
GROUPS = (
    dict.fromkeys(_SPARK, "spark")
    | dict.fromkeys(_MULTICAST, "multicast")
    | dict.fromkeys(_FLEET_OF_THREE, "fleet of three")
)
ALONE = {
    "network": "what is measured there is how soon real processes notice a silent neighbour",
}
"""Folders and modules whose tests run beside no other, or in CI beside those that give way."""
ALONE_OR_NOT = {"alone": False, "not alone": True}
"""Values of ``-m`` that leave out whole modules, and whether it is those in ALONE.

To import them all for the few that run alone takes ten times as long.
"""


LONG = {
    "spark",
    "test_alerts_that_reach_people.py",
    "test_remote_places.py",
    "test_provisioning.py",
    "test_page_sensors.py",
    "test_demo.py",
    "test_broker_kill.py",
    "test_cloned_card.py",
    "test_pages.py",
    "test_each_call_fails.py",
}
"""Groups and modules of minutes: they begin first, or one worker has them left in the end."""


def together(nodeid: str) -> str:
    """Return the group that shares a worker: a module, for its fixtures' sake, or several ones."""
    module = _module_of(nodeid)
    return GROUPS.get(Path(module).name, module)


class GroupScheduling(LoadScopeScheduling):
    """Hands workers whole groups.

    `pytest-xdist` does by itself what ``xdist_group`` marks, but not with pytest 9.2, whose tests
    it can't rename: they went one by one, and each worker made the fixtures of a module anew.
    """

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    """Called by pytest-xdist."""
    return GroupScheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Say what runs beside nothing; and when the order is drawn, begin with what is long."""
    for item in items:
        for place in _alone(item.path):
            item.add_marker(pytest.mark.alone(ALONE[place]))
    booted = _with_mark(items, "deploy")
    if "deploy" not in (config.option.markexpr or ""):
        _leave_out(config, items, booted)
    if not config.option.soak:
        # Of a module of minutes, who asks for booted systems has those that boot one.
        _leave_out(config, items, [one for one in _with_mark(items, "soak") if one not in booted])
        if not config.option.keyword:  # who asks for a case by its name has it
            _leave_out(config, items, not_drawn(items, config.getoption("--seed")))
    before = config.stash[PASSED_BEFORE]
    _leave_out(config, items, [item for item in items if item.nodeid in before])
    yield
    items.sort(key=lambda item: {together(item.nodeid), item.path.name}.isdisjoint(LONG))


def pytest_collection_finish() -> None:
    """Look for garbage in what tests make, and less often: it took an eighth of their time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)


def _with_mark(items: list[pytest.Item], mark: str) -> list[pytest.Item]:
    return [item for item in items if item.get_closest_marker(mark) is not None]


def not_drawn(items: list[pytest.Item], seed: int) -> list[pytest.Item]:
    """Return what ``drawn`` leaves to other seeds: cases of a test, or tests of a module."""
    marked: dict[str, list[pytest.Item]] = {}
    counts: dict[str, int] = {}
    for item in items:
        for node, marker in item.iter_markers_with_node("drawn"):
            name = node.nodeid.partition("[")[0]
            marked.setdefault(name, []).append(item)
            (counts[name],) = marker.args
    left_out: list[pytest.Item] = []
    for name, drawn in marked.items():
        drawn.sort(key=lambda item: item.nodeid)
        random.Random(f"{seed} {name}").shuffle(drawn)
        left_out += drawn[counts[name] :]
    return left_out


def _leave_out(
    config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]
) -> None:
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


class Passed:
    """Writes down which tests passed, for a run on another build that need not repeat them.

    A module of which all passed has its own name there too: nobody need import it again.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._names: set[str] = set()
        self._open_modules: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._names.add(report.nodeid)
        elif not report.passed:  # skipped, or failed in its own call or around it
            self._open_modules.add(_module_of(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        modules = {_module_of(name) for name in self._names} - self._open_modules
        self._file.write_text("".join(f"{name}\n" for name in sorted(self._names | modules)))


def _module_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


PASSED_BEFORE = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Register what writes down; of several workers it is the one that hears of all."""
    if config.option.soak:
        settings.load_profile("soak")
        if config.option.timeout is None:
            config.option.timeout = 0  # the limit is for checks of a second
    if (file := config.option.note_passed) is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Passed(file))
    before = config.option.passed_before
    names = before.read_text().splitlines() if before is not None and before.exists() else []
    config.stash[PASSED_BEFORE] = set(names)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module whose tests all passed before, or that ``-m`` leaves out as a whole.

    Other plug-ins have their say too.
    """
    name = collection_path.relative_to(config.rootpath).as_posix()
    if name in config.stash[PASSED_BEFORE]:
        return True
    if collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        left_out = ALONE_OR_NOT.get(config.option.markexpr)
        return True if left_out is not None and left_out == bool(_alone(collection_path)) else None
    return None


def _alone(module: Path) -> set[str]:
    """Return by which names in ALONE the tests of a module run beside no other."""
    return {module.parent.name, module.name} & ALONE.keys()


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Called by pytest-asyncio: what makes each test's event loop."""
    factory = event_loop.loop_factory(os.environ.get(event_loop.CHOICE_VARIABLE, ""))
    return {"asyncio": asyncio.new_event_loop} if factory is None else {"uvloop": factory}


AGAIN_S = 30.0
"""So long after its limit, a test that goes on all the same is cancelled again."""


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer() -> Iterator[None]:
    """Called by pytest-timeout: end a test that waits in uvloop, too.

    That loop reports what a handler of a signal raises, and waits on: such a test, and the whole
    run with it, stood still for good.
    """
    result = yield
    if callable(told := signal.getsignal(signal.SIGALRM)):
        signal.signal(signal.SIGALRM, ending_tasks(told))
    return result


def ending_tasks(told: Callable[[int, Any], Any]) -> Callable[[int, Any], None]:
    """Return a handler that cancels what runs in this thread's loop, where raising is of no use."""

    def ended(number: int, frame: Any) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            told(number, frame)
            return
        for task in asyncio.all_tasks(loop):
            task.print_stack(file=sys.stderr)  # the stack that pytest shows is the loop's alone
        if isinstance(loop, asyncio.BaseEventLoop):
            told(number, frame)
            return
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        try:
            told(number, frame)
        except BaseException as error:
            for task in asyncio.all_tasks(loop):
                task.cancel(str(error))

    return ended


def _module_with(name: str) -> ModuleType | None:
    """Return the module of a name, or the one in which a class of that name is."""
    while name:
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
        name = name.rpartition(".")[0]
    return None


class PatchOfTheInterpreted(pytest.MonkeyPatch):
    """Replaces attributes, but not of what mypyc has compiled: its calls would not notice."""

    def setattr(self, target: Any, name: Any, *more: Any, **options: Any) -> None:
        """Patch as `pytest.MonkeyPatch` does, or skip the test where the module is compiled."""
        owner = target.rpartition(".")[0] if isinstance(target, str) else target
        if not isinstance(owner, str | ModuleType):
            owner = getattr(owner, "__module__", None) or type(owner).__module__
        module = _module_with(owner) if isinstance(owner, str) else owner
        if (getattr(module, "__file__", None) or "").endswith(".so"):
            pytest.skip(f"replaces what is compiled here: {target}, {name}")
        super().setattr(target, name, *more, **options)


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    """Undone at the end of the test, as pytest's own is."""
    patch = PatchOfTheInterpreted()
    yield patch
    patch.undo()


SUBCLASSES_COMPILED = "interpreted classes cannot inherit from compiled"
"""The words of mypyc's error where a test has made its own subclass of a class of the product."""


@contextlib.contextmanager
def skipped_where_a_stand_in_is_none() -> Iterator[None]:
    """Skip a test whose own subclass of a compiled class can't be made; interpreted, it can."""
    try:
        yield
    except TypeError as error:
        if str(error) != SUBCLASSES_COMPILED:
            raise
        pytest.skip("makes a subclass of what is compiled here")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Called by pytest around a test."""
    with skipped_where_a_stand_in_is_none():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, Any, Any]:
    """Called by pytest around a fixture."""
    with skipped_where_a_stand_in_is_none():
        return (yield)


@pytest.fixture
def process_of_a_service() -> Iterator[None]:
    """Take back what a service sets for its whole process: later tests of this worker share it.

    uvloop's handlers of signals stay when its loop is closed.
    """
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
    handlers = [signal.getsignal(number) for number in numbers]
    umask = os.umask(0)
    os.umask(umask)
    switch_s, thresholds, callbacks = sys.getswitchinterval(), gc.get_threshold(), [*gc.callbacks]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
    os.umask(umask)
    sys.setswitchinterval(switch_s)
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a missing program, naming the install command; in CI, fail."""
    for marker in item.iter_markers("peer"):
        program, package = marker.args
        if shutil.which(program) is None:
            message = f"{program} is not installed: sudo apt-get install {package}"
            missing_peer.skip_or_fail_in_ci(message)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say by what seed that was drawn which failed."""
    if terminalreporter.stats.keys() & {"failed", "error"}:
        seed = terminalreporter.config.getoption("--seed")
        terminalreporter.write_line(f"What tests draw was drawn by --seed {seed}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--soak`` makes the long checks long."""
    parser.addoption("--soak", action="store_true", help="run long checks in full length")
    parser.addoption("--note-passed", type=Path, help="write down which tests passed, in this file")
    parser.addoption("--passed-before", type=Path, help="leave out the tests that this file names")
    parser.addoption("--seed", type=int, default=1, help="of what tests draw")
    parser.addoption("--cuts", type=int, help="power cuts at so many moments of each playbook")
    parser.addoption("--boots", type=int, help="boot so many of these, and look at the others")
    parser.addoption("--plays", type=int, help="run the playbook again on so many of these")
    parser.addoption("--chaos-s", type=float, default=None, help="how long the chaos goes on")
    parser.addoption("--chaos-mode", choices=MODES, default=None, help="the tree's mode in it")
