#!/usr/bin/env bash
# Runs a job with spark-submit, in an environment of the project's own that is made when it is missing:
#   ./spark-submit.sh [spark-submit options] jobs/JOB.py [job options]
# Our own words go to standard error; standard output is the job's.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
"$root/conf/make-env.sh" >&2
python="$root/.venv/bin/python"
# what else is decided, the command `acidlib` decides alike
PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" exec "$python" -P -m acidlib.cli "$@"
