#!/usr/bin/env bash
#
# One run for cron: reads what has arrived, keeps a log of each run, and speaks up only when a person should know.
#
#   INCOMING    folder into which captures and event logs arrive; files that were read before cost nothing
#   WAREHOUSE   folder of the tables
#   LOGS        folder for logs and summaries               (default: $WAREHOUSE/logs)
#   KEEP_DAYS   how long logs and summaries stay            (default: 30)
#   NAMESRV     the wrapper                                 (default: that of the checkout in which this file lies)
#
# cron mails what a job prints, so a good run prints nothing. The exit code is that of the job.

set -euo pipefail

: "${INCOMING:?folder of captures and event logs}" "${WAREHOUSE:?folder of the tables}"
NAMESRV=${NAMESRV:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/spark-submit.sh}
LOGS=${LOGS:-$WAREHOUSE/logs}
KEEP_DAYS=${KEEP_DAYS:-30}

mkdir -p "$LOGS"
run=$(date -u +%Y%m%dT%H%M%SZ)
log=$LOGS/nightly-$run.log

# The warehouse has a lease of its own. With this lock a start waits for the run before it instead of ending with code 5.
exec 9>"$LOGS/.lock"
flock --wait "${WAIT_SECONDS:-7200}" 9 || { echo "namesrv-history: the run before has not ended yet"; exit 5; }

status=0
"$NAMESRV" nightly --input "$INCOMING" --warehouse "$WAREHOUSE" --summary "$LOGS/summary-$run.json" \
  >"$log" 2>&1 9>&- || status=$?

find "$LOGS" \( -name 'nightly-*.log' -o -name 'summary-*.json' \) -mtime "+$KEEP_DAYS" -delete

case $status in
  0) exit 0 ;;
  3) echo "namesrv-history: published, but some input could not be read" ;;
  13) echo "namesrv-history: an input folder is empty: is $INCOMING mounted?" ;;
  14) echo "namesrv-history: published, but more answers do not match than allowed: the first are named below" ;;
  10) echo "namesrv-history: a disk is full; see below whether the run is published" ;;
  4) echo "namesrv-history: the quality gate refused; readers see the run before. Why: $WAREHOUSE/data_docs" ;;
  5) echo "namesrv-history: another run is writing to $WAREHOUSE" ;;
  *) echo "namesrv-history: exit code $status; readers see the run before" ;;
esac
echo "The end of $log:"
tail -n 20 "$log"
exit "$status"
