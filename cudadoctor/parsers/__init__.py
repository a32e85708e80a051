"""Texts to facts: one module per tool or file. The explicit list of all parsers is PARSERS in parsers/read.py."""
