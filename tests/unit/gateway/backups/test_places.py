"""A place for backups is what its address and its keys say, and each refusal is in its words."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.backups import places, published_trials
from gateway.backups.making import BackupError
from gateway.backups.places import MAX_LISTED, FolderPlace, PlaceKeys, RclonePlace, place_of
from gateway.backups.trials import BackupTrial


class AskedRclone:
    """An rclone that notes how it is called, and answers what it is told to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "rclone-bed"
        self.folder.mkdir()
        self.program = self.folder / "rclone"
        monkeypatch.setenv("PATH", str(self.folder), prepend=":")
        for name in [name for name in os.environ if name.startswith(("RCLONE_", "AWS_"))]:
            monkeypatch.delenv(name)

    def does(self, script: str) -> None:
        noting = f'env | grep ^RCLONE_ | sort >{self.folder}/env; echo "$*" >>{self.folder}/called'
        self.program.write_text(f"#!/bin/sh\n{noting}\n{script}\n")
        self.program.chmod(0o755)

    def calls(self) -> list[str]:
        """Return what it was called with since the last time, without what is always there."""
        usual = f"{' '.join(places.PATIENCE)} --config= "
        called = self.folder / "called"
        lines = called.read_text().splitlines()
        called.unlink()
        assert all(line.startswith(usual) for line in lines)
        return [line.removeprefix(usual) for line in lines]

    def options(self) -> dict[str, str]:
        lines = (self.folder / "env").read_text().splitlines()
        return {
            name.removeprefix("RCLONE_CONFIG_PLACE_"): value
            for name, _, value in (line.partition("=") for line in lines)
        }


@pytest.fixture
def rclone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AskedRclone:
    return AskedRclone(tmp_path, monkeypatch)


SFTP = {
    "TYPE": "sftp",
    "HOST": "nas",
    "USER": "pi",
    "PORT": "22",
    "KNOWN_HOSTS_FILE": "/k",
    "DISABLE_HASHCHECK": "true",
    "SHELL_TYPE": "none",
    "SET_MODTIME": "false",
}
S3 = {"TYPE": "s3", "PROVIDER": "AWS", "ENDPOINT": "", "REGION": "", "NO_CHECK_BUCKET": "true"}
KNOWN = PlaceKeys(known_hosts=Path("/k"))


@pytest.mark.parametrize(
    ("to", "keys", "folder", "options"),
    [
        ("sftp://pi@nas/backups/", KNOWN, "backups", SFTP),
        ("sftp://pi@nas//srv/b%20c", KNOWN, "/srv/b c", SFTP),
        (
            "sftp://pi@nas:2222/",
            PlaceKeys(known_hosts=Path("/k"), ssh_key=Path("/s")),
            "",
            SFTP | {"PORT": "2222", "KEY_FILE": "/s"},
        ),
        ("s3://bucket/a/b", PlaceKeys(), "bucket/a/b", S3 | {"ENV_AUTH": "true"}),
        (
            "s3://bucket",
            PlaceKeys(s3_endpoint="https://s3.example.org", s3_region="eu"),
            "bucket",
            S3
            | {"PROVIDER": "Other", "ENDPOINT": "https://s3.example.org", "REGION": "eu"}
            | {"ENV_AUTH": "true"},
        ),
    ],
)
def test_a_place_is_reached_as_its_address_and_its_keys_say(
    to: str, keys: PlaceKeys, folder: str, options: dict[str, str], rclone: AskedRclone
) -> None:
    rclone.does("echo '[]'")
    assert place_of(to, keys).listed("gw-a") == {}
    assert rclone.calls() == [f"lsjson --files-only --no-modtime --include /gw-a.* place:{folder}"]
    assert rclone.options() == options


@pytest.mark.parametrize(
    "to", ["backups", "sftp://nas/b", "sftp://pi:secret@nas/b", "s3:///b", "ftp://pi@nas/b", ""]
)
def test_what_is_no_address_of_a_place_is_refused(to: str) -> None:
    with pytest.raises(BackupError, match="is no place for backups: /FOLDER, sftp://USER@HOST"):
        place_of(to, KNOWN)


