#!/bin/sh
# Slurm's Epilog. Runs as root on each node of a job, and logs that the job has left.
# It must not fail: a failing Epilog drains the node.
PATH=/usr/bin:/bin
jobs=${EPICENTER_JOBS:-/run/epicenter/jobs}
node=${SLURMD_NODENAME:-$(hostname -s)}

case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*) exit 0 ;;
esac

{
  mkdir -p "$jobs" &&
    printf '%s SLURM_JOB_ID=%s ends on %s exit_code=%s\n' \
      "$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)" "$SLURM_JOB_ID" "$node" "${SLURM_JOB_EXIT_CODE2:-unknown}" \
      >>"$jobs/$SLURM_JOB_ID.log"
} >&2
exit 0
