#!/bin/sh
# A release's interpreter is Debian's, and an upgrade of Debian to the next one brings another: Debian 12 has Python 3.11, 13 has 3.13.
# What was installed for the one does not run with the other. So a copy of the interpreter and its library stays beside the releases, for
# the time until a play brings a release for the new one.
# DIR is a folder of releases, whose link venv leads to the one that runs; for "run" it may be a virtual environment by itself, too.
#   interpreter.sh keep DIR RELEASE     copy the interpreter of a release to DIR/interpreters; says "kept" if there was something to do
#   interpreter.sh carry DIR            before each start, as root: have the release of DIR/venv run with what there is for it
#   interpreter.sh run DIR ARGUMENT...  start its command; exit code 2, and one line, if there is no interpreter for it
set -eu
umask 022
whole=$(dirname "$(readlink -f "$0")")/whole_release.sh
step=$1 folder=$2
shift 2
venv=$folder/venv
[ ! -e "$folder/pyvenv.cfg" ] || venv=$folder

wanted_by() { # of a release: such as python3.11; empty if it has no library
    for library in "$1"/lib/python3.*; do
        basename "$library"
        return
    done
}

fits() { # whether the release has an interpreter that it has a library for
    found=$(readlink -f "$1/bin/python3") && [ -x "$found" ] || return 1
    case ${found##*/} in
    python3.*) version=${found##*/} ;;
    *) version=$("$found" -c 'import sys; print("python%d.%d" % sys.version_info[:2])') || return 1 ;;
    esac
    [ -d "$1/lib/$version" ]
}

works() { [ -x "$1" ] && "$1" -I -c 'import asyncio, ctypes, sqlite3, ssl' 2>/dev/null; }

debians() { readlink -f /usr/bin/python3 || echo none; }

keep() {
    release=$1 wanted=$(wanted_by "$1")
    copy=$folder/interpreters/${wanted#python}
    found=$(readlink -f "$release/bin/python")
    case $found in "$folder"/*) return ;; esac
    library=$("$found" -I -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
    # Only as Debian has it: another one is its operator's, and no upgrade of Debian takes it away.
    [ "$found" = "/usr/bin/$wanted" ] && [ -f "$library/os.py" ] || return 0
    for other in "$folder"/interpreters/*; do
        ls -d "$folder"/releases/*/lib/"python${other##*/}" >/dev/null 2>&1 || rm -rf "$other"
    done
    if cmp -s "$found" "$copy/bin/$wanted" && "$whole" check "$copy"; then
        return
    fi
    rm -rf "$copy.new"
    mkdir -p "$copy.new/bin" "$copy.new/lib/$wanted"
    cp "$found" "$copy.new/bin/"
    tar -C "$library" --exclude=__pycache__ --exclude=./test --exclude=./idlelib --exclude=./lib2to3 --exclude=./pydoc_data \
        --exclude=./ensurepip --exclude=./sitecustomize.py -cf - . | tar -C "$copy.new/lib/$wanted" --no-same-owner -xf -
    works "$copy.new/bin/$wanted" || { echo "the copy of $found in $copy.new does not run" >&2; exit 1; }
    find "$copy.new" -name __pycache__ -prune -exec rm -rf {} +
    "$whole" mark "$copy.new"
    rm -rf "$copy"
    mv "$copy.new" "$copy"
    sync
    echo kept
}

carry() {
    release=$(readlink -f "$folder/venv") && wanted=$(wanted_by "$release") || return 0
    if fits "$release"; then
        return
    fi
    for candidate in "/usr/bin/$wanted" "$folder/interpreters/${wanted#python}/bin/$wanted"; do
        works "$candidate" || continue
        # The links last: until they have changed, the next start does all of it again.
        sed "s|^home = .*|home = ${candidate%/*}|" "$release/pyvenv.cfg" >"$release/pyvenv.cfg.new"
        sync "$release/pyvenv.cfg.new"
        mv "$release/pyvenv.cfg.new" "$release/pyvenv.cfg"
        for link in python python3 "$wanted"; do
            case $(readlink "$release/bin/$link" || true) in
            /*)
                ln -sfn "$candidate" "$release/bin/$link.new"
                mv -T "$release/bin/$link.new" "$release/bin/$link"
                ;;
            esac
        done
        sync
        echo "Debian's Python is $(debians) now, and this release is for $wanted: it goes on with $candidate. Run site.yml for a release for the new one" >&2
        return
    done
}

case $step in
keep) keep "$1" ;;
carry) carry ;;
run)
    release=$(readlink -f "$venv") || { echo "$venv leads to no release: run site.yml" >&2; exit 2; }
    if ! fits "$release"; then
        case $venv in
        "$folder") what="environment $venv" remedy="Make it anew, and install Hedgerow there" ;;
        *) what="release ${release##*/}" remedy="Run site.yml, which installs one for it" ;;
        esac
        echo "the interpreter of $what is gone: it is for $(wanted_by "$release"), and Debian's is $(debians) now. $remedy" >&2
        exit 2
    fi
    exec "$venv/bin/hedgerow" "$@"
    ;;
esac
