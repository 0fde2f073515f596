#!/bin/sh
# Slurm's TaskProlog. Runs as the user before each task; Slurm reads what it prints (`export`, `print`).
# Output is unbuffered, because a buffered log looks like a hang. The first task prints the names of the nodes, so that
# epicenter finds the node of each rank.
echo "export PYTHONUNBUFFERED=${PYTHONUNBUFFERED:-1}"
if [ "${SLURM_PROCID:-}" = 0 ]; then
  echo "print SLURM_JOB_ID=${SLURM_JOB_ID:-}"
  echo "print SLURM_JOB_NODELIST=${SLURM_JOB_NODELIST:-}"
  echo "print SLURM_NNODES=${SLURM_NNODES:-}"
  echo "print SLURM_NTASKS=${SLURM_NTASKS:-}"
fi
