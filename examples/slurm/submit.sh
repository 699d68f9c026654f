#!/bin/bash

# The whole Self-Contained Negation Test on a cluster: select in shards, merge, score in shards, merge.
#
#     ./submit.sh MODEL SHARDS [OPTIONS OF SELECT]
#     ./submit.sh roberta-base 16 --lazy
#
# Each job waits for the one before it. The results are in runs/MODEL.

set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
cd - > /dev/null

model=$1 shards=$2
shift 2
run=runs/$model
export INDICES=0-$((shards - 1))

submit() { # the number of the job alone, also where sbatch adds the name of a cluster
    local job
    job=$(sbatch --parsable "$@")
    echo "${job%%;*}"
}

selected=$(submit --array="$INDICES" "$here/shards.sh" select "$model" --output "$run" "$@")
merged=$(submit --dependency="afterany:$selected" "$here/merge.sh" "$run")
scored=$(submit --dependency="afterok:$merged" --array="$INDICES" "$here/shards.sh" score "$run" --output "$run-score")
final=$(submit --dependency="afterany:$scored" "$here/merge.sh" "$run-score" "$run")
echo "select $selected, merge $merged, score $scored, merge $final"
