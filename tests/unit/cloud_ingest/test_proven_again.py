"""Batches of a signer that was not known are read when its certificate is, each message once."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import deltalake
import msgpack
import pyarrow as pa
import pytest
from authority import Authority, Issued

from cloud_ingest.ingest.halving import BLAMED
from cloud_ingest.job import proven_again
from cloud_ingest.job.command import main
from cloud_ingest.job.micro_batches import MOMENTS
from cloud_ingest.spool import receipts
from cloud_ingest.spool.proof import HandedCertificates
from cloud_ingest.spool.segments import SpoolRange
from gateway.node.signing.own import OwnKey
from gateway.node.signing.ring import CertificateRing
from gateway.node.signing.trust import Trust
from tree_handler import batch
from tree_handler.batch import Entry, Flags
from tree_handler.seal import Seals

HERE = Path(__file__).parent
TIME_US = 1_760_000_000_000_000
ENDS = ("before commit", "committed", "removed")
"""Steps after which one system has a change that another lacks. Other steps are for a soak."""
STEPS = (*[moment for moment in MOMENTS if moment != "noted"], "taken", "removed")


def sealed(issued: Issued, origin: str, first: int, payloads: Sequence[bytes]) -> bytes:
    signer = OwnKey.read(issued.certificate, issued.key).signer
    seal = Seals(signer, CertificateRing(Trust([]), 0.0), "t").seal
    entries = [Entry("plant/x", payload, 1).row() for payload in payloads]
    made = batch.make(
        origin, 1, first, entries, flags=Flags.LOGGED, origin_time_us=TIME_US, seal=seal
    )
    return made[0]


class Fleet:
    """Tables that a job has made which knew gw-a and not yet gw-b."""

    def __init__(self, spool: Any, folder: Path) -> None:
        authority = Authority(folder)
        a, b = (authority.issue(name, is_gateway=True) for name in ("gw-a", "gw-b"))
        self.spool, self.tables = spool, folder / "tables"
        self.certificates = folder / "certificates"
        self.certificates.write_bytes(msgpack.packb([[a.der], [b.der]]))
        spool.append(sealed(a, "gw-a", 1, [b"1"]))
        spool.append(sealed(b, "gw-b", 1, [b"1", b"nothing", b"3"]))
        spool.append(sealed(b, "gw-b", 5, [b"5"]))
        self.forged = sealed(a, "gw-b", 6, [b"6"])  # whoever has gw-a's key is not gw-b
        spool.append(self.forged)
        spool.append(bytes(20))
        spool.append(sealed(b, "gw-b", 2, [b"nothing", b"3"]))  # a part of it comes again
        spool.sync()
        fewer = folder / "fewer"
        fewer.write_bytes(msgpack.packb([[a.der]]))
        self.ingest(fewer, "first")

    def ingest(self, certificates: Path, query: str) -> None:
        state = self.tables.with_name(query)
        command = [HERE / "ingest_in_steps.py", self.spool.folder, self.tables, state]
        environment = {**os.environ, "CERTIFICATES": str(certificates)}
        subprocess.run([sys.executable, *command], timeout=120, check=True, env=environment)

    def again(self, step: str = "") -> int:
        command = [HERE / "read_again.py", self.tables, "", step, self.certificates]
        return subprocess.run([sys.executable, *command], timeout=120, check=False).returncode

    def rows(self, name: str) -> list[dict[str, Any]]:
        found = deltalake.DeltaTable(self.tables / name).to_pyarrow_table()
        return cast(list[dict[str, Any]], found.to_pylist())

    def check(self) -> None:
        told = [(row["origin"], row["sequence"], row["value"]) for row in self.rows("telemetry")]
        numbers = [("gw-b", number, float(number)) for number in (1, 3, 5)]
        assert sorted(told) == [("gw-a", 1, 1.0), *numbers]
        aside = self.rows("quarantine")
        assert [row["sequence"] for row in aside if row["origin"] is not None] == [2]
        damaged = [row["bytes"] for row in aside if row["origin"] is None]
        assert sorted(damaged) == sorted([self.forged, bytes(20)])
        (gateway,) = (row for row in self.rows("gateways") if row["gateway"] == "gw-b")
        assert (gateway["messages"], gateway["undecodable"], gateway["gaps"]) == (4, 1, 1)


def test_batches_of_a_signer_that_is_known_now_are_read_as_if_they_came_today(
    spool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = Fleet(spool, tmp_path)
    collected = {row["bytes"]: row["collected_time"] for row in fleet.rows("quarantine")}
    arguments = ["--tables", str(fleet.tables), "--again", "--tree", "t"]
    assert main(arguments) == 0
    assert len(fleet.rows("telemetry")) == 1  # nothing is believed without certificates
    assert main([*arguments, "--certificates", str(fleet.certificates)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[1] == "quarantine: 3 batches are proven now, and are read"
    fleet.check()
    times = {row["collected_time"] for row in fleet.rows("telemetry") if row["origin"] == "gw-b"}
    assert times <= set(collected.values())
    fleet.ingest(fleet.certificates, "anew")  # all of the spool, once more
    fleet.check()


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    "step",
    [
        step if step in ENDS else pytest.param(step, marks=pytest.mark.soak("between two others"))
        for step in STEPS
    ],
)
def test_killed_between_two_steps_and_begun_again_each_message_is_there_once(
    step: str, spool: Any, tmp_path: Path
) -> None:
    fleet = Fleet(spool, tmp_path)
    assert fleet.again(step) == -signal.SIGKILL
    if step == "committed":  # a job that comes in between tells the fleet what was not told
        fleet.ingest(fleet.certificates, "between")
    assert fleet.again() == 0
    fleet.check()


def test_more_than_is_read_at_once_is_read_in_steps(
    spool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(spool, tmp_path)
    monkeypatch.setattr(proven_again, "MOST_BYTES", 1)
    arguments = ["--tables", str(fleet.tables), "--again", "--tree", "t"]
    assert main([*arguments, "--certificates", str(fleet.certificates)]) == 0
    fleet.check()


class Quarantine:
    """Stands in for the ingest and its table of what was set aside; notes what is done with it."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.left = rows
        self.quarantine = self.store = self
        self.taken: list[tuple[bytes, bytes]] = []
        self.steps: list[str] = []

    def rows(self, columns: Sequence[str], at_once: int) -> list[dict[str, Any]]:
        return [{name: row[name] for name in columns} for row in self.left]

    def take_restored(self, ranges: list[SpoolRange]) -> None:
        (one,) = ranges
        path = Path(one.spool) / one.segment
        data = path.read_bytes()
        assert (one.start, one.end) == (0, len(data))
        self.taken.append((data, path.with_suffix(receipts.SUFFIX).read_bytes()))

    def delete(self, store: object, keys: pa.Table) -> None:
        assert store is self
        gone = keys.to_pylist()
        self.left = [row for row in self.left if {name: row[name] for name in gone[0]} not in gone]

    def watch(self, step: str) -> None:
        self.steps.append(step)

    def refresh(self) -> None:
        self.steps.append("refreshed")


