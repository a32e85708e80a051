"""Which driver fits these GPUs on this distribution: need and release to packages and their origin. Names come from the tables.

The newest production branch that drives every GPU is taken: a branch of short life (NVIDIA's new features) only where no other does.
Open kernel modules are taken where every GPU supports them (Turing and later), and never for older GPUs.
Each function of BY_FAMILY gives None where no package of that distribution is known to fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.tables import Branch
from cudadoctor.model.pattern import lazy
from cudadoctor.prescribe.distribution import Distribution
from cudadoctor.prescribe.gpus import Driver, Need, branch_words, by_generation, flavour_words, in_words, said, said_of, stream_of

Choice = Callable[[Need, Distribution, Knowledge, bool], Driver | None]
OPEN_FOR_ALL_FROM = 550  # before it the open modules refuse GeForce cards unless a module option says otherwise
UBUNTU_DRIVER = lazy(r"nvidia-(?:driver|(?P<headless>headless))-(?P<branch>\d+)(?P<server>-server)?(?P<open>-open)?$")
_DEBIAN = lazy(r"(?P<package>[a-z0-9.+-]{1,80})(?: \d[\w.]{0,40})? \((?P<releases>[^);]{0,200})")
_SUSE_GROUP = lazy(r"G0\d")
# The oldest branch among the module streams of NVIDIA's repositories, by their folder.
_OLDEST_STREAM = {"rhel8": 418, "rhel9": 515, "amzn2023": 550}
_LOCKED_FROM = 580  # what NVIDIA's repositories without streams hold
ELSEWHERE = (
    "NVIDIA's own repository (https://developer.download.nvidia.com/compute/cuda/repos/) "
    "or installer (https://www.nvidia.com/drivers) has it"
)
LAST_OF_OLD = 470  # no repository of NVIDIA's for a present release goes back so far
OLD_ELSEWHERE = "NVIDIA's installer of that branch (https://www.nvidia.com/drivers) may not build for a new kernel"
OLD_FOR_RHEL = "the repository ELRepo (https://elrepo.org) has kmod-nvidia-{}xx for RHEL 8 and 9"


def _packaged(
    packages: tuple[str, ...], branch: int | None, need: Need, extra: str = "", *, origin: str = "archive", stream: str | None = None
) -> Driver:
    return Driver(words=said(packages, branch, need, extra), branch=branch, packages=packages, origin=origin, stream=stream)


def _newest(rows: Iterable[Branch]) -> Branch | None:
    return max(rows, key=lambda row: row.branch, default=None)


# ---------------------------------------------------------------- Ubuntu
def _ubuntu(need: Need, system: Distribution, knowledge: Knowledge, headless: bool) -> Driver | None:
    rows = knowledge.ubuntu_packages(system.codename or "")
    # Pop's own package takes whichever flavour is installed (https://github.com/pop-os/system76-driver, debian/control).
    if system.id == "pop" and need.high is None and not need.refused:  # https://support.system76.com/articles/system76-driver/
        return _packaged(("system76-driver-nvidia",), None, need, ", Pop!_OS's own")
    if not rows:
        end = "-open" if need.flavour == "open" else ""
        number = str(need.high) if need.high is not None else "NNN"
        words = f"nvidia-driver-{number}{end}{said_of(need, knowledge)}; `ubuntu-drivers list` names what {system.named} has"
        return Driver(words=words, origin="tool")
    fitting = [(row, found) for row in rows if (found := UBUNTU_DRIVER.match(row.package)) is not None and suits(found, need)]
    if not fitting:
        return None
    row, found = max(fitting, key=lambda entry: (entry[0].support != "NFB", int(entry[1]["branch"]), bool(entry[1]["server"]) == headless))
    branch = int(found["branch"])
    missed = f"; branch {need.high} is not packaged in {system.named}" if need.high not in (None, branch) else ""
    end = row.package.removeprefix("nvidia-driver-")
    packages = (f"nvidia-headless-{end}", f"nvidia-utils-{end.removesuffix('-open')}") if headless else (row.package,)
    return _packaged(packages, branch, need, missed + ("; it is in the component multiverse" if row.component == "multiverse" else ""))


def suits(found: re.Match[str], need: Need) -> bool:
    return need.fits(int(found["branch"])) and bool(found["open"]) == (need.flavour == "open")


def resolved(package: str, codename: str | None, knowledge: Knowledge) -> str:
    """What one really gets: Ubuntu's old package names only pull a newer branch."""
    rows = (row for row in knowledge.ubuntu_transitional if row.release == codename and row.package == package)
    return next((row.ends_at for row in rows), package)


