"""The Debian package of Hedgerow: its version, unit, files and scripts."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[3] / "deploy"
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")

# No package holds this one: it is of the build alone.
sys.path.insert(0, str(DEPLOY / "debian"))

import package  # noqa: E402


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("root")
    package.fill(made, package.Kind.parse("cp313-aarch64"), "1.0+deb13")
    return made


def test_a_later_debians_package_is_the_higher_version() -> None:
    old, new = (package.Kind.parse(f"{abi}-x86_64").version("1.0") for abi in ("cp311", "cp313"))
    compared = ["dpkg", "--compare-versions", old, "lt", new]
    subprocess.run(compared, check=True, timeout=60)


def test_a_kind_that_no_debian_has_is_named_beside_those_that_there_are() -> None:
    with pytest.raises(package.PackageError, match="'cp312-x86_64' is none of cp311-x86_64"):
        package.Kind.parse("cp312-x86_64")


def test_the_package_needs_the_python_that_its_environment_is_of(root: Path) -> None:
    control = (root / "DEBIAN/control").read_text()
    assert "\nDepends: python3.13," in control
    assert "\nArchitecture: arm64\n" in control
    assert (root / "usr/lib/hedgerow/bin/python3").readlink() == Path("/usr/bin/python3.13")


def test_the_unit_runs_the_packages_program_where_the_machine_is_a_gateway(root: Path) -> None:
    unit = (root / "usr/lib/systemd/system/hedgerow.service").read_text()
    starter = root / "usr/lib/hedgerow/interpreter/interpreter.sh"
    assert starter.stat().st_mode & 0o777 == 0o755
    program = "/usr/lib/hedgerow/interpreter/interpreter.sh run /usr/lib/hedgerow"
    options = "run --config /etc/hedgerow/hedgerow.toml $HEDGEROW_OPTIONS"
    assert f"\nExecStart={program} {options}\n" in unit
    assert "\nExecStartPre=" not in unit, "dpkg keeps the package's Python"
    head, _, rest = unit.partition("[Service]")
    assert "\nConditionPathExists=/etc/hedgerow/hedgerow.toml\n" in head
    assert "\nUser=hedgerow\n" in rest
    assert "\nStateDirectory=hedgerow\n" in rest


def test_a_first_start_is_opened_by_a_file_on_the_card_alone(root: Path) -> None:
    units = root / "usr/lib/systemd/system"
    text = (units / "multi-user.target.wants/hedgerow-first-start.service").read_text()
    card = "/boot/firmware/hedgerow-first-start.txt"
    head, _, rest = text.partition("[Service]")
    assert f"\nConditionPathExists={card}\n" in head
    assert f"\nLoadCredential=hedgerow-first-start:{card}\n" in rest
    assert "\nUser=hedgerow\n" in rest
    program = "/usr/lib/hedgerow/interpreter/interpreter.sh run /usr/lib/hedgerow"
    assert f"\nExecStart={program} first-start /etc/hedgerow\n" in rest
    assert rest.count("=+") == 2, "root's steps"


def test_each_file_of_etc_is_one_that_an_upgrade_leaves_as_the_operator_wrote_it(
    root: Path,
) -> None:
    files = {f"/{path.relative_to(root)}" for path in (root / "etc").rglob("*") if path.is_file()}
    assert files == set((root / "DEBIAN/conffiles").read_text().split())


def test_nothing_in_it_names_the_machine_that_built_it(root: Path) -> None:
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".gz":
            assert str(DEPLOY.parent) not in path.read_text(), path


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_of_the_package_is_one_that_a_shell_can_read(root: Path, name: str) -> None:
    script = root / "DEBIAN" / name
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["sh", "-n", str(script)], check=True, timeout=60)


def test_others_may_read_what_was_built_with_a_umask_that_hides_it(tmp_path: Path) -> None:
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True, mode=0o700)
    (folder / "bin/run").write_text("")
    (folder / "bin/run").chmod(0o700)
    (folder / "text").write_text("")
    (folder / "text").chmod(0o600)
    package.readable_by_all(folder)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    assert modes == {"bin": 0o755, "run": 0o755, "text": 0o644}
