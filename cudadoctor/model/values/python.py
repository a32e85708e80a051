"""Fact values: toolkits and the examined interpreter."""

from __future__ import annotations

from cudadoctor.model.facts import Key
from cudadoctor.model.values.base import Value
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
    hides: tuple[str, ...] = ()


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


class Shadow(Value, frozen=True, kw_only=True):
    """A file of the user's that hides a package."""

    module: str
    path: str


class ConfigLine(Value, frozen=True, kw_only=True):
    path: str
    line: int
    text: str


class PythonEnvironment(Value, frozen=True, kw_only=True):
    """The examined interpreter, from metadata and listings alone."""

    path: str
    version: str
    prefix: str | None = None
    conda: str | None = None
    virtual: bool = False
    uv: bool = False  # uv made it, so it may have no pip
    externally_managed: bool | None = None  # the distribution refuses pip here (PEP 668)
    packages: tuple[PythonPackage, ...] = ()
    shadows: tuple[Shadow, ...] = ()
    numba_config: tuple[ConfigLine, ...] = ()
    numba_cuda_redirects: bool | None = None  # numba-cuda's start-up hook is in place
    others_with_numba: tuple[str, ...] = ()

    def package(self, name: str) -> PythonPackage | None:
        wanted = name.lower().replace("_", "-")
        return next((entry for entry in self.packages if entry.name.lower().replace("_", "-") == wanted), None)


NVCC = Key[Nvcc]("nvcc")
TOOLKITS = Key[Toolkits]("toolkits")
PYTHON = Key[PythonEnvironment]("python")
