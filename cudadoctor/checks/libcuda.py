"""Row libcuda: the driver's CUDA library, which file was loaded, and whether cuInit accepts it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from cudadoctor.checks import withheld
from cudadoctor.checks.base import Check, Line, Rule
from cudadoctor.checks.common import NOT_THERE, UNUSABLE, any_of, plural, rung_quote, spoken, variables_of, without_places
from cudadoctor.checks.reading import broken, module_named, passed
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Fact, Facts, Quote
from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import DRIVER_FILES, ENVIRONMENT, LADDER, LIBRARIES, LOADED_DRIVER, NVML, SMI, TEGRA, Ladder

MISSING, STUB = "libcuda-missing", "libcuda-stub-loaded"
MANAGER, MANAGERS_MODULE = "vgpu-manager-without-cuda", "nvidia_vgpu_vfio"
INCOMPLETE, COMPAT = "driver-libraries-incomplete", "forward-compat-unsupported"
STUB_LIBRARY = 34
MISMATCH, NOT_ON_DEVICE = 803, 804
NVML_LIBRARY_NOT_FOUND = 12
_NOT_FOUND = lazy(rf"(lib\S{{1,200}}): {NOT_THERE}")
# Windows' loader gives the number; its words are in the user's language. 126, a missing file, has words of Python's.
_REFUSED_DLL = lazy(r"\[WinError (?:127|193|1114)\]")
_UNREADABLE = lazy(rf"(?<!\S)\S{{0,200}}?lib\S{{1,200}}?: (?:{UNUSABLE})")
_STUBS = lazy(r"/stubs(?:/|$)")
_COMPAT = lazy(r"/(?:compat|cuda-compat[^/]*)(?:/|$)")


def _climb(facts: Facts) -> tuple[Fact[Ladder], Ladder]:
    found = facts[LADDER]
    if found.value is None:
        raise LADDER.unknown("nothing tried to load libcuda")
    return found, found.value


# ---------------------------------------------------------------- not there, or not loadable
def _loader_refused(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The loader's own words: the library is nowhere, or it is there and cannot be used."""
    fact, ladder = _climb(facts)
    for result in broken(ladder, "libcuda"):
        quote = rung_quote(fact, result)
        unusable = _UNREADABLE.search(result.output) or _REFUSED_DLL.search(result.output)
        missing = _NOT_FOUND.search(result.output)
        if unusable is None and missing is not None and missing[1].startswith("libcuda.so"):
            yield _nowhere(facts, quote)
        elif unusable is not None or missing is not None:  # also where libcuda itself was found, and a library that it needs was not
            yield Clue(cause=INCOMPLETE, quotes=(quote,), from_rung="libcuda")


