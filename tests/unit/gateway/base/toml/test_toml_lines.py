"""Goal: each key of a TOML document is found in the lines in which it stands."""

from __future__ import annotations

import json
import tomllib

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.toml.toml_lines import KeyLines

TEXT = '''\
# a comment with [brackets] and x = 1
top = 1

[tree]   # the tree
name = "a = b"
neighbours = [
    "10.0.0.1:8883",  # ]
    "10.0.0.2:8883",
    "nowhere",
]
text = """
[mqtt]
port = 1
"""
mode.deep = { x = 1, y = [2, 3] }

[mqtt.plugins."package.Class"]
one = 1
[[sensors]]
type = "host"
[[sensors]]
type = "replay"
[sensors.attributes]
unit = "C"
[[sensors.parts]]
n = 1
[[sensors.parts]]
n = 2
'''


def test_each_kind_of_key_is_found() -> None:
    lines = KeyLines(TEXT)
    for where, line in {
        "top": 2,
        "tree": 4,
        "tree.name": 5,
        "tree.neighbours": 6,
        "tree.neighbours[0]": 7,
        "tree.neighbours[2]": 9,
        "tree.text": 11,
        "tree.mode": 15,
        "tree.mode.deep.y": 15,
        "mqtt.plugins.package.Class.one": 18,
        "sensors[0].type": 20,
        "sensors[1].type": 22,
        "sensors[1].attributes.unit": 24,
        "sensors[1].parts[1].n": 28,
    }.items():
        assert lines.first(where) == line, where
    assert list(lines.of("tree.neighbours")) == [6, 7, 8, 9, 10]
    assert list(lines.of("tree.text")) == [11, 12, 13, 14]
    assert lines.first("tree.neighbours", "nowhere") == 9


def test_what_is_not_there_stands_where_it_belongs_and_else_nowhere() -> None:
    lines = KeyLines(TEXT)
    assert lines.first("tree.tls") == 4
    assert lines.first("sensors[1].speed") == 21
    assert lines.first("console.port") == 0


KEYS = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
LEAVES = st.one_of(
    st.integers(-9, 9).map(str),
    st.text(st.sampled_from('ab[]#=."'), max_size=6).map(json.dumps),
    st.lists(st.text(st.sampled_from("ab[]#='"), max_size=4), max_size=4).map(
        lambda items: "[\n" + "".join(f"  {json.dumps(item)},  # ]\n" for item in items) + "]"
    ),
    st.lists(st.sampled_from(["a", "[b]", "c = 1", "#"]), max_size=3).map(
        lambda rows: "'''\n" + "\n".join(rows) + "'''"
    ),
)
SECTION = st.dictionaries(KEYS, LEAVES, max_size=4)


@given(st.lists(st.tuples(KEYS, st.booleans(), SECTION), max_size=5))
def test_the_line_of_every_key_of_any_document_is_found(
    sections: list[tuple[str, bool, dict[str, str]]],
) -> None:
    text, expected, kinds, counts = "", {}, {}, {}
    for name, is_array, keys in sections:
        if kinds.setdefault(name, is_array) != is_array or (name in counts and not is_array):
            continue
        counts[name] = counts.get(name, -1) + 1
        path = f"{name}[{counts[name]}]" if is_array else name
        text += "# [x]\n"
        expected[path] = text.count("\n") + 1
        text += f"[[{name}]]\n" if is_array else f"[{name}]\n"
        for key, value in keys.items():
            expected[f"{path}.{key}"] = text.count("\n") + 1
            text += f"{key} = {value}\n"
    tomllib.loads(text)
    lines = KeyLines(text)
    assert {where: lines.first(where) for where in expected} == expected