# ---------------------------------------------------------------- Debian
def _debian(need: Need, system: Distribution, knowledge: Knowledge, headless: bool) -> Driver | None:
    listed = [(row.branch, name) for row in knowledge.branches for name in debian_names(row, system.codename)]
    drivers = [(branch, name) for branch, name in listed if name.endswith("driver") and need.fits(branch)]
    if not drivers:
        return _nvidia_for_debian(need, system, headless)
    branch, package = max(drivers, key=lambda entry: (entry[0], entry[1] == "nvidia-driver"))
    wants_open = need.flavour == "open" and branch >= OPEN_FOR_ALL_FROM and (branch, "nvidia-open-kernel-dkms") in listed
    kernel = "nvidia-open-kernel-dkms" if wants_open else f"{package.removesuffix('driver')}kernel-dkms"
    first = (kernel,) if headless else (package, kernel) if wants_open else (package,)
    packages = (*first, *debian_libraries(package))
    # Where the archive has no open modules that serve all cards, nothing is said of them.
    stated = need if wants_open or need.flavour != "open" else msgspec.structs.replace(need, flavour=None)
    return _packaged(packages, branch, stated, "; components contrib and non-free")


def debian_libraries(package: str) -> tuple[str, str]:
    """libcuda and nvidia-smi that belong to a driver package of Debian's: the driver itself does not ask for them."""
    prefix = package.removesuffix("-driver")
    library = "libcuda1" if prefix == "nvidia" else f"lib{prefix}-cuda1"
    return library, f"{prefix}-smi"


def newest_of_debian(codename: str | None, knowledge: Knowledge) -> int | None:
    """The newest branch that this release of Debian has."""
    return max((row.branch for row in knowledge.branches if any(debian_names(row, codename))), default=None)


def debian_names(row: Branch, codename: str | None) -> Iterable[str]:
    for entry in row.debian:
        found = _DEBIAN.match(entry)
        if found is not None and codename in [word.strip() for word in found["releases"].split(",")]:
            yield found["package"]


def _nvidia_for_debian(need: Need, system: Distribution, headless: bool) -> Driver | None:
    """NVIDIA's repository has current branches alone."""
    folder = {"bookworm": "debian12", "trixie": "debian13"}.get(system.codename or "")
    if folder is None or need.high is not None or need.flavour != "open":
        return None
    packages = ("nvidia-driver-cuda", "nvidia-kernel-open-dkms") if headless else ("nvidia-open",)
    extra = ", from NVIDIA's repository, for Debian's own branch is older than what is needed here"
    return _packaged(packages, None, need, extra, origin="nvidia", stream=folder)


# Packages that one repository alone has, and not the distribution: of them that is installed, it is set up. negativo17's have other names.
# Source: https://rpmfusion.org/Howto/NVIDIA, https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/
_OF_NVIDIA = ("cuda-drivers", "nvidia-open")
OF_REPOSITORY = {
    "debian": _OF_NVIDIA, "ubuntu": _OF_NVIDIA, "fedora": ("xorg-x11-drv-nvidia", "xorg-x11-drv-nvidia-cuda"),
    "rhel": ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms", *_OF_NVIDIA),
}  # fmt: skip


def _pinned(need: Need) -> Driver | None:
    """Where the driver is from NVIDIA's repository it stays from there: a package of another source is mixed with the rest of it."""
    if need.high is not None and need.high < _LOCKED_FROM:
        return None
    packages = ("nvidia-open",) if need.flavour == "open" else ("cuda-drivers",)
    extra = ", from NVIDIA's repository"
    if need.high is None:
        return _packaged(packages, None, need, extra)
    return _packaged(packages, need.high, need, extra, origin="pinned", stream=f"nvidia-driver-pinning-{need.high}")


