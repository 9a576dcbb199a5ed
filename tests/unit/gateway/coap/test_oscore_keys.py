"""The file of OSCORE contexts: what is wrong is named, and no secret is shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.coap.oscore.keys import OscoreKeysError, load

SECRET = "0102030405060708090a0b0c0d0e0f10"
METER = f'[meter]\nmaster_secret = "{SECRET}"\nsender_id = "01"\nrecipient_id = "02"\n'
VALVE = METER.replace("meter", "valve").replace('"02"', '"03"')


def written(folder: Path, text: str) -> Path:
    path = folder / "oscore.toml"
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def test_devices_are_read_with_what_the_rfc_names(tmp_path: Path) -> None:
    more = 'master_salt = "9e7c"\nid_context = "37cb"\n'
    meter, valve = load(written(tmp_path, METER + more + VALVE))
    assert (meter.name, meter.sender_id, meter.recipient_id) == ("meter", b"\x01", b"\x02")
    assert (meter.master_salt, meter.id_context) == (b"\x9e\x7c", b"\x37\xcb")
    assert valve.known_by == (b"\x03", None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[meter", "Expected"),
        ('meter = "x"', "'meter' is no table of a device"),
        ('["a b"]', "'a b' is no table of a device"),
        (METER + 'salt = "01"', "meter.salt: no such key"),
        (METER.replace(SECRET, SECRET + "zz"), "meter.master_secret: not hexadecimal"),
        (METER.replace(f'"{SECRET}"', "7"), "meter.master_secret: not hexadecimal"),
        (METER.replace(SECRET, "0102"), "meter.master_secret: shorter than 16 bytes"),
        (METER.replace('sender_id = "01"', ""), "meter.sender_id: missing"),
        (METER.replace('"02"', '"0102030405060708"'), "meter.recipient_id: longer than 7 bytes"),
        (METER.replace('"02"', '"01"'), "meter.recipient_id: the same as sender_id"),
        (METER + VALVE.replace('"03"', '"02"'), "valve.recipient_id: the same as that of meter"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(OscoreKeysError) as refused:
        load(written(tmp_path, text))
    assert str(refused.value).startswith(f"{tmp_path}/oscore.toml: ")
    assert why in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_file_that_others_can_read_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, METER)
    path.chmod(0o644)
    with pytest.raises(OscoreKeysError, match="mode 0644 lets others in"):
        load(path)
    with pytest.raises(OscoreKeysError, match="No such file"):
        load(tmp_path / "none")


def test_check_names_the_field_of_the_configuration_the_file_and_the_device(tmp_path: Path) -> None:
    path = written(tmp_path, METER.replace(SECRET, "0102"))
    (tmp_path / "tree.key").write_text("ab" * 32)
    config = tmp_path / "gateway.toml"
    config.write_text(
        f'''[gateway]
id = "gw"
state_dir = "{tmp_path}/state"
[coap]
oscore_file = "{path}"
[tree]
key_file = "{tmp_path}/tree.key"
tls = "off"
'''
    )
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", "check", "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    why = f"coap.oscore_file: {path}: meter.master_secret: shorter than 16 bytes"
    assert why in done.stdout + done.stderr
