"""The file of mapping rules: what fits which topic, and errors that name their key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_ingest.mapping.rules import MAX_RULES, MappingError, read
from cloud_ingest.mapping.sources import MAX_SOURCE_LENGTH
from cloud_ingest.mapping.topics import TopicFilter

JSON = '[[mapping]]\nformat = "json"\ntopic = "p/{line}/data"\n'
ONE = 'measurements = [{sensor = "{line}/a", value = "$.a"}]\n'


@pytest.mark.parametrize(
    ("text", "topic", "parts"),
    [
        ("a/b", "a/b", {}),
        ("a/b", "a/bb", None),
        ("a/+/c", "a/x/c", {}),
        ("a/+/c", "a//c", {}),
        ("a/+/c", "a/x/y/c", None),
        ("p/{line}/{cell}", "p/1/2", {"line": "1", "cell": "2"}),
        ("p/{line}/#", "p/1", {"line": "1"}),
        ("p/{line}/#", "p/1/2/3", {"line": "1"}),
        ("p/#", "pp/1", None),
        ("#", "any/topic", {}),
        ("#", "$own/topic", None),
        ("{a}/b", "$own/b", None),
        ("$own/{a}", "$own/b", {"a": "b"}),
        ("a.c/+", "abc/x", None),
        ("p/{a}", "p/line\nbreak", {"a": "line\nbreak"}),
    ],
)
def test_a_topic_fits_as_in_mqtt_and_its_named_levels_are_found(
    text: str, topic: str, parts: dict[str, str] | None
) -> None:
    assert TopicFilter(text).match(topic) == parts


@given(st.lists(st.text(alphabet="ab/+#{}", max_size=8), max_size=5).map("/".join), st.text())
def test_a_filter_is_refused_or_takes_any_topic(text: str, topic: str) -> None:
    try:
        read_filter = TopicFilter(text)
    except ValueError:
        return
    parts = read_filter.match(topic)
    assert parts is None or set(parts) == set(read_filter.names)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[[mapping", "at end of document|line 1"),
        ("[mapping]", "mapping: Expected `array`"),
        ("rules = 1", "unknown field `rules`"),
        ('[[mapping]]\ntopic = "a"', r"mapping\[0\]: .*`format`"),
        ('[[mapping]]\ntopic = "a"\nformat = "xml"', r"mapping\[0\].format: .*xml"),
        ('[[mapping]]\nformat = "raw"\nsensor = "a"', r"mapping\[0\]: .*`topic`"),
        ('[[mapping]]\nformat = "raw"\ntopic = "a"', r"mapping\[0\]: .*`sensor`"),
        (JSON, r"mapping\[0\]: .*`measurements`"),
        (JSON + "measurements = []", r"mapping\[0\].measurements: .*>= 1"),
        (JSON + ONE + "units = 1", r"mapping\[0\]: .*`units`"),
        (JSON + ONE + 'time-unit = "min"', r"mapping\[0\].time-unit: .*min"),
        (JSON + ONE + 'time = "at"', r"mapping\[0\]: time: 'at' is no path"),
        (JSON + ONE + 'quality = "$..q"', r"mapping\[0\]: quality: '\$..q' is no path"),
        (
            JSON + ONE + 'quality-words = {OK = "fine"}',
            r"mapping\[0\].quality-words\[...\]: .*fine",
        ),
        (
            JSON + ONE + 'tags = {a = "{cell}"}',
            r"mapping\[0\]: tags.a: {cell} is not known: {line}",
        ),
        (
            JSON + 'measurements = [{sensor = "a", value = "a"}]',
            r"mapping\[0\]: measurements\[0\].value: 'a' is no path",
        ),
        (
            JSON + 'measurements = [{sensor = "{line", value = "$.a"}]',
            r"mapping\[0\]: measurements\[0\].sensor: '{line': a brace without its other",
        ),
        (
            JSON + 'measurements = [{sensor = "a", value = "$.a", kind = "int"}]',
            r"mapping\[0\].measurements\[0\].kind: .*int",
        ),
        (
            (JSON + ONE) + '[[mapping]]\nformat = "raw"\nsensor = "a"\ntopic = "a/b#"',
            r"mapping\[1\]: topic: 'b#' is no whole level",
        ),
        (JSON.replace("p/", "#/") + ONE, r"mapping\[0\]: topic: '#' is no whole level"),
        (JSON.replace("data", "{line}") + ONE, r"mapping\[0\]: topic: 'line' stands twice"),
        (JSON.replace("line", "Line") + ONE, r"mapping\[0\]: topic: 'Line' is no name"),
        (JSON.replace("line", "name") + ONE, r"mapping\[0\]: topic: {name} has a meaning"),
        (JSON.replace("p/{line}/data", "") + ONE, r"mapping\[0\]: topic: not 1 to"),
        ((JSON + ONE) * (MAX_RULES + 1), "mapping: .*length <= "),
        (
            JSON + f'measurements = [{{sensor = "a", value = "$.{"a" * MAX_SOURCE_LENGTH}"}}]',
            rf"mapping\[0\]: measurements\[0\].value: longer than {MAX_SOURCE_LENGTH} char",
        ),
    ],
)
def test_an_error_names_its_key(text: str, where: str) -> None:
    with pytest.raises(MappingError, match=where):
        read(text)


def test_the_documented_file_is_read() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cloud.md").read_text()
    text = page.partition("```toml\n# mappings.toml\n")[2].partition("```")[0]
    formats = [type(rule).__name__ for rule in read(text)]
    assert formats == ["JsonRule", "TextRule", "SenmlRule", "SparkplugRule", "RawRule"]