def aside(at: int, frame: bytes, origin: str | None = None, reason: str = "x") -> dict[str, Any]:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    place = {"spool": "s", "segment": "g", "position": at, "found_time": moment}
    return {**place, "reason": reason, "origin": origin, "collected_time": moment, "bytes": frame}


def test_what_is_read_again_is_whole_proven_batches_that_say_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    a, b = (authority.issue(name, is_gateway=True) for name in ("gw-a", "gw-b"))
    seal = Seals(
        OwnKey.read(a.certificate, a.key).signer, CertificateRing(Trust([]), 0.0), "t"
    ).seal
    whole = sealed(a, "gw-a", 1, [b"1"])
    passed, _ = batch.passed(("gw-a", 1), 2, 9, seal=seal)
    hollow, _ = batch.passed(("gw-a", 1), 2, 9, Flags.NONE, seal)  # no message, and says eight
    entry = Entry("plant/x", b"1", 1)
    local = batch.encode("gw-a", 1, 1, [entry], flags=Flags.LOCAL, origin_time_us=1)
    plain = batch.encode("gw-a", 1, 1, [entry], flags=Flags.LOGGED, origin_time_us=1)
    wrong = [hollow, local, plain, whole + b"x", whole[:-1], b"", sealed(b, "gw-b", 1, [b"1"])]
    rows = [aside(at, frame) for at, frame in enumerate(wrong, 10)]
    rows += [aside(30, whole, "gw-a"), aside(31, whole, None, f"{BLAMED}odd")]
    table = Quarantine([aside(1, whole), *rows, aside(2, passed)])
    monkeypatch.setattr(proven_again, "delete_keys", table.delete)
    certificates = HandedCertificates(msgpack.packb([[a.der]]))
    count = proven_again.read_again(cast(Any, table), Seals(None, certificates, "t"))
    assert count == 2
    ends = receipts.PAIR.pack(len(whole), 1_000_000)
    ends += receipts.PAIR.pack(len(whole + passed), 2_000_000)
    assert table.taken == [(whole + passed, ends)]
    assert table.steps == ["taken", "refreshed", "removed"]
    assert table.left == rows
