"""Distributions by what users and machines call them; servers and desktops, containers, Secure Boot, headers, images."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cudadoctor.model.values import (
    CONTAINER_MARKS,
    DRIVER_PACKAGES,
    ENVIRONMENT,
    KERNEL,
    LOADED_DRIVER,
    OPERATING_SYSTEM,
    PCI,
    SECURE_BOOT,
    TEGRA,
    USER,
    Environment,
    Kernel,
    LoadedDriver,
    OperatingSystem,
    Package,
)
from cudadoctor.model.version import ModuleVersion
from cudadoctor.prescribe import kernel_module, places, prescribe
from cudadoctor.prescribe.distribution import from_word, of_system
from cudadoctor.prescribe.steps import case_of
from tests.cases import every
from tests.facts_builder import bus, facts_of, gpu, packages, user
from tests.judging import KNOWLEDGE
from tests.prescriptions import (
    AMPERE,
    BLACKWELL,
    HOPPER,
    KEPLER,
    PASCAL,
    RELEASE,
    commands,
    finding,
    written,
)


# ---------------------------------------------------------------- distributions
@pytest.mark.parametrize(
    ("word", "family", "codename"),
    [
        ("ubuntu-24.04", "ubuntu", "noble"), ("ubuntu:22.04", "ubuntu", "jammy"), ("Ubuntu 20.04", "ubuntu", "focal"), ("ubuntu-noble", "ubuntu", "noble"),
        ("Ubuntu 22.04.3 LTS", "ubuntu", "jammy"), ("ubuntu2404", "ubuntu", "noble"), ("ubuntu-server-22.04", "ubuntu", "jammy"), ("noble", "ubuntu", "noble"),
        ("debian-12", "debian", "bookworm"), ("debian-sid", "debian", "sid"), ("Debian GNU/Linux 12", "debian", "bookworm"), ("debian-testing", "debian", "forky"),
        ("fedora-41", "fedora", None), ("fedora-silverblue-40", "fedora", None), ("kinoite", "fedora", None), ("bazzite", "fedora", None), ("nobara-40", "fedora", None),
        ("rhel-9.4", "rhel", None), ("rhel9", "rhel", None), ("el9", "rhel", None), ("Rocky Linux 9.3", "rhel", None), ("almalinux-8", "rhel", None),
        ("oracle-linux-9", "rhel", None), ("centos-stream-9", "rhel", None), ("amazon linux 2023", "rhel", None), ("red hat enterprise linux 8.6", "rhel", None),
        ("arch", "arch", None), ("Arch Linux", "arch", None), ("manjaro", "arch", None), ("endeavouros", "arch", None), ("garuda", "arch", None),
        ("opensuse-leap-15.6", "suse", None), ("tumbleweed", "suse", None), ("sles-15", "suse", None), ("SUSE Linux Enterprise Server 15 SP5", "suse", None),
        ("plan9-4", None, None), ("", None, None), ("linuxmint-22.1", "ubuntu", "noble"), ("Linux Mint 21", "ubuntu", "jammy"), ("lmde-6", "debian", "bookworm"),
        ("pop-22.04", "ubuntu", "jammy"), ("Pop!_OS 22.04", "ubuntu", "jammy"), ("zorin-17", "ubuntu", "jammy"), ("elementary os 7", "ubuntu", "jammy"),
        ("kde-neon-24.04", "ubuntu", "noble"), ("kali", "debian", "forky"), ("raspbian-12", "debian", "bookworm"), ("mx-23", "debian", "bookworm"),
        ("nixos-24.05", "nixos", None), ("windows", "windows", None), ("win11", "windows", None), ("windows-server-2022", "windows", None),
        ("wsl", "ubuntu", None), ("wsl-debian-12", "debian", "bookworm"), ("ubuntu-22.04-wsl2", "ubuntu", "jammy"), ("gentoo", None, None), ("void", None, None),
        ("alpine-3.20", None, None),
    ],
)  # fmt: skip
def test_the_users_word(word: str, family: str | None, codename: str | None) -> None:
    found = from_word(word, KNOWLEDGE)
    assert (found.family, found.codename) == (family, codename)


def test_what_a_word_says_besides() -> None:
    assert from_word("ubuntu-24.04-server", KNOWLEDGE).headless is True
    assert from_word("fedora-workstation-42", KNOWLEDGE).headless is False
    assert from_word("wsl2", KNOWLEDGE).wsl
    assert not from_word("windows-11", KNOWLEDGE).wsl
    assert from_word("kinoite-41", KNOWLEDGE).image == "rpm-ostree"
    assert from_word("sles-15-sp6", KNOWLEDGE).version == "15.6"
    assert from_word("al2023", KNOWLEDGE).repository == "amzn2023"
    assert from_word("rocky-9.3", KNOWLEDGE).repository == "rhel9"
    assert from_word("openeuler-22.03", KNOWLEDGE).repository is None


@pytest.mark.parametrize(
    ("identifier", "like", "family"),
    [
        ("linuxmint", ("ubuntu", "debian"), "ubuntu"), ("rocky", ("rhel", "centos", "fedora"), "rhel"), ("amzn", ("centos", "rhel", "fedora"), "rhel"),
        ("opensuse-leap", ("suse", "opensuse"), "suse"), ("endeavouros", ("arch",), "arch"), ("void", (), None), ("nobara", ("fedora",), "fedora"),
        ("some-respin", ("ubuntu",), "ubuntu"), ("another", ("rhel", "fedora"), "rhel"), ("sled", ("suse",), "suse"), (None, ("ubuntu",), "ubuntu"), (None, (), None),
        ("windows", (), "windows"), ("nixos", (), "nixos"),
    ],
)  # fmt: skip
def test_relatives(identifier: str | None, like: tuple[str, ...], family: str | None) -> None:
    assert of_system(OperatingSystem(id=identifier, like=like), KNOWLEDGE).family == family


@pytest.mark.parametrize(
    ("system", "codename"),
    [
        (OperatingSystem(id="linuxmint", version_id="22.1", codename="xia", like=("ubuntu", "debian")), "noble"),
        (OperatingSystem(id="linuxmint", version_id="6", codename="bookworm", like=("debian",)), "bookworm"),
        (OperatingSystem(id="respin", version_id="3", codename="jammy", like=("ubuntu",)), "jammy"),
        (OperatingSystem(id="respin", version_id="22.04", codename="own-name", like=("ubuntu",)), None),
        (OperatingSystem(id="kali", version_id="2025.1", codename="kali-rolling", like=("debian",)), "forky"),
    ],
)
def test_a_derivative_has_its_parents_codename(system: OperatingSystem, codename: str | None) -> None:
    assert of_system(system, KNOWLEDGE).codename == codename


def test_the_machines_own_word() -> None:
    system = OperatingSystem(id="linuxmint", version_id="22.1", codename="xia", like=("ubuntu", "debian"))
    state = {OPERATING_SYSTEM: system, PCI: bus(gpu(device=KEPLER))}
    assert "nvidia-driver-470" in commands(written("driver-not-installed", state, distro=None))
    assert "nvidia-470xx-dkms" in commands(written("driver-not-installed", state, distro="arch"))


def test_a_jetson_has_its_driver_from_jetpack() -> None:
    state = {OPERATING_SYSTEM: OperatingSystem(id="ubuntu", version_id="22.04"), TEGRA: True, PCI: bus(gpu(device=AMPERE))}
    found = written("driver-not-installed", state, distro=None)
    assert any("JetPack" in step.text for step in found.steps)
    assert "install" not in commands(found)


def test_the_folders_of_repositories() -> None:
    state = {PCI: bus(gpu(device=AMPERE))}
    for distro, words in (
        ("rocky-9.3", "repos/rhel9/x86_64/cuda-rhel9.repo"), ("amzn-2023", "repos/amzn2023/x86_64/cuda-amzn2023.repo"),
        ("rhel", 'repos/rhel"$(rpm -E %rhel)"/x86_64'), ("sles-15-sp6", "/suse/sle15sp6 "), ("opensuse-leap-15.6", "/opensuse/leap/15.6 "),
        ("tumbleweed", "/opensuse/tumbleweed "), ("opensuse", "/opensuse/leap/$releasever"),
    ):  # fmt: skip
        assert words in commands(written("driver-not-installed", state, distro=distro)), distro
    arm = {**state, KERNEL: Kernel(system="Linux", release="5.14.0-362.el9.aarch64", machine="aarch64")}
    assert "repos/rhel9/sbsa/cuda-rhel9.repo" in commands(written("driver-not-installed", arm, distro="rocky-9"))


# ---------------------------------------------------------------- a server or a desktop
@pytest.mark.parametrize(
    ("state", "distro", "headless"),
    [
        ({}, "ubuntu-24.04", False),
        ({}, "ubuntu-24.04-server", True),
        ({DRIVER_PACKAGES: packages("nvidia-headless-535-server")}, "ubuntu-24.04", True),
        ({DRIVER_PACKAGES: packages("nvidia-driver-535")}, "ubuntu-24.04", False),
        ({KERNEL: Kernel(system="Linux", release="6.8.0-1015-aws")}, "ubuntu-24.04", True),
        ({KERNEL: Kernel(system="Linux", release="6.1.0-18-cloud-amd64")}, "debian-12", True),
        ({KERNEL: Kernel(system="Linux", release="6.8.0-1015-aws")}, "ubuntu-24.04-desktop", False),
        ({ENVIRONMENT: Environment(variables={"DISPLAY": ":0"}, lines={}), PCI: bus(gpu(device=HOPPER))}, "ubuntu-24.04", False),
        ({ENVIRONMENT: Environment(variables={"DISPLAY": "localhost:10.0"}, lines={}), PCI: bus(gpu(device=HOPPER))}, "ubuntu-24.04", True),
        ({PCI: bus(gpu(device=HOPPER), gpu(device=AMPERE, address="0000:02:00.0"))}, "ubuntu-24.04", False),
    ],
)
def test_a_server_is_known_by_its_signs(state: dict[Any, Any], distro: str, headless: bool) -> None:
    assert case_of(finding("driver-not-installed"), {}, facts_of(state), KNOWLEDGE, distro).headless is headless


# ---------------------------------------------------------------- where the shell is not the place
def test_the_driver_of_a_container_is_its_hosts() -> None:
    state = {
        PCI: bus(gpu(device=AMPERE)),
        CONTAINER_MARKS: ("/.dockerenv",),
        OPERATING_SYSTEM: OperatingSystem(id="ubuntu", version_id="22.04"),
    }
    inside = written("driver-not-installed", {**state, USER: user("root", 0)}, distro=None)
    assert "its host's" in inside.steps[0].text
    assert "apt-get" not in commands(inside), "the image's distribution is not the host's"
    told = written("driver-not-installed", {**state, USER: user("root", 0)}, distro="fedora-42")
    assert "sudo dnf install" in commands(told), "root of a container is not root of its host"
    assert "host" not in written("cuda-visible-devices-hides-all", state).steps[0].text


def test_the_driver_of_a_clusters_node_is_its_administrators() -> None:
    state = {PCI: bus(gpu(device=AMPERE)), ENVIRONMENT: Environment(variables={"SLURM_JOB_ID": "17"}, lines={})}
    found = written("driver-not-installed", state)
    assert "Slurm" in found.steps[0].text
    assert "apt-get install" in commands(found)


# ---------------------------------------------------------------- Secure Boot, headers, images
@pytest.mark.parametrize(
    ("distro", "words"),
    [
        ("ubuntu-24.04", "mokutil --import /var/lib/shim-signed/mok/MOK.der"), ("debian-12", "mokutil --import /var/lib/dkms/mok.pub"),
        ("fedora-42", "kmodgenca -a"), ("fedora-42", "mokutil --import /etc/pki/akmods/certs/public_key.der"),
        ("rocky-9", "mokutil --import /var/lib/dkms/mok.pub"), ("opensuse-leap-15.6", "/var/lib/nvidia-pubkeys/*.der"),
    ],
)  # fmt: skip
def test_the_key_of_secure_boot_is_the_one_that_this_distribution_signs_with(distro: str, words: str) -> None:
    assert words in commands(written("secure-boot-blocks-module", {}, distro=distro))
    fresh = {PCI: bus(gpu(device=PASCAL)), KERNEL: RELEASE}
    assert words in commands(written("driver-not-installed", {**fresh, SECURE_BOOT: True}, distro=distro))
    for state in ({**fresh, SECURE_BOOT: False}, fresh):
        assert "mokutil" not in commands(written("driver-not-installed", state, distro=distro))


@pytest.mark.parametrize("distro", ["arch", "nixos-25.05", "amzn-2023", "silverblue-42", "opensuse-leap-15.6"])
def test_no_key_is_enrolled_where_it_would_serve_nothing(distro: str) -> None:
    """No shim (Arch, NixOS, EC2), a tree that does not see the key (an image of Fedora), or a package that SUSE signed."""
    found = written("driver-not-installed", {PCI: bus(gpu(device=AMPERE)), KERNEL: RELEASE, SECURE_BOOT: True}, distro=distro)
    assert "mokutil" not in commands(found)
    if distro in ("silverblue-42", "amzn-2023"):
        assert any("Secure Boot is on" in step.text for step in found.steps)
    if not distro.startswith("opensuse"):
        assert "mokutil" not in commands(written("secure-boot-blocks-module", {}, distro=distro))


@pytest.mark.parametrize("distro", ["debian-12", "rocky-9"])
def test_a_module_without_a_signature_is_built_anew(distro: str) -> None:
    """`dkms install --force` alone installs what is built, unsigned as it is; the first build makes the key that is then enrolled."""
    lines = commands(written("secure-boot-blocks-module", {}, distro=distro)).split("\n")
    order = ("dkms build --force", "dkms install --force", "mokutil --import", "reboot")
    places = [next(at for at, line in enumerate(lines) if words in line) for words in order]
    assert places == sorted(places)


def test_a_server_of_ubuntu_takes_the_signed_modules_too() -> None:
    """A rack has nobody in front of the blue screen."""
    found = commands(
        written("driver-not-installed", {PCI: bus(gpu(device=HOPPER)), KERNEL: RELEASE, SECURE_BOOT: True}, distro="ubuntu-24.04")
    )
    assert re.search(r"ubuntu-drivers install --gpgpu nvidia:\d{3}-server-open", found)
    assert re.search(r"apt-get install -y nvidia-utils-\d{3}-server\b", found)
    assert "nvidia-headless" not in found


@pytest.mark.parametrize(
    ("distro", "release", "package"),
    [
        ("ubuntu-24.04", "6.18.5-061805-generic", "linux-headers-6.18.5-061805-generic"),
        ("linuxmint-22", "6.8.0-45-generic", "linux-headers-6.8.0-45-generic"),
        ("debian-12", "6.1.0-18-amd64", "linux-headers-6.1.0-18-amd64 linux-headers-amd64"),
        ("debian-12", "6.1.0-18-cloud-amd64", "linux-headers-6.1.0-18-cloud-amd64 linux-headers-cloud-amd64"),
        ("fedora-42", "6.14.5-300.fc42.x86_64", "kernel-devel-6.14.5-300.fc42.x86_64"),
        ("ol-9", "5.15.0-200.131.27.el9uek.x86_64", "kernel-uek-devel-5.15.0-200.131.27.el9uek.x86_64"),
        ("manjaro", "6.12.4-1-MANJARO", "linux612-headers"),
        ("cachyos", "6.12.4-2-cachyos", "linux-cachyos-headers"),
        ("opensuse-leap-15.6", "6.4.0-150600.23.25-default", "kernel-default-devel"),
        ("opensuse-leap-15.6", "6.4.0-150600.8.20-azure", "kernel-azure-devel"),
    ],
)
def test_headers_are_those_of_the_running_kernel(distro: str, release: str, package: str) -> None:
    own = PASCAL if distro.startswith("opensuse") else AMPERE  # SUSE signs its packages of the open modules, which need no headers
    state = {KERNEL: Kernel(system="Linux", release=release), PCI: bus(gpu(device=own))}
    found = commands(written("driver-not-installed", state, distro=distro))
    assert re.search(rf" {re.escape(package)}(?: nvidia-open-dkms nvidia-utils)?$", found, re.MULTILINE)


@pytest.mark.parametrize(
    ("distro", "words"),
    [
        ("linuxmint-22", '"linux-headers-$(uname -r)"'), ("fedora-42", '"kernel-devel-$(uname -r)"'),
        ("manjaro", '"$(cat "/usr/lib/modules/$(uname -r)/pkgbase")-headers"'),
    ],
)  # fmt: skip
def test_a_kernel_that_is_not_known_is_asked_for_by_the_command(distro: str, words: str) -> None:
    assert words in commands(written("driver-not-installed", {PCI: bus(gpu(device=AMPERE))}, distro=distro))


def test_an_image_is_layered_and_never_changed_by_dnf_or_zypper() -> None:
    for distro, other in (("silverblue-42", "transactional"), ("bazzite", "transactional"), ("opensuse-microos", "ostree")):
        wrong = re.compile(rf"(?:sudo )?(?:dnf|zypper (?:install|remove)|dracut|akmods)\b|.*\b{other}\b")
        for cause in KNOWLEDGE.causes.values():
            for device in (PASCAL, AMPERE):
                found = prescribe(finding(cause.id), {}, facts_of({PCI: bus(gpu(device=device)), KERNEL: RELEASE}), KNOWLEDGE, distro)
                for step in found.steps if found is not None else ():
                    for line in f"{step.shell}\n{step.undo}".split("\n"):
                        assert wrong.match(line) is None, f"{cause.id} on {distro}: {line}"


def test_what_is_layered_is_taken_away_by_name() -> None:
    """rpm-ostree takes no pattern, and refuses what it was not asked for by name (treefile.rs, remove_packages)."""
    found = written(
        "driver-packages-conflict", {DRIVER_PACKAGES: packages("akmod-nvidia", "xorg-x11-drv-nvidia-libs")}, distro="silverblue-42"
    )
    assert "rpm-ostree uninstall -y --idempotent akmod-nvidia xorg-x11-drv-nvidia-libs" in commands(found)
    for cause in KNOWLEDGE.causes:
        compat = prescribe(finding(cause), {}, facts_of({}), KNOWLEDGE, "silverblue-42")
        lines = commands(compat).split("\n") if compat is not None else []
        assert not [line for line in lines if "uninstall" in line and "*" in re.sub(r"\$\([^)]*\)", "", line)]


def test_centos_7_has_yum() -> None:
    found = commands(written("nvidia-smi-missing", {}, distro="centos-7"))
    assert "yum install -y" in found
    assert "dnf" not in found


_NAMES = {
    "ubuntu-24.04": "Ubuntu", "debian-13": "Debian", "fedora-42": "Fedora", "rhel-9": "RHEL", "arch": "Arch", "opensuse-leap-15.6": "openSUSE",
}  # fmt: skip
_LINUX_ONLY = ("sudo ", "/etc/", "dmesg", "apt-get", "systemctl ")
_MANAGERS = {
    "ubuntu-24.04": "apt",
    "debian-13": "apt",
    "fedora-42": "dnf",
    "rhel-9": "dnf",
    "arch": "pacman",
    "opensuse-leap-15.6": "zypper",
}


@every("distro", _NAMES)
@every("cause", sorted(KNOWLEDGE.causes))
def test_no_step_speaks_of_another_system(cause: str, distro: str) -> None:
    """A board with NVIDIA's own system (Jetson, which is Ubuntu) is the one exception."""
    others = {name for name in _NAMES.values() if name != _NAMES[distro]}
    managers = {name for name in _MANAGERS.values() if name != _MANAGERS[distro]}
    found = prescribe(finding(cause), {}, facts_of({}), KNOWLEDGE, distro)
    for step in found.steps if found is not None else ():
        words = re.findall(r"\b[A-Za-z]+\b", f"{step.text} {step.when} {step.shell} {step.verify} {step.undo}")
        if not step.id.startswith("restore-jetson-driver/"):
            assert not (others | managers) & set(words), step.id


