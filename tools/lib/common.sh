# Sourced by tools/setup, tools/test and tools/demo: where things are, how a step is shown, how a build is configured.
# shellcheck shell=bash disable=SC2034  # its readers use the variables

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top" || exit 1
deps=$top/build/deps         # what set-up builds; wiped with build/
logs=$top/build/logs         # one file a step
venv=$top/build/venv
python=/usr/bin/python3      # the distribution's: its python3-torch is no other's
[ -x "$venv/bin/python" ] && python=$venv/bin/python
mkdir -p "$deps" "$logs"

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# try NAME COMMAND...: runs it with its output in a log, shows one line with the time; returns its status.
try() {
  local name=$1 log start=$SECONDS status=0
  shift
  log=$logs/$(printf '%s' "$name" | tr -c 'a-zA-Z0-9.\n' '-').log
  printf '%s ... ' "$name"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" = 0 ]; then say "$((SECONDS - start)) s"; else say "failed (${log#"$top/"})"; fi
  return "$status"
}

# step NAME COMMAND...: as try, and the end of the log and of the program when it fails.
step() {
  try "$@" && return
  tail -n 40 "$logs/$(printf '%s' "$1" | tr -c 'a-zA-Z0-9.\n' '-').log" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo -- "$@"
  else die "run this as root, or install sudo: $*"; fi
}

# configure DIR OPTION...: meson setup, or again when the options are not those of the last time.
configure() {
  local dir=$1 want again=()
  shift
  set -- --buildtype=debugoptimized --pkg-config-path "$deps/fuse3/lib/pkgconfig" "$@"
  # Not with sanitizers: gcc 12 then warns about its own <regex>.
  if [ -n "${CI:-}" ] && [[ "$*" != *b_sanitize* ]]; then set -- "$@" --werror; fi
  want="${CC:-} ${CXX:-} $*"
  [ -f "$dir/build.ninja" ] && [ "$(cat "$dir/.options" 2>/dev/null)" = "$want" ] && return
  [ ! -f "$dir/build.ninja" ] || again=(--reconfigure)
  step "configure $dir" meson setup "${again[@]}" "$dir" "$@"
  printf '%s\n' "$want" >"$dir/.options"
}

targets=                     # of build; none: all
# build DIR OPTION...: configure and compile. The compiler's messages are shown only when it fails.
build() {
  configure "$@"
  # shellcheck disable=SC2086
  step "build $1" ninja -C "$1" $targets
}
