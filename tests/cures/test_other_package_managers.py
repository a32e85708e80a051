"""What is printed for Fedora, RHEL and its like, SUSE and Arch, carried out by dnf, zypper and pacman themselves.

They come from Debian's archive, into a root of its own, and install empty packages (stub_packages.py) from repositories in folders. A line is
carried out as it is printed, but for `https://`, which becomes the folder that stands for the web; pacman is answered with yes. What a line
names must be in those lists; what it says that it installs must be there afterwards. Nothing is started, built or loaded.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cudadoctor.model.recipe import Step
from cudadoctor.model.values import DRIVER_PACKAGES, KERNEL, LOADED_DRIVER, PCI, SECURE_BOOT, USER, Kernel, LoadedDriver
from cudadoctor.model.version import ModuleVersion
from cudadoctor.prescribe import prescribe
from tests.cures import stub_packages as stubs
from tests.cures.stub_packages import Stub, must
from tests.facts_builder import bus, facts_of, gpu, packages
from tests.judging import KNOWLEDGE
from tests.prescriptions import AMPERE, DEVICES, HOPPER, PASCAL, ROOT_USER, finding
from tests.test_recipes_archive import RECIPES

READY = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("debootstrap") is not None
pytestmark = [pytest.mark.cures, pytest.mark.skipif(not READY, reason="needs root, debootstrap and Debian's archive (dnf, zypper, pacman)")]
PROGRAMS = (
    "ca-certificates", "createrepo-c", "curl", "dnf", "dnf-plugins-core", "libarchive-tools", "makepkg", "pacman-package-manager", "rpm", "zypper",
)  # fmt: skip
QUIET = {"LC_ALL": "C.UTF-8", "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
# What package managers keep of a machine.
STATE = (
    "var/lib/rpm", "var/lib/dnf", "var/cache/dnf", "var/lib/zypp", "var/cache/zypp", "var/lib/pacman", "var/cache/pacman", "etc/dnf",
    "etc/yum.repos.d", "etc/zypp", "etc/rpm", "etc/pki",
)  # fmt: skip
WEB = "file:///srv/web/"
# MicroOS' program is in no archive of Debian's. This hands its words on to zypper as that does (parse_args in sbin/transactional-update.in,
# read in November 2026), without the snapshot.
TRANSACTIONAL = """#!/bin/sh
agree=
while :; do
    case "$1" in
    --non-interactive) agree=-y ;;
    --continue) ;;
    *) break ;;
    esac
    shift