@every("cause", sorted(KNOWLEDGE.causes))
def test_no_step_for_windows_speaks_of_linux(cause: str) -> None:
    found = prescribe(finding(cause), {}, facts_of({}), KNOWLEDGE, "windows-11")
    for step in found.steps if found is not None else ():
        said = f"{step.text} {step.shell} {step.verify} {step.undo}"
        assert not any(word in said for word in _LINUX_ONLY), (step.id, said)
        assert not any(f"({name}: " in said for name in _NAMES.values()), (step.id, said)


@pytest.mark.parametrize(
    ("line", "partition"),
    [
        ("srun -p gpu --time=1:00:00 --pty bash", "gpu"),
        ("#SBATCH --partition=a100", "a100"),
        ("srun --mem 8G -p gpu python train.py -p 3", "gpu"),
        ("srun python -m http.server -p 8080", None),
        ("srun -n1 -p cpu --pty bash", None),
        ("srun -w node1 nsys profile -p 3", None),
    ],
)
def test_the_partition_is_slurms_own_option(line: str, partition: str | None) -> None:
    found = places._PARTITION.search(line)
    assert (found["name"] if found is not None else None) == partition


@pytest.mark.parametrize(("version", "behind"), [("3:575.57.08-1.el9", True), ("3:580.95.05-1.el9", False), ("3:590.44.01-1.el9", False)])
def test_only_a_package_that_is_older_than_the_libraries_was_left_behind(version: str, behind: bool) -> None:
    facts = facts_of({DRIVER_PACKAGES: packages("kmod-nvidia-open-dkms", version=version)})
    case = case_of(finding("driver-version-mismatch"), {"module": "575.57.08", "library": "580.95.05"}, facts, KNOWLEDGE, "rhel-9")
    assert dict(kernel_module.values(case))["older_module"] == ("kmod-nvidia-open-dkms" if behind else None)


