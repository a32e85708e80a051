"""Where a user's programs run, as the text around a failure tells it: container, WSL, batch job, notebook, Mac.

These are circumstances (tables/circumstances.toml), typed commands and what people write (tables/lexicon.toml), not measurements. None
proves anything alone; they decide between the causes that a message leaves open (texts/tie_breakers), and are quoted. What a program itself
prints about its kernel or container is stated as the usual fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import CONTAINER_MARKS, SETTING, WSL, Launcher, Setting, Start
from cudadoctor.parsers import _answers
from cudadoctor.parsers.attempts import typed
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.literals import Literals
from cudadoctor.parsers.prose import Prose
from cudadoctor.parsers.shell import is_prompt, root_command

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.knowledge.wording import Circumstance

_REACH = 400  # characters of a line looked at on each side of a hint
_PLACES = 60  # places of one hint that are looked at
_CONTINUED = 40  # lines of one command
_COMMAND_LENGTH = 6000

_ANSWER = 60  # lines that an answer may have
_ASKS_LOADER = lazy(r"ldconfig -p ?\| ?grep (?:-\w{1,4} )?['\"]?libcuda(?:\.so(?:\.1)?)?['\"]?(?: *;|$| )")
_RULE = lazy(r"^\s{0,8}[abc] [\d*]{1,4}:[\d*]{1,4} [rwm]{1,3}\s{0,4}$")
_LETS_IN = lazy(r"^\s{0,8}(?:c (?:195|\*):|a )(?!\S{0,4} m\s{0,4}$)")
_MINOR = lazy(r"\b(?:Device Minor|Minor Number)\s{0,20}:\s{1,8}(\d{1,2})\s{0,4}$")
_LISTED_NODE = lazy(r"(?:^|\s)/dev/nvidia(\d{1,2})(?=\s|$)")
_ASKS_BUS = lazy(
    r"^(?:sudo )?(?:/\S{1,20}/)?lspci (?:-[nkv]{1,5} )?"
    r"(?:-d 10[dD][eE]:(?::03\d\d)?|\| ?e?grep (?:-\w{1,3} )?[\"']?(?i:nvidia|10de)[\"']?)$"
)
_ASKS_PROCESS = lazy(r"^(?:sudo )?ps (?:-[a-zA-Z]{1,4} ){0,2}-[a-zA-Z]{0,3}p ?\d{2,10}(?: -o \S{1,60})?$")
_PS_HEADING = lazy(r"^\s{0,12}(?:(?:[A-Z%]{1,8}|F S)\s{1,12}){0,14}(?:CMD|COMMAND)\s*$")
_PS_ROW = lazy(r"^\s{0,12}(?:\S{1,32}\s{1,12}){0,3}\d{2,10}\s")
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
_OF_WSL = ("microsoft-standard", "-Microsoft", "/usr/lib/wsl/")
_ASKED = ("ldconfig -p", "devices.list", "ps -", "Minor", "/dev/nvidia", "lspci")
_HINT_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PROSE_END = (".", ",", ";", ":")


class _Body:
    """The text, and where each hint stands in it."""

    def __init__(self, text: Text, hints: Literals) -> None:
        self.text, self.lines, self.whole = text, text.lines, text.joined
        self.hints = hints.places(self.whole)

    def places(self, hint: str) -> Iterator[tuple[int, int]]:
        """Each place of a hint with its line's number, at most one on a line."""
        found = ((at, self.text.line_at(at)) for at in self.hints.of(hint))
        for number, of_line in islice(groupby(found, key=itemgetter(1)), _PLACES):
            yield next(of_line)[0], number

    def numbers(self, hints: Iterable[str]) -> list[int]:
        """The lines that hold one of the hints."""
        return sorted({number for hint in hints for _, number in self.places(hint)})

    def asked(self, hint: str, form: re.Pattern[str]) -> Iterator[tuple[int, list[str], bool]]:
        """Each line on which a command of this form is typed: number, the lines below up to the next prompt, whether there is one."""
        for _, number in self.places(hint):
            typed = root_command(self.lines[number - 1][:_COMMAND_LENGTH])
            if typed is not None and form.search(typed) is not None:
                below = list(takewhile(lambda text: not is_prompt(text), self.lines[number : number + _ANSWER]))
                yield number, below, any(map(is_prompt, self.lines[number + len(below) : number + len(below) + 1]))

    def around(self, at: int) -> str:
        """The line of a place, cut to what lies near it."""
        start = self.whole.rfind("\n", max(0, at - _REACH), at) + 1 or max(0, at - _REACH)
        end = self.whole.find("\n", at, at + _REACH)
        return self.whole[start : end if end >= 0 else at + _REACH]

    def command(self, number: int) -> str:
        """A line with the lines that continue it."""
        joined: list[str] = []
        for line in self.lines[number - 1 : number - 1 + _CONTINUED]:
            cut = line[:_COMMAND_LENGTH].rstrip()
            joined.append(cut.rstrip("\\`^"))
            if not cut.endswith(("\\", " `", " ^")):
                break
        return " ".join(joined)[:_COMMAND_LENGTH]


