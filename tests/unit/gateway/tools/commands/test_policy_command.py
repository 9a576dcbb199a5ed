"""`hedgerow policy`: what is wrong with a policy, and why somebody may do something or may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.process.configuration import place as config_place
from gateway.tools import cli

POLICY = """version = 1
[principals]
"psk:pump" = ["water"]
"psk:*" = ["device"]
[roles.water]
includes = ["reader"]
allow = ["PUT /sensors/valve"]
[[rules]]
who = ["water"]
at = ["campus/south"]
deny = ["write /sensors/#"]
[vouch]
"gw-b" = ["water"]
"""
CONFIGURATION = """[gateway]
id = "gw-a"
domain = "campus"
group = "north"
state_dir = "state"
[coap]
public = ["/sensors"]
[tree]
key_file = "tree.key"
discovery = false
tls = "off"
[access]
"""

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "access.toml"
    path.write_text(POLICY)
    for name, text in (("tree.key", "ab" * 32), ("psk", f"pump:{'ab' * 16}\n")):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_text(text)
    return path


def configured(file: Path, access: str = 'policy_file = "access.toml"', coap: str = "") -> Path:
    config = file.parent / "gateway.toml"
    text = CONFIGURATION.replace("[tree]", f"{coap}\n[tree]")
    config.write_text(f"{text}{access}\n")
    return config


def told(printed: Printed, *arguments: str) -> tuple[int, str]:
    code = cli.main(["policy", *arguments])
    captured = printed.readouterr()
    return code, captured.out + captured.err


@pytest.mark.parametrize(
    ("arguments", "code", "lines"),
    [
        (
            ("psk:pump", "PUT", "/sensors/valve"),
            0,
            'psk:pump, roles: water (principals."psk:pump")\n'
            "PUT /sensors/valve: allowed: allow water: PUT /sensors/valve "
            "({}:7: roles.water.allow)\n",
        ),
        (
            ("psk:pump", "PUT /sensors/valve", "--at", "campus/south/gw-c"),
            1,
            'psk:pump, roles: water (principals."psk:pump")\n'
            "PUT /sensors/valve at campus/south/gw-c: denied: deny water: PUT /sensors/# at "
            "campus/south ({}:11: rules[0].deny)\n",
        ),
        (
            ("psk:lamp", "PUT", "/sensors/valve"),
            1,
            'psk:lamp, roles: device (principals."psk:*")\n'
            "PUT /sensors/valve: denied: no rule allows it\n",
        ),
        (
            ("user:anna", "publish", "a/b"),
            1,
            "user:anna, roles: reader (access.default_roles)\n"
            "publish a/b: denied: no rule allows it\n",
        ),
        (
            ("stranger", "GET /status"),
            1,
            "stranger, roles: none (nobody gives it any)\nGET /status: denied: no rule allows it\n",
        ),
        (
            ("local", "console /metrics"),
            0,
            "local, roles: on-site (built in)\n"
            "console /metrics: allowed: allow on-site: console /# (built-in role on-site)\n",
        ),
        (
            ("cert:anna", "drain", "--role", "admin"),
            0,
            "cert:anna, roles: admin (of its certificate)\n"
            "drain: allowed: allow admin: drain (built-in role admin)\n",
        ),
        (
            ("psk:pump", "PUT /sensors/valve", "--via", "gw-b"),
            0,
            "psk:pump, roles: reader, water (what gw-b may vouch for)\n"
            "PUT /sensors/valve: allowed: allow water: PUT /sensors/valve "
            "({}:7: roles.water.allow)\n",
        ),
        (
            ("psk:pump", "PUT /sensors/valve", "--via", "gw-x"),
            1,
            "psk:pump, roles: reader (what gw-x may vouch for)\n"
            "PUT /sensors/valve: denied: no rule allows it\n",
        ),
    ],
)
def test_explain_says_which_rule_decides_and_where_it_stands(
    capsys: Printed, file: Path, arguments: tuple[str, ...], code: int, lines: str
) -> None:
    found = told(capsys, "explain", *arguments, "--file", str(file))
    assert found == (code, lines.replace("{}", str(file)))


def test_explain_goes_by_a_configuration_and_what_it_marks_public(
    capsys: Printed, file: Path
) -> None:
    config = str(configured(file))
    code, text = told(capsys, "explain", "stranger", "GET /sensors/valve", "--config", config)
    assert code == 0
    assert text.endswith(
        "GET /sensors/valve at campus/north/gw-a: allowed: allow *: GET /sensors/# (coap.public)\n"
    )
    code, text = told(capsys, "explain", "stranger", "GET /status", "--config", config)
    assert code == 1
    assert text.endswith(": denied: no rule allows it\n")


def test_explain_for_scripts(capsys: Printed, file: Path) -> None:
    arguments = ("explain", "psk:pump", "drain", "--json", "--file", str(file))
    code, text = told(capsys, *arguments)
    assert code == 1
    assert json.loads(text) == {
        "principal": "psk:pump",
        "roles": ["water"],
        "action": "drain",
        "allowed": False,
        "why": "no rule allows it",
    }


@pytest.mark.parametrize(
    ("access", "actions"),
    [
        ("anonymous = true", {"publish a/b": 0, "PUT /sensors/valve": 0, "drain": 0}),
        (
            'anonymous = true\npolicy_file = "access.toml"',
            {"publish a/b": 1, "PUT /sensors/valve": 1, "drain": 1},
        ),
        ("", {"publish a/b": 1, "subscribe a/b": 1, "GET /sensors/valve": 0}),
    ],
    ids=["open", "open, with a policy", "closed"],
)
def test_what_strangers_may_by_the_configuration(
    capsys: Printed, file: Path, access: str, actions: dict[str, int]
) -> None:
    config = str(configured(file, access))
    for action, code in actions.items():
        assert told(capsys, "explain", "stranger", action, "--config", config)[0] == code


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("psk:", "GET /"), "'psk:' is none of psk:NAME"),
        (("nobody", "GET /"), "'nobody' is none of psk:NAME"),
        (("local", "READ", "/"), "'READ /' begins with none of publish"),
        (("local", "GET"), "'GET' has no topic or path"),
        (("local",), "explain: needs PRINCIPAL and ACTION"),
        (("local", "drain", "now"), "'drain now' has a target, and there is none"),
    ],
)
def test_what_can_not_be_explained_is_named(
    capsys: Printed, file: Path, arguments: tuple[str, ...], line: str
) -> None:
    code, text = told(capsys, "explain", *arguments, "--file", str(file))
    assert (code, text.count("\n")) == (2, 1)
    assert line in text


def test_check_tells_all_that_is_wrong_with_its_lines(capsys: Printed, file: Path) -> None:
    file.write_text('version = 1\nprincipals = {"psk:a" = ["boss"]}\nrule = []\n')
    code, text = told(capsys, "check", str(file))
    assert code == 2
    assert text.splitlines() == [
        f"{file}:2: principals.psk:a: there is no role 'boss'",
        f"{file}:3: rule: is none of version, principals, roles, rules, vouch",
    ]


def test_check_tells_what_is_odd_and_it_is_right_all_the_same(capsys: Printed, file: Path) -> None:
    assert told(capsys, "check", str(file)) == (0, f"{file}: nothing is wrong\n")
    file.write_text(POLICY.replace("[roles.water]", "[roles.fire]\n[roles.water]"))
    code, text = told(capsys, "check", str(file))
    assert (code, text) == (
        0,
        f"{file}: roles.fire: nobody has this role, but for certificates that name it\n",
    )
    code, text = told(capsys, "check", str(file), "--json")
    assert (code, json.loads(text)["faults"]) == (0, [])


def test_check_of_a_configuration_of_before_says_what_to_do(capsys: Printed, file: Path) -> None:
    coap = 'psk_file = "psk"'
    code, text = told(capsys, "check", "--config", str(configured(file, "", coap)))
    assert code == 0
    assert text == (
        "coap.psk_file: its keys may read, and change nothing, until access.policy_file "
        '(version = 1) gives them roles, as in [principals] "psk:NAME" = ["operator"] '
        "(docs/access.md)\n"
    )
    for access in ('policy_file = "access.toml"', "anonymous = true", 'default_roles = ["admin"]'):
        config = configured(file, access, coap)
        assert "nothing is wrong" in told(capsys, "check", "--config", str(config))[1]


def test_a_role_of_everybody_that_there_is_not_is_named(capsys: Printed, file: Path) -> None:
    config = configured(file, 'default_roles = ["boss"]')
    code, text = told(capsys, "check", "--config", str(config))
    assert code == 2
    assert text.startswith("access.default_roles: 'boss' is none of admin, collector, device, ")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("check", "a.toml", "b.toml"), "check: takes one FILE, or --config"),
        (("check", "a.toml", "--config", "x"), "check: takes one FILE, or --config"),
        (("explain", "local", "GET /", "--config", "none.toml"), "none.toml: No such file"),
        (("check", "--config", "none.toml"), "none.toml: No such file"),
        (("explain", "local", "GET /", "--file", "none.toml"), "none.toml: No such file"),
    ],
)
def test_files_that_do_not_go_together_or_are_not_there_are_named(
    capsys: Printed, arguments: tuple[str, ...], why: str
) -> None:
    code, text = told(capsys, *arguments)
    assert (code, text.count("\n")) == (2, 1)
    assert text.startswith(f"hedgerow: {why}")


def test_without_a_configuration_the_option_that_names_one_is_named(
    capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find() -> None:
        raise config_place.NoConfigError("neither a nor b is there")

    monkeypatch.setattr(config_place, "find", find)
    expected = "hedgerow: --config: not given, and neither a nor b is there\n"
    assert told(capsys, "check") == (2, expected)


def test_a_policy_that_is_wrong_explains_nothing(capsys: Printed, file: Path) -> None:
    config = configured(file)
    file.write_text('version = 1\nprincipals = {"psk:a" = ["boss"]}\n')
    for where in (("--config", str(config)), ("--file", str(file))):
        code, text = told(capsys, "explain", "local", "GET /", *where)
        assert (code, text.count("\n")) == (2, 1)
        assert "there is no role 'boss'" in text


def test_a_place_that_is_none_is_refused_with_its_option(capsys: Printed) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["policy", "explain", "local", "GET /", "--at", "a/b/c/d"])
    assert ended.value.code == 2
    assert "argument --at: 'a/b/c/d'" in capsys.readouterr().err


def test_check_names_the_file_that_it_went_by(capsys: Printed, file: Path) -> None:
    config = configured(file)
    for place, access in ((file, 'policy_file = "access.toml"'), (config, "")):
        where = str(configured(file, access))
        code, text = told(capsys, "check", "--config", where, "--json")
        assert (code, json.loads(text)) == (
            0,
            {"file": str(place), "faults": [], "findings": []},
        )
        assert told(capsys, "check", "--config", where) == (0, f"{place}: nothing is wrong\n")
