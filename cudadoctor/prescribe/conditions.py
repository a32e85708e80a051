"""The conditions that a recipe's step may ask for (`when`, several separated by blanks: all must hold).

A word of `when` is the name of a condition: here, of facts, or of tables/conditions.toml, of the finding's words; `has:cuda_home`, where
that placeholder has a value here; `value:nvpl` or `value:setting=no-cgroups`, where the finding has that value; and `!` before any of
these turns it round.
Where a fact is not known the condition takes the side that is written here: a step that does no harm is offered, one that may is not.
"""

from __future__ import annotations

import re

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import (
    CAP_DAC_OVERRIDE,
    CAP_MKNOD,
    CAPABILITIES,
    CONTAINER_MARKS,
    DEVICE_NODES,
    DKMS,
    KERNEL,
    LOADED_DRIVER,
    MODULE_FILES,
    MODULES,
    NVIDIA_MODPROBE,
    SECURE_BOOT,
    TEGRA,
    USER,
    WSL,
)
from cudadoctor.prescribe import frameworks, free_gpu, kernel_module, managers, one_recipe, places, processes, recovery, settings, toolkits
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.driver_values import ubuntu_driver
from cudadoctor.prescribe.families import OF_REPOSITORY
from cudadoctor.prescribe.placeholders import node_group, placeholders

_UNVERSIONED = (
    "nvidia-kernel-dkms", "nvidia-open-kernel-dkms", "nvidia-driver", "akmod-nvidia", "kmod-nvidia", "nvidia-open",
    "nvidia-open-dkms", "nvidia-dkms", "nvidia",
)  # fmt: skip
_REBUILDS = (None, "rhel", "centos", "rocky", "almalinux", "ol", "scientific")
_OF_UBUNTU = lazy(r"\d{1,2}\.\d{1,2}\.0-\d{1,5}-[a-z][a-z0-9-]{2,30}")  # 6.8.0-45-generic; 6.8.1-060801-generic is the mainline's
_OF_NUMBA = lazy(r"\bnumba[._]")  # whose toolkit comes in wheels


def holds(when: str | None, case: Case) -> bool:
    return all(_holds(word, case) for word in (when or "").split())


def _holds(word: str, case: Case) -> bool:
    if word.startswith("!"):
        return not _holds(word[1:], case)
    kind, _, name = word.partition(":")
    if kind == "has":
        return name in placeholders(case)
    if kind == "value":
        name, equals, wanted = name.partition("=")
        return case.value(name) == wanted if equals else case.value(name) is not None
    return CONDITIONS[word](case) if word in CONDITIONS else case.says(case.forms["says"][word])


# ---------------------------------------------------------------- the driver
def installed_branches(case: Case) -> tuple[int, ...]:
    found: list[int] = []
    for package in case.packages:
        named = case.forms["packages"]["branch"].match(package.name)
        if named is None and (package.name in _UNVERSIONED or case.forms["packages"]["holds-module"].search(package.name)):
            named = re.match(r"(?:\d{1,4}:)?(\d{3})\.", package.version)
        found += [int(named[1])] if named is not None else []
    built = (entry for entry in case.get(DKMS) or () if entry.module.startswith("nvidia") and entry.state.startswith("installed"))
    return (*found, *(int(entry.version[:3]) for entry in built if re.match(r"\d{3}\.", entry.version)))


def _built_by_ubuntu(case: Case) -> bool:
    """The archive has modules, which Secure Boot accepts, for Ubuntu's own kernels; for another one DKMS has to build them."""
    release = kernel_module.running(case)
    return ubuntu_driver(case) is not None and (release is None or _OF_UBUNTU.fullmatch(release) is not None)


def _by_cluster(case: Case) -> bool:
    """Whether pods of the cluster, or its node images, bring the driver to its nodes."""
    return case.value("driver_pods") is not None or "eks-image-without-driver" in case.setting.words


OTHER_MODULES = ("open-modules", "proprietary-modules")  # what a cause finds wrong with the driver, whose branch may be right


def _driver_wanted(case: Case) -> bool:
    """No driver package that fits these GPUs is installed. A toolkit that can be pinned makes a newer driver needless."""
    if _windows_driver(case) or kernel_module.guest_ids(case) is not None or _by_cluster(case) or case.value("installer") is not None:
        return False
    if case.root.cause == "toolkit-newer-than-driver" and _other_build(case):
        return False
    installed, wrong = installed_branches(case), case.cause.driver
    if wrong == "newer-branch":  # the newest driver that fits is newer than the installed one, or nobody knows
        return not installed or case.driver.branch is None or case.driver.branch > max(installed)
    if wrong in OTHER_MODULES:  # layered already, the packages would change nothing
        return not places.by_run_installer(case) and not (case.system.image == "rpm-ostree" and case.driver.origin != "image")
    # A list without versions names the package of the current branch, and that one may drive these GPUs.
    layered = (package for package in case.packages if package.name in _UNVERSIONED and not package.version)
    current = case.need.high is None and any(layered)
    return not current and not any(case.need.fits(branch) for branch in installed)