done
case "$1 $2" in
"pkg install" | "pkg remove") verb=$2; shift 2; exec zypper --quiet "$verb" $agree "$@" ;;
"dup ") exec zypper --quiet --no-cd dup -y ;;
"initrd ") ;;
*) echo "unknown: $*" >&2; exit 1 ;;
esac
"""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """`repositories`: those it has from the start. `platform`: of module streams."""

    word: str
    manager: str
    kernel: str
    repositories: tuple[str, ...]
    platform: str = ""
    macros: str = ""


def _rhel(word: str, *more: str, macro: str = "") -> Machine:
    number = re.search(r"\d+", word)
    major = macro or (number[0] if number else "9")
    platform = "el9" if word == "amzn-2023" else f"el{major}"
    return Machine(
        word=word, manager="dnf", kernel=stubs.RHEL_KERNELS[word], repositories=("rhel", *more), platform=f"platform:{platform}",
        macros=f"%rhel {major}\n",
    )  # fmt: skip


def _suse(word: str, kernel: str) -> Machine:
    return Machine(word=word, manager="zypper", kernel=kernel, repositories=("suse", "of-nvidia"))


MACHINES = (
    Machine(
        word="fedora-42", manager="dnf", kernel=stubs.FEDORA_KERNEL, repositories=("fedora", "of-nvidia"), platform="platform:f42",
        macros="%fedora 42\n",
    ),
    *(_rhel(word) for word in ("rhel-8.10", "rhel-9.4", "almalinux-9", "ol-9", "rhel", "rocky-10")),
    _rhel("amzn-2023", "amazon"),
    _suse("opensuse-leap-15.6", "6.4.0-150600.23.47-default"), _suse("opensuse-leap-16.0", "6.12.0-160000.5-default"),
    _suse("opensuse-tumbleweed", "6.14.6-1-default"), _suse("sles-15-sp6", "6.4.0-150600.23.47-default"),
    _suse("opensuse-microos", "6.14.6-1-default"),
    Machine(word="arch", manager="pacman", kernel="6.14.6-arch1-1", repositories=("arch",)),
    Machine(word="manjaro", manager="pacman", kernel="6.12.28-1-MANJARO", repositories=("arch",)),
    Machine(word="cachyos", manager="pacman", kernel="6.14.6-2-cachyos", repositories=("cachyos", "arch")),
)  # fmt: skip
RPMS = {
    "fedora": stubs.FEDORA, "rpmfusion": stubs.RPM_FUSION, "of-nvidia": stubs.OF_NVIDIA, "rhel": stubs.RHEL, "epel": stubs.EPEL,
    "docker": stubs.DOCKER, "amazon": stubs.AMAZON, "suse": stubs.SUSE, "without-streams": (*stubs.WITHOUT_STREAMS, *stubs.OF_NVIDIA),
    "streams": (*(stub for stream in stubs.STREAMS for stub in stream.packages), *stubs.OF_NVIDIA), "nvidia-suse": stubs.NVIDIA_SUSE,
}  # fmt: skip
NVIDIA = "developer.download.nvidia.com/compute/cuda/repos"
# Files of the web, and the repository that each leads to.
REPO_FILES = {
    **{f"{NVIDIA}/rhel{major}/x86_64/cuda-rhel{major}.repo": f"streams-el{major}" for major in (8, 9)},
    f"{NVIDIA}/rhel9/sbsa/cuda-rhel9.repo": "streams-el9",
    f"{NVIDIA}/rhel10/x86_64/cuda-rhel10.repo": "without-streams",
    f"{NVIDIA}/amzn2023/x86_64/cuda-amzn2023.repo": "streams-el9",
    "download.docker.com/linux/rhel/docker-ce.repo": "docker",
    "nvidia.github.io/libnvidia-container/stable/rpm/nvidia-container-toolkit.repo": "of-nvidia",
}
RELEASES = {
    **{f"mirrors.rpmfusion.org/{part}/fedora/rpmfusion-{part}-release-42.noarch.rpm": ("rpmfusion", part) for part in ("free", "nonfree")},
    **{f"dl.fedoraproject.org/pub/epel/epel-release-latest-{major}.noarch.rpm": ("epel", major) for major in ("8", "9", "10")},
}
SUSE_FOLDERS = ("opensuse/leap/15.6", "opensuse/leap/16.0", "opensuse/tumbleweed", "suse/sle15sp6")


def repo_file(name: str, alias: str = "") -> str:
    return f"[{alias or name}]\nname={name}\nbaseurl=file:///srv/repos/{name}\nenabled=1\ngpgcheck=0\n"


# ---------------------------------------------------------------- the root
class Root:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        must("debootstrap", "--variant=minbase", "trixie", str(folder))
        self.must(f"apt-get update -q && apt-get install -q -y --no-install-recommends {' '.join(PROGRAMS)}")
        (folder / "srv/uname").write_text("\n")
        self.machine: Machine | None = None
        self.kept: dict[tuple[object, ...], Path] = {}
        self.plans: dict[str, list[Taken]] = {}  # by the machine's word
        self.listed: dict[tuple[object, ...], list[str]] = {}
        self.done: set[tuple[object, ...]] = set()
        for program, text in (("uname", "#!/bin/sh\ncat /srv/uname\n"), ("transactional-update", TRANSACTIONAL)):
            (folder / "usr/local/bin" / program).write_text(text)
            (folder / "usr/local/bin" / program).chmod(0o755)
        (folder / "etc/modprobe.d").mkdir(exist_ok=True)
        (folder / "etc/os-release").unlink()
        self.repositories()
        shutil.rmtree(folder / "etc/zypp/repos.d", ignore_errors=True)
        (folder / "etc/zypp").mkdir(exist_ok=True)
        (folder / "etc/zypp/zypp.conf").write_text("[main]\ngpgcheck = off\n")
        (folder / "etc/dnf/dnf.conf").write_text("[main]\ngpgcheck=0\n")
        for name in ("local", "system_upgrade"):  # Debian's choice of plugins is not theirs
            (folder / f"etc/dnf/plugins/{name}.conf").write_text("[main]\nenabled=0\n")
        for name in STATE:
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.empty = self._keep("empty")

    # ------------------------------------------------------------ commands
    def ran(self, script: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        inside = f'mount -t proc proc {self.folder}/proc; exec chroot {self.folder} sh -euc "$1"'
        argv = ["unshare", "-m", "-p", "-f", "sh", "-c", inside, "sh", script]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=QUIET, input=answer, timeout=600)

    def must(self, script: str) -> str:
        done = self.ran(script, "y\n" * 9 if script.startswith("pacman") else "")
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def installed(self) -> set[str]:
        assert self.machine is not None
        return set(self.must("pacman -Qq || true" if self.machine.manager == "pacman" else "rpm -qa --qf '%{NAME}\\n'").split())

    # ------------------------------------------------------------ repositories
    def repositories(self) -> None:
        srv = self.folder / "srv"
        for name, found in RPMS.items():
            self._rpms(srv / "repos" / name, found)
        for major in ("8", "9"):
            shutil.copytree(srv / "repos/streams", srv / f"repos/streams-el{major}")
            (srv / "modules.yaml").write_text(stubs.modules(stubs.STREAMS, f"el{major}"))
            self.must(f"modifyrepo_c --mdtype=modules /srv/modules.yaml /srv/repos/streams-el{major}/repodata")
        self._ask_for_a_licence(srv / "repos/nvidia-suse")
        for path, name in REPO_FILES.items():
            self._web(path).write_text(repo_file(name, Path(path).stem))
        for path, (name, part) in RELEASES.items():
            written = {f"/etc/yum.repos.d/{name}-{part}.repo": repo_file(name)} if part != "free" else {}
            release = Stub(name=Path(path).name.split("-release")[0] + "-release", version=part if part.isdigit() else "42", files=written)
            self._rpms(self.folder / "tmp/release", [release])
            shutil.move(next((self.folder / "tmp/release").rglob("*.rpm")), self._web(path))
            shutil.rmtree(self.folder / "tmp/release")
        for path in SUSE_FOLDERS:
            shutil.copytree(srv / "repos/nvidia-suse", self._web(f"download.nvidia.com/{path}"))
        for name, found in (("arch", stubs.ARCH), ("cachyos", stubs.CACHYOS)):
            (srv / "repos" / name).mkdir()
            for stub in found:
                stubs.for_pacman(stub, srv / "repos" / name)
            self.must(f"cd /srv/repos/{name} && repo-add -q {name}.db.tar.gz *.pkg.tar.gz")

    def _web(self, path: str) -> Path:
        found = self.folder / "srv/web" / path
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def _rpms(self, folder: Path, found: Sequence[Stub]) -> None:
        folder.mkdir(parents=True)
        inside = f"/{folder.relative_to(self.folder)}"
        for batch in stubs.batches(found):
            (self.folder / "tmp/stubs.spec").write_text(stubs.spec(batch))
            self.must(f"rpmbuild -bb --quiet --target x86_64 --define '_rpmdir {inside}' /tmp/stubs.spec")
        self.must(f"createrepo_c -q --no-database {inside}")

    def _ask_for_a_licence(self, folder: Path) -> None:
        """As NVIDIA's packages for SUSE do, which are installed once it is agreed to."""
        inside = f"/{folder.relative_to(self.folder)}"
        listed = self.must(f"rpm -qp --qf '%{{NAME}} %{{VERSION}} %{{RELEASE}}\\n' {inside}/noarch/*.rpm").splitlines()
        digests = self.must(f"cd {inside}/noarch && sha256sum *.rpm").splitlines()
        asking = "".join(
            f'<package pkgid="{digest.split()[0]}" name="{name}" arch="noarch"><version epoch="0" ver="{version}" rel="{release}"/>'
            "<eula>None.</eula></package>"
            for (name, version, release), digest in zip(map(str.split, listed), digests, strict=True)
        )
        text = f'<susedata xmlns="http://linux.duke.edu/metadata/susedata" packages="{len(listed)}">{asking}</susedata>\n'
        (self.folder / "srv/susedata.xml").write_text(text)
        self.must(f"modifyrepo_c --mdtype=susedata /srv/susedata.xml {inside}/repodata")

    # ------------------------------------------------------------ machines
    def _keep(self, name: str) -> Path:
        kept = self.folder.parent / f"state-{name}"
        for part in STATE:
            shutil.copytree(self.folder / part, kept / part, symlinks=True)
        return kept

    def _restore(self, kept: Path) -> None:
        for part in STATE:
            shutil.rmtree(self.folder / part)
            shutil.copytree(kept / part, self.folder / part, symlinks=True)

    def become(self, machine: Machine, before: tuple[str, ...] = (), repositories: tuple[str, ...] = ()) -> None:
        """A fresh machine, with these packages in it."""
        self.machine = machine
        release = f"ID={machine.word.partition('-')[0]}\nVERSION_ID=1\n" + (
            f'PLATFORM_ID="{machine.platform}"\n' if machine.platform else ""
        )
        (self.folder / "etc/os-release").write_text(release)
        (self.folder / "srv/uname").write_text(f"{machine.kernel}\n")
        if machine.manager == "pacman":
            servers = "".join(f"[{name}]\nServer = file:///srv/repos/{name}\n" for name in machine.repositories)
            (self.folder / "etc/pacman.conf").write_text(f"[options]\nArchitecture = auto\nSigLevel = Never\nDisableSandbox\n{servers}")
        key = (machine.word, before, repositories)
        if key in self.kept:
            self._restore(self.kept[key])
            return
        self._restore(self.empty)
        (self.folder / "etc/rpm/macros.release").write_text(machine.macros)
        for name in (*machine.repositories, *repositories):
            place = "etc/zypp/repos.d" if machine.manager == "zypper" else "etc/yum.repos.d"
            (self.folder / place).mkdir(exist_ok=True)
            if machine.manager != "pacman":
                (self.folder / place / f"{name}.repo").write_text(repo_file(name))
        if before:
            verb = {"dnf": "dnf install -y", "zypper": "zypper -n install --auto-agree-with-licenses", "pacman": "pacman -Sy --noconfirm"}[
                machine.manager
            ]
            self.must(f"{verb} {' '.join(before)}")
        self.kept[key] = self._keep(f"{machine.word}-{len(self.kept)}")


