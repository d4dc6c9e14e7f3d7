"""Moving files: sources, local targets, directory trees, progress. Blocking code that async callers run elsewhere."""
