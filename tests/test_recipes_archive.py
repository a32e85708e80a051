"""What recipes print against the real archives: package names by a simulated apt run, Python requirements by pip's resolver, shell text by bash.

The tests marked `network` run wherever the archive answers and are skipped, with the reason, where it does not. Debian's address is the
one in this machine's own apt sources; the index is the one that pip is set up with. Package managers that this machine has not (Ubuntu's
archive behind apt, dnf, zypper, pacman) are asked where they are there, and named in a skip where they are not.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import InvalidRequirement, Requirement

from cudadoctor.judge.stages import judge
from cudadoctor.model.facts import Facts
from cudadoctor.model.recipe import Prescription
from cudadoctor.model.values import (
    DRIVER_PACKAGES,
    KERNEL,
    LADDER,
    NVML,
    PCI,
    PYTHON,
    SECURE_BOOT,
    Kernel,
    Ladder,
    PythonEnvironment,
    PythonPackage,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, PackageVersion
from cudadoctor.prescribe import prescribe, render_step
from cudadoctor.prescribe.dialect import PIP
from cudadoctor.prescribe.families import BY_FAMILY, debian_names
from cudadoctor.prescribe.steps import case_of
from cudadoctor.sources import recording
from tests.cases import todays
from tests.command_line import HOSTS
from tests.facts_builder import bus, facts_of, gpu, nvml, nvml_gpu, packages
from tests.judging import KNOWLEDGE
from tests.prescriptions import DEVICES, LINUX, STEPS, finding
from tests.test_way import MX250, of_host, planned

network = pytest.mark.network
LIMIT = 45  # seconds for one answer of an archive
RECIPES = [cause.id for cause in KNOWLEDGE.causes.values() if cause.recipes]


def asked(words: list[str]) -> subprocess.CompletedProcess[str]:
    """What a command answers. An archive that gives no answer twice is none that can be compared with."""
    for _ in range(2):
        try:
            return subprocess.run(
                words,
                capture_output=True,
                env={name: value for name, value in os.environ.items() if name != "PIP_QUIET"},
                text=True,
                check=False,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            continue
    pytest.skip(f"NOT CHECKED: no answer within {LIMIT} s, asked twice: {' '.join(words)[:120]}")


# ---------------------------------------------------------------- everything that is printed
DRIVER_CAUSES = ("driver-not-installed", "libcuda-missing", "nvidia-smi-missing")
PLACES = (
    ("", {DRIVER_PACKAGES: packages()}),
    ("-server", {DRIVER_PACKAGES: packages("nvidia-driver-470", "nvidia-driver-580-server"), SECURE_BOOT: True}),
)
KERNEL_HERE = Kernel(system="Linux", release="6.1.0-18-amd64", machine="x86_64")


def prescriptions(distro: str) -> Iterator[Prescription]:
    """Each cause on this distribution; those about the driver for each generation of GPUs, on a desktop and on a server."""
    for name, device in DEVICES.items():
        for end, known in PLACES:
            whole = (name, end) in (("pascal", ""), ("ampere", "-server"))
            state = {PCI: bus(gpu(driver=None, device=device)), **known, **({KERNEL: KERNEL_HERE} if end else {})}
            for cause in RECIPES if whole else DRIVER_CAUSES:
                found = prescribe(finding(cause), {}, facts_of(state), KNOWLEDGE, distro + end)
                if found is not None:
                    yield found


def commands_of(distro: str, *managers: str) -> list[list[str]]:
    """The words of each command of these package managers, without `sudo`; a chain of commands is taken apart."""
    found: dict[tuple[str, ...], None] = {}
    for prescription in prescriptions(distro):
        for step in prescription.steps:
            for line in (step.shell or "").split("\n"):
                for words in _commands(line):
                    if words[:1] and words[0] in managers:
                        found[tuple(words)] = None
    return [list(words) for words in found]


def _commands(line: str) -> Iterator[list[str]]:
    words = shlex.split(line)
    words = words[1:] if words[:1] == ["sudo"] else words
    if words[:2] == ["sh", "-c"]:
        yield from _commands(words[2])
        return
    part: list[str] = []
    for word in [*words, ";"]:
        if word in (";", "&&", "||", "|", "{", "}", "then", "fi;"):
            if part:
                yield part
            part = []
        else:
            part.append(word)


def installed_names(distro: str, *managers: str) -> set[str]:
    """What `apt-get install` and its like are asked for; names that hold `$` are made by the shell."""
    verbs = ("install", "-S", "in")
    names: set[str] = set()
    for words in commands_of(distro, *managers):
        if any(verb in words for verb in verbs):
            start = min(words.index(verb) for verb in verbs if verb in words)
            names |= {word for word in words[start + 1 :] if not word.startswith("-") and "/" not in word and "$" not in word}
    return names


# ---------------------------------------------------------------- Debian
RELEASES = ("bookworm", "trixie", "sid")
# NVIDIA's own repositories have these, which the same recipe adds, or a Jetson's system brings.
NVIDIA_ONLY = re.compile(r"nvidia-open$|nvidia-driver-cuda$|nvidia-kernel-open-dkms$|nvidia-container-toolkit|nvidia-l4t-|nvidia-jetpack")


def debian_address() -> str:
    """The archive in this machine's own sources, whatever its release."""
    texts = [
        path.read_text(errors="replace")
        for pattern in ("sources.list", "sources.list.d/*.list", "sources.list.d/*.sources")
        for path in sorted(Path("/etc/apt").glob(pattern))
    ]
    for text in texts:
        for form in (r"^URIs:\s*(\S+/debian)/?\s*$", r"^deb\s+(?:\[[^\]]*\]\s*)?(\S+/debian)/?\s"):
            found = re.search(form, text, re.MULTILINE)
            if found is not None:
                return found[1]
    pytest.skip("NOT CHECKED: no Debian archive in this machine's apt sources, so Debian's package names were not compared with it")


