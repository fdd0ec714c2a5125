# What the scripts of this folder share; sourced, not run.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# What the program needs, and what its tests and checks need besides.
build_packages=(g++ cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libopenblas-openmp-dev
                libboost-serialization-dev libfmt-dev libcli11-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev
                libsentencepiece-dev libhwloc-dev libedit-dev)
test_packages=(libgtest-dev clang-format patch)
# What only some tests need, which are skipped without it.
optional_test_packages=(python3-matplotlib slurm-wlm munge iproute2)

# install_packages NAME...: installs those that are missing.
install_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  echo "installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null
}

# Open MPI refuses to run as root unless told twice; in a container or on a CI machine root is all there is.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
