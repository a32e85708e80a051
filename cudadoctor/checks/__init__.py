"""Facts to clues: one module per row of the pipeline. The explicit list of all rows is CHECKS in checks/rows.py."""
