"""A configuration is changed while its gateway runs: it comes up by it, or goes back by itself.

Real processes. What is killed is killed at each step, as a power cut would do it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import tomllib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from brokers import START_S, Gateway
from mqtt_peer import Peer
from ports import free_port

from gateway.process.config_trials import trial as trials
from gateway.process.config_trials.trial_files import TrialFiles

pytestmark = pytest.mark.slow

HANGING = """
import time

from gateway.sensors.switch import Switch


class Hanging(Switch):
    def begin(self):
        time.sleep(3600)
"""
OPERATOR = """
import itertools, os, signal, sys
from pathlib import Path

from gateway.process.config_trials import changing
from gateway.process.config_trials.trial_files import TrialFiles

file, state, steps, within_s, after = sys.argv[1:]
files = TrialFiles(Path(file))
before = files.file.read_bytes()
with files.locked():
    new = after.encode()
    trial = changing.new_trial(before, new, Path(state), float(within_s), needs_restart=True)
    for _ in itertools.islice(changing.begin(files, trial, before, new), int(steps)):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Changed(Gateway):
    """A gateway whose configuration is changed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "sync")
        self.files = TrialFiles(self.config)
        self.first = self.config.read_bytes()
        self.other_port = free_port()

    @property
    def second(self) -> str:
        return self.first.decode().replace(f"port = {self.port}", f"port = {self.other_port}")

    def ask(self, number: signal.Signals) -> None:
        self.send_signal(number)

    async def told(self, *words: str) -> tuple[int, str]:
        """Run `hedgerow config`; its exit code, and what it says."""
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "gateway.tools.cli",
                "config",
                *words,
                "--config",
                str(self.config),
            ),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode()

    async def changed_and_killed(self, steps: int, after: str, within_s: float = 60) -> None:
        """Have an operator change the file who is killed after some steps."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", OPERATOR, str(self.config), str(self.state), str(steps)),
            *(str(within_s), after),
        )
        assert await process.wait() == -signal.SIGKILL

    async def serves(self, port: int) -> None:
        """Wait until a client comes in there."""
        async with asyncio.timeout(START_S):
            while True:
                try:
                    peer = Peer(*await asyncio.open_connection("127.0.0.1", port), 5)
                    came_in = await peer.connect("visitor") == 0
                    peer.close()
                except (OSError, EOFError):
                    came_in = False
                if came_in:
                    return
                await asyncio.sleep(0.05)  # it may be one that starts anew, and closes what it has

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(START_S):
            while not holds():
                await asyncio.sleep(0.05)

    @property
    def document(self) -> dict[str, Any]:
        return tomllib.loads(self.config.read_text())

    @property
    def verdict(self) -> str:
        """Of the last trial."""
        file = self.state / "config-trial.json"
        return trials.decode_note(file.read_bytes()).state if file.exists() else ""


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Changed]:
    made = Changed(tmp_path)
    await made.start()
    yield made
    if made.is_running:
        made.kill()
        await made.ended()


async def test_a_key_that_takes_a_restart_is_gone_by_in_the_same_process(gateway: Changed) -> None:
    pid = gateway.pid
    code, said = await gateway.told("set", f"mqtt.port={gateway.other_port}")
    assert (code, said.splitlines()[-1]) == (0, f"{gateway.config}: the gateway goes by it")
    assert "starts anew for mqtt.port" in said
    assert gateway.pid == pid
    assert gateway.is_running
    await gateway.serves(gateway.other_port)
    assert gateway.files.before.read_bytes() == gateway.first
    assert gateway.files.trial() is None


async def test_systemd_sees_one_process_go_on_and_its_watchdog_waits_for_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(START_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "45000000")
        gateway = Changed(tmp_path)
        await gateway.start()
        pid = gateway.pid
        heard = [await asyncio.to_thread(systemd.recv, 1024)]
        gateway.ask(signal.SIGUSR2)
        while heard.count(b"READY=1\nWATCHDOG_USEC=45000000") < 2:
            heard.append(await asyncio.to_thread(systemd.recv, 1024))
        assert b"WATCHDOG=1\nWATCHDOG_USEC=180000000" in heard
        assert b"STOPPING=1" not in heard
        assert gateway.pid == pid
        assert await gateway.stop() == 0
        while heard[-1] != b"STOPPING=1":
            heard.append(await asyncio.to_thread(systemd.recv, 1024))


async def test_a_key_that_a_reload_takes_over_disturbs_no_client(gateway: Changed) -> None:
    peer = Peer(*await asyncio.open_connection("127.0.0.1", gateway.port), 5)
    assert await peer.connect("stays") == 0
    code, said = await gateway.told("set", 'tree.keep_local=["home/#"]')
    assert code == 0, said
    assert "the gateway reads" in said
    assert await peer.publish("x", b"y") == 0  # on the connection of before
    peer.close()


