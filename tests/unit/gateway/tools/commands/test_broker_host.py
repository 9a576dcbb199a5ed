"""An MQTT broker is named as a gateway is: HOST[:PORT]."""

from __future__ import annotations

import argparse
import asyncio
import ssl
from pathlib import Path

import pytest
from authority import Authority
from one_parser import parser

from gateway.process.state_folder import listeners_file
from gateway.tools.commands.broker_address import BrokerAddress, connect, find
from gateway.tools.commands.errors import FailedError, WrongUseError

NAMED = 'tls_port = 0\ncertificate_file = "{0}"\nkey_file = "{0}"'


def options(*words: str) -> argparse.Namespace:
    return parser().parse_args(["pub", "-t", "x", "-m", "y", *words])


def found(*words: str) -> tuple[str, int]:
    where = find(options(*words))
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
        (("--cafile", "authority.pem"), 8883),
        (("--cafile", "authority.pem", "--host", "gw:1884"), 1884),
    ],
)
def test_the_port_is_that_of_the_protocol_unless_one_is_named(
    words: tuple[str, ...], port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Authority(tmp_path)
    monkeypatch.chdir(tmp_path)
    where = find(options("--host", "gw", *words))
    assert (where.port, where.certificate) == (port, None)
    assert (where.tls is not None) == ("--cafile" in words)
    if where.tls is not None:
        assert where.tls.check_hostname
        assert where.tls.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--cafile", "none.pem"), "--cafile: none.pem: no such file"),
        (("--cafile", "."), "--cafile: .: a folder, not a file"),
        (
            ("--cafile", "authority.pem", "--cert", "none.pem"),
            "--cert: none.pem: no such file",
        ),
        (
            ("--cafile", "authority.pem", "--cert", "authority.pem", "--key", "none.pem"),
            "--key: none.pem: no such file",
        ),
        (("--cafile", "none"), "--cafile: none: "),
        (("--cafile", "authority.pem", "--cert", "authority.pem"), "--cert, --key: authority.pem"),
    ],
)
def test_a_file_of_certificates_that_is_none_is_named_with_its_option(
    words: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Authority(tmp_path)
    (tmp_path / "none").write_text("none")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongUseError) as refused:
        find(options("--host", "gw", *words))
    assert str(refused.value).startswith(why)


def own(tmp_path: Path, section: str, /, **listeners: list[str]) -> argparse.Namespace:
    """Have a configuration, and what its gateway has told of where it listens."""
    key, file = tmp_path / "tree.key", tmp_path / "gw.toml"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    file.write_text(
        '[gateway]\nid = "gw-a"\nstate_dir = "."\n'
        '[tree]\nkey_file = "tree.key"\ntls = "off"\n[access]\nanonymous = true\n'
        f"[mqtt]\n{section}\n"
    )
    listeners_file.write(tmp_path, "gw-a", listeners)
    return options("--config", str(file))


def test_the_gateway_of_a_configuration_is_asked_where_it_listens(tmp_path: Path) -> None:
    plain = own(tmp_path, "", mqtt=["127.0.0.1:7"], mqtts=["127.0.0.1:8"])
    where = find(plain)
    assert (where.host, where.port, where.tls, where.certificate) == ("127.0.0.1", 7, None, None)


def test_over_tls_the_gateway_must_show_the_certificate_of_its_configuration(
    tmp_path: Path,
) -> None:
    issued = Authority(tmp_path).issue("gw-a", is_server=True)
    pem = f'tls_port = 0\ncertificate_file = "{issued.certificate}"\nkey_file = "{issued.key}"'
    secure = own(tmp_path, pem, mqtts=["127.0.0.1:8"])
    chain = b"text before\n" + issued.certificate.read_bytes() + b"text\n"
    issued.certificate.write_bytes(chain + Authority(tmp_path, "other").file.read_bytes())
    where = find(secure)
    assert (where.host, where.port, where.certificate) == ("127.0.0.1", 8, issued.der)
    assert where.tls is not None
    assert not where.tls.check_hostname
    assert where.tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("data", [b"none", b"\xff", b""])
def test_a_certificate_of_the_configuration_that_is_none_is_named(
    data: bytes, tmp_path: Path
) -> None:
    (file := tmp_path / "gw.pem").write_bytes(data)
    secure = own(tmp_path, NAMED.format("gw.pem"), mqtts=["127.0.0.1:8"])
    with pytest.raises(WrongUseError) as refused:
        find(secure)
    assert str(refused.value) == f"mqtt.certificate_file: {file}: no certificate in PEM"


def test_a_key_store_of_the_configuration_that_can_not_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "gw.p12").write_bytes(b"none")
    secure = own(tmp_path, NAMED.format("gw.p12"), mqtts=["127.0.0.1:8"])
    with pytest.raises(WrongUseError) as refused:
        find(secure)
    assert str(refused.value).startswith("mqtt.certificate_file: ")


@pytest.mark.parametrize("listeners", [{}, {"coap": ["127.0.0.1:9"]}, {"mqtts": ["127.0.0.1:8"]}])
def test_a_gateway_without_a_listener_for_clients_is_told(
    listeners: dict[str, list[str]], tmp_path: Path
) -> None:
    with pytest.raises(FailedError) as failed:
        find(own(tmp_path, "", **listeners))
    assert str(failed.value) == "gw-a has no MQTT listener"


async def test_a_port_that_says_nothing_is_waited_for_no_longer_than_asked() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    where = BrokerAddress("127.0.0.1", port, ssl.create_default_context())
    with pytest.raises(FailedError) as failed:
        await connect(where, 0.05)
    assert str(failed.value) == f"127.0.0.1:{port}: no answer within 0.05 s"
    server.close()
    with pytest.raises(FailedError) as failed:
        await connect(BrokerAddress("127.0.0.1", port), 5.0)
    assert str(failed.value).startswith(f"127.0.0.1:{port}: ")


async def test_who_shows_another_certificate_than_the_right_one_is_left_again(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    shown, right = authority.issue("gw-a", is_server=True), authority.issue("gw-a")
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        ended.set()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    tls = authority.client_context()
    with pytest.raises(FailedError) as failed:
        await connect(BrokerAddress("127.0.0.1", port, tls, right.der), 60.0)
    name = f"127.0.0.1:{port}"
    why = "it shows another certificate than mqtt.certificate_file: reload it"
    assert str(failed.value) == f"{name}: {why}"
    async with asyncio.timeout(60):
        await ended.wait()
    _, writer = await connect(BrokerAddress("127.0.0.1", port, tls, shown.der), 60.0)
    writer.close()
    (other := tmp_path / "other").mkdir()
    stranger = Authority(other).client_context()
    with pytest.raises(FailedError) as failed:
        await connect(BrokerAddress("127.0.0.1", port, stranger, shown.der), 60.0)
    assert str(failed.value).startswith(f"{name}: its certificate: ")
    server.close()
