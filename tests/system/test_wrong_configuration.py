"""A wrong configuration is one line that names what is wrong, and exit code 2; what may pass, 1."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from authority import Authority

IN_USE = (
    "Address already in use; "
    "another program listens there (`ss -lntup` shows which): take another port"
)
BASE = """
[gateway]
id = "gw"
state_dir = "{folder}/state"
domain = "campus"

[mqtt]
port = {port}

[coap]
port = 0

[tree]
key_file = "{folder}/tree.key"
discovery = false
"""


def start(folder: Path, text: str | bytes) -> tuple[int, list[str]]:
    config = folder / "gateway.toml"
    config.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


@pytest.fixture
def base(tmp_path: Path) -> str:
    (tmp_path / "tree.key").write_text("ab" * 32)
    return BASE.format(folder=tmp_path, port=0)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("discovery = false", "discovery = false\nhelo_s = 1.0", "tree.helo_s: unknown key"),
        ('domain = "campus"', 'domain = "Campus!"', "gateway.domain: "),
        ('id = "gw"', 'id = "gw"\ngroup = 3', "gateway.group: 3 is not of type str"),
        ('id = "gw"', "", "gateway.id: missing"),
        ("tree.key", "absent.key", "absent.key: no such file"),
        ("discovery = false", "hello_s = 0", "tree.hello_s: "),
        ("discovery = false", 'mode = "all"', "tree.mode: 'all' is none of 'flood', 'routed'"),
        (
            "discovery = false",
            'root_policy = "oldest"',
            "tree.root_policy: 'oldest' is neither 'capacity' nor 'balance'",
        ),
        ("discovery = false", "balance_roots = -1.0", "tree.balance_roots: -1 is not"),
        ("discovery = false", "max_overlays = 0", "tree.max_overlays: 0 is not 1 to 10000"),
        ("discovery = false", 'keep_local = ["a+"]', "tree.keep_local: "),
        ("discovery = false", 'neighbours = ["nowhere"]', "tree.neighbours: 'nowhere'"),
        (
            "port = 0\n\n[tree]",
            'psk_file = "/none"\n\n[tree]',
            "coap.psk_file: /none: no such file",
        ),
        ("[mqtt]", '[mqtt]\nhost = "no where"', "mqtt.host: 'no where' is neither an IP address"),
        ("[mqtt]", "[mqtt]\nport = 1\n[mqtt]", "not TOML"),
        ("[tree]", '[[sensors]]\ntype = "quartz"\n[tree]', "sensors[0].type: 'quartz'"),
        ("[tree]", f"[tree]\nhello_s = 1{'0' * 5000}", "not TOML"),
        ("[tree]", f"[tree]\nhello_s = 1{'0' * 400}", "tree.hello_s: is too great a number"),
        ("[tree]", f"[tree]\nx = {'[' * 5000}", "not TOML"),
        ("[tree]", "[tree]\ncapability = inf", "tree.capability: inf is not"),
        ("discovery = false", 'neighbours = ["a:²"]', "tree.neighbours: 'a:²' is not HOST:PORT"),
        ("/state", "/\\u0000", "/\\x00' is not a path"),
    ],
)
def test_the_line_names_the_field(
    tmp_path: Path, base: str, old: str, new: str, named: str
) -> None:
    assert old in base
    code, lines = start(tmp_path, base.replace(old, new))
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("hedgerow: ")
    assert named in lines[0]


def test_a_byte_that_is_no_utf_8_is_named_with_its_line(tmp_path: Path, base: str) -> None:
    code, lines = start(tmp_path, base.encode() + "# Küche\n".encode("latin-1"))
    assert code == 2
    number = base.count("\n") + 1
    why = f"{tmp_path}/gateway.toml:{number}: byte 0xFC (number 4 of the line) is not UTF-8"
    assert lines == [f"hedgerow: {why}"]


def test_a_wrong_line_of_the_access_policy_is_named(tmp_path: Path, base: str) -> None:
    policy = tmp_path / "access.toml"
    policy.write_text('[default]\npublish = ["a/#/b"]\n')
    code, lines = start(tmp_path, base + f'[access]\npolicy_file = "{policy}"\n')
    assert code == 2
    (line,) = lines
    assert f"{policy}:2:" in line


def test_a_policy_that_the_parser_can_t_hold_is_one_line_too(tmp_path: Path, base: str) -> None:
    policy = tmp_path / "access.toml"
    policy.write_text(f"x = 1{'0' * 5000}\n")
    code, lines = start(tmp_path, base + f'[access]\npolicy_file = "{policy}"\n')
    assert code == 2
    (line,) = lines
    assert f"access.policy_file: {policy}: " in line


def test_a_password_file_that_is_no_text_is_named(tmp_path: Path, base: str) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_bytes(b"alice:$argon2id$\n\xff\n")
    code, lines = start(tmp_path, base + f'[access]\npassword_file = "{passwords}"\n')
    assert code == 2
    (line,) = lines
    assert f"{passwords}:2:" in line


@pytest.mark.parametrize(
    ("coap", "named"),
    [
        ('key_file = "{server_key}"', "coap.key_file: of no use without certificate_file"),
        ('certificate_file = "{server}"\nclient_ca_file = "{ca}"', "coap.key_file: missing, and"),
        (
            'certificate_file = "{server}"\nkey_file = "{server_key}"',
            "coap.client_ca_file: missing",
        ),
        (
            'certificate_file = "{server}"\nkey_file = "{ca}"\nclient_ca_file = "{ca}"',
            "coap.key_file: {ca}: no private key in PEM",
        ),
        (
            'certificate_file = "{edwards}"\nkey_file = "{edwards_key}"\nclient_ca_file = "{ca}"',
            "coap.key_file: {edwards_key}: a key for Ed25519; over DTLS it must be for ECDSA",
        ),
        (
            'certificate_file = "{server}"\nkey_file = "{open_key}"\nclient_ca_file = "{ca}"',
            "coap.key_file: {open_key}: mode 0644 lets others in",
        ),
    ],
)
def test_a_wrong_certificate_of_coap_is_named(
    tmp_path: Path, base: str, coap: str, named: str
) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("gw", is_server=True)
    edwards = authority.issue("gw", is_server=True, ed25519=True)
    files = {
        "ca": authority.file,
        "server": server.certificate,
        "server_key": server.key,
        "edwards": edwards.certificate,
        "edwards_key": edwards.key,
        "open_key": tmp_path / "open.key",
    }
    files["open_key"].write_bytes(server.key.read_bytes())
    files["open_key"].chmod(0o644)
    code, lines = start(tmp_path, base.replace("[coap]", f"[coap]\n{coap.format(**files)}"))
    assert code == 2
    (line,) = lines
    assert named.format(**files) in line


@pytest.mark.parametrize(
    ("mqtt", "named"),
    [
        ("tls_port = 0", "mqtt.certificate_file: missing, and tls_port is given"),
        ("secure_websocket_port = 0", "mqtt.certificate_file: missing, and secure_websocket_port"),
        ('certificate_file = "{server}"', "mqtt.certificate_file: of no use without tls_port"),
        ("tls_port = 70000", "mqtt.tls_port: 70000 is no port"),
        ('websocket_path = "mqtt"', "mqtt.websocket_path: 'mqtt' does not start with '/'"),
        ('client_certificate = "maybe"', "mqtt.client_certificate: 'maybe' is none of"),
        ('{secure}\nclient_certificate = "required"', "mqtt.client_ca_file: missing"),
        ('{secure}\nclient_ca_file = "{ca}"', "mqtt.client_ca_file: of no use while"),
        ('client_certificate = "optional"', "mqtt.client_certificate: of no use without tls_port"),
        ('tls_port = 0\ncertificate_file = "/none"', "mqtt.certificate_file: /none: no such file"),
        (
            'tls_port = 0\ncertificate_file = "{server}"\nkey_file = "{ca}"',
            "mqtt.key_file: {ca}: no private key in PEM",
        ),
        (
            'tls_port = 0\ncertificate_file = "{server}"\nkey_file = "{other_key}"',
            "mqtt.key_file: {other_key}: not the key of the certificate in {server}",
        ),
        (
            '{secure}\nclient_certificate = "optional"\nclient_ca_file = "{server_key}"',
            "mqtt.client_ca_file: {server_key}: no certificate in PEM",
        ),
        (
            '{secure}\nclient_certificate = "optional"\nclient_ca_file = "{ca}"\n'
            'client_crl_file = "{ca}"',
            "mqtt.client_crl_file: {ca}: no certificate revocation list in PEM",
        ),
        ("plugins = {{a = 1}}", "mqtt.plugins.a: is not a table"),
        ('plugins = {{"no.such.Plugin" = {{}}}}', "mqtt.plugins: Plugin import failed: no.such"),
    ],
)
def test_a_wrong_listener_or_certificate_is_named(
    tmp_path: Path, base: str, mqtt: str, named: str
) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("gw", is_server=True)
    old = authority.issue("gw", is_server=True, expired=True)
    files = {
        "ca": authority.file,
        "server": server.certificate,
        "server_key": server.key,
        "other_key": old.key,
        "old": old.certificate,
        "old_key": old.key,
    }
    secure = f'tls_port = 0\ncertificate_file = "{server.certificate}"\nkey_file = "{server.key}"'
    given = mqtt.format(secure=secure, **files)
    code, lines = start(tmp_path, base.replace("[mqtt]", f"[mqtt]\n{given}"))
    assert code == 2
    (line,) = lines
    assert named.format(**files) in line


@pytest.mark.parametrize("field", ["tls_port", "websocket_port", "secure_websocket_port"])
def test_a_further_port_in_use_is_named(tmp_path: Path, base: str, field: str) -> None:
    server = Authority(tmp_path).issue("gw", is_server=True)
    keys = ""
    if field != "websocket_port":
        keys = f'certificate_file = "{server.certificate}"\nkey_file = "{server.key}"\n'
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        given = f"[mqtt]\n{keys}{field} = {port}"
        code, lines = start(tmp_path, base.replace("[mqtt]", given))
    assert code == 1  # it may pass: systemd tries again
    assert lines == [f"hedgerow: mqtt.{field}: 127.0.0.1:{port}: {IN_USE}"]


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    (tmp_path / "tree.key").write_text("ab" * 32)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, lines = start(tmp_path, BASE.format(folder=tmp_path, port=port))
    assert code == 1  # it may pass: systemd tries again
    assert lines[-1] == f"hedgerow: mqtt.port: 127.0.0.1:{port}: {IN_USE}"
    assert len(lines) == 1


def test_a_coap_port_in_use_is_named(tmp_path: Path, base: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        code, lines = start(tmp_path, base.replace("[coap]\nport = 0", f"[coap]\nport = {port}"))
    assert code == 1  # it may pass: systemd tries again
    assert len(lines) == 1
    assert "coap.port: " in lines[0]
    assert str(port) in lines[0]


def test_a_state_folder_in_use_is_named(tmp_path: Path, base: str) -> None:
    config = tmp_path / "first.toml"
    config.write_text(base)
    first = subprocess.Popen(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(config)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert first.stderr is not None
        for line in first.stderr:
            if " is up" in line:
                break
        code, lines = start(tmp_path, base)
    finally:
        first.terminate()
        first.communicate(timeout=60)
    assert code == 1  # it may pass: systemd tries again
    assert "gateway.state_dir: " in lines[0]
    assert "in use by another process" in lines[0]
    assert first.returncode == 0


def test_a_wrong_argument_is_one_line_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", "simulate", "--runs", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "--runs: 0 is not 1 or more" in line
