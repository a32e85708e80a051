"""pytest plugin: tests that need a GPU are skipped with the diagnosed reason, or fail with it where a GPU is required.

    @pytest.mark.gpu                                                              at least one GPU that CUDA shows
    @pytest.mark.gpu(count=2, min_memory="8GiB", compute_capability=">=8.0")      two that have all this

--gpu-required, or CUDADOCTOR_REQUIRE_GPU=1, turns the skip into a failure that names cause and fix. The fixture `gpu_report` is the
diagnosis. A run without such tests costs a few reads of /proc and /sys; nobody is asked, and no GPU library is ever imported here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cudadoctor.api import Report
    from cudadoctor.model.requirements import Requirement

REQUIRED = "CUDADOCTOR_REQUIRE_GPU"
TIMEOUT = 30.0  # seconds for the diagnosis without kernels
_LOADED = "/proc/driver/nvidia/version"
_GPUS = "/proc/driver/nvidia/gpus"
_BUS = "/sys/bus/pci/devices"
_VERSION = re.compile(r"\b\d{3}\.\d{2,3}(?:\.\d{2})?\b")
_REPORT = pytest.StashKey["Report"]()
_ARGUMENTS = ("count", "min_memory", "compute_capability")


# ---------------------------------------------------------------- pytest's hooks
def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cudadoctor", "tests that need a GPU")
    group.addoption(
        "--gpu-required", action="store_true", help="Fail tests marked gpu, instead of skipping them, where their GPU is missing."
    )


def pytest_configure(config: pytest.Config) -> None:
    line = "gpu(count=1, min_memory=None, compute_capability=None): needs NVIDIA GPUs; skipped, with the reason, where they are missing"
    config.addinivalue_line("markers", line)


def pytest_report_header() -> str:
    return f"gpu: {_from_proc()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    mark = item.get_closest_marker("gpu")
    if mark is None:
        return
    lacking = _lacking(_examined(item.config), mark)
    if lacking is None:
        return
    if required(item.config):
        from cudadoctor import api

        pytest.fail(f"{lacking}\n{api.diagnosis(_examined(item.config))}", pytrace=False)
    raise pytest.skip.Exception(lacking, _use_item_location=True)  # the summary names the test, not this file


@pytest.fixture(scope="session")
def gpu_report(request: pytest.FixtureRequest) -> Report:
    """What cudadoctor found on this machine, without running a kernel."""
    return _examined(request.config)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    report = config.stash.get(_REPORT, None)
    if report is not None:
        terminalreporter.write_line(f"gpu: {str(report).splitlines()[0]}")


# ---------------------------------------------------------------- how
def required(config: pytest.Config) -> bool:
    return bool(config.getoption("--gpu-required")) or os.environ.get(REQUIRED, "") not in ("", "0")


def _examined(config: pytest.Config) -> Report:
    """The diagnosis, made once in a run."""
    if _REPORT not in config.stash:
        config.stash[_REPORT] = examine()
    return config.stash[_REPORT]


def examine() -> Report:
    """Ask the machine, in children of this interpreter, without running a kernel."""
    from cudadoctor import api

    return api.check(quick=True, timeout=TIMEOUT)


def _lacking(report: Report, mark: pytest.Mark) -> str | None:
    """Why a test cannot run here; None where it can."""
    from cudadoctor.commands import terminal
    from cudadoctor.policy.base import Answer
    from cudadoctor.policy.comparing import holds
    from cudadoctor.report.clean import one_line

    count, asked = _asked(mark)
    visible = [gpu for gpu in report.machine.gpus if gpu.visible]
    answers = [{"memory": gpu.memory_bytes, "compute-capability": gpu.compute_capability} for gpu in visible]
    fitting = sum(all(holds(one, Answer(value=known[one.name])) is True for one in asked) for known in answers)
    if fitting >= count:
        return None
    plural = "s" if len(visible) != 1 else ""
    said = [f"{len(visible)} GPU{plural} visible to CUDA, {count} needed"]
    if len(visible) >= count:
        said = [f"{fitting} of {len(visible)} visible GPU{plural} with {' and '.join(one.text for one in asked)}, {count} needed"]
    root = report.diagnosis.root
    if root is not None and root.effect == "blocks":
        said.append(root.named)
    elif not visible and report.diagnosis.suspects:
        said.append(f"perhaps {report.diagnosis.suspects[0].cause}")
    return terminal.gated(one_line(": ".join(said)))


def _asked(mark: pytest.Mark) -> tuple[int, tuple[Requirement, ...]]:
    """The number of GPUs that a mark asks for, and what each must have. A mark that means nothing fails its test on every machine."""
    from cudadoctor import policy

    memory, capability, count = (mark.kwargs.get(name) for name in ("min_memory", "compute_capability", "count"))
    if mark.args or set(mark.kwargs) - set(_ARGUMENTS) or not isinstance(count, int | None):
        pytest.fail(f"@pytest.mark.gpu takes {', '.join(_ARGUMENTS)} by name", pytrace=False)
    texts = [f"memory>={f'{memory}B' if isinstance(memory, int) else memory}"] if memory is not None else []
    if capability is not None:
        texts.append(f"compute-capability{'' if str(capability)[:1] in '<>=!' else '>='}{capability}")
    try:
        return (1 if count is None else count), policy.requirements(texts)
    except policy.RequirementError as error:
        pytest.fail(f"@pytest.mark.gpu: {error}", pytrace=False)


# ---------------------------------------------------------------- the header: /proc and /sys alone
def _from_proc() -> str:
    driver = _VERSION.search(_read(_LOADED))
    gpus = len(_listed(_GPUS)) if driver is not None else sum(1 for _ in _on_the_bus())
    counted = f"{gpus} NVIDIA GPU{'s' if gpus != 1 else ''}"
    if driver is not None:
        return f"NVIDIA driver {driver.group()}, {counted}"
    if gpus:
        return f"{counted} on the bus, no NVIDIA driver loaded"
    return "the GPU of Windows, through /dev/dxg" if os.path.exists("/dev/dxg") else "no NVIDIA GPU on the bus, no NVIDIA driver loaded"


def _on_the_bus() -> Iterator[str]:
    for name in _listed(_BUS):
        if _read(f"{_BUS}/{name}/vendor").strip() == "0x10de" and _read(f"{_BUS}/{name}/class").startswith("0x03"):
            yield name


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(4096)
    except OSError:
        return ""
