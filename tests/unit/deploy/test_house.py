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


def test_a_module_is_long_from_its_301st_statement_on_however_it_is_laid_out() -> None:
    wide = "x = [\n    1,\n]\n" * 300
    measured = measure(dtls__a=wide, gateway__links__b="x = 1\n" * 300 + "if x:\n    x = 2\n")

    assert found(measured, house.LONG_MODULES) == [("gateway/links/b.py", "302 statements")]
    assert measured.number(house.LONG_MODULES, house.REST) == 1
    assert measured.number(house.LONG_MODULES, house.BROKER) == 0


def test_a_function_is_measured_by_the_statements_within() -> None:
    kept = "@cache\ndef kept():\n" + "    x = 1\n" * 40
    long = "class Any:\n    async def long(self):\n" + "        x = 1\n" * 41

    measured = measure(dtls__a=kept + long)

    assert found(measured, house.LONG_FUNCTIONS) == [("dtls/a.py:44", "long: 41 statements")]


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


def test_a_room_is_in_a_circle_though_no_module_of_it_is() -> None:
    measured = measure(
        gateway__links__a="from gateway.broker.b import B\n",
        gateway__links__d="",
        gateway__broker__b="",
        gateway__broker__c="from gateway.links.d import D\n",
        gateway__log__e="import gateway.links.a\nimport gateway.log.f\n",
        gateway__log__f="",
    )

    assert not found(measured, house.IN_CYCLES)
    assert found(measured, house.ROOMS_IN_CIRCLES) == [
        ("gateway.links", "in a circle with gateway.broker"),
        ("gateway.broker", "in a circle with gateway.links"),
    ]


@pytest.mark.parametrize(
    ("call", "is_hidden"),
    [
        ("f(*(a, b))", True),
        ("f(a, *[b, c])", True),
        ("f(*given)", False),
        ("f(*(each for each in given))", False),
        ("f((a, b))", False),
    ],
)
def test_arguments_in_a_literal_that_a_call_unpacks_are_hidden(call: str, is_hidden: bool) -> None:
    assert bool(found(measure(dtls__a=call), house.LITERAL_SPLATS)) == is_hidden


@pytest.mark.parametrize(
    ("body", "is_late"),
    [
        ("def __init__(self): ...\n    def f(self): self.a = 1", True),
        ("async def f(self): self.a, b = 1, 2", True),
        ("def __init__(self): self.a = 0\n    def f(self): self.a = 1", False),
        ("a: int\n    def f(self): self.a = 1", False),
        ("a = 0\n    def f(self): self.a = 1", False),
        ("__slots__ = ('a',)\n    def f(self): self.a = 1", False),
        ("@property\n    def a(self): ...\n    def f(self): self.a = 1", False),
        ("def f(self, other): other.a = 1", False),
    ],
)
def test_an_attribute_is_late_that_a_method_is_the_first_to_speak_of(
    body: str, is_late: bool
) -> None:
    measured = measure(dtls__a=f"class Any:\n    {body}\n")

    assert bool(found(measured, house.LATE_ATTRIBUTES)) == is_late


def test_an_attribute_that_a_base_makes_is_not_late() -> None:
    base = "class Base:\n    def __init__(self): self.a = 0\n"
    inner = "from dtls.a import Base\nclass Inner(Base):\n    def f(self): self.a = 1\n"

    assert not found(measure(dtls__a=base, gateway__b=inner), house.LATE_ATTRIBUTES)


def test_a_name_stands_for_one_class_or_one_alias_of_a_type_unless_it_is_private() -> None:
    one = "class Run: ...\nclass _Own: ...\nclass Once: ...\nTold = int\nLIMIT = 1\n"
    other = "def f():\n    class Run: ...\nclass _Own: ...\nTold: TypeAlias = str\nLIMIT = 2\n"

    measured = measure(gateway__a=one, dtls__b=other)

    assert found(measured, house.SHARED_NAMES) == [
        ("gateway/a.py:1", "Run: also dtls/b.py:2"),
        ("gateway/a.py:4", "Told: also dtls/b.py:4"),
    ]


SEAM = """
from typing import Protocol
class Opens(Protocol):
    is_open: bool
    def open(self): ...
"""
ANY_DOOR = "class Any:\n    def open(self): ...\n    def __getattr__(self, name): ...\n"
DOOR = "class Door:\n    is_open = False\n    def open(self): ...\n"