# ---------------------------------------------------------------- what is printed
MANAGERS = ("dnf", "yum", "zypper", "pacman", "rpm", "transactional-update")
NOT_HERE = ("yay", "mhwd", "rpm-ostree")  # in no archive of Debian's
_WORD = re.compile(r"[\w./+-]+")
# Lines that must come before a package manager's.
_BESIDE = ("curl ", "rm ", "printf ")


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that a machine gets, and what is installed in it before."""

    machine: Machine
    before: tuple[str, ...]
    cause: str
    steps: tuple[Step, ...]


def programs(line: str) -> set[str]:
    return {Path(word).name for word in _WORD.findall(line)}


def lines(step: Step) -> list[str]:
    """The lines that a package manager carries out, and what they need."""
    found = (step.shell or "").split("\n")
    ours = [line for line in found if programs(line) & set(MANAGERS) and not line.startswith(("dracut", "grub", "akmods", "modprobe", "["))]
    return [line for line in found if line in ours or (line.startswith(_BESIDE) and (ours or "/etc/rpm" in line))]


# ---------------------------------------------------------------- machines that have a driver
_GENERATIONS = {
    "tesla": "340.108",
    "fermi": "390.157",
    "kepler": "470.256.02",
    "maxwell": "580.95.05",
    "pascal": "580.95.05",
    "volta": "580.95.05",
}
VERSIONS = {DEVICES[name]: version for name, version in _GENERATIONS.items()}
SOURCES = {"zypper": ("nvidia-suse",), "pacman": ()}


def source(machine: Machine) -> tuple[str, ...]:
    """Where a machine that has the driver has it from."""
    streams = machine.platform.replace("platform:", "streams-") if machine.word != "rocky-10" else "without-streams"
    return ("rpmfusion",) if machine.word == "fedora-42" else SOURCES.get(machine.manager, (streams, "epel", "of-nvidia"))


def driver(machine: Machine, device: str) -> tuple[str, ...]:
    """The driver's packages as they are usual there; () where the distribution has none for that GPU."""
    version = VERSIONS.get(device)
    if machine.word == "fedora-42":
        end = f"-{version[:3]}xx" if version is not None else ""
        return (f"akmod-nvidia{end}", f"xorg-x11-drv-nvidia{end}", f"xorg-x11-drv-nvidia{end}-cuda")
    if machine.manager == "dnf":
        return ("nvidia-driver", "nvidia-driver-cuda", stubs.LATEST, "nvidia-settings")
    if machine.manager == "pacman":
        return () if version is not None else ("nvidia-open", "nvidia-utils", "opencl-nvidia", "lib32-nvidia-utils")
    if version is not None and version < "5":
        group = "G05" if version > "4" else "G04"
        return (f"x11-video-nvidia{group}", f"nvidia-compute{group}", f"nvidia-gl{group}")
    return (
        "nvidia-driver-G06-kmp-meta" if version is not None else "nvidia-open-driver-G06-signed-kmp-meta",
        "nvidia-video-G06",
        "nvidia-gl-G06",
    )


