"""A message that ends each Python process of Spark that reads it, over the job's command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pytest

from cloud_ingest.ingest.halving import KILLED

ENDS_AT_POISON = """
import importlib.abc, importlib.util, os, sys


class Ends(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "cloud_ingest.measurements":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def loaded(module):
            load(module)
            decode = module.decode
            module.decode = lambda data: os._exit(7) if data == b"poison" else decode(data)

        spec.loader.exec_module = loaded
        return spec


if "pyspark" in " ".join(sys.orig_argv):  # the workers, and not the driver
    sys.meta_path.insert(0, Ends())
"""
"""Stands in for a fault of a library in C, which no `except` of Python sees."""


@pytest.mark.soak("starts Spark and kills dozens of its tasks: a minute")
@pytest.mark.timeout(0)
def test_a_message_that_ends_each_process_that_reads_it_goes_to_quarantine_alone(
    spool: Any, tmp_path: Path
) -> None:
    for first in range(1, 2_000, 20):
        numbers = range(first, first + 20)
        spool.payloads("gw-a", 1, first, [b"poison" if n == 1_554 else b"%d" % n for n in numbers])
    spool.sync()
    site, target = tmp_path / "site", tmp_path / "tables"
    site.mkdir()
    (site / "sitecustomize.py").write_text(ENDS_AT_POISON)
    command = (sys.executable, "-m", "cloud_ingest.job.command")
    done = subprocess.run(
        [*command, "--spool", spool.folder, "--tables", target],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "set aside: 1 messages" in done.stderr
    assert deltalake.DeltaTable(target / "telemetry").count() == 1_999
    (aside,) = deltalake.DeltaTable(target / "quarantine").to_pyarrow_table().to_pylist()
    assert (aside["sequence"], aside["bytes"]) == (1_554, b"poison")
    assert aside["reason"].startswith(KILLED)
