"""A power cut of these tests takes what no sync had forced to the disk, of small files too."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from failing_calls import FailingCalls, Fault

from alerts.desk import trial
from alerts.record import AlertRecord
from gateway.alerting.spooled_ways import SpooledWays
from gateway.base import replaced_file
from gateway.sensors.catalogue import Workshop
from gateway.sensors.stock import SensorStock

EIO = Fault("EIO-once", errno.EIO)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, FailingCalls]:
    calls = FailingCalls(tmp_path, monkeypatch)
    replaced_file.replace(tmp_path / "small", b"old", is_durable=True)
    return tmp_path / "small", calls


class NeverAsked:
    """A way out that nothing reaches within the time of a test."""

    def take(self, records: Sequence[AlertRecord]) -> None:
        raise AssertionError(records)


Small = tuple[Path, FailingCalls]


@pytest.mark.parametrize(
    ("is_durable", "stays"), [(True, b"new"), (False, b"")], ids=["forced", "not forced"]
)
def test_a_new_file_is_there_if_it_was_forced(small: Small, is_durable: bool, stays: bytes) -> None:
    path, calls = small
    replaced_file.replace(path, b"new", is_durable=is_durable)
    for _ in range(2):
        calls.cut_power(path.parent)
        assert path.read_bytes() == stays


@pytest.mark.parametrize("was_there", [True, False])
def test_a_new_file_whose_name_was_not_forced_is_the_old_one(small: Small, was_there: bool) -> None:
    path, calls = small
    path = path if was_there else path.with_name("another")
    _fail_on_sync(calls, lambda: replaced_file.replace(path, b"new", is_durable=True), 2)
    assert path.read_bytes() == b"new"
    calls.cut_power(path.parent)
    assert path.read_bytes() == b"old" if was_there else not path.exists()


def test_a_name_that_is_forced_at_last_stays(small: Small) -> None:
    path, calls = small
    _fail_on_sync(calls, lambda: replaced_file.replace(path, b"new", is_durable=True), 2)
    replaced_file.sync_folder(path.parent)
    calls.cut_power(path.parent)
    assert path.read_bytes() == b"new"


def test_a_sensor_that_was_added_is_there_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = FailingCalls(tmp_path, monkeypatch)
    stock = SensorStock(tmp_path / "sensors.json", Workshop().build)
    for name in ("pump", "lamp"):
        plan = stock.with_added({"type": "switch", "name": name})
        stock.write(plan)
        stock.take(plan)
    calls.cut_power(tmp_path)
    again = SensorStock(tmp_path / "sensors.json", Workshop().build)
    found = again.recalled([], Workshop().build)
    assert [one.sensor.name for one in found.all] == ["pump", "lamp"]


def test_what_was_taken_for_a_way_out_waits_for_it_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = FailingCalls(tmp_path, monkeypatch)
    ways = SpooledWays(tmp_path / "ways.json", {"mail": NeverAsked()})
    ways.take(trial("gw-a", "campus/north", 1_700_000_000_000_000))
    ways.close()
    calls.cut_power(tmp_path)
    again = SpooledWays(tmp_path / "ways.json", {"mail": NeverAsked()})
    again.close()
    assert again.figures()["mail"].waiting == 2


def _fail_on_sync(calls: FailingCalls, work: Callable[[], None], which: int) -> None:
    """Fail the sync that is so many calls of its kind ahead."""
    calls.fail(which, Fault(EIO.name, EIO.number, place="fsync"))
    with pytest.raises(OSError, match="Input/output"):
        work()
    calls.mend()
