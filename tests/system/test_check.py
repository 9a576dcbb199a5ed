"""Goal: `hedgerow check` says all that is wrong with a configuration at once, line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from authority import Authority

from gateway.base.toml.toml_file import load
from gateway.process.configuration.config import ConfigError, GatewaySettings

GOOD = """\
[gateway]
id = "gw"
state_dir = "state"
[mqtt]
port = 0
[coap]
port = 0
[tree]
key_file = "tree.key"
discovery = false
[[sensors]]
type = "replay"
series = "own.csv"
"""
SERIES = "elapsed_s,Cel\n0,1.0\n60,2.0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "etc"
    made.mkdir()
    (made / "tree.key").write_text("ab" * 32)
    (made / "own.csv").write_text(SERIES)
    return made


def check(file: Path, *arguments: str) -> tuple[int, list[str], str]:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", "check", "--config", str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def faults(folder: Path, text: str | bytes) -> list[str]:
    """Check a text; return the lines that it prints, without the file's name."""
    file = folder / "hedgerow.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    code, lines, said = check(file)
    assert (code, said) == (2, "")
    assert all(line.startswith(f"{file}:") for line in lines)
    return [line.removeprefix(f"{file}:").lstrip() for line in lines]


def test_a_good_one_from_any_folder_has_paths_from_its_own(folder: Path) -> None:
    file = folder / "hedgerow.toml"
    file.write_text(GOOD)
    assert check(file) == (0, [f"{file}: nothing is wrong"], "")
    assert not (folder / "state").exists()


def test_a_folder_of_sensor_classes_that_is_not_there_is_said_as_a_start_would_say_it(
    folder: Path,
) -> None:
    text = GOOD.replace('state_dir = "state"', 'state_dir = "state"\nsensors_dir = "sensors"')
    assert faults(folder, text) == [f"4: gateway.sensors_dir: {folder}/sensors: no such folder"]
    (folder / "sensors").mkdir()
    assert check(folder / "hedgerow.toml")[0] == 0


def test_files_of_ways_for_alerts_are_read_as_a_start_would_read_them(folder: Path) -> None:
    for name, text in (("token", "schlüssel"), ("bot", "s-3"), ("open", "secret")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o644 if name == "open" else 0o600)
    ways = """
[alerts]
routes = [{to = ["mail"]}]
[alerts.mail]
host = "mail.example.org"
sender = "gw@example.org"
to = ["ops@example.org"]
ca_file = "bot"
[alerts.ntfy]
topic = "t"
token_file = "token"
[alerts.telegram]
chat = "1"
token_file = "bot"
[alerts.webhook]
url = "https://hooks.example.org"
secret_file = "open"
"""
    said = faults(folder, GOOD + ways)
    where = [line.partition(f": {folder}")[0].partition(": ")[2] for line in said]
    assert where == [
        "alerts.mail.ca_file",
        "alerts.ntfy.token_file",
        "alerts.telegram.token_file",
        "alerts.webhook.secret_file",
    ]
    assert said[0].endswith("/bot: no certificate or crl found")
    assert "s-3" not in "".join(said)
    is_off = GOOD + ways.replace("[alerts]\n", "[alerts]\nenabled = false\n")
    (folder / "hedgerow.toml").write_text(is_off)
    assert check(folder / "hedgerow.toml")[0] == 0


