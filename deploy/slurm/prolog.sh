#!/bin/sh
# Slurm's Prolog. Runs as root on each node of a job, logs that the job is here, and makes the folder for its output.
# The shipper sends the line (deploy/rsyslog/inputs/slurm.conf), so kernel lines of this node belong to the job from its
# first second. Prolog must never fail: a failing Prolog drains the node.
PATH=/usr/bin:/bin
jobs=${EPICENTER_JOBS:-/run/epicenter/jobs}
output=${EPICENTER_SLURM_OUTPUT:-/var/log/slurm/jobs}
node=${SLURMD_NODENAME:-$(hostname -s)}

case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*)
  echo "epicenter: SLURM_JOB_ID is '${SLURM_JOB_ID:-}', not a job id; nothing written" >&2
  exit 0
  ;;
esac

{
  mkdir -p "$jobs" &&
    printf '%s SLURM_JOB_ID=%s starts on %s user=%s partition=%s gpus=%s restart=%s\n' \
      "$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)" "$SLURM_JOB_ID" "$node" "${SLURM_JOB_USER:-}" "${SLURM_JOB_PARTITION:-}" \
      "${SLURM_JOB_GPUS:-}" "${SLURM_JOB_RESTART_COUNT:-0}" >>"$jobs/$SLURM_JOB_ID.log"
  # srun makes no folders: without this one, --output=/var/log/slurm/jobs/%j/… fails the job. Not `install -d`: it follows
  # a link that a user puts into a shared folder, and would give that user the link's target.
  if [ ! -e "$output/$SLURM_JOB_ID" ]; then
    mkdir -p "$output" && mkdir -m 0750 "$output/$SLURM_JOB_ID" &&
      chown -h "${SLURM_JOB_UID:-0}:${SLURM_JOB_GID:-0}" "$output/$SLURM_JOB_ID"
  fi
  find "$jobs" -name '*.log' -mtime +7 -delete
} >&2
exit 0