def before(recipe: str, machine: Machine, device: str) -> tuple[tuple[str, ...], ...]:
    """What is installed when this recipe is needed, one way or the other."""
    here = driver(machine, device)
    if recipe in ("leave-driver-to-distribution", "let-held-packages-go", "follow-debian-alternative"):
        return ()  # for two repositories, locks and alternatives, which no machine here has
    if recipe == "put-driver-packages-right":
        return ((*here, "nvidia-container-toolkit"),) if here else ()
    if recipe in ("reinstall-driver-libraries", "install-nvidia-smi", "rebuild-module"):
        return ((), here)
    return (("cuda-compat-13-0", "gcc"),) if recipe == "leave-compat-library" and machine.manager != "pacman" else ((),)


def state(machine: Machine, device: str, installed: Sequence[str], loaded: str | None) -> dict[Any, Any]:
    found: dict[Any, Any] = {
        PCI: bus(gpu(driver=None, device=device)), USER: ROOT_USER, SECURE_BOOT: False,
        KERNEL: Kernel(system="Linux", release=machine.kernel, machine="x86_64"),
    }  # fmt: skip
    if machine.word == "rhel":
        del found[KERNEL]
    if installed:
        found[DRIVER_PACKAGES] = packages(*installed, version="580.95.05-1")
    if loaded:
        found[LOADED_DRIVER] = LoadedDriver(version=ModuleVersion(loaded), flavour="open")
    return found


