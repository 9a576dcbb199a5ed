"""A proxy on a bed's bridge, through which its systems fetch packages over the machine's network.

A system has no other way out. It is told of the proxy where apt and pip look, and trusts whom this
machine trusts, which may have a mirror of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from bed import OPERATOR, Bed, Pi

PORT = 3128
URL = f"http://{OPERATOR}:{PORT}"
TRUSTED = "/etc/ssl/certs/of-the-bed.pem"
OF_DEBIAN = "/etc/ssl/certs/ca-certificates.crt"
HEAD_BYTES_MAX = 64 * 1024
_HOP_BY_HOP = ("connection:", "proxy-connection:", "keep-alive:")


@contextlib.contextmanager
def served(bed: Bed) -> Iterator[None]:
    """A proxy at `URL` of the bed's bridge."""
    listening = bed.switch.socket()
    listening.bind((OPERATOR, PORT))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(_serve, sock=listening, limit=HEAD_BYTES_MAX), loop
    ).result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def tell(pi: Pi) -> None:
    """Have a system that is off, or on, fetch packages through the proxy."""
    settings = f"[global]\nproxy = {URL}\ncert = {TRUSTED}\nretries = 2\n"
    written = {
        "etc/apt/apt.conf.d/90of-the-bed": f'Acquire::http::Proxy "{URL}";\n'.encode(),
        TRUSTED.removeprefix("/"): Path(
            ssl.get_default_verify_paths().cafile or OF_DEBIAN
        ).read_bytes(),
        "etc/pip.conf": settings.encode(),
    }
    for name, content in written.items():
        file = pi.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o644)  # for all of its users, whatever umask the tests have


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request: a tunnel (RFC 9110, section 9.3.6), or what is asked of one server."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, version = head.split(b"\r\n")[0].decode().split(" ")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            there = await asyncio.open_connection(host, int(port))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            url = urlsplit(target)
            there = await asyncio.open_connection(url.hostname, url.port or 80)
            path = f"{url.path}?{url.query}" if url.query else url.path
            there[1].write(f"{method} {path} {version}\r\nConnection: close\r\n".encode())
            for line in head.split(b"\r\n")[1:-2]:
                if not line.lower().decode(errors="replace").startswith(_HOP_BY_HOP):
                    there[1].write(line + b"\r\n")
            there[1].write(b"\r\n")
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
    writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(64 * 1024):
            writer.write(data)
            await writer.drain()
    writer.close()
