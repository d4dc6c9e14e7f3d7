"""Facts about the machine, read from the kernel and from what is installed. Runs no program."""