def _other_build(case: Case) -> bool:
    """Another build of what was installed serves this driver: no root, no restart."""
    if frameworks.framework(case) is None:
        known = case.python is not None or (case.cuda is not None and managers.manager(case) is not None)
        return toolkits.of_none(case) and toolkits.toolkit_pin(case) and (known or case.quotes(_OF_NUMBA))
    build = frameworks.torch_index(case) if frameworks.speaks_of(case, "torch") else frameworks.wheel_series(case)
    return build is not None


def _may_be_newer(case: Case) -> bool:
    """Whether a branch that serves the newer CUDA drives these GPUs, and that CUDA has code for them; where nothing says so, it may."""
    known = placeholders(case)
    wanted, last = str(known.get("minimum_driver") or "")[:3], str(known.get("last_toolkit") or "").partition(".")[0]
    if case.wanted_cuda is not None and last.isdecimal() and case.wanted_cuda.major > int(last):
        return False
    return case.need.high is None or not wanted.isdecimal() or int(wanted) <= case.need.high


def _windows_driver(case: Case) -> bool:
    """The driver is the one of Windows: there, and in WSL."""
    return case.windows or case.system.wsl


# ---------------------------------------------------------------- device files
def _uvm_loaded(case: Case) -> bool:
    modules = case.get(MODULES)
    return modules is not None and modules.find("nvidia_uvm") is not None


def _uvm_stale(case: Case) -> bool:
    nodes = case.get(DEVICE_NODES)
    return _uvm_loaded(case) and nodes is not None and (node := nodes.find("/dev/nvidia-uvm")) is not None and node.mode.startswith("c")


def _module_on_disk(case: Case) -> bool:
    """A module that is taken out can be loaded again: its file for the running kernel is there."""
    kernel = case.get(KERNEL)
    return kernel is not None and any(file.kernel == kernel.release for file in case.get(MODULE_FILES) or ())


def _uvm_to_reload(case: Case) -> bool:
    """It is stale, as the text says that shows the sleep, or as a machine shows on which all else is there."""
    return case.value("suspended") is not None or (_uvm_stale(case) and _module_on_disk(case))


def _libraries_not_packaged(case: Case) -> bool:
    """The packages that hold the libraries are of the module's version, so the libraries of another version came without a package."""
    loaded, wanted = case.get(LOADED_DRIVER), placeholders(case).get("library_packages")
    installed = {package.name.partition(":")[0]: package.version for package in case.packages}
    return loaded is not None and isinstance(wanted, tuple) and all(loaded.version.text in installed.get(name, "") for name in wanted)


def _node_group(case: Case) -> bool:
    """The files have a group of their own that may read and write."""
    nodes = case.get(DEVICE_NODES)
    mode = case.value("mode") or next((node.mode for node in (nodes.nodes if nodes is not None else ()) if node.path == "/dev/nvidia0"), "")
    return (case.value("group") or node_group(case)) not in (None, "root", "0") and mode[4:6] == "rw"


# ---------------------------------------------------------------- rights
def _is_root(case: Case) -> bool:
    """Root of a container too."""
    user = case.get(USER)
    return user is not None and user.uid == 0


def _lacks(case: Case, capability: int) -> bool:
    """Root's rights of the machine are known not to be here, as in most containers."""
    held = case.get(CAPABILITIES)
    return held is not None and capability not in held


# ---------------------------------------------------------------- all of them
def _origin(name: str) -> Condition:
    return lambda case: case.driver.origin == name


def _family(*names: str) -> Condition:
    return lambda case: case.system.family in names


def _told(kind: str) -> Condition:
    """A circumstance of the text (tables/circumstances.toml)."""
    return lambda case: kind in case.setting.words


def _scheduler(name: str) -> Condition:
    return lambda case: places.scheduler(case) == name