# ---------------------------------------------------------------- images of Fedora
def _akmods(version: str) -> tuple[Package, ...]:
    return packages("akmod-nvidia", "xorg-x11-drv-nvidia-cuda", version=version)


def test_on_an_image_two_drivers_change_places_in_one_transaction() -> None:
    """RPM Fusion's branches exclude each other, and rpm-ostree erases nothing by itself."""
    state = {PCI: bus(gpu(device=PASCAL)), DRIVER_PACKAGES: _akmods("595.58.03-1.fc43")}
    found = commands(written("driver-too-new-for-gpu", state, distro="silverblue-43"))
    assert "rpm-ostree uninstall -y akmod-nvidia xorg-x11-drv-nvidia-cuda --install akmod-nvidia-580xx" in found
    assert "rpm-ostree install -y --idempotent akmod" not in found


def test_on_an_image_the_kind_of_the_modules_is_no_matter_of_its_packages() -> None:
    """They are layered already; the macro has to reach the tree in which they are built."""
    state = {PCI: bus(gpu(device=BLACKWELL)), DRIVER_PACKAGES: _akmods("595.58.03-1.fc43")}
    found = written("open-module-required", state, distro="silverblue-43")
    assert "akmod" not in commands(found)
    assert any("%_with_kmod_nvidia_open" in step.text for step in found.steps)


