"""An MQTT broker is named as a gateway is: HOST[:PORT]."""

from __future__ import annotations

import pytest

from gateway.tools.cli import command_line
from gateway.tools.commands.broker_address import find
from gateway.tools.commands.errors import WrongUseError


def found(*words: str) -> tuple[str, int]:
    where = find(command_line().parse_args(["pub", "-t", "x", "-m", "y", *words]))
    return where.host, where.port


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("--host", "10.0.0.2"), ("10.0.0.2", 1883)),
        (("--host", "10.0.0.2:1884"), ("10.0.0.2", 1884)),
        (("--host", "10.0.0.2", "--port", "1884"), ("10.0.0.2", 1884)),
        (("--host", "gw.local:1884"), ("gw.local", 1884)),
        (("--host", "::1"), ("::1", 1883)),
        (("--host", "[::1]"), ("::1", 1883)),
        (("--host", "[::1]:1884"), ("::1", 1884)),
        (("--host", "[::1]", "--port", "1884"), ("::1", 1884)),
        (("--host", "fe80::1%eth0"), ("fe80::1%eth0", 1883)),
    ],
)
def test_host_and_port_are_one_word_or_two(words: tuple[str, ...], where: tuple[str, int]) -> None:
    assert found(*words) == where


@pytest.mark.parametrize("host", ["gw:", "gw:0", "gw:65536", "gw:mqtt", "[::1]:", "gw:-1", "gw:²"])
def test_a_port_that_is_none_is_named(host: str) -> None:
    with pytest.raises(WrongUseError, match="has no port from 1 to 65535"):
        found("--host", host)


def test_a_port_is_named_once() -> None:
    with pytest.raises(WrongUseError, match="--host has a port already"):
        found("--host", "gw:1884", "--port", "1885")


@pytest.mark.parametrize(
    ("words", "port"),
    [
        ((), 1883),
        (("--port", "1"), 1),
        (("--host", "gw:65535"), 65535),
        (("--host", "gw:1"), 1),
        (("--cafile", "ca.pem"), 8883),
        (("--cafile", "ca.pem", "--host", "gw:1884"), 1884),
    ],
)
def test_the_port_is_that_of_the_protocol_unless_one_is_named(
    words: tuple[str, ...], port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = CertificateAuthority()
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_bytes(authority.pem)
    where = find(options("--host", "127.0.0.1", *words) if "--host" not in words else options(*words))
    assert where.port == port
    assert (where.tls is not None) == ("--cafile" in words)
