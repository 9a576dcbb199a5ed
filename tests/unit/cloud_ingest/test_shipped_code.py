"""Spark's executors on other machines are sent the code that tasks import."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import cloud_ingest
import tree_handler
from cloud_ingest.job.shipped import write_zip

PROJECT = Path(__file__).parents[3]
IMPORT = """
import sys
from cloud_ingest.job import task_runners
print(*sorted(name + "=" + str(module.__file__) for name, module in sys.modules.items()
              if "." not in name and getattr(module, "__file__", None)))
"""


def test_the_zip_has_each_module_of_ours_as_it_is(tmp_path: Path) -> None:
    assert write_zip(tmp_path / "code.zip") == tmp_path / "code.zip"
    expected = {
        f"{package.__name__}/{source.relative_to(root)}": source.read_bytes()
        for package in (cloud_ingest, tree_handler)
        for root in [Path(next(iter(package.__path__)))]
        for source in root.rglob("*.py")
    }
    with zipfile.ZipFile(tmp_path / "code.zip") as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
        assert archive.infolist()[0].compress_type == zipfile.ZIP_DEFLATED
    assert {name: found.get(name) for name in expected} == expected
    assert "cloud_ingest/ingest/tasks.py" in expected


def test_a_task_imports_nothing_of_ours_that_is_not_in_the_zip(tmp_path: Path) -> None:
    archive = str(write_zip(tmp_path / "code.zip"))
    environment = os.environ | {"PYTHONPATH": archive}
    done = subprocess.run(
        [sys.executable, "-P", "-c", IMPORT],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    ours = {path.parent.name for path in PROJECT.glob("*/__init__.py")}
    files = dict(each.split("=", 1) for each in done.stdout.split())
    used = {name: file for name, file in files.items() if name in ours}
    assert "cloud_ingest" in used
    assert {name: file for name, file in used.items() if not file.startswith(archive)} == {}