@pytest.mark.parametrize(
    "files",
    [
        {"dtls__a": SEAM + DOOR},
        {"dtls__a": SEAM, "dtls__b": DOOR},
        {"dtls__a": SEAM, "dtls__b": DOOR, "tests__c": "class Other:\n    def open(self): ...\n"},
        {"dtls__a": "import dtls.d.c\n" + SEAM, "dtls__d__b": DOOR, "dtls__d__c": "class C: ...\n"},
        {
            "dtls__a": SEAM,
            "dtls__b": "class Door(Base):\n    def open(self): ...\n",
            "dtls__c": "class Base:\n    def __init__(self):\n        self.is_open = False\n",
        },
    ],
)
def test_a_protocol_is_lone_where_the_class_that_fits_it_could_stand_in_its_place(
    files: dict[str, str],
) -> None:
    ((_, text),) = found(measure(**files), house.LONE_PROTOCOLS)
    assert text == "Opens: Door"


@pytest.mark.parametrize(
    "files",
    [
        {"dtls__a": SEAM, "dtls__b": "class Door:\n    def open(self): ...\n"},
        {"dtls__a": SEAM, "dtls__b": DOOR, "dtls__c": DOOR.replace("Door", "Gate")},
        {"dtls__a": SEAM, "dtls__b": DOOR, "tests__c": DOOR.replace("Door", "Gate")},
        {"dtls__a": SEAM, "dtls__b": DOOR, "tests__c": ANY_DOOR},
        {"dtls__a": SEAM, "tests__c": DOOR},
        {"dtls__a": SEAM, "dtls__d__b": DOOR},
        {"dtls__a": SEAM, "dtls__b": "import dtls.c\n" + DOOR, "dtls__c": "import dtls.a\n"},
    ],
)
def test_a_protocol_is_a_seam_where_another_fits_it_or_its_class_can_not_be_imported(
    files: dict[str, str],
) -> None:
    assert not found(measure(**files), house.LONE_PROTOCOLS)


@pytest.mark.parametrize(
    ("docstring", "is_question"),
    [
        ("What waits.", True),
        ("Whether it waits; see `wait`.", True),
        ("See `Part`.", True),
        ("When, if ever.", True),
        ("Whom it waits for.", True),
        ("From where on it waits.", True),
        ("... and how long it waits.", True),
        ("For whom and since when it waits.", True),
        ("For a client that waits; see what it sends.", False),
        ("Return what waits.", False),
        ("Seed the draw.", False),
        ("", False),
    ],
)
def test_a_docstring_of_a_class_or_function_begins_with_no_question(
    docstring: str, is_question: bool
) -> None:
    written = (
        f'class Any:\n    """{docstring}"""\n    async def do(self):\n        """{docstring}"""\n'
    )

    measured = measure(dtls__a=f'"""What a module is about."""\n{written}')

    expected = [
        ("dtls/a.py:3", f"Any: {docstring}"),
        ("dtls/a.py:5", f"do: {docstring}"),
    ]
    assert found(measured, house.QUESTIONS) == (expected if is_question else [])


@pytest.mark.parametrize(
    ("function", "is_found"),
    [
        ("def f() -> int:", True),
        ("async def f() -> list[str]:", True),
        ("def f() -> None:", False),
        ("def f() -> bool:", False),
        ("@property\ndef f(self) -> int:", False),
    ],
)
def test_the_docstring_of_a_call_with_a_result_begins_with_a_verb(
    function: str, is_found: bool
) -> None:
    measured = measure(dtls__a=f'{function}\n    """The size."""\n')
    said = measure(dtls__a=f'{function}\n    """Return the size."""\n')

    assert [text for _, text in found(measured, house.UNSAID_RETURNS)] == [
        "f: The size."
    ] * is_found
    assert not said.findings


def test_the_result_of_a_call_is_no_half_question_behind_a_semicolon() -> None:
    text = 'def f() -> bool:\n    """Delete it{} whether it\n    was there."""\n'

    assert len(found(measure(dtls__a=text.format(";")), house.UNSAID_RETURNS)) == 1
    assert not found(measure(dtls__a=text.format(", and return")), house.UNSAID_RETURNS)


