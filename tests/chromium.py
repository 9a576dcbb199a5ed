"""Tabs of a headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

LIMIT_S = 60.0
PROGRAM = "chromium-headless-shell"
"""Chromium without the windows that nobody sees, which took two fifths of its time."""
NEEDED = pytest.mark.peer(PROGRAM, PROGRAM)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0"),
)


class PageError(AssertionError):
    """The page did not become what was waited for."""


class Page:
    """One tab.

    Attributes:
        complaints: errors of scripts, of what was refused by the page's policy, and dialogs.

    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A call of the protocol."""
        self._number += 1
        answer = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        told = {"id": self._number, "method": method, "params": parameters}
        await self._connection.send(json.dumps(told))
        async with asyncio.timeout(LIMIT_S):
            found = await answer
        assert "error" not in found, f"{method}: {found}"
        return dict(found["result"])

    async def _read(self) -> None:
        async for raw in self._connection:
            told = json.loads(raw)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            else:
                self._heard(told["method"], told["params"])

    def _heard(self, method: str, told: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            text = details.get("exception", {}).get("description", details["text"])
            self.complaints.append(f"exception: {text}")
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            entry = told["entry"]
            self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {told['message']}")

    async def begin(self) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")

    async def look(self, width: int, height: int, theme: str = "light") -> None:
        """Be as large, and as dark, as someone's screen."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        scheme = [{"name": "prefers-color-scheme", "value": theme}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)

    async def go(self, url: str) -> None:
        """Open a page, anew."""
        await self.call("Page.navigate", url="about:blank")
        await self.call("Page.navigate", url=url)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        found = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    async def until(self, script: str) -> Any:
        """Wait until an expression holds, and return its value."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while True:
                    try:
                        found = await self.run(f"Promise.resolve({script}).then(Boolean)")
                    except AssertionError:  # between two pages
                        found = None
                    if found:
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            text = await self.run("document.body.innerText.slice(0, 600)")
            raise PageError(f"{script}: never; {self.complaints}; the page says: {text}") from error

    async def press(self, key: str) -> None:
        """Press a key."""
        codes = {"Tab": 9, "Enter": 13, "ArrowDown": 40, "ArrowUp": 38, "+": 187, "0": 48}
        text = {"text": "\r"} if key == "Enter" else {}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        await self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def write(self, text: str) -> None:
        """Type a text where the focus is."""
        await self.call("Input.insertText", text=text)

    async def picture(self, file: Path) -> None:
        """Write a picture of the page to a PNG file."""
        told = await self.call("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(told["data"]))

    def close(self) -> None:
        self._reading.cancel()


@contextmanager
def chromium(profile: Path) -> Iterator[str]:
    """Run a Chromium; to start one costs more than most of what tests look at.

    Args:
        profile: a folder of its own.

    Yields:
        Its address for the DevTools protocol.

    """
    program = shutil.which(PROGRAM)
    assert program is not None
    with subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield _address(profile / "DevToolsActivePort")
        finally:  # Debian's program is a shell that waits for the browser
            os.killpg(process.pid, signal.SIGKILL)


@asynccontextmanager
async def page(address: str) -> AsyncIterator[Page]:
    """Open a tab with cookies, storage and cache of its own, as in a new browser.

    Args:
        address: of a running Chromium.

    """
    async with connect(address, max_size=None, compression=None) as connection:
        browser = Page(connection)
        # However the test ends, the tab ends with this connection: else it would go on asking.
        context = await browser.call("Target.createBrowserContext", disposeOnDetach=True)
        tab = await browser.call(
            "Target.createTarget",
            url="about:blank",
            browserContextId=context["browserContextId"],
        )
        url = f"{address.rpartition('/devtools')[0]}/devtools/page/{tab['targetId']}"
        async with connect(url, max_size=None, compression=None) as of_tab:
            opened = Page(of_tab)
            await opened.begin()
            yield opened
            opened.close()
        browser.close()


def _address(file: Path) -> str:
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise TimeoutError(f"{file}: not there after {LIMIT_S} s")
