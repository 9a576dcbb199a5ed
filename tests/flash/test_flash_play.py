"""Requirements of `flash.yml` that are checked without a card."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

ANSIBLE = Path(__file__).resolve().parents[2] / "deploy/ansible"
CARD = ANSIBLE / "roles/card"


def play(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(home),
    }
    return subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", *arguments, "flash.yml"],
        cwd=ANSIBLE,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_playbook_parses_with_the_example_inventory(tmp_path: Path) -> None:
    done = play(tmp_path, "--syntax-check", "-i", "inventory/example.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_variable_of_a_card_has_the_default_that_its_specification_says() -> None:
    defaults = yaml.safe_load((CARD / "defaults/main.yml").read_text())
    specification = yaml.safe_load((CARD / "meta/argument_specs.yml").read_text())
    options = specification["argument_specs"]["main"]["options"]
    assert {name for name, one in options.items() if not one.get("required")} == defaults.keys()
    assert {name: options[name]["default"] for name in defaults} == defaults


def test_a_disk_is_written_over_only_after_somebody_has_said_yes_or_a_variable_has() -> None:
    (told,) = yaml.safe_load((ANSIBLE / "flash.yml").read_text())
    wait, make = told["tasks"]
    assert "/dev/" in wait["when"]
    assert wait["register"] in make["vars"]["card_is_asked"]
    role = (CARD / "tasks/main.yml").read_text()
    consents = [line for line in role.splitlines() if re.search(r"--yes\b(?!-)", line)]
    assert len(consents) == 1
    assert "(card_overwrite | bool) or (card_is_asked | bool)" in consents[0]


def test_a_first_boot_makes_the_folder_of_sensor_classes_that_the_role_names(
    tmp_path: Path,
) -> None:
    """A configuration of the role names one, and a gateway does not start without it."""
    script = (ANSIBLE.parents[1] / "gateway/tools/flashing/data/first-boot.sh").read_text()
    step = script[script.index("    sensors=$(") : script.index("    # A gateway that is enrolled")]
    (tmp_path / "hedgerow.toml").write_text(f'[gateway]\nsensors_dir = "{tmp_path}/sensors"\n')
    fake = 'install() { for last do :; done; mkdir -m 0750 "$last"; }'
    subprocess.run(["sh", "-euc", f"{fake}\netc={tmp_path}\n{step}"], check=True)
    assert (tmp_path / "sensors").is_dir()
    (tmp_path / "hedgerow.toml").write_text('[gateway]\nid = "x"\n')
    subprocess.run(["sh", "-euc", f"{fake}\netc={tmp_path}\n{step}"], check=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"card_kind": "armv7l"}, "card_kind"),
        ({"card_first_boot": "magic"}, "card_first_boot"),
        ({"card_image": None}, "card_image"),
        ({"card_network": {"adress": "10.0.0.2/24"}}, "adress"),
    ],
)
def test_a_wrong_variable_is_refused_by_name_before_anything_is_made(
    change: dict[str, object], why: str, tmp_path: Path
) -> None:
    host = {"gateway_id": "gw-x", "card_image": "/none", "card_to": str(tmp_path), **change}
    given = {name: value for name, value in host.items() if value is not None}
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({"gateways": {"hosts": {"x": given}}}))
    done = play(tmp_path, "-i", inventory)
    assert done.returncode != 0
    assert why in done.stdout + done.stderr
    assert not list(tmp_path.glob("*.img"))
