#!/bin/bash
#SBATCH --job-name=negengine-merge
#SBATCH --cpus-per-task=1
#SBATCH --mem=16G
#SBATCH --time=01:00:00
#SBATCH --output=%x-%j.log

# Puts the shards runs/NAME-1-of-N, runs/NAME-2-of-N, … together:
#
#     sbatch --dependency=afterany:ARRAY_JOB merge.sh runs/NAME [OUTPUT]
#
# With afterany this job starts as soon as no task runs any more. It ends with status 3 if a shard is not finished, and
# its log has the command of each of those. With afterok it would not start at all then.

set -euo pipefail

negengine merge --status "$1"
negengine merge "$1" ${2:+--output "$2"}
