"""Values that flow through the pipeline: frozen, typed, without behaviour that touches a machine. Imports nothing of ours."""
