"""`hedgerow top` and `hedgerow logs` as an operator runs them: a real gateway, a real terminal.

What is drawn is looked at in tmux(1), which is a terminal that can be asked what it shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from mqtt_peer import Peer

from gateway.mqtt import Version

LIMIT_S = 60.0
ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|[()][A-Z0-9]|[=>78])|\x0f")
CONFIGURATION = """
[gateway]
id = "gw-north"
state_dir = "{folder}/state"
[mqtt]
port = 0
[coap]
port = 0
[tree]
key_file = "{folder}/tree.key"
tls = "off"
discovery = false
[access]
anonymous = true
[[sensors]]
type = "switch"
name = "valve"
"""


class GatewayAtWork:
    """A gateway as a process, and commands that look at it."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "gateway.toml"
        self.config.write_text(CONFIGURATION.format(folder=folder))
        (folder / "tree.key").touch(mode=0o600)
        (folder / "tree.key").write_text("ab" * 32)
        self._told = folder / "state" / "listeners.json"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        command = (sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(self.config))
        self._process = await asyncio.create_subprocess_exec(
            *command, "--log-file", stderr=asyncio.subprocess.DEVNULL
        )
        await until(self._told.exists)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            await self._process.wait()

    async def client(self, name: str) -> Peer:
        port = int(json.loads(self._told.read_text())["mqtt"].rpartition(":")[2])
        peer = Peer(*await asyncio.open_connection("127.0.0.1", port), Version.V5)
        assert await peer.connect(name) == 0
        return peer

    def command(self, name: str, *words: str) -> tuple[str, ...]:
        config = ("--config", str(self.config))
        return (sys.executable, "-m", "gateway.tools.cli", name, *config, *words)

    async def hedgerow(self, name: str, *words: str) -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            *self.command(name, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()


class ShownTerminal:
    """A terminal of some size, with a command in it."""

    def __init__(self, keyboard: int, theirs: int, process: asyncio.subprocess.Process) -> None:
        self._fd = keyboard
        self._theirs = theirs
        self.process = process
        self.seen = ""
        os.set_blocking(keyboard, False)
        asyncio.get_running_loop().add_reader(keyboard, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 65_536)
        except BlockingIOError:
            return
        except OSError:  # the command has ended
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
        self.seen += data.decode(errors="replace")

    async def shows(self, text: str) -> None:
        """Wait until it has shown a text since the last time that this was waited for."""
        try:
            await until(lambda: text in ESCAPES.sub("", self.seen))
        except TimeoutError:
            raise AssertionError(f"{text!r} is not in {self.seen[-3000:]!r}") from None
        self.seen = ""

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    async def press_and_be_heard(self, key: str) -> None:
        """Press a key, and wait until the command has read it."""
        self.press(key)
        await until(lambda: fcntl.ioctl(self._theirs, termios.FIONREAD, bytes(4)) == bytes(4))

    async def stop_output(self) -> None:
        """Take nothing more, as after Ctrl-S, once the command sleeps: no frame is half written."""
        status = Path(f"/proc/{self.process.pid}/status")
        await until(lambda: "\nState:\tS" in status.read_text())
        termios.tcflow(self._theirs, termios.TCOOFF)

    def go_on(self) -> None:
        """Take what comes, as after Ctrl-Q."""
        termios.tcflow(self._theirs, termios.TCOON)

    async def ended(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            return await self.process.wait()


class Multiplexer:
    """A terminal that is asked what it shows: tmux, with a server of its own."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)

    async def tmux(self, *words: str) -> str:
        command = ("tmux", "-f", "/dev/null", "-S", self._socket, *words)
        # The server that the first one starts keeps what it is given: no pipe, or it would not end.
        told = asyncio.subprocess.DEVNULL if "-d" in words else asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=told, stderr=told)
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
        assert process.returncode == 0, err
        return (out or b"").decode()

    async def press(self, *keys: str) -> None:
        await self.tmux("send-keys", *keys)

    async def resize(self, cells: int, rows: int) -> None:
        await self.tmux("resize-window", "-x", str(cells), "-y", str(rows))

    async def screen(self) -> str:
        """Return the text on its screen, with a line that was wrapped in one."""
        return await self.tmux("capture-pane", "-p", "-J")

    async def shows(self, *texts: str) -> None:
        """Wait until these stand on it."""
        screen = ""
        try:
            async with asyncio.timeout(LIMIT_S):
                while True:
                    screen = await self.screen()
                    if all(text in screen for text in texts):
                        return
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{texts} are not on\n{screen}") from None


@contextlib.asynccontextmanager
async def multiplexer(folder: Path, line: str) -> AsyncIterator[Multiplexer]:
    shown = Multiplexer(folder / "tmux")
    await shown.tmux("new-session", "-d", "-x", "80", "-y", "24", line)
    try:
        yield shown
    finally:
        await shown.tmux("kill-server")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def terminal(*command: str, kind: str = "xterm-256color") -> AsyncIterator[ShownTerminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": kind, "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    shown = ShownTerminal(ours, theirs, process)
    try:
        yield shown
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        os.close(theirs)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayAtWork]:
    made = GatewayAtWork(tmp_path)
    await made.start()
    yield made
    await made.stop()


@contextlib.contextmanager
def _publishing(peer: Peer) -> Iterator[None]:
    async def publish() -> None:
        while True:
            await peer.publish("load/a", b"x" * 100)

    task = asyncio.ensure_future(publish())
    yield
    task.cancel()


async def test_once_as_json_tells_rates_delays_and_who_makes_them(gateway: GatewayAtWork) -> None:
    meter = await gateway.client("meter-17")
    with _publishing(meter):
        code, out, err = await gateway.hedgerow("top", "--once", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["gateway"]["id"] == "gw-north"
    assert told["rates"]["messages_in"] > 0
    assert told["acknowledgement_delays"]["count"] > 0
    assert 0 < told["acknowledgement_delays"]["p50_ms"] <= told["acknowledgement_delays"]["p99_ms"]
    assert [one["id"] for one in told["clients"]] == ["meter-17"]
    assert told["clients"][0]["bytes_s"] > 0
    assert any("gw-north is up" in line for line in told["log"])
    assert told["trouble"] == {}


async def test_without_a_terminal_it_says_what_to_do(gateway: GatewayAtWork) -> None:
    code, out, err = await gateway.hedgerow("top")
    assert (code, out) == (2, "")
    assert err == "hedgerow: top: this is no terminal: --once, or --json for scripts\n"
    code, out, err = await gateway.hedgerow("top", "--once", "--fleet")
    assert (code, err) == (0, "")
    assert out.startswith("1 gateway, 0 silent")


@pytest.mark.peer("tmux", "tmux")
async def test_on_a_terminal_it_obeys_keys_follows_a_restart_and_gives_the_terminal_back(
    gateway: GatewayAtWork, tmp_path: Path
) -> None:
    meter = await gateway.client("meter-17")
    top = shlex.join(gateway.command("top", "--interval", "0.3"))
    before, after = tmp_path / "modes-before", tmp_path / "modes-after"
    async with multiplexer(
        tmp_path,
        f"stty -g > {before}; {top}; code=$?; stty -g > {after}; echo ended with $code; cat",
    ) as shown:
        await shown.shows("meter-17")
        await shown.press("3")
        await shown.shows("in flight")
        await shown.press("/", "nobody", "Enter")
        await shown.shows("no row has 'nobody'")
        await shown.press("F4")
        await shown.shows("Filter: nobody_")
        await shown.press("Escape")
        await shown.press("4")
        await shown.shows("valve")
        await shown.press("F1")
        await shown.shows("any key goes back")
        await shown.press("x", "1")
        await shown.resize(120, 40)
        await shown.shows("1 all  2 tree  3 clients  4 sensors  5 alerts  6 log", "every 0.3 s")
        await gateway.stop()
        await shown.shows("no answer for")
        await gateway.start()
        await shown.shows("started while you look")
        await shown.press("q")
        await shown.shows("ended with 0")
        assert before.read_text() == after.read_text() != ""
    del meter


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_it_as_a_key_does(
    gateway: GatewayAtWork, number: signal.Signals
) -> None:
    async with terminal(*gateway.command("top")) as shown:
        await shown.shows("valve")
        shown.process.send_signal(number)
        assert await shown.ended() == 0


async def test_a_terminal_that_takes_nothing_is_not_waited_for(gateway: GatewayAtWork) -> None:
    async with terminal(*gateway.command("top")) as shown:
        await shown.shows("valve")
        shown.press("p")
        await shown.shows("paused")
        await shown.stop_output()
        await shown.press_and_be_heard("3")
        shown.go_on()
        await shown.shows("3 clients")
        await shown.stop_output()
        await shown.press_and_be_heard("4")
        shown.process.send_signal(signal.SIGTERM)
        assert await shown.ended() == 0


@pytest.mark.parametrize(
    ("kind", "told"),
    [("no-such-terminal", "is not known to this machine"), ("dumb", "moves no cursor")],
)
async def test_a_terminal_that_can_not_be_drawn_on_is_told_in_a_line(
    gateway: GatewayAtWork, kind: str, told: str
) -> None:
    async with terminal(*gateway.command("top"), kind=kind) as shown:
        await shown.shows(told)
        assert await shown.ended() == 1


async def test_a_locale_that_this_machine_lacks_is_done_without(gateway: GatewayAtWork) -> None:
    lacking = ("env", "LANG=xx_XX.ISO-8859-1", *gateway.command("top"))
    async with terminal(*lacking) as shown:
        await shown.shows("valve")
        shown.press("q")
        assert await shown.ended() == 0


async def test_a_gateway_that_is_not_there_is_told_in_a_line(gateway: GatewayAtWork) -> None:
    await gateway.stop()
    async with terminal(*gateway.command("top")) as shown:
        await shown.shows("gw-north is not running")
        assert await shown.ended() == 1


async def test_logs_show_the_file_and_follow_it(gateway: GatewayAtWork) -> None:
    code, out, err = await gateway.hedgerow("logs")
    assert (code, err) == (0, "")
    assert "gw-north is up" in out
    code, out, err = await gateway.hedgerow("logs", "--level", "error", "--json")
    assert (code, out, err) == (0, "", "")
    async with terminal(*gateway.command("logs", "-f", "-n", "1")) as shown:
        await shown.shows("gw-north is up")
        await gateway.stop()
        await gateway.start()
        await shown.shows("gw-north is up")
        shown.process.send_signal(signal.SIGINT)
        assert await shown.ended() == 130
