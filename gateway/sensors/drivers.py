"""Finds a developer's own sensor class: ``module:Class``, in the drivers' folder or installed.

``FILE.py:Class`` is that file, relative to the folder. A package may also give its class a word, as
an entry point of the group ``hedgerow.sensors``.

The drivers' folder is the configuration's ``gateway.sensors_dir``, or else the folder of the
configuration file. It is no part of Python's search path: only a file that a sensor's ``type``
names is looked for in it, and only then may that file import others beside it, which are found
behind all that is installed. So nothing in that folder stands in for a module of Python or of
the gateway. A folder that everybody can write to is not used: whoever may write the
configuration decides what the gateway runs, and nobody else.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import stat
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from gateway.base.printable import said
from gateway.sensors.sensor import Sensor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

ENTRY_POINTS = "hedgerow.sensors"
"""The group of entry points whose names are types of sensors."""

_PRIVATE_NAME = "_sensor_driver_"


class DriverError(ValueError):
    """A sensor class can't be had; the message names the class, and its file if there is one."""


def find(kind: str, folder: Path | None) -> type[Sensor]:
    """Return the class that ``module:Class`` or ``package.module:Class`` names.

    Args:
        kind: the name.
        folder: the drivers' folder; None for installed modules alone.

    Raises:
        DriverError: there is no such module or class, it can't be imported, or it is no sensor.

    """
    module_name, _, class_name = kind.partition(":")
    if module_name.endswith(".py"):
        path = (folder or Path()) / module_name
        if not path.is_file():
            raise DriverError(f"{kind!r}: no file {path}")
        return _class(kind, _beside(kind, path, ""), class_name, path)
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise DriverError(f"{kind!r} is not of the form module:Class")
    top, _, rest = module_name.partition(".")
    file = None if folder is None else _file(folder, top)
    module = _installed(kind, module_name, folder) if file is None else _beside(kind, file, rest)
    return _class(kind, module, class_name, file)


def installed() -> frozenset[str]:
    """Return the types that installed packages have, by their entry points."""
    return frozenset(point.name for point in _entry_points())


def load(kind: str) -> type[Sensor]:
    """Return the class of a type that an installed package has.

    Raises:
        DriverError: it can't be imported, or is no sensor.

    """
    for point in _entry_points():
        if point.name == kind and ":" in point.value:
            return find(point.value.partition(" ")[0], None)
    raise DriverError(f"{kind!r}: no entry point of {ENTRY_POINTS} names a class")


def _entry_points() -> EntryPoints:
    from importlib import metadata  # noqa: PLC0415  # only where a type is not of this package

    return metadata.entry_points(group=ENTRY_POINTS)


def _file(folder: Path, name: str) -> Path | None:
    """Return the file of a module or package in the drivers' folder."""
    for file in (folder / f"{name}.py", folder / name / "__init__.py"):
        if file.is_file():
            return file
    return None


def _installed(kind: str, name: str, folder: Path | None) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # a module is a developer's own code: it may raise anything
        if not isinstance(error, ModuleNotFoundError) or error.name not in _parents(name):
            raise DriverError(f"{kind!r}: {_what(error, None)}") from error
        top = name.partition(".")[0]
        looked = "" if folder is None else f"no {top}.py in {folder}, and "
        raise DriverError(f"{kind!r}: {looked}no module {error.name!r} is installed") from error


def _parents(name: str) -> set[str]:
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts) + 1)}


def _beside(kind: str, file: Path, rest: str) -> ModuleType:
    folder = file.parent.parent if file.name == "__init__.py" else file.parent
    for path in (folder, file):
        if path.stat().st_mode & stat.S_IWOTH:
            raise DriverError(f"{kind!r}: {path} can be written by everybody, so it is not used")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        module = _imported(file)
        return importlib.import_module(f"{module.__name__}.{rest}") if rest else module
    except Exception as error:  # likewise
        raise DriverError(f"{kind!r}: {file}: {_what(error, file)}") from error


def _imported(file: Path) -> ModuleType:
    """Return the module of a file, under a name that no installed one has."""
    own_name = file.parent.name if file.name == "__init__.py" else file.stem
    name = f"{_PRIVATE_NAME}{own_name}"
    there = sys.modules.get(name)
    if there is not None and there.__file__ == str(file):
        return there
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _what(error: Exception, file: Path | None) -> str:
    """Return what was raised in one line, with the line of the driver that did it."""
    line = None
    if isinstance(error, SyntaxError):
        line, what = error.lineno, f"{type(error).__name__}: {error.msg}"
    else:
        what = said(error)
        for frame in traceback.extract_tb(error.__traceback__):
            if file is not None and frame.filename == str(file):
                line = frame.lineno
    return what if line is None else f"line {line}: {what}"


def _class(kind: str, module: ModuleType, name: str, file: Path | None) -> type[Sensor]:
    found = getattr(module, name, None)
    source = getattr(module, "__file__", None) or f"module {module.__name__!r}"
    where = "" if file is None else f" ({source})"
    if found is None:
        own = sorted(
            each.__name__
            for each in vars(module).values()
            if inspect.isclass(each) and each.__module__ == module.__name__
        )
        there = f"; it has {', '.join(own)}" if own else ""
        raise DriverError(f"{kind!r}: no class {name!r} in {source}{there}")
    if not (inspect.isclass(found) and issubclass(found, Sensor)):
        raise DriverError(f"{kind!r} is no subclass of Sensor{where}")
    return found