def test_fedora_builds_the_other_modules_once_the_headers_are_there() -> None:
    """And a new GPU is not moved to the packages for old ones, whose branch it has by chance."""
    state = {PCI: bus(gpu(device=BLACKWELL)), DRIVER_PACKAGES: _akmods("580.95.05-1.fc43")}
    found = commands(written("open-module-required", state, distro="fedora-43"))
    order = ("macros.nvidia-kmod", "kernel-devel", "akmod-nvidia xorg-x11-drv-nvidia-cuda", "akmods --force --rebuild", "reboot")
    places = [found.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("variant", "image"),
    [
        ("bazzite-gnome", "bazzite-gnome-nvidia-open"),
        ("bazzite-deck-nvidia", "bazzite-deck-nvidia-open"),
        ("kinoite", "bazzite-nvidia-open"),
    ],
)
def test_the_desktop_of_an_image_stays(variant: str, image: str) -> None:
    """Universal Blue writes the image's name into VARIANT_ID."""
    system = OperatingSystem(id="bazzite", like=("fedora",), version_id="43", variant=variant)
    found = commands(written("driver-not-installed", {PCI: bus(gpu(device=AMPERE)), OPERATING_SYSTEM: system}, distro=None))
    assert f"ublue-os/{image}:stable" in found


