"""The texts of a card keep any name and any passphrase as they were given."""

from __future__ import annotations

import configparser
import io
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.tools.commands import labels
from gateway.tools.flashing import cloud_config, device, first_run, fleet_file, preseed
from gateway.tools.flashing.device import CardDevice, StaticNetwork, Wifi
from gateway.tools.flashing.errors import RefusalError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKz1"
NORTH = CardDevice(id="gw-north", user="anna", ssh_keys=(KEY,), country="DE")
printable = st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" '\"\\$`#:{}%!&*|>@")
ssids = st.text(printable, min_size=1, max_size=32).filter(lambda text: len(text.encode()) <= 32)
phrases = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=8, max_size=63)
comments = st.text(printable, max_size=60)


def with_wifi(ssid: str, phrase: str, comment: str = "") -> CardDevice:
    return msgspec.structs.replace(
        NORTH,
        wifi=Wifi(ssid, phrase),
        ssh_keys=(f"{KEY} {comment}",),
        network=StaticNetwork("10.0.0.2/24", "10.0.0.1", ("10.0.0.1", "2001:db8::1")),
    )


def read_yaml(text: str) -> object:
    return yaml.safe_load(text)


@given(ssid=ssids, phrase=phrases, comment=comments)
def test_cloud_init_reads_any_name_and_key_as_it_was_given(
    ssid: str, phrase: str, comment: str
) -> None:
    one = with_wifi(ssid, phrase, comment)
    assert not list(device.faults(one))
    user = read_yaml(cloud_config.user_data(one))
    assert isinstance(user, dict)
    assert user["users"][0]["ssh_authorized_keys"] == [f"{KEY} {comment}"]
    network = read_yaml(cloud_config.network_config(one))
    assert isinstance(network, dict)
    points = network["network"]["wifis"]["wlan0"]["access-points"]
    assert list(points) == [ssid]
    assert points[ssid]["password"] == Wifi(ssid, phrase).key()


def test_a_passphrase_is_hashed_as_access_points_do_it() -> None:
    # IEEE 802.11-2020, annex J.4.2, the first test vector.
    found = Wifi("IEEE", "password").key()
    assert found == "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e"
    assert Wifi("IEEE", found.upper()).key() == found


HOUSES = (
    Wifi("house", "a passphrase"),
    Wifi("barn", "another one", security="wpa3", hidden=True),
    Wifi("café", security="open"),
)


def test_several_networks_each_have_their_own_security() -> None:
    one = msgspec.structs.replace(NORTH, wifi=HOUSES)
    assert not list(device.faults(one))
    network = read_yaml(cloud_config.network_config(one))
    assert isinstance(network, dict)
    points = network["network"]["wifis"]["wlan0"]["access-points"]
    # The first is taken where several are heard, for which netplan has no word of its own.
    told = [point.pop("networkmanager")["passthrough"] for point in points.values()]
    assert told == [{"connection.autoconnect-priority": number} for number in ("3", "2", "1")]
    assert network["network"]["wifis"]["wlan0"]["renderer"] == "NetworkManager"
    # netplan(5): a password alone is WPA2's; SAE has to be said, and takes no computed key.
    assert points == {
        "house": {"password": HOUSES[0].key()},
        "barn": {"auth": {"key-management": "sae", "password": "another one"}, "hidden": True},
        "café": {},
    }
    files = first_run.keyfiles(one)
    assert list(files) == [
        *("hedgerow-wifi.nmconnection", "hedgerow-wifi-2.nmconnection"),
        "hedgerow-wifi-3.nmconnection",
    ]
    read = []
    for text in files.values():
        keyfile = configparser.RawConfigParser(delimiters=("=",))
        keyfile.read_string(text)
        read.append(keyfile)
    assert len({keyfile["connection"]["uuid"] for keyfile in read}) == 3
    security = [
        dict(keyfile["wifi-security"]) if keyfile.has_section("wifi-security") else None
        for keyfile in read
    ]
    # GKeyFile reads a space of this form at any place of a value.
    assert security == [
        {"key-mgmt": "wpa-psk", "psk": HOUSES[0].key()},
        {
            "key-mgmt": "sae",
            "psk": r"another\sone",
            "pmf": "3",
        },  # as GKeyFile reads a space at any place
        None,
    ]
    # The first is taken where several are heard.
    priorities = [keyfile["connection"]["autoconnect-priority"] for keyfile in read]
    assert priorities == ["3", "2", "1"]


