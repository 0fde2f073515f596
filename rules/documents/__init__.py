"""Files that people write, with the line of every part for error messages."""
