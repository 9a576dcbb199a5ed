"""A card's settings for networks that ask who the device is (802.1X), and for LTE."""

from __future__ import annotations

import configparser
import datetime
import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gateway.tools.flashing import (
    cloud_config,
    device,
    eap,
    first_run,
    fleet_file,
    keyfiles,
    kit,
    preseed,
)
from gateway.tools.flashing.device import CardDevice, Modem, StaticNetwork, Wifi
from gateway.tools.flashing.eap import Eap
from gateway.tools.flashing.errors import RefusalError

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKz1"
NOW = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
CA, OWN, KEY = Path("ca.pem"), Path("own.pem"), Path("own.key.pem")
SECRET = ' pass "word" \\ $HOME;'
TLS = Eap(
    method="tls",
    identity="host/gw north",
    ca_certificate=CA,
    certificate=OWN,
    key=KEY,
    server_name="radius.example.org",
)
PEAP = Eap(
    method="peap",
    identity="gw-north@example.org",
    anonymous_identity="anonymous@example.org",
    ca_certificate=CA,
    password=SECRET,
)
TTLS = Eap(method="ttls", identity="gw", ca_certificate=CA, password="a word", inner="pap")
MODEM = Modem(apn="internet.example", user="web", password="p w", pin="0123")
NORTH = CardDevice(
    id="gw-north",
    user="anna",
    ssh_keys=(SSH_KEY,),
    country="DE",
    wired=TLS,
    wifi=(
        Wifi("campus", security="eap", eap=PEAP),
        Wifi("house", "a passphrase"),
        Wifi("library", security="eap", eap=TTLS),
    ),
    modem=MODEM,
)


def with_eap(**change: object) -> CardDevice:
    return msgspec.structs.replace(NORTH, wired=msgspec.structs.replace(TLS, **change))


def connection(one: CardDevice, name: str) -> configparser.RawConfigParser:
    keyfile = configparser.RawConfigParser(delimiters=("=",))
    keyfile.read_string(keyfiles.keyfiles(one)[f"hedgerow-{name}.nmconnection"])
    return keyfile


def test_a_cable_and_a_wireless_network_may_ask_who_the_device_is() -> None:
    assert not list(device.faults(NORTH))
    found = yaml.safe_load(cloud_config.network_config(NORTH))["network"]
    # netplan-yaml(5), "Authentication"; the name of the server is NetworkManager's own.
    assert found["ethernets"]["eth0"]["auth"] == {
        "key-management": "802.1x",
        "method": "tls",
        "identity": "host/gw north",
        "ca-certificate": "/etc/hedgerow-network/wired.ca.pem",
        "client-certificate": "/etc/hedgerow-network/wired.certificate.pem",
        "client-key": "/etc/hedgerow-network/wired.key.pem",
    }
    assert found["ethernets"]["eth0"]["networkmanager"] == {
        "passthrough": {"802-1x.domain-suffix-match": "radius.example.org"}
    }
    # netplan refuses NetworkManager's own words for an interface that is not said to be its.
    assert found["ethernets"]["eth0"]["renderer"] == "NetworkManager"
    points = found["wifis"]["wlan0"]["access-points"]
    assert points["campus"].pop("networkmanager")
    assert points["campus"] == {
        "auth": {
            "key-management": "eap",
            "method": "peap",
            "identity": "gw-north@example.org",
            "anonymous-identity": "anonymous@example.org",
            "ca-certificate": "/etc/hedgerow-network/wifi-1.ca.pem",
            "password": SECRET,
            "phase2-auth": "mschapv2",
        }
    }
    assert points["library"]["auth"]["phase2-auth"] == "pap"
    assert points["library"]["auth"]["ca-certificate"] == "/etc/hedgerow-network/wifi-3.ca.pem"
    assert "auth" not in points["house"]


def test_an_interface_is_said_to_be_network_managers_only_where_it_is_told_its_own_words() -> None:
    one = msgspec.structs.replace(NORTH, wired=None, wifi=Wifi("campus", security="eap", eap=PEAP))
    found = yaml.safe_load(cloud_config.network_config(one))["network"]
    for interface in (found["ethernets"]["eth0"], found["wifis"]["wlan0"]):
        assert "renderer" not in interface
        assert "networkmanager" not in str(interface)


