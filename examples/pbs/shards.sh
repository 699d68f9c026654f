#!/bin/bash
#PBS -N negengine
#PBS -J 0-15
#PBS -l select=1:ncpus=8:mem=16gb
#PBS -l walltime=04:00:00
#PBS -j oe
#PBS -r y

# One task of this array is one shard of a run. PBS does not hand arguments to a script, so variables say what runs:
#
#     qsub -v COMMAND="select roberta-base" shards.sh
#
# PBS does not say how many tasks an array has either, so INDICES names them: the same as -J.
#
#     qsub -J 0-31 -v INDICES=0-31,COMMAND="select roberta-base" shards.sh
#     qsub -J 7-8 -v COMMAND="select roberta-base" shards.sh        # task 7 again: an array has at least two tasks
#
# Torque: -t in place of -J, and -l nodes=1:ppn=8 in place of -l select.

set -euo pipefail
cd "${PBS_O_WORKDIR:-.}"

read -ra words <<< "$COMMAND"
exec negengine "${words[@]}" --threads "${NCPUS:-1}" --shard "auto:${INDICES:-0-15}"
