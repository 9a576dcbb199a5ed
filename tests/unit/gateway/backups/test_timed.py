"""A timed backup keeps the newest good archive, whatever its place does (timed.py, places.py)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from ports import free_port

from gateway.backups import __main__ as command
from gateway.backups import making, notes, places, restoring, timed
from gateway.backups.backup_state import OVERDUE_DAYS
from gateway.backups.making import BackupError
from gateway.backups.places import FolderPlace, PlaceKeys
from gateway.backups.timed import BackupSettings, Bounded, TimedBackup

pytestmark = pytest.mark.peer("age", "age")
OTHER_DISK = Path("/dev/shm")
"""Another file system than that of the gateway's state: a place on the same one is refused."""
LOOPBACK = "127.0.0.1"


@dataclass
class Bed:
    """A gateway that is stopped, and a place for its backups."""

    folder: Path
    settings: BackupSettings
    place: Path
    identity: Path

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    def make(self, at: float = 1_795_829_400.0, **changed: object) -> str:
        settings = replace(self.settings, **changed)  # type: ignore[arg-type]
        return TimedBackup(settings, self.notes, lambda: None, lambda: at).make().name

    def noted(self) -> dict[str, dict[str, object]]:
        return notes.read(self.notes)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.place.iterdir())

    def restores(self, name: str, to: Path) -> None:
        """Decrypt it and hold it to what a restore asks."""
        plain = to / "plain.tar.gz"
        opened = ["age", "--decrypt", "--identity", str(self.identity)]
        subprocess.run([*opened, "--output", str(plain), str(self.place / name)], check=True)
        restoring.unpack(plain, "gw-south", self.settings.config, self.settings.state)
        with tarfile.open(plain) as tar:
            assert any(one.name.endswith("state/log") for one in tar)


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("age") / "key"
    subprocess.run(["age-keygen", "--output", str(file)], check=True, capture_output=True)
    return file


@pytest.fixture
def bed(tmp_path: Path, identity: Path) -> Iterator[Bed]:
    config, state = tmp_path / "config", tmp_path / "state"
    for folder in (config, state, tmp_path / "notes"):
        folder.mkdir()
    with tempfile.TemporaryDirectory(dir=OTHER_DISK) as place:
        yield bed_at(Path(place), tmp_path, identity)


def bed_at(place: Path, tmp_path: Path, identity: Path) -> Bed:
    """A bed whose backups go to a folder."""
    config, state = tmp_path / "config", tmp_path / "state"
    (config / "hedgerow.toml").write_text(f'[gateway]\nid = "gw-south"\nstate_dir = "{state}"\n')
    (state / "log").write_bytes(os.urandom(300_000))
    recipient = subprocess.check_output(["age-keygen", "-y", str(identity)], text=True).strip()
    settings = BackupSettings(
        to=str(place),
        recipients=(recipient,),
        kept=2,
        max_bytes=1 << 20,
        config=config,
        state=state,
        keys=PlaceKeys(),
    )
    return Bed(tmp_path, settings, place, identity)


def test_backups_are_encrypted_counted_and_restore(bed: Bed) -> None:
    names = [bed.make(at) for at in (1_795_829_400.0, 12.0, 1_795_829_500.0)]
    assert bed.names() == sorted(names[1:]), "the oldest is gone, whatever the clock said"
    content = (bed.place / names[2]).read_bytes()
    assert content.startswith(b"age-encryption.org/v1\n")
    assert (bed.place / names[2]).stat().st_mode & 0o777 == 0o600
    bed.restores(names[2], bed.folder)
    assert bed.noted()["good"] == {"at": 1_795_829_500.0, "name": names[2], "bytes": len(content)}
    assert bed.noted()["failure"] is None
    assert [path.name for path in bed.notes.iterdir() if path.is_dir()] == []


