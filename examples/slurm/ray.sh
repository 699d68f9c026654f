#!/bin/bash
#SBATCH --job-name=negengine-ray
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log

# A Ray cluster within one job, on nodes that no other job shares. The arguments are a run command:
#
#     sbatch ray.sh select roberta-base
#
# `ray symmetric-run` starts Ray on every node, runs the command on the first one, and stops Ray at the end. It refuses
# a node on which Ray runs already, and it stops every Ray of this user there: on shared nodes take ray-shared.sh.
# To continue after the end of the time, submit the same command again.

set -euo pipefail

export RAY_USAGE_STATS_ENABLED=0
# Only who has this token can use the cluster: on shared nodes, other users could run their programs as you.
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
export RAY_TMPDIR=/tmp/ray-$SLURM_JOB_ID # short: the path of a socket has at most 107 bytes
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$head:$((20000 + SLURM_JOB_ID % 10000)) # below the ports that the system gives to clients

srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \
    ray symmetric-run --address "$address" --min-nodes "$SLURM_JOB_NUM_NODES" --temp-dir "$RAY_TMPDIR" -- \
    negengine "$@" --ray "$address"
