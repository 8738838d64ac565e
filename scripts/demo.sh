#!/usr/bin/env bash
# The paper's main comparison at a quick size: an RBM and a theta-RBM, trained, measured, and beside the published numbers.
# Usage: scripts/demo.sh PATH_OF_THETARBM   (make demo does it)
set -euo pipefail
thetarbm=${1:?usage: scripts/demo.sh PATH_OF_THETARBM}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Runs of the demo stay out of results/, whose records belong to the repository.
export THETARBM_RESULTS=$root/.venv/demo

step() {
  printf '\n$ thetarbm %s\n' "$*"
  "$thetarbm" "$@"
}

step info
step prepare-data
step train --model theta --sparsity 0.3 --profile quick
step run rbm theta --profile quick -j 2
# Quiet: the rows of the other models have no runs in this demo, and tables would say so.
step --quiet tables --table 1 --profile quick
step --quiet tables --table 2 --profile quick
