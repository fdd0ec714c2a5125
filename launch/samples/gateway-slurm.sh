#!/usr/bin/env bash
# A gateway on the login node of a Slurm cluster, and its servers on two nodes of two sockets, or on one node while there are
# no two. If a node fails, or a job's time is over, clients wait for the next job, and get the whole answer.
#   launch/samples/gateway-slurm.sh /models/llama [options of serve]
# Jobs may wait in Slurm's queue for a day (--start-seconds). srun gives the ranks its own environment, so they find the gateway.
set -euo pipefail
if [ $# -lt 1 ]; then
  echo "usage: gateway-slurm.sh MODEL [OPTIONS OF SERVE...]" >&2
  exit 2
fi
model="$1"
port=$((20000 + UID % 10000))
folder="$(mktemp -d "$PWD/tp-infer-gateway.XXXXXX")"  # compute nodes must see it, too
(umask 077 && head -c 24 /dev/urandom | base64 | tr '+/' '-_' >"$folder/keys")

# command NODES: a job of two ranks per node, as a JSON list.
command() {
  printf '%s\0' srun --mpi=pmix --kill-on-bad-exit=1 --nodes="$1" --ntasks-per-node=2 --exclusive --mem=0 \
    --hint=nomultithread --time=08:00:00 tp-infer serve --model "$model" --api-key-file "$folder/keys" "${@:2}" |
    python3 -c 'import json, sys; print(json.dumps(sys.stdin.read().split("\0")[:-1]))'
}
echo "{\"commands\": [$(command 2 "${@:2}"), $(command 1 "${@:2}")]}" >"$folder/gateway.json"
echo "serving at http://$(hostname):$port/v1, with the key in $folder/keys"
exec tp-infer gateway --host 0.0.0.0 --port "$port" --config "$folder/gateway.json" --start-seconds 86400
