"""Faults of a configuration are told with the lines that they stand in."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from gateway.process.running.configuration_faults import LineFault, faults_of, in_words

WHOLE = """[gateway]
id = "gw-a"
state_dir = "state"
[tree]
tls = "off"
key_file = "key"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where the configuration is, beside what it names."""
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    return tmp_path / "gw.toml"


def lines(text: str | bytes, file: Path) -> list[tuple[int, str, str]]:
    data = text if isinstance(text, bytes) else text.encode()
    return [(one.line, one.where, one.why) for one in faults_of(data, file)]


@pytest.mark.parametrize(
    ("fault", "told", "said"),
    [
        (LineFault(3, "mqtt.port", "too high"), "g:3: mqtt.port: too high", "mqtt.port: too high"),
        (LineFault(0, "mqtt.port", "missing"), "g: mqtt.port: missing", "mqtt.port: missing"),
        (LineFault(3, "", "not TOML"), "g:3: not TOML", "not TOML"),
        (LineFault(0, "", "not TOML", "mend it"), "g: not TOML", "not TOML; mend it"),
        (LineFault(1, "a.b", "no", "mend it"), "g:1: a.b: no", "a.b: no; mend it"),
    ],
)
def test_a_fault_names_the_line_and_the_field_that_it_is_in(
    fault: LineFault, told: str, said: str
) -> None:
    assert (fault.told(Path("g")), str(fault)) == (told, said)


def test_of_a_configuration_without_a_fault_nothing_is_told(file: Path) -> None:
    assert lines(WHOLE, file) == []


def test_each_line_that_is_wrong_by_itself_is_told_and_all_others_are_looked_at(file: Path) -> None:
    text = WHOLE.replace("[tree]", "x = = 1\n[tree]") + "[mqtt]\nport = 70000\ny = 1 1\n"
    found = lines(text, file)
    assert [(line, where) for line, where, _ in found] == [(4, ""), (10, ""), (9, "mqtt.port")]
    assert all(why.startswith("not TOML: ") for _, where, why in found if not where)
    assert not any("(at line" in why for _, _, why in found)


@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
def test_what_has_no_end_is_told_of_in_the_last_line_with_a_text(file: Path, end: str) -> None:
    ((line, where, why),) = lines(f"{WHOLE}[mqtt]\nport = [\n# 1{end}", file)
    assert (line, where) == (9, "")
    assert why.startswith("not TOML: ")


def test_a_line_that_is_wrong_beside_others_alone_ends_the_look(file: Path) -> None:
    found = lines("[gateway]\nid = 1\n[gateway]\nport = = 1\n", file)
    assert [(line, where) for line, where, _ in found] == [(3, "")]


def test_a_line_that_is_no_utf_8_is_told_by_its_number_and_so_is_a_mark_before_all(
    file: Path,
) -> None:
    data = codecs.BOM_UTF8 + WHOLE.encode() + b"# caf\xe9\n# \xff\n"
    found = lines(data, file)
    assert [(line, where) for line, where, _ in found] == [(1, ""), (7, ""), (8, "")]
    assert "byte order mark" in found[0][2]
    assert all("UTF-8" in why for _, _, why in found[1:])


def test_the_value_that_is_refused_says_which_of_several_lines_is_meant(file: Path) -> None:
    text = WHOLE.replace(
        'key_file = "key"', 'key_file = "key"\nneighbours = [\n  "10.0.0.1:1",\n  "10.0.0.2:x",\n]'
    )
    ((line, where, why),) = lines(text, file)
    assert where.startswith("tree.neighbours")
    assert "'10.0.0.2:x'" in why
    assert line == 9


def test_faults_are_said_in_the_order_of_their_lines_and_then_of_their_fields(file: Path) -> None:
    text = WHOLE + "[mqtt]\nport = 70000\n[console]\nport = 70001\n"
    text = text.replace('id = "gw-a"', 'id = "gw a"')
    fields = [one.partition(":")[0] for one in in_words(text.encode(), file)]
    assert fields == ["gateway.id", "mqtt.port", "console.port"]
    assert in_words(b"", file) == sorted(in_words(b"", file))


def test_what_a_start_would_find_in_files_is_told_beside_what_is_in_the_text(file: Path) -> None:
    text = WHOLE + '[access]\npassword_file = "none"\npolicy_file = "neither"\n'
    text += '[coap]\npsk_file = "no-keys"\n[console]\nport = 70001\n'
    found = {(line, where) for line, where, _ in lines(text, file)}
    assert found == {
        (8, "access.password_file"),
        (9, "access.policy_file"),
        (11, "coap.psk_file"),
        (13, "console.port"),
    }
    file.with_name("key").unlink()
    assert [where for _, where, _ in lines(WHOLE, file)] == ["tree.key_file"]


def test_of_several_sensors_all_that_is_wrong_is_told(file: Path) -> None:
    text = WHOLE + (
        '[[sensors]]\ntype = "switch"\nname = "a"\nformat = "xml"\nnone = 1\n'
        '[[sensors]]\ntype = "no-driver"\n'
        '[[sensors]]\ntype = "switch"\nname = "c"\ninterval_s = -2\nformat = "xml"\n'
    )
    fields = {where for _, where, _ in lines(text, file)}
    assert fields == {
        "sensors[0].format",
        "sensors[0].none",
        "sensors[1].type",
        "sensors[2]",
        "sensors[2].format",
    }


@pytest.mark.parametrize("is_on", [False, True])
def test_a_topic_that_home_assistant_needs_is_told_of_where_it_is_announced_to(
    file: Path, *, is_on: bool
) -> None:
    text = WHOLE + f"[home_assistant]\ndiscovery = {str(is_on).lower()}\n"
    text += '[[sensors]]\ntype = "switch"\nname = "availability"\nformat = "json"\n'
    found = [where for _, where, _ in lines(text, file)]
    assert found == (["sensors[0].name"] if is_on else [])
