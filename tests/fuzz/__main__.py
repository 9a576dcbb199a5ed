"""Coverage-guided fuzzing with atheris (libFuzzer): `make soak` runs it for a bounded time.

    python tests/fuzz TARGET --seconds N [--folder FOLDER]    fuzz; inputs that reach something
                                                              new are kept in FOLDER
    python tests/fuzz TARGET --replay HEX-OR-FILE             run one input again
    python tests/fuzz work --seconds N                        look for inputs that cost much time
                                                              (without atheris); tells what each
                                                              parser costs a byte at worst
    python tests/fuzz ingest --seconds N                      feed the ingest job everything that
                                                              anybody can publish (without atheris)
    python tests/fuzz ingest --replay SEED                    run one of its seeds again

An input that breaks something is printed as the command that replays it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
# With -P, what is installed comes before these sources: a compiled build (`make soak`).
sys.path.insert(len(sys.path) if sys.flags.safe_path else 1, str(HERE.parents[1]))

INPUT_BYTES_MAX = 4_096
HEX_BYTES_MAX = 1_000
_INSTRUMENTED = [
    *("gateway.broker", "gateway.mqtt", "gateway.trust.policy", "coap_engine", "dtls"),
    *("resource_directory", "tree_handler"),
]
MODULES = {
    "coap": "coap_datagrams",
    "dtls": "dtls_datagrams",
    "policy": "policy_files",
    "rd": "directory_requests",
    "signed": "signed_words",
}
"""The modules that have a target and its first inputs; the other targets are in `targets`."""
SECONDS = 300
LONGER_S = {"connection": 900}
"""Of targets that are slow to run: a whole broker, say."""
WORK = "work"
"""The target that is measured in time."""
INGEST = "ingest"
"""The target that is a whole job, fed by a seed."""
NO_WHEEL = 3
"""The exit code where atheris is not to be had."""


def main() -> None:
    arguments = _arguments()
    if arguments.target == WORK:
        import work

        print("\n".join(work.report(arguments.seconds)))
        return
    if arguments.target == INGEST:
        import ingest_job

        if arguments.replay is not None:
            print(f"nothing broke: {ingest_job.replayed(int(arguments.replay))} messages")
        else:
            print(ingest_job.report(arguments.seconds))
        return
    if arguments.replay is not None:
        _target(arguments.target)(_input(arguments.replay))
        print("nothing broke")
        return
    atheris = _atheris()
    with atheris.instrument_imports(include=_INSTRUMENTED):
        run = _target(arguments.target)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments.folder or made)
        folder.mkdir(parents=True, exist_ok=True)
        _write_seeds(folder, arguments.target)
        atheris.Setup(
            [
                sys.argv[0],
                f"-max_total_time={arguments.seconds}",
                f"-max_len={INPUT_BYTES_MAX}",
                f"-dict={_write_dictionary(folder)}",
                "-rss_limit_mb=1024",
                "-timeout=10",
                "-print_final_stats=1",
                f"-artifact_prefix={folder}/",
                str(folder / "inputs"),
            ],
            lambda data: _guarded(run, arguments.target, data, folder),
        )
        atheris.Fuzz()


def _target(name: str) -> Any:
    if name in MODULES:
        return getattr(importlib.import_module(MODULES[name]), name)
    from targets import TARGETS

    return TARGETS[name]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python tests/fuzz", description=__doc__)
    parser.add_argument("target", choices=["parser", "connection", WORK, INGEST, *MODULES])
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--replay", metavar="HEX-FILE-OR-SEED")
    arguments = parser.parse_args()
    if arguments.seconds is None:
        arguments.seconds = LONGER_S.get(arguments.target, SECONDS)
    return arguments


def _atheris() -> Any:
    try:
        import atheris
    except ImportError:
        version = ".".join(platform.python_version_tuple()[:2])
        print(
            f"no fuzz: atheris has no wheel for {platform.system()} {platform.machine()}, "
            f"Python {version}, or the extra is not installed: .venv/bin/pip install -e '.[soak]'",
            file=sys.stderr,
        )
        sys.exit(NO_WHEEL)
    return atheris


def _guarded(run: Any, target: str, data: bytes, folder: Path) -> None:
    try:
        run(data)
    except BaseException:
        if len(data) <= HEX_BYTES_MAX:
            replayed = data.hex()
        else:
            replayed = str(folder / f"broken-{hashlib.sha256(data).hexdigest()[:12]}")
            Path(replayed).write_bytes(data)
        print(f"\nreplay with: {sys.executable} tests/fuzz {target} --replay {replayed}")
        sys.stdout.flush()
        raise


def _input(replay: str) -> bytes:
    path = Path(replay)
    return path.read_bytes() if len(replay) < 256 and path.is_file() else bytes.fromhex(replay)


def _write_seeds(folder: Path, target: str) -> None:
    seeds = importlib.import_module(MODULES.get(target, "corpus")).seeds
    inputs = folder / "inputs"
    inputs.mkdir(exist_ok=True)
    for seed in seeds():
        (inputs / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


def _write_dictionary(folder: Path) -> Path:
    from corpus import dictionary

    path = folder / "dictionary"
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in dictionary()]
    path.write_text("".join(lines))
    return path


if __name__ == "__main__":
    main()
