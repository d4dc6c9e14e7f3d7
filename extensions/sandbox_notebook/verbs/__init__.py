"""What each subcommand does. Nothing here knows IPython."""
