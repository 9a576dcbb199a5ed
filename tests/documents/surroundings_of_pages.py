"""Surroundings that blocks of the documents need, by the name that a comment before them says.

Everything belongs to one fleet: gw-north is this machine's gateway, 10.0.0.2; gw-south its
neighbour, under 10.0.0.3.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from pages import PROJECT
from session import SECRET, Session, Surrounding

TREE_KEY = "ab" * 32
KEYS = f"operator:{SECRET.encode().hex()}\n"

PARTS: Mapping[str, str] = {
    "gateway": """[gateway]
id = "gw-north"
state_dir = "state"
domain = "campus"
group = "north"
address = "10.0.0.2"
""",
    "mqtt": """[mqtt]
host = "0.0.0.0"
tls_port = 8883
certificate_file = "tls/gw-north.pem"
key_file = "tls/gw-north.key.pem"
client_certificate = "optional"
client_ca_file = "tls/ca.pem"
client_crl_file = "tls/revoked.pem"
""",
    "coap": """[coap]
host = "0.0.0.0"
psk_file = "psk"
""",
    "tree": """[tree]
key_file = "tree.key"
neighbours = ["10.0.0.3:8884"]
discovery = false
""",
    "access": """[access]
anonymous = true
password_file = "passwords"
""",
    "console": """[console]
enabled = true
port = 9641
""",
    "sensors": """[[sensors]]
type = "host"
interval_s = 1.0
[[sensors]]
type = "switch"
name = "valve"
""",
}
"""Of gw-north's configuration."""

