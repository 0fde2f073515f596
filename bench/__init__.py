"""Speed, side by side in one run and as ratios; nothing here is a test."""