def test_all_that_is_wrong_is_said_at_once(folder: Path) -> None:
    (folder / "tree.key").write_text("short")
    (folder / "psk").write_text("operator:zz\n")
    (folder / "psk").chmod(0o600)
    (folder / "passwords").write_text("alice\n")
    (folder / "access.toml").write_text('[default]\npublish = ["a/#/b"]\n')
    said = faults(
        folder,
        """\
[gateway]
id = "GW 1"
state_dir = 3
domain = "Campus"
[mqtt]
host = "no where"
port = 70000
webscoket_port = 9001
client_certificate = "maybe"
[coap]
psk_file = "psk"
tls_port = 8883
[tree]
key_file = "tree.key"
hello_s = 0
mode = "all"
neighbours = [
  "10.0.0.1:8883",
  "nowhere",
]
[limits]
sessions = 0
topic_levels = -1
[access]
password_file = "passwords"
policy_file = "access.toml"
[log]
durability = "often"
[[sensors]]
type = "host"
interval_s = "often"
disc = "/"
[[sensors]]
type = "quartz"
[[sensors]]
type = "replay"
series = "none.csv"
""",
    )
    assert said == [
        "2: gateway.id: 'GW 1' is not 1 to 63 lower-case letters, digits and hyphens",
        "3: gateway.state_dir: 3 is not a path",
        "4: gateway.domain: 'Campus' is not 1 to 63 lower-case letters, digits and hyphens",
        "6: mqtt.host: 'no where' is neither an IP address nor a host name",
        "7: mqtt.port: 70000 is no port: 0 to 65535",
        "8: mqtt.webscoket_port: unknown key, did you mean 'websocket_port'?",
        "9: mqtt.client_certificate: 'maybe' is none of 'none', 'optional', 'required'",
        f"11: coap.psk_file: {folder}/psk:1: the key is not hexadecimal",
        "12: coap.tls_port: unknown key here: there is mqtt.tls_port",
        "13: tree.tls: 'required', and mqtt.tls_port is missing (docs/access.md, \"Links\")",
        f"14: tree.key_file: {folder}/tree.key: not hexadecimal",
        "15: tree.hello_s: 0 is not 0.01 to 60",
        "16: tree.mode: 'all' is none of 'flood', 'routed', 'topic'",
        "19: tree.neighbours: 'nowhere' is not HOST:PORT",
        "22: limits.sessions: 0 is not within 1 and 1000000",
        "23: limits.topic_levels: -1 is not within 1 and 1000",
        f"25: access.password_file: {folder}/passwords:1: not USER:HASH",
        f"26: access.policy_file: {folder}/access.toml:2: default.publish: 'a/#/b' "
        "is no topic filter: # is not the last level of its own",
        "28: log.durability: 'often' is neither 'write' nor 'sync'",
        "31: sensors[0].interval_s: 'often' is not a number",
        "32: sensors[0].disc: unknown key",
        "34: sensors[1].type: 'quartz' is none of bme280, coap, gpio-in, gpio-out, host, i2c, "
        "mqtt, onewire, replay, sht3x, switch",
        f"35: sensors[2]: {folder}/none.csv: [Errno 2] No such file or directory: "
        f"'{folder}/none.csv'",
    ]


def test_what_is_missing_is_named_with_what_it_would_be(folder: Path) -> None:
    assert faults(folder, "[gateway]\nid = 'gw'\n[mqtt]\ntls_port = 8883\n") == [
        "tree.key_file: missing (a path in quotes)",
        "tree.tls: 'required', and mqtt.client_ca_file is missing (docs/access.md, \"Links\")",
        "1: gateway.state_dir: missing (a path in quotes)",
        "3: mqtt.certificate_file: missing, and tls_port is given",
        "3: mqtt.key_file: missing, and tls_port is given",
    ]


def test_sections_that_do_not_go_together_are_named_beside_all_else(folder: Path) -> None:
    (folder / "tree.key").write_text("abcd")
    text = GOOD.replace("discovery = false", "discovery = true").replace('"own.csv"', '"moon"')
    said = faults(folder, text.replace("[mqtt]", '[mqtt]\nhost = "0.0.0.0"'))
    assert [line.partition(" ")[2].partition(": ")[0] for line in said] == [
        "gateway.address",
        "tree.tls",
        "tree.key_file",
        "sensors[0]",
    ]


def test_bytes_that_are_not_utf_8_and_lines_that_are_no_toml_hide_nothing_else(
    folder: Path,
) -> None:
    text = GOOD.replace('id = "gw"', "id = gw").encode()
    text = text.replace(b"port = 0\n[coap]", b"port = 0 # K\xfcche\nwill = yes\n[coap]")
    assert faults(folder, text + b"series = 2\nspeed = 'fast'\n") == [
        "2: not TOML: Invalid value",
        "5: byte 0xFC (number 13 of the line) is not UTF-8",
        "6: not TOML: Invalid value",
        "15: not TOML: Cannot overwrite a value",
    ]


def test_an_array_that_is_not_closed_is_told_once(folder: Path) -> None:
    said = faults(folder, GOOD.replace("discovery", "neighbours = [\ndiscovery"))
    assert said == ["11: not TOML: Invalid value"]


def test_certificates_that_do_not_fit_are_named(folder: Path) -> None:
    authority = Authority(folder)
    one, other = (authority.issue(name, is_server=True) for name in ("gw", "other"))
    keys = f'tls_port = 0\ncertificate_file = "{one.certificate}"\nkey_file = "{other.key}"\n'
    (line,) = faults(folder, GOOD.replace("[coap]", f"{keys}[coap]"))
    assert line.startswith(f"8: mqtt.key_file: {other.key}: not the key of the certificate in")


def test_two_listeners_of_one_port_are_named(folder: Path) -> None:
    text = GOOD.replace("port = 0\n[coap]", "port = 9001\nwebsocket_port = 9001\n[coap]")
    assert faults(folder, text) == ["6: mqtt.websocket_port: 9001 is port already"]


