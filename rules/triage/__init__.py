"""One finished or running job log -> the job's status, primary failure, progress and next steps."""
