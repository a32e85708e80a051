"""What a text says and takes back itself: a CPU that is meant, a driver that is said to be absent beside a table of its GPUs, a Fabric
Manager that is blamed beside GPUs that it registered, a fault that a later answer of the same tools refutes.

A clue that is taken back is kept as an advice, which blames nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from cudadoctor.inventory.rungs import below
from cudadoctor.model.facts import Quote
from cudadoctor.model.findings import GPU_LAYERS, Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import COMPUTED, CONTAINER_MARKS, FRAMEWORKS, KERNEL, NUMBA_REPORT, SMI, SMI_DETAILS
from cudadoctor.parsers.attempts import Prompt
from cudadoctor.parsers.launches import BY_HAND_ELSEWHERE
from cudadoctor.texts.tie_breakers.case import Case
from cudadoctor.texts.tie_breakers.toolkit import gpus_named, looks_in_old_folders

# What a program without a GPU says, also where it is to run without one.
_WITHOUT_GPU = frozenset(
    ("framework-cpu-build", "libcuda-missing", "driver-not-installed", "driver-not-loaded", "container-no-gpu-access", "no-nvidia-gpu")
)
_ON_LOGIN_NODES = frozenset((*_WITHOUT_GPU, "nvidia-smi-missing"))
# What cannot be where nvidia-smi lists the GPUs of the same machine.
_NO_DRIVER = frozenset(("driver-not-loaded", "driver-not-installed", "nouveau-bound", "driver-module-missing-for-kernel"))
# What DKMS says in a system container: the kernel, and the module that it has loaded, are the host's.
_NO_MODULE, _NOT_BUILT, _MISMATCH = "driver-module-missing-for-kernel", "driver-build-failed", "driver-version-mismatch"
_OF_A_KERNEL = frozenset((_NO_MODULE, _NOT_BUILT))
_NO_HEADERS = lazy(r"kernel-devel-uname-r|headers for kernel")
_CPU_BUILD, _NO_TOOLKIT = "framework-cpu-build", "toolkit-missing"
_OF_SOME_GPU = "framework-lacks-gpu-arch"  # PyTorch warns of each GPU that it cannot use, and goes on on the others
_NO_RUNTIME, _NO_LIBCUDA = "container-toolkit-missing", "libcuda-missing"
_OF_ENGINE = (_NO_RUNTIME, "container-hook-failed")  # the same for all containers
# What the device plugin says without a driver in its container: no word of a missing runtime where the engine's own settings name it.
OF_PLUGIN = lazy(r"If this is a GPU node|device discovery strategy|load NVML library|Incompatible strategy|Waiting indefinitely")
_OF_OLD_GPUS, _ROWS = "open-module-unsupported-gpu", "row-remap-needed"
_FABRIC, _REFUSED = "fabric-manager-not-running", "nvlink-fabric-incomplete"
NOT_READY = lazy(r"\b802\b|not yet initialized|SYSTEM_NOT_READY|SystemNotReady")
_FOR_GUESTS, _SLOT = "vfio-bound", lazy(r"\b[0-9a-f]{4}:(?P<slot>[0-9a-f]{2}:[0-9a-f]{2})\b")
_FAULT = "program-memory-fault"
LOST = ("cuda 719", "xid 13", "xid 31")  # what a program meets whose memory was lost over a suspend
_ECC, _XIDS = "ecc-uncorrectable", ("xid 48", "xid 63", "xid 94", "xid 95")
_LOOKED_INTO = lazy(r"not found in directory /(?:usr/)?lib/modules/(?P<release>[\w.+~-]{3,100})")
_SAMPLE_PASSED = "PASS"  # of the CUDA samples, which no framework is part of
_OF_SERVER = lazy(r"% (?:CPU/)?GPU\b")  # ollama ps
_TEXT = "text"  # the origin of facts that a user's text states
_OF_MACHINE = ("kernel", "node", "library", "toolkit", "python")  # layers whose faults are the same for every GPU and program here
_GONE_WITH_A_BOOT = ("hardware", "bus", "device", "kernel", "node", "driver-lib")
_OF_ENVIRONMENT = ("toolkit", "python")  # of these, the layers of which each environment may have its own


def standing(case: Case) -> list[Clue]:
    """The clues of a user's text, with those that the text takes back as advice, or as a suspicion."""
    said = case.said
    if case.says("rocm-build"):  # what asks for libcuda there was built for another vendor's GPUs
        said = [msgspec.structs.replace(clue, basis="suspected") if clue.cause == _NO_LIBCUDA else clue for clue in said]
    if case.says("nvidia-is-default") or (case.says("k3s") and case.says("nvidia-runtime-named")):
        said = [msgspec.structs.replace(clue, basis="suspected") if _of_plugin(clue) else clue for clue in said]
    if any(clue.cause == _NO_MODULE and any(_NO_HEADERS.search(quote.text) for quote in clue.quotes) for clue in said):
        # Without the kernel's headers nothing was compiled, whatever the builder says next.
        said = [msgspec.structs.replace(clue, basis="suspected") if clue.cause == _NOT_BUILT else clue for clue in said]
    if case.says("suspend"):  # what the GPU's memory held may be gone, and the program's kernels right
        said = [msgspec.structs.replace(clue, basis="suspected") if clue.cause == _FAULT and clue.code in LOST else clue for clue in said]
    gone = (_WITHOUT_GPU if case.says("cpu-meant") else frozenset()) | (_NO_DRIVER if _listed(case) else frozenset())
    gone |= {_FABRIC} if _registered(case) else set()
    gone |= {_OF_OLD_GPUS} if _all_new(case) else set()
    gone |= _ON_LOGIN_NODES if _scheduler_gave(case) else set()
    gone |= {_FABRIC} if _without_switch(case) else set()
    report = case.facts.value(NUMBA_REPORT)
    gone |= {_NO_TOOLKIT} if report is not None and looks_in_old_folders(report) else set()
    gone |= {_ROWS} if _nothing_to_remap(case) else set()
    gone |= _OF_A_KERNEL if case.stated(_MISMATCH) and any("lxc" in mark for mark in case.facts.value(CONTAINER_MARKS) or ()) else set()

    def is_over(clue: Clue) -> bool:
        return (
            clue.cause in gone
            or _of_guest(clue, case)
            or _under_another_kernel(clue, case)
            or (clue.cause == _ECC and clue.code in _XIDS and _counts_none(case))
        )

    return [msgspec.structs.replace(clue, advice=True) if clue.basis == "stated" and is_over(clue) else clue for clue in said]