async def test_a_gateway_whose_port_is_taken_goes_back_and_says_why(gateway: Changed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = await gateway.told("set", f"mqtt.port={taken.getsockname()[1]}")
        assert code == 1
        assert "went back" in said
        assert "mqtt.port" in said
        await gateway.serves(gateway.port)
    assert gateway.config.read_bytes() == gateway.first
    code, said = await gateway.told("set", f"mqtt.port={gateway.other_port}")
    assert code == 0, said


async def test_a_gateway_that_hangs_at_its_start_goes_back_in_time(gateway: Changed) -> None:
    (gateway.config.parent / "hanging.py").write_text(HANGING)
    table = '\n[[sensors]]\ntype = "hanging:Hanging"\nname = "pump"\n'
    pid = gateway.pid
    await gateway.changed_and_killed(3, gateway.first.decode() + table, within_s=5)
    gateway.ask(signal.SIGUSR2)
    await gateway.until(lambda: gateway.verdict == trials.RETURNED)
    await gateway.serves(gateway.port)
    assert gateway.pid == pid
    assert gateway.config.read_bytes() == gateway.first
    assert gateway.files.trial() is None


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
async def test_a_power_cut_after_any_step_leaves_a_gateway_that_comes_up(
    gateway: Changed, steps: int
) -> None:
    await gateway.changed_and_killed(steps, gateway.second)
    gateway.kill()
    await gateway.ended()
    await gateway.start()
    if steps < 3:
        await gateway.serves(gateway.port)
        assert gateway.config.read_bytes() == gateway.first
    else:
        await gateway.serves(gateway.other_port)
        await gateway.until(lambda: gateway.verdict == trials.CONFIRMED)
    code, said = await gateway.told("set", "gateway.domain=campus")
    assert code == 0, said
    assert gateway.document["gateway"]["domain"] == "campus"


async def test_a_gateway_that_is_killed_at_each_start_goes_back_at_the_fourth(
    gateway: Changed,
) -> None:
    await gateway.changed_and_killed(3, gateway.second)
    gateway.kill()
    await gateway.ended()
    for start in range(trials.STARTS):
        begun = start + 1
        await gateway.start(wait=False)
        await gateway.until(
            lambda begun=begun: f'"starts": {begun}' in _text(gateway.state / "config-trial.json")
        )
        gateway.kill()
        await gateway.ended()
    if gateway.verdict == trials.CONFIRMED:
        pytest.fail("a start was over before it was killed")
    await gateway.start()
    await gateway.serves(gateway.port)
    assert gateway.verdict == trials.RETURNED
    assert gateway.config.read_bytes() == gateway.first


async def test_of_two_operators_the_second_is_told_that_the_file_has_changed(
    gateway: Changed,
) -> None:
    seen = trials.digest(gateway.first)
    both = await asyncio.gather(
        gateway.told("set", "gateway.domain=a", "--if-unchanged", seen),
        gateway.told("set", "gateway.domain=b", "--if-unchanged", seen),
    )
    (_, good), (_, refused) = sorted(both)
    assert [code for code, _ in sorted(both)] == [0, 1]
    assert "goes by it" in good
    assert "changed" in refused


async def test_what_is_wrong_is_not_written(gateway: Changed) -> None:
    for change, named in (
        ("mqtt.prt=1", "mqtt.prt"),
        ("tree.hello_s=never", "tree.hello_s"),
        ("tree.key_file=/none", "tree.key_file"),
        ("gateway.id=A B", "gateway.id"),
        ("gateway=1", "gateway"),
        ("gateway.domain.x=1", "gateway.domain"),
        ("sensors=[]", "hedgerow sensors"),
        ("a b=1", "is no key"),
        ("gateway.domain=a\nb", "gateway.domain"),
        ("gateway.domain=" + "x" * 100_000, "gateway.domain"),
        ("tree.neighbours=" + "[" * 5_000, "tree.neighbours"),
        ("tree.hello_s=nan", "tree.hello_s"),
        ("tree.key_file=../../../etc/hostname", "tree.key_file"),
        ("mqtt.port=99999999999999999999999999", "mqtt.port"),
    ):
        code, said = await gateway.told("set", change)
        assert code == 2, said
        assert named in said
        assert len(said.splitlines()) == 1, said
    assert gateway.config.read_bytes() == gateway.first


async def test_without_a_gateway_the_next_start_is_on_trial(gateway: Changed) -> None:
    await gateway.stop()
    code, said = await gateway.told("set", f"mqtt.port={gateway.other_port}")
    assert code == 0, said
    assert "from its next start on" in said
    await gateway.start()
    await gateway.serves(gateway.other_port)
    await gateway.until(lambda: gateway.verdict == trials.CONFIRMED)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""
