#!/usr/bin/env bash
# Trains a self-memory agent, from set-up to report; `./run_train.sh --help` tells how. Works from any directory.
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
for argument in "$@"; do
    # Help needs no set-up; any Python 3 can print it.
    if [[ "$argument" == -h || "$argument" == --help ]] && command -v python3 >/dev/null; then
        cd "$ROOT" # what `-m` looks into first
        exec python3 -m tools.run --help
    fi
done
"$ROOT/setup.sh"
# exec: the run is this process, so that signals and the exit code are its own. -P: a folder named `tools` in the current
# directory must not be taken for ours.
exec "$ROOT/.venv/bin/python" -P -m tools.run "$@"
