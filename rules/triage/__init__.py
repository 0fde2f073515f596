"""What one finished or running job log says: status, primary failure, progress and what to do. Pure, like all rules."""
