#!/usr/bin/env bash
# Runs a model on the hosts of a hostfile. The program and the model must have the same paths on every host (on a shared
# file system, or as copies), and ssh must work without a password.
#
#   launch/samples/several-hosts.sh launch/samples/hostfile /models/llama "Once upon a time" [options of generate]
#   TP_NET=eth0 launch/samples/several-hosts.sh ...
#
# TP_NET selects the network between the hosts: an interface, or a subnet such as 10.0.0.0/8. Without it Open MPI tries
# all interfaces, and hangs or fails if several hosts have one with the same address, such as Docker's bridge docker0.
set -euo pipefail
if [ $# -lt 3 ]; then
  echo "usage: ${0##*/} HOSTFILE MODEL PROMPT [OPTIONS OF GENERATE...]" >&2
  exit 2
fi
hostfile="$1" model="$2" prompt="$3"
ranks="$(sed -n 's/^[^#].*slots=\([0-9]*\).*/\1/p' "$hostfile" | awk "{ sum += \$1 } END { print sum }")"
network=()
[ -z "${TP_NET:-}" ] || network=(--mca btl_tcp_if_include "$TP_NET" --mca oob_tcp_if_include "$TP_NET")

# A host that has vanished is noticed after 5 + 3 * 2 seconds; the defaults add up to minutes.
keepalive=(--mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3)

# Each rank is bound to a NUMA domain, so that its memory is local to its threads.
exec mpirun --hostfile "$hostfile" -np "$ranks" "${network[@]}" "${keepalive[@]}" --map-by numa --bind-to numa \
  tp-infer generate --model "$model" --prompt "$prompt" --verbose "${@:4}"