def test_network_manager_is_told_the_same_of_802_1x() -> None:
    wired = connection(NORTH, "wired")
    assert wired["connection"]["interface-name"] == "eth0"
    assert dict(wired["802-1x"]) == {
        "eap": "tls;",
        "identity": r"host/gw\snorth",
        "ca-cert": "/etc/hedgerow-network/wired.ca.pem",
        "domain-suffix-match": "radius.example.org",
        "client-cert": "/etc/hedgerow-network/wired.certificate.pem",
        "private-key": "/etc/hedgerow-network/wired.key.pem",
        "private-key-password-flags": "4",  # not required
    }
    campus = connection(NORTH, "wifi")
    assert dict(campus["wifi-security"]) == {"key-mgmt": "wpa-eap"}
    assert dict(campus["802-1x"]) == {
        "eap": "peap;",
        "identity": "gw-north@example.org",
        "ca-cert": "/etc/hedgerow-network/wifi-1.ca.pem",
        "anonymous-identity": "anonymous@example.org",
        "phase2-auth": "mschapv2",
        "password": r"\spass\s\"word\"\s\\\s$HOME;".replace(r"\"", '"'),
    }
    assert connection(NORTH, "wifi-3")["802-1x"]["phase2-auth"] == "pap"
    assert not connection(NORTH, "wifi-2").has_section("802-1x")


def test_a_cable_with_a_fixed_address_asks_on_its_own_interface() -> None:
    fixed = StaticNetwork("10.0.0.2/24", interface="end0")
    one = msgspec.structs.replace(NORTH, network=fixed)
    found = yaml.safe_load(cloud_config.network_config(one))["network"]["ethernets"]
    assert found["end0"]["auth"]["method"] == "tls"
    assert "auth" not in found["eth0"]
    assert connection(one, "wired")["connection"]["interface-name"] == "end0"
    assert connection(one, "wired")["ipv4"]["address1"] == "10.0.0.2/24"


def test_a_modem_is_the_way_out_behind_cable_and_wifi() -> None:
    found = yaml.safe_load(cloud_config.network_config(NORTH))["network"]
    assert found["modems"]["hedgerow-modem"] == {
        "renderer": "NetworkManager",
        "match": {},
        "apn": "internet.example",
        "username": "web",
        "password": "p w",
        "pin": "0123",
        "dhcp4": True,
        "dhcp6": True,
        "dhcp4-overrides": {"route-metric": 700},
        "dhcp6-overrides": {"route-metric": 700},
    }
    keyfile = connection(NORTH, "modem")
    assert keyfile["connection"]["type"] == "gsm"
    assert dict(keyfile["gsm"]) == {
        "apn": "internet.example",
        "username": "web",
        "password": r"p\sw",
        "pin": "0123",
    }
    for family in ("ipv4", "ipv6"):
        assert dict(keyfile[family]) == {"method": "auto", "route-metric": "700"}
    bare = msgspec.structs.replace(NORTH, modem=Modem(apn="internet"))
    assert dict(connection(bare, "modem")["gsm"]) == {"apn": "internet"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (with_eap(identity=""), "wired.identity: not given"),
        (with_eap(identity="a\nb"), "wired.identity: has characters"),
        (with_eap(certificate=None), "wired.certificate: not given"),
        (with_eap(key=None), "wired.key: not given"),
        (with_eap(password="secret"), 'wired.password: method = "tls" has none'),
        (with_eap(method="peap"), 'wired.password: not given, and method = "peap"'),
        (with_eap(method="peap", password="secret"), 'wired.certificate: method = "peap" has none'),
        (with_eap(method="peap", inner="pap"), "wired.inner: PEAP has no PAP"),
        ({"wifi": Wifi("x", security="eap")}, "wifi.eap: not given"),
        ({"wifi": Wifi("x", "secret word", eap=PEAP)}, 'wifi.eap: goes with security = "eap"'),
        ({"wifi": Wifi("x", "secret word", security="eap", eap=PEAP)}, "wifi.passphrase: security"),
        (
            {"wifi": (Wifi("x", security="eap", eap=msgspec.structs.replace(PEAP, identity="")),)},
            "wifi[0].eap.identity: not given",
        ),
        ({"modem": Modem(apn="")}, "modem.apn: ''"),
        ({"modem": Modem(apn="a b")}, "modem.apn: 'a b'"),
        ({"modem": Modem(apn="a", pin="secret")}, "modem.pin: not 4 to 8 digits"),
        ({"modem": Modem(apn="a", password="secret")}, "modem.user: not given"),
        ({"modem": Modem(apn="a", user="a\tb")}, "modem.user: has characters"),
    ],
)
def test_what_a_network_lacks_is_refused_by_its_field_and_no_secret_told(
    wrong: CardDevice | dict[str, object], why: str
) -> None:
    one = wrong if isinstance(wrong, CardDevice) else msgspec.structs.replace(NORTH, **wrong)
    said = [f"{fault.where}: {fault.why}" for fault in device.faults(one)]
    assert any(why in line for line in said), said
    assert "secret" not in " ".join([*said, repr(one), repr(one.wifi), repr(one.wired)])
    assert SECRET not in repr(NORTH.wifi) + repr(NORTH.modem)