def test_credentials_of_s3_are_those_of_their_file(tmp_path: Path, rclone: AskedRclone) -> None:
    file = tmp_path / "credentials"
    file.write_text("\ufeff[default]\naccess_key_id = A\nsecret_access_key=B=\nother = C\n")
    rclone.does("echo '[]'")
    place_of("s3://bucket", PlaceKeys(s3_credentials=file)).listed("gw-a")
    own = {"ACCESS_KEY_ID": "A", "SECRET_ACCESS_KEY": "B="}
    assert rclone.options() == S3 | own
    file.write_text("access_key_id=A\nsecret_access_key=B\nsession_token=T\n")
    place_of("s3://bucket", PlaceKeys(s3_credentials=file)).listed("gw-a")
    assert rclone.options() == S3 | own | {"SECRET_ACCESS_KEY": "B", "SESSION_TOKEN": "T"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, ": No such file or directory"),
        (b"\xff\xff", ": is not UTF-8"),
        (b"access_key_id = A\n", " lacks access_key_id = ... or secret_access_key = ..."),
        (b"", " lacks access_key_id = ... or secret_access_key = ..."),
    ],
)
def test_a_file_without_credentials_is_named(data: bytes | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(BackupError) as raised:
        place_of("s3://bucket", PlaceKeys(s3_credentials=file))
    assert str(raised.value) == f"{file}{why}"


def remote(*, shows_parts: bool = False) -> RclonePlace:
    return RclonePlace("s3://b", "b", {"TYPE": "s3"}, shows_parts=shows_parts)


def test_what_rclone_lists_is_told_by_name_and_length(rclone: AskedRclone) -> None:
    rclone.does("""echo '[{"Name": "gw-a.1", "Size": 5}, {"Name": "gw-a.2", "Size": 0}]'""")
    assert remote().listed("gw-a") == {"gw-a.1": 5, "gw-a.2": 0}


@pytest.mark.parametrize("said", ["no JSON", "5", '[{"Name": "a"}]', '[{"Name": 1, "Size": "x"}]'])
def test_a_list_that_can_not_be_read_is_no_list(said: str, rclone: AskedRclone) -> None:
    rclone.does(f"echo '{said}'")
    with pytest.raises(BackupError, match=r"^s3://b: rclone lists what can't be read \("):
        remote().listed("gw-a")


def test_a_place_with_ten_thousand_files_is_listed_and_one_with_more_is_not(
    rclone: AskedRclone, tmp_path: Path
) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    listed = tmp_path / "listed"
    rclone.does(f"cat {listed}")
    for count in (MAX_LISTED, MAX_LISTED + 1):
        each = ",".join(f'{{"Name":"gw-a.{n}","Size":1}}' for n in range(count))
        listed.write_text(f"[{each}]")
        if count == MAX_LISTED:
            assert len(remote().listed("gw-a")) == MAX_LISTED
            continue
        with pytest.raises(BackupError) as raised:
            remote().listed("gw-a")
        assert str(raised.value) == "s3://b: more than 10000 files of gw-a"


def test_a_folder_with_more_files_than_may_be_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MAX_LISTED", 3)
    for number in range(3):
        (tmp_path / f"gw-a.{number}").write_bytes(bytes(number))
    (tmp_path / "gw-b.0").touch()
    (tmp_path / "gw-a.folder").mkdir()
    (tmp_path / "gw-a.link").symlink_to("gw-a.2")
    place = FolderPlace(tmp_path)
    assert place.listed("gw-a") == {"gw-a.0": 0, "gw-a.1": 1, "gw-a.2": 2}
    (tmp_path / "gw-a.3").touch()
    with pytest.raises(BackupError) as raised:
        place.listed("gw-a")
    assert str(raised.value) == f"{tmp_path}: more than 3 files of gw-a"


def test_a_file_has_its_name_only_when_it_is_whole(rclone: AskedRclone, tmp_path: Path) -> None:
    rclone.does("")
    remote(shows_parts=True).put(tmp_path / "a", "gw-a.1")
    assert rclone.calls() == [
        f"copyto {tmp_path}/a place:b/gw-a.1.part",
        "moveto place:b/gw-a.1.part place:b/gw-a.1",
    ]
    for place in (remote(), place_of("s3://b/", PlaceKeys())):  # a store has it whole or not at all
        place.put(tmp_path / "a", "gw-a.1")
        assert rclone.calls() == [f"copyto {tmp_path}/a place:b/gw-a.1"]
    remote().put(tmp_path / "a", "gw-a.1")
    remote().remove("gw-a.1")
    assert rclone.calls() == [f"copyto {tmp_path}/a place:b/gw-a.1", "deletefile place:b/gw-a.1"]


def from_folder(tmp_path: Path, _rclone: AskedRclone) -> places.BackupPlace:
    (tmp_path / "gw-a.1").write_bytes(bytes(10))
    return FolderPlace(tmp_path)


def from_rclone(_tmp_path: Path, rclone: AskedRclone) -> places.BackupPlace:
    rclone.does('for to do :; done; [ "$1" = lsjson ] || printf 0123456789 >"$to"')
    return remote()


@pytest.mark.usefixtures("process_of_a_service")
@pytest.mark.parametrize("made", [from_folder, from_rclone])
def test_an_archive_is_fetched_for_this_user_alone_up_to_the_length_that_it_may_have(
    made: Callable[[Path, AskedRclone], places.BackupPlace], tmp_path: Path, rclone: AskedRclone
) -> None:
    os.umask(0)
    place = made(tmp_path, rclone)
    place.get("gw-a.1", tmp_path / "whole", 10)
    assert (tmp_path / "whole").stat().st_size == 10
    assert (tmp_path / "whole").stat().st_mode & 0o777 == 0o600
    with pytest.raises(BackupError) as raised:
        place.get("gw-a.1", tmp_path / "longer", 9)
    assert str(raised.value) in (
        f"{tmp_path}: gw-a.1 is longer than 9 bytes",
        "s3://b: gw-a.1 has 10 bytes, and 9 were listed",
    )
    with pytest.raises(FileExistsError):
        place.get("gw-a.1", tmp_path / "whole", 10)


def test_no_more_is_downloaded_than_was_listed(tmp_path: Path, rclone: AskedRclone) -> None:
    from_rclone(tmp_path, rclone).get("gw-a.1", tmp_path / "to", 1000)
    # rclone counts in pieces of at most 64 KiB.
    assert rclone.calls() == [
        f"copyto --max-transfer=66536B --cutoff-mode=hard place:b/gw-a.1 {tmp_path}/to"
    ]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo first >&2; echo last >&2; echo >&2; exit 3", "last"),
        ("exit 7", "rclone exits 7"),
        (f"echo {'x' * 301} >&2; exit 1", "x" * 300),
    ],
)
def test_what_rclone_says_last_is_why_it_failed(script: str, why: str, rclone: AskedRclone) -> None:
    rclone.does(script)
    with pytest.raises(BackupError) as raised:
        remote().remove("gw-a.1")
    assert str(raised.value) == f"s3://b: {why}"


