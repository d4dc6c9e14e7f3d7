"""What an operator adds to a server: commands and endpoints of their own. They go through the same door as the rest."""