def apt(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """apt with lists, state and sources of its own: nothing of this machine is read or written."""
    options = {
        "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "-", "Dir::State": folder / "state",
        "Dir::State::status": folder / "status", "Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none", "Acquire::Retries": "1", "Acquire::http::Timeout": "10", "Acquire::https::Timeout": "10",
        "APT::Sandbox::User": "", "APT::Architecture": "amd64", "APT::Install-Recommends": "false", "Debug::NoLocking": "true",
        "APT::Update::Post-Invoke": "", "APT::Update::Post-Invoke-Success": "", "Dir::Cache::pkgcache": "pkgcache.bin",
        "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
    }  # fmt: skip
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return asked(["apt-get", *given, *words])


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A folder with fresh lists for each release."""
    if shutil.which("apt-get") is None:
        pytest.skip("NOT CHECKED: no apt-get here, so Debian's package names were not compared with its archive")
    address = debian_address()
    folders = {release: prepared(tmp_path_factory.mktemp(release), address, release) for release in RELEASES}
    with ThreadPoolExecutor() as pool:
        answers = dict(zip(folders, pool.map(lambda folder: apt(folder, "update"), folders.values()), strict=True))
    for release, answer in answers.items():
        if answer.returncode != 0 or not any((folders[release] / "lists").glob("*_Packages*")):
            pytest.skip(f"NOT CHECKED: Debian's archive does not answer here: {(answer.stderr or answer.stdout).strip()[:200]}")
    return folders


def prepared(folder: Path, address: str, release: str) -> Path:
    """A state for apt without a package installed, and sources with all components."""
    for name in ("state", "lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(f"deb {address} {release} main contrib non-free non-free-firmware\n")
    return folder


_UNKNOWN = re.compile(r"Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate")


def missing_in(folder: Path, names: set[str]) -> set[str]:
    """The names that the archive has not: apt says each by itself."""
    result = apt(folder, "-s", "install", *sorted(names))
    return {name for pair in _UNKNOWN.findall(result.stderr) for name in pair if name}


def names_of(release: str) -> set[str]:
    """What commands install on this release, and what the table of branches says that it has. A kernel's own headers no archive keeps."""
    printed = installed_names(f"debian-{release}", "apt-get")
    listed = {name for row in KNOWLEDGE.branches for name in debian_names(row, release)}
    return {name for name in printed | listed if not NVIDIA_ONLY.search(name) and not re.match(r"linux-headers-\d", name)}


@pytest.mark.long
@network
@pytest.mark.parametrize("release", RELEASES)
def test_debian_has_every_package_that_is_named(debian: Mapping[str, Path], release: str) -> None:
    names = names_of(release)
    assert {"libcuda1", "nvidia-smi", "nvidia-driver", "nvidia-tesla-535-driver"} <= names
    # A name that nobody has shows that the answer is one.
    assert missing_in(debian[release], {*names, "nvidia-driver-of-no-release"}) == {"nvidia-driver-of-no-release"}


def sets_of(release: str) -> set[tuple[str, ...]]:
    """The packages of each driver that a command installs together."""
    found = set()
    for words in commands_of(f"debian-{release}", "apt-get"):
        names = tuple(word for word in words[words.index("install") + 1 :] if not word.startswith("-")) if "install" in words else ()
        if any(name.endswith("cuda1") for name in names) and any(name.endswith(("-dkms", "-driver")) for name in names):
            found.add(names)
    return found


@pytest.mark.long
@network
def test_each_driver_of_debian_installs_as_one_set(debian: Mapping[str, Path]) -> None:
    """What one command asks for together has no conflict, and brings module, libcuda and nvidia-smi.

    `--print-uris` resolves as `-s` does and fetches nothing either; it spares the order of the installation, most of apt's time.
    """
    asked: dict[tuple[str, ...], str] = {}
    for release in RELEASES:
        new = sets_of(release) - set(asked)  # what an earlier release has shown is not asked again
        assert new, release
        asked.update(dict.fromkeys(new, release))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda names: apt(debian[asked[names]], "--print-uris", "-y", "install", *names), asked))
    for (names, release), answer in zip(asked.items(), answers, strict=True):
        assert answer.returncode == 0, f"{release}, {' '.join(names)}: {answer.stderr[-600:]}"
        installed = re.findall(r"^'\S+' ([^_\s]+)_", answer.stdout, re.MULTILINE)
        for end in ("kernel-dkms", "cuda1", "-smi"):
            assert any(name.endswith(end) for name in installed), f"{release}, {' '.join(names)}: nothing that ends in {end}"


