#!/bin/bash
#BSUB -J negengine[1-16]
#BSUB -n 8
#BSUB -R "span[hosts=1] rusage[mem=16GB]"
#BSUB -W 4:00
#BSUB -r
#BSUB -o negengine-%J-%I.log

# One task of this array is one shard of a run. LSF reads the script from stdin, so a variable says what runs:
#
#     COMMAND="select roberta-base" bsub < shards.sh
#
# The indices of an array begin with 1, as LSF does not tell the first one. To run a task again, `brequeue` keeps the
# array; for an array of some tasks, also name the whole one:
#
#     INDICES=1-16 COMMAND="select roberta-base" bsub -J "negengine[3,7]" < shards.sh

set -euo pipefail

read -ra words <<< "$COMMAND"
exec negengine "${words[@]}" --threads "${LSB_DJOB_NUMPROC:-1}" --shard "auto${INDICES:+:$INDICES}"