# ---------------------------------------------------------------- Fedora, RHEL
def _fedora(need: Need, system: Distribution, knowledge: Knowledge, headless: bool) -> Driver | None:
    current = next((row for row in knowledge.branches if any("current" in name for name in row.fedora_rpmfusion)), None)
    row = _newest(row for row in knowledge.branches if row.fedora_rpmfusion and need.fits(row.branch))
    if need.high is None and current is not None and need.fits(current.branch):
        row = current
    if row is None:
        return None
    if system.ready_image is not None:
        return _image(need, system.ready_image) if row.branch >= 580 else Driver(words=_NO_IMAGE.format(row.branch))
    packages = tuple(name.split(" ")[0] for name in row.fedora_rpmfusion)
    return _packaged(packages, row.branch, need, ", from RPM Fusion")


_NO_IMAGE = (
    "branch {0}, which no image of Universal Blue has, nor can it be layered there, for Fedora has no headers of that kernel: "
    "Fedora itself has akmod-nvidia-{0}xx, from RPM Fusion"
)


def _image(need: Need, plain: str) -> Driver:
    """Universal Blue's systems have the driver in images that stand beside the plain one. Tag and desktop stay as they are."""
    place, colon, tag = plain.partition("@")[0].rpartition(":")
    stream = f"{place}-nvidia{'-open' if need.flavour == 'open' else ''}{colon}{tag}"
    words = f"the image {stream.rpartition('/')[2].partition(':')[0]}{flavour_words(need)}"
    return Driver(words=words, origin="image", stream=stream)


def _rhel(need: Need, system: Distribution, knowledge: Knowledge, headless: bool) -> Driver | None:
    folder = system.repository
    if folder is None and system.version is not None:
        return None
    open_ = need.flavour == "open"
    compute = ("nvidia-driver-cuda", "kmod-nvidia-open-dkms" if open_ else "kmod-nvidia-latest-dkms")
    if folder not in (None, *_OLDEST_STREAM):  # no module streams: RHEL 10 and its like
        return _without_streams(need, compute if headless else (), ", from NVIDIA's repository")
    if need.high is not None and need.high < _OLDEST_STREAM.get(folder or "", 418):
        return None
    stream = f"nvidia-driver:{stream_of(need)}"
    parts = compute if headless and (need.high is None or need.high >= _LOCKED_FROM) else ()
    extra = ", from NVIDIA's repository" + ("" if folder is not None else "; RHEL 10 has no streams: there the package nvidia-open")
    words = said((stream, *parts), need.high, need, extra)
    return Driver(words=words, branch=need.high, packages=parts, origin="parts" if parts else "stream", stream=stream)


def _without_streams(need: Need, compute: tuple[str, ...], extra: str) -> Driver | None:
    open_ = need.flavour == "open"
    if need.high is None:
        packages = compute or (("nvidia-open",) if open_ else ("cuda-drivers",))
        return _packaged(packages, None, need, extra)
    if need.high < _LOCKED_FROM:
        return None
    packages = compute or ("nvidia-driver", "nvidia-driver-cuda", "kmod-nvidia-latest-dkms")
    return _packaged(packages, need.high, need, extra, origin="lock", stream=f"*nvidia*{need.high}*")


# ---------------------------------------------------------------- Arch, SUSE
def _arch(need: Need, system: Distribution, knowledge: Knowledge, headless: bool) -> Driver | None:
    if need.high is None and need.flavour == "open":
        return _packaged(("nvidia-open-dkms", "nvidia-utils"), None, need)
    row = _newest(row for row in knowledge.branches if row.arch_aur and need.fits(row.branch))
    if row is None:
        return None
    if system.older_drivers is not None and row.branch >= system.older_drivers:
        return _packaged(row.arch_aur, row.branch, need)
    return _packaged(row.arch_aur, row.branch, need, ", from the AUR", origin="aur")


