"""Magics for sandboxes."""
