"""The settings of a collector that shares: as documented, and clear about a wrong value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cloud_ingest.collector.command import CollectorSettings
from gateway.process.configuration import config
from gateway.process.configuration.config import ConfigError

PAGE = Path(__file__).parents[3] / "docs" / "cloud.md"


def read(folder: Path, section: str) -> CollectorSettings:
    (folder / "tree.key").write_text("ab" * 32)
    path = folder / "collector.toml"
    path.write_text(f'{section}\n[tree]\nkey_file = "tree.key"\n')
    return config.load(path, CollectorSettings)


def test_the_documented_section_is_read(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(\[collector\]\n.*?share = .*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    own = read(tmp_path, found[1]).collector
    assert (own.share, own.group) == ("origins", ["collector-1", "collector-2"])
    assert (own.hold_s, own.hold_max_bytes) == (30, 67_108_864)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('share = "some"', "share"),
        ('share = "origins"', "group"),
        ('share = "origins"\ngroup = ["c1"]', "group.*another"),
        ('share = "origins"\ngroup = ["c2", "c3"]', "group.*'c1'"),
        ('share = "origins"\ngroup = ["c1", "C 2"]', r"group\[1\]"),
        ('group = ["c1", "c2"]', "group.*share is 'all'"),
        (f'share = "origins"\ngroup = {[f"c{n}" for n in range(17)]}', "more than 16"),
        ('share = "origins"\ngroup = ["c1", "c2"]\nhold_s = 1', "hold_s"),
    ],
)
def test_what_cannot_be_shared_by_is_refused(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(tmp_path, f'[collector]\nid = "c1"\nspool_dir = "spool"\n{more}')
