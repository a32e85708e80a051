"""The command line: one module per command, and what they share. They gather evidence, ask for a judgement, print, and exit."""
