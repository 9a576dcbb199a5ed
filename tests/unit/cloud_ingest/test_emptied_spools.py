"""A spool that was read and holds nothing now is told: its disk may not be mounted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cloud_ingest.job import checkpoint


def read_up_to(folder: Path, places: Any) -> Path:
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "8").write_text("v1\n{}\n{}")
    (folder / "offsets" / "11").write_text(f"v1\n{{}}\n{json.dumps(places)}")
    return folder


@pytest.mark.parametrize("place", [500, [500, "ab"], [500, "ab", "cd"]])
def test_a_spool_that_was_read_and_is_empty_now_is_told_in_a_line(
    spool: Any, tmp_path: Path, place: Any
) -> None:
    folder = read_up_to(tmp_path / "checkpoint", {str(spool.folder.resolve()): place})
    (line,) = checkpoint.emptied(folder, [spool.folder])
    assert str(spool.folder) in line
    assert "500 bytes" in line
    spool.readings("gw-a", 1, 1)
    spool.sync()
    assert not list(checkpoint.emptied(folder, [spool.folder]))


@pytest.mark.parametrize("places", [{}, {"/elsewhere": [500, "ab", ""]}, [], None, {"x": "y"}])
def test_a_spool_of_which_nothing_was_read_may_be_empty(
    spool: Any, tmp_path: Path, places: Any
) -> None:
    folder = read_up_to(tmp_path / "checkpoint", places)
    assert not list(checkpoint.emptied(folder, [spool.folder]))
    assert not list(checkpoint.emptied(tmp_path / "none", [spool.folder]))
