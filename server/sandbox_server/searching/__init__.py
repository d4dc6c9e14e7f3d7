"""Finding files by name and lines by their text."""