# -- the files of 802.1X ---------------------------------------------------------------------------


@dataclass
class Credential:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes


def credential(
    name: str, *, days: int = 30, begun: datetime.datetime = NOW - DAY, password: bytes = b""
) -> Credential:
    """A certificate that a name has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begun)
        .not_valid_after(begun + days * DAY)
        .sign(key, hashes.SHA256())
    )
    hidden = serialization.BestAvailableEncryption(password) if password else None
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        hidden or serialization.NoEncryption(),
    )
    return Credential(made.public_bytes(serialization.Encoding.PEM), private)


AUTHORITY, DEVICE = credential("authority"), credential("gw-north")
GOOD = {
    "ca.pem": AUTHORITY.certificate,
    "certificate.pem": DEVICE.certificate,
    "key.pem": DEVICE.key,
}


def test_certificates_and_keys_that_fit_are_taken() -> None:
    assert not list(eap.file_faults(TLS, "wired", GOOD, NOW))
    both = {"ca.pem": AUTHORITY.certificate + DEVICE.certificate}
    assert not list(eap.file_faults(PEAP, "wifi.eap", both, NOW))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ca.pem": b"no"}, "wired.ca_certificate: ca.pem: no certificate in PEM"),
        (
            {"ca.pem": credential("old", days=1, begun=NOW - 3 * DAY).certificate},
            "wired.ca_certificate: ca.pem: CN=old was valid until 2026-11-26",
        ),
        (
            {"certificate.pem": credential("new", begun=NOW + DAY).certificate},
            "wired.certificate: own.pem: CN=new is valid from 2026-11-29 only",
        ),
        (
            {"ca.pem": AUTHORITY.certificate + credential("old", days=1).certificate},
            "wired.ca_certificate: ca.pem: CN=old was valid until 2026-11-28",
        ),
        ({"key.pem": credential("x").key}, "wired.key: own.key.pem: is not the key of own.pem"),
        ({"key.pem": b"no"}, "wired.key: own.key.pem: no key in PEM"),
        (
            {"key.pem": credential("x", password=b"word").key},
            "wired.key: own.key.pem: it has a passphrase",
        ),
    ],
)
def test_certificates_and_keys_that_do_not_fit_are_refused_by_their_field(
    change: dict[str, bytes], why: str
) -> None:
    said = [f"{one.where}: {one.why}" for one in eap.file_faults(TLS, "wired", GOOD | change, NOW)]
    assert any(line.startswith(why) for line in said), said


FLEET = """
[[devices]]
id = "gw-north"
country = "DE"
wheels = "0.1.0-cp313-aarch64.tar"
modem = {apn = "internet", pin_file = "pin"}
[devices.wired]
method = "tls"
identity = "gw-north"
ca_certificate = "ca.pem"
certificate = "own.pem"
key = "own.key.pem"
[devices.wifi]
ssid = "campus"
security = "eap"
eap = {method = "ttls", identity = "gw", ca_certificate = "ca.pem", password_file = "word"}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    for name, data in {
        "ca.pem": AUTHORITY.certificate,
        "own.pem": DEVICE.certificate,
        "own.key.pem": DEVICE.key,
        "word": b"a word\n",
        "pin": b"0123\n",
        "0.1.0-cp313-aarch64.tar": b"",
        "gw-north/hedgerow.toml": b'[gateway]\nid = "gw-north"\n',
        "cards.toml": FLEET.encode(),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path / "cards.toml"


def test_a_kit_has_the_files_of_its_networks_and_their_secrets_from_files(fleet: Path) -> None:
    (one,) = fleet_file.read(fleet)
    assert one.modem is not None
    assert one.modem.pin == "0123"
    made = kit.made(one, int(NOW.timestamp()))
    assert {name: data for name, data in made.files.items() if "/network/" in name} == {
        "hedgerow/network/wired.ca.pem": AUTHORITY.certificate,
        "hedgerow/network/wired.certificate.pem": DEVICE.certificate,
        "hedgerow/network/wired.key.pem": DEVICE.key,
        "hedgerow/network/wifi-1.ca.pem": AUTHORITY.certificate,
    }
    assert b"modem=yes\n" in made.files["hedgerow/settings"]
    network = made.first_boot("cloud-init")["network-config"].decode()
    points = yaml.safe_load(network)["network"]["wifis"]["wlan0"]["access-points"]
    assert points["campus"]["auth"]["password"] == "a word"


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ("ca.pem", r"gw-north: No such file .*ca\.pem"),
        ("word", r"wifi\.eap\.password_file: .*word"),
    ],
)
def test_a_file_of_a_network_that_is_not_there_is_refused_by_name(
    file: str, why: str, fleet: Path
) -> None:
    fleet.with_name(file).unlink()
    with pytest.raises(RefusalError, match=why):
        kit.made(fleet_file.read(fleet)[0], int(NOW.timestamp()))