DRIVER_CAUSES = (
    "driver-not-installed", "libcuda-missing", "nvidia-smi-missing", "driver-packages-conflict", "container-cuda-too-new",
    "driver-libraries-incomplete",
)  # fmt: skip


def taken(root: Root, machine: Machine) -> list[Taken]:
    if machine.word not in root.plans:
        root.plans[machine.word] = list(_taken(root, machine))
    return root.plans[machine.word]


def _listed(root: Root, machine: Machine, had: tuple[str, ...]) -> list[str]:
    """What a machine's package manager lists of the driver, with these packages installed."""
    if had and (machine.word, had) not in root.listed:
        root.become(machine, had, source(machine))
        root.listed[machine.word, had] = sorted(name for name in root.installed() if re.search("nvidia|cuda", name))
    return root.listed[machine.word, had] if had else []


def _taken(root: Root, machine: Machine) -> Iterator[Taken]:
    """Every prescription of this distribution whose lines no other has: all causes on three GPUs, those about the driver on each."""
    seen: set[tuple[object, ...]] = set()
    recipes = {cause: KNOWLEDGE.cause(cause).recipes for cause in RECIPES}
    for device, end in ((device, end) for device in DEVICES.values() for end in ("", "-server")):
        for cause in RECIPES if device in (PASCAL, HOPPER, AMPERE) else DRIVER_CAUSES:
            for had in dict.fromkeys(way for recipe in recipes[cause] for way in before(recipe, machine, device)):
                here = _listed(root, machine, had)
                values = {"unfit": "nvidia-smi"} if had and cause == "nvidia-smi-missing" else {}
                loaded = VERSIONS.get(device, "580.95.05")
                for known, version in ((here, None), (here, loaded), ([], None))[: 3 if cause == "driver-packages-conflict" else 2]:
                    facts = facts_of(state(machine, device, known, version))
                    found = prescribe(finding(cause), values, facts, KNOWLEDGE, machine.word + end)
                    steps = tuple(step for step in (found.steps if found is not None else ()) if lines(step))
                    key = (had, tuple(line for step in steps for line in (*lines(step), step.undo)))
                    if steps and key not in seen:
                        seen.add(key)
                        yield Taken(machine=machine, before=had, cause=cause, steps=steps)


