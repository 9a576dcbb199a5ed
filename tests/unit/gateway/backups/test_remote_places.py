"""A place over SFTP or S3 that is full, slow, refuses, cuts or never answers costs no good backup.

The servers are OpenSSH's sshd and moto's S3, with a wire before each that a test harms.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import pwd
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import pytest
from loopback_wire import LOOPBACK, Wire, wire_to
from moto.server import ThreadedMotoServer
from ports import free_port

from gateway.backups import kept_archives, notes, places, published_trials
from gateway.backups.making import BackupError
from gateway.backups.places import MAX_LISTED, BackupPlace, PlaceKeys, place_of
from gateway.backups.timed import BackupSettings, TimedBackup
from gateway.backups.trials import BackupTrial

pytestmark = [
    pytest.mark.peer("age", "age"),
    pytest.mark.peer("rclone", "rclone"),
    pytest.mark.slow,
]
SSHD = "/usr/sbin/sshd"
UP_S = 60.0
SIZE = 200_000


@dataclass
class RemoteBed:
    """A gateway that is stopped, a place over a network, and what is between them."""

    settings: BackupSettings
    notes: Path
    wire: Wire
    made: list[str] = field(default_factory=list)

    @property
    def place(self) -> BackupPlace:
        return place_of(self.settings.to, self.settings.keys)

    def make(self) -> str:
        made = TimedBackup(self.settings, self.notes, lambda: None).make().name
        self.made.append(made)
        return made

    def good(self) -> list[str]:
        """Archives in the place that are whole, the oldest first."""
        found = kept_archives.whole(self.place.listed("gw-south"), "gw-south")
        return [one.name for one in reversed(found)]

    def fails(self, why: str) -> None:
        """Make one that fails, and see that those of before are still there when all is well."""
        with pytest.raises(BackupError, match=why):
            TimedBackup(self.settings, self.notes, lambda: None).make()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackupSettings:
    """Of a gateway with something to back up; the place is to be named yet."""
    config, state = tmp_path / "config", tmp_path / "state"
    for folder in (config, state, tmp_path / "notes"):
        folder.mkdir()
    (config / "hedgerow.toml").write_text(f'[gateway]\nid = "gw-south"\nstate_dir = "{state}"\n')
    (state / "log").write_bytes(os.urandom(SIZE))
    key = tmp_path / "key"
    subprocess.run(["age-keygen", "--output", str(key)], check=True, capture_output=True)
    recipient = subprocess.check_output(["age-keygen", "-y", str(key)], text=True).strip()
    short = ("--contimeout=3s", "--timeout=3s", "--retries=1", "--low-level-retries=1")
    monkeypatch.setattr(places, "PATIENCE", short)
    return BackupSettings(
        to="",
        recipients=(recipient,),
        kept=2,
        max_bytes=1 << 30,
        config=config,
        state=state,
        keys=PlaceKeys(),
    )


def _key(file: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True)
    return " ".join(file.with_suffix(".pub").read_text().split()[:2])


def _await_listener(port: int) -> None:
    ends = time.monotonic() + UP_S
    while time.monotonic() < ends:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1):
            return
        time.sleep(0.05)
    pytest.fail(f"nobody listens at port {port}")


@contextlib.contextmanager
def sshd(folder: Path, *more: str) -> Iterator[tuple[int, PlaceKeys, Callable[[int], str]]]:
    """OpenSSH's server over SFTP for this user: its port, what opens it, and known_hosts' line."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    port, server, client = free_port(), _key(folder / "server"), _key(folder / "client")
    (folder / "authorized").write_text(f"{client}\n")
    config = folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress {LOOPBACK}\nHostKey {folder}/server\nStrictModes no\n"
        f"AuthorizedKeysFile {folder}/authorized\nPidFile none\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f"Subsystem sftp internal-sftp\nForceCommand internal-sftp {' '.join(more)}\n"
    )
    log = (folder / "sshd.log").open("wb")
    with log, subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log) as daemon:
        try:
            _await_listener(port)
            keys = PlaceKeys(ssh_key=folder / "client", known_hosts=folder / "known_hosts")
            yield port, keys, lambda seen: f"[{LOOPBACK}]:{seen} {server}\n"
        finally:
            daemon.terminate()


@contextlib.contextmanager
def over_sftp(settings: BackupSettings, folder: Path, *more: str) -> Iterator[RemoteBed]:
    (folder / "place").mkdir(exist_ok=True)
    with sshd(folder, *more) as (port, keys, known), wire_to(port) as wire:
        (folder / "known_hosts").write_text(known(wire.port))
        user = pwd.getpwuid(os.geteuid()).pw_name
        to = f"sftp://{user}@{LOOPBACK}:{wire.port}/{folder}/place"
        yield RemoteBed(replace(settings, to=to, keys=keys), folder / "notes", wire)


