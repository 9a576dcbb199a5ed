#!/bin/sh
# The mark of a release that is whole: a digest of each of its files, so that it vouches for what is on the disk and not for
# what was written. A power cut leaves files with 0 bytes behind a mark that is there.
#   whole_release.sh mark DIR     put all on the disk, then write the mark
#   whole_release.sh check DIR    exit code 0 if all files are as they were marked, else 1
set -eu
program=$(readlink -f "$0")
cd "$2"
sums() {
    # Python writes __pycache__ as it runs.
    find . -type f ! -name installed ! -name installed.new ! -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum
}
case $1 in
mark)
    sums >installed.new
    sync
    mv installed.new installed
    sync
    ;;
check)
    [ -s installed ] || exit 1
    if grep -q '^[0-9a-f]\{64\}  ' installed; then
        sha256sum --check --status --strict installed || exit 1
    else
        # The mark of an earlier version is only a name: it becomes one of this version if all files have the sizes that pip noted.
        python3 - <<'PYTHON' || exit 1
import csv
import sys
from pathlib import Path

records = list(Path().glob("lib/python3*/site-packages/*.dist-info/RECORD"))
for record in records:
    for name, _, size in csv.reader(record.open()):
        if size and (record.parents[1] / name).stat().st_size != int(size):
            sys.exit(1)
sys.exit(not records)
PYTHON
        "$program" mark .
    fi
    ;;
esac
