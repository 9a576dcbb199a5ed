"""CoAP clients that others wrote, each asked in the same words: libcoap's, aiocoap and Node's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import aiocoap
from aiocoap.numbers.codes import Code
from missing_peer import skip_or_fail_in_ci

NODE = Path(__file__).parent / "interop" / "node_coap"
LIMIT_S = 60
TEXT, LINKS = 0, 40
"""Content-Formats."""


def changes(told: Iterable[Any]) -> Iterator[Any]:
    """Pass over what repeats itself: a gateway also tells that a state lasts (RFC 7641, 4.3.1)."""
    return (state for state, _ in groupby(told))


class RefusedError(Exception):
    """The answer's code, where it is no success."""


class Client(Protocol):
    """Asks the gateway at a port of this machine."""

    def ask(
        self,
        method: str,
        path: str,
        payload: bytes = b"",
        *,
        form: int | None = None,
        accept: int | None = None,
        proxy_uri: str = "",
    ) -> bytes:
        """The payload of the answer.

        Args:
            method: of the request.
            path: with the query; unused where there is a ``proxy_uri``.
            payload: of the request.
            form: its Content-Format.
            accept: the Content-Format that is asked for.
            proxy_uri: what the gateway is asked for as a proxy.

        Raises:
            RefusedError: it is no success.

        """
        ...

    def observing(self, path: str) -> contextlib.AbstractContextManager[Callable[[], bytes]]:
        """Observe a resource as text; what is given waits for the next representation."""
        ...


class Libcoap:
    """coap-client."""

    def __init__(self, port: int) -> None:
        self._authority = f"coap://127.0.0.1:{port}"

    def ask(
        self,
        method: str,
        path: str,
        payload: bytes = b"",
        *,
        form: int | None = None,
        accept: int | None = None,
        proxy_uri: str = "",
    ) -> bytes:
        command = ["coap-client-notls", "-B", "30", "-m", method.lower()]
        command += ["-e", payload.decode()] if payload else []
        command += ["-t", str(form)] if form is not None else []
        command += ["-A", str(accept)] if accept is not None else []
        command += ["-P", self._authority, proxy_uri] if proxy_uri else [self._authority + path]
        done = subprocess.run(
            command, capture_output=True, timeout=LIMIT_S, check=True, stdin=subprocess.DEVNULL
        )
        if done.stderr:
            raise RefusedError(done.stderr.decode().partition(" ")[0].strip())
        return done.stdout.removesuffix(b"\n")

    @contextlib.contextmanager
    def observing(self, path: str) -> Iterator[Callable[[], bytes]]:
        command = ["coap-client-notls", "-s", "60", "-w", "-A", "0", self._authority + path]
        observer = subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE)
        assert observer.stdout is not None
        states = changes(line.strip() for line in observer.stdout)
        try:
            yield lambda: next(states)
        finally:
            observer.terminate()
            observer.wait(LIMIT_S)


class Aiocoap:
    """aiocoap, on an event loop of its own."""

    def __init__(self, port: int) -> None:
        self._authority = f"coap://127.0.0.1:{port}"

    def ask(
        self,
        method: str,
        path: str,
        payload: bytes = b"",
        *,
        form: int | None = None,
        accept: int | None = None,
        proxy_uri: str = "",
    ) -> bytes:
        request = aiocoap.Message(
            code=getattr(Code, method),
            payload=payload,
            uri=self._authority + ("" if proxy_uri else path),
            content_format=form,
            accept=accept,
        )
        if proxy_uri:
            request.opt.proxy_uri = proxy_uri
        answer = asyncio.run(self._asked(request))
        if not answer.code.is_successful():
            raise RefusedError(answer.code.dotted)
        return bytes(answer.payload)

    @contextlib.contextmanager
    def observing(self, path: str) -> Iterator[Callable[[], bytes]]:
        with asyncio.Runner() as runner:
            client = runner.run(_context())
            request = aiocoap.Message(
                code=Code.GET, uri=self._authority + path, accept=TEXT, observe=0
            )
            asked = client.request(request)
            first = runner.run(_within(asked.response))
            told = aiter(asked.observation)

            def states() -> Iterator[bytes]:
                yield bytes(first.payload)
                while True:
                    yield bytes(runner.run(_within(anext(told))).payload)

            changed = changes(states())
            try:
                yield lambda: next(changed)
            finally:
                asked.observation.cancel()
                runner.run(client.shutdown())

    async def _asked(self, request: aiocoap.Message) -> aiocoap.Message:
        client = await _context()
        try:
            return await _within(client.request(request).response)
        finally:
            await client.shutdown()


class Node:
    """The ``coap`` package of npm."""

    def __init__(self, port: int) -> None:
        if shutil.which("node") is None or not (NODE / "node_modules" / "coap").is_dir():
            missing = f"Node's coap is not installed: npm ci --prefix {NODE.name}"
            skip_or_fail_in_ci(missing)
        self._port = port

    def ask(
        self,
        method: str,
        path: str,
        payload: bytes = b"",
        *,
        form: int | None = None,
        accept: int | None = None,
        proxy_uri: str = "",
    ) -> bytes:
        asked: dict[str, Any] = {"format": form, "accept": accept, "proxyUri": proxy_uri or None}
        asked["payload"] = base64.b64encode(payload).decode() if payload else None
        if not proxy_uri:
            asked["path"], _, asked["query"] = path.partition("?")
        command = self._command(method, {k: v for k, v in asked.items() if v is not None})
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        if not answer["code"].startswith("2."):
            raise RefusedError(answer["code"])
        return base64.b64decode(answer["payload"])

    @contextlib.contextmanager
    def observing(self, path: str) -> Iterator[Callable[[], bytes]]:
        observer = subprocess.Popen(
            self._command("GET", {"path": path, "accept": TEXT, "observe": True}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert observer.stdout is not None
        lines = observer.stdout
        states = changes(base64.b64decode(json.loads(line)["payload"]) for line in lines)
        try:
            yield lambda: next(states)
        finally:
            observer.communicate(timeout=LIMIT_S)

    def _command(self, method: str, asked: dict[str, Any]) -> list[str]:
        request = {"port": self._port, "method": method, **asked}
        return ["node", str(NODE / "client.js"), json.dumps(request)]


async def _context() -> aiocoap.Context:
    return await aiocoap.Context.create_client_context(transports=["simple6"])


async def _within(answer: Any) -> aiocoap.Message:
    return await asyncio.wait_for(answer, LIMIT_S)
