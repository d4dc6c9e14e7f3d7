"""Telling what changes below a directory."""
