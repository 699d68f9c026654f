#!/bin/bash
#SBATCH --job-name=negengine
#SBATCH --array=0-15
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --output=%x-%A-%a.log

# One task of this array is one shard of a run. The arguments are a run command:
#
#     sbatch shards.sh select roberta-base
#
# A task that was killed or preempted continues its shard when it starts again.
# To submit some tasks again, also name the whole array, as their environment does not:
#
#     INDICES=0-15 sbatch --array=3,7 shards.sh select roberta-base
#
# With GPUs: sbatch --gpus-per-task=1 shards.sh select roberta-base --device cuda

set -euo pipefail

exec negengine "$@" --threads "${SLURM_CPUS_PER_TASK:-1}" --shard "auto${INDICES:+:$INDICES}"