# ---------------------------------------------------------------- other archives
OTHERS = {"ubuntu": "apt-get", "fedora": "dnf", "rhel": "dnf", "suse": "zypper", "arch": "pacman"}


def own_family() -> str | None:
    text = Path("/etc/os-release").read_text() if Path("/etc/os-release").is_file() else ""
    words = re.findall(r'^(?:ID|ID_LIKE)="?([^"\n]+)', text, re.MULTILINE)
    return next((family for family in ("ubuntu", "fedora", "rhel", "suse", "arch") if any(family in word.split() for word in words)), None)


@pytest.mark.long
@network
@pytest.mark.parametrize("family", OTHERS)
def test_the_packages_of_other_families_exist(family: str) -> None:
    """On a machine of that family; here it says aloud what was not compared."""
    manager = OTHERS[family]
    if own_family() != family or shutil.which(manager) is None:
        pytest.skip(f"NOT CHECKED: {family}'s package names: this machine has not its archive; the tables were read from it by hand")
    words = {"apt-get": ["apt-cache", "show"], "dnf": ["dnf", "-q", "info"], "zypper": ["zypper", "info"], "pacman": ["pacman", "-Si"]}
    known = asked([*words[manager], "gcc"])
    if known.returncode != 0:
        pytest.skip(f"NOT CHECKED: {family}'s archive does not answer here")
    release = {"ubuntu": "ubuntu-24.04", "fedora": "fedora-42", "rhel": "rhel-9", "suse": "opensuse-leap-15.6", "arch": "arch"}[family]
    for name in installed_names(release, manager):
        if not re.match(r"(?:linux-headers|kernel-devel)-\d", name):
            done = asked([*words[manager], name])
            assert done.returncode == 0, f"{name}: {done.stderr[-300:]}"