CONDITIONS: dict[str, Condition] = {
    "driver-wanted": _driver_wanted,
    "driver-chosen": lambda case: case.driver.chosen,
    # Where no package is known the same step says in words what to install.
    "archive": lambda case: case.driver.origin in (None, "archive"),
    **{name: _origin(name) for name in ("aur", "stream", "parts", "pinned", "image")},
    "locked": _origin("lock"),
    "from-nvidia": _origin("nvidia"),
    "in-configuration": _origin("nixos"),
    "by-tool": _origin("tool"),
    "windows-driver": _windows_driver,
    "repository-there": lambda case: any(one.name in OF_REPOSITORY.get(case.system.family or "", ()) for one in case.packages),
    "non-free-there": lambda case: any(case.forms["packages"]["of-debian"].fullmatch(one.name) for one in case.packages),
    "driver-may-be-newer": _may_be_newer,
    "newer-branch-here": lambda case: case.need.high is not None and any(branch > case.need.high for branch in installed_branches(case)),
    "older-on-arch": lambda case: case.system.family == "arch" and case.need.high is not None and bool(case.driver.packages),
    # pacman replaces the kernel in the same breath, so its headers have to come with it.
    "headers-with-driver": lambda case: case.system.family == "arch" and case.driver.origin == "archive" and case.driver.chosen,
    "rpm-fusion": lambda case: case.system.family == "fedora" and case.driver.origin != "image",
    # RHEL and those built from its sources take dkms from EPEL; NVIDIA's repository brings it for the others.
    "epel": lambda case: case.system.family == "rhel" and (case.system.repository or "rhel").startswith("rhel"),
    # Files in /etc and packages are changed by hand: neither NixOS nor a system that is an image.
    "own-files": lambda case: case.system.family != "nixos" and case.system.image is None,
    "secure-boot-on": lambda case: case.get(SECURE_BOOT) is True,
    # The branch fits, and its kernel modules are of the wrong kind.
    "other-modules": lambda case: case.cause.driver in OTHER_MODULES,
    "built-by-ubuntu": _built_by_ubuntu,
    # Since then Ubuntu's tool builds a module only where it is told to.
    "since-ubuntu-26.04": lambda case: int(case.system.major or 0) >= 26,
    # SUSE signs its packages of the open modules with the key of its kernels.
    "signed-by-suse": lambda case: any("-signed-" in name for name in case.driver.packages),
    "amazon": lambda case: case.system.id == "amzn",
    **{name: _family(name) for name in ("rhel", "debian", "suse", "arch", "nixos")},
    "apt": _family("debian", "ubuntu"),
    "dnf": _family("fedora", "rhel"),
    "layered-image": lambda case: case.system.image is not None,
    "ublue": lambda case: case.system.ready_image is not None,
    "ostree": lambda case: case.system.image == "rpm-ostree",
    "transactional": lambda case: case.system.image == "transactional-update",
    # Docker's repository for RHEL is found by the release's number, which its rebuilds share.
    "docker-ce": lambda case: case.system.family == "rhel" and case.system.id in _REBUILDS,
    # The driver's libraries are from the AUR, which pacman does not know.
    "of-aur": lambda case: case.system.family == "arch" and placeholders(case).get("library_packages") != ("nvidia-utils",),
    # The capability to make device files is missing, as in most containers. Another shell of the same machine may have it.
    "nodes-forbidden": lambda case: _lacks(case, CAP_MKNOD),
    "root-asked-for-modes": lambda case: _is_root(case) and _lacks(case, CAP_DAC_OVERRIDE),
    "nvidia-modprobe": lambda case: case.get(NVIDIA_MODPROBE) is not None,
    "uvm-loaded": _uvm_loaded,
    "uvm-to-reload": _uvm_to_reload,
    "libraries-not-packaged": _libraries_not_packaged,
    "node-group": _node_group,
    # Done on the host, or not known to be a container or WSL: services and files in /etc last here.
    "persistence-possible": lambda case: bool(case.host) or not (case.get(CONTAINER_MARKS) or case.get(WSL)),
    "newer-driver": lambda case: case.cause.driver in ("newer-branch", "newer-cuda"),
    "limit-of-memory": lambda case: case.value("limit") == "memory of the control group",
    "tegra": lambda case: case.get(TEGRA) is True,
    **{
        name: _told(name)
        for name in (
            "akmods-building",
            "build-error-shown",
            "compiled-with-headers",
            "compose-capabilities",
            "docker-engine-listed",
            "eks-image-without-driver",
            "late-directives",
            "login-node",
            "gcc-by-alternatives",
            "module-signed",
            "mps-gone",
            "mps-of-root",
            "nvidia-known-to-docker",
            "nvlsm-listed",
            "cpuonly",
            "uv-index-of-cpu",
            "uv-index-of-cuda",
        )
    },
    "build-lacks-space": lambda case: "No space left on device" in case.words or "build-lacks-space" in case.setting.words,
    "slurm": lambda case: places.scheduler(case) == "Slurm" or places.speaks_of_slurm(case) or "slurm" in case.setting.words,
    "in-slurm-job": _scheduler("Slurm"),
    "batch-script": lambda case: {job.asks for job in case.setting.jobs if job.program == "#SBATCH"} == {False},
    "pbs": _scheduler("PBS"),
    "lsf": _scheduler("LSF"),
    "free-gpu": lambda case: free_gpu.free_gpu(case) is not None,
    "default-gpu-free": lambda case: free_gpu.default_free(case) is not None,
    **processes.CONDITIONS,
    **kernel_module.CONDITIONS,
    **places.CONDITIONS,
    **settings.CONDITIONS,
    **one_recipe.CONDITIONS,
    **recovery.CONDITIONS,
    **toolkits.CONDITIONS,
}
