# Shared by the scripts of this folder, after world.sh: a simulated Slurm cluster of four nodes with two sockets of one core
# each, all on this machine.

export PATH="$PATH:/usr/sbin:/sbin" SLURM_CONF=/run/slurm.conf

# Skips the test if something is missing.
require_cluster() {
  require_tools "slurm-wlm munge iproute2" slurmctld slurmd sbatch srun munged ip
  [ "$(nproc)" -ge 2 ] || skip "a node of two sockets needs two processors"
}

start_munge() {
  mkdir -p /run/munge
  dd if=/dev/urandom of=/run/munge/key bs=1024 count=1 status=none
  chmod 600 /run/munge/key
  munged --force --key-file=/run/munge/key --seed-file=/run/munge/seed --log-file=/run/munge/log
}

start_node() {
  mkdir -p "/run/nodes/$1"
  # hwloc reports the configured sockets to slurmd, whatever this machine has.
  HWLOC_SYNTHETIC="pack:2 core:1 pu:1" unshare --uts sh -c "hostname $1; exec slurmd -N $1"
}

start_cluster() {
  # Open MPI does not use the loopback device between hosts.
  ip link set lo up
  ip link add network type bridge
  ip addr add 10.0.0.1/24 dev network
  ip link set network up
  start_munge
  cat >"$SLURM_CONF" <<END
ClusterName=imitated
SlurmctldHost=controller(127.0.0.1)
SlurmUser=root
StateSaveLocation=/run/controller
SlurmdSpoolDir=/run/nodes/%n
TmpFS=/run/nodes/%n
SlurmctldPidFile=/run/controller.pid
SlurmdPidFile=/run/%n.pid
SlurmctldLogFile=/run/controller.log
SlurmdLogFile=/run/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
NodeName=node[1-4] NodeAddr=127.0.0.1 Port=[17001-17004] Sockets=2 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES State=UP
END
  hostname controller
  slurmctld
  local node
  for node in node1 node2 node3 node4; do start_node $node; done
  for _ in $(seq 150); do
    [ "$(sinfo --noheader --states=idle --format=%D)" != 4 ] || return 0
    sleep 0.2
  done
  cat /run/*.log
  return 1
}
