"""A backup comes into the place of what a gateway has, whole or not at all (restoring.py)."""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.backups import restoring as restore


class Pi:
    """Two folders, and archives of them as backup.yml makes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.state = folder / "etc/hedgerow", folder / "var/lib/hedgerow"
        self.write("of before")

    def write(self, said: str, gateway: str = "gw-south") -> None:
        for path in (self.config / "tls", self.state / "log"):
            path.mkdir(parents=True, exist_ok=True)
        (self.config / "hedgerow.toml").write_text(
            f'# {said}\n[gateway]\nid = "{gateway}"\nstate_dir = "{self.state}"\n'
        )
        (self.config / "tls/gateway.pem").write_text(said)
        (self.state / "boot_epoch").write_text(said)
        (self.state / "log/0.log").write_bytes(os.urandom(100_000))

    def archive(self, edit: Callable[[tarfile.TarFile], None] = lambda tar: None) -> Path:
        path = self.folder / "backup.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            for folder in (self.config, self.state):
                tar.add(folder, str(folder).lstrip("/"))
            edit(tar)
        return path

    def files(self) -> dict[str, bytes]:
        found = (path for top in (self.config, self.state) for path in top.rglob("*"))
        return {str(path): path.read_bytes() for path in found if path.is_file()}

    def unpack(self, archive: Path) -> bool:
        return restore.unpack(archive, "gw-south", self.config, self.state)

    def step(self, *arguments: str) -> int:
        """Take a step as the playbook does."""
        folders = ("--config", str(self.config), "--state", str(self.state))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(restore, "own", lambda *_: None)
            patched.setattr(restore.sys, "argv", ["restore.py", *arguments, *folders])
            return int(restore.main())

    def is_whole(self) -> bool:
        """Return whether the gateway would start, with state of one time."""
        config = (self.config / "hedgerow.toml").exists()
        return config and (self.state / "boot_epoch").exists()

    def leftovers(self) -> list[Path]:
        return [*self.folder.rglob("*.restore"), *self.folder.rglob(restore.MARK)]


@pytest.fixture
def pi(tmp_path: Path) -> Pi:
    return Pi(tmp_path)


def test_what_the_backup_has_comes_back_but_certificates_stay_those_of_the_pi(pi: Pi) -> None:
    archive, expected = pi.archive(), pi.files()
    pi.write("of now")
    (pi.state / "newer").touch()
    pi.unpack(archive)
    assert (pi.state / "boot_epoch").read_text() == "of now", "it serves while all is read"
    restore.swap(pi.config, pi.state)
    restore.keep(pi.config, pi.state)
    certificate = str(pi.config / "tls/gateway.pem")
    assert pi.files() == {**expected, certificate: b"of now"}
    assert pi.leftovers() == []


def test_one_that_does_not_come_up_has_what_it_had_before(pi: Pi) -> None:
    archive = pi.archive()
    pi.write("of now")
    before = pi.files()
    pi.unpack(archive)
    restore.swap(pi.config, pi.state)
    restore.undo(pi.config, pi.state)
    assert pi.files() == before
    assert pi.leftovers() == []


def test_an_archive_that_is_cut_off_anywhere_changes_nothing(pi: Pi) -> None:
    archive = pi.archive()
    whole, before = archive.read_bytes(), pi.files()
    for length in (0, 1, 20, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        archive.write_bytes(whole[:length])
        with pytest.raises(restore.RestoreError, match=r"backup\.tar\.gz"):
            pi.unpack(archive)
        assert pi.files() == before


def test_an_archive_with_one_wrong_bit_changes_nothing(pi: Pi) -> None:
    archive = pi.archive()
    content = bytearray(archive.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    archive.write_bytes(content)
    with pytest.raises(restore.RestoreError, match="cut off or damaged"):
        pi.unpack(archive)


def test_the_archive_of_another_gateway_is_refused_by_both_names(pi: Pi) -> None:
    pi.write("of another", "gw-north")
    with pytest.raises(restore.RestoreError, match=r"backup of 'gw-north', and .* 'gw-south'"):
        pi.unpack(pi.archive())


def member(name: str, kind: bytes = tarfile.REGTYPE) -> Callable[[tarfile.TarFile], None]:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/shadow"
        tar.addfile(info)

    return add


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("etc/sudoers.d/x", tarfile.REGTYPE),
        ("{config}/../../x", tarfile.REGTYPE),
        ("{config}/x", tarfile.SYMTYPE),
        ("{state}/x", tarfile.LNKTYPE),
        ("{state}/x", tarfile.CHRTYPE),
    ],
)
def test_what_no_backup_has_is_unpacked_nowhere(pi: Pi, where: str, kind: bytes) -> None:
    name = where.format(config=str(pi.config).lstrip("/"), state=str(pi.state).lstrip("/"))
    before = pi.files()
    with pytest.raises(restore.RestoreError, match="is not unpacked"):
        pi.unpack(pi.archive(member(name, kind)))
    assert pi.files() == before


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(b"no tar" * 1000, mtime=0)],
    ids=["empty", "no archive", "no tar"],
)
def test_what_is_no_archive_of_a_gateway_is_refused(pi: Pi, content: bytes) -> None:
    archive = pi.folder / "backup.tar.gz"
    archive.write_bytes(content)
    with pytest.raises(restore.RestoreError):
        pi.unpack(archive)


def test_one_without_a_state_folder_is_refused(pi: Pi) -> None:
    archive = pi.folder / "backup.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(pi.config, str(pi.config).lstrip("/"))
    with pytest.raises(restore.RestoreError, match="it lacks"):
        pi.unpack(archive)


def test_one_for_which_the_disk_has_no_room_is_refused_by_its_size(
    pi: Pi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "FREE_BYTES", 1 << 60)
    with pytest.raises(restore.RestoreError, match=r"takes more than \d+ MiB .* no more are free"):
        pi.unpack(pi.archive())


def test_wherever_the_power_is_cut_both_folders_are_there_and_the_next_call_ends_it(
    pi: Pi, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pi.archive()
    restored = (pi.state / "boot_epoch").read_text()
    for cut in range(2):
        pi.write("of now")
        pi.unpack(archive)
        left = [cut]

        def exchanged(left: list[int] = left) -> None:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            before_each_exchange(patched, exchanged)
            restore.swap(pi.config, pi.state)
        assert (pi.config / "hedgerow.toml").exists()
        assert (pi.state / "boot_epoch").exists()
        restore.swap(pi.config, pi.state)
        restore.swap(pi.config, pi.state)
        assert (pi.state / "boot_epoch").read_text() == restored
        restore.keep(pi.config, pi.state)
        restore.keep(pi.config, pi.state)
        assert pi.leftovers() == []


def test_another_archive_does_not_overwrite_a_restore_that_was_not_ended(
    pi: Pi, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = pi.archive()
    pi.write("of now")
    before = pi.files()
    pi.unpack(archive)
    pi.unpack(archive)  # the one of before was not put into its place
    restore.swap(pi.config, pi.state)
    pi.archive(member("etc", tarfile.DIRTYPE))
    assert pi.step("unpack", str(archive), "--id", "gw-south") == 1
    assert "hedgerow_restore=keep" in capsys.readouterr().err
    assert pi.step("undo") == 0
    assert pi.files() == before


def test_a_restore_that_was_cut_off_goes_on_with_the_same_archive(pi: Pi) -> None:
    archive = pi.archive()
    pi.write("of now")
    assert pi.unpack(archive)
    restore.swap(pi.config, pi.state)
    assert not pi.unpack(archive), "it is there already"
    (pi.state / "acknowledged since").touch()
    assert pi.step("unpack", str(archive), "--id", "gw-south") == 0
    assert [pi.step(step) for step in ("swap", "keep")] == [0, 0]
    assert (pi.state / "acknowledged since").exists()
    assert (pi.state / "boot_epoch").read_text() == "of before"
    assert pi.leftovers() == []


@pytest.mark.parametrize("step", ["unpack", "swap", "keep", "undo"])
def test_wherever_a_step_is_cut_off_the_next_run_ends_with_one_or_the_other_whole(
    pi: Pi, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Each call that changes a folder is the last one in turn, and may be done by half."""
    archive = pi.archive()
    pi.write("of now")
    (pi.state / "log/of now").touch()
    steps = {"unpack": (), "swap": ("unpack",), "keep": ("unpack", "swap")}
    before = steps.get(step, ("unpack", "swap"))
    for cut in range(6):
        here = Pi(pi.folder / f"{cut}")
        shutil.copytree(pi.config, here.config, dirs_exist_ok=True)
        shutil.copytree(pi.state, here.state, dirs_exist_ok=True)
        here.write("of now")
        own = here.archive()
        here.write("of later")
        (here.state / "log/of later").touch()
        for one in before:
            assert here.step(one, str(own), "--id", "gw-south") == 0
        with monkeypatch.context() as patched:
            cut_off(patched, cut)
            with contextlib.suppress(KeyboardInterrupt):
                here.step(step, str(own), "--id", "gw-south")
        assert here.is_whole(), cut
        for one in ("unpack", "swap", "keep"):
            assert here.step(one, str(own), "--id", "gw-south") == 0, (cut, one)
        assert (here.state / "log/of now").exists(), cut
        assert not (here.state / "log/of later").exists(), cut
        assert here.leftovers() == [], cut
    assert archive.exists()


