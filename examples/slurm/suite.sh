#!/bin/bash
#SBATCH --job-name=negengine-suite
#SBATCH --array=0-15
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=%x-%A-%a.log

# A suite: each task runs every 16th of its runs, whole ones.
#
#     sbatch suite.sh suite.toml
#     negengine suite suite.toml          # afterwards: the table and the report of all
#
# For tasks that are submitted again, see shards.sh.

set -euo pipefail

exec negengine suite "$1" --threads "${SLURM_CPUS_PER_TASK:-1}" --shard "auto${INDICES:+:$INDICES}"
