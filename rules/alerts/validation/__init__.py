"""What is wrong with `alerts.yaml`: every problem at once, with its line and what to write instead."""
