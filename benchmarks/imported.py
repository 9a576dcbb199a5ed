"""The imports of a serving gateway: by package, by room of ours, and by who asked first.

python -m benchmarks.imported [--first]

The gateway is that of `benchmarks.light`, interpreted: Python does not tell what compiled modules
import of their own library. Times are those of Python's ``-X importtime``: they hold for shares,
not for what a start costs, since each line is written as it comes. Memory is what another process
takes that imports the same modules in the same order (`benchmarks.import_weights`). `--first` adds
who of ours was the first to import what is not ours: what to look at where a package should go.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import builds
from benchmarks.weighed import EXIT_FAILED, LightError, gateway, started

OURS = frozenset(
    (
        *("alerts", "cloud_ingest", "coap_engine", "dtls", "gateway"),
        *("light_dataclasses", "record_formats", "resource_directory", "tree_handler"),
    )
)
PYTHONS = "Python's own"
INTERPRETER = "an interpreter alone"
TABLE = (
    "| package | modules | us of their own | own data, KiB | of files, KiB |",
    "|---|--:|--:|--:|--:|",
)


@dataclass(frozen=True, slots=True)
class Grown:
    """Resident memory that an import took, KiB.

    Attributes:
        own_kib: of the process's own data.
        files_kib: of mapped files.

    """

    own_kib: int
    files_kib: int


NOTHING = Grown(0, 0)
Weights = Mapping[str, Grown]
"""By the full name of a module; `INTERPRETER` for what is there before the first."""


@dataclass(frozen=True, slots=True)
class Imported:
    """One module, as it was first imported.

    Attributes:
        name: its full one.
        own_us: the time of its body, microseconds, without what it imported.
        asker: of ours, whose import led to it; empty if none did.

    """

    name: str
    own_us: int
    asker: str

    @property
    def package(self) -> str:
        """Its distribution, as far as a name tells: ``Python's own`` for the standard library's."""
        top = self.name.partition(".")[0]
        if top in OURS:
            return "ours"
        return PYTHONS if top in sys.stdlib_module_names or top.startswith("_") else top


def parsed(told: Iterable[str]) -> list[Imported]:
    """Read what ``python -X importtime`` tells: a module after those that it imported.

    Args:
        told: lines, among which others may stand.

    Returns:
        The modules, in the order in which their import began.

    """
    modules: list[Imported] = []
    above: list[tuple[int, str]] = []  # how far it is indented, and whose import led below it
    for line in reversed([one for one in told if one.startswith("import time:")]):
        own_us, _, name = line.removeprefix("import time:").rstrip("\n").split("|", 2)
        if not own_us.strip().isdecimal():  # the head
            continue
        depth = len(name) - len(name.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        asker = above[-1][1] if above else ""
        one = Imported(name.strip(), int(own_us), asker)
        modules.append(one)
        above.append((depth, one.name if one.package == "ours" else asker))
    return modules


def weights(told: Iterable[str]) -> Weights:
    """Read what `benchmarks.import_weights` tells.

    Args:
        told: its lines.

    """
    grown = {}
    for line in told:
        own_kib, files_kib, name = line.rstrip("\n").split(" ", 2)
        grown[name or INTERPRETER] = Grown(int(own_kib), int(files_kib))
    return grown


def table(groups: Iterable[tuple[str, Imported]], grown: Weights) -> Iterator[str]:
    """Give the rows of `TABLE`, the largest group first.

    Args:
        groups: the name of its group beside each module.
        grown: how much memory each module took.

    """
    counts, times_us = Counter[str](), Counter[str]()
    own_kib, files_kib = Counter[str](), Counter[str]()
    for name, module in groups:
        counts[name] += 1
        times_us[name] += module.own_us
        took = grown.get(module.name, NOTHING)
        own_kib[name] += took.own_kib
        files_kib[name] += took.files_kib
    yield (
        f"| all | {counts.total():,} | {times_us.total():,} "
        f"| {own_kib.total():,} | {files_kib.total():,} |"
    )
    for name, count in counts.most_common():
        memory = f"{own_kib[name]:,} | {files_kib[name]:,}"
        yield f"| {name} | {count:,} | {times_us[name]:,} | {memory} |"


def room(module: Imported, folders: Collection[str]) -> str:
    """Return the folder of ours that a module is in, such as ``gateway.broker`` or ``dtls``.

    Args:
        module: of ours.
        folders: names that others are below.

    """
    top, *below = module.name.split(".")[:2]
    folder = ".".join((top, *below))
    return folder if folder in folders else top


def report(modules: Sequence[Imported], grown: Weights, *, with_first: bool) -> Iterator[str]:
    """Give the lines of all tables.

    Args:
        modules: that a process has imported.
        grown: how much memory each of them took.
        with_first: add who of ours asked first for what is not ours.

    """
    folders = {one.name.rpartition(".")[0] for one in modules}
    others = [one for one in modules if one.package != "ours"]
    yield from TABLE
    yield from table(((one.package, one) for one in modules), grown)
    alone = grown.get(INTERPRETER, NOTHING)
    yield f"| {INTERPRETER} | - | - | {alone.own_kib:,} | {alone.files_kib:,} |"
    yield from ("", *TABLE)
    yield from table(((room(one, folders), one) for one in modules if one.package == "ours"), grown)
    if with_first:
        yield from ("", *TABLE)
        firsts = ((f"{one.package}, for {one.asker or 'Python'}", one) for one in others)
        yield from table(firsts, grown)


def measured() -> list[Imported]:
    """Start a gateway, and return what it has imported when it serves.

    Raises:
        LightError: it does not start.

    """
    with tempfile.TemporaryDirectory(prefix="imported-benchmark-") as name:
        folder = Path(name)
        broker = gateway("interpreted", builds.INTERPRETED)
        with started(broker, folder, is_ours=True, before=["-X", "importtime"]):
            pass
        return parsed((folder / "log").read_text(errors="replace").splitlines())


def weighed(modules: Sequence[Imported]) -> Weights:
    """Import modules in a process of its own, and return how much memory each took there.

    Args:
        modules: in the order in which their import began.

    Raises:
        LightError: the process failed.

    """
    done = subprocess.run(
        builds.INTERPRETED.command("benchmarks.import_weights"),
        input="\n".join(one.name for one in reversed(modules)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LightError(f"imports can't be weighed: {done.stderr[-400:]}")
    return weights(done.stdout.splitlines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, and return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.imported", description=__doc__)
    parser.add_argument("--first", action="store_true", help="and who asked for what is not ours")
    options = parser.parse_args(arguments)
    try:
        modules = measured()
        grown = weighed(modules)
    except LightError as error:
        print(f"benchmarks.imported: {error}", file=sys.stderr)
        return EXIT_FAILED
    for line in report(modules, grown, with_first=options.first):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
