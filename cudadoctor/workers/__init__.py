"""Stand-alone scripts that run as child processes, some of them in foreign interpreters. Nothing here is imported by the doctor."""
