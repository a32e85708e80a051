"""The rows of the tables of codes as typed values: CUDA, NVML, nvidia-smi, Xid, DCGM.

`causes` are ids of the vocabulary, likeliest first. One states the cause; several, or `suspect_only`, are suspects.
"""

from __future__ import annotations

from typing import Literal

from cudadoctor.knowledge.tables import Row, Sourced


class Code(Sourced, frozen=True, kw_only=True):
    """Base of the rows that stand for causes."""

    causes: tuple[str, ...] = ()
    suspect_only: bool = False


class CudaError(Code, frozen=True, kw_only=True):
    """A CUresult and cudaError_t (they share the number); either name may be missing. See the head of cuda_errors.toml."""

    code: int
    driver_name: str | None = None
    runtime_name: str | None = None
    message: str | None = None
    old_message: str | None = None
    driver_message: str | None = None
    others_say: tuple[str, ...] = ()
    generic: bool = False
    explanation: str
    note: str | None = None
    sticky: bool = False
    since: str | None = None
    libcuda_from_branch: int | None = None
    libcuda_unknown_in_branch: int | None = None

    @property
    def name(self) -> str | None:
        """The driver's name for it, else the runtime's."""
        return self.driver_name or self.runtime_name

    @property
    def messages(self) -> tuple[str, ...]:
        return tuple(text.rstrip(".") for text in (self.message, self.old_message, self.driver_message, *self.others_say) if text)


class OldRuntimeError(Row, frozen=True, kw_only=True):
    """A cudaError_t number as it was before CUDA 10.1; `code_today` is the row of CudaError that it is now."""

    code: int
    runtime_name: str
    code_today: int


class NvmlError(Code, frozen=True, kw_only=True):
    code: int
    name: str
    message: str
    aliases: tuple[str, ...] = ()
    generic: bool = False
    meaning: str
    known_from_branch: int | None = None

    @property
    def exception(self) -> str:
        """The exception class of nvidia-ml-py: NVMLError_LibRmVersionMismatch."""
        return "NVMLError_" + "".join(word.capitalize() for word in self.name.removeprefix("NVML_ERROR_").split("_"))

    @property
    def messages(self) -> tuple[str, ...]:
        return (self.message, *self.aliases)


class SmiExit(Code, frozen=True, kw_only=True):
    """An exit code of nvidia-smi."""

    code: int
    meaning: str


class SmiMessage(Code, frozen=True, kw_only=True):
    """A literal line of nvidia-smi; `code` is the exit code that comes with it."""

    text: str
    generic: bool = False
    code: int | None = None
    branches: str
    note: str | None = None


class Xid(Code, frozen=True, kw_only=True):
    number: int
    name: str
    meaning: str
    severity: Literal["info", "warning", "error", "critical"] | None = None
    severity_gpud: str | None = None
    action: str | None = None
    follow_up: str | None = None
    kinds: tuple[str, ...] = ()
    applies_to: tuple[str, ...] = ()
    catalogue: str | None = None
    nvidia_immediate: str | None = None
    nvidia_investigate: str | None = None
    xid154: str | None = None


class RecoveryAction(Row, frozen=True, kw_only=True):
    """What the driver says that a GPU needs (NVML, nvidia-smi -q, Xid 154)."""

    value: int
    nvml: str
    smi_text: str
    xid154_text: str | None = None
    action: str
    causes: tuple[str, ...] = ()


class XidLine(Sourced, frozen=True, kw_only=True):
    regex: str
    meaning: str


class DcgmErrorRow(Row, frozen=True, kw_only=True):
    """A dcgmError_t: the number by which DCGM says why a test failed."""

    code: int
    name: str
    causes: tuple[str, ...]
    suspect_only: bool = False
