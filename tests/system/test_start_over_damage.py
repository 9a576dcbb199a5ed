"""Goal: a real process starts over what a power cut has left, and refuses what it can't know."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from authority import Authority

LIMIT_S = 60


def config(folder: Path) -> Path:
    old = Authority(folder).issue("gw", is_server=True, expired=True)
    (folder / "tree.key").write_text("ab" * 32)
    (path := folder / "gateway.toml").write_text(
        f"""
[gateway]
id = "gw"
state_dir = "{folder}/state"
[mqtt]
port = 0
tls_port = 0
certificate_file = "{old.certificate}"
key_file = "{old.key}"
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
discovery = false
tls = "off"
"""
    )
    return path


def run_until_up(path: Path) -> list[str]:
    """Run a gateway, stop it when it is up; the lines that it said."""
    command = [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if " is up: " in line:
                break
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()  # `communicate` would leave out what is buffered already
        process.wait(timeout=LIMIT_S)
    assert process.returncode == 0, "".join(said) + rest
    return said + rest.splitlines()


def test_over_an_emptied_folder_and_an_ended_certificate_it_starts_and_tells(
    tmp_path: Path,
) -> None:
    path, state = config(tmp_path), tmp_path / "state"
    run_until_up(path)
    before = int((state / "boot_epoch").read_text())
    for name in ("boot_epoch", "format", "audited.json", "broker.sqlite3"):
        assert (state / name).exists()
        (state / name).write_bytes(b"")
    (state / "members.4000000001.new").touch()
    said = "".join(run_until_up(path))
    for name in ("boot_epoch", "format", "audited.json"):
        assert f"{state / name}: empty; set aside as {name}.damaged-1: " in said
    assert f"{state / 'broker.sqlite3'}: missing or empty: " in said
    assert "mqtt.certificate_file: that of 'gw' ended at " in said
    assert int((state / "boot_epoch").read_text()) > before
    assert not list(state.glob("*.new"))


def test_a_folder_of_a_form_that_it_does_not_read_is_refused_in_one_line(tmp_path: Path) -> None:
    path, state = config(tmp_path), tmp_path / "state"
    state.mkdir()
    (state / "format").write_text("2\n")
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(path)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"{state} has form 2, and this release reads 1: nothing is touched")
    assert [one.name for one in state.iterdir()] == ["format"]
