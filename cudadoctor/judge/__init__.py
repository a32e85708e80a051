"""Clues to the judgement: what is the root, what it explains, and the report on it. Pure."""