@pytest.mark.parametrize(
    ("told", "parameters", "differing"),
    [
        ("a: one.\n        b: other.", "a, /, b", []),
        ("a, b: both.\n        more: the rest.", "a, *, b, **more", []),
        ("a: one,\n            b: other.", "a", []),
        ("a: one.", "a, b", ["Any: b"]),
        ("a: one.\n        c: gone.", "a", ["Any: c"]),
        ("a: one.\n        a: other.", "a", ["Any: a"]),
    ],
)
def test_the_args_of_a_class_are_what_its_constructor_takes(
    told: str, parameters: str, differing: list[str]
) -> None:
    text = f'''class Any:
    """Any.

    Args:
        {told}

    """

    def __init__(self, {parameters}): ...
'''
    measured = found(measure(dtls__a=text), house.UNTOLD_ARGUMENTS)
    assert [what for _, what in measured] == differing


@pytest.mark.parametrize(
    ("text", "strays"),
    [
        ('import os\n"""Room for it."""\n', 1),
        ('ROOM = 1\n"""Bytes."""\n"""Room for it."""\n', 1),
        ('if os:\n    """Room for it."""\n', 1),
        ('def ask():\n    """Ask."""\n    return 1\n    """Nobody."""\n', 1),
        ('"""Rooms."""\nROOM: int = 1\n"""Bytes."""\n', 0),
        ('class Room:\n    """A room."""\n    size = 1\n    """Bytes."""\n', 0),
        ("if os:\n    ROOM = 1\n    " + '"""Bytes."""\n', 0),
    ],
)
def test_a_text_that_stands_below_nothing_which_it_describes_is_found(
    text: str, strays: int
) -> None:
    assert len(found(measure(dtls__a=text), house.STRAY_TEXTS)) == strays


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "deploy"])
def test_of_a_folder_beside_the_packages_the_docstrings_are_measured_not_the_length(
    folder: str,
) -> None:
    written = (
        '"""What it is about."""\n\n\ndef do():\n    """How it is done."""\n' + "    x = 1\n" * 301
    )

    measured = measure(**{f"{folder}__a": written})

    assert [(each.measure, each.place) for each in measured.findings] == [
        (house.QUESTIONS, f"{folder}/a.py:5"),
        (house.HEADINGS, f"{folder}/a.py:1"),
    ]
    assert len(house.passed_limits(measured, {})) == 2


@pytest.mark.parametrize(
    ("look", "is_private"),
    [
        ("log._size", True),
        ("made().log._size = 1", True),
        ("setattr(log, '_size', 1)", True),
        ("patched.setattr(log, '_size', 1)", True),
        ("self._size = self.size", False),
        ("cls._size", False),
        ("log.__len__()", False),
        ("row._replace(size=1)", False),
        ("os._exit", False),
        ("process._exit", True),
        ("patched.setattr(log, 'size', 1)", False),
    ],
)
def test_a_test_that_looks_at_what_is_private_to_others_is_found(
    look: str, is_private: bool
) -> None:
    measured = measure(tests__unit__test_a=f"{look}\n", dtls__a=f"{look}\n")

    expected = [("tests/unit/test_a.py:1", look.partition(" = ")[0])] if is_private else []
    assert found(measured, house.PRIVATE_LOOKS) == expected


def test_a_number_may_stand_at_its_limit_and_not_above() -> None:
    measured = measure(dtls__a="class A: ...\nx = 1\n" * 101, gateway__a="")
    at = (house.LONG_MODULES, "dtls")

    [names] = house.passed_limits(measured, {at: 1})

    assert names == "names of classes and types that stand twice, all: 1, and at most 0 may stand"
    assert len(house.passed_limits(measured, {})) == 2


def test_a_limit_that_can_fall_has_to() -> None:
    measured = measure(dtls__a="x = 1\n" * 301)
    at = (house.LONG_MODULES, "dtls")

    assert house.passed_limits(measured, {at: 1}) == []
    [names] = house.passed_limits(measured, {at: 2})
    assert names == "modules over 300 statements, dtls: 1, and the limit of 2 can fall"


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
        (tmp_path / package / "a.py").write_text("x = 1\n" * 301)
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / later).mkdir()
    (tmp_path / later / "a.py").write_text("x = 1\n" * 301)
    (tmp_path / "dtls" / "a.py").write_text("x = 1\n")

    before = house.measure(house.tree_at(tmp_path, "HEAD"))
    now = house.measure(house.tree_here(tmp_path))

    assert before.number(house.LONG_MODULES, "dtls") == 1
    assert before.number(house.LONG_MODULES, later) == 0
    assert now.number(house.LONG_MODULES, "dtls") == 0
    assert now.number(house.LONG_MODULES, later) == 1
