"""The limits of this process, raised as far as it may: what an experiment changes. Loaded by ladder.py by its path."""

from __future__ import annotations

NAMES = ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_MEMLOCK", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")


def raise_all() -> None:
    """Every soft limit that is lower than its hard one, up to that. Windows has none of them."""
    try:
        import resource
    except ImportError:
        return
    for name in NAMES:
        try:
            _, most = resource.getrlimit(getattr(resource, name))
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, OSError, ValueError):
            pass  # not on this system, or refused: what is left as it is shows in the run
