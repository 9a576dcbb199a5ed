"""The job with mapping rules: messages of other makes are rows, once, and the rest is put aside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

from cloud_ingest.job.command import main
from cloud_ingest.mapping.sparkplug_messages import Payload
from gateway.base import exit_codes

PROGRAM = Path(__file__).with_name("ingest_in_steps.py")
RULES = """
[[mapping]]
topic = "plant/{line}/data"
format = "json"
tags = {line = "{line}"}
measurements = [
    {sensor = "{line}/t", value = "$.t", unit = "Cel"},
    {sensor = "{line}/mode", value = "$.mode"},
]
[[mapping]]
topic = "spBv1.0/#"
format = "sparkplug"
"""


def rows(table: Path, *columns: str) -> list[tuple[Any, ...]]:
    read = deltalake.DeltaTable(table).to_pyarrow_dataset().to_table().sort_by("sequence")
    return [tuple(row[name] for name in columns) for row in read.to_pylist()]


def test_messages_of_other_makes_are_rows_and_what_no_rule_can_read_is_put_aside(
    spool: Any, tmp_path: Path
) -> None:
    sparkplug = Payload(timestamp=1_000, metrics=[{"name": "rpm", "double_value": 900.0}])
    spool.readings("gw-a", 1, 1, 2)
    json = [b'{"t": 21.5, "mode": "eco"}', b'{"t": 21.5}', b'{"value": 1}']
    spool.payloads("gw-a", 1, 3, json, topic="plant/1/data")
    spool.payloads("gw-a", 1, 6, [sparkplug.SerializeToString()], topic="spBv1.0/g/NDATA/n")
    spool.payloads("gw-a", 1, 7, [b"7", b"off"], topic="elsewhere")
    spool.payloads("gw-a", 1, 3, json, topic="plant/1/data")
    spool.sync()
    mappings, tables = tmp_path / "mappings.toml", tmp_path / "tables"
    mappings.write_text(RULES)
    command = [PROGRAM, spool.folder, tables, tmp_path / "state", "", "-1", mappings]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert rows(tables / "telemetry", "sequence", "sensor", "value", "unit") == [
        (1, "host/load1", 1.5, "/"),
        (2, "host/load1", 2.5, "/"),
        (3, "1/t", 21.5, "Cel"),
        (6, "g/n/rpm", 900.0, None),
        (7, None, 7.0, None),
    ]
    (mapped,) = (
        row for row in rows(tables / "telemetry", "sensor", "tags", "measurements") if row[2]
    )
    assert (mapped[0], mapped[1]) == ("1/t", [("line", "1")])
    several = [(each["sensor"], each["value"], each["value_text"]) for each in mapped[2]]
    assert several == [("1/t", 21.5, None), ("1/mode", None, "eco")]
    aside = rows(tables / "quarantine", "sequence", "reason")
    assert [number for number, _ in aside] == [4, 5, 8]
    assert [why for _, why in aside][:2] == ["value: $.mode: missing", "value: $.t: missing"]


def test_a_wrong_file_of_rules_ends_the_command_with_its_name_and_key(
    spool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mappings = tmp_path / "mappings.toml"
    mappings.write_text(RULES + "sensors = 1\n")
    arguments = ["--spool", str(spool.folder), "--tables", str(tmp_path / "tables")]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--mappings", str(mappings)])
    assert ended.value.code == exit_codes.WRONG_USE
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"--mappings: {mappings}: mapping[1]: Object contains unknown field `sensors`" in told


def test_protobuf_is_loaded_for_rules_of_sparkplug_alone() -> None:
    code = "import sys, cloud_ingest.mapping.reading; sys.exit('google.protobuf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
