#!/bin/sh
# A release's interpreter is Debian's, and an upgrade of Debian to the next one brings another: Debian 12 has Python 3.11, 13 has 3.13.
# What was installed for the one does not run with the other. So a copy of the interpreter and its library stays beside the releases, for
# the time until a play brings a release for the new one.
#   interpreter.sh keep DIR RELEASE     copy the interpreter of a release to DIR/interpreters; says "kept" if there was something to do
#   interpreter.sh carry DIR            before each start, as root: have the release of DIR/venv run with what there is for it
#   interpreter.sh run DIR ARGUMENT...  start its command; exit code 2, and one line, if there is no interpreter for it
set -eu
umask 022
whole=$(dirname "$(readlink -f "$0")")/whole_release.sh
step=$1 folder=$2
shift 2

wanted_by() { # of a release: such as python3.11
    for library in "$1"/lib/python3.*; do
        basename "$library"
        return
    done
}

fits() { # whether the release has the interpreter that it was made for
    found=$(readlink -f "$1/bin/python") && [ -x "$found" ] || return 1
    case ${found##*/} in
    "$2") ;;
    python3.*) return 1 ;;
    *) [ "$("$found" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')" = "$2" ] ;;
    esac
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
    if fits "$release" "$wanted"; then
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
    release=$(readlink -f "$folder/venv") || { echo "$folder/venv leads to no release: run site.yml" >&2; exit 2; }
    wanted=$(wanted_by "$release")
    if ! fits "$release" "$wanted"; then
        echo "the interpreter of release ${release##*/} is gone: it is for $wanted, and Debian's is $(debians) now. Run site.yml, which installs one for it" >&2
        exit 2
    fi
    exec "$folder/venv/bin/hedgerow" "$@"
    ;;
esac