def test_keys_that_no_policy_gives_roles_are_told_though_nothing_is_wrong(folder: Path) -> None:
    file = folder / "hedgerow.toml"
    (folder / "psk").touch(mode=0o600)
    (folder / "psk").write_text("meter:" + "ab" * 16 + "\n")
    file.write_text(GOOD.replace("[coap]\n", '[coap]\npsk_file = "psk"\n'))
    code, lines, said = check(file)
    assert (code, lines) == (0, [f"{file}: nothing is wrong"])
    assert said.startswith("coap.psk_file: its keys may read, and change nothing, until ")
    (folder / "roles.toml").write_text("version = 1\n")
    file.write_text(file.read_text() + '[access]\npolicy_file = "roles.toml"\n')
    assert check(file) == (0, [f"{file}: nothing is wrong"], "")


def test_for_scripts_it_is_json(folder: Path) -> None:
    file = folder / "hedgerow.toml"
    file.write_text(GOOD.replace("discovery", "dicsovery"))
    code, lines, _ = check(file, "--json")
    why = "unknown key, did you mean 'discovery'?"
    assert (code, json.loads("\n".join(lines))) == (
        2,
        {
            "file": str(file),
            "faults": [{"line": 10, "where": "tree.dicsovery", "why": why, "remedy": ""}],
        },
    )


