# Shared by the scripts of this folder; sourced, not run. They simulate hosts with namespaces on one machine.

# CTest's status for a skipped test.
skip() {
  echo "skipped: $*"
  exit 77
}

# enter_world "$0" "$@": restarts the script as root in namespaces of its own: networks, processes, mounts (an empty /run)
# and a host name. Ports and folders in them cannot conflict, and nothing is left when the script ends, however it ends.
enter_world() {
  if [ -n "${TP_HOSTS_WORLD:-}" ]; then
    mount -t tmpfs tmpfs /run
    # Processes have the same numbers in each world, and Open MPI names its folders after them.
    mkdir /run/tmp
    export TMPDIR=/run/tmp
    return
  fi
  local world=(unshare --net --uts --mount --pid --fork --kill-child --mount-proc)
  "${world[@]}" true 2>/dev/null || skip "imitating hosts needs root and namespaces"
  TP_HOSTS_WORLD=yes exec "${world[@]}" "$@"
}

# require_tools PACKAGES TOOL...
require_tools() {
  local packages="$1" tool
  shift
  for tool in "$@"; do
    [ -n "$(type -P "$tool")" ] || skip "$tool is not installed (apt-get install $packages)"
  done
}

# expect WHAT COMMAND...: the command must succeed; otherwise its output is shown and the test has failed.
expect() {
  local what="$1"
  shift
  if "$@" >/run/expect.log 2>&1; then
    echo "ok: $what"
  else
    echo "FAILED: $what: $*"
    sed 's/^/    /' /run/expect.log
    exit 1
  fi
}

# require_built FOLDER PROGRAM...: ends the script unless the programs are there, and says how to build them.
require_built() {
  local folder="$1" program tree
  tree="$(dirname "$(realpath -m "$folder")")"
  shift
  for program in "$@"; do
    [ -x "$folder/$program" ] && continue
    echo "${0##*/}: cannot find $folder/$program: expected a program that is built; run: cmake -S ${root:-.} -B $tree" \
      "-DTP_BUILD_BENCHMARKS=ON && cmake --build $tree --target $program" >&2
    exit 2
  done
}
