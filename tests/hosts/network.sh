# Shared by the scripts of this folder, after world.sh: hosts host1, host2, ... with addresses 10.0.0.1, ... in network
# namespaces of their own, with host names of their own.

# start_hosts COUNT [DELAY_US MBIT]: connected by a bridge, or by network_switch (in $bin) with a delay and a rate; 0 is no
# limit of the rate.
start_hosts() {
  local count="$1" host ports=() switch
  for host in $(seq "$count"); do
    ip netns add "host$host"
    ports+=("port$host")
  done
  if [ $# -gt 1 ]; then
    "$bin/network_switch" "$2" "$3" "${ports[@]}" &
    switch=$!
    until ip link show "port$count" >/dev/null 2>&1; do
      if ! kill -0 "$switch" 2>/dev/null; then
        echo "${0##*/}: the simulated network has ended before it began; what $bin/network_switch says is above" >&2
        return 1
      fi
      sleep 0.05
    done
  else
    ip link add network type bridge
    ip link set network up
  fi
  : >/run/hostfile
  for host in $(seq "$count"); do
    if [ $# -gt 1 ]; then
      ip link set "port$host" netns "host$host"
      ip -n "host$host" link set "port$host" name eth0
    else
      ip link add "port$host" type veth peer name eth0 netns "host$host"
      ip link set "port$host" mtu 9000 master network up
    fi
    connect_host "$host"
  done
  write_agent
}

connect_host() {
  local host="host$1"
  ip -n "$host" link set lo up
  ip -n "$host" addr add "10.0.0.$1/24" dev eth0
  ip -n "$host" link set eth0 mtu 9000 up  # as at the other end, or mpirun hangs
  # Every host has the same address on this bridge, like Docker's.
  ip -n "$host" link add docker0 type bridge
  ip -n "$host" addr add 172.17.0.1/16 dev docker0
  ip -n "$host" link set docker0 up
  echo "10.0.0.$1 slots=1" >>/run/hostfile
}

# Writes the program that mpirun calls instead of ssh: on_host [OPTIONS] ADDRESS COMMAND... With TP_ONE_HOST_NAME, all
# hosts have that name.
write_agent() {
  cat >/run/on_host <<'END'
#!/usr/bin/env bash
while [[ "$1" == -* ]]; do shift; done
host="host${1##*.}"
shift
exec ip netns exec "$host" unshare --uts --mount sh -c "mount -t tmpfs tmpfs /dev/shm; hostname ${TP_ONE_HOST_NAME:-$host}; $*"
END
  chmod +x /run/on_host
}

mpirun="$(type -P mpirun)"
# Open MPI 5's launcher, PRRTE, has other names for parameters.
export OMPI_MCA_plm_rsh_agent=/run/on_host OMPI_MCA_plm_rsh_no_tree_spawn=1 PRTE_MCA_plm_ssh_agent=/run/on_host
export PRTE_MCA_plm_ssh_no_tree_spawn=1 PRTE_MCA_prte_keep_fqdn_hostnames=1

# Starts mpirun on host1, with ranks on HOSTS, as those of mpirun --host: on_network HOSTS [OPTIONS...] PROGRAM...
on_network() {
  export OMPI_MCA_mpi_yield_when_idle=1
  local hosts="$1" ranks=()
  shift
  # Without a number, Open MPI 5 maps no rank if it may oversubscribe.
  case " $* " in *' -np '* | *' -n '*) ;; *) ranks=(-np "$(tr , '\n' <<<"$hosts" | awk -F: '{ ranks += $2 ? $2 : 1 } END { print ranks }')") ;; esac
  exec /run/on_host 10.0.0.1 "$(printf '%q ' "$mpirun" --host "$hosts" "${ranks[@]}" --oversubscribe --bind-to none \
    -x OMP_NUM_THREADS=1 --mca orte_keep_fqdn_hostnames 1 --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 "$@")"
}

# mpirun_on HOSTS [OPTIONS...] PROGRAM...: the same for $limit seconds at most.
mpirun_on() {
  export -f on_network
  export mpirun
  timeout "${limit:-60}" bash -c 'on_network "$@"' on_network "$@"
}

# Lets the command mpirun of this script start ranks on these hosts.
mpirun_means() {
  mkdir -p /run/bin
  {
    echo '#!/usr/bin/env bash'
    declare -f on_network
    declare -p mpirun
    printf 'on_network %q "$@"\n' "$1"
  } >/run/bin/mpirun
  chmod +x /run/bin/mpirun
  export PATH="/run/bin:$PATH"
}
