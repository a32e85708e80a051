"""Where a user's programs run, as the text around a failure tells it: container, WSL, batch job, notebook, Mac.

These are circumstances (tables/circumstances.toml), typed commands and what people write (tables/lexicon.toml), not measurements. None
proves anything alone; they decide between the causes that a message leaves open (texts/tie_breakers), and are quoted. What a program itself
prints about its kernel or container is stated as the usual fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_MARKS, SETTING, WSL, Launcher, Setting, Start
from cudadoctor.parsers import answers
from cudadoctor.parsers.answers import COMMAND_LENGTH, Body
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.literals import Literals
from cudadoctor.parsers.prose import Prose
from cudadoctor.parsers.shell import root_command

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.knowledge.wording import Circumstance


_RUN = lazy(
    r"(?P<program>\bnvidia-docker2?|\bdocker(?: container)?|\bpodman|\bnerdctl|\bctr)\s(?:-\S{1,20}\s){0,4}(?:run|create)\s(?P<rest>.*)"
    r"|(?P<sif>\b(?:singularity|apptainer))\s(?:-\S{1,20}\s){0,4}(?:exec|run|shell|instance start)\s(?P<more>.*)",
    re.DOTALL,
)
_RUN_HINTS = (" run ", " create ", "singularity ", "apptainer ")
_LOOKS_TYPED = lazy(r"(?:-|\S{0,80}[/:]\w)")  # an option or an image with a registry or a tag
_CONTAINER_ASKS = lazy(
    r"--gpus\b|--runtime[= ]\"?nvidia|nvidia\.com/gpu|NVIDIA_VISIBLE_DEVICES=(?!void|none|[\"']{2})|--nv(?:ccli)?\b|--gpu\b|\bgpu:"
    r"|--device[= ]\"?/dev/nvidia(?:ctl|-uvm)"
)
_JOB = lazy(r"^\s{0,16}(?:sudo )?(?P<program>srun|salloc|sbatch|qsub|bsub|qrsh|#SBATCH|#PBS|#BSUB)\s+(?P<rest>\S.*)$")
_JOB_HINTS = ("srun ", "salloc ", "sbatch ", "qsub ", "bsub ", "qrsh ", "#SBATCH", "#PBS", "#BSUB")
_JOB_ASKS = lazy(r"--gres[= ]\S{0,60}gpu|--gpus|--gpu\b|\s-G ?\d|^-G ?\d|--tres\S{0,60}gpu|gpus?=\d|\bngpus|-gpu\b|gres:gpu|\bgpu=")
_FROM_SCRIPT = ("sbatch", "qsub")  # what a script asks for stands in the script
_LAUNCHERS = ("torchrun ", "torch.distributed.", "accelerate launch", "deepspeed ", "mpirun ", "mpiexec ", "horovodrun ")
_LAUNCHED = lazy(
    r"(?P<program>torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|deepspeed|mpirun|mpiexec|horovodrun)\s"
    r"(?:[^\n]{0,400}?\s)?(?P<option>--nproc[_-]per[_-]node[= ]|--num_processes[= ]|--num_gpus[= ]|-np? )(?P<number>\d{1,4})\b"
)
_VISIBLE = lazy(
    r"CUDA_VISIBLE_DEVICES[\"'\]]{0,3}\s{0,3}(?:=(?!=)|:(?= (?:[\"'\d-]|all\b|none\b)))\s{0,3}"
    r"(?P<value>\$\d(?!\w)|\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[\w,.:;-]{0,200})(?![\w$<{(/])"
)
_SCRIPT = 60  # lines above a directive in which its script begins
_FILE = 400  # lines of a file for docker compose
_SERVICES = lazy(r"^(?P<indent>\s{0,8})services:\s{0,4}$")
_IMAGE = lazy(r"^\s{1,16}(?:image|build):")
_CUT = lazy(r"^\s{0,24}(?:\.\.\.|…|#? ?\[\.\.\.\]|# ?\.\.\.)")
_ASKS_GPU = lazy(
    r"\bruntime: ?[\"']?nvidia|\bdriver: ?[\"']?(?:nvidia|cdi)|\bcapabilities:|\bgpus:|nvidia\.com/"
    r"|/dev/nvidia|\bextends:|\bdevice_requests|<<:"
)
_OF_WSL = ("microsoft-standard", "-Microsoft", "/usr/lib/wsl/")
_HINT_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PROSE_END = (".", ",", ";", ":")


class _Known:
    """A circumstance with its patterns made one."""

    def __init__(self, circumstance: Circumstance) -> None:
        self.kind, self.hints = circumstance.kind, circumstance.hints
        self._pattern = lazy("|".join(circumstance.patterns), re.IGNORECASE if circumstance.ignore_case else 0)
        self._unless = lazy(circumstance.unless or r"(?!)")

    def first(self, body: Body) -> int | None:
        """The line of the first sign of it."""
        here = (hint for hint in self.hints if hint in body.hints)
        found = (next((number for at, number in body.places(hint) if self._fits(body.around(at))), None) for hint in here)
        return min((number for number in found if number is not None), default=None)

    def _fits(self, line: str) -> bool:
        return self._pattern.search(line) is not None and self._unless.search(line) is None


class _Reader:
    """What is known of circumstances and of prose, made ready for texts."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._known = tuple(map(_Known, knowledge.circumstances))
        self._prose = Prose(knowledge.lexicon)
        hints = (hint for known in self._known for hint in known.hints)
        self._hints = Literals((*hints, *_RUN_HINTS, *_JOB_HINTS, *_LAUNCHERS, *_INSIDE_HINTS, *_OF_WSL, *answers.HINTS, _HINT_VISIBLE))
        self._last: Body | None = None

    def _body(self, text: Text) -> Body:
        """Made once for the parsers that ask one after another."""
        if self._last is None or self._last.text is not text:
            self._last = Body(text, self._hints)
        return self._last

    def setting(self, text: Text) -> Output:
        """One fact with all circumstances and commands. Only a user's text is read so."""
        body = self._body(text)
        words = {known.kind: line for known in self._known if (line := known.first(body)) is not None}
        words |= dict(_late(text, body))
        words |= {kind: line for kind, line in answers.shown(body).items() if kind not in words}
        prose = {kind: line for kind, line in self._prose.kinds(text).items() if kind not in words}
        started = [*filter(None, (_container(body, number) for number in body.numbers(*_RUN_HINTS))), *_composed(text)]
        containers, jobs = tuple(sorted(started, key=lambda start: start.line)), _jobs(body)
        (visible, visible_line), launcher = _visible(body), _launcher(body)
        if not (words or prose or containers or jobs or launcher is not None or visible is not None):
            return
        setting = Setting(
            words={**words, **prose}, prose=tuple(prose), containers=containers, jobs=jobs, visible=visible, visible_line=visible_line,
            launcher=launcher,
        )  # fmt: skip
        starts = (*containers, *jobs, *((launcher,) if launcher is not None else ()))
        shown = {*setting.words.values(), *(start.line for start in starts), visible_line} - {0}
        yield text.fact(SETTING, setting, *(text.quote(line) for line in sorted(shown)), whole=False)

    def wsl(self, text: Text) -> Output:
        """The kernel that Microsoft made, or the folder that Windows lends, named anywhere in a user's text."""
        found = next(self._near(text, _OF_WSL, _KERNEL_OF_WSL), None)
        if found is not None:
            yield text.fact(WSL, True, text.quote(found[0]), whole=False)

    def inside(self, text: Text) -> Output:
        """The prompt of Apptainer, TensorFlow's word for its host where Docker named that, a service of docker compose."""
        found = next(self._near(text, _INSIDE_HINTS, _INSIDE), None)
        if found is not None:
            yield text.fact(CONTAINER_MARKS, (found[1],), text.quote(found[0]), whole=False)

    def _near(self, text: Text, hints: tuple[str, ...], pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        """The lines near a hint on which the pattern fits: number, and what fits."""
        body = self._body(text)
        lines = ((number, pattern.search(body.around(at))) for hint in hints for at, number in body.places(hint))
        return ((number, found[0].strip()) for number, found in lines if found is not None)


def _launcher(body: Body) -> Launcher | None:
    """The last command that starts several processes on one node."""
    for number in reversed(body.numbers(*_LAUNCHERS)):
        found = _LAUNCHED.search(body.command(number))
        if found is not None:
            return Launcher(program=found["program"], option=found["option"], processes=int(found["number"]), line=number)
    return None


def _composed(text: Text) -> Iterator[Start]:
    """A file of docker compose that is shown whole, as the start of its containers."""
    if "services:" not in text.text or "default-runtime" in text.text:
        return
    for number, head in text.rows(_SERVICES):
        block = list(_deeper(text.lines[number : number + _FILE - 1], len(head["indent"])))
        if any(_IMAGE.match(one[:200]) for one in block) and not any(_CUT.match(one[:100]) for one in block):
            yield Start(program="compose", asks=any(_ASKS_GPU.search(one[:400]) for one in block), line=number)


def _deeper(lines: Sequence[str], indent: int) -> Iterator[str]:
    """The lines of a block: deeper than its heading."""
    return takewhile(lambda line: not line.strip() or len(line) - len(line.lstrip()) > indent, lines)


def _container(body: Body, number: int) -> Start | None:
    """The command that starts a container. A recommendation that ends in dots is none."""
    command = body.command(number)
    found = _RUN.search(command)
    if found is None or command.rstrip().endswith("..."):
        return None
    rest = found["rest"] or found["more"] or ""
    typed = (
        command.lstrip()[: found.start()].strip(" $#>") in ("", "sudo") or root_command(body.lines[number - 1][:COMMAND_LENGTH]) is not None
    )
    if not typed and not _LOOKS_TYPED.match(rest):
        return None
    program = (found["program"] or found["sif"]).split()[0]
    asks = program.startswith("nvidia-docker") or _CONTAINER_ASKS.search(rest) is not None
    return Start(program=program, asks=asks, line=number)


def _jobs(body: Body) -> tuple[Start, ...]:
    """The commands and comment lines that ask a scheduler for a job."""
    starts = []
    for number in body.numbers(*_JOB_HINTS):
        line = body.lines[number - 1][:COMMAND_LENGTH]
        found = _JOB.match(root_command(line) or line) or _JOB.match(line)
        if found is None:
            continue
        asks = _JOB_ASKS.search(body.command(number)) is not None
        if asks or found["program"] not in _FROM_SCRIPT or " -I" in line:
            starts.append(Start(program=found["program"], asks=asks, line=number))
    return tuple(starts)


def _late(text: Text, body: Body) -> Iterator[tuple[str, int]]:
    """Directives below the first command of a batch script, which Slurm does not read (https://slurm.schedmd.com/sbatch.html)."""
    begun = None
    for number in body.numbers("#SBATCH"):
        first = next((at for at in range(number - 1, max(0, number - _SCRIPT), -1) if text.lines[at - 1].startswith("#!")), None)
        begun = first if first is not None else begun
        above = text.lines[begun : number - 1] if begun is not None and text.lines[number - 1].startswith("#SBATCH") else []
        if any(line.strip() and not line.startswith("#") for line in above):
            yield "late-directives", number


def _visible(body: Body) -> tuple[str | None, int]:
    """The last value of CUDA_VISIBLE_DEVICES that the text writes out. One that a shell fills in later is not known."""
    value, line = None, 0
    for at, number in body.places(_HINT_VISIBLE):
        near = body.around(at)
        for found in _VISIBLE.finditer(near):
            value, line = found["value"].strip("\"'").rstrip("".join(_PROSE_END)), number
    if value is not None and value.startswith(("...", "None", "X", "N,", "<")):
        return None, 0
    return value, line


# ---------------------------------------------------------------- what programs print
_KERNEL_OF_WSL = lazy(r"\d-microsoft-standard|\d-Microsoft\b|/usr/lib/wsl/(?:lib|drivers)/\w")
_INSIDE = lazy(
    r"^\s{0,8}(?:Singularity|Apptainer)(?: \S{1,80})?> |\bhost(?:name)?: (?P<host>[0-9a-f]{12})$|on this host \((?P<tf>[0-9a-f]{12})\)"
    r"|^[a-z][\w.-]{0,63}[-_]1  \| "  # the name of a service before its lines, in docker compose's log
)
_INSIDE_HINTS = ("Singularity", "Apptainer", "information for host: ", "hostname: ", "on this host (", "_1  | ", "-1  | ")


# What a text speaks of to which its setting may matter.
_WAKES = (
    "nvidia", "NVIDIA", "Nvidia", "cuda", "CUDA", "Cuda", " GPU", " gpu", "GPU0", "umba", "UMBA", "VRAM", "显存", "docker",
    "Docker", "container", "/stubs", "NCCL", "nccl", "out of memory", "irtual memory", "isk sleep", "lurm", "SLURM", "nvcc",
    "onnxruntime", "nouveau", "NVML", "NVRM", "cuInit", "GRID", "hared memory", " RTX", "RTX ", " GTX", "GTX ", "lackwell",
)  # fmt: skip


def parsers(knowledge: Knowledge) -> tuple[Parser, ...]:
    reader = knowledge.once("setting", lambda: _Reader(knowledge))
    return (
        Parser(name="setting", keys=(SETTING.name,), parse=reader.setting, wakes=_WAKES),
        Parser(name="wsl_words", keys=(WSL.name,), parse=reader.wsl, wakes=_OF_WSL),
        Parser(name="container_words", keys=(CONTAINER_MARKS.name,), parse=reader.inside, wakes=_INSIDE_HINTS),
    )
