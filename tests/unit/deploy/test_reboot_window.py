"""When a Pi may reboot (deploy/ansible/reboot.yml)."""

from __future__ import annotations

from pathlib import Path

import pytest
from loaded_file import loaded

ANSIBLE = Path(__file__).resolve().parents[3] / "deploy/ansible"
in_window = loaded(ANSIBLE / "filter_plugins/hedgerow_window.py").in_window


@pytest.mark.parametrize(
    ("now", "window", "may"),
    [
        ("Wed 12:00", "", True),
        ("Wed 01:59", "02:00-04:00", False),
        ("Wed 02:00", "02:00-04:00", True),
        ("Wed 03:59", "02:00-04:00", True),
        ("Wed 04:00", "02:00-04:00", False),
        ("Sat 02:30", "Sat,Sun 02:00-04:00", True),
        ("Mon 02:30", "Sat,Sun 02:00-04:00", False),
        ("Tue 23:30", "23:00-01:30", True),
        ("Wed 01:29", "23:00-01:30", True),
        ("Wed 01:30", "23:00-01:30", False),
        # It is the night of Sunday, though it is Monday.
        ("Mon 00:10", "Sun 23:00-01:30", True),
        ("Sun 00:10", "Sun 23:00-01:30", False),
        ("Sun 23:10", "Sun 23:00-01:30", True),
        ("Mon 23:10", "Sun 23:00-01:30", False),
    ],
)
def test_a_pi_reboots_within_the_window_alone(now: str, window: str, may: bool) -> None:
    assert in_window(now, window) is may


@pytest.mark.parametrize(
    "window",
    ["2:00-4:00", "02:00", "02:00-02:00", "24:00-04:00", "Sam 02:00-04:00", "Sat, Sun 02:00-04:00"],
)
def test_a_window_that_is_none_is_refused_by_its_name(window: str) -> None:
    with pytest.raises(ValueError, match="hedgerow_reboot_window is"):
        in_window("Sat 02:00", window)
