"""Facts to clues: one module per row of the pipeline. rows.py gets all that model/rows.py lists."""