def _full(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gateway.backups.places.shutil.copyfileobj", refuse)


def _cut(monkeypatch: pytest.MonkeyPatch) -> None:
    put = FolderPlace.put

    def cut(self: FolderPlace, file: Path, name: str) -> None:
        put(self, file, name)
        with file.with_name("cut").open("wb") as short:
            short.write(file.read_bytes()[:1000])
        put(self, file.with_name("cut"), name)

    monkeypatch.setattr(FolderPlace, "put", cut)


def _emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderPlace, "put", lambda self, file, name: None)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_full, "No space left on device"),
        (_cut, "arrived with 1000 bytes"),
        (_emptied, "arrived with nothing"),
    ],
)
def test_a_place_that_is_full_or_loses_what_it_gets_costs_no_good_one(
    bed: Bed, harm: object, why: str
) -> None:
    good = [bed.make(), bed.make()]
    with pytest.MonkeyPatch.context() as patch:
        harm(patch)  # type: ignore[operator]
        for _ in range(3):
            with pytest.raises(BackupError, match=why):
                bed.make()
    assert set(good) <= set(bed.names())
    assert bed.noted()["good"]["name"] == good[-1]
    assert why in str(bed.noted()["failure"]["why"])
    newest = bed.make()
    assert bed.names() == sorted([good[-1], newest]), "what was cut off is gone, too"
    assert bed.noted()["failure"] is None


def test_what_is_missing_wrong_or_too_large_is_told_and_leaves_nothing(bed: Bed) -> None:
    good = bed.make()
    for changed, why in (
        ({"to": str(bed.folder / "missing")}, "missing: No such file"),
        ({"to": "ftp://x/y"}, "is no place for backups"),
        ({"to": "sftp://pi@nas/backups"}, "a file of known hosts"),
        ({"max_bytes": 200_000}, "longer than max_bytes"),
        ({"recipients": ("age1nonsense",)}, "age: error: "),
        ({"config": bed.folder}, r"hedgerow\.toml: No such file"),
    ):
        with pytest.raises(BackupError, match=why):
            bed.make(**changed)  # type: ignore[arg-type]
    assert bed.names() == [good]
    assert sorted(path.name for path in bed.notes.iterdir()) == ["last.json", "lock"]


def test_files_that_are_not_ours_stay(bed: Bed) -> None:
    foreign = ["gw-south.txt", "gw-south-2.000001.20261128T013000Z.0.tar.gz.age", "photos.zip"]
    for name in foreign:
        (bed.place / name).touch()
    for _ in range(4):
        bed.make()
    assert set(foreign) <= set(bed.names())
    assert len(bed.names()) == len(foreign) + 2


def test_two_are_not_made_at_once(bed: Bed) -> None:
    with (bed.notes / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BackupError, match="another backup is being made"):
            bed.make()
    bed.make()


def test_what_a_kill_has_left_is_removed_and_its_number_not_used_again(bed: Bed) -> None:
    (bed.notes / "archive-killed").mkdir()
    (bed.notes / "archive-killed/archive").write_bytes(b"half")
    left = "gw-south.000007.20261128T013000Z.500.tar.gz.age.part"
    (bed.place / left).write_bytes(b"half")
    name = bed.make()
    assert ".000008." in name
    assert bed.names() == [name]
    assert not (bed.notes / "archive-killed").exists()


@pytest.mark.parametrize(
    "number", ['"x"', "null", "[]", "-5", "1e400", "1e9", "99999999999", "true", '{"a": 1}']
)
def test_a_number_that_is_none_keeps_nobody_from_the_next_backup(bed: Bed, number: str) -> None:
    first = bed.make()
    (bed.notes / notes.NOTED).write_text(f'{{"number": {number}}}')
    second = bed.make()
    assert bed.names() == [first, second]
    assert bed.noted()["good"]["name"] == second


def test_a_key_that_may_only_add_makes_good_ones_and_says_what_stays(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: FolderPlace, name: str) -> None:
        raise BackupError("permission denied")

    monkeypatch.setattr(FolderPlace, "remove", refuse)
    names = [bed.make(), bed.make()]
    with pytest.raises(BackupError, match="an older one can't be removed: permission denied"):
        bed.make()
    assert len(bed.names()) == 3
    assert bed.noted()["good"]["name"] not in names
    bed.make(kept=0)
    assert len(bed.names()) == 4
    assert bed.noted()["failure"] is None


