#!/usr/bin/env bash
# A gateway on the login node of a Slurm cluster, and its servers on two nodes of two sockets, or on one node while there are
# no two. If a node fails, or a job's time is over, clients wait for the next job, and get the whole answer.
#   launch/samples/gateway-slurm.sh /models/llama [options of serve]
#   TP_NODES=4 TP_RANKS_PER_NODE=2 TP_CORES_PER_NODE=64 TP_PORT=20001 launch/samples/gateway-slurm.sh ...
# Jobs may wait in Slurm's queue for a day (--start-seconds). srun gives the ranks its own environment, so they find the gateway.
set -euo pipefail
if [ $# -lt 1 ]; then
  echo "usage: gateway-slurm.sh MODEL [OPTIONS OF SERVE...]" >&2
  exit 2
fi
model="$1"
nodes="${TP_NODES:-2}" ranks="${TP_RANKS_PER_NODE:-2}" port="${TP_PORT:-$((20000 + UID % 10000))}"
# Nodes may differ: the smallest determines the cores of a rank. sinfo prints "sockets cores-per-socket".
cores="${TP_CORES_PER_NODE:-$(sinfo --noheader --format='%X %Y' | awk 'NR == 1 || $1 * $2 < least { least = $1 * $2 } END { print least + 0 }')}"
if [ "$cores" -lt "$ranks" ]; then
  echo "gateway-slurm.sh: expected a core for each of $ranks ranks of a node, found $cores; set TP_RANKS_PER_NODE or TP_CORES_PER_NODE" >&2
  exit 2
fi
folder="$(mktemp -d "$PWD/tp-infer-gateway.XXXXXX")"  # compute nodes must see it, too
(umask 077 && head -c 24 /dev/urandom | base64 | tr '+/' '-_' >"$folder/keys")
# Otherwise the barrier of Slurm's PMIx doesn't wait, and about one start in a hundred crashes.
export SLURM_PMIX_FENCE=ring

# command NODES: a job on so many nodes, as a JSON list. Without --cpus-per-task, srun would give each rank one core.
command() {
  printf '%s\0' srun --mpi=pmix --kill-on-bad-exit=1 --nodes="$1" --ntasks-per-node="$ranks" --cpus-per-task=$((cores / ranks)) \
    --exclusive --mem=0 --hint=nomultithread --time=08:00:00 \
    tp-infer serve --model "$model" --api-key-file "$folder/keys" "${@:2}" |
    python3 -c 'import json, sys; print(json.dumps(sys.stdin.read().split("\0")[:-1]))'
}
echo "{\"commands\": [$(command "$nodes" "${@:2}"), $(command 1 "${@:2}")]}" >"$folder/gateway.json"
echo "serving at http://$(hostname):$port/v1, with the key in $folder/keys"
exec tp-infer gateway --host 0.0.0.0 --port "$port" --config "$folder/gateway.json" --start-seconds 86400
