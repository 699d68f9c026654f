#!/bin/bash
#PBS -N negengine-merge
#PBS -l select=1:ncpus=1:mem=16gb
#PBS -l walltime=01:00:00
#PBS -j oe

# Puts the shards of a run together. It ends with status 3 if a shard is not finished; its log has their commands.
#
#     qsub -W depend=afterany:ARRAY_JOB -v RUN=runs/roberta-base merge.sh

set -euo pipefail
cd "${PBS_O_WORKDIR:-.}"

negengine merge --status "$RUN"
negengine merge "$RUN" ${OUTPUT:+--output "$OUTPUT"}