def before_each_exchange(patched: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act before each renameat2(2) of the C library."""
    real = ctypes.CDLL(None, use_errno=True)

    def renameat2(*arguments: Any) -> int:
        act()
        done: int = real.renameat2(*arguments)
        return done

    patched.setattr(restore.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(renameat2=renameat2))


def cut_off(patched: pytest.MonkeyPatch, after: int) -> None:
    """Have the power go at one of the calls that change something."""
    left = [after]

    def counted(what: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
            return what(*arguments, **options)

        return call

    def half_removed(folder: Path, **_: object) -> None:
        if not folder.exists():
            return
        if left[0] == 0:
            for path in sorted(folder.rglob("*"))[::2]:
                if path.is_file():
                    path.unlink()
            raise KeyboardInterrupt
        left[0] -= 1
        remove(folder)

    remove = shutil.rmtree
    before_each_exchange(patched, counted(lambda: None))
    patched.setattr(restore.shutil, "rmtree", half_removed)
    patched.setattr(restore.Path, "unlink", counted(Path.unlink))


def test_nothing_is_put_into_place_that_was_not_unpacked(pi: Pi) -> None:
    with pytest.raises(restore.RestoreError, match="unpack an archive first"):
        restore.swap(pi.config, pi.state)


def test_a_file_keeps_its_mode_and_gets_no_set_user_bit(pi: Pi) -> None:
    (pi.state / "secret").touch(0o600)
    (pi.state / "program").touch()
    (pi.state / "program").chmod(0o4755)
    pi.unpack(pi.archive())
    restore.swap(pi.config, pi.state)
    assert (pi.state / "secret").stat().st_mode & 0o7777 == 0o600
    assert (pi.state / "program").stat().st_mode & 0o7777 == 0o755


# -- keys that are encrypted for one machine -------------------------------------------------------

ENCRYPTED = "Whxqht+dQJax1aZeCGLxmiAAAAABAAAADAAAABAAAAA"
"""Begins what systemd 252 writes with --with-key=host."""


@pytest.mark.parametrize(("of_backup", "of_pi"), [(ENCRYPTED, "plain"), ("plain", ENCRYPTED)])
def test_a_key_that_is_encrypted_for_one_machine_stays_that_of_the_pi(
    pi: Pi, of_backup: str, of_pi: str
) -> None:
    (pi.config / "psk").write_text(of_backup)
    (pi.config / "passwords").write_text("of the backup")
    archive = pi.archive()
    (pi.config / "psk").write_text(of_pi)
    (pi.config / "passwords").write_text("of now")
    pi.unpack(archive)
    restore.swap(pi.config, pi.state)
    assert (pi.config / "psk").read_text() == of_pi
    assert (pi.config / "passwords").read_text() == "of the backup"


def test_a_key_that_only_the_dead_card_opens_is_refused_before_anything_is_touched(pi: Pi) -> None:
    (pi.config / "tree.key").write_text(ENCRYPTED)
    archive = pi.archive()
    (pi.config / "tree.key").unlink()
    before = pi.files()
    with pytest.raises(restore.RestoreError, match=r"tree\.key .*give it in the inventory"):
        pi.unpack(archive)
    assert pi.files() == before
    assert pi.leftovers() == []


def test_what_the_disk_refuses_is_told_in_words(pi: Pi, capsys: pytest.CaptureFixture[str]) -> None:
    missing = pi.folder / "none.tar.gz"
    assert pi.step("unpack", str(missing), "--id", "gw-south") == 1
    assert capsys.readouterr().err == f"restore: {missing}: No such file or directory\n"
    archive = pi.archive()
    os.mkfifo(pi.config / "pipe")
    assert pi.step("unpack", str(archive), "--id", "gw-south") == 1
    said = capsys.readouterr().err
    assert said.startswith("restore: ") and said.endswith("is a named pipe\n") and "[(" not in said
    assert pi.leftovers() == []


def test_an_archive_of_other_folders_is_not_unpacked(pi: Pi) -> None:
    archive = pi.archive()
    other = pi.folder / "srv/hedgerow"
    shutil.copytree(pi.config, other)
    with pytest.raises(restore.RestoreError) as raised:
        restore.unpack(archive, "gw-south", other, pi.state)
    assert str(raised.value) == (
        f"{archive} is of {pi.config} and {pi.state}, and this gateway has {other} and {pi.state}:"
        " it is not unpacked"
    )
    assert pi.leftovers() == []


def test_a_folder_that_is_a_file_system_of_its_own_is_refused(
    pi: Pi, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pi.archive()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == pi.state)
    with pytest.raises(restore.RestoreError) as raised:
        pi.unpack(archive)
    assert str(raised.value) == (
        f"{pi.state} is a file system of its own and can't be replaced by a rename: have"
        " gateway_state_dir name a folder in it"
    )


def test_what_was_unpacked_is_the_services_and_the_configuration_its_groups(
    pi: Pi, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pi.config / "passwords").touch()
    (pi.config / "psk").touch()
    archive = pi.archive()
    pi.unpack(archive)
    owned: dict[str, tuple[str | None, str | None]] = {}

    def own(path: Path, user: str | None = None, group: str | None = None) -> None:
        owned[str(path.relative_to(pi.folder))] = (user, group)

    monkeypatch.setattr(shutil, "chown", own)
    restore.own("gw", pi.config, pi.state)
    both, group = ("gw", "gw"), (None, "gw")
    assert owned == {
        "var/lib/hedgerow.restore": both,
        "var/lib/hedgerow.restore/log": both,
        "var/lib/hedgerow.restore/log/0.log": both,
        "var/lib/hedgerow.restore/boot_epoch": both,
        f"var/lib/hedgerow.restore/{restore.MARK}": both,
        "etc/hedgerow.restore": group,
        "etc/hedgerow.restore/hedgerow.toml": group,
        "etc/hedgerow.restore/passwords": both,
    }


def test_what_stays_of_the_configuration_stays_its_owners(
    pi: Pi, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = pi.archive()
    (pi.config / "link").symlink_to("nowhere")
    owners = {path: (number, number + 100) for number, path in enumerate(pi.config.rglob("*"), 7)}
    owners[pi.config] = (5, 6)
    lstat = Path.lstat
    monkeypatch.setattr(
        Path,
        "lstat",
        lambda path: (
            SimpleNamespace(st_uid=owners[path][0], st_gid=owners[path][1])
            if path in owners
            else lstat(path)
        ),
    )
    owned: dict[Path, tuple[int, int]] = {}

    def own(path: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        owned[path] = (user, group)

    monkeypatch.setattr(os, "chown", own)
    pi.unpack(archive)
    copy = restore.beside(pi.config)
    assert owned == {copy / path.relative_to(pi.config): of for path, of in owners.items()}


def test_a_user_that_is_not_there_leaves_nothing_unpacked(
    pi: Pi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, before = pi.archive(), pi.files()
    folders = ["--config", str(pi.config), "--state", str(pi.state)]
    asked = ["unpack", str(archive), "--id", "gw-south", "--user", "nobody-of-this-name"]
    monkeypatch.setattr("sys.argv", ["restoring", *asked, *folders])
    assert restore.main() == 1
    assert "nobody-of-this-name" in capsys.readouterr().err
    assert pi.files() == before
    assert pi.leftovers() == []


def test_a_restore_without_an_archive_is_a_wrong_call(
    pi: Pi, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        pi.step("unpack")
    assert ended.value.code == 2
    assert "unpack what? name the archive" in capsys.readouterr().err


def test_a_restore_of_which_half_is_in_place_is_not_kept_and_one_that_is_well_not_undone(
    pi: Pi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pi.unpack(pi.archive())
    with monkeypatch.context() as patched:
        cut_off(patched, 1)
        with contextlib.suppress(BaseException):
            restore.swap(pi.config, pi.state)
    assert restore.is_of_backup(pi.config)
    assert not restore.is_of_backup(pi.state)
    assert pi.step("keep") == 1
    assert capsys.readouterr().err == (
        f"restore: {pi.state} is not of the backup yet: play restore.yml again\n"
    )
    restore.swap(pi.config, pi.state)
    (pi.config / restore.MARK).unlink()  # as far as `keep` came
    assert pi.step("undo") == 1
    assert capsys.readouterr().err == (
        "restore: the backup was found to be well before: play it with keep\n"
    )
    assert pi.step("keep") == 0
    assert pi.leftovers() == []


def test_what_can_not_change_places_is_named(pi: Pi, capsys: pytest.CaptureFixture[str]) -> None:
    pi.unpack(pi.archive())
    shutil.rmtree(pi.config)
    assert pi.step("swap") == 1
    assert capsys.readouterr().err == f"restore: {pi.config}: No such file or directory\n"