class _Known(NamedTuple):
    """A circumstance with its patterns made one."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None

    def first(self, body: _Body) -> int | None:
        """The line of the first sign of it."""
        here = (hint for hint in self.hints if hint in body.hints)
        found = (next((number for at, number in body.places(hint) if self._fits(body.around(at))), None) for hint in here)
        return min((number for number in found if number is not None), default=None)

    def _fits(self, line: str) -> bool:
        return self.pattern.search(line) is not None and (self.unless is None or self.unless.search(line) is None)


def _known(circumstance: Circumstance) -> _Known:
    flags = re.IGNORECASE if circumstance.ignore_case else 0
    unless = lazy(circumstance.unless) if circumstance.unless is not None else None
    return _Known(circumstance.kind, circumstance.hints, lazy("|".join(circumstance.patterns), flags), unless)


class _Reader:
    """What is known of circumstances and of prose, made ready for texts."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._known = tuple(_known(circumstance) for circumstance in knowledge.circumstances)
        self._prose = Prose(knowledge.lexicon)
        hints = (hint for known in self._known for hint in known.hints)
        self._hints = Literals((*hints, *_RUN_HINTS, *_JOB_HINTS, *_LAUNCHERS, *_INSIDE_HINTS, *_OF_WSL, *_ASKED, _HINT_VISIBLE))
        self._last: _Body | None = None

    def _body(self, text: Text) -> _Body:
        """Made once for the parsers that ask one after another."""
        if self._last is None or self._last.text is not text:
            self._last = _Body(text, self._hints)
        return self._last

    def setting(self, text: Text) -> Output:
        """One fact with all circumstances and commands. Only a user's text is read so."""
        body = self._body(text)
        words = {known.kind: line for known in self._known if (line := known.first(body)) is not None}
        answers = _answers_of(text, body)
        words |= {kind: line for kind, line in answers.items() if kind not in words}
        prose = {kind: line for kind, line in self._prose.kinds(text).items() if kind not in words}
        composed = _answers.composed(text.lines, text.text)
        containers, jobs = tuple(sorted((*_containers(body), *composed), key=lambda start: start.line)), _jobs(body)
        visible, visible_line = _visible(body)
        launcher = _launcher(body)
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


def _launcher(body: _Body) -> Launcher | None:
    """The last command that starts several processes on one node."""
    for number in reversed(body.numbers(_LAUNCHERS)):
        found = _LAUNCHED.search(body.command(number))
        if found is not None:
            return Launcher(program=found["program"], option=found["option"], processes=int(found["number"]), line=number)
    return None


def _answers_of(text: Text, body: _Body) -> dict[str, int]:
    """What the answers of commands show, where the line alone says too little."""
    looks = {
        "no-libcuda": _libcuda_not_listed(body),
        "no-gpu-rule": _rules_without_a_gpu(body),
        "node-of-minor": _minor_without_a_node(body),
        **_bus_without_nvidia(text, body),
        "gone": _process_not_listed(body),
    }
    return {kind: line for kind, line in looks.items() if line is not None} | dict(_answers.words(text.lines, text.text))


def _libcuda_not_listed(body: _Body) -> int | None:
    """Where the loader was last asked for libcuda and named none before the next prompt: a look that found nothing prints nothing."""
    line = None
    for number, answer, _ in body.asked("ldconfig -p", _ASKS_LOADER):
        line = None if any("libcuda.so" in text and "cannot access" not in text for text in answer) else number
    return line


