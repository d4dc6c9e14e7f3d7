"""Drive a sandbox from Python."""
