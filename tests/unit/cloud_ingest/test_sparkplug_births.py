"""Aliases of Sparkplug mean what the birth before them said: over tasks, triggers and restarts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

from cloud_ingest.ingest.forgetting import GatewayErasure
from cloud_ingest.ingest.kept_births import FILE, KeptBirths
from cloud_ingest.ingest.quarantine_reread import QuarantineReread
from cloud_ingest.mapping import births as births_module
from cloud_ingest.mapping import rules
from cloud_ingest.mapping.births import MAX_OF_PLACE, Birth, Births, MessageStamp
from cloud_ingest.mapping.sparkplug import birth_of
from cloud_ingest.mapping.sparkplug_messages import Payload
from cloud_ingest.tables.store import TableStore

PROGRAM = Path(__file__).with_name("ingest_in_steps.py")
RULES = """
[[mapping]]
topic = "spBv1.0/#"
format = "sparkplug"
"""


def birth(at: int, aliases: dict[int, str], place: str = "g/n", origin: str = "gw-a") -> Birth:
    return Birth(
        place, MessageStamp(origin, at, 1), {one: (name, 4) for one, name in aliases.items()}
    )


def name(births: Births, at: int, alias: int, place: str = "g/n", origin: str = "gw-a") -> str:
    found = births.find(MessageStamp(origin, at, 2), place, alias)
    return "" if found is None else found[0]


def test_a_birth_counts_for_what_comes_behind_it_until_the_next_one() -> None:
    births = Births()
    assert births.take([birth(20, {1: "b", 2: "c"}), birth(10, {1: "a"})])
    assert [name(births, at, 1) for at in (9, 10, 19, 20, 99)] == ["", "a", "a", "b", "b"]
    assert name(births, 15, 2) == ""
    assert not births.take([birth(30, {1: "b", 2: "c"}), birth(20, {1: "b", 2: "c"})])
    assert name(births, 99, 1, place="g/other") == ""
    assert name(births, 99, 1, origin="gw-b") == ""  # nobody's births name another's metrics


def test_births_are_read_again_as_they_were_kept() -> None:
    births = Births()
    births.take([birth(10, {1: "a"}), birth(20, {2: "b"}), birth(5, {2**63: "x"}, "g/n/d", "gw-b")])
    read = Births.unpack(births.pack())
    assert read.pack() == births.pack()
    assert name(read, 10, 1) == "a"
    assert name(read, 5, 2**63, "g/n/d", "gw-b") == "x"


def test_what_was_born_longest_ago_goes_first_and_nobody_takes_the_room_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(births_module, "MAX_ALIASES_OF_ORIGIN", 8)
    monkeypatch.setattr(births_module, "MAX_ALIASES", 12)
    births = Births()
    births.take([birth(1, {1: "a"}, origin="gw-b")])
    births.take(birth(at, {1: f"v{at}"}, f"g/{at}") for at in range(10, 20))
    assert [name(births, 99, 1, f"g/{at}") for at in range(10, 20)] == [
        *[""] * 6,
        *(f"v{at}" for at in range(16, 20)),
    ]
    births.take(birth(at, {1: "w"}, f"g/{at}", "gw-c") for at in range(20, 24))
    assert name(births, 99, 1, origin="gw-b") == "a"
    of_c = [name(births, 99, 1, f"g/{at}", "gw-c") for at in range(20, 24)]
    of_a = [name(births, 99, 1, f"g/{at}") for at in range(10, 20)]
    assert sum(map(bool, ("a", *of_a, *of_c))) <= 12


def test_a_node_that_is_born_over_and_over_is_remembered_a_few_times() -> None:
    births = Births()
    births.take(birth(at, {1: f"v{at}"}) for at in range(100))
    assert [name(births, at, 1) for at in (99, 100 - MAX_OF_PLACE, 99 - MAX_OF_PLACE)] == [
        "v99",
        f"v{100 - MAX_OF_PLACE}",
        "",
    ]


def sparkplug(*metrics: dict[str, Any]) -> bytes:
    payload: bytes = Payload(timestamp=1_000, metrics=list(metrics)).SerializeToString()
    return payload


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("spBv1.0/g/NDATA/n", sparkplug({"name": "a", "alias": 1})),
        ("spBv1.0/g/NBIRTH/n/d", sparkplug({"name": "a", "alias": 1})),
        ("spBv1.0/g", b""),
        ("other/g/NBIRTH/n", sparkplug({"name": "a", "alias": 1})),
        ("spBv1.0/g/NBIRTH/n", b"\xff\xff"),
    ],
)
def test_what_is_no_birth_or_can_not_be_read_says_nothing(topic: str, payload: bytes) -> None:
    assert birth_of(topic, payload, MessageStamp("gw-a", 1, 1)) is None


def test_a_birth_says_names_and_types_of_aliases() -> None:
    metrics = ({"name": "a", "alias": 1, "datatype": 3}, {"name": "b"}, {"name": "", "alias": 2})
    sender = MessageStamp("gw-a", 1, 1)
    told = birth_of("spBv1.0/g/DBIRTH/n/d", sparkplug(*metrics), sender)
    assert told == Birth("g/n/d", sender, {1: ("a", 3)})


def run(spool: Any, tmp_path: Path) -> Path:
    spool.sync()
    mappings, tables = tmp_path / "mappings.toml", tmp_path / "tables"
    mappings.write_text(RULES)
    command = [PROGRAM, spool.folder, tables, tmp_path / "state", "", "-1", mappings]
    subprocess.run([sys.executable, *command], timeout=120, check=True)
    return tables


def rows(tables: Path) -> list[tuple[Any, ...]]:
    read = deltalake.DeltaTable(tables / "telemetry").to_pyarrow_table().sort_by("sequence")
    return [
        tuple(row[name] for name in ("sequence", "sensor", "value", "quality"))
        for row in read.to_pylist()
    ]


def test_aliases_have_their_names_in_the_same_trigger_in_later_ones_and_after_restarts(
    spool: Any, tmp_path: Path
) -> None:
    node = {"name": "rpm", "alias": 1, "datatype": 3, "int_value": 5}
    device = {"name": "temp", "alias": 2, "datatype": 10, "double_value": 20.5}
    minus_1 = {"alias": 1, "int_value": 2**32 - 1}

    def send(number: int, topic: str, *metrics: dict[str, Any]) -> None:
        spool.payloads("gw-a", 1, number, [sparkplug(*metrics)], topic=f"spBv1.0/g/{topic}")

    send(1, "NDATA/n", minus_1)
    send(2, "NBIRTH/n", node)
    send(3, "DBIRTH/n/d", device)
    send(4, "NDATA/n", minus_1)
    spool.roll()
    send(5, "DDATA/n/d", {"alias": 2, "double_value": 21.5})
    send(6, "DDATA/n/d", minus_1)  # a node's aliases are one set with its devices'
    tables = run(spool, tmp_path)
    spool.roll()
    send(7, "NDATA/n", minus_1)
    send(8, "NBIRTH/n", node | {"name": "speed"})
    send(9, "NDATA/n", minus_1)
    send(10, "NDATA/other", minus_1)
    assert run(spool, tmp_path) == tables
    assert rows(tables) == [
        (1, "g/n/alias:1", float(2**32 - 1), "uncertain"),
        (2, "g/n/rpm", 5.0, None),
        (3, "g/n/d/temp", 20.5, None),
        (4, "g/n/rpm", -1.0, None),
        (5, "g/n/d/temp", 21.5, None),
        (6, "g/n/d/rpm", -1.0, None),
        (7, "g/n/rpm", -1.0, None),
        (8, "g/n/speed", 5.0, None),
        (9, "g/n/speed", -1.0, None),
        (10, "g/other/alias:1", float(2**32 - 1), "uncertain"),
    ]
    store = TableStore(str(tables))
    GatewayErasure(store).forget("gw-a")
    assert b"gw-a" not in (tables / FILE).read_bytes()


def test_what_is_in_quarantine_is_read_again_by_the_births_before_it(
    spool: Any, tmp_path: Path
) -> None:
    data = [sparkplug({"alias": 1, "double_value": 7.0})]
    spool.payloads("gw-a", 1, 1, data, topic="spBv1.0/g/NDATA/n")
    spool.sync()
    tables = tmp_path / "tables"
    command = [PROGRAM, spool.folder, tables, tmp_path / "state"]
    subprocess.run([sys.executable, *command], timeout=120, check=True)
    store = TableStore(str(tables))
    KeptBirths(store).take([birth(0, {1: "rpm"})])
    assert QuarantineReread(store, rules.read(RULES)).run().moved == 1
    assert rows(tables) == [(1, "g/n/rpm", 7.0, None)]


def test_a_file_of_births_that_is_damaged_is_no_end(tmp_path: Path) -> None:
    store = TableStore(str(tmp_path))
    for data in (b"", b"\xff", b"\x81\xa1a\x01"):
        store.write(FILE, data)
        assert KeptBirths(store).births.pack() == Births().pack()