def _rules_without_a_gpu(body: _Body) -> int | None:
    """Where devices.list of a cgroup is shown and has rules, none of them for NVIDIA's devices (major number 195) or for all."""
    for _, number in body.places("devices.list"):
        rules = list(takewhile(lambda line: _RULE.match(line) is not None, body.lines[number : number + _ANSWER]))
        if len(rules) > 2 and not any(_LETS_IN.match(rule) for rule in rules):
            return number
    return None


def _process_not_listed(body: _Body) -> int | None:
    """Where ps was asked for one process by its number and gave its heading alone, or nothing, before the next prompt."""
    for number, below, closed in body.asked("ps -", _ASKS_PROCESS):
        answer = [text for text in below if text.strip()]
        # Without a prompt behind it the answer may be cut off.
        if closed and (not answer or _PS_HEADING.match(answer[0])) and not any(_PS_ROW.match(text) for text in answer[1:2]):
            return number
    return None


def _minor_without_a_node(body: _Body) -> int | None:
    """The line with a GPU's minor number where all nodes are listed and the one with this number is not among them."""
    minors = {int(found[1]): number for _, number in body.places("Minor") if (found := _MINOR.search(body.lines[number - 1])) is not None}
    if not minors:
        return None
    nodes = {
        int(one[1]) for _, number in body.places("/dev/nvidia") for one in _LISTED_NODE.finditer(body.lines[number - 1][:_COMMAND_LENGTH])
    }
    missing = sorted(minors.keys() - nodes)
    return minors[missing[0]] if missing and nodes else None


def _bus_without_nvidia(text: Text, body: _Body) -> dict[str, int]:
    """Where the bus was last asked for NVIDIA's devices and the next prompt follows at once; apart, where that was another machine than
    the one that an earlier prompt names."""
    if not any(True for _ in body.places("lspci")):
        return {}
    prompts = typed(text)
    asked = [entry for entry in prompts if entry.command is not None and _ASKS_BUS.match(entry.command)]
    if not asked or asked[-1].end != asked[-1].index + 1 or asked[-1].end >= len(body.lines):
        return {}
    last = asked[-1]
    others = {entry.host for entry in prompts if entry.index < last.index and entry.host is not None} - {last.host}
    return {"none-listed-there" if last.host is not None and others else "none-listed": last.index + 1}


def _containers(body: _Body) -> tuple[Start, ...]:
    """The commands that start a container, in the order of the text. A recommendation that ends in dots is none."""
    return tuple(start for number in body.numbers(_RUN_HINTS) if (start := _container(body, number)) is not None)


def _container(body: _Body, number: int) -> Start | None:
    command = body.command(number)
    found = _RUN.search(command)
    if found is None or command.rstrip().endswith("..."):
        return None
    rest = found["rest"] or found["more"] or ""
    typed = (
        command.lstrip()[: found.start()].strip(" $#>") in ("", "sudo")
        or root_command(body.lines[number - 1][:_COMMAND_LENGTH]) is not None
    )
    if not typed and not _LOOKS_TYPED.match(rest):
        return None
    program = (found["program"] or found["sif"]).split()[0]
    asks = program.startswith("nvidia-docker") or _CONTAINER_ASKS.search(rest) is not None
    return Start(program=program, asks=asks, line=number)


def _jobs(body: _Body) -> tuple[Start, ...]:
    """The commands and comment lines that ask a scheduler for a job."""
    starts = []
    for number in body.numbers(_JOB_HINTS):
        line = body.lines[number - 1][:_COMMAND_LENGTH]
        found = _JOB.match(root_command(line) or line) or _JOB.match(line)
        if found is None:
            continue
        asks = _JOB_ASKS.search(body.command(number)) is not None
        if asks or found["program"] not in _FROM_SCRIPT or " -I" in line:
            starts.append(Start(program=found["program"], asks=asks, line=number))
    return tuple(starts)


def _visible(body: _Body) -> tuple[str | None, int]:
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
    "onnxruntime", "nouveau", "NVML", "NVRM", "cuInit", "GRID",
)  # fmt: skip


def parsers(knowledge: Knowledge) -> tuple[Parser, ...]:
    reader = knowledge.once("setting", lambda: _Reader(knowledge))
    return (
        Parser(name="setting", keys=(SETTING.name,), parse=reader.setting, wakes=_WAKES),
        Parser(name="wsl_words", keys=(WSL.name,), parse=reader.wsl, wakes=_OF_WSL),
        Parser(name="container_words", keys=(CONTAINER_MARKS.name,), parse=reader.inside, wakes=_INSIDE_HINTS),
    )