def _suse(need: Need, system: Distribution, knowledge: Knowledge, headless: bool) -> Driver | None:
    newest = 580 if system.major == "15" else 10**6  # Leap and SLES 15 stay with the group G06
    row = _newest(row for row in knowledge.branches if row.opensuse and need.fits(row.branch) and row.branch <= newest)
    group = _SUSE_GROUP.search(" ".join(row.opensuse)) if row is not None else None
    if row is None or group is None:
        return None
    packages = suse_driver(group[0], open_modules=need.flavour == "open", headless=headless)
    return _packaged(packages, row.branch, need, ", from NVIDIA's repository for SUSE")


def suse_driver(group: str, *, open_modules: bool, headless: bool = False) -> tuple[str, ...]:
    """Kernel modules and tools of one of SUSE's groups (G06: branches 550 to 580)."""
    if group in ("G04", "G05"):
        return (f"x11-video-nvidia{group}", f"nvidia-compute{group}")
    kernel = f"nvidia-open-driver-{group}-signed-kmp-meta" if open_modules else f"nvidia-driver-{group}-kmp-meta"
    screen = () if headless else (f"nvidia-video-{group}",)
    return (kernel, *screen, f"nvidia-compute-utils-{group}")


def suse_parts(group: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The packages with libcuda and with nvidia-smi. Source: NVIDIA/zypper-packaging-nvidia-driver, x11-video-nvidiaG05.spec."""
    old = (f"nvidia-compute{group}",)
    return (old, old) if group in ("G04", "G05") else ((f"nvidia-compute-{group}",), (f"nvidia-compute-utils-{group}",))


def suse_group(branch: int | None) -> str:
    """The group that a branch belongs to; the newest where the branch is not known."""
    if branch is None or branch >= 590:
        return "G07"
    return "G06" if branch >= 500 else "G05" if branch >= 470 else "G04"


# ---------------------------------------------------------------- NixOS, Windows
def nixos_lines(need: Need) -> tuple[str, ...]:
    attribute = "production" if need.high is None else f"legacy_{need.high}"
    lines = [
        "nixpkgs.config.allowUnfree = true;",
        'services.xserver.videoDrivers = [ "nvidia" ];',
        "hardware.graphics.enable = true;",
        f"hardware.nvidia.open = {'true' if need.flavour == 'open' else 'false'};",
        f"hardware.nvidia.package = config.boot.kernelPackages.nvidiaPackages.{attribute};",
    ]
    if need.high is not None and need.high < 470:
        lines.insert(1, "nixpkgs.config.nvidia.acceptLicense = true;")
    return tuple(lines)


def _nixos(need: Need, system: Distribution, knowledge: Knowledge, headless: bool) -> Driver | None:
    return Driver(words=" ".join(nixos_lines(need)) + said_of(need, knowledge), branch=need.high, origin="nixos")


def windows(need: Need, system: Distribution, knowledge: Knowledge) -> Driver:
    """In WSL the driver is the one of Windows too."""
    where = "in Windows (WSL takes its driver from there; Linux gets none)" if system.wsl else "for Windows"
    row = knowledge.branch(need.high) if need.high is not None else None
    last = f"; the last for Windows is {row.windows_last}" if row is not None and row.windows_last else ""
    if row is not None and row.windows_notebooks_last:
        last += f", of notebooks {row.windows_notebooks_last}"
    old = (
        "; CUDA in WSL asks for a GPU of the Pascal generation or newer" if system.wsl and need.high is not None and need.high < 580 else ""
    )
    which = f"branch {need.high}, the last that drives this GPU{last}" if need.high is not None else "the newest one for this GPU"
    return Driver(words=f"NVIDIA's driver {where}, {which}, from https://www.nvidia.com/drivers{old}")


BY_FAMILY: Mapping[str, Choice] = {
    "ubuntu": _ubuntu, "debian": _debian, "fedora": _fedora, "rhel": _rhel, "arch": _arch, "suse": _suse, "nixos": _nixos,
}  # fmt: skip


# https://docs.nvidia.com/dgx/dgx-spark/os-and-component-update.html
OF_DGX_SPARK = (
    "the one of DGX OS, of branch 580 or later with the open kernel modules, which `sudo apt update && sudo apt dist-upgrade` brings with "
    "its signed module from NVIDIA's repository for that system; Ubuntu's own packages would take its place"
)
# What each family has, for a GPU that is not known.
_FOR_ANY_GPU = {
    "ubuntu": "Ubuntu's own tool chooses it: `ubuntu-drivers list` names the packages that fit",
    "debian": "Debian: the package nvidia-detect names it (nvidia-driver, nvidia-tesla-470-driver ...)",
    "fedora": "Fedora: akmod-nvidia, akmod-nvidia-580xx, -470xx or -390xx of RPM Fusion",
    "rhel": "RHEL: the module stream nvidia-driver of NVIDIA's repository (open-dkms, 580-dkms ...), from RHEL 10 on nvidia-open",
    "arch": "Arch: nvidia-open-dkms; from the AUR nvidia-580xx-dkms, nvidia-470xx-dkms or nvidia-390xx-dkms",
    "suse": "openSUSE and SLES: the groups G07 (590 and later), G06 (550 to 580), G05 (470), G04 (390)",
    "nixos": "NixOS: hardware.nvidia.open = true, or hardware.nvidia.package = ...nvidiaPackages.legacy_580 (legacy_470 ...)",
}


# ---------------------------------------------------------------- the choice
def choose(need: Need, system: Distribution, knowledge: Knowledge, *, headless: bool = False) -> Driver:
    """The driver for this distribution, or the words that say what to install where no package is known."""
    if need.conflict:
        return Driver(words="no single driver serves all of these GPUs; " + in_words(need, knowledge))
    if system.wsl or system.family == "windows":
        return windows(need, system, knowledge)
    if system.driver is not None:
        words = system.branch_driver.replace("NNN", str(need.high)) if system.branch_driver and need.high else system.driver
        return Driver(words=words + (said_of(need, knowledge) if system.branch_driver is not None else ""))
    if system.family is None:
        return Driver(words=in_words(need, knowledge))
    if system.id == "manjaro":
        return Driver(words=f"the one that Manjaro's own tool mhwd chooses for this GPU{said_of(need, knowledge)}", origin="tool")
    if need.flavour is None:
        return Driver(words=by_generation(_FOR_ANY_GPU[system.family]), origin="tool" if system.family == "ubuntu" else None)
    pinned = _pinned(need) if system.from_nvidia else None
    return pinned or BY_FAMILY[system.family](need, system, knowledge, headless) or Driver(words=_not_packaged(need, system, knowledge))


def _not_packaged(need: Need, system: Distribution, knowledge: Knowledge) -> str:
    last = last_release(need, system, knowledge)
    where = f"; {last} is the last release that has one" if last is not None else ""
    elsewhere = ELSEWHERE if need.high is None or need.high > LAST_OF_OLD else OLD_ELSEWHERE
    if elsewhere == OLD_ELSEWHERE and system.family == "rhel":
        elsewhere = f"{OLD_FOR_RHEL.format(need.high)}; {OLD_ELSEWHERE}"
    return (
        f"NVIDIA's driver, {branch_words(need, knowledge)}{flavour_words(need)}; "
        f"no package for it is known in {system.named}{where}; {elsewhere}"
    )


def last_release(need: Need, system: Distribution, knowledge: Knowledge) -> str | None:
    """The newest release of Ubuntu or Debian whose archive has a driver that fits."""
    parent = next((row for row in knowledge.distributions if row.id == system.family), None)
    if parent is None or need.flavour is None or system.family not in ("ubuntu", "debian"):
        return None
    for version, codename in sorted(parent.codenames.items(), key=lambda entry: tuple(map(int, entry[0].split("."))), reverse=True):
        if system.family == "ubuntu":
            names = [row.package for row in knowledge.ubuntu_packages(codename)]
            has = any((found := UBUNTU_DRIVER.match(name)) is not None and suits(found, need) for name in names)
        else:
            has = any(need.fits(row.branch) and any(True for _ in debian_names(row, codename)) for row in knowledge.branches)
        if has:
            return f"{parent.id.capitalize()} {version} ({codename})"
    return None
