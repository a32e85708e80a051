"""Driver branches, CUDA toolkits, PTX versions and host compilers: what goes with what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cudadoctor.knowledge.lookup.pages import NoSuchError, either, facts, neighbours, topic
from cudadoctor.model.explanation import Fact, Topic
from cudadoctor.model.version import CudaVersion, ModuleVersion, ToolkitVersion, Version

if TYPE_CHECKING:
    from cudadoctor.knowledge.load import Knowledge
    from cudadoctor.knowledge.tables import Branch, ToolkitInfo

COMPILERS = {"gcc": "gcc", "g++": "gcc", "clang": "clang", "clang++": "clang", "msvc": "msvc", "cl": "msvc", "_msc_ver": "msvc"}


# ---------------------------------------------------------------- driver branches
def driver(version: str, knowledge: Knowledge) -> Topic:
    """By a version, or the first number of one. NoSuchError where the tables hold no such branch."""
    number = ModuleVersion(version)
    row = knowledge.branch(number.major) or _of_windows(number, knowledge)
    if row is None:
        near = neighbours(number.major, (known.branch for known in knowledge.branches))
        raise NoSuchError(f"these tables hold no driver branch {number.major}. Nearest: {either('driver ', near)}")
    gone = [known for known in knowledge.architectures if known.last_driver_branch is not None and known.last_driver_branch < row.branch]
    newer = [known for known in knowledge.architectures if known.first_driver_branch is not None and known.first_driver_branch > row.branch]
    ended = row.eol is not None and row.eol <= knowledge.read_on("driver_branches")
    conditions = {"has-cuda": row.cuda, "dropped-some": gone, "lacks-some": newer, "ended": ended}
    exact, windows = len(number.numbers) > 1, number.major != row.branch
    of_windows = f"{version} is a Windows version: its numbers run on from those of branch {row.branch}." if windows else None
    return topic(
        "driver", f"driver {version if exact else row.branch}",
        f"driver {version}, of branch {row.branch}" if exact else f"driver branch {row.branch}", knowledge,
        facts=_branch_facts(row, number if exact and not windows else None, knowledge),
        sources=knowledge.sources("driver_branches", row.source), note=" ".join(filter(None, (of_windows, row.note))) or None,
        conditions=conditions,
        values={"cuda": row.cuda_text, "dropped": _names(gone), "not_yet": _names(newer), "eol": row.eol},
    )  # fmt: skip


def _branch_facts(row: Branch, number: ModuleVersion | None, knowledge: Knowledge) -> tuple[Fact, ...]:
    """What is known of a branch, and of this version of it where one was asked for."""
    measured = next((known.driver for known in knowledge.smi_versions if known.branch == row.branch), None)
    return facts(
        ("kind", row.type),
        ("newest CUDA that it supports", row.cuda_text),
        ("measured with", measured),
        ("PTX that it compiles", _ptx_of(row, knowledge)),
        ("newest toolkit that needs nothing newer", _newest_toolkit(number, row, knowledge)),
        ("last release", row.last),
        ("end of support", row.eol),
        ("architectures", row.architectures),
        ("the last branch for", row.last_for),
        ("open kernel modules", row.open_modules or None),
        ("Ubuntu", row.ubuntu),
        ("Debian", row.debian),
        ("Debian, NVIDIA's repository", row.debian_nvidia_repo),
        ("Fedora, RPM Fusion", row.fedora_rpmfusion),
        ("openSUSE", row.opensuse),
        ("Arch, AUR", row.arch_aur),
        ("last for Windows", row.windows_last),
        ("last for Windows, notebooks", row.windows_notebooks_last),
        ("uncertain", row.uncertain),
    )


def _names(rows: Iterable[object]) -> str:
    names = [str(getattr(row, "name", row)) for row in rows]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _of_windows(number: ModuleVersion, knowledge: Knowledge) -> Branch | None:
    """Windows versions have two numbers and run on from the branch: 551.78 is of branch 550."""
    below = [row for row in knowledge.branches if row.branch < number.major]
    return below[-1] if len(number.numbers) == 2 and below and number.major < knowledge.newest_branch else None


def _newest_toolkit(number: ModuleVersion | None, row: Branch, knowledge: Knowledge) -> str | None:
    """The newest release of a toolkit that this driver supports in full; for a branch alone: its last release."""
    version = number or (ModuleVersion(row.last) if row.last is not None else None)
    if version is None:
        return None
    fits = [known for known in knowledge.toolkit_releases if ModuleVersion(known.linux_min) <= version]
    return max(fits, key=lambda known: (ModuleVersion(known.linux_min), known.version)).release if fits else None


def _ptx_of(row: Branch, knowledge: Knowledge) -> str | None:
    """The newest PTX that a driver of this CUDA version compiles."""
    info = knowledge.toolkit(ToolkitVersion(row.cuda_text)) if row.cuda_text is not None else None
    return None if info is None else f"up to {info.ptx_isa}"


# ---------------------------------------------------------------- toolkits
def toolkit(version: str, knowledge: Knowledge) -> Topic:
    """By its version ("12.4"). NoSuchError where there is no such toolkit."""
    wanted = ToolkitVersion(version)
    row = knowledge.toolkit(wanted)
    if row is None:
        raise NoSuchError(_no_toolkit(version, knowledge))
    minimum, of_windows = knowledge.driver_minimum(row.version), knowledge.driver_minimum(row.version, windows=True)
    full, minor, there = (None if known is None else str(known) for known in (minimum.full, minimum.minor, of_windows.full))
    releases = [known for known in knowledge.toolkit_releases if known.version.major_minor == row.version.major_minor]
    packaged = [f"{known.distro} {known.release} ({known.package})" for known in knowledge.distro_toolkits if known.toolkit == row.version]
    reported = [str(known.branch) for known in knowledge.branches if known.cuda == CudaVersion(row.cuda)]
    lines = facts(
        ("compiles for compute capabilities", row.compute_capabilities),
        ("Linux driver with which everything works", full),
        ("Linux driver from which on machine code runs", minor),
        ("Windows driver with which everything works", there),
        ("Linux driver by release", tuple(f"{known.release}: {known.linux_min}" for known in releases)),
        ("driver branches that report this CUDA", tuple(reported)),
        ("newest PTX that it writes", row.ptx_isa),
        ("newest gcc", row.gcc_max),
        ("newest clang", row.clang_max),
        ("MSVC, _MSC_VER", f"{row.msc_ver_min} to below {row.msc_ver_below}" if row.msc_ver_min is not None else None),
        ("packaged by", tuple(packaged)),
        ("read from", row.wheel),
    )
    conditions = {"has-driver": full is not None and minor is not None, "has-full-driver": full is not None and minor is None}
    rests_on = knowledge.sources_of("cuda_driver_compat", (row, *releases))
    return topic(
        "toolkit", f"toolkit {row.cuda}", f"CUDA toolkit {row.cuda}", knowledge, facts=lines, sources=rests_on, note=row.note,
        conditions=conditions,
        values={"full_driver": full, "minor_driver": minor, "cc_min": row.cc_min_text, "cc_max": row.cc_max_text, "gcc_max": row.gcc_max},
    )  # fmt: skip


def _no_toolkit(version: str, knowledge: Knowledge) -> str:
    near = neighbours(ToolkitVersion(version), (known.version for known in knowledge.toolkits))
    reported = [known.branch for known in knowledge.branches if known.cuda == CudaVersion(version)]
    driver_says = f" (drivers of branch {_names(reported)} report this CUDA: `driver {reported[-1]}`)" if reported else ""
    return f"these tables hold no CUDA toolkit {version}{driver_says}. Nearest: {either('toolkit ', near)}"


def toolkit_series(major: str, knowledge: Knowledge) -> Topic:
    """NoSuchError: a toolkit without its second number is none."""
    minors = [str(row.version) for row in knowledge.toolkits if row.version.major == int(major)]
    if not minors:
        raise NoSuchError(_no_toolkit(f"{major}.0", knowledge))
    raise NoSuchError(f"which toolkit {major}? Ask for one of {', '.join(minors)}: `cudadoctor explain 'toolkit {minors[-1]}'`")


# ---------------------------------------------------------------- PTX
def ptx(version: str, knowledge: Knowledge) -> Topic:
    """By its version ("8.5"). NoSuchError where no toolkit writes it."""
    wanted = Version(version)
    rows = [row for row in knowledge.toolkits if Version(row.ptx_isa) == wanted]
    if not rows:
        near = neighbours(wanted.numbers, {Version(row.ptx_isa).numbers for row in knowledge.toolkits})
        names = (".".join(map(str, numbers)) for numbers in near)
        raise NoSuchError(f"no toolkit in these tables has PTX {version} as its newest. Nearest: {either('ptx ', names)}")
    first = rows[0]
    branches = [row for row in knowledge.branches if row.cuda is not None and row.cuda.numbers >= first.version.numbers]
    lines = facts(
        ("toolkits whose newest it is", tuple(row.cuda for row in rows)),
        (
            "driver branches that compile it",
            f"from {branches[0].branch} on (CUDA {branches[0].cuda})" if branches else "none in these tables",
        ),
        ("newest GPUs it can name", first.cc_max_text),
    )
    rests_on = knowledge.sources_of("cuda_driver_compat", rows)
    return topic(
        "ptx", f"ptx {version}", f"PTX {version}", knowledge, facts=lines, sources=rests_on,
        conditions={"known-drivers": True}, values={"cuda": first.cuda},
    )  # fmt: skip


# ---------------------------------------------------------------- host compilers
def compiler(name: str, version: str, knowledge: Knowledge) -> Topic:
    """By name and version ("gcc", "13"). MSVC is asked for by _MSC_VER, or by cl's version 19.40."""
    kind = COMPILERS[name]
    number = _msc_ver(version) if kind == "msvc" else int(version.split(".")[0])
    stated = [row for row in knowledge.toolkits if kind != "msvc" or row.msc_ver_min is not None]
    takes = [row for row in stated if _accepts(row, kind, number)]
    refuses = [row for row in stated if row not in takes]
    older = [row for row in refuses if takes and row.version < takes[0].version]
    with_it = [row for row in knowledge.distro_toolkits if kind == "gcc" and row.gcc == str(number)]
    packaged = [f"{row.distro} {row.release}: CUDA {row.cuda} with gcc {row.gcc}" for row in with_it]
    lines = facts(
        ("accepted by CUDA", _span(takes) or "none in these tables"),
        ("refused by CUDA", _span(refuses)),
        ("newest for each CUDA", tuple(f"{row.cuda}: {_limit(row, kind)}" for row in stated)),
        ("brought by a distribution's CUDA package", tuple(packaged)),
    )
    label = f"_MSC_VER {number}" if kind == "msvc" else f"{kind} {number}"
    conditions = {"some-refuse": bool(takes and older), "none-accepts": not takes}
    rests_on = knowledge.sources_of("cuda_driver_compat", stated)
    return topic(
        "compiler", f"{kind} {number}", f"{label}, a host compiler", knowledge, facts=lines, sources=rests_on,
        conditions=conditions,
        values={"refused_by": _span(older or refuses), "newest_cuda": str(knowledge.toolkits[-1].version)},
    )  # fmt: skip


def _msc_ver(version: str) -> int:
    """1940 of "1940", of cl's "19.40", and of a Visual Studio toolset's "14.40"."""
    numbers = [int(part) for part in version.split(".")]
    if len(numbers) == 1:
        return numbers[0]
    return (1900 if numbers[0] in (14, 19) else 100 * numbers[0]) + numbers[1]


def _accepts(row: ToolkitInfo, kind: str, number: int) -> bool:
    if kind == "msvc":
        return row.msc_ver_min is not None and row.msc_ver_min <= number < (row.msc_ver_below or 0)
    return number <= (row.gcc_max if kind == "gcc" else Version(row.clang_max).major)


def _limit(row: ToolkitInfo, kind: str) -> str:
    return f"below {row.msc_ver_below}" if kind == "msvc" else str(row.gcc_max if kind == "gcc" else row.clang_max)


def _span(rows: list[ToolkitInfo]) -> str:
    return "" if not rows else rows[0].cuda if len(rows) == 1 else f"{rows[0].cuda} to {rows[-1].cuda}"
