#!/usr/bin/env bash
# The paper's main comparison at a quick size: train an RBM and a theta-RBM, measure both.
# Usage: scripts/demo.sh PATH_OF_THETARBM   (make demo does it)
set -euo pipefail
thetarbm=${1:?usage: scripts/demo.sh PATH_OF_THETARBM}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Runs of the demo stay out of results/, whose records belong to the repository.
export THETARBM_RESULTS=$root/.venv/demo

runs=()

step() {
  printf '\n$ thetarbm %s\n' "$*"
  "$thetarbm" "$@"
}

# Shows a training and keeps the run's id, which `evaluate` takes.
train() {
  local options=(train --model "$1" --sparsity 0.3 --profile quick) output
  printf '\n$ thetarbm %s\n' "${options[*]}"
  output=$("$thetarbm" "${options[@]}")
  printf '%s\n' "$output"
  runs+=("$(sed -n 's/^run *\([^ ]*\).*/\1/p' <<<"$output")")
}

step info
step prepare-data
train rbm
train theta
step evaluate "${runs[@]}"
cat <<'END'

The paper, at full size (Tables 1 and 2, sparsity 0.3):
  RBM        test error 15.41 %   γ train 0.1746   γ test 0.1775
  theta-RBM  test error 10.31 %   γ train 0.9000   γ test 0.9062
END
