"""`hedgerow check`: all that is wrong with a configuration, with lines and what is allowed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from gateway.base import exit_codes
from gateway.base.path_kind import FILE, kind_of
from gateway.process.running.configuration_faults import faults_of
from gateway.tools.commands.errors import WrongUseError
from gateway.tools.commands.output import print_json


def run(path: Path, *, as_json: bool) -> int:
    """Print what is wrong with a gateway's configuration; returns the exit code.

    Args:
        path: the file.
        as_json: print one document.

    Raises:
        WrongUseError: the file can't be read.

    """
    try:
        if (kind := kind_of(path)) not in {None, FILE}:
            raise WrongUseError(f"{path}: {kind}, not a file")
        data = path.read_bytes()
    except OSError as error:
        raise WrongUseError(f"{path}: {error.strerror}") from error
    # Faults of one field keep their order: that of the lines in the file which it names.
    faults = sorted(faults_of(data, path), key=lambda fault: (fault.line, fault.where))
    if as_json:
        print_json({"file": str(path), "faults": [asdict(fault) for fault in faults]})
    elif faults:
        for fault in faults:
            behind = f"; {fault.remedy}" if fault.remedy else ""
            sys.stdout.write(f"{fault.told(path)}{behind}\n")
    else:
        sys.stdout.write(f"{path}: nothing is wrong\n")
    return exit_codes.WRONG_USE if faults else exit_codes.DONE