# ---------------------------------------------------------------- carrying out
_INSTALLS = re.compile(r"(?:dnf|zypper|pacman|transactional-update)\b.* (?:install|reinstall|-Syu)\b(?P<rest>.*)")


def of_driver(names: set[str]) -> list[str]:
    return sorted(name for name in names if "nvidia" in name and "container" not in name)


_NOISE = re.compile(r"[kM]B/s|KiB|Unable to detect release version|Failed loading plugin|metadata expiration")


def wanted(line: str) -> set[str]:
    """The packages that are installed once this line has been carried out."""
    found = _INSTALLS.match(line.split("||")[0].split("&&")[-1].strip())
    words = shlex.split(re.sub(r"\S*\$\([^)]*\)\S*", "", found["rest"])) if found is not None and "module " not in line else []
    return {re.split(r"=|-(?=\d+\.\d)", word)[0] for word in words if not word.startswith("-") and "$" not in word and "/" not in word}


def carried_out(root: Root, one: Taken) -> Iterator[str]:
    """What went wrong. The same lines on a machine with the same repositories are carried out once."""
    key = (one.machine.manager, source(one.machine), one.before, tuple((step.shell, step.undo) for step in one.steps))
    if key in root.done:
        return
    root.done.add(key)
    adds = any(step.id.startswith("install-driver/") for step in one.steps)
    root.become(one.machine, one.before, source(one.machine) if one.before or not adds else ())
    for step in one.steps:
        for line in lines(step):
            done = root.ran(line.replace("https://", WEB), "y\n" * 9 if line.startswith("pacman") else "")
            said = "\n".join(one for one in (done.stdout + done.stderr).split("\n") if one and not _NOISE.search(one))[-600:]
            where = f"{one.machine.word}, {one.cause}, {step.id}, with {' '.join(one.before) or 'nothing'}"
            if done.returncode != 0:
                yield f"{where}: {line}\n  ended with {done.returncode}: {said}"
                return
            left = of_driver(root.installed()) if step.id.startswith("put-driver") and step.kind == "destructive" else ()
            if left:
                yield f"{where}: {line}\n  left {' '.join(left)}"
            absent = wanted(line) - root.installed()
            if absent:
                yield f"{where}: {line}\n  did not install {' '.join(sorted(absent))}: {said}"
    for step in reversed(one.steps):
        for line in (step.undo or "").split("\n"):
            if programs(line) & set(MANAGERS) or "/etc/rpm" in line:
                done = root.ran(line)
                if done.returncode != 0:
                    yield f"{one.machine.word}, {one.cause}, {step.id}: undo {line}\n  ended with {done.returncode}: {done.stderr[-600:]}"


@pytest.fixture(scope="module")
def root() -> Iterator[Root]:
    folder = Path(tempfile.mkdtemp(prefix="cures-", dir=Path.home()))
    folder.chmod(0o755)
    yield Root(folder / "root")
    shutil.rmtree(folder)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.word)
def test_every_line_is_one_that_the_package_manager_takes(root: Root, machine: Machine) -> None:
    steps = taken(root, machine)
    assert len(steps) > 5
    wrong = [entry for one in steps for entry in carried_out(root, one)]
    assert not wrong, f"{len(wrong)} of {len(steps)}:\n" + "\n".join(wrong)


def printed(machine: Machine) -> Iterator[str]:
    """Every line with a package manager in it that any cause's steps hold for this distribution."""
    for device, end in ((device, end) for device in DEVICES.values() for end in ("", "-server")):
        for cause in RECIPES if device in (PASCAL, HOPPER, AMPERE) else DRIVER_CAUSES:
            found = prescribe(finding(cause), {}, facts_of(state(machine, device, (), None)), KNOWLEDGE, machine.word + end)
            for step in found.steps if found is not None else ():
                yield from (line for line in (step.shell or "").split("\n") if programs(line) & {*MANAGERS, *NOT_HERE})


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.word)
def test_no_line_is_left_out(root: Root, machine: Machine) -> None:
    """But for those of helpers that are in no archive of Debian's, and for what names a package manager without calling it."""
    done = {line for one in taken(root, machine) for step in one.steps for line in lines(step)}
    left = {line for line in printed(machine) if line not in done and not line.startswith(NOT_HERE)}
    assert {line for line in left if programs(line) & {"dnf", "yum", "zypper", "pacman", "transactional-update"}} == set()