# ---------------------------------------------------------------- pip
def python_states() -> Iterator[Facts]:
    """Environments that are told different requirements: driver, GPU and what is installed."""
    for capability, cuda in (("9.0", "13.0"), ("9.0", "12.4"), ("6.1", "12.2"), ("3.5", "11.4"), ("12.0", "13.1"), (None, None)):
        for installed in (
            ("numba", "0.68.1"),
            ("cuda-bindings", "12.9.4"),
            ("torch", "2.6.0"),
            ("cupy-cuda11x", "13.0.0"),
            ("jax", "0.5.0"),
        ):
            python = PythonEnvironment(
                path="/opt/env/bin/python", version="3.12.3", prefix="/opt/env", virtual=True,
                packages=(PythonPackage(name=installed[0], version=PackageVersion(installed[1])),),
            )  # fmt: skip
            gpus = (nvml_gpu(compute_capability=ComputeCapability(capability)),) if capability else ()
            yield facts_of({PYTHON: python, NVML: nvml(gpus=gpus), LADDER: Ladder(cuda=CudaVersion(cuda) if cuda else None)})


@cache
def requirements() -> dict[str, str | None]:
    """Each requirement that a command installs, with the index that the command names: every step, whether its condition holds or not."""
    with_pip = [template for _, _, template in STEPS if PIP.search(template.shell or "") is not None]
    found: dict[str, str | None] = {}
    for facts in python_states():
        for cause in ("toolkit-missing", "toolkit-newer-than-driver", "python-abi-mismatch"):
            case = case_of(finding(cause), {}, facts, KNOWLEDGE, "ubuntu-24.04")
            for template in with_pip:
                for line in (render_step(template, case).shell or "").split("\n"):
                    for words in _commands(line):
                        if "pip" in words and "install" in words:
                            found |= _requirements(words[words.index("install") + 1 :])
    return found


def _requirements(words: list[str]) -> dict[str, str | None]:
    index: str | None = None
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("--index-url", "--extra-index-url", "-i", "--find-links", "-f"):
            index = next(rest, None)
        elif word in ("-r", "-c", "--python", "--upgrade-strategy", "--no-binary", "--only-binary"):
            next(rest, None)
        elif word.startswith("--index-url="):
            index = word.partition("=")[2]
        elif not word.startswith("-") and "$" not in word:
            names.append(word)
    return dict.fromkeys(names, index)


def test_every_requirement_is_one() -> None:
    assert "numba-cuda[cu12]" in requirements()
    for name in requirements():
        try:
            Requirement(name)
        except InvalidRequirement as error:
            pytest.fail(f"{name}: {error}")


PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64")
PYTHONS = ("3.12", "3.10")  # the second for what no longer has wheels of today


def pip(*words: str, python: str = "3.12") -> subprocess.CompletedProcess[str]:
    """pip, asked for wheels of another machine."""
    given = [word for platform in PLATFORMS for word in ("--platform", platform)]
    common = ["--only-binary=:all:", "--disable-pip-version-check", "--retries", "1", "--timeout", "15", "--python-version", python]
    return asked([sys.executable, "-m", "pip", *words, *common, *given])


@cache
def versions(package: str, python: str) -> tuple[str, ...]:
    """What the index has of a package for that Python. Its page alone is read: some of these wheels have hundreds of megabytes."""
    answer = pip("index", "versions", package, python=python)
    found = re.search(r"^Available versions: (.*)$", answer.stdout, re.MULTILINE)
    return tuple(found[1].split(", ")) if found is not None else ()


# Their wheels have hundreds of megabytes, which pip reads in full for the sake of an extra's name.
HEAVY = ("tensorflow", "onnxruntime-gpu", "torch")


def resolves(wanted: Requirement, python: str, folder: Path) -> bool:
    """What an extra asks for only a package's own metadata says, so a requirement with one is resolved in full."""
    if not any(wanted.specifier.contains(version, prereleases=False) for version in versions(wanted.name, python)):
        return False
    if not wanted.extras or wanted.name in HEAVY:
        return True
    answer = pip(
        "install",
        "--dry-run",
        "--no-deps",
        "--ignore-installed",
        "--quiet",
        "--report",
        "-",
        "--target",
        str(folder),
        str(wanted),
        python=python,
    )
    if answer.returncode != 0:
        return False
    metadata = json.loads(answer.stdout)["install"][0]["metadata"]
    return wanted.extras <= set(metadata.get("provides_extra", ()))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if asked([sys.executable, "-m", "pip", "--version"]).returncode != 0:
        pytest.skip("NOT CHECKED: this Python has no pip, so no requirement was resolved")
    answer = pip("index", "versions", "numba-cuda")
    if answer.returncode != 0:
        pytest.skip(f"NOT CHECKED: the package index does not answer here, so no requirement was resolved: {answer.stderr.strip()[-200:]}")
    return tmp_path_factory.mktemp("pip")


