"""The command line: a module for a command, or for two of one kind, and what they share. They gather evidence, have it judged, and print."""