SOUTH = """[gateway]
id = "gw-south"
state_dir = "state-south"
domain = "campus"
group = "south"
[mqtt]
host = "10.0.0.3"
port = 1884
tls_port = 8884
certificate_file = "tls/gw-south.pem"
key_file = "tls/gw-south.key.pem"
client_certificate = "optional"
client_ca_file = "tls/ca.pem"
[coap]
host = "10.0.0.3"
port = 5693
dtls_port = 5694
psk_file = "psk"
[tree]
key_file = "tree.key"
discovery = false
[access]
anonymous = true
[[sensors]]
type = "host"
interval_s = 1.0
"""
ROOT = (
    SOUTH.replace("gw-south", "gw-root")
    .replace("10.0.0.3", "10.0.0.1")
    .replace("south", "north")
    .replace("[tree]", '[tree]\nneighbours = ["10.0.0.3:8884"]')
)
CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec -= 1700000000;
    return failed;
}
time_t time(time_t *also) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (also) *also = now.tv_sec;
    return now.tv_sec;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exactly;
    clock_gettime(CLOCK_REALTIME, &exactly);
    now->tv_sec = exactly.tv_sec;
    now->tv_usec = exactly.tv_nsec / 1000;
    return 0;
}
"""
RUN = "hedgerow run --config gateway.toml"


def checkout(session: Session) -> None:
    """A clone of the project, as far as pages use it, with .venv made."""
    shutil.copytree(PROJECT / "deploy", session.folder / "deploy")
    (session.folder / ".venv").symlink_to(session.machine.installation)


def files(session: Session) -> None:
    """The files of gw-north, in this folder."""
    session.do(
        "hedgerow keys init-ca --ca tls && hedgerow keys issue --ca tls "
        "gw-root=10.0.0.1 gw-north=10.0.0.2 gw-south=10.0.0.3 collector"
    )
    session.write("tree.key", TREE_KEY)
    session.write("psk", KEYS)
    session.write("passwords", "")
    session.write("access.toml", "[default]\n")
    session.write("gateway.toml", "\n".join(PARTS.values()))


def installed_files(session: Session) -> None:
    """The same, where an installed gateway has them: under /etc/hedgerow."""
    session.have("files")
    etc = session.machine.etc / "hedgerow"
    shutil.copytree(session.folder / "tls", etc / "tls")
    for name, source in (
        ("gateway", "gw-north"),
        ("gateway.key", "gw-north.key"),
        ("fleet-ca", "ca"),
    ):
        shutil.copy(etc / "tls" / f"{source}.pem", etc / "tls" / f"{name}.pem")
    for name in ("tree.key", "psk", "passwords"):
        shutil.copy(session.folder / name, etc)
    session.write("/etc/hedgerow/amqtt-passwords", "")


def neighbour(session: Session) -> None:
    """gw-south, running."""
    session.have("files")
    session.write("gw-south.toml", SOUTH)
    session.begin("hedgerow run --config gw-south.toml", " is up: ")


def gateway(session: Session) -> None:
    """gw-north, running."""
    session.have("files")
    session.begin(RUN, " is up: ")


def stepper(session: Session) -> None:
    """gw-north, running, with a stepper motor on pins that are not there."""
    session.have("files")
    table = '[[sensors]]\ntype = "stepper:Stepper"\nname = "blind"\npins = [5, 6, 13, 19]\n'
    session.write("gateway.toml", "\n".join((*PARTS.values(), table)))
    session.begin(f"GPIOZERO_PIN_FACTORY=mock {RUN}", " is up: ")


def linked(session: Session) -> None:
    """gw-north again, linked to gw-south: after a page has taken it out, say."""
    session.have("neighbour")
    session.wait_for("test ! -e state/listeners.json")
    session.begin(RUN, " is up: ")
    session.wait_for("hedgerow get coap://127.0.0.1/q/campus/south/gw-south/sensors/host/load1")
    session.wait_for("hedgerow get coap://127.0.0.1/sensors/host/load1")


def secret(session: Session) -> None:
    """A file whose first line is a password."""
    session.write("secret", "open sesame\n")


def user(session: Session) -> None:
    """alice, with that password."""
    session.have("files", "secret")
    session.do("hedgerow passwd --file passwords alice <secret")


def wrong_configuration(session: Session) -> None:
    """A configuration with the faults that docs/configuration.md shows."""
    session.have("files")
    lines = {
        1: '[gateway]\nid = "gw-north"\nstate_dir = "state"\n\n[mqtt]\nport = 0',
        8: "webscoket_port = 9001",
        10: '[coap]\npsk_file = "psk"',
        12: "tls_port = 5684",
        14: '[tree]\nkey_file = "tree.key"',
        16: 'mode = "all"\ndiscovery = false',
    }
    text = ""
    for number, more in lines.items():
        text += "\n" * (number - 1 - text.count("\n")) + more + "\n"
    session.write("gateway.toml", text)


def of_the_fleet(session: Session) -> None:
    """gw-north as `hedgerow init --fleet` wrote it, running where it belongs."""
    session.do("cp -rp hedgerow-fleet/gw-north /etc/hedgerow")
    session.begin("hedgerow run --config /etc/hedgerow/hedgerow.toml", "gw-north")


def collected_readings(session: Session) -> None:
    """Readings of gw-north in the collector's spool."""
    session.wait_for("grep -rq gw-north/host/load1 /var/lib/hedgerow-collector/spool")


def small_disk(session: Session) -> None:
    """gw-north's state on a disk of three megabytes."""
    session.do("mkdir state && mount -t tmpfs -o size=3m tmpfs state")


def full_disk(session: Session) -> None:
    """Nothing more has room there, not even in the block that is half full."""
    session.do("! cat /dev/zero >state/other")
    session.do("yes on | head -n 500 | mosquitto_pub -V 5 -q 1 -l -t campus/lamp || true")
    one = "mosquitto_pub -V 5 -q 1 -t campus/lamp -m on 2>&1"
    session.do(f"until {one} | grep -q Quota; do :; done")


def room(session: Session) -> None:
    """Make room on the disk, and wait until the gateway takes messages again."""
    session.do("rm state/other")
    session.wait_for("hedgerow pub --config gateway.toml -t campus/lamp -m on")


def journal(session: Session) -> None:
    """Make stand-ins of systemd's commands, which work on the gateway's lines and process."""
    status = "hedgerow status 127.0.0.1 --json"
    pid = f"{status} | python -c 'import json, sys; print(json.load(sys.stdin)[\"pid\"])'"
    lines = f"cat {session.folder.parent}/output-*"
    session.program("journalctl", lines)
    session.program("count-reloads", f"{lines} | grep -c 'read again' || true")
    reload = f'before=$(count-reloads); kill -HUP "$({pid})"'
    is_done = "until [ $(count-reloads) -gt $before ]; do sleep 0.05; done"
    session.program("systemctl", f"{reload}; {is_done}")


