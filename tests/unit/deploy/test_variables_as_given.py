"""Variables as operators give them: as text on the command line, or with a slip of the finger."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from loaded_file import loaded

ANSIBLE = Path(__file__).parents[3] / "deploy/ansible"
NAMES = loaded(ANSIBLE / "filter_plugins/hedgerow_names.py")
NUMBERS = ("int", "float")


def types() -> dict[str, str]:
    """The type of each variable of the roles."""
    found: dict[str, str] = {}
    for file in ANSIBLE.glob("roles/*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(file.read_text())["argument_specs"].values():
            options: dict[str, dict[str, Any]] = spec.get("options", {})
            found |= {name: option.get("type", "str") for name, option in options.items()}
    return found


TYPES = types()
FILES = [
    path
    for path in sorted(ANSIBLE.rglob("*"))
    if path.suffix in (".yml", ".j2") and path.name not in ("argument_specs.yml", "VARIABLES.md")
]
CALCULATES = re.compile(r"\s*(//|/ |\*|\+|- |<|>|==|!=|is integer)")
EXPRESSION = re.compile(r"\s*(- |when:|that:|until:|not |and |or )")
DECIDES = re.compile(r"\bwhen:|\{%-? (if|elif)|\bif\b|\bnot\b|\band\b|\bor\b|\bthat:")


def uncast(line: str) -> list[str]:
    """Names of variables that a line takes for numbers or truths without making them so."""
    if not (EXPRESSION.match(line) or "{{" in line or "{%" in line):
        return []  # a sentence
    found = []
    for use in re.finditer(r"\b[a-z_]+\w*\b", line):
        kind, rest = TYPES.get(use[0]), line[use.end() :]
        if re.match(r"\s*(\||is (not )?defined|in\b|:)", rest):
            continue
        if (kind in NUMBERS and CALCULATES.match(rest)) or (
            kind == "bool" and DECIDES.search(line)
        ):
            found.append(use[0])
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ANSIBLE)))
def test_what_comes_from_the_command_line_as_text_is_a_number_or_a_truth_where_it_counts(
    path: Path,
) -> None:
    whole = re.sub(r"\n\s+\|", " |", path.read_text())
    lines = (line.partition(" # ")[0] for line in whole.splitlines())
    code = (line for line in lines if "variable:" not in line and not line.lstrip().startswith("#"))
    assert [(line.strip(), names) for line in code if (names := uncast(line))] == []


def test_the_check_sees_what_has_no_cast() -> None:
    assert uncast('  retries: "{{ gateway_healthy_s // 3 }}"') == ["gateway_healthy_s"]
    assert uncast("  when: not gateway_on_trial") == ["gateway_on_trial"]
    assert uncast('  retries: "{{ gateway_healthy_s | int // 3 }}"') == []
    assert uncast("  when: not gateway_on_trial | bool") == []


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("gatway_mqtt_port", "gateway_mqtt_port"),
        ("gatewy_psks", "gateway_psks"),
        ("firewal_confirm_s", "firewall_confirm_s"),
        ("site_role", "site_roles"),
        ("hedgrow_backups", "hedgerow_backups"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_one_that_is_meant(given: str, meant: str) -> None:
    assert NAMES.misspelt([given]) == [f"{given} (is {meant} meant?)"]
    assert NAMES.misspelt([given], own=[given]) == []


def test_names_of_ours_and_words_of_others_pass() -> None:
    own = ["ansible_host", "inventory_hostname", "groups", "gateway_tls_dir_of_the_lab", "rack"]
    assert NAMES.misspelt([*TYPES, *own]) == []
