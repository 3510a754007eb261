#!/bin/sh
# Verify, drill and report, each of them whatever the others found; ends with the worst of their exit codes.
# CKPT_STORE: the store.toml. CKPT_RUNS: the runs to drill, by spaces. CKPT_REPORTS: a folder to keep what was found in.
# CKPT_LIMIT_RATE: bytes a second that verify may read. CKPT_KEEP_DAYS: how long reports are kept.
set -u
: "${CKPT_STORE:?}" "${CKPT_RUNS:?}" "${CKPT_REPORTS:?}"
worst=0

night() {
    "$@"
    code=$?
    [ "$code" -le "$worst" ] || worst=$code
}

verify() {
    ckpt verify --all-runs --read-data --read-data-subset 15% --limit-rate "${CKPT_LIMIT_RATE:-200MiB}" --json \
        > "$CKPT_REPORTS/verify-$(date +%F-%H%M%S).jsonl"
}

mkdir -p "$CKPT_REPORTS"
night verify
for run in $CKPT_RUNS; do
    night ckpt drill --run "$run" --report-dir "$CKPT_REPORTS"
done
night ckpt report --all-runs --reports "$CKPT_REPORTS" --out "$CKPT_REPORTS/report.html"
find "$CKPT_REPORTS" -maxdepth 1 \( -name 'verify-*' -o -name 'drill-*' \) -mtime "+${CKPT_KEEP_DAYS:-90}" -delete
exit "$worst"
