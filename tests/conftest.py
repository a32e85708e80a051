"""Names of test cases that are the same in every process: pytest-xdist refuses to run where two workers name a case differently."""


def pytest_make_parametrize_id(val: object) -> str | None:
    """Bytes are named by their kind alone (pytest numbers them): what they hold may have the time of day in it, as an archive's header has."""
    return "bytes" if isinstance(val, bytes) else None