def test_a_machine_without_rclone_says_so(
    rclone: AskedRclone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(rclone.folder))
    with pytest.raises(BackupError, match=r"^s3://b: rclone is not installed$"):
        remote().remove("gw-a.1")


def test_authorities_that_other_programs_of_s3_know_are_rclones_too(
    rclone: AskedRclone, monkeypatch: pytest.MonkeyPatch
) -> None:
    rclone.does("")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/a.pem")
    remote().remove("a")
    assert rclone.options()["RCLONE_CA_CERT"] == "/a.pem"
    monkeypatch.setenv("RCLONE_CA_CERT", "/b.pem")
    remote().remove("a")
    assert rclone.options()["RCLONE_CA_CERT"] == "/b.pem"


def test_an_interrupted_backup_leaves_no_rclone_behind(
    rclone: AskedRclone, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if self.poll() is None and not ended:
                ended.append(self)
                raise KeyboardInterrupt
            return super().wait(timeout)

    ended: list[Interrupted] = []
    rclone.does("exec >&-; exec sleep 600")
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        remote().remove("a")
    assert ended[0].returncode == -9


def test_once_rclone_has_ended_nothing_waits_for_its_time_any_more(rclone: AskedRclone) -> None:
    rclone.does("echo '[]'")
    before = set(threading.enumerate())
    remote().listed("gw-a")
    remote().remove("gw-a.1")
    for timer in set(threading.enumerate()) - before:
        timer.join(20.0)
        assert not timer.is_alive()


class GivesUp:
    """A place that has a trial's file, and does not give it."""

    def __init__(self, data: bytes | None) -> None:
        self._data = data

    def get(self, _name: str, to: Path, _most_bytes: int) -> None:
        if self._data is None:
            raise BackupError("it is gone")
        to.write_bytes(self._data)


@pytest.mark.parametrize("data", [None, b"no JSON", b"[]", b"\xff"])
def test_the_word_of_a_trial_that_can_not_be_read_is_none(data: bytes | None) -> None:
    place: places.BackupPlace = GivesUp(data)  # type: ignore[assignment]
    assert published_trials.fetched(place, {"gw-a.trial.json": 5}, "gw-a") is None


def test_the_word_of_a_trial_is_fetched_if_it_was_listed_and_has_up_to_4_kib(
    tmp_path: Path,
) -> None:
    place = FolderPlace(tmp_path)
    trial = BackupTrial(5.0, "gw-a.1", False, "it is cut off")
    published_trials.leave(place, "gw-a", trial)
    file = tmp_path / "gw-a.trial.json"
    for length, is_taken in ((4096, True), (4097, False)):
        file.write_bytes(file.read_bytes().ljust(length))
        found = published_trials.fetched(place, place.listed("gw-a"), "gw-a")
        assert found == (trial if is_taken else None)
    file.write_bytes(file.read_bytes().rstrip())
    for listed in ({}, {file.name: 0}, {"gw-b.trial.json": 5}):
        assert published_trials.fetched(place, listed, "gw-a") is None
    assert published_trials.fetched(place, {file.name: 1}, "gw-a") == trial
