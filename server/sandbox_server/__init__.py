"""A policy-guarded HTTP server for the inside of a sandbox. Standard library only."""
