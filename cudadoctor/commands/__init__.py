"""The command line: a module for a command or a few of one kind, and what they share. They gather evidence, have it judged, and print."""
