"""Fact values: toolkits and the examined interpreter."""

from __future__ import annotations

from typing import Literal

import msgspec

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Refused, Shown, Value
from cudadoctor.model.version import PackageVersion, ToolkitVersion


class Toolkit(Value, frozen=True, kw_only=True):
    """A toolkit folder: what it holds."""

    path: str
    version: ToolkitVersion | None = None
    has_nvcc: bool = False
    has_nvvm: bool = False
    has_libdevice: bool = False
    rule: str | None = None  # CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda, /usr/local/cuda-*, /usr, conda
    stale: bool = False  # the folder or link is there, its content is not


class Nvcc(Value, frozen=True, kw_only=True):
    version: ToolkitVersion
    build: str | None = None


class Component(Value, frozen=True, kw_only=True):
    """The file that this Numba would load for one part of the toolkit."""

    name: str  # nvvm | libdevice | nvrtc | nvjitlink | cudart
    path: str | None = None
    version: ToolkitVersion | None = None
    rule: str | None = None  # wheel nvidia-cuda-nvrtc | conda | CUDA_HOME | /usr/local/cuda | ldconfig
    damage: str | None = None  # what shows that the file is not whole


class Toolkits(Value, frozen=True, kw_only=True):
    toolkits: tuple[Toolkit, ...] = ()
    components: tuple[Component, ...] = ()

    def component(self, name: str) -> Component | None:
        return next((entry for entry in self.components if entry.name == name), None)


class PythonPackage(Value, frozen=True, kw_only=True):
    name: str
    version: PackageVersion
    build: str | None = None  # cpu, cu128, a conda build string
    path: str | None = None
    requires: tuple[str, ...] = ()
    lost: str | None = None  # where its files lead to, which are links, and nothing is there


class Shadow(Value, frozen=True, kw_only=True):
    """A file that hides a package: the user's own, or another package's (`owner`)."""

    module: str
    path: str
    owner: str | None = None

    @property
    def words(self) -> str:
        return f"{self.path}: hides the package {self.module}" + (f"; it is of {self.owner}" if self.owner is not None else "")


class ConfigLine(Value, frozen=True, kw_only=True):
    path: str
    line: int
    text: str


class PythonEnvironment(Value, frozen=True, kw_only=True):
    """The examined interpreter, from metadata and listings alone."""

    path: str
    version: str
    named: str | None = None  # what was started: a link or a script may lead to another
    prefix: str | None = None
    conda: str | None = None
    virtual: bool = False
    uv: bool = False  # uv made it, so it may have no pip
    externally_managed: bool | None = None  # the distribution refuses pip here (PEP 668)
    packages: tuple[PythonPackage, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    numba_config: tuple[ConfigLine, ...] = ()
    hooks: tuple[ConfigLine, ...] = ()  # lines run at its start that name a variable of CUDA's or a limit
    startup: tuple[ConfigLine, ...] = ()  # files run at its start, by their first line that does something
    numba_cuda_redirects: bool | None = None  # numba-cuda's start-up hook is in place
    others_with_numba: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()  # of its packages and toolkits

    def package(self, name: str) -> PythonPackage | None:
        wanted = name.lower().replace("_", "-")
        return next((entry for entry in self.packages if entry.name.lower().replace("_", "-") == wanted), None)


class FrameworkBuild(Shown, frozen=True, kw_only=True):
    """An installed framework, as its metadata and files describe it. None: they do not say."""

    name: str  # torch | tensorflow | jax | cupy | pycuda | onnxruntime | bitsandbytes
    package: str  # the distribution that decides the build
    version: PackageVersion
    kind: Literal["cuda", "cpu", "rocm"] | None = None
    cuda: ToolkitVersion | None = None
    cudnn: PackageVersion | None = None  # the oldest that it accepts
    architectures: tuple[str, ...] = ()  # sm_80, compute_90
    builds: tuple[ToolkitVersion, ...] = ()  # bitsandbytes brings a library for each of these
    libraries: dict[str, str | None] = msgspec.field(default_factory=dict)  # those that it loads: where found; empty: nobody looked

    @property
    def missing(self) -> tuple[str, ...]:
        """Libraries that are nowhere where a loader looks."""
        return tuple(name for name, path in self.libraries.items() if path is None)


class FrameworkBuilds(Value, frozen=True, kw_only=True):
    builds: tuple[FrameworkBuild, ...] = ()

    def find(self, name: str) -> FrameworkBuild | None:
        return next((entry for entry in self.builds if entry.name == name), None)


class FrameworkRun(Shown, frozen=True, kw_only=True):
    """What came of importing a framework in a child process, asking it for its GPUs and computing on one.

    pass: it computed. idle: it was imported, and there was no GPU to try. fail, crash: the step at which it broke. hang: no answer
    within its time, which may be the disk's fault. unknown: it was not started.
    """

    name: str
    status: Literal["pass", "idle", "fail", "crash", "hang", "unknown"]
    version: str | None = None
    step: Literal["import", "devices", "compute"] | None = None
    devices: tuple[str, ...] = ()
    library: str | None = None  # the library whose loading failed
    output: str = ""  # what the failing step printed, read like a user's text
    why: str | None = None
    seconds: float | None = None


class FrameworkRuns(Value, frozen=True, kw_only=True):
    """The frameworks that were tried because the user asked for it."""

    runs: tuple[FrameworkRun, ...] = ()

    def find(self, name: str) -> FrameworkRun | None:
        return next((entry for entry in self.runs if entry.name == name), None)


class Silent(Value, frozen=True, kw_only=True):
    """What the examined Python was asked to run and did not. `at_all`: not even the listing of its packages, which needs no library."""

    path: str
    words: str
    at_all: bool


NVCC = Key[Nvcc]("nvcc")
TOOLKITS = Key[Toolkits]("toolkits")
LISTED_TOOLKITS = Key[tuple[Toolkit, ...]]("listed-toolkits")  # that a user's text shows on disk: there may be others
PYTHON = Key[PythonEnvironment]("python")
PYTHON_RAN = Key[Silent]("python-ran")  # None: it ran what it was asked to
FRAMEWORK_BUILDS = Key[FrameworkBuilds]("framework-builds")
FRAMEWORK_RUNS = Key[FrameworkRuns]("framework-runs")
ASKED_FRAMEWORKS = Key[tuple[str, ...]]("asked-frameworks")  # those that the user's text names