def test_a_folder_on_the_gateways_own_disk_is_no_place(bed: Bed, identity: Path) -> None:
    (own := bed.folder / "place").mkdir()
    with pytest.raises(BackupError, match="a card that dies takes both"):
        bed_at(own, bed.folder, identity).make(1_795_829_400.0)
    assert list(own.iterdir()) == []


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "recipients: none is given"),
        ('recipients = ["age1x"]\nkept = "3"', "kept: '3' is of the wrong type"),
        ('recipients = ["age1x"]\nkept = -1', "out of range"),
        ('recipients = ["age1x"]\nkeep = 3', "keep: no such setting"),
        ("recipients", "Expected '='"),
    ],
)
def test_settings_that_are_wrong_name_the_field(tmp_path: Path, written: str, why: str) -> None:
    file = tmp_path / "backup.toml"
    file.write_text(written)
    with pytest.raises(BackupError, match=why):
        timed.load(file)


def test_what_is_encrypted_is_passed_on_up_to_a_number_of_bytes(tmp_path: Path) -> None:
    with (tmp_path / "to").open("wb") as file:
        bounded = Bounded(file, 5)
        assert bounded.write(b"123") == 3
        assert bounded.write(b"45") == 2
        bounded.flush()
        assert (tmp_path / "to").read_bytes() == b"12345"
        with pytest.raises(BackupError, match=r"^the archive is longer than max_bytes, or than"):
            bounded.write(b"6")


def test_settings_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(BackupError) as raised:
        timed.load(tmp_path / "backup.toml")
    assert str(raised.value) == f"{tmp_path}/backup.toml: No such file or directory"


@pytest.mark.parametrize(
    ("line", "is_good"),
    [
        *(("kept = 0", True), ("kept = -1", False), ("max_bytes = 1", True)),
        *(("max_bytes = 0", False), ("overdue_days = 0.001", True), ("overdue_days = 0", False)),
        *(("overdue_days = inf", False), ("overdue_days = nan", False), ("kept = true", False)),
    ],
)
def test_a_setting_has_a_range(line: str, is_good: bool, tmp_path: Path) -> None:
    file = tmp_path / "backup.toml"
    file.write_text(f'recipients = ["age1x"]\n{line}\n')
    if is_good:
        name, _, value = line.partition(" = ")
        assert getattr(timed.load(file), name) == float(value)
        return
    with pytest.raises(BackupError, match=r"out of range|of the wrong type"):
        timed.load(file)


def test_settings_that_are_not_given_are_the_usual_ones(tmp_path: Path) -> None:
    file = tmp_path / "backup.toml"
    file.write_text('to = "/mnt"\nrecipients = ["age1x"]\nssh_key = "/s"\n')
    assert timed.load(file) == timed.BackupSettings(
        to="/mnt",
        recipients=("age1x",),
        kept=7,
        max_bytes=1 << 30,
        config=Path("/etc/hedgerow"),
        state=Path("/var/lib/hedgerow"),
        keys=PlaceKeys(ssh_key=Path("/s")),
        overdue_days=OVERDUE_DAYS,
    )


