#!/usr/bin/env bash
# The whole suite at the tiny size, through the real commands, in a folder that is thrown away.
# Usage: scripts/smoke.sh PATH_OF_THETARBM   (make smoke does it)
set -euo pipefail
thetarbm=$(realpath "${1:?usage: scripts/smoke.sh PATH_OF_THETARBM}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export THETARBM_DATA_DIR=$folder/data THETARBM_RESULTS=$folder/results

# Ends with a word if a command's exit code is not the expected one.
expect() {
  local code=$1 found=0
  shift
  printf '\n$ thetarbm %s\n' "$*"
  "$thetarbm" "$@" || found=$?
  if [ "$found" -ne "$code" ]; then
    echo "exit code $found instead of $code" >&2
    exit 1
  fi
}

expect 0 prepare-data --dataset all
expect 3 status --profile tiny
expect 3 run --profile tiny --dry-run
expect 0 run --profile tiny -j 2
expect 0 tables --profile tiny
expect 0 tables --profile tiny --check
expect 0 status --profile tiny
expect 0 run --profile tiny
expect 0 clean --yes
