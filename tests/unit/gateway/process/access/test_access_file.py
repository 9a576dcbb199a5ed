"""Goal: a policy is read as it is written, or the error names the file and the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.trust.policy.faults import AccessFileError, read_access_file
from gateway.trust.policy.older import AccessPolicy, Rules
from gateway.trust.policy.older_file import parse_policy

POLICY = """\
# Who may do what.
[default]
subscribe = ["public/#", "$SYS/#"]

[roles.sensor]
publish = ["campus/north/%c/#"]

[users.alice]
publish = ["#"]
subscribe = [
    "#",
]
deliver = ["campus/#"]

[users."o'hara.b"]
"""


def test_a_policy_is_read_as_written() -> None:
    assert parse_policy(POLICY, "access.toml") == AccessPolicy(
        Rules(subscribe=("public/#", "$SYS/#")),
        {"sensor": Rules(publish=("campus/north/%c/#",))},
        {
            "alice": Rules(publish=("#",), subscribe=("#",), deliver=("campus/#",)),
            "o'hara.b": Rules(),
        },
    )


def test_an_empty_policy_has_no_rules() -> None:
    assert parse_policy("", "access.toml") == AccessPolicy()


def test_a_policy_can_be_a_section_of_another_file() -> None:
    text = '[mqtt]\nport = 1883\n\n[access.policy.users.alice]\npublish = ["a"]\n'
    policy = parse_policy(text, "gateway.toml", ("access", "policy"))
    assert policy == AccessPolicy(users={"alice": Rules(publish=("a",))})
    with pytest.raises(AccessFileError, match=r"^gateway.toml:2: no section \[mqtt.port\]$"):
        parse_policy(text, "gateway.toml", ("mqtt", "port"))
    with pytest.raises(AccessFileError, match=r"^gateway.toml: no section \[access.rules\]$"):
        parse_policy(text, "gateway.toml", ("access", "rules"))


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("[default]\npublish = [\n", 2, "not TOML"),
        ("[default]\npublish = a\n", 2, "not TOML"),
        ("[default]\n\n[defualt]\n", 3, "defualt"),
        ("roles = 1\n", 1, "roles: is no table"),
        ("[users]\nbob = {}\nalice = 3\n", 3, "users.alice: is no table"),
        ("[default]\n\n[users.alice]\npublish = ['a']\nwrite = ['b']\n", 5, "users.alice.write"),
        ("[users.alice]\npublish = 'a'\n", 2, "users.alice.publish: is no list of texts"),
        ("[users.alice]\npublish = ['a', 1]\n", 2, "no list of texts"),
        ("[users.a]\npublish = ['x']\n[users.b]\npublish = [\n 'x',\n 'x/#/y',\n]\n", 6, "x/#/y"),
        ("[users]\na = {publish = ['ok']}\nb = {publish = ['%z'], deliver = []}\n", 3, "%z"),
        ("users.a.publish = ['ok']\nusers.b.publish = ['a+']\n", 2, "a+"),
        ("[default]\nsubscribe = ['$hedgerow/#']\n", 2, "opens a '$' topic"),
        ("[default]\ndeliver = [\n'a+x/#',\n'a/+',\n'a+',\n]\n", 3, "a+x/#"),
        ("[default]\npublish = ['$']\ndeliver = [\n'x',\n'''\na+''']\n", 2, "'$' topic"),
        ("[default]\ndeliver = [\n'x',\n'''\na+''']\n", 5, "topic"),
        ('[default]\npublish = [\n  "\\u0024x",\n]\n', 2, "opens a '$' topic"),
    ],
)
def test_an_error_names_the_file_and_the_line(text: str, line: int, part: str) -> None:
    with pytest.raises(AccessFileError) as caught:
        parse_policy(text, "access.toml")
    assert str(caught.value).startswith(f"access.toml:{line}: ")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_is_right_in_a_section_of_another_file() -> None:
    text = "[default]\npublish = ['a+']\n[x.default]\npublish = ['b']\nsubscribe = ['a+']\n"
    with pytest.raises(AccessFileError) as caught:
        parse_policy(text, "gateway.toml", ("x",))
    assert caught.value.line == 5


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessFileError, match=r"none\.toml: No such file"):
        read_access_file(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(AccessFileError, match=r"bytes\.toml:2: not UTF-8"):
        read_access_file(tmp_path / "bytes.toml")
    (tmp_path / "good.toml").write_text(POLICY)
    assert read_access_file(tmp_path / "good.toml") == POLICY