def test_on_an_image_the_toolkit_is_there_before_it_is_asked_to_do_something() -> None:
    found = commands(written("container-toolkit-missing", {}, distro="silverblue-43"))
    assert "--apply-live nvidia-container-toolkit" in found


# ---------------------------------------------------------------- what a distribution has and has not
def test_suse_builds_and_signs_its_module_itself() -> None:
    """Nothing is built here, so headers are of no use."""
    state = {
        KERNEL: Kernel(system="Linux", release="6.17.5-1-default"),
        PCI: bus(gpu(device=AMPERE)),
        DRIVER_PACKAGES: packages("nvidia-open-driver-G06-signed-kmp-default", version="580.95.05_k6.17.4_1-1.1"),
    }
    found = commands(written("driver-module-missing-for-kernel", state, distro="opensuse-tumbleweed"))
    assert "zypper --non-interactive dup" in found
    assert "devel" not in found
    assert found.endswith("reboot")
    assert "zypper --non-interactive update" in commands(written("driver-module-missing-for-kernel", state, distro="opensuse-leap-15.6"))


@pytest.mark.parametrize(
    ("distro", "words"),
    [
        ("amzn-2023", 'NVCC_PREPEND_FLAGS="-ccbin /usr/bin/g++"'), ("rocky-10", "conda create -y -n gcc-13"), ("rocky-9", "dnf install -y gcc-toolset-13"),
    ],
)  # fmt: skip
def test_an_older_compiler_comes_from_where_it_is(distro: str, words: str) -> None:
    line = "#error -- unsupported GNU version! gcc versions later than 13 are not supported!"
    found = prescribe(finding("host-compiler-unsupported", line), {}, facts_of({}), KNOWLEDGE, distro)
    assert found is not None
    assert words in commands(found)
    assert ("gcc-toolset" in commands(found)) == (distro == "rocky-9")


