"""The measures of the house: what they count, and that this tree keeps its limits."""

import subprocess
from pathlib import Path, PurePosixPath

import pytest

from deploy import house


def measure(**files: str) -> house.Measured:
    """Measure sources named as modules with `__` for a dot and `whole` for `__init__`."""
    names = {name: name.replace("__", "/").replace("whole", "__init__") for name in files}
    paths = {PurePosixPath(f"{names[name]}.py"): text for name, text in files.items()}
    return house.measure(paths.items())


def found(measured: house.Measured, kind: str) -> list[tuple[str, str]]:
    return [(each.place, each.text) for each in measured.findings if each.measure == kind]


def test_lines_of_the_broker_are_counted_over_all_of_its_rooms() -> None:
    measured = measure(
        gateway__broker__a="x = 1\n", gateway__log__b="x = 1\ny = 2\n", dtls__c="x = 1\n"
    )

    assert measured.number(house.LINES, house.BROKER) == 3
    assert measured.number(house.LINES, "dtls") == 1


def test_a_module_is_long_from_its_401st_line() -> None:
    measured = measure(dtls__a="x = 1\n" * 400, gateway__links__b="x = 1\n" * 401)

    assert found(measured, house.LONG_MODULES) == [("gateway/links/b.py", "401 lines")]
    assert measured.number(house.LONG_MODULES, house.REST) == 1
    assert measured.number(house.LONG_MODULES, house.BROKER) == 0


def test_a_function_is_measured_from_def_to_its_last_line_without_decorators() -> None:
    kept = "@cache\ndef kept():\n" + "    x = 1\n" * 59
    long = "class Any:\n    async def long(self):\n" + "        x = 1\n" * 60

    measured = measure(dtls__a=kept + long)

    assert found(measured, house.LONG_FUNCTIONS) == [("dtls/a.py:63", "long: 61 lines")]


@pytest.mark.parametrize(
    "parameters",
    [
        "a, b, c, d, e, f, g, h",
        "a, b, c, d, *, e, f, g, h",
        "a, b, c, d, e, f, *g, **h",
        "a, /, b, c, d, e, f, g, h",
    ],
)
def test_a_constructor_is_wide_from_its_eighth_parameter_of_any_kind(parameters: str) -> None:
    measured = measure(dtls__a=f"class Any:\n    def __init__(self, {parameters}): ...\n")

    assert found(measured, house.WIDE_CONSTRUCTORS) == [("dtls/a.py:1", "Any: 8 parameters")]


def test_a_constructor_of_seven_is_not_wide() -> None:
    measured = measure(dtls__a="class Any:\n    def __init__(self, a, b, c, d, e, f, g): ...\n")

    assert not found(measured, house.WIDE_CONSTRUCTORS)


@pytest.mark.parametrize(
    "head",
    [
        "@dataclass\nclass Any:",
        "@dataclasses.dataclass(slots=True)\nclass Any:",
        "class Any(NamedTuple):",
        "class Any(msgspec.Struct, frozen=True):",
        "class AnyError(LinkError):",
    ],
)
def test_records_and_exceptions_may_be_wide(head: str) -> None:
    measured = measure(dtls__a=f"{head}\n    def __init__(self, a, b, c, d, e, f, g, h): ...\n")

    assert not found(measured, house.WIDE_CONSTRUCTORS)


@pytest.mark.parametrize(
    "back",
    [
        "from gateway import a\n",
        "from gateway.a import A\n",
        "from .a import A\n",
        "from . import a\n",
        "import gateway.a\n",
        "def late():\n    from gateway.a import A\n",
        "if TYPE_CHECKING:\n    from gateway.a import A\n",
    ],
)
def test_an_import_that_leads_back_closes_a_circle_wherever_it_stands(back: str) -> None:
    measured = measure(
        gateway__a="from gateway.b import B\n", gateway__b=back, gateway__c="import gateway.a\n"
    )

    assert [place for place, _ in found(measured, house.IN_CYCLES)] == [
        "gateway/a.py",
        "gateway/b.py",
    ]


def test_a_circle_is_found_over_packages_and_over_a_package_itself() -> None:
    measured = measure(
        gateway__a="from dtls import Name\n",
        dtls__whole="from dtls.b import Name\n",
        dtls__b="import gateway.a\n",
    )

    places = [place for place, _ in found(measured, house.IN_CYCLES)]
    assert places == ["gateway/a.py", "dtls/__init__.py", "dtls/b.py"]


def test_a_chain_of_imports_is_no_circle() -> None:
    measured = measure(
        gateway__a="from gateway.b import B\n", gateway__b="import gateway.c\n", gateway__c=""
    )

    assert not found(measured, house.IN_CYCLES)


def test_a_class_name_stands_for_one_class_unless_it_is_private() -> None:
    one = "class Run: ...\nclass _Own: ...\nclass Once: ...\n"
    other = "def f():\n    class Run: ...\nclass _Own: ...\n"

    measured = measure(gateway__a=one, dtls__b=other)

    assert found(measured, house.SHARED_NAMES) == [("gateway/a.py:1", "Run: also dtls/b.py:2")]


def test_a_number_may_stand_at_its_limit_and_not_above() -> None:
    measured = measure(dtls__a="class A: ...\nx = 1\n" * 201, gateway__a="")
    at = (house.LONG_MODULES, "dtls")

    [names] = house.passed_limits(measured, {at: 1})

    assert names == "class names that stand twice, all: 1, and at most 0 may stand"
    assert len(house.passed_limits(measured, {})) == 2


def test_no_limit_stands_for_what_has_no_goal_and_none_below_its_goal() -> None:
    assert set(house.LIMITS) <= set(house.ROWS)
    assert all(limit > house.goal_of(*at) for at, limit in house.LIMITS.items())


@pytest.mark.soak("is what `make check` does")
def test_this_tree_keeps_its_limits() -> None:
    assert house.passed_limits(house.measure(house.tree_here(house.ROOT)), house.LIMITS) == []


def test_a_commit_is_measured_as_it_was_and_not_as_the_tree_is_now(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True
        )

    git("init")
    *first, later = house.PACKAGES
    for package in first:
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text("x = 1\n" * 3)
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / later).mkdir()
    (tmp_path / later / "a.py").write_text("x = 1\n")
    (tmp_path / "dtls" / "a.py").write_text("x = 1\n")

    before = house.measure(house.tree_at(tmp_path, "HEAD"))
    now = house.measure(house.tree_here(tmp_path))

    assert before.number(house.LINES, "dtls") == 3
    assert before.number(house.LINES, later) == 0
    assert now.number(house.LINES, "dtls") == 1
    assert now.number(house.LINES, later) == 1