@contextlib.contextmanager
def over_s3(settings: BackupSettings, folder: Path) -> Iterator[RemoteBed]:
    server = ThreadedMotoServer(ip_address=LOOPBACK, port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        credentials = folder / "s3"
        credentials.write_text("access_key_id = key\nsecret_access_key = secret\n")
        with wire_to(port) as wire:
            endpoint = f"http://{LOOPBACK}:{wire.port}"
            keys = PlaceKeys(
                s3_credentials=credentials, s3_endpoint=endpoint, s3_region="us-east-1"
            )
            bed = RemoteBed(
                replace(settings, to="s3://backups/fleet", keys=keys), folder / "notes", wire
            )
            _make_bucket(port)
            yield bed
    finally:
        server.stop()


def _make_bucket(port: int) -> None:
    asked = http.client.HTTPConnection(LOOPBACK, port)
    asked.request("PUT", "/backups")
    assert asked.getresponse().status == 200
    asked.close()


@pytest.fixture(params=[over_sftp, over_s3], ids=["sftp", "s3"])
def bed(
    request: pytest.FixtureRequest, settings: BackupSettings, tmp_path: Path
) -> Iterator[RemoteBed]:
    with request.param(settings, tmp_path) as found:
        yield found


@pytest.mark.drawn(1)
def test_whole_archives_are_kept_by_count_and_come_back_as_they_were(
    bed: RemoteBed, tmp_path: Path
) -> None:
    for _ in range(3):
        bed.make()
    assert bed.good() == bed.made[1:]
    size = bed.place.listed("gw-south")[bed.made[2]]
    bed.place.get(bed.made[2], tmp_path / "fetched", size)
    assert (tmp_path / "fetched").read_bytes().startswith(b"age-encryption.org/v1\n")
    assert (tmp_path / "fetched").stat().st_size == size
    with pytest.raises(BackupError):
        bed.place.get(bed.made[2], tmp_path / "shorter", size - 100_000)
    assert bed.place.listed("gw-north") == {}


@pytest.mark.drawn(1)
def test_the_word_of_a_trial_comes_to_the_gateway_at_its_next_backup(bed: RemoteBed) -> None:
    bed.make()
    published_trials.leave(
        bed.place, "gw-south", BackupTrial(1.0, bed.made[0], False, "its log is cut")
    )
    bed.make()
    assert notes.read(bed.notes)["trial"]["why"] == "its log is cut"
    published_trials.leave(bed.place, "gw-south", BackupTrial(2.0, bed.made[1], True))
    bed.make()
    assert notes.read(bed.notes)["trial"]["is_well"] is True
    assert bed.good() == bed.made[1:], "a trial's word is no archive"


def test_a_slow_place_gets_it_whole(bed: RemoteBed) -> None:
    bed.wire.bytes_per_s = SIZE // 2
    assert bed.make() in bed.good()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("way", ["cut", "silent", "gone"])
def test_a_place_that_ends_early_or_never_answers_costs_no_good_one(
    bed: RemoteBed, way: str
) -> None:
    for _ in range(2):
        bed.make()
    if way == "cut":
        bed.wire.cut_after = SIZE // 2
    elif way == "silent":
        bed.wire.is_silent = True
    else:
        bed.wire.to = free_port()
    begin = time.monotonic()
    bed.fails(".")
    assert time.monotonic() - begin < 200, "it does not wait for ever"
    assert notes.read(bed.notes)["good"]["name"] == bed.made[1]
    assert notes.read(bed.notes)["failure"]["why"]
    bed.wire.cut_after, bed.wire.is_silent = None, False
    if way != "gone":
        assert bed.good() == bed.made
        newest = bed.make()
        assert bed.good() == [bed.made[1], newest]


def test_a_place_that_trickles_for_ever_is_left(
    bed: RemoteBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PATIENCE", ("--contimeout=60s", "--timeout=60s", "--retries=1"))
    monkeypatch.setattr(places, "MOST_S", 4.0)
    bed.wire.bytes_per_s = 10
    bed.fails("did not end within 4 s")


def test_a_place_over_ssh_that_may_only_be_read_refuses_with_a_word(
    settings: BackupSettings, tmp_path: Path
) -> None:
    with over_sftp(settings, tmp_path) as bed:
        made = bed.make()
    for name in ("server", "client"):
        (tmp_path / name).unlink()
    with over_sftp(settings, tmp_path, "-R") as bed:
        bed.fails("(?i)permission denied")
        assert bed.good() == [made]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
def test_a_place_over_ssh_whose_disk_is_full_keeps_the_good_one(
    settings: BackupSettings, tmp_path: Path
) -> None:
    (tmp_path / "place").mkdir()
    size = f"size={3 * SIZE // 2 >> 10}k"
    mount = ["mount", "-t", "tmpfs", "-o", size, "small", str(tmp_path / "place")]
    subprocess.run(mount, check=True)
    try:
        with over_sftp(settings, tmp_path) as bed:
            made = bed.make()
            bed.fails(".")
            bed.fails(".")
            assert bed.good() == [made]
            assert notes.read(bed.notes)["good"]["name"] == made
    finally:
        subprocess.run(["umount", str(tmp_path / "place")], check=True)


# -- a server of S3 that lies ----------------------------------------------------------------------


class LyingS3(http.server.BaseHTTPRequestHandler):
    """Takes objects and lists them, as its server's fields say: with what answer, how long."""

    protocol_version = "HTTP/1.1"
    answer = 200
    length_of: Callable[[int], int] = staticmethod(lambda size: size)
    objects: ClassVar[dict[str, int]] = {}

    def do_PUT(self) -> None:
        size = int(self.headers["Content-Length"])
        self.rfile.read(size)
        if self.answer == 200:
            self.objects[self.path.partition("?")[0].removeprefix("/backups/")] = size
        self._tell(self.answer, f"<Error><Code>E{self.answer}</Code></Error>")

    def do_HEAD(self) -> None:
        name = self.path.partition("?")[0].removeprefix("/backups/")
        size = self.objects.get(name)
        self.send_response(404 if size is None else 200)
        self.send_header("Content-Length", str(0 if size is None else self.length_of(size)))
        self.send_header("Last-Modified", "Sat, 28 Nov 2026 01:30:00 GMT")
        self.end_headers()

    def do_GET(self) -> None:
        listed = "".join(
            f"<Contents><Key>{name}</Key><Size>{self.length_of(size)}</Size>"
            "<LastModified>2026-11-28T01:30:00.000Z</LastModified></Contents>"
            for name, size in self.objects.items()
        )
        self._tell(200, f"<ListBucketResult><Name>backups</Name>{listed}</ListBucketResult>")

    def do_DELETE(self) -> None:
        self.objects.pop(self.path.removeprefix("/backups/"), None)
        self._tell(204, "")

    def _tell(self, code: int, text: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def lying(settings: BackupSettings, tmp_path: Path) -> Iterator[tuple[RemoteBed, type[LyingS3]]]:
    class Handler(LyingS3):
        objects: ClassVar[dict[str, int]] = {}

    with http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "s3").write_text("access_key_id = key\nsecret_access_key = secret\n")
        endpoint = f"http://{LOOPBACK}:{server.server_port}"
        keys = PlaceKeys(s3_credentials=tmp_path / "s3", s3_endpoint=endpoint)
        changed = replace(settings, to="s3://backups", keys=keys)
        yield RemoteBed(changed, tmp_path / "notes", Wire(0)), Handler
        server.shutdown()


@pytest.mark.parametrize("answer", [403, 507])
def test_a_store_that_refuses_or_is_full_keeps_the_good_one(
    lying: tuple[RemoteBed, type[LyingS3]], answer: int
) -> None:
    bed, server = lying
    made = bed.make()
    server.answer = answer
    bed.fails(f"{answer}|E{answer}|Forbidden|Insufficient")
    assert bed.good() == [made]
    assert notes.read(bed.notes)["good"]["name"] == made


def test_a_store_that_has_less_than_it_took_is_known_by_its_list(
    lying: tuple[RemoteBed, type[LyingS3]],
) -> None:
    bed, server = lying
    made = bed.make()
    server.length_of = staticmethod(lambda size: size // 2 if size > 500 else size)
    bed.fails(".")
    server.length_of = staticmethod(lambda size: size)
    assert made in bed.good()
    assert notes.read(bed.notes)["good"]["name"] == made


def test_a_store_that_lists_without_end_is_left(
    lying: tuple[RemoteBed, type[LyingS3]],
) -> None:
    bed, server = lying
    # Fewer files than a place may have, with long names.
    server.objects.update({f"gw-south.{number:0>1000}": 1 for number in range(MAX_LISTED - 1)})
    bed.fails("more than")