def unrefuted(
    case: Case,
    quiet: Callable[[int], bool],
    prompt: Callable[[int], Prompt | None],
    survived: Collection[int],
    again: Collection[int],
    ended: Callable[[int, str], bool],
) -> list[Clue]:
    """Without the clues of which a rung that their cause breaks works further below, at the same prompt, where nobody asks on.

    What the writer says in his own words above all prompts is of the machine that he then shows. `quiet`, `prompt`: of a line's number,
    whether nobody asks on below it, and the prompt that it stands below; another environment of Python matters to what is in one alone.
    `survived`: lines below which their program went on computing; `again`: of a run whose program did when it was started again.
    `ended`: of a line's number and words, whether its machine was restarted since: its state is a suspicion then, where nothing is said
    of it below.
    """
    alone = GPU_LAYERS if one_gpu(case) else ()
    layers = (*_OF_MACHINE, *alone, *(() if case.container else ("container",)))
    worked = {name: line for line, names in _answers(case) if quiet(line) for name in names}

    def place(line: int) -> str | None:
        found = prompt(line)
        return found.place if found is not None else None

    def engine(line: int) -> str:
        found = prompt(line)
        return found.engine if found is not None else ""

    def stands(clue: Clue) -> bool:
        cause = case.knowledge.causes.get(clue.cause)
        shown = max((quote.last or 0 for quote in clue.quotes[: None if clue.basis == "stated" else 1]), default=0)
        below = [worked[name] for name in (clue.cause, *cause.breaks) if shown < worked.get(name, 0)] if cause is not None else []
        if cause is not None and (cause.layer == "program" or clue.cause == _OF_SOME_GPU) and shown in survived:
            return False
        if shown in again and quiet(shown) and (clue.basis == "suspected" or (cause is not None and cause.layer == "program")):
            return False
        if cause is None or (cause.layer not in layers and clue.cause not in _OF_ENGINE):
            return True
        if clue.cause in _OF_ENGINE:
            below = [line for line in below if engine(line) and engine(line) == engine(shown)]
        here = prompt if cause.layer in _OF_ENVIRONMENT else place
        same = set(map(here, below)) if clue.words and here(shown) is None else {here(shown)}
        typed = prompt(shown)
        of_root = typed.host if typed is not None and cause.layer not in _OF_ENVIRONMENT else None
        return all(
            here(line) is None or (here(line) not in same and not (of_root and (place(line) or "").endswith(f"@{of_root}")))
            for line in below
        )

    said = [clue for clue in case.said if stands(clue)]
    of_state = [clue for clue in said if case.knowledge.causes[clue.cause].layer in _GONE_WITH_A_BOOT]
    if not all(ended(quote.last or 0, quote.text) and quiet(quote.last or 0) for clue in of_state for quote in clue.quotes):
        return said
    return [msgspec.structs.replace(clue, basis="suspected") if clue in of_state else clue for clue in said]


def one_gpu(case: Case) -> bool:
    """Whether every table of nvidia-smi lists one GPU, of which then all speaks."""
    tables = [fact.value for fact in case.facts.all(SMI) if fact.value is not None and fact.value.gpus]
    return bool(tables) and all(len(table.gpus) == 1 for table in tables)


def _of_guest(clue: Clue, case: Case) -> bool:
    """Whether it says of GPUs that they are kept for guests, and a guest is configured with each."""
    slots = {found["slot"] for quote in clue.quotes for found in _SLOT.finditer(quote.text)} if clue.cause == _FOR_GUESTS else set()
    given = " ".join(quote.text for quote in case.says("guest-works")) if slots else ""
    return bool(slots) and all(slot in given for slot in slots)