def test_a_first_user_may_do_with_pins_and_the_network_what_an_images_own_may() -> None:
    user = read_yaml(cloud_config.user_data(NORTH))
    assert isinstance(user, dict)
    assert {"gpio", "i2c", "spi", "netdev"} <= set(user["users"][0]["groups"])
    assert "for group in adm dialout" in first_run.script(NORTH)


@given(phrase=phrases)
def test_no_passphrase_stands_in_any_text_of_the_card(phrase: str) -> None:
    secret = f"~{phrase[:61]}~"
    one = with_wifi("a network", secret)
    texts = (
        *(cloud_config.user_data(one), cloud_config.network_config(one), first_run.script(one)),
        *(cloud_config.meta_data(one, "x"), repr(one)),
    )
    assert not [text for text in texts if secret in text]


FIXED = {
    "4 and 4": StaticNetwork("10.0.0.2/24", "10.0.0.1", ("10.0.0.1",)),
    "4 and 6": StaticNetwork("10.0.0.2/24", "10.0.0.1", ("2001:db8::1",)),
    "6 and 4": StaticNetwork("2001:db8::2/64", "2001:db8::1", ("10.0.0.1",)),
    "6 and 6": StaticNetwork("2001:db8::2/64", "2001:db8::1", ("2001:db8::1",)),
}


@pytest.mark.parametrize("network", FIXED.values(), ids=FIXED)
def test_a_name_server_of_either_family_is_asked_beside_a_fixed_address_of_either(
    network: StaticNetwork,
) -> None:
    one = msgspec.structs.replace(NORTH, network=network)
    six = [":" in network.address, ":" in network.name_servers[0]]
    found = yaml.safe_load(cloud_config.network_config(one))
    wired = found["network"]["ethernets"]["eth0"]
    assert wired["nameservers"]["addresses"] == [*network.name_servers]
    # What is off may have no server.
    is_on = {False: wired["dhcp4"] or not six[0], True: wired["dhcp6"] or six[0]}
    assert is_on[six[1]]
    keyfile = configparser.ConfigParser()
    keyfile.read_string(first_run.keyfiles(one)["hedgerow-wired.nmconnection"])
    sections = [keyfile["ipv4"], keyfile["ipv6"]]
    assert sections[six[0]]["method"] == "manual"
    assert sections[not six[0]]["method"] == "auto"
    assert sections[six[1]]["dns"] == f"{network.name_servers[0]};"
    assert "dns" not in sections[not six[1]]


FAKES = ("useradd", "usermod", "passwd", "systemctl", "chown", "rfkill", "sync")


