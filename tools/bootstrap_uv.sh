#!/bin/sh
# Usage: bootstrap_uv.sh FOLDER [PYTHON]. Installs the pinned uv into a virtual environment at FOLDER.
# Plain sh: it runs before anything is known about the machine's Python.
set -eu

folder=$1
wanted=${2:-}
distribution=${DISTRIBUTION_PYTHON:-/usr/bin/python3}

refuse() { # what, where, do this
    printf '%s\n%s\n%s\n' "$1" "  $2" "  $3" >&2
    exit 1
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

# The distribution's own comes first. It is compiled with profile-guided optimization, and one that
# was compiled on the machine often is not, which makes all of Perdure a seventh slower.
find_python() {
    for fits in has_venv true; do
        for candidate in "$distribution" python3 python3.14 python3.13 python3.12 python3.11 python; do
            if is_new_enough "$candidate" && "$fits" "$candidate"; then
                command -v "$candidate"
                return
            fi
        done
    done
}

if [ -n "$wanted" ]; then
    is_new_enough "$wanted" || refuse "PYTHON=$wanted is no Python 3.11 or newer." \
        "make setup" "Give another one: make setup PYTHON=/path/to/python3.11"
    python=$wanted
else
    python=$(find_python)
    [ -n "$python" ] || refuse "No Python 3.11 or newer was found." \
        "on the PATH; python3 is $(python3 --version 2>&1 || echo absent)" \
        "Install one, or name it: make setup PYTHON=/path/to/python3.11"
fi

has_venv "$python" || refuse "Python's venv module is missing." \
    "$python" "Install it (Debian, Ubuntu: apt install python3-venv) and run make setup again."

"$python" -m venv --clear "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes \
    --requirement "$(dirname "$0")/uv-requirements.txt" || refuse "uv could not be installed." \
    "$folder, from the package index that pip is set up for" \
    "Check the network or pip's index settings and run make setup again."
