#!/usr/bin/env bash
# Makes the environment in .venv if it is not there or older than pyproject.toml, and compiles the kernels ahead.
#   conf/make-env.sh [EXTRA [--no-kernels]]      EXTRA: test; --no-kernels: another call compiles them, beside other work
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
extra="${1:-}"
kernels_too=true
if [[ "${2:-}" == --no-kernels ]]; then kernels_too=false; fi
installed="$root/.venv/.installed${extra:+-$extra}"
warm="$root/.venv/.warm"

is_installed() { [[ -f "$installed" && "$installed" -nt "$root/pyproject.toml" ]]; }
kernels=("$root/acidlib/orc/kernels" "$root/acidlib/orc/columns.py" "$root/acidlib/rows/row_ids.py")
is_warm() { ! $kernels_too || [[ -f "$warm" && -z "$(find "${kernels[@]}" -name '*.py' -newer "$warm" -print -quit)" ]]; }

if is_installed && is_warm; then exit 0; fi
# of two jobs that start at once on a new machine, one makes it and the other waits
exec 9> "$root/.venv.lock"
flock 9

if ! is_installed; then
  command -v java >/dev/null || { echo "error: a JDK 17 or newer is needed, and there is no java on the PATH" >&2; exit 1; }
  python=""
  for candidate in "${ACIDLIB_PYTHON:-}" python3 python3.13 python3.12 python3.11; do
    if [[ -n "$candidate" ]] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      python="$candidate"
      break
    fi
  done
  [[ -n "$python" ]] || { echo "error: Python 3.11 or newer is needed, and there is none on the PATH" >&2; exit 1; }
  echo "making the environment in $root/.venv (once; takes a minute or two)"
  "$python" -m venv "$root/.venv"
  "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    --editable "$root${extra:+[$extra]}"
  # pip would do it on one core, and for all that is there: of these a run loads little or nothing
  rarely='/(mypyc?|pip|pygments|setuptools|tests?)/'
  nice "$root/.venv/bin/python" -m compileall -qq -j 0 -x "$rarely" "$root/.venv/lib" >/dev/null 2>&1 9>&- || true &
  touch "$installed" "$root/.venv/.installed"  # what has an extra has the rest, too
fi

if ! is_warm; then
  echo "compiling the kernels (once; takes about a minute)"
  find "$root/acidlib" \( -name '*.nbi' -o -name '*.nbc*' \) -delete  # of older sources
  "$root/.venv/bin/python" -m acidlib.rewrite.warm
  touch "$warm"
fi
if $kernels_too; then wait; fi  # else what packages bring is compiled beside other work, too
