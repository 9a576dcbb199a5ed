"""A card gets what its device's folder has, up to limits that each name the file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from gateway.tools.flashing import kit
from gateway.tools.flashing.device import CardDevice
from gateway.tools.flashing.errors import RefusalError


@pytest.fixture
def device(tmp_path: Path) -> CardDevice:
    files = tmp_path / "gw-north"
    files.mkdir()
    (files / "hedgerow.toml").write_text('[gateway]\nid = "gw-north"\ndomain = "farm"\n')
    wheels = tmp_path / "0.2.0-cp313-aarch64.tar"
    wheels.write_bytes(b"wheels")
    return CardDevice(id="gw-north", files=files, wheels=wheels)


def files_of(device: CardDevice) -> Path:
    assert device.files is not None
    return device.files


def refusal(device: CardDevice, **changed: object) -> str:
    with pytest.raises(RefusalError) as raised:
        kit.made(msgspec.structs.replace(device, **changed), 5)
    return str(raised.value)


def test_a_kit_has_the_folder_but_for_what_stays_with_the_operator(device: CardDevice) -> None:
    folder = files_of(device)
    for name in ("state/a", "authority/b", "tls/key.pem", "anna.password", "gw.service", "psk"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    made = kit.made(device, 5)
    assert {name for name in made.files if name.startswith("hedgerow/etc/")} == {
        *("hedgerow/etc/hedgerow.toml", "hedgerow/etc/tls/key.pem", "hedgerow/etc/psk")
    }
    sha256 = hashlib.sha256(b"wheels").hexdigest()
    assert made.files["hedgerow/settings"].decode().splitlines() == [
        *("id=gw-north", "flashed_at=5", "release=0.2.0-cp313-aarch64", "kind=cp313-aarch64"),
        f"wheels_sha256={sha256}",
    ]
    assert (made.wheels_sha256, made.title) == (sha256, "farm")


def test_a_service_of_the_devices_own_is_taken_as_it_is(device: CardDevice, tmp_path: Path) -> None:
    unit = tmp_path / "own.service"
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    made = kit.made(msgspec.structs.replace(device, unit=unit), 5)
    assert made.files["hedgerow/hedgerow.service"] == unit.read_bytes()


def test_what_is_missing_or_of_another_device_is_told(device: CardDevice, tmp_path: Path) -> None:
    assert refusal(device, wheels=None) == (
        "gw-north: wheels: not given, and the first boot installs from them"
    )
    gone = tmp_path / "0.3.0-cp313-aarch64.tar"
    assert refusal(device, wheels=gone) == f"gw-north: wheels: No such file or directory: {gone}"
    assert refusal(device, token="nonsense").startswith("gw-north: token: ")
    file = files_of(device) / "hedgerow.toml"
    file.write_text("no TOML")
    assert refusal(device).startswith(f"gw-north: files: {file}: not TOML: Expected '='")
    for text, named in (
        ('[gateway]\nid = "gw-south"\n', "'gw-south'"),
        ("", "None"),
        ("gateway = 1\n", "None"),
    ):
        file.write_text(text)
        assert refusal(device) == f"gw-north: files: {file}: gateway.id is {named} there"


@pytest.mark.parametrize(
    ("name", "is_good"),
    [("a" * 64, True), ("a" * 65, False), ("a b", False), ("-a", False), ("a._-b", True)],
)
def test_a_files_name_is_one_that_fat_and_shells_take(
    name: str, is_good: bool, device: CardDevice
) -> None:
    file = files_of(device) / name
    file.touch()
    if is_good:
        assert f"hedgerow/etc/{name}" in kit.made(device, 5).files
        return
    assert refusal(device) == f"gw-north: files: {file}: not letters, digits, '.', '_', '-'"


def test_a_folder_has_sixty_four_files_and_a_file_one_mebibyte_at_most(device: CardDevice) -> None:
    folder = files_of(device)
    for number in range(63):
        (folder / f"file{number}").touch()
    os.truncate(folder / "file0", 1 << 20)
    made = kit.made(device, 5)
    assert len([name for name in made.files if name.startswith("hedgerow/etc/")]) == 64
    os.truncate(folder / "file0", (1 << 20) + 1)
    assert refusal(device) == f"gw-north: {folder}/file0: larger than 1048576 bytes"
    os.truncate(folder / "file0", 0)
    (folder / "one-more").touch()
    assert refusal(device) == f"gw-north: files: {folder}: more than 64"
