#!/usr/bin/env bash
# All checks: formatting and lint, types, tests. Works from any directory.
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usage() {
    cat <<'EOF'
usage: ./run_tests.sh [--all] [PYTEST ARGUMENTS]

Installs what is missing, then runs ruff (lint and format), mypy, and the tests; ends with 0 if all of them pass. Tests
that are skipped are listed with the reason. Needs no GPU; minutes long on two cores.

  --all             also the slow tests: end-to-end training with verl, Ray and vLLM
  PYTEST ARGUMENTS  handed to pytest, e.g. tests/mempo, -k likelihood, -x; lint and types are left out then
EOF
}

ALL=no
ARGUMENTS=()
for argument in "$@"; do
    case "$argument" in
        -h | --help) usage; exit 0 ;;
        --all) ALL=yes ;;
        *) ARGUMENTS+=("$argument") ;;
    esac
done

"$ROOT/setup.sh"
BIN="$ROOT/.venv/bin"
cd "$ROOT"
FAILED=()
run() { # run NAME COMMAND...: one check, timed
    local name="$1" begin=$SECONDS; shift
    printf '\n== %s\n' "$name"
    if "$@"; then printf '== %s passed (%d s)\n' "$name" $((SECONDS - begin))
    else FAILED+=("$name"); printf '== %s FAILED (%d s)\n' "$name" $((SECONDS - begin)); fi
}

if [[ ${#ARGUMENTS[@]} -eq 0 ]]; then
    run "ruff check" "$BIN/ruff" check .
    run "ruff format" "$BIN/ruff" format --check .
    run "mypy" "$BIN/mypy"
fi
# One thread per process: the tests start several, on few cores.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
SELECTION=()
[[ $ALL == yes ]] && SELECTION=(-m "") # pyproject.toml leaves the slow ones out
run "tests" "$BIN/python" -m pytest -rs "${SELECTION[@]}" "${ARGUMENTS[@]}"

if [[ ${#FAILED[@]} -gt 0 ]]; then
    printf '\nfailed: %s\n' "${FAILED[*]}"
    exit 1
fi
printf '\nall checks passed\n'
