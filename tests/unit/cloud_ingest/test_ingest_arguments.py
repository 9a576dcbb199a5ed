"""Arguments of the job and the collector: their defaults, and the form of Spark's master."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from cloud_ingest import arguments


def read(add: Any, *words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add(parser)
    return vars(parser.parse_args(words))


def test_a_job_that_is_told_little_has_the_documented_defaults() -> None:
    assert read(arguments.add_ingest, "--tables", "t") == {
        "spool": [],
        "tables": "t",
        "json": None,
        "follow": False,
        "trigger_s": 1.0,
        "alerts": None,
        "mappings": None,
        "metrics": None,
        "certificates": None,
        "tree": "hedgerow",
        "gateway_gaps": 16_384,
        "gateway_lives": 1_024,
        "total_gaps": 2_000_000,
        "master": "local[*]",
        "conf": [],
        "storage": [],
        "checkpoint": None,
        "name": "ingest",
        "max_bytes": 256 * 1_048_576,
        "compact": False,
        "compact_every": 300,
        "keep_days": None,
        "vacuum_hours": 168,
        "again": False,
        "forget_gateway": [],
    }


def test_what_a_job_is_told_is_read() -> None:
    paths = ("json", "alerts", "mappings", "certificates", "checkpoint")
    numbers = ("gateway-gaps", "gateway-lives", "total-gaps", "max-bytes", "compact-every")
    numbers += ("keep-days", "vacuum-hours")
    texts = ("tables", "metrics", "tree", "name")
    lists = ("conf", "storage", "forget-gateway")
    words = [f"--{name}=7" for name in (*paths, *numbers, *texts, *lists, *lists)]
    words += ["--spool=a", "--spool=b", "--follow", "--compact", "--again"]
    words += ["--trigger-s=0.5", "--master=local[3]"]
    found = read(arguments.add_ingest, *words)
    told = {name.replace("-", "_"): 7 for name in numbers}
    told |= {name.replace("-", "_"): ["7", "7"] for name in lists}
    told |= {name: Path("7") for name in paths} | dict.fromkeys(texts, "7")
    told |= {"spool": [Path("a"), Path("b")], "trigger_s": 0.5, "master": "local[3]"}
    assert found == told | dict.fromkeys(("follow", "compact", "again"), True)


@pytest.mark.parametrize(
    ("master", "is_one"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[12]", True),
        ("local[2,4]", True),
        ("local[0]", False),
        ("local[]", False),
        ("local[2,0]", False),
        ("locals", False),
        ("local-cluster[2,1,1024]", True),
        ("local-cluster[]", False),
        ("spark://h:7077", True),
        ("k8s://https://h", True),
        ("spark://", False),
        ("yarn", True),
        ("yarn2", False),
        ("mesos://h", False),
        ("", False),
    ],
)
def test_a_master_has_a_form_that_spark_knows(
    master: str, is_one: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--tables", "t", "--master", master)
    if is_one:
        assert read(arguments.add_ingest, *words)["master"] == master
        return
    with pytest.raises(SystemExit):
        read(arguments.add_ingest, *words)
    assert f"{master!r} is not local[N], spark://, k8s:// or yarn" in capsys.readouterr().err


def test_a_collector_is_told_its_file_and_says_what_it_does() -> None:
    found = read(arguments.add_collector, "--config", "c.toml")
    assert found == {"config": Path("c.toml"), "log_level": "info"}
    for level in ("debug", "info", "warning"):
        words = ("--config=c", f"--log-level={level}")
        assert read(arguments.add_collector, *words)["log_level"] == level