def run_first(one: CardDevice, root: Path) -> None:
    """Run the script on a folder in the place of the system, with programs that do nothing."""
    fakes = root / "fakes"
    for folder in (
        "fakes",
        "boot/firmware/hedgerow",
        "home",
        "etc/sudoers.d",
        "etc/ssh/sshd_config.d",
    ):
        (root / folder).mkdir(parents=True)
    (root / "etc/NetworkManager/system-connections").mkdir(parents=True)
    (root / "etc/hosts").write_text("127.0.0.1\tlocalhost\n127.0.1.1\traspberrypi\n")
    (root / "boot/firmware/cmdline.txt").write_text(
        cloud_config.command_line("root=PARTUUID=1-02 rootwait\n", one, first_run.COMMAND_LINE)
    )
    (root / "boot/firmware/hedgerow/first-boot.sh").write_text('echo prepared "$1"\n')
    for name in FAKES:
        (fakes / name).write_text("#!/bin/sh\n")
    (fakes / "install").write_text('#!/bin/sh\nfor last do :; done\nmkdir -p "$last"\n')
    (fakes / "getent").write_text(f"#!/bin/sh\necho anna:x:1:1::{root}/home:/bin/sh\n")
    for fake in fakes.iterdir():
        fake.chmod(0o755)
    text = first_run.script(one)
    for place in ("etc", "boot", "var/lib/systemd"):
        text = text.replace(f"/{place}/", f"{root}/{place}/")
    for _ in range(2):  # power may have been lost in its last step
        done = subprocess.run(
            ["/bin/sh", "-e"], input=text, text=True, capture_output=True, check=False,
            env={"PATH": f"{fakes}:{os.environ['PATH']}"}, cwd=root,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@settings(max_examples=15)
@given(ssid=ssids, comment=comments)
def test_firstrun_writes_any_name_and_key_as_it_was_given(ssid: str, comment: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        one = with_wifi(ssid, "a passphrase", comment)
        run_first(one, root)
        keyfile = configparser.RawConfigParser(delimiters=("=",))
        keyfile.read(root / "etc/NetworkManager/system-connections/hedgerow-wifi.nmconnection")
        assert keyfile["wifi-security"]["psk"] == Wifi(ssid, "a passphrase").key()
        numbers = keyfile["wifi"]["ssid"].strip(";").split(";")
        assert bytes(map(int, numbers)) == ssid.encode()
        assert keyfile["ipv4"]["address1"] == "10.0.0.2/24,10.0.0.1"
        assert keyfile["ipv4"]["dns"] == "10.0.0.1;"
        assert (root / "home/.ssh/authorized_keys").read_text() == f"{KEY} {comment}\n"
        assert (root / "etc/hostname").read_text() == "gw-north\n"
        hosts = (root / "etc/hosts").read_text()
        assert hosts == "127.0.0.1\tlocalhost\n127.0.1.1\tgw-north\n"
        line = (root / "boot/firmware/cmdline.txt").read_text()
        assert line == "root=PARTUUID=1-02 rootwait cfg80211.ieee80211_regdom=DE\n"
        log = (root / "boot/firmware/hedgerow-first-boot.log").read_text()
        assert log == "prepared prepare\nprepared prepare\n"


def test_the_script_of_the_first_boot_is_one_for_a_plain_shell() -> None:
    script = Path(first_run.__file__).with_name("data") / "first-boot.sh"
    subprocess.run(["/bin/sh", "-n", script], check=True)
    if shutil.which("dash"):
        subprocess.run(["dash", "-n", script], check=True)


@given(
    words=st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)),
    more=st.sampled_from(["ds=nocloud;i=x", first_run.COMMAND_LINE]),
)
def test_a_command_line_keeps_the_images_words_and_is_the_same_when_made_twice(
    words: list[str], more: str
) -> None:
    once = cloud_config.command_line(" ".join(words) + "\nsecond line\n", NORTH, more)
    assert once.count("\n") == 1
    assert cloud_config.command_line(once, NORTH, more) == once
    ours = ("ds=", "systemd.run", "systemd.unit=kernel-command-line", "cfg80211.ieee80211_regdom=")
    kept = [word for word in words if not word.startswith(ours)]
    assert once.split()[: len(kept)] == kept


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"id": "Gw North"}, "id: 'Gw North'"),
        ({"host_name": "a;reboot"}, "host_name: 'a;reboot'"),
        ({"host_name": "$(reboot)"}, "host_name"),
        ({"user": "root"}, "user: 'root'"),
        ({"user": "hedgerow"}, "user: 'hedgerow'"),
        ({"user": "anna; rm"}, "user: 'anna; rm'"),
        ({"ssh_keys": ()}, "user and ssh_keys go together"),
        ({"ssh_keys": ("no key",)}, "ssh_keys: 'no key'"),
        ({"ssh_keys": (f"{KEY} a\nb",)}, "ssh_keys"),
        ({"timezone": "../../etc/shadow"}, "timezone"),
        ({"country": "Germany"}, "country: 'Germany'"),
        ({"place": "a\x1b[2J"}, "place"),
        ({"wifi": Wifi("x" * 33, "a passphrase")}, "wifi.ssid"),
        ({"wifi": Wifi("a\nb", "a passphrase")}, "wifi.ssid"),
        ({"wifi": Wifi("net", "short")}, "wifi.passphrase: not 8 to 63"),
        ({"wifi": Wifi("net", "a passphrase"), "country": ""}, "country: not given"),
        ({"wifi": Wifi("net", "f" * 64, security="wpa3")}, "wifi.passphrase: not 8 to 63"),
        ({"wifi": Wifi("net", "a passphrase", security="open")}, "wifi.passphrase: an open"),
        ({"wifi": Wifi("net")}, 'security = "open"'),
        ({"wifi": (Wifi("a", "a passphrase"), Wifi("b", "short"))}, "wifi[1].passphrase"),
        ({"wifi": (Wifi("a", security="open"),) * 2}, "wifi[1].ssid: 'a' stands twice"),
        ({"wifi": (Wifi("a", security="open"),) * 9}, "wifi: 9 networks, and at most 8"),
        ({"network": StaticNetwork("10.0.0.2")}, "network.address"),
        ({"network": StaticNetwork("10.0.0.2/24", "10.0.1.1")}, "network.gateway: '10.0.1.1'"),
        ({"network": StaticNetwork("10.0.0.2/24", "", ("dns",))}, "network.name_servers"),
        ({"network": StaticNetwork("10.0.0.2/24", interface="eth0;x")}, "network.interface"),
    ],
)
def test_a_device_that_can_not_be_is_refused_by_its_field(
    change: dict[str, object], why: str
) -> None:
    wrong = msgspec.structs.replace(NORTH, **change)
    said = [f"{fault.where}: {fault.why}" for fault in device.faults(wrong)]
    assert any(why in line for line in said), said
    assert not any("short" in line for line in said), "a passphrase is told"


