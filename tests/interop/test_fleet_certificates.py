"""Files of `hedgerow keys` and commands of the README work with the clients that it names."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import fleet_keys
import pytest

from gateway.tools import cli

LIMIT_S = 30
SECRET = "a text of one's own"
POLICY = 'version = 1\nprincipals = {"psk:operator" = ["operator"]}\n'
CONFIGURATION = """
[gateway]
id = "gw-a"
state_dir = "state"
[mqtt]
port = "off"
tls_port = 0
certificate_file = "tls/gw-a.pem"
key_file = "tls/gw-a.key.pem"
client_certificate = "required"
client_ca_file = "tls/ca.pem"
client_crl_file = "tls/revoked.pem"
[coap]
port = "off"
dtls_port = 0
psk_file = "psk"
[tree]
key_file = "tree.key"
discovery = false
[access]
policy_file = "access.toml"
[[sensors]]
type = "switch"
name = "valve"
"""


async def run(*command: str) -> tuple[int | None, str]:
    """Run a program; return its exit code and its output."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    async with asyncio.timeout(LIMIT_S):
        output, _ = await process.communicate()
    return process.returncode, output.decode(errors="replace")


@pytest.fixture
async def listeners(tmp_path: Path) -> AsyncIterator[dict[str, str]]:
    """The listeners of a gateway whose files are those of this folder."""
    fleet_keys.issue(tmp_path / "tls", "gw-a", "gw-b=192.0.2.7,pi.example")
    fleet_keys.issue(tmp_path / "tls", "probe", role="operator")
    for name, text in (
        ("psk", f"operator:{SECRET.encode().hex()}\n"),
        ("tree.key", "ab" * 32),
        ("gateway.toml", CONFIGURATION),
        ("access.toml", POLICY),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway.tools.cli", "run"),
        *("--config", str(tmp_path / "gateway.toml")),
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    lines = b""
    async with asyncio.timeout(LIMIT_S):
        async for line in process.stderr:
            lines += line
            if b" is up: " in line:
                break
    assert b" is up: " in lines, lines.decode()
    yield json.loads((tmp_path / "state" / "listeners.json").read_text())
    process.terminate()
    await process.communicate()


@pytest.mark.peer("mosquitto_pub", "mosquitto-clients")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_mosquittos_clients_trust_a_gateway_with_a_certificate_of_the_fleet(
    listeners: dict[str, str], tmp_path: Path, host: str
) -> None:
    tls = tmp_path / "tls"
    code, output = await run(
        *("mosquitto_pub", "-h", host, "-p", listeners["mqtts"].rpartition(":")[2]),
        *("--cafile", str(tls / "ca.pem"), "--cert", str(tls / "probe.pem")),
        *("--key", str(tls / "probe.key.pem"), "-q", "1", "-t", "campus/north/door", "-m", "open"),
    )
    assert (code, output) == (0, "")


@pytest.mark.peer("mosquitto_pub", "mosquitto-clients")
async def test_they_do_not_trust_it_under_a_name_that_its_certificate_does_not_have(
    listeners: dict[str, str], tmp_path: Path
) -> None:
    tls = tmp_path / "tls"
    code, output = await run(
        *("mosquitto_pub", "-h", "127.0.0.2", "-p", listeners["mqtts"].rpartition(":")[2]),
        *("--cafile", str(tls / "ca.pem"), "--cert", str(tls / "probe.pem")),
        *("--key", str(tls / "probe.key.pem"), "-t", "campus/north/door", "-m", "open"),
    )
    assert code != 0
    assert output


@pytest.mark.peer("coap-client-openssl", "libcoap3-bin")
async def test_libcoaps_client_is_given_the_text_whose_bytes_the_key_file_has_in_hexadecimal(
    listeners: dict[str, str],
) -> None:
    valve = f"coaps://{listeners['coaps']}/sensors/valve"
    client = ["coap-client-openssl", "-B", str(LIMIT_S), "-u", "operator", "-k", SECRET]
    await run(*client, "-m", "put", "-e", "1", valve)
    _, output = await run(*client, valve)
    assert '"v":1' in output


@pytest.mark.peer("openssl", "openssl")
async def test_a_certificate_names_where_its_gateway_is_reached(tmp_path: Path) -> None:
    fleet_keys.issue(tmp_path / "tls", "gw-b=192.0.2.7,2001:db8::7,pi.example")
    file = str(tmp_path / "tls" / "gw-b.pem")
    for kind, name in (
        ("ip", "192.0.2.7"),
        ("ip", "2001:db8::7"),
        ("host", "pi.example"),
        ("host", "gw-b"),
        ("host", "gw-b.local"),
    ):
        _, output = await run("openssl", "x509", "-in", file, "-noout", f"-check{kind}", name)
        assert "does match" in output, output
    _, output = await run("openssl", "x509", "-in", file, "-noout", "-checkip", "192.0.2.8")
    assert "does NOT match" in output


@pytest.mark.parametrize("wrong", ["10.0.0.", "-x", "a b", "a..b", "pi.example/x"])
def test_what_is_no_address_is_named(
    tmp_path: Path, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet_keys.keys("init-ca", "--ca", tmp_path)
    assert cli.main(["keys", "issue", "--ca", str(tmp_path), f"gw-c={wrong}"]) == 2
    assert (
        capsys.readouterr().err
        == f"hedgerow: gw-c: {wrong!r} is neither an address nor a host name\n"
    )
    assert not (tmp_path / "gw-c.pem").exists()
