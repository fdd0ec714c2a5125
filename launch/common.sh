# Shared by the scripts; sourced, not run.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Packages for the program, and further ones for its tests and checks.
build_packages=(g++ cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libopenblas0-openmp
                libboost-serialization-dev libfmt-dev libcli11-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev
                libsentencepiece-dev libhwloc-dev libedit-dev libxxhash-dev libcurl4-openssl-dev libssl-dev ca-certificates)
test_packages=(libgtest-dev clang-format patch)
# Needed by some tests only, which are skipped without them.
optional_test_packages=(python3-matplotlib slurm-wlm munge iproute2 libonig-dev dpkg-dev file groff-base systemd curl)

# say_how_to_build REASON NAME...: how to build without apt-get or without root; ends the script.
say_how_to_build() {
  cat >&2 <<EOF
$(basename "$0"): $1
Needed, by Debian's package names: ${*:2}
launch/README.md has the names for Ubuntu 24.04 and for Rocky and Alma Linux 9 ("Other systems"). If these packages are installed, or an
administrator installs them, build without root:
  cmake -S "$root" -B build -DTP_UNITY=ON -DTP_CPUS=native -DTP_BUILD_TESTS=OFF
  cmake --build build --parallel
  cmake --install build --prefix "\$HOME/sw"
Otherwise, with g++ 11, make, CMake 3.25 and an MPI, this command builds the missing libraries from source, too:
  launch/build-from-source --prefix "\$HOME/sw"
EOF
  exit 1
}

# install_packages NAME...: installs the missing ones. Does nothing on systems without Debian's packages, whose libraries CMake
# looks for.
install_packages() {
  command -v dpkg-query >/dev/null || return 0
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || say_how_to_build "packages are missing, and neither root nor sudo can install them" "${missing[@]}"
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}" >&2
  # An installation that was interrupted before (a power cut, a closed terminal) would make apt-get refuse.
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive dpkg --force-confold --configure -a >/dev/null
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >/dev/null
}

# The packages of clang, with its libraries for sanitizers and OpenMP, in the version of this system.
clang_packages() {
  local version
  version="$(clang++ --version 2>/dev/null | sed -n 's/.*clang version \([0-9]*\).*/\1/p')"
  [ -n "$version" ] || version="$(apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')"
  echo clang "libclang-rt-$version-dev" libomp-dev
}

# Open MPI refuses to run as root without both; a container or a CI machine often has no other user.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
