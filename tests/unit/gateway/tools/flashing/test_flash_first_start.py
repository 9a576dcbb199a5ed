"""Goal: a card without a configuration opens the first start, and keeps nothing else of its kit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gateway.tools.flashing import first_run, kit
from gateway.tools.flashing.device import CardDevice
from gateway.tools.flashing.errors import RefusalError

CARD = b'code = "0123-4567-89AB"\n'
SCRIPT = Path(first_run.__file__).with_name("data") / "first-boot.sh"
FAKES = {
    "id": "",
    "runuser": "echo runuser >>called; exit 1",
    "systemctl": "echo systemctl $* >>called",
    "journalctl": "",
    "sync": "",
    "date": "echo 2000000000",
    "install": 'exec /usr/bin/install $(echo "$@" | sed "s/-[og] hedgerow//g; s/-[og] root//g")',
}


def device(folder: Path, token: str = "") -> CardDevice:
    wheels = folder / "0.1.0-cp313-aarch64.tar"
    wheels.write_bytes(b"")
    return CardDevice(id="gw-hall", files=folder / "none", wheels=wheels, token=token)


def test_a_kit_for_a_first_start_has_its_file_and_unit_and_no_configuration(tmp_path: Path) -> None:
    made = kit.made(device(tmp_path), 1, CARD)
    assert made.files["hedgerow-first-start.txt"] == CARD
    assert b"first-start /etc/hedgerow" in made.files["hedgerow/hedgerow-first-start.service"]
    assert not [name for name in made.files if name.startswith("hedgerow/etc/")]
    assert b"first_start=yes\n" in made.files["hedgerow/settings"]
    with pytest.raises(RefusalError, match="gw-hall: token: of no use"):
        kit.made(device(tmp_path, "hedgerow-enrol://x"), 1, CARD)


def test_the_first_boot_starts_the_page_and_leaves_the_file_that_opens_it(tmp_path: Path) -> None:
    root, fakes = tmp_path / "root", tmp_path / "fakes"
    for folder in (
        "boot",
        "opt/hedgerow/releases/0.1.0-cp313-aarch64",
        "var",
        "etc/systemd/system",
    ):
        (root / folder).mkdir(parents=True)
    (root / "opt/hedgerow/releases/0.1.0-cp313-aarch64/installed").touch()
    (root / "var/hedgerow-first-boot").mkdir()
    for name, data in kit.made(device(tmp_path), 1, CARD).files.items():
        file = root / "boot" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"#!/bin/sh\n" if name.endswith(".sh") else data)
    fakes.mkdir()
    for name, line in FAKES.items():
        (fakes / name).write_text(f"#!/bin/sh\n{line}\n")
        (fakes / name).chmod(0o755)
    text = SCRIPT.read_text()
    for place in ("/var/lib/hedgerow-first-boot", "/opt/hedgerow", "/etc/", "/usr/local/lib/"):
        target = place.replace("/var/lib", "/var")
        text = text.replace(f"={place}", f"={root}{target}").replace(
            f" {place}", f" {root}{target}"
        )
        text = text.replace(f'"{place}', f'"{root}{target}')
    done = subprocess.run(
        ["/bin/sh", "-s", "install"],
        input=text,
        text=True,
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": f"{fakes}:{os.environ['PATH']}", "HEDGEROW_BOOT": str(root / "boot")},
    )
    log = (root / "boot/hedgerow-first-boot.log").read_text()
    assert done.returncode == 0, (done.stderr, log)
    called = (tmp_path / "called").read_text()
    assert "systemctl enable hedgerow-first-start.service\n" in called
    assert "systemctl restart hedgerow-first-start.service\n" in called
    assert "hedgerow.service\n" not in called.replace("first-boot.service", "")
    assert "runuser" not in called
    units = {one.name for one in (root / "etc/systemd/system").iterdir()}
    assert units == {"hedgerow.service", "hedgerow-first-start.service"}
    assert (root / "boot/hedgerow-first-start.txt").read_bytes() == CARD
    assert not (root / "boot/hedgerow").exists()
