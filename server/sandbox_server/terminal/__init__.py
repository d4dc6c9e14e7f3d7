"""Terminals: a shell on a pseudo-terminal, the last of its output, and whoever looks at it over a WebSocket."""