def test_a_certificate_that_has_ended_is_refused_before_a_card_is_written(fleet: Path) -> None:
    (one,) = fleet_file.read(fleet)
    with pytest.raises(RefusalError, match=r"gw-north: wired\.ca_certificate: .* was valid until"):
        kit.made(one, int((NOW + 365 * DAY).timestamp()))


# -- on the Pi -------------------------------------------------------------------------------------


FIRST_BOOT = Path(first_run.__file__).with_name("data") / "first-boot.sh"


def in_the_place(root: Path, text: str) -> str:
    """A script whose system is a folder."""
    for place in ("etc", "boot", "var/lib", "usr/local"):
        text = re.sub(rf"(?<![\w.]){re.escape(f'/{place}/')}", f"{root}/{place}/", text)
    return text


def on_a_pi(root: Path, text: str, *arguments: str) -> str:
    """Run a script with a folder in the place of the system; returns which programs it called."""
    fakes, called = root / "fakes", root / "called"
    fakes.mkdir(exist_ok=True)
    for name in (
        "systemctl",
        "sync",
        "hostname",
        "useradd",
        "usermod",
        "passwd",
        "chown",
        "rfkill",
    ):
        (fakes / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{called}\n')
    (fakes / "getent").write_text(f"#!/bin/sh\necho anna:x:1:1::{root}/home:/bin/sh\n")
    (fakes / "id").write_text("#!/bin/sh\n")
    (fakes / "date").write_text("#!/bin/sh\necho 9999999999\n")
    # Who owns a file is root's to say; the rest of install(1) is as it is.
    (fakes / "install").write_text(
        "#!/bin/sh\nfor one do shift; case $one in -o | -g) skip=1 ;; "
        '*) [ "${skip:-}" ] && skip= || set -- "$@" "$one" ;; esac; done\n'
        'exec /usr/bin/install "$@"\n'
    )
    for fake in fakes.iterdir():
        fake.chmod(0o755)
    for folder in (
        *("systemd/system", "sudoers.d", "ssh/sshd_config.d", "NetworkManager/system-connections"),
        *("../home", "../var/lib", "../usr/local/lib"),
    ):
        (root / "etc" / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/hosts").write_text("127.0.0.1\tlocalhost\n")
    begin = root / "boot/firmware/hedgerow/first-boot.sh"
    begin.write_text(in_the_place(root, FIRST_BOOT.read_text()))
    text = in_the_place(root, text)
    done = subprocess.run(
        ["/bin/sh", "-s", *arguments], input=text, text=True, capture_output=True, check=False,
        env={"PATH": f"{fakes}:{os.environ['PATH']}"}, cwd=root,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return called.read_text()


@pytest.fixture
def pi(fleet: Path, tmp_path: Path) -> Path:
    """A folder like a Pi's system, with a kit on its boot partition."""
    root = tmp_path / "pi"
    made = kit.made(fleet_file.read(fleet)[0], int(NOW.timestamp()))
    for name, data in {**made.files, **made.first_boot("rpi-preseed")}.items():
        (root / "boot/firmware" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "boot/firmware" / name).write_bytes(data)
    return root


def test_certificates_and_keys_of_networks_are_roots_alone_before_a_pi_asks_for_them(
    pi: Path,
) -> None:
    called = on_a_pi(pi, FIRST_BOOT.read_text(), "begin")
    folder = pi / "etc/hedgerow-network"
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == dict.fromkeys(
        ("wired.ca.pem", "wired.certificate.pem", "wired.key.pem", "wifi-1.ca.pem"), 0o600
    )
    assert (folder / "wired.key.pem").read_bytes() == DEVICE.key
    again = "try-restart --no-block NetworkManager.service"
    assert called.count(again) == 1
    # The next boot of a first boot that was cut off finds them where they are.
    assert on_a_pi(pi, FIRST_BOOT.read_text(), "begin").count(again) == 1


def test_rpi_preseed_runs_a_script_that_sets_the_device_and_begins_the_first_boot(pi: Path) -> None:
    told = tomllib.loads((pi / "boot/firmware/rpi-preseed.toml").read_text())
    assert told["config_version"] == "1.0"
    assert told["runcmd"]["early"] == [f"sh /boot/firmware/{preseed.SCRIPT}"]
    script = (pi / "boot/firmware" / preseed.SCRIPT).read_text()
    called = ""
    for _ in range(2):  # the later command runs it again
        called = on_a_pi(pi, script)
    assert "hostname gw-north\n" in called
    assert "systemctl start --no-block hedgerow-first-boot.service" in called
    connections = pi / "etc/NetworkManager/system-connections"
    assert {path.name: path.stat().st_mode & 0o777 for path in connections.iterdir()} == {
        "hedgerow-wired.nmconnection": 0o600,
        "hedgerow-wifi.nmconnection": 0o600,
        "hedgerow-modem.nmconnection": 0o600,
    }
    assert (pi / "etc/hedgerow-network/wired.key.pem").read_bytes() == DEVICE.key
    assert (pi / "var/lib/hedgerow-first-boot/begun").exists()


def test_rpi_preseed_starts_ssh_for_the_devices_user_and_for_nobody_else(pi: Path) -> None:
    called = on_a_pi(pi, preseed.script(NORTH))
    assert "systemctl start --no-block ssh.service" in called, "no new boot would start it"
    assert "systemctl stop --no-block userconfig.service" in called, "it would ask for a user"
    nobodys = preseed.script(msgspec.structs.replace(NORTH, user="", ssh_keys=()))
    assert "ssh.service" not in nobodys
    assert "userconfig.service" not in nobodys


def test_rpi_preseed_needs_no_word_of_the_kernels_command_line(fleet: Path) -> None:
    made = kit.made(fleet_file.read(fleet)[0], int(NOW.timestamp()))
    line = made.command_line("rpi-preseed", "root=PARTUUID=1-02 rootwait\n")
    assert line == "root=PARTUUID=1-02 rootwait cfg80211.ieee80211_regdom=DE\n"


def test_what_rpi_preseed_reads_is_the_toml_that_its_small_parser_knows() -> None:
    """It knows strings of one line, their arrays, numbers and true or false."""
    for line in preseed.TOML.splitlines():
        assert not line or line.startswith(("#", "[")) or " = " in line
        assert '"""' not in line
        assert "'''" not in line
    script = preseed.script(NORTH)
    subprocess.run(["/bin/sh", "-n"], input=script, text=True, check=True)
    assert "systemd.run" not in script
