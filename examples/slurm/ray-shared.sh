#!/bin/bash
#SBATCH --job-name=negengine-ray
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log

# A Ray cluster within one job, on nodes that other jobs share. The arguments are a run command:
#
#     sbatch ray-shared.sh select roberta-base
#
# Several such jobs, also of one user, may share a node: every cluster has ports of its own, which the system says are
# free, and a folder of its own. Ray ends with the job steps, and not by `ray stop`, which would stop other jobs' Ray.

set -euo pipefail

export RAY_USAGE_STATS_ENABLED=0
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0 # at the end nothing is left that Ray would have to wait for
# Only who has this token can use the cluster: on shared nodes, other users could run their programs as you.
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
folder=/tmp/ray-$SLURM_JOB_ID # short: the path of a socket has at most 107 bytes
cpus=${SLURM_CPUS_PER_TASK:-1}
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")

free_ports() { # of this node, which is the first of the job
    python3 -c 'import socket, sys
sockets = [socket.create_server(("", 0)) for _ in range(int(sys.argv[1]))]
print(*(own.getsockname()[1] for own in sockets))' "$1"
}

read -r port agent < <(free_ports 2)
address=${nodes[0]}:$port
common=(--num-cpus "$cpus" --temp-dir "$folder" --object-store-memory 1000000000 --disable-usage-stats --block)

trap 'kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$folder"' EXIT

srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" --overlap \
    ray start --head --node-ip-address "${nodes[0]}" --port "$port" --dashboard-agent-listen-port "$agent" \
    --include-dashboard false "${common[@]}" &

for attempt in {1..60}; do
    timeout 20 ray health-check --address "$address" > /dev/null 2>&1 && break
    kill -0 $! # ends this job if the head has ended
    ((attempt < 60)) || { echo "Ray does not answer at $address" >&2; exit 1; }
    sleep 2
done

if ((${#nodes[@]} > 1)); then
    others=$(IFS=,; echo "${nodes[*]:1}")
    srun --nodes=$((${#nodes[@]} - 1)) --ntasks-per-node=1 --nodelist="$others" --overlap \
        ray start --address "$address" "${common[@]}" &
fi

negengine "$@" --ray "$address" --workers "${#nodes[@]}" --cpus-per-worker "$cpus"
