"""Kernels in a user's text: launches with their configuration in numbers, and what programs print only after a result came back.

A launch stands in the source lines of a traceback or a program: Numba, CUDA C++, PyCUDA, CuPy.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import takewhile
from math import prod

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import COMPUTED, LAUNCH, Launch
from cudadoctor.parsers.attempts import ELSEWHERE, typed
from cudadoctor.parsers.base import Output, Parser, Text
from cudadoctor.parsers.discourse import is_prose

_SHAPE = r"(?:\d{1,10}|\( ?\d{1,10}(?: ?, ?\d{1,10}){0,2} ?,? ?\))"
_NAME = r"\b(?P<kernel>[A-Za-z_]\w{0,60})"
_GRID, _BLOCK = rf"(?P<grid>{_SHAPE})", rf"(?P<block>{_SHAPE})"
_FORMS = (
    ("[", "numba", lazy(rf"{_NAME}\[ ?{_GRID} ?, ?{_BLOCK} ?(?:,[^\]\n]{{0,60}})?\] ?\(")),
    ("<<<", "cuda", lazy(rf"{_NAME} ?<<< ?(?:dim3)?{_GRID} ?, ?(?:dim3)?{_BLOCK} ?(?:,[^>\n]{{0,60}})?>>>")),
    ("block", "pycuda", lazy(rf"{_NAME}\([^\n]{{0,200}}?\bblock ?= ?{_BLOCK}[^\n]{{0,60}}?\bgrid ?= ?{_GRID}")),
)
_LONGEST = 400  # characters of a source line


def parse(text: Text) -> Output:
    """The launch whose block is the largest: the one that a refused configuration is about."""
    found = [launch for number, line in enumerate(text.plain_lines, 1) if len(line) <= _LONGEST for launch in _launches(line, number)]
    if found:
        largest = max(found, key=lambda launch: prod(launch.block))
        yield text.fact(LAUNCH, largest, text.quote(largest.line), whole=False)


def _launches(line: str, number: int) -> Iterator[Launch]:
    for mark, form, pattern in _FORMS:
        shown = pattern.search(line) if mark in line else None
        if shown is not None:
            grid, block = _numbers(shown["grid"]), _numbers(shown["block"])
            yield Launch(kernel=shown["kernel"], form=form, grid=grid, block=block, line=number)


def _numbers(shape: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", shape))


# ---------------------------------------------------------------- signs that a GPU computed
# What programs print then: a literal of the line, and its form.
_SIGNS = (
    ("Result = PASS", r"\bResult = PASS\b"),  # deviceQuery and bandwidthTest of the CUDA samples
    ("device='cuda", r"device='cuda(?::\d{1,2})?'\)"),  # a tensor of PyTorch with its values
    ("layers to GPU", r"\boffloaded [1-9]\d{0,3}/\d{1,4} layers to GPU"),  # llama.cpp and what is built on it
    ("init engine (profile", r"init engine \(profile, create kv cache, warmup model\) took"),  # vLLM
    ("% GPU ", r"\s100% GPU\s"),  # ollama ps
    ("CPU/GPU", r"\s\d{1,2}%/\d{1,2}% CPU/GPU\s"),  # the same of a model that does not fit
    ("# Avg bus bandwidth", r"^# Avg bus bandwidth {1,8}: {1,4}[1-9]"),  # nccl-tests
    ("-precision GFLOP/s", r"= [\d.]{1,12} (?:sing|doub)le-precision GFLOP/s at "),  # nbody of the CUDA samples
    ("| CUDA ", r"\| CUDA {1,12}\| {1,8}\d{1,3} \| {1,20}(?:pp|tg)\d{1,6} \| {1,16}[\d.]{1,12} ± "),  # llama-bench
    (" GPU-", r" GPU-\d{1,2}: {1,8}[\d.]{1,12} us "),  # cupyx.profiler.benchmark
    ("[CudaDevice(id=", r"^\[CudaDevice\(id=\d"),  # jax.devices(): its client has a context on each
    ("Test PASSED", r"compared to CPU.{0,200}Test PASSED|CUDA.{0,200}Test PASSED|^Test PASSED$"),  # vectorAdd and other samples
)
SIGNS = lazy("|".join(form for _, form in _SIGNS))
LITERALS = tuple(literal for literal, _ in _SIGNS)
_SOURCE = lazy(r"\btorch\.|\bprint\(|>>>")  # that makes a tensor, and shows none
# A command that computes on whatever GPU it gets and prints the result: it names no GPU by its number, and has its GPUs from nobody.
_COMPUTES = lazy(
    r"\bpython[\d.]{0,5}\b[^\n]{0,80}? -c ['\"](?=[^\n]{0,400}\bprint\()(?:"
    r"(?=[^\n]{0,80}\bimport torch\b)[^\n]{0,300}?(?:\.cuda\(\)|\bdevice=(?:['\"]cuda['\"]|[a-z]\b)|\.to\(['\"]cuda['\"]\))"
    r"|(?=[^\n]{0,80}\bimport cupy\b)[^\n]{0,300}?\.(?:arange|array|asarray|eye|full|ones|rand\w{0,4}|zeros)\()"
)
_CHOSEN = "VISIBLE_DEVICES="
_LETTERS, _SENTENCE = lazy(r"[^\W\d_]{2,}"), 8  # words of more than a line of a program's result
_FAILED = lazy(r"(?i)\btraceback\b|error|exception|\bnot found\b|\bnan\b")
# Of a program that computed before, which may be one of a text without prompts.
_FAILED_LATER = lazy(r"(?i)\btraceback \(|\bcuda error\b|\bcore dumped\b|segmentation fault|^\W{0,4}\w{0,24}error: |: EOF\W{0,3}$")
BY_HAND, BY_HAND_ELSEWHERE = "a command that was typed", "a command that was typed, in a container or on another node"


# Below these stands what is said elsewhere: of another host, of a source, of a journal of any time; and what computes on the processor.
_SAYS_NOTHING = lazy(
    r"^(?:sudo )?(?:nvidia-smi|nvcc|dmesg|ls\w*|mod\w+|uname|e?grep|rg|ag|sed|awk|ssh|pdsh|man|echo|git)\b"
    r"|^(?:sudo )?(?:cat|head|less|more|tail)\b[^|]*\.(?:c|cc|cpp|cu|h|py|md|rst)\b"
    r"|^(?:sudo )?journalctl\b(?!.* (?:-\w*[bf]|--since|--boot))|\s--?cpu\b"
)


def _said_here(text: Text) -> Callable[[int], bool]:
    """Tells whether a line's number (from 1) is of the output of a program here: below a command that may print it, and no sentence."""
    entries = typed(text)
    starts = [entry.index + 1 for entry in entries]

    def said(number: int) -> bool:
        above = bisect_right(starts, number) - 1
        words = len(_LETTERS.findall(text.plain_lines[number - 1]))
        return not (above >= 0 and _SAYS_NOTHING.search(entries[above].command or "")) and (
            words <= _SENTENCE or not is_prose(text.plain_lines[number - 1])
        )

    return said


