#!/usr/bin/env bash
# run.sh DIRECTORY: the whole rename and move, in a clean checkout that is not the one this script lies in.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ruff=$(dirname "$(dirname "$here")")/.venv/bin/ruff
cd "$1"
tidy() { "$ruff" check -q --fix-only . || true; "$ruff" format -q .; }
python3 "$here/pre.py" . && tidy
git commit -qam "Spell error codes and kinds of exported records out"
python3 "$here/codemod.py" . "$here"/{surfaces,center,parts,extra}.tsv
for step in fixups arch contributing; do python3 "$here/$step.py" .; done
git add -A && tidy
python3 "$here/rewrap.py" . "$ruff" && "$ruff" format -q .
git apply --reject "$here/follow.patch" || echo "some of follow.patch has to be made by hand"
git add -A && "$ruff" check .
echo "next: make setup (the program has moved), tertulia schema > docs/schema.json, make check test"
