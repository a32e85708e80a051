"""What is known apart from any machine: causes, recipes and tables as TOML, read by load.py into typed values (tables.py)."""
