#!/bin/sh
# Slurm's TaskProlog, as the user before each task: what it prints is for Slurm (`export`, `print`).
# A buffered log looks like a hang. The first task names the nodes in its own output: so each rank finds its node.
echo "export PYTHONUNBUFFERED=${PYTHONUNBUFFERED:-1}"
if [ "${SLURM_PROCID:-}" = 0 ]; then
  echo "print SLURM_JOB_ID=${SLURM_JOB_ID:-}"
  echo "print SLURM_JOB_NODELIST=${SLURM_JOB_NODELIST:-}"
  echo "print SLURM_NNODES=${SLURM_NNODES:-}"
  echo "print SLURM_NTASKS=${SLURM_NTASKS:-}"
fi
