#!/usr/bin/env bash
# Makes the environment in .venv if it is not there or older than pyproject.toml.
#   conf/make-env.sh [EXTRA]      EXTRA: test
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
extra="${1:-}"
stamp="$root/.venv/.made${extra:+-$extra}"
if [[ -f "$stamp" && "$stamp" -nt "$root/pyproject.toml" ]]; then
  exit 0
fi
command -v java >/dev/null || { echo "error: Spark needs a JDK 17 or newer, and there is no java on the PATH" >&2; exit 1; }
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
"$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root${extra:+[$extra]}"
echo "compiling the kernels (once; takes about a minute)"
"$root/.venv/bin/python" -m acidlib.rewrite.warm
touch "$stamp"