@pytest.mark.long
@network
def test_every_requirement_resolves(index: Path) -> None:
    """All that the usual index has, and three that nobody has, which shows that an answer is one."""
    wrong = ["numba-cuda[cu12]==999", "nvidia-ml-py<1", "numba-cuda[no-such-extra]"]
    names = [name for name, own in requirements().items() if own is None]
    assert len(names) > 15

    def found(name: str) -> bool:
        return any(resolves(Requirement(name), python, index) for python in PYTHONS)

    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip([*names, *wrong], pool.map(found, [*names, *wrong]), strict=True))
    assert [name for name, good in answers.items() if not good] == wrong


@pytest.mark.long
@network
def test_the_requirements_of_other_indexes_resolve(index: Path) -> None:
    """PyTorch's wheels come from an index of their own."""
    own = sorted({address for address in requirements().values() if address is not None})
    assert own
    for address in own:
        answer = pip("index", "versions", "torch", "--index-url", address)
        if answer.returncode != 0:
            pytest.skip(f"NOT CHECKED: {address} and {len(own) - 1} like it do not answer here, so PyTorch's builds were not looked up")
        assert f"+{address.rpartition('/')[2]}" in answer.stdout, f"{address} offers no build of its own name"


# ---------------------------------------------------------------- the shell
def shell_text(distros: Iterable[str]) -> tuple[str, ...]:
    """Every command, check and way back that these distributions can be given, each once."""
    found: dict[str, None] = {}
    for distro in distros:
        case = case_of(finding("driver-not-installed"), {}, Facts(()), KNOWLEDGE, distro)
        printed = [step for prescription in prescriptions(distro) for step in prescription.steps]
        for step in (*printed, *(render_step(template, case) for _, _, template in STEPS)):
            found.update(dict.fromkeys(text for text in (step.shell, step.verify, step.undo) if text))
    return tuple(found)


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT CHECKED: no bash here")
@pytest.mark.parametrize("one_in", [10, pytest.param(1, marks=pytest.mark.long)])
def test_shell_text_parses(one_in: int) -> None:
    """Each text by itself: of two with an open quote the second would close the first."""

    def parsed(text: str) -> str | None:
        result = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        return None if result.returncode == 0 else f"{text}\n{result.stderr}"

    texts = shell_text(todays(LINUX, one_in))
    assert len(texts) > 200
    with ThreadPoolExecutor(4) as pool:
        assert [wrong for wrong in pool.map(parsed, texts) if wrong] == []


def test_every_family_is_among_the_distributions() -> None:
    families = {case_of(finding("driver-not-installed"), {}, Facts(()), KNOWLEDGE, distro).system.family for distro in LINUX}
    assert set(BY_FAMILY) <= families


def pip_parts() -> dict[str, tuple[str, ...]]:
    """What pip is asked for on the way of the machines that the project began from, and of a Kepler card without conda."""
    found: dict[str, tuple[str, ...]] = {}
    plans = {name: of_host(name) for name in ("seed-gt740m-nouveau", "windows-basic-display-adapter", "driver-too-new-kepler-535")}
    plans["mx250"] = planned("driver-not-installed", MX250, "manjaro")
    hidden = judge(recording.read(str(HOSTS / "h200-toolkit-hidden")), KNOWLEDGE).prescription
    plans["h200"] = "\n".join(step.shell or "" for step in hidden.steps) if hidden is not None else ""
    for name, plan in plans.items():
        line = next((line for line in plan.split("\n") if " pip install " in line), None)
        if line is not None:
            found[name] = tuple(shlex.split(line.partition(" pip install ")[2]))
    return found


@pytest.mark.long
@network
def test_the_pip_part_of_each_plan_resolves(index: Path) -> None:
    parts = pip_parts()
    assert {"mx250", "h200", "driver-too-new-kepler-535"} <= set(parts)
    for name, wanted in parts.items():
        answer = pip("install", "--dry-run", "--ignore-installed", "--quiet", "--target", str(index), *wanted)
        assert answer.returncode == 0, f"{name}: {' '.join(wanted)}: {answer.stderr[-400:]}"
