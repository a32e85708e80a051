"""A fault that fills the GPU, keeps it busy or puts a server before it has the machine to itself; all others run side by side."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_TAKES_THE_GPU = re.compile(r"hold\.py|cuMemAlloc|busy|nvidia-cuda-mps|memory\.max")


def _takes_the_gpu(case: pytest.Item) -> bool:
    return bool(_TAKES_THE_GPU.search(repr(getattr(getattr(case, "callspec", None), "params", ""))))


@pytest.fixture(autouse=True)
def _gpu_to_itself(request: pytest.FixtureRequest) -> Iterator[None]:
    """With several workers (`pytest -n 8`) a case waits here until the GPU is as it needs it."""
    import fcntl

    with (Path(tempfile.gettempdir()) / "cudadoctor-faults.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if _takes_the_gpu(request.node) else fcntl.LOCK_SH)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that wait for all others come last, so that no worker waits before there is nothing else to do."""
    items.sort(key=_takes_the_gpu)
