"""Nobody else reads a gateway's keys and state: such keys are refused, such files not made."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from authority import Authority

from dtls import keystore, private_file
from dtls.errors import KeystoreError
from gateway.process.configuration import config
from gateway.process.state_folder.identity import next_boot_epoch
from gateway.trust.credentials.tls_file_faults import TlsFileError
from gateway.trust.tls.context import Tls, TlsFiles

OPEN = [0o644, 0o604, 0o620, 0o602, 0o660, 0o666]
CLOSED = [0o600, 0o400, 0o640, 0o440]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("bits", CLOSED)
def test_a_key_of_its_owner_and_his_group_is_read(tmp_path: Path, bits: int) -> None:
    (file := tmp_path / "key").write_bytes(b"secret")
    file.chmod(bits)
    assert private_file.read(file) == b"secret"


@pytest.mark.parametrize("bits", OPEN)
def test_a_key_that_others_can_read_or_a_group_can_change_is_refused_and_the_line_says_why(
    tmp_path: Path, bits: int
) -> None:
    tree_key, psk = tmp_path / "tree.key", tmp_path / "psk"
    tree_key.write_text("ab" * 32)
    psk.write_text(f"meter:{'cd' * 16}\n")
    issued = Authority(tmp_path).issue("gw")
    for file in (tree_key, psk, issued.key):
        file.chmod(bits)
    why = f"mode {bits:04o} lets others in: chmod 600 the file"
    with pytest.raises(config.ConfigError, match=f"^tree.key_file: {tree_key}: {why}$"):
        config.TreeSection(key_file=tree_key).key()
    with pytest.raises(KeystoreError, match=f"{psk}: {why}"):
        keystore.load(psk)
    with pytest.raises(TlsFileError, match=f"^{issued.key}: {why}$"):
        Tls(TlsFiles(issued.certificate, issued.key))


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o750), (0o700, 0o700), (0o750, 0o750)])
def test_a_state_folder_that_everybody_could_look_into_is_closed(
    tmp_path: Path, before: int, after: int
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(before)
    next_boot_epoch(folder)
    assert mode(folder) == after


def test_what_a_gateway_writes_is_its_own_whatever_umask_it_was_started_with(
    tmp_path: Path,
) -> None:
    (tmp_path / "tree.key").write_text("ab" * 32)
    (tmp_path / "gateway.toml").write_text(
        f"""
[gateway]
id = "gw"
state_dir = "{tmp_path}/state"
[mqtt]
port = 0
[coap]
port = 0
[tree]
key_file = "{tmp_path}/tree.key"
discovery = false
tls = "off"
"""
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "gateway.tools.cli",
            "run",
            "--config",
            str(tmp_path / "gateway.toml"),
        ],
        stderr=subprocess.PIPE,
        umask=0,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "is up" in line:
                break
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    found = list((tmp_path / "state").rglob("*"))
    assert len(found) > 3
    assert mode(tmp_path / "state") == 0o700
    others = {
        path: oct(mode(path)) for path in found if mode(path) != (0o700 if path.is_dir() else 0o600)
    }
    assert others == {}
