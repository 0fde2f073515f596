#!/bin/sh
# Slurm's Prolog, as root on each node of a job: says that the job is here, and makes the folder for its output.
# The line is shipped (deploy/rsyslog/inputs/slurm.conf), so that kernel lines of this node belong to the job from its
# first second on. Whatever goes wrong, it must not fail: a Prolog that fails drains the node.
PATH=/usr/bin:/bin
jobs=${EPICENTER_JOBS:-/run/epicenter/jobs}
output=${EPICENTER_SLURM_OUTPUT:-/var/log/slurm/jobs}
node=${SLURMD_NODENAME:-$(hostname -s)}

case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*)
  echo "epicenter: SLURM_JOB_ID is '${SLURM_JOB_ID:-}': no job to tell of" >&2
  exit 0
  ;;
esac

{
  mkdir -p "$jobs" &&
    printf '%s SLURM_JOB_ID=%s starts on %s user=%s partition=%s gpus=%s restart=%s\n' \
      "$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)" "$SLURM_JOB_ID" "$node" "${SLURM_JOB_USER:-}" "${SLURM_JOB_PARTITION:-}" \
      "${SLURM_JOB_GPUS:-}" "${SLURM_JOB_RESTART_COUNT:-0}" >>"$jobs/$SLURM_JOB_ID.log"
  # srun makes no folders: without this one, --output=/var/log/slurm/jobs/%j/… would fail the job. `install -d` would
  # follow a link that a user laid into a shared folder, and give away what it leads to.
  if [ ! -e "$output/$SLURM_JOB_ID" ]; then
    mkdir -p "$output" && mkdir -m 0750 "$output/$SLURM_JOB_ID" &&
      chown -h "${SLURM_JOB_UID:-0}:${SLURM_JOB_GID:-0}" "$output/$SLURM_JOB_ID"
  fi
  find "$jobs" -name '*.log' -mtime +7 -delete
} >&2
exit 0
