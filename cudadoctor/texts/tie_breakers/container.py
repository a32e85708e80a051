"""Ties about a container's start and what was passed in: the image's demand, the parts of the driver, the rules of its cgroup."""

from __future__ import annotations

from collections.abc import Iterator

from cudadoctor.model.findings import Clue
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SMI, TEGRA
from cudadoctor.model.version import CudaVersion
from cudadoctor.texts.tie_breakers.case import Case, codes, finding, joined, states, suspects
from cudadoctor.texts.tie_breakers.taken_back import OF_PLUGIN

TOO_NEW, HOOK, TOOLKIT = "container-cuda-too-new", "container-hook-failed", "container-toolkit-missing"
CAPABILITIES, LIBCUDA = "container-driver-capabilities", "libcuda-missing"
NO_ACCESS, LOST = "container-no-gpu-access", "container-lost-devices"
MISCONFIGURED, STALE = "container-toolkit-misconfigured", "cdi-specification-stale"
_REQUIRED = lazy(r"cuda ?>= ?(?P<version>\d{1,2}\.\d)")
_ALTERNATIVE = lazy(r"driver>=(?P<first>\d{3})(?:\.\d+)*,driver<(?P<end>\d{3})")
_L4T = lazy(r"# R(?P<major>\d{2}) \(release\), REVISION: (?P<minor>\d\.\d)")
_MADE_FOR = lazy(r"(?:^|[\s/])(?P<name>[a-z0-9][\w.-]{1,60}):(?:[\w.]{1,20}-){0,4}r(?P<major>\d{2})\.\d")
_VIDEO = lazy(r"libnvcuvid\.so|libnvidia-encode\.so")
_NO_DEVICE = codes("cuda 100", words=r"No CUDA GPUs are available|No devices (?:were )?found")
_INSUFFICIENT = codes("cuda 35")
_UNKNOWN_ERROR = codes("nvml 999", words=r"initialize NVML: Unknown Error")
_UNRESOLVABLE = lazy(r"unresolvable CDI devices [^\n]{1,80}=all\b|stat nvidia\.com/gpu=all|custom device \"nvidia\.com/gpu=all")
_UNRESOLVABLE_ONE = lazy(r"(?:unresolvable CDI devices |(?:stat |custom device \")nvidia\.com/gpu=)(?![\w./-]{0,60}=?all\b)")


def demand_of_the_image(case: Case) -> Iterator[Clue]:
    """A container does not start, its image asks for a CUDA release, and a table shows a driver that has an older one."""
    lines = case.stated(HOOK) or case.suspected(HOOK, TOOLKIT)
    shown = case.says("requires-cuda")
    demand = _REQUIRED.search(shown[0].text) if shown else None
    if not lines or demand is None:
        return
    wanted = CudaVersion(demand["version"])
    tables = [fact for fact in case.facts.all(SMI) if fact.value is not None and fact.value.cuda is not None and fact.value.cuda < wanted]
    module = tables[0].need().module if tables else None
    # The image may name the driver's branch beside its demand: those of data centres run with it.
    branches = [(int(one["first"]), int(one["end"])) for one in _ALTERNATIVE.finditer(shown[0].text)]
    if tables and not (module is not None and any(first <= module.major < end for first, end in branches)):
        yield finding(TOO_NEW, shown, tables[0].some()[:1], lines, version=wanted.text)


def image_for_a_later_board(case: Case) -> Iterator[Clue]:
    """A container of a Jetson has its CUDA from an image that was made for one major release of L4T, and the board runs an earlier one.

    https://github.com/dusty-nv/jetson-containers (docs/run.md): the tag names the release, r36.2.0
    """
    board = case.facts.there(TEGRA)
    release = _L4T.search(board.quotes[0].text) if board is not None and board.quotes else None
    if board is None or release is None or case.settled:
        return
    for start in case.setting.containers:
        image = next((found for quote in case.shown(start.line) if (found := _MADE_FOR.search(quote.text)) is not None), None)
        if image is not None and int(image["major"]) > int(release["major"]):
            values = {"l4t": f"R{release['major']}.{release['minor']}", "l4t_major": release["major"], "image": image["name"]}
            yield finding(TOO_NEW, case.shown(start.line), board.some()[:1], values=values)
            return


def two_specifications(case: Case) -> Iterator[Clue]:
    """The engine finds no device, and a second specification lies beside the toolkit's own: of one priority, neither counts."""
    lines = case.stated(TOOLKIT, words=_UNRESOLVABLE) or case.stated(TOOLKIT, words=_UNRESOLVABLE_ONE)
    second = case.says("second-cdi-spec")
    if lines and second:
        yield finding(STALE, lines, second, values={"second_spec": f"/etc/cdi/{second[0].text.split()[-1]}"})


TIES = (
    demand_of_the_image,
    two_specifications,
    image_for_a_later_board,
    # libcuda is not found, and NVIDIA_DRIVER_CAPABILITIES asks for other parts of the driver than compute.
    joined(CAPABILITIES, states(LIBCUDA), suspects(LIBCUDA), beside=("no-compute",)),
    # A library for video is not found, and it asks for no part of the driver that holds one.
    joined(CAPABILITIES, suspects(CAPABILITIES, words=_VIDEO), beside=("no-video",)),
    # NVIDIA_VISIBLE_DEVICES lets no GPU in, and the program finds a driver that is too old, which is none at all.
    joined(NO_ACCESS, suspects(LIBCUDA, words=_INSUFFICIENT), beside=("void",), only_if=("in container",)),
    # A container that was given a GPU finds none, and the device rules of its cgroup let no device of NVIDIA's through.
    joined(LOST, suspects(NO_ACCESS, words=_NO_DEVICE), beside=("no-gpu-rule", ("gpu-asked", "bare-nodes")), unsettled=True),
    # The driver's control node is refused in a container, and the toolkit was told to leave its device rules alone.
    joined(MISCONFIGURED, suspects(LOST, words=_UNKNOWN_ERROR), beside=("no-cgroups",), unless=("rootless-engine",), setting="no-cgroups"),
    # The engine finds no device of that name, and the specification is there: it lists others, where one is asked for by its own name.
    joined(STALE, states(TOOLKIT, words=_UNRESOLVABLE_ONE), beside=(("cdi-devices", "cdi-file"),), unless=("second-cdi-spec",)),
    # Where all are asked for it lies in a folder that is not read.
    joined(MISCONFIGURED, states(TOOLKIT, words=_UNRESOLVABLE), beside=(("cdi-devices", "cdi-file"),), setting="cdi-spec-dirs"),
    # The same, where K3s or RKE2 has the runtime and its class, and does not make it the default: the plugin has to ask for it.
    joined(
        MISCONFIGURED,
        suspects(TOOLKIT, words=OF_PLUGIN),
        states(TOOLKIT, words=OF_PLUGIN),
        beside=("k3s", "nvidia-runtime-named"),
        unless=("nvidia-is-default",),
        setting="runtime-class",
    ),
    # The device plugin finds no driver in its own container, and the engine starts all by NVIDIA's runtime: this one was started else.
    joined(NO_ACCESS, suspects(TOOLKIT, words=OF_PLUGIN), beside=("nvidia-is-default",), unsettled=True, basis="suspected"),
)