def _of_plugin(clue: Clue) -> bool:
    return clue.cause == _NO_RUNTIME and all(OF_PLUGIN.search(quote.text) for quote in clue.quotes)


def _registered(case: Case) -> bool:
    """Whether Fabric Manager answered each GPU, one of them with a refusal, and nothing but CUDA's "not ready" speaks of one that waits."""
    waits = (quote.text for clue in case.said if clue.cause == _FABRIC and clue.basis == "stated" for quote in clue.quotes)
    return bool(case.stated(_REFUSED)) and all(map(NOT_READY.search, waits))


def _scheduler_gave(case: Case) -> bool:
    """Whether a job that asked the scheduler for a GPU shows one: the node before it is one to log in on. Where such a job started a
    container without a GPU nobody can say."""
    asked = [job.line for job in case.setting.jobs if job.program in ("srun", "salloc") and job.asks]
    if any(start.line in asked and not start.asks for start in case.setting.containers):
        return False
    return any(_line(fact.quotes) > min(asked) for fact in case.facts.all(SMI) if asked and fact.value is not None and fact.value.gpus)


def _without_switch(case: Case) -> bool:
    """Whether every GPU is a card for the PCI Express bus by its name: those that NVSwitches join have other names."""
    names = [gpu.name or "" for fact in case.facts.all(SMI) if fact.value is not None for gpu in fact.value.gpus]
    return bool(names) and all("PCIE" in name.upper() for name in names)


def _all_new(case: Case) -> bool:
    """Whether the open modules drive every GPU that the text names: the driver could not even ask the GPU what it is."""
    families = [case.knowledge.architecture_of(gpu.capability) for gpu in gpus_named(case)]
    return bool(families) and all(family is not None and family.open_modules != "unsupported" for family in families)


def _listed(case: Case) -> bool:
    """Whether every nvidia-smi of the text lists GPUs: before and after are not told apart."""
    answers = [fact.value for fact in case.facts.all(SMI)]
    return bool(answers) and all(answer is not None and bool(answer.gpus) and answer.failure is None for answer in answers)


def _answers(case: Case) -> list[tuple[int, frozenset[str]]]:
    """Lines of a text in which something worked, with the rungs that it proves, or the cause that it rules out."""
    found: list[tuple[int, frozenset[str]]] = []
    tables = [
        fact
        for fact in case.facts.all(SMI)
        if fact.origin == _TEXT and fact.value is not None and fact.value.gpus and not fact.value.failure
    ]
    found += [(_line(fact.quotes), frozenset(("nvml", "driver", *_OF_ENGINE))) for fact in tables[-1:]]
    asked, computed = case.facts.there(FRAMEWORKS), case.facts.there(COMPUTED)
    if asked is not None and asked.origin == _TEXT and asked.need().available:
        # is_available() counts devices: it loads no library of the framework's and starts no kernel.
        found.append((asked.need().available_line, frozenset((_CPU_BUILD, *below("context")))))
    if computed is not None and computed.origin == _TEXT:
        of_framework = () if _SAMPLE_PASSED in computed.need() or computed.need() == BY_HAND_ELSEWHERE else ("framework",)
        # A server that lists its models holds the GPU itself: it shows nothing of what another program gets there.
        withheld = ("context", "memory") if _OF_SERVER.search(computed.need()) else ()
        found.append((_line(computed.quotes), frozenset((*of_framework, *below("ptx-kernel"))).difference(withheld)))
    return found


def _under_another_kernel(clue: Clue, case: Case) -> bool:
    """Whether modprobe looked into the folder of a kernel that was replaced since: uname names another one below."""
    kernel = case.facts.there(KERNEL)
    named = next((found for quote in clue.quotes if (found := _LOOKED_INTO.search(quote.text)) is not None), None)
    if kernel is None or named is None or kernel.origin != _TEXT:
        return False
    return kernel.need().release != named["release"] and _line(kernel.quotes) > _line(clue.quotes)


def _counts_none(case: Case) -> bool:
    """Whether nvidia-smi -q counts no uncorrected error since the driver was loaded, on any GPU that it lists."""
    listed = [gpu for fact in case.facts.all(SMI_DETAILS) for gpu in fact.value or ()]
    return bool(listed) and all(gpu.ecc_uncorrected == 0 for gpu in listed)


def _nothing_to_remap(case: Case) -> bool:
    """Whether nvidia-smi -q shows the remapper of every GPU that it lists, with nothing pending and nothing failed."""
    listed = [gpu for fact in case.facts.all(SMI_DETAILS) for gpu in fact.value or ()]
    return bool(listed) and all(gpu.remap_pending is False and gpu.remap_failed is False for gpu in listed)


def _line(quotes: Sequence[Quote]) -> int:
    return max((quote.first or 0 for quote in quotes), default=0)
