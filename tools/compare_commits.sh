#!/usr/bin/env bash
# Runs a command under `phantora run` at a commit and as it is checked out, and compares the two. Called by action.yml.
#
#   BASE     the commit
#   RUN      options of `phantora run`, `--`, and the command: words of a shell
#   COMPARE  options of `phantora compare`; may be empty
#   TABLES   the Markdown file to write; data files lie beside it. It is also the summary of a job of GitHub's.
#
# Exits with what `phantora compare` says: 6 if a gate is not met.
set -euo pipefail
: "${BASE:?is the commit to compare with}" "${RUN:?is the command to run}" "${TABLES:?is the file to write}"

results=$(realpath -m "$(dirname "$TABLES")")
folder=$(git rev-parse --show-prefix) # where the command runs, within the checkout
mkdir -p "$results"
git worktree add --quiet --detach "$results/checkout" "$BASE"
trap 'git worktree remove --force "$results/checkout"' EXIT

(cd "$results/checkout/$folder" && eval "phantora run -o '$results/base.phr' $RUN")
eval "phantora run -o '$results/change.phr' $RUN"

verdict=0
eval "phantora compare '$results/base.phr' '$results/change.phr' --markdown ${COMPARE:-}" > "$TABLES" || verdict=$?
tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}" < "$TABLES"
exit $verdict
