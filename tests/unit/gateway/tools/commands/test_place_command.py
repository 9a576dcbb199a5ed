"""`hedgerow place` changes two lines of a configuration and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools import cli
from gateway.tools.commands.placing import rewritten
from tree_handler.members.place import Place

CONFIG = """# a gateway
[gateway]
id = "gw"
domain = "campus"   # of old
group = "north"
[tree]
name = "domain"
"""
PLACES = st.sampled_from([Place(), Place("campus"), Place("harbour", "east")])


def place(folder: Path, wanted: str, text: str = CONFIG) -> tuple[int, str]:
    file = folder / "gateway.toml"
    file.write_text(text)
    return cli.main(["place", wanted, "--config", str(file)]), file.read_text()


def test_both_lines_are_changed_and_all_else_stays(tmp_path: Path) -> None:
    code, text = place(tmp_path, "harbour/east")
    expected = CONFIG.replace('"campus"   #', '"harbour"  #').replace('"north"', '"east"')
    assert (code, text) == (0, expected)


def test_what_is_not_there_is_added_to_the_section(tmp_path: Path) -> None:
    code, text = place(tmp_path, "harbour/east", '[gateway]\nid = "gw"\n[tree]\n')
    assert code == 0
    assert tomllib.loads(text) == {
        "gateway": {"id": "gw", "domain": "harbour", "group": "east"},
        "tree": {},
    }


def test_a_gateway_can_go_to_the_root_level(tmp_path: Path) -> None:
    code, text = place(tmp_path, "/")
    own = tomllib.loads(text)["gateway"]
    assert (code, own["domain"], own["group"]) == (0, "", "")


@pytest.mark.parametrize(
    ("wanted", "text", "why"),
    [
        ("/north", CONFIG, "group without a domain"),
        ("Campus", CONFIG, "'Campus' is no DOMAIN"),
        ("campus/a/b", CONFIG, "is no DOMAIN"),
        ("campus", "[tree]\n", "no section [gateway]"),
        ("campus", "[gateway", "gateway.toml"),
        ("harbour", 'gateway = { id = "gw", domain = "campus" }\n', "no lines of their own"),
    ],
)
def test_what_can_not_be_done_is_named_and_the_file_stays(
    tmp_path: Path, wanted: str, text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place(tmp_path, wanted, text) == (2, text)
    assert why in capsys.readouterr().err


@given(PLACES, PLACES)
def test_the_new_place_stands_there_whatever_the_old_one_was(old: Place, new: Place) -> None:
    text = rewritten(rewritten(CONFIG, old), new)
    own = tomllib.loads(text)["gateway"]
    assert (own.get("domain", ""), own.get("group", "")) == (new.domain, new.group)
    assert tomllib.loads(text)["tree"] == {"name": "domain"}


@pytest.mark.parametrize("text", ['gateway = {other = """\n"""}\n', "gateway.other = [1,\n2]\n"])
def test_a_section_that_leaves_no_room_for_a_line_is_not_changed(text: str) -> None:
    with pytest.raises(ValueError, match="stand in no lines of their own: edit them"):
        rewritten(text, Place("campus"))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("harbour/east", "harbour/east, for a gateway that runs from its next reload on"),
        ("campus/north", "campus/north"),
    ],
)
def test_it_is_said_when_a_place_counts(
    tmp_path: Path, wanted: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place(tmp_path, wanted, CONFIG.replace("   #", "  #"))[0] == 0
    assert capsys.readouterr().out == f"{tmp_path / 'gateway.toml'}: {said}\n"


def test_the_end_of_a_line_stays_as_it_is_written() -> None:
    text = '[gateway]\r\nid = "gw"\r\ndomain = "a"\r\n'
    assert rewritten(text, Place("b")) == text.replace('"a"', '"b"')


def test_a_file_that_is_no_text_or_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gateway.toml"
    assert cli.main(["place", "a", "--config", str(file)]) == 2
    assert capsys.readouterr().err == f"hedgerow: {file}: No such file or directory\n"
    file.write_bytes(b"[gateway]\nid = '\xff'\n")
    assert cli.main(["place", "a", "--config", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"hedgerow: {file}: 'utf-8' codec can't decode")
