"""Where sandboxes run. The local engine starts the server as a child of this process, inside kernel isolation."""
