"""Code contexts: Python processes that keep their variables between runs, each spoken to over a channel of its own."""
