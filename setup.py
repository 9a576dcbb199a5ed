"""A wheel of plain Python, or with HEDGEROW_COMPILED=1 one whose hot packages mypyc compiles.

What is compiled stands in pyproject.toml, ``[tool.hedgerow.compiled]``. The sources are in both
wheels. A compiled build is made in a copy of the tree (deploy/compiled): an extension left beside
a source would be imported in its place.
"""

from __future__ import annotations

import os
import platform
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

OPTIMISATION = os.environ.get("HEDGEROW_OPTIMISATION", "2")
"""Of the C compiler: 0 to 3. With 0 the build takes a third of the time."""

COMPILER = os.environ.get("HEDGEROW_COMPILER", "gcc")
"""gcc, or for tests tcc: it optimises nothing, and takes a fiftieth of the time."""

GROUP = "hedgerow"
"""All that is compiled is one library of this name."""

HIDDEN = "-fvisibility=hidden"
"""Python looks up one function of the library by its name. The names of all others, 1.5 MiB, are
left out: no start looks them up, and they call each other directly."""

PACKED_RELOCATIONS = "-Wl,-z,pack-relative-relocs"
"""Tables of the library's own addresses take kilobytes in place of two megabytes. A linker that
does not know how, as Debian 12's for ARM, says so and goes on."""

PACKING_GLIBC = (2, 36)
"""Older ones load no library whose addresses are packed."""


class BuildAtOnce(build_ext):
    """Gives tcc all C files of one extension as a single one, so that it reads the headers once."""

    def build_extensions(self) -> None:
        """Compile all extensions by tcc; see `build_ext`."""
        # Python's own flags, and mypyc's, are gcc's.
        self.compiler.set_executables(compiler_so="tcc -w -DNDEBUG", linker_so="tcc -shared")
        for extension in self.extensions:
            extension.extra_compile_args = []
        compile_each = self.compiler.compile

        def compile_together(sources: list[str], **options: Any) -> list[str]:
            ours = [source for source in sources if Path(source).name.startswith("__native")]
            if not ours:
                return compile_each(sources, **options)
            whole = Path("build", "whole.c")
            whole.write_text("".join(f'#include "{Path(source).name}"\n' for source in ours))
            others = [source for source in sources if source not in ours]
            return compile_each([str(whole), *others], **options)

        self.compiler.compile = compile_together
        super().build_extensions()


class ParallelBuild(build_ext):
    """Compiles the C files of one extension on all cores, where setuptools takes one.

    Each module has a small extension besides, which names its place in the library; they are
    made meanwhile.
    """

    def finalize_options(self) -> None:
        """See `build_ext`."""
        super().finalize_options()
        self.parallel = os.cpu_count()

    def build_extensions(self) -> None:
        """See `build_ext`."""
        for extension in self.extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, HIDDEN]
            if packs_relocations():
                extension.extra_link_args = [*extension.extra_link_args, PACKED_RELOCATIONS]
        compile_in_turn = self.compiler.compile

        def compile_together(sources: list[str], **options: Any) -> list[str]:
            if len(sources) == 1:
                return compile_in_turn(sources, **options)
            headers = self.read_headers(options)
            with_headers = [*options["extra_postargs"], "-include", headers]

            def one(source: str) -> list[str]:
                if not Path(source).name.startswith("__native"):  # mypyc's own library
                    return compile_in_turn([source], **options)
                return compile_in_turn([source], **(options | {"extra_postargs": with_headers}))

            with ThreadPoolExecutor(os.cpu_count()) as pool:
                # The longest first, or one core is left with it in the end.
                by_size = sorted(sources, key=lambda source: -Path(source).stat().st_size)
                compiled = dict(zip(by_size, pool.map(one, by_size), strict=True))
            return [path for source in sources for path in compiled[source]]

        self.compiler.compile = compile_together
        super().build_extensions()

    def read_headers(self, options: dict[str, Any]) -> str:
        """Have the compiler read what is declared of all modules, two megabytes, once for all.

        Each C file includes it. A compiler that can't use what it made of it reads it again.
        """
        headers = Path("build", "declared.h")
        names = (f"__native_{GROUP}.h", f"__native_internal_{GROUP}.h")
        headers.write_text("".join(f'#include "{name}"\n' for name in names))
        folders = [f"-I{name}" for name in (*self.compiler.include_dirs, *options["include_dirs"])]
        arguments = [*folders, *options["extra_postargs"], "-x", "c-header", str(headers)]
        self.spawn([*self.compiler.compiler_so, *arguments, "-o", f"{headers}.gch"])
        return str(headers)


def packs_relocations() -> bool:
    """Return whether the glibc of this machine loads them; those of Debian 12 and later do."""
    name, version = platform.libc_ver()
    return name == "glibc" and tuple(map(int, version.split(".")[:2])) >= PACKING_GLIBC


def compiled_sources(root: Path) -> list[str]:
    """The files to compile, relative to the root.

    Raises:
        SystemExit: the table names a file or folder that is not there.

    """
    table = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hedgerow"]["compiled"]
    for name in (*table["sources"], *table["interpreted"]):
        if not (root / name).exists():
            sys.exit(f"pyproject.toml, tool.hedgerow.compiled: {name}: no such file or folder")
    found = {
        str(path.relative_to(root))
        for name in table["sources"]
        for path in ([root / name] if name.endswith(".py") else (root / name).rglob("*.py"))
        if path.name != "__init__.py"  # they run once, and hold names or nothing
    }
    return sorted(found - set(table["interpreted"]))


def extensions(root: Path) -> list[Extension]:
    """What mypyc makes of the sources; it ends the build, and says where, if one is refused."""
    from mypyc.build import mypycify  # noqa: PLC0415  # a plain wheel is built without it

    made: list[Extension] = mypycify(
        ["--config-file=pyproject.toml", *compiled_sources(root)],
        opt_level=OPTIMISATION,
        debug_level="0",
        multi_file=True,
        group_name=GROUP,
    )
    return made


# Names and versions are asked for before the wheel is; mypyc need not run for them.
if os.environ.get("HEDGEROW_COMPILED") == "1" and "dist_info" not in sys.argv:
    build = BuildAtOnce if COMPILER == "tcc" else ParallelBuild
    setup(ext_modules=extensions(Path(__file__).parent), cmdclass={"build_ext": build})
else:
    setup()
