#!/bin/bash
#SBATCH --job-name=negengine-srun
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8
#SBATCH --mem=64G
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log

# One job whose tasks are the shards, for clusters that do not want arrays. The arguments are a run command:
#
#     sbatch srun.sh select roberta-base --output runs/roberta-base
#
# srun starts the command once for each task; --shard auto tells the tasks apart.

set -euo pipefail

srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=0 \
    negengine "$@" --threads "${SLURM_CPUS_PER_TASK:-1}" --shard auto