# -- the file of a fleet ---------------------------------------------------------------------------

FLEET = """
[all]
user = "anna"
ssh_key_files = ["id.pub"]
country = "DE"
wheels = "wheels.tar"
[all.wifi]
ssid = "house"
passphrase_file = "wifi"
[[devices]]
id = "gw-north"
[[devices]]
id = "gw-south"
files = "other/south"
country = "FR"
network = {address = "10.0.0.3/24"}
"""


def test_devices_of_a_fleet_have_what_all_have_and_what_they_say_themselves(tmp_path: Path) -> None:
    (tmp_path / "id.pub").write_text(f"# mine\n{KEY} anna\n")
    (tmp_path / "wifi").write_text("quote ' and \" \n")
    file = tmp_path / "cards.toml"
    file.write_text(FLEET)
    north, south = fleet_file.read(file)
    assert north.ssh_keys == (f"{KEY} anna",)
    assert [one.passphrase for one in north.wifis] == ["quote ' and \" "]
    assert (north.files, south.files) == (tmp_path / "gw-north", tmp_path / "other/south")
    assert (north.country, south.country) == ("DE", "FR")
    assert south.fixed_interface == "wlan0"
    as_yaml = tmp_path / "cards.yml"
    as_yaml.write_text("all: {user: anna, ssh_keys: [" + f"{KEY}]" + "}\ndevices: [{id: gw-x}]\n")
    assert [one.id for one in fleet_file.read(as_yaml)] == ["gw-x"]


def test_a_second_network_has_a_file_of_its_own_for_its_passphrase(tmp_path: Path) -> None:
    (tmp_path / "barn").write_text("another one\n")
    file = tmp_path / "cards.toml"
    file.write_text(
        '[all]\ncountry = "DE"\nwheels = "wheels.tar"\n[[all.wifi]]\nssid = "café"\n'
        'security = "open"\n[[all.wifi]]\nssid = "barn"\npassphrase_file = "barn"\n'
        'security = "wpa3"\n[[devices]]\nid = "gw-x"\n'
    )
    (read,) = fleet_file.read(file)
    assert read.wifis == (
        Wifi("café", security="open"),
        Wifi("barn", "another one", Path("barn"), security="wpa3"),
    )
    (tmp_path / "barn").unlink()
    with pytest.raises(RefusalError, match=r"wifi\[1\].passphrase_file: .*barn"):
        fleet_file.read(file)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('country = "DE"', 'land = "DE"'), "gw-north: .*unknown field `land`"),
        (('id = "gw-south"', 'id = "gw-north"'), "'gw-north' stands 2 times"),
        (('"wifi"', '"nothing"'), "gw-north: .*wifi.passphrase_file: .*nothing"),
        (("[all]", "[all"), "cards.toml: "),
        (('files = "other/south"', "files = 7"), "gw-south: "),
        (('id = "gw-north"', 'host_name = "x"'), "a device without id: .*`id`"),
    ],
)
def test_a_wrong_file_of_a_fleet_is_refused_by_device_and_field(
    change: tuple[str, str], why: str, tmp_path: Path
) -> None:
    (tmp_path / "id.pub").write_text(f"{KEY} anna\n")
    (tmp_path / "wifi").write_text("a passphrase\n")
    file = tmp_path / "cards.toml"
    file.write_text(FLEET.replace(*change))
    with pytest.raises(RefusalError, match=why):
        fleet_file.read(file)