def _not_the_drivers(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """What bears libcuda's name lacks its functions: another library, or a link to one."""
    fact, ladder = _climb(facts)
    for result in broken(ladder, "init"):
        if "libcuda has no function" in result.output:
            yield Clue(cause=INCOMPLETE, quotes=(rung_quote(fact, result), *_loaded(ladder)), from_rung="init")


def _nowhere(facts: Facts, quote: Quote) -> Clue:
    """libcuda-missing; where a copy lies outside the loader's path, its place is worth saying."""
    for key in (DRIVER_FILES, LIBRARIES):
        found = facts.there(key)
        if found is None:
            continue
        copies = [file for file in found.need().find("libcuda.so") if not _STUBS.search(file.path) and not _COMPAT.search(file.path)]
        if copies:
            copy = min(copies, key=lambda file: file.foreign is None)  # one for another machine says why it is not taken
            cause, quotes = INCOMPLETE if copy.foreign is not None else MISSING, (quote, *found.line_of(copy.line))
            return Clue(cause=cause, quotes=quotes, from_rung="libcuda", values={"path": copy.path})
    return Clue(cause=MISSING, quotes=(quote,), from_rung="libcuda")


def _for_guests_only(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """The loader finds no libcuda, and the driver that runs is the one for hosts of virtual machines, which brings none."""
    fact, ladder = _climb(facts)
    for result in broken(ladder, "libcuda")[:1]:
        module = module_named(facts, MANAGERS_MODULE)
        if module and _NOT_FOUND.search(result.output):
            yield Clue(cause=MANAGER, quotes=(rung_quote(fact, result), *module), from_rung="libcuda")


def _nvml_not_found(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """CUDA works and libnvidia-ml is not found: a part of the driver is missing, unless a container was given no utilities."""
    nvml, ladder = facts[NVML], facts[LADDER]
    absent = nvml.value is None or nvml.value.code == NVML_LIBRARY_NOT_FOUND
    if not absent or ladder.value is None or not passed(ladder.value, "devices"):
        return
    if facts[TEGRA].value:
        return  # older JetPack has no NVML, by design
    given = variables_of(facts[ENVIRONMENT]).get("NVIDIA_DRIVER_CAPABILITIES")
    if given is not None and not {"utility", "all"} & set(given.replace(" ", "").split(",")):
        return
    works = tuple(rung_quote(ladder, result) for result in ladder.value.result("devices")[:1])
    yield Clue(cause=INCOMPLETE, quotes=(*nvml.some()[:1], *works))


# ---------------------------------------------------------------- the wrong file
def _stub(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """A toolkit's stub, by the path of what was loaded or by what it answers itself."""
    fact, ladder = _climb(facts)
    failed = broken(ladder, "numba-kernel")
    numbas = ladder.numba.components.get("libcuda") if ladder.numba is not None and failed else None  # it loads libcuda.so, not .so.1
    path = next((path for path in (ladder.library_path, numbas) if path is not None and _STUBS.search(path)), None)
    answers = [result for result in broken(ladder, "init") if result.code == STUB_LIBRARY]
    if path is None and not answers:
        return
    shown = answers or (failed if path == numbas else [])
    quotes = (*(rung_quote(fact, result) for result in shown[:1]), *_loaded(ladder))
    values = {"path": path} if path is not None else {}
    found = Clue(cause=STUB, quotes=quotes, from_rung="init" if path != numbas else "numba-kernel", values=values)
    yield _from_cache(facts, _with_library_path(facts, found, _STUBS))


def _from_cache(facts: Facts, clue: Clue) -> Clue:
    """The same, where no variable is seen to lead the loader there but the cache of its own configuration."""
    cache, path = facts.there(LIBRARIES), clue.values.get("path")
    if cache is None or facts.there(ENVIRONMENT) is None or "kept" in clue.values:
        return clue
    entry = next((file for file in cache.need().files if file.path == path), None)
    if entry is None:
        return clue
    return msgspec.structs.replace(clue, quotes=(*clue.quotes, *cache.line_of(entry.line)), values={**clue.values, "cached": "yes"})


def _loaded(ladder: Ladder) -> tuple[Quote, ...]:
    """Which file the loader took."""
    line = next((result.line for result in ladder.result("libcuda")), 0)
    return (spoken("libcuda", line, f"loaded {ladder.library_path}"),) if ladder.library_path is not None else ()


def _with_library_path(facts: Facts, clue: Clue, folder: re.Pattern[str]) -> Clue:
    """The clue with LD_LIBRARY_PATH, where that is what leads the loader to such a folder."""
    values, quotes = without_places(facts, "LD_LIBRARY_PATH", lambda place: folder.search(place) is not None)
    return msgspec.structs.replace(clue, quotes=(*clue.quotes, *quotes), values={**clue.values, **values})


def _compat(facts: Facts, knowledge: Knowledge) -> Iterator[Clue]:
    """cuInit refuses the pair of driver and library, and the library is that of a cuda-compat package."""
    fact, ladder = _climb(facts)
    refused = [result for result in broken(ladder, "init") if result.code in (MISMATCH, NOT_ON_DEVICE)]
    if not refused:
        return
    quote = rung_quote(fact, refused[0])
    if ladder.library_path is not None and _COMPAT.search(ladder.library_path):
        clue = Clue(cause=COMPAT, quotes=(quote, *_loaded(ladder)), from_rung="init", values={"path": ladder.library_path})
        yield _with_library_path(facts, clue, _COMPAT)
    else:
        yield from _above_the_branch(facts, knowledge, quote)


def _above_the_branch(facts: Facts, knowledge: Knowledge, quote: Quote) -> Iterator[Clue]:
    """nvidia-smi shows a newer CUDA than the loaded module's branch carries: only a compat library can say so."""
    driver, smi = facts[LOADED_DRIVER], facts[SMI]
    if driver.value is None or smi.value is None or smi.value.cuda is None:
        return
    branch = knowledge.branch(driver.value.version.major)
    if branch is not None and branch.cuda is not None and smi.value.cuda > branch.cuda:
        yield Clue(cause=COMPAT, quotes=(quote, *smi.lines_with(smi.value.cuda.text)[:1], *driver.some()[:1]), from_rung="init")


# ---------------------------------------------------------------- the row's line
def _describe(facts: Facts, knowledge: Knowledge) -> Line:
    fact, ladder = _climb(facts)
    refused = broken(ladder, "libcuda")
    if refused:
        output = refused[0].output.strip()
        library = "nvcuda.dll" if "nvcuda" in output or _REFUSED_DLL.search(output) else "libcuda.so.1"
        return Line(f"{library} cannot be loaded: {output or refused[0].status}"[:200], (rung_quote(fact, refused[0]),))
    name = f"libcuda {ladder.library}" if ladder.library is not None else "libcuda"
    where = f" ({ladder.library_path})" if ladder.library_path else ""
    for result in broken(ladder, "init", "devices"):
        call = "cuInit" if result.rung == "init" else "counting devices"
        answer = f"{result.name or 'code'} ({result.code})" if result.code is not None else result.why or result.status
        return Line(f"{name}{where}: {call} ends with {answer}", (rung_quote(fact, result),))
    if not passed(ladder, "init"):
        raise LADDER.unknown("cuInit was not reached")
    cuda = f", CUDA {ladder.cuda}" if ladder.cuda is not None else ""
    quotes = tuple(rung_quote(fact, result) for result in ladder.result("devices")[:1])
    return Line(f"{name}{where}{cuda}: cuInit finds {plural(len(ladder.devices), 'GPU')}", quotes)


CHECK = Check(
    id="libcuda",
    title="CUDA driver library",
    looks_at="the libcuda that the loader finds, cuInit and the number of devices",
    items=(
        "ladder", "ldconfig", "driver-libraries", "modules", "nvml", "limits", "control-group", "control-group-after", "kernel-interface",
    ),
    rules=(
        Rule("libcuda", (MISSING, INCOMPLETE), any_of(_loader_refused, _not_the_drivers, _nvml_not_found)),
        Rule("libcuda", (MANAGER,), _for_guests_only),
        Rule("libcuda", (STUB,), _stub),
        Rule("libcuda", (COMPAT,), _compat),
        *withheld.RULES,
    ),
    describe=_describe,
)  # fmt: skip
