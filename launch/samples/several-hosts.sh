#!/usr/bin/env bash
# Runs a model on the hosts of a hostfile. The program and the model's files must be at the same place on every host
# (a shared file system, or copies), and ssh must work without a password.
#
#   launch/samples/several-hosts.sh launch/samples/hostfile /models/llama "Once upon a time"
set -euo pipefail
hostfile="$1" model="$2" prompt="$3"
ranks="$(sed -n 's/^[^#].*slots=\([0-9]*\).*/\1/p' "$hostfile" | awk "{ sum += \$1 } END { print sum }")"

# A rank is bound to a socket, so that its threads and its memory stay together. Name the network between the hosts if
# there are several: --mca btl_tcp_if_include eth0
exec mpirun --hostfile "$hostfile" -np "$ranks" --map-by socket --bind-to socket \
  tp-infer generate --model "$model" --prompt "$prompt" --verbose
