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
if ! [ -r "$hostfile" ]; then
  echo "${0##*/}: cannot read $hostfile: expected a hostfile, as launch/samples/hostfile; give its path" >&2
  exit 2
fi

# Open MPI's syntax: "user@host slots = 2 max-slots=8 # comment". Without slots a host has as many as max-slots, or else one
# for each time that it is listed.
ranks="$(sed -E 's/(#|\/\/).*//; s/\r//; s/[[:space:]]*=[[:space:]]*/=/g' "$hostfile" | awk -F '[ \t=]+' '
  { sub(/^[ \t]+/, "") }
  NF > 0 && $1 != "" {
    slots = most = ""
    for (i = 2; i < NF; ++i) {
      if ($i ~ /^(slots|cpu|count)$/) slots = $(i + 1)
      if ($i ~ /^(max[-_](slots|cpu|count)|(slots|cpu|count)[-_]max)$/) most = $(i + 1)
    }
    ranks += slots != "" ? slots : most != "" ? most : 1
  }
  END { print ranks + 0 }')"
if [ "$ranks" -eq 0 ]; then
  echo "${0##*/}: $hostfile: expected a line per host, such as \"node1 slots=2\", found none; add them" >&2
  exit 2
fi
network=()
[ -z "${TP_NET:-}" ] || network=(--mca btl_tcp_if_include "$TP_NET" --mca oob_tcp_if_include "$TP_NET")

# A host that has vanished is noticed after 5 + 3 * 2 seconds; the defaults add up to minutes.
keepalive=(--mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3)

# A host without slots gets one rank. The variable is for Open MPI 5.
slots=(--mca orte_set_default_slots 1)
export PRTE_MCA_prte_set_default_slots=1

# Each rank is bound to a NUMA domain, so that its memory is local to its threads.
exec mpirun --hostfile "$hostfile" "${slots[@]}" -np "$ranks" "${network[@]}" "${keepalive[@]}" --map-by numa --bind-to numa \
  tp-infer generate --model "$model" --prompt "$prompt" --verbose "${@:4}"