def test_amazons_kernel_needs_its_further_modules() -> None:
    state = {KERNEL: Kernel(system="Linux", release="6.12.40-64.114.amzn2023.x86_64"), PCI: bus(gpu(device=AMPERE))}
    assert "kernel6.12-modules-extra-6.12.40-64.114.amzn2023.x86_64" in commands(written("driver-not-installed", state, distro="amzn-2023"))


def test_pop_os_has_a_driver_of_its_own() -> None:
    assert "apt-get install -y system76-driver-nvidia" in commands(
        written("driver-not-installed", {PCI: bus(gpu(device=AMPERE))}, distro="pop-24.04")
    )


def test_a_jetson_takes_the_container_toolkit_of_jetpack() -> None:
    found = commands(written("container-toolkit-missing", {TEGRA: True}, distro="ubuntu-22.04"))
    assert "apt-get install -y nvidia-container-toolkit" in found
    assert "nvidia.github.io" not in found


# ---------------------------------------------------------------- Fabric Manager
def _fabric(version: str, *names: str) -> str:
    state = {LOADED_DRIVER: LoadedDriver(version=ModuleVersion(version)), DRIVER_PACKAGES: packages(*names, version=f"{version}-0ubuntu1")}
    return commands(written("fabric-manager-not-running", state, distro="ubuntu-24.04"))


def test_ubuntus_fabric_manager_comes_with_its_driver_for_servers() -> None:
    """It depends on that driver in one version, and the archive keeps the newest alone."""
    found = _fabric("580.95.05", "nvidia-driver-580-open")
    assert "apt-get install -y nvidia-driver-580-server-open nvidia-fabricmanager-580\n" in found
    assert "reboot" in found


def test_fabric_manager_of_nvidias_repository_has_its_version_and_removes_nothing() -> None:
    found = _fabric("595.58.03", "nvidia-open", "nvidia-fabricmanager")
    assert "apt-get install -y --no-remove --allow-downgrades 'nvidia-fabricmanager=595.58.03*'" in found
    assert "nvidia-fabricmanager-580=" in _fabric("580.95.05", "cuda-drivers")
