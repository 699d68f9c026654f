#!/bin/bash
#BSUB -J negengine-merge
#BSUB -n 1
#BSUB -R "rusage[mem=16GB]"
#BSUB -W 1:00
#BSUB -o negengine-merge-%J.log

# Puts the shards of a run together. It ends with status 3 if a shard is not finished; its log has their commands.
#
#     RUN=runs/roberta-base bsub -w "ended(negengine)" < merge.sh

set -euo pipefail

negengine merge --status "$RUN"
negengine merge "$RUN" ${OUTPUT:+--output "$OUTPUT"}