def test_a_machine_without_age_and_a_place_whose_numbers_are_used_up_make_no_backup(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = bed.place / "gw-south.999999999.20261128T013000Z.0.tar.gz.age"
    last.touch()
    with pytest.raises(BackupError) as raised:
        bed.make()
    assert str(raised.value) == (
        f"{bed.place}: no number is left behind 999999999 for gw-south: take another folder"
    )
    last.unlink()
    monkeypatch.setenv("PATH", str(bed.folder))
    with pytest.raises(BackupError, match=r"^age is not installed: it encrypts the backup$"):
        bed.make()
    assert bed.names() == []


def test_what_the_disk_refuses_is_noted_with_the_files_name(bed: Bed) -> None:
    (bed.settings.state / "log").unlink()
    (bed.settings.state / "log").symlink_to(bed.settings.config)
    with pytest.raises(BackupError, match="is a link to a folder"):
        bed.make()
    bed.settings.state.rename(bed.folder / "gone")
    with pytest.raises(BackupError) as raised:
        bed.make()
    assert str(raised.value) == f"{bed.settings.state}: No such file or directory"
    assert bed.noted()["failure"] == {"at": 1_795_829_400.0, "why": str(raised.value)}


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(5, "Input/output error", "/state/log"), "/state/log: Input/output error"),
        (OSError(5, "Input/output error"), "Input/output error"),
    ],
)
def test_a_disk_that_fails_while_it_is_read_is_noted_in_words(
    error: OSError, why: str, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(making, "write", fail)
    with pytest.raises(BackupError) as raised:
        bed.make()
    assert str(raised.value) == why
    assert bed.noted()["failure"] == {"at": 1_795_829_400.0, "why": why}
    assert bed.names() == []


def test_the_timers_command_tells_what_is_in_the_place_or_why_nothing_is(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(making, "end_in_order", lambda: None)
    monkeypatch.setattr(making, "main_pid", lambda unit: None if unit == "a.service" else 1 / 0)
    file, settings = bed.folder / "backup.toml", bed.settings
    file.write_text(
        f'to = "{settings.to}"\nrecipients = ["{settings.recipients[0]}"]\n'
        f'config = "{settings.config}"\nstate = "{settings.state}"\n'
    )
    called = ["backups", "--settings", str(file), "--notes", str(bed.notes), "--unit", "a.service"]
    monkeypatch.setattr("sys.argv", called)
    assert command.main() == 0
    [name] = bed.names()
    assert capsys.readouterr() == (f"{settings.to}: {name}\n", "")
    file.unlink()
    assert command.main() == 1
    assert capsys.readouterr() == ("", f"backup: {file}: No such file or directory\n")


# -- places that rclone reaches --------------------------------------------------------------------


@contextlib.contextmanager
def sftp_server(bed: Bed) -> Iterator[tuple[str, PlaceKeys]]:
    """Rclone's own server of SFTP over a folder, which takes one key."""
    keys = {name: bed.folder / name for name in ("client", "server")}
    for file in keys.values():
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)]
        subprocess.run(keygen, check=True)
    port = free_port()
    known_hosts = bed.folder / "known_hosts"
    public = keys["server"].with_suffix(".pub").read_text().split()
    known_hosts.write_text(f"[{LOOPBACK}]:{port} {public[0]} {public[1]}\n")
    command = ["rclone", "--config=", "serve", "sftp", str(bed.place), "--addr"]
    command += [f"{LOOPBACK}:{port}", "--key", str(keys["server"])]
    command += ["--authorized-keys", str(keys["client"].with_suffix(".pub"))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        for line in server.stderr:
            if "listening" in line.lower():
                break
        else:
            pytest.fail("rclone serves nothing")
        try:
            yield (
                f"sftp://pi@{LOOPBACK}:{port}/",
                PlaceKeys(ssh_key=keys["client"], known_hosts=known_hosts),
            )
        finally:
            server.kill()


@pytest.mark.peer("rclone", "rclone")
@pytest.mark.slow
def test_a_place_over_ssh_gets_whole_archives_and_loses_only_old_ones(bed: Bed) -> None:
    (bed.place / "gw-south.txt").touch()
    with sftp_server(bed) as (to, keys):
        names = [bed.make(to=to, keys=keys) for _ in range(3)]
        assert bed.names() == sorted([*names[1:], "gw-south.txt"])
        bed.restores(names[2], bed.folder)
        fetched = bed.folder / "fetched"
        places.place_of(to, keys).get(names[2], fetched, 1 << 20)
        assert fetched.read_bytes() == (bed.place / names[2]).read_bytes()
        assert fetched.stat().st_mode & 0o777 == 0o600
        # Another machine has taken the server's address.
        assert keys.known_hosts is not None
        other = bed.folder / "other"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
        words = keys.known_hosts.read_text().split()
        words[2] = other.with_suffix(".pub").read_text().split()[1]
        keys.known_hosts.write_text(" ".join(words) + "\n")
        with pytest.raises(BackupError, match=r"knownhosts: key mismatch"):
            bed.make(to=to, keys=keys)
    with pytest.raises(BackupError, match="connection refused"):
        bed.make(to=to, keys=keys)
    assert bed.names() == sorted([*names[1:], "gw-south.txt"])
    assert bed.noted()["good"]["name"] == names[2]