def parse_signs(text: Text) -> Output:
    """The last sign that a GPU computed."""
    here = _said_here(text)
    lines = ((number, line) for number, line in enumerate(text.plain_lines, 1) if not _SOURCE.search(line))
    found = [(number, sign[0]) for number, line in lines if (sign := SIGNS.search(line)) is not None and here(number)]
    for entry in typed(text):
        if entry.command is not None and _COMPUTES.search(entry.command) and _CHOSEN not in text.plain_lines[entry.index]:
            answer = list(takewhile(lambda index: text.plain_lines[index].strip(), range(entry.index + 1, entry.end)))
            if answer and not any(_FAILED.search(text.plain_lines[index]) for index in answer):
                found.append((answer[-1] + 1, BY_HAND_ELSEWHERE if ELSEWHERE.search(entry.command) else BY_HAND))
    if found:
        last, words = max(found)
        if not any(_FAILED_LATER.search(line) for line in text.plain_lines[last:]):
            yield text.fact(COMPUTED, words, text.quote(last))


PARSERS = (
    Parser(
        name="launches",
        keys=(LAUNCH.name,),
        parse=parse,
        wakes=("Launch", "launch", "invalid configuration", "INVALID_VALUE", "invalid argument"),
    ),
    Parser(
        name="computed",
        keys=(COMPUTED.name,),
        parse=parse_signs,
        wakes=(*LITERALS, "import torch", "import cupy"),
    ),
)
