# shellcheck shell=bash
# What the trial and the tests share: missing system packages, downloads, and a model server.
# Sourced by scripts that run with `set -euo pipefail` from the repository's root.

# shellcheck disable=SC2034  # used by the scripts that source this file
cache="${XDG_CACHE_HOME:-$HOME/.cache}/approver"
scratch=
server_pid=
server_url=
judge_name=

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "error: $*"
    exit 1
}

# Installs Debian packages for what is missing, and nothing when all is there.
need_system_tools() {
    local packages=()
    command -v cargo >/dev/null || fail "cargo was not found; https://rustup.rs installs Rust"
    command -v cc >/dev/null || packages+=(gcc libc6-dev)
    command -v make >/dev/null || packages+=(make)
    if ! command -v python3 >/dev/null; then
        packages+=(python3 python3-venv)
    elif ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
        packages+=(python3-venv)
    fi
    [ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"
}

install_packages() {
    local as_root=()
    command -v apt-get >/dev/null || fail "please install: $*"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "please install as root: apt-get install $*"
        as_root=(sudo)
    fi
    say "installing Debian packages: $*"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq install --yes --no-install-recommends "$@" >&2
}

# A scratch folder for pipes and logs that is gone when the script ends, like the server.
make_scratch() {
    scratch="$(mktemp -d)"
    trap clean_up EXIT
    # A signal ends the script through the trap above.
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
}

clean_up() {
    if [ -n "$server_pid" ]; then
        kill "$server_pid" 2>/dev/null || true
        wait "$server_pid" 2>/dev/null || true
    fi
    [ -z "$scratch" ] || rm -rf "$scratch"
}

# start_server PYTHON MODEL [OPTION...]: sets server_url once the model answers; fails when the
# server ends before.
start_server() {
    local python="$1" started=$SECONDS
    shift
    mkfifo "$scratch/server.stdin"
    "$python" examples/trial/server.py "$@" \
        <"$scratch/server.stdin" >"$scratch/server.url" 2>"$scratch/server.log" &
    server_pid=$!
    # The server lives as long as somebody holds this pipe open.
    exec 9>"$scratch/server.stdin"
    while [ ! -s "$scratch/server.url" ]; do
        if ! kill -0 "$server_pid" 2>/dev/null; then
            tail -n 5 "$scratch/server.log" >&2
            say "the model server did not start"
            server_pid=
            return 1
        fi
        sleep 0.2
        elapsed "loading the model" "$started"
    done
    # shellcheck disable=SC2034  # used by the scripts that source this file
    server_url="$(cat "$scratch/server.url")"
    end_elapsed "the model is ready after $((SECONDS - started)) s"
}

# Rewrites one line on a terminal; elsewhere a log keeps the last word alone.
elapsed() {
    [ ! -t 2 ] || printf '\r%s: %s s ' "$1" "$((SECONDS - $2))" >&2
}

end_elapsed() {
    [ ! -t 2 ] || printf '\r\033[K' >&2
    say "$1"
}

# Sets judge_name (empty: none), warm_up, and the environment that the binary reads. The script
# that calls it defines no_judge.
choose_judge() {
    # shellcheck disable=SC2034  # used by the scripts that source this file
    warm_up=()
    if [ -n "${APPROVER_JUDGE_BASE_URL:-}${OPENAI_BASE_URL:-}" ] ||
        { [ -n "${OPENAI_API_KEY:-}" ] && [ -n "${OPENAI_MODEL:-}" ]; }; then
        judge_name="${APPROVER_JUDGE_MODEL:-${OPENAI_MODEL:-the configured endpoint}}"
        say "judge: $judge_name, from the environment"
        export APPROVER_JUDGE_DEADLINE="${APPROVER_JUDGE_DEADLINE:-180s}"
        export APPROVER_JUDGE_REQUEST_DEADLINE="${APPROVER_JUDGE_REQUEST_DEADLINE:-600s}"
        return
    fi

    local downloads model
    if [ -n "${APPROVER_TRIAL_GGUF:-}" ]; then
        [ -f "$APPROVER_TRIAL_GGUF" ] || fail "APPROVER_TRIAL_GGUF: no such file: $APPROVER_TRIAL_GGUF"
        judge_name="$(basename "$APPROVER_TRIAL_GGUF" .gguf)"
        downloads=()
    else
        judge_name=qwen2.5-coder-1.5b-instruct
        downloads=(qwen)
    fi
    say "judge: $judge_name on this machine; no endpoint is configured"
    [ -z "${OPENAI_API_KEY:-}" ] || say "(OPENAI_API_KEY is set, but neither OPENAI_BASE_URL nor OPENAI_MODEL)"
    if ! python3 examples/trial/fetch.py --cache "$cache" "${downloads[@]}" >"$scratch/paths"; then
        no_judge
        return
    fi
    model="${APPROVER_TRIAL_GGUF:-$(sed -n 2p "$scratch/paths")}"
    if ! start_server "$(sed -n 1p "$scratch/paths")" "$model" --alias "$judge_name"; then
        no_judge
        return
    fi

    unset OPENAI_BASE_URL OPENAI_API_KEY OPENAI_MODEL
    export APPROVER_JUDGE_BASE_URL="$server_url"
    export APPROVER_JUDGE_MODEL="$judge_name"
    export APPROVER_JUDGE_API_KEY=unused
    export APPROVER_JUDGE_STRUCTURED_OUTPUT=json_schema
    export APPROVER_JUDGE_TEMPERATURE=0
    export APPROVER_JUDGE_SEED=1
    # Two cores without a GPU need minutes where a hosted model needs seconds, one call at a time.
    export APPROVER_JUDGE_DEADLINE="${APPROVER_JUDGE_DEADLINE:-180s}"
    export APPROVER_JUDGE_REQUEST_DEADLINE="${APPROVER_JUDGE_REQUEST_DEADLINE:-600s}"
    export APPROVER_JUDGE_MAX_CONCURRENT=1
    # shellcheck disable=SC2034
    warm_up=(--warm-up)
}