def test_a_label_has_id_place_date_and_a_code_and_nothing_of_it_is_markup() -> None:
    page = labels.page([labels.CardLabel("gw-north", "<b>& campus", "2026-11-23")])
    assert "&lt;b&gt;&amp; campus" in page
    assert page.count("<svg") == 1
    assert "2026-11-23" in page
    assert shlex.quote("gw-north") in page


def test_a_fleets_file_may_come_by_a_pipe_and_what_can_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cards.yml"
    for data, why in (
        (b"devices: [", f"--inventory: {file}: not YAML: "),
        (b"devices: \xff", f"--inventory: {file}: not UTF-8: "),
    ):
        file.write_bytes(data)
        with pytest.raises(RefusalError) as raised:
            fleet_file.read(file)
        assert str(raised.value).startswith(why)
    text = f"devices: [{{id: gw-x, user: anna, ssh_keys: ['{KEY}']}}]\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    monkeypatch.chdir(tmp_path)
    (read,) = fleet_file.read(fleet_file.STANDARD_INPUT)
    assert read.files == tmp_path / "gw-x", "paths are from where it is called"
    monkeypatch.setattr("sys.stdin", io.StringIO(text.replace("anna", "root")))
    with pytest.raises(RefusalError, match="gw-x: user: 'root' is no name for a user who may"):
        fleet_file.read(fleet_file.STANDARD_INPUT)


def test_a_first_script_sets_what_its_device_has_and_unblocks_a_radio_only_for_a_network() -> None:
    one = CardDevice(id="gw-x", timezone="Europe/Berlin")
    named = [
        "#!/bin/sh",
        "# Made by `hedgerow flash`. What fails is told of, and the rest is done all the same.",
        "exec >>/boot/firmware/hedgerow-first-boot.log 2>&1",
        "printf '%s\\n' gw-x >/etc/hostname",
        r"sed -i '/^127\.0\.1\.1[[:space:]]/d' /etc/hosts",
        "printf '127.0.1.1\\t%s\\n' gw-x >>/etc/hosts",
        "ln -sf /usr/share/zoneinfo/Europe/Berlin /etc/localtime",
        "printf '%s\\n' Europe/Berlin >/etc/timezone",
    ]
    radio = ["rfkill unblock wifi 2>/dev/null || true", "rm -f /var/lib/systemd/rfkill/*:wlan"]
    assert list(first_run.settings(one)) == named
    with_radio = msgspec.structs.replace(one, wifi=Wifi("house", security="open"), country="DE")
    found = list(first_run.settings(with_radio))
    assert (found[: len(named)], found[-2:]) == (named, radio)
    assert found[len(named)].startswith("( umask 077; printf '%s' ")
    with_user = msgspec.structs.replace(one, user="anna", ssh_keys=(KEY,))
    lines = list(first_run.settings(with_user))[len(named) :]
    assert lines[0].startswith("id anna >/dev/null 2>&1 || useradd ")
    assert not {*radio} & {*lines}
    preseeded = preseed.script(with_user).splitlines()
    assert preseeded[-6:] == [
        "hostname gw-x",
        "systemctl start --no-block ssh.service",
        "systemctl stop --no-block userconfig.service 2>/dev/null || true",
        "sh /boot/firmware/hedgerow/first-boot.sh begin",
        "sync",
        "exit 0",
    ]
    assert preseed.script(one).splitlines()[len(named) :] == [
        "hostname gw-x",
        *preseeded[-3:],
    ]
