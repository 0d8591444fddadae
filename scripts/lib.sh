# Sourced by the other scripts: where things are, and how progress and faults are told. All of it goes to stderr.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:?}/.cache}/roco

say() {
    printf '==> %s\n' "$*" >&2
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Configures and builds a preset of CMakePresets.json. ccache is used where it is, never asked for.
build_preset() {
    local launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    (cd "$root" && cmake --preset "$1" "${launcher[@]}" && cmake --build --preset "$1")
}
