"""The command line: a module for a command, or for two of a kind, and what they share. They gather evidence, have it judged, and print."""