def slip(session: Session) -> None:
    """A configuration with a slip of the pen."""
    text = (session.folder / "gateway.toml").read_text()
    session.write("slip.toml", text.replace("gw-north.key", "gw-nroth.key"))


def wrong_clock(session: Session) -> None:
    """gw-root, on a machine whose clock is some fifty years behind."""
    session.have("files")
    (session.folder / "clock.c").write_text(CLOCK)
    session.do("gcc -shared -fPIC -O -o clock.so clock.c")
    session.write("gw-root.toml", ROOT)
    behind = f"LD_PRELOAD={session.folder}/clock.so hedgerow run --config gw-root.toml"
    session.begin(behind, "not yet valid")


def no_tree_key(session: Session) -> None:
    """The file of the tree's key is gone."""
    session.do("mv tree.key elsewhere")


def tree_key(session: Session) -> None:
    """It is back."""
    session.do("mv elsewhere tree.key")


def systemds_commands(session: Session) -> None:
    """The package's user, and what starts its unit; whoever reads here is root."""
    with (session.machine.etc / "passwd").open("a") as users:
        users.write("hedgerow:x:995:995::/var/lib/hedgerow:/usr/sbin/nologin\n")
    with (session.machine.etc / "group").open("a") as groups:
        groups.write("hedgerow:x:995:\n")
    session.program("sudo", 'SUDO_USER=reader exec "$@"')
    output = session.folder.parent / "output-of-the-unit"
    session.program("systemctl", f"setsid hedgerow run >{output} 2>&1 &")


def first_gateway(session: Session) -> None:
    """It has begun to serve, and has told where."""
    session.wait_for("hedgerow status && hedgerow get coap://127.0.0.1/sensors/host/load1")


def first_gateway_ended(session: Session) -> None:
    """Another machine, on which there is no gateway yet."""
    session.end_all()
    session.wait_for("! pgrep -f '[h]edgerow run'")
    session.do("rm -r /etc/hedgerow /var/lib/hedgerow && mkdir /var/lib/hedgerow")


def the_three(session: Session) -> None:
    """The fleet's gateways, running, each with a /var/lib/hedgerow of its own.

    They share this machine's loopback, and so have none.
    """
    for number, name in enumerate(("gw-root", "gw-north", "gw-south"), 1):
        file = f"fleet/{name}/hedgerow.toml"
        text = (session.folder / file).read_text().replace('["127.0.0.1", ', "[")
        session.write(file, text.replace('host = "127.0.0.1"', f'host = "10.0.0.{number}"'))
        session.do(f"mkdir -p fleet-state/{name}")
        own = f"mount --bind fleet-state/{name} /var/lib/hedgerow"
        session.begin(
            f"unshare --mount sh -c '{own} && exec hedgerow run --config {file}'", " is up: "
        )


def whole_tree(session: Session) -> None:
    """All three know one another."""
    for first, other in (("2", "gw-south"), ("2", "gw-root"), ("1", "gw-north"), ("1", "gw-south")):
        uri = f"coaps://10.0.0.{first}/q/-/-/{other}/sensors/host/load1"
        session.wait_for(f"hedgerow get --psk-file fleet/gw-north/psk {uri}")


SURROUNDINGS: Mapping[str, Surrounding] = {
    "checkout": checkout,
    "files": files,
    "installed files": installed_files,
    "neighbour": neighbour,
    "gateway": gateway,
    "gateway again": linked,
    "a stepper": stepper,
    "secret": secret,
    "user": user,
    "systemd's commands": systemds_commands,
    "first gateway": first_gateway,
    "first gateway ended": first_gateway_ended,
    "the three": the_three,
    "a whole tree": whole_tree,
    "small disk": small_disk,
    "full disk": full_disk,
    "room": room,
    "journal": journal,
    "a slip": slip,
    "wrong clock": wrong_clock,
    "no tree key": no_tree_key,
    "the tree key again": tree_key,
    "wrong configuration": wrong_configuration,
    "gateway of the fleet": of_the_fleet,
    "collected readings": collected_readings,
}