def test_a_start_names_the_first_and_how_many_more_there_are(folder: Path) -> None:
    file = folder / "hedgerow.toml"
    file.write_text(GOOD.replace("discovery", "dicsovery").replace('"gw"', '"GW"'))
    done = subprocess.run(
        [sys.executable, "-m", "gateway.tools.cli", "run", "--config", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hedgerow: {file}: gateway.id: 'GW' is not 1 to 63")
    assert line.endswith("hyphens (`hedgerow check` tells 1 more)")


def test_the_user_s_own_configuration_is_every_command_s_default(
    folder: Path, tmp_path: Path
) -> None:
    own = tmp_path / "config" / "hedgerow" / "hedgerow.toml"
    own.parent.mkdir(parents=True)
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "gateway.tools.cli", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    missing = f"hedgerow: --config: not given, and neither /etc/hedgerow/hedgerow.toml nor {own}"
    for command in ("run", "check"):
        assert run(command) == (2, f"{missing} is there: `hedgerow init` writes one\n")
    own.write_text(GOOD)
    (own.parent / "tree.key").write_text("ab" * 32)
    (own.parent / "own.csv").write_text(SERIES)
    assert run("check") == (0, f"{own}: nothing is wrong\n")
    for command in ("status", "tree", "drain"):
        listeners = own.parent / "state" / "listeners.json"
        starting = f"`hedgerow run --config {own}` starts it"
        assert run(command) == (1, f"hedgerow: gw is not running ({listeners}); {starting}\n")


def test_each_fault_of_a_file_that_it_names_is_told_with_its_line(folder: Path) -> None:
    """Not one fault a run: a password file that was written by hand is wrong in many lines."""
    (folder / "passwords").write_text("alice\n# staff\nbob:plain\ncarol:\n")
    (folder / "psk").touch(mode=0o600)
    (folder / "psk").write_text("# devices\nmeter:abc\nlamp\nlamp:00\n")
    (folder / "access.toml").write_text(
        "[default]\npublish = ['a/#/b', 'ok', 'c+']\nwrite = []\n[users.alice]\nsubscribe = 'a'\n"
        "[users.bob]\ndeliver = ['%z']\n[groups]\n"
    )
    text = GOOD.replace("[coap]\n", '[coap]\npsk_file = "psk"\n')
    text += '[access]\npassword_file = "passwords"\npolicy_file = "access.toml"\n'
    said = faults(folder, text)
    here = {name: f"{folder}/{name}:" for name in ("passwords", "psk", "access.toml")}
    unknown = "is neither argon2's nor mosquitto_passwd's"
    assert said == [
        f"7: coap.psk_file: {here['psk']}2: the key is not hexadecimal",
        f"7: coap.psk_file: {here['psk']}3: no colon between identity and key",
        f"7: coap.psk_file: {here['psk']}4: a key of 1 bytes; 16 to 64 are allowed",
        f"16: access.password_file: {here['passwords']}1: not USER:HASH",
        f"16: access.password_file: {here['passwords']}3: the hash of 'bob' {unknown}",
        f"16: access.password_file: {here['passwords']}4: the hash of 'carol' {unknown}",
        f"17: access.policy_file: {here['access.toml']}2: default.publish: 'a/#/b' is no topic "
        "filter: # is not the last level of its own",
        f"17: access.policy_file: {here['access.toml']}2: default.publish: 'c+' is no topic "
        "filter: + is not a whole level",
        f"17: access.policy_file: {here['access.toml']}3: default.write: is none of publish, "
        "subscribe, deliver, conceal",
        f"17: access.policy_file: {here['access.toml']}5: users.alice.subscribe: is no list of "
        "texts",
        f"17: access.policy_file: {here['access.toml']}7: users.bob.deliver: '%z' has a '%' that "
        "is none of %u, %c and %%",
        f"17: access.policy_file: {here['access.toml']}8: groups: is none of default, roles and "
        "users",
    ]


def test_each_certificate_and_list_that_is_wrong_is_told(folder: Path) -> None:
    authority = Authority(folder)
    own = authority.issue("gw", is_server=True)
    torn = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    (folder / "own.pem").write_text(torn + own.certificate.read_text() + torn)
    (folder / "own.key").write_text("no key\n")
    (folder / "lists.pem").write_bytes(authority.revoke(outdated=True) + authority.revoke())
    tls = (
        'tls_port = 0\ncertificate_file = "own.pem"\nkey_file = "own.key"\n'
        f'client_certificate = "optional"\nclient_ca_file = "{authority.file}"\n'
        'client_crl_file = "lists.pem"\n'
    )
    lines = own.certificate.read_text().count("\n") + 4
    said = faults(folder, GOOD.replace("[coap]", f"{tls}[coap]"))
    assert said[:3] == [
        f"7: mqtt.certificate_file: {folder}/own.pem:1: a certificate that can't be read",
        f"7: mqtt.certificate_file: {folder}/own.pem:{lines}: a certificate that can't be read",
        f"8: mqtt.key_file: {folder}/own.key: no private key in PEM",
    ]
    (outdated,) = said[3:]
    assert outdated.startswith(
        f"11: mqtt.client_crl_file: {folder}/lists.pem:1: was to be renewed until"
    )


def test_what_home_assistant_can_t_be_told_is_named_with_all_else(folder: Path) -> None:
    entity = 'home_assistant = {qos = 0, unique_id = "x"}\n'
    text = GOOD.replace("[[sensors]]", f'[[sensors]]\ntype = "host"\n{entity}[[sensors]]')
    home = "[home_assistant]\ndiscovery = true\n"
    assert faults(folder, f'{text}{entity}{home}prefix = "a/b"\nretain = true\n') == [
        "13: sensors[0].home_assistant.qos: set by the gateway",
        "17: sensors[1].home_assistant.qos: set by the gateway",
        "20: home_assistant.prefix: 'a/b' is not one topic level of letters, digits, '_' and '-'",
        "21: home_assistant.retain: unknown key, there are discovery, prefix",
    ]


def test_what_is_wrong_with_coaps_certificates_is_told(folder: Path) -> None:
    authority = Authority(folder)
    own = authority.issue("gw", is_server=True, ed25519=True)
    (folder / "lists.pem").write_bytes(authority.revoke(outdated=True))
    tls = (
        f'certificate_file = "{own.certificate}"\nkey_file = "{own.key}"\n'
        f'client_ca_file = "{authority.file}"\n'
    )
    said = faults(folder, GOOD.replace("[coap]\n", f"[coap]\n{tls}"))
    why = "a key for Ed25519; over DTLS it must be for ECDSA on P-256"
    assert said == [f"8: coap.key_file: {own.key}: {why}"]
    lists = 'client_crl_file = "lists.pem"\n'
    key, outdated = faults(folder, GOOD.replace("[coap]\n", f"[coap]\n{tls}{lists}"))
    assert key == said[0]
    assert outdated.startswith(
        f"10: coap.client_crl_file: {folder}/lists.pem:1: was to be renewed until"
    )


def test_a_state_folder_that_is_something_else_is_told(folder: Path) -> None:
    (folder / "state").touch()
    assert faults(folder, GOOD) == [
        f"3: gateway.state_dir: {folder / 'state'}: a file, not a folder"
    ]
    below = GOOD.replace('"state"', '"state/of/gw"')
    assert faults(folder, below) == [
        f"3: gateway.state_dir: {folder / 'state'}: a file, not a folder"
    ]


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a link in a circle of links"])
def test_what_is_no_file_is_told_as_what_it_is(folder: Path, kind: str) -> None:
    def make(path: Path) -> None:
        match kind:
            case "a folder":
                path.mkdir()
            case "a pipe":
                os.mkfifo(path)
            case _:
                path.symlink_to(path.name)

    make(folder / "other.toml")
    told = f"{folder / 'other.toml'}: {kind}, not a file"
    code, lines, said = check(folder / "other.toml")
    assert (code, lines, said) == (2, [], f"hedgerow: {told}\n")
    with pytest.raises(ConfigError, match=f"{kind}, not a file"):
        load(folder / "other.toml", GatewaySettings)
    (folder / "tree.key").unlink()
    make(folder / "tree.key")
    assert faults(folder, GOOD) == [f"9: tree.key_file: {folder / 'tree.key'}: {kind}, not a file"]
