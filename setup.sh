#!/usr/bin/env bash
# The one set-up: makes .venv with the tested set of packages for this machine. run_train.sh and run_tests.sh call it.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
VENV="$ROOT/.venv"
STAMP="$VENV/mempo-set-up"          # written last: "<cpu|gpu> <hash> <seconds>"
UNDERWAY="$VENV/mempo-set-up-underway" # there while packages are being installed

usage() {
    cat <<'EOF'
usage: ./setup.sh [--cpu | --gpu]

Makes .venv beside this script and installs the tested set of packages into it: requirements/gpu.lock where nvidia-smi
finds a GPU, else requirements/cpu.lock. --cpu and --gpu choose the set by hand; the choice stays until you choose again.
Runs in milliseconds when nothing changed; installs again when the lock or pyproject.toml did. An interrupted set-up is
begun anew. Needs Python 3.11 (as `python3.11` or `python3`) with its venv module; packages come from pip's own index
settings (PIP_INDEX_URL and so on are honoured), so the same script works with a mirror.

The GPU set also builds flash-attn against the installed torch, which needs the CUDA 13 compiler (nvcc) and some time.
EOF
}

say() { printf 'set-up: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

KIND=""
for argument in "$@"; do
    case "$argument" in
        --cpu) KIND=cpu ;;
        --gpu) KIND=gpu ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; die "unknown argument '$argument'" ;;
    esac
done

WHY="chosen by hand"
if [[ -z "$KIND" && -f "$STAMP" ]]; then
    KIND="$(cut -d' ' -f1 "$STAMP")"
    WHY="as before"
fi
if [[ "$KIND" != cpu && "$KIND" != gpu ]]; then
    if command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU; then
        KIND=gpu; WHY="nvidia-smi lists a GPU"
    else
        KIND=cpu; WHY="nvidia-smi lists no GPU"
    fi
fi
LOCK="$ROOT/requirements/$KIND.lock"
HASH="$(cat "$LOCK" "$ROOT/pyproject.toml" <(printf '%s' "$ROOT") | sha256sum | cut -d' ' -f1)"

done_already() { [[ -f "$STAMP" && ! -e "$UNDERWAY" && "$(cut -d' ' -f1,2 "$STAMP")" == "$KIND $HASH" && -x "$VENV/bin/python" ]]; }
done_already && exit 0

# Two commands started at once must not install into one folder at the same time.
if command -v flock >/dev/null; then
    exec 9<"$ROOT/setup.sh"
    flock -n 9 || { say "waiting for another set-up of this folder"; flock 9; }
    done_already && exit 0
fi

PYTHON=""
for candidate in python3.11 python3 python; do
    if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        PYTHON="$candidate"; break
    fi
done
[[ -n "$PYTHON" ]] || die "Python 3.11 not found (looked for python3.11, python3, python on PATH). Install it, for example with your system's
package manager (python3.11 and python3.11-venv), pyenv or conda, and start again. Other versions are not tested with this set."

START=$SECONDS
say "$KIND set ($WHY), $(grep -c '==' "$LOCK") packages into $VENV"
if [[ -e "$UNDERWAY" ]]; then
    say "an earlier set-up was interrupted: beginning anew"
    rm -rf "$VENV"
elif [[ -f "$STAMP" && "$(cut -d' ' -f1 "$STAMP")" != "$KIND" ]]; then
    say "the environment held the other set: beginning anew"
    rm -rf "$VENV"
elif [[ -e "$VENV" ]] && ! "$VENV/bin/python" -I -m pip --version >/dev/null 2>&1; then
    say "$VENV has no working Python: beginning anew"
    rm -rf "$VENV"
fi
trap 'say "interrupted after $((SECONDS - START)) s; start again to finish"; exit 130' INT TERM
mkdir -p "$VENV"
touch "$UNDERWAY"
if [[ ! -x "$VENV/bin/python" ]]; then
    "$PYTHON" -I -m venv "$VENV" || die "could not make a virtual environment with $PYTHON; on Debian and Ubuntu install python3.11-venv"
fi

# -I: neither the current folder nor PYTHONPATH holds packages of this environment.
# --no-compile: 28,000 files, of which a run imports a part; Python compiles those when it first does.
PIP=("$VENV/bin/python" -I -m pip install -qq --disable-pip-version-check --no-input --no-compile)
step() { # step TEXT COMMAND...: runs the command, prints the time it took
    local text="$1" begin=$SECONDS; shift
    say "$text ..."
    "$@" || die "failed: $text (the error is above; after mending it, start again)"
    say "$text: $((SECONDS - begin)) s"
}

# torch by itself and with its dependencies: its CPU build has few, its CUDA build brings the CUDA libraries along.
step "torch" "${PIP[@]}" --constraint "$LOCK" "$(grep -E '^torch==' "$LOCK")"
# The rest as listed. --no-deps because the list is complete: nothing is resolved, nothing can move.
REST="$VENV/mempo-rest.txt"
grep -vE '^(#|torch==|flash-attn==)' "$LOCK" >"$REST"
step "the other packages" "${PIP[@]}" --no-deps -r "$REST"
if FLASH="$(grep -E '^flash-attn==' "$LOCK")"; then
    step "$FLASH (built here; can take long)" "${PIP[@]}" --no-deps --no-build-isolation "$FLASH"
fi
step "the project itself" "${PIP[@]}" --no-deps --editable "$ROOT"
step "check of the installed versions" "$VENV/bin/python" -P -m tools.run.versions "$LOCK"

printf '%s %s %s\n' "$KIND" "$HASH" "$((SECONDS - START))" >"$STAMP"
rm -f "$UNDERWAY"
say "ready after $((SECONDS - START)) s"
