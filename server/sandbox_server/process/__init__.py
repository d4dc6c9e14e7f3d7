"""Commands as process groups: start, feed, watch, capture, stop, and never lose track of one."""
