"""What a prescription chooses: the driver for GPU and distribution, the Python packages for driver and GPU."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from packaging.requirements import Requirement

from cudadoctor.model.facts import Facts
from cudadoctor.model.values import (
    DRIVER_PACKAGES,
    KERNEL,
    LADDER,
    NVML,
    OPERATING_SYSTEM,
    PCI,
    PYTHON,
    Kernel,
    Ladder,
    OperatingSystem,
    PciFunction,
    PythonEnvironment,
    PythonPackage,
)
from cudadoctor.model.version import ComputeCapability, CudaVersion, PackageVersion
from cudadoctor.prescribe import prescribe
from cudadoctor.prescribe.distribution import family_of, from_word
from cudadoctor.prescribe.packages import resolved
from tests.facts_builder import ADDRESS, bus, facts_of, gpu, nvml, nvml_gpu, packages
from tests.prescriptions import (
    AMPERE,
    BLACKWELL,
    HOPPER,
    KEPLER,
    KNOWLEDGE,
    PASCAL,
    RELEASE,
    RELEASES,
    VOLTA,
    commands,
    finding,
    shells,
    written,
)


# ---------------------------------------------------------------- the driver
def driver_for(device: str, distro: str | None, **state: Any) -> str:
    return commands(written("driver-not-installed", {PCI: bus(gpu(driver=None, device=device)), KERNEL: RELEASE}, distro=distro))


@pytest.mark.parametrize(
    ("device", "distro", "command"),
    [
        (KEPLER, "ubuntu-20.04", "apt-get install -y nvidia-driver-470"),
        (KEPLER, "ubuntu-22.04", "apt-get install -y nvidia-driver-470"),
        (KEPLER, "ubuntu-24.04", "apt-get install -y nvidia-driver-470"),
        (PASCAL, "ubuntu-24.04", "apt-get install -y nvidia-driver-580"),
        (VOLTA, "ubuntu-26.04", "apt-get install -y nvidia-driver-580"),
        (HOPPER, "ubuntu-24.04", "apt-get install -y nvidia-driver-595-open"),
        (HOPPER, "ubuntu-20.04", "apt-get install -y nvidia-driver-570-open"),
        (BLACKWELL, "ubuntu-22.04", "apt-get install -y nvidia-driver-595-open"),
        (AMPERE, "ubuntu-26.04", "apt-get install -y nvidia-driver-595-open"),
        (KEPLER, "debian-12", "apt-get install -y nvidia-tesla-470-driver"),
        (PASCAL, "debian-12", "apt-get install -y nvidia-driver"),
        (PASCAL, "debian-13", "apt-get install -y nvidia-driver"),
        (AMPERE, "debian-13", "apt-get install -y nvidia-driver nvidia-open-kernel-dkms"),
        (KEPLER, "fedora-42", "dnf install -y --allowerasing akmod-nvidia-470xx xorg-x11-drv-nvidia-470xx-cuda"),
        (PASCAL, "fedora-42", "dnf install -y --allowerasing akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda"),
        (HOPPER, "fedora-42", "dnf install -y --allowerasing akmod-nvidia xorg-x11-drv-nvidia-cuda"),
        (PASCAL, "rhel-9.4", "dnf module install -y nvidia-driver:580-dkms"),
        (HOPPER, "rhel-9.4", "dnf module install -y nvidia-driver:open-dkms"),
        (HOPPER, "rocky-10", "dnf install -y --allowerasing nvidia-open"),
        (PASCAL, "arch", "yay -S --needed nvidia-580xx-dkms nvidia-580xx-utils"),
        (KEPLER, "arch", "yay -S --needed nvidia-470xx-dkms nvidia-470xx-utils"),
        (HOPPER, "arch", "pacman -S --needed nvidia-open-dkms nvidia-utils"),
        (PASCAL, "opensuse-leap-15.6", "zypper install -y nvidia-driver-G06-kmp-meta nvidia-compute-utils-G06"),
        (HOPPER, "opensuse-tumbleweed", "zypper install -y nvidia-open-driver-G07-signed-kmp-meta nvidia-compute-utils-G07"),
    ],
)
def test_the_driver_that_fits_gpu_and_distribution(device: str, distro: str, command: str) -> None:
    lines = driver_for(device, distro).split("\n")
    assert command in [line.removeprefix("sudo ") for line in lines]
    assert lines[-1] == "sudo reboot"


@pytest.mark.parametrize(
    ("device", "distro", "branch"), [(KEPLER, "ubuntu-26.04", "470"), (BLACKWELL, "debian-13", "570"), (KEPLER, "rocky-10", "470")]
)
def test_a_branch_that_is_not_packaged_is_said(device: str, distro: str, branch: str) -> None:
    found = written("driver-not-installed", {PCI: bus(gpu(device=device))}, distro=distro)
    text = " ".join(step.text for step in found.steps)
    assert f"branch {branch}" in text
    assert "no package" in text
    assert "nvidia.com" in text
    assert "reboot" not in commands(found)
    assert not re.search(r"install -y \S*nvidia", commands(found))


def test_ubuntu_chooses_where_the_gpu_is_not_known() -> None:
    found = written("driver-not-installed", {KERNEL: RELEASE})
    assert "ubuntu-drivers install" in commands(found)


def test_gpus_of_two_generations_get_the_branch_of_the_older() -> None:
    both = bus(gpu(device=PASCAL), gpu(device=HOPPER, address="0000:02:00.0"))
    assert "nvidia-driver-580\n" in commands(written("driver-not-installed", {PCI: both}))
    never = bus(gpu(device=KEPLER), gpu(device=BLACKWELL, address="0000:02:00.0"))
    found = written("driver-not-installed", {PCI: never})
    assert "no single driver" in " ".join(step.text for step in found.steps)


def test_the_message_names_the_branch_where_nothing_else_does() -> None:
    found = written("driver-too-new-for-gpu", {}, {"legacy_branch": "470"}, "ubuntu-22.04")
    assert "nvidia-driver-470" in commands(found)
    quoted_id = finding("driver-too-old-for-gpu", "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2d04)")
    made = prescribe(quoted_id, {}, Facts(()), KNOWLEDGE, "ubuntu-24.04")
    assert made is not None
    assert "nvidia-driver-595-open" in commands(made)


def test_a_gpu_of_which_only_the_name_is_known() -> None:
    named = PciFunction(address=ADDRESS, vendor="10de", class_code="0302", name="GK208M [GeForce GT 740M]")
    assert "nvidia-driver-470" in commands(written("nouveau-bound", {PCI: bus(named)}, distro="ubuntu-22.04"))


def test_nouveau_with_a_fitting_driver_installed_needs_no_install() -> None:
    state = {PCI: bus(gpu("nouveau", PASCAL)), DRIVER_PACKAGES: packages("nvidia-driver-580", "nvidia-dkms-580"), KERNEL: RELEASE}
    found = written("nouveau-bound", state)
    assert found.action == "reboot"
    assert "apt-get" not in commands(found)
    assert "blacklist nouveau" in commands(found)
    without = written("nouveau-bound", {**state, DRIVER_PACKAGES: packages()})
    assert without.action == "install-driver"
    assert "nvidia-driver-580" in commands(without)
    assert "update-initramfs -u" in commands(without)
    misfit = written("nouveau-bound", {**state, DRIVER_PACKAGES: packages("nvidia-driver-595")})
    assert "nvidia-driver-580" in commands(misfit)


def test_transitional_packages_are_followed_to_their_end() -> None:
    assert resolved("nvidia-driver-535", "noble", KNOWLEDGE) == "nvidia-driver-580"
    assert resolved("nvidia-driver-580", "noble", KNOWLEDGE) == "nvidia-driver-580"
    for row in KNOWLEDGE.ubuntu_transitional:
        assert row.ends_at in {package.package for package in KNOWLEDGE.ubuntu_packages(row.release)}
    installed = {DRIVER_PACKAGES: packages("nvidia-driver-535-server")}
    assert "nvidia-utils-580-server" in commands(written("nvidia-smi-missing", installed, distro="ubuntu-24.04"))
    assert "nvidia-utils-535-server" in commands(written("nvidia-smi-missing", installed, distro="ubuntu-20.04"))


@pytest.mark.parametrize("distro", [name for name in RELEASES if name and name.startswith("ubuntu")])
def test_ubuntu_packages_that_are_named_exist(distro: str) -> None:
    known = {row.package for row in KNOWLEDGE.ubuntu_packages(from_word(distro).codename or "")}
    for device in (KEPLER, PASCAL, VOLTA, AMPERE, HOPPER, BLACKWELL):
        assert set(re.findall(r"nvidia-driver-\S+", driver_for(device, distro))) <= known


def test_headers_and_prebuilt_modules_are_those_of_the_running_kernel() -> None:
    found = commands(written("driver-module-missing-for-kernel", {KERNEL: RELEASE}))
    assert "linux-headers-6.8.0-45-generic" in found
    assert "dkms autoinstall -k 6.8.0-45-generic" in found
    built = packages("linux-modules-nvidia-580-open-6.8.0-40-generic")
    found = commands(written("driver-module-missing-for-kernel", {KERNEL: RELEASE, DRIVER_PACKAGES: built}))
    assert "linux-modules-nvidia-580-open-6.8.0-45-generic" in found
    assert "dkms" not in found
    lts = Kernel(system="Linux", release="6.12.8-1-lts")
    assert "linux-lts-headers" in commands(written("driver-module-missing-for-kernel", {KERNEL: lts}, distro="arch"))


def test_only_the_linux_driver_leaves_wsl() -> None:
    here = packages("nvidia-driver-535", "libnvidia-compute-535", "libnvidia-container1", "nvidia-container-toolkit", "cuda-toolkit-12-4")
    found = commands(written("wsl-linux-driver-installed", {DRIVER_PACKAGES: here}))
    assert "purge -y nvidia-driver-535 libnvidia-compute-535\n" in found


# ---------------------------------------------------------------- distributions
@pytest.mark.parametrize(
    ("word", "family", "codename"),
    [
        ("ubuntu-24.04", "ubuntu", "noble"), ("ubuntu:22.04", "ubuntu", "jammy"), ("Ubuntu 20.04", "ubuntu", "focal"), ("ubuntu-noble", "ubuntu", "noble"),
        ("debian-12", "debian", "bookworm"), ("fedora-41", "fedora", None), ("rhel-9.4", "rhel", None), ("rocky-9", "rhel", None), ("arch", "arch", None),
        ("opensuse-leap-15.6", "suse", None), ("sles-15", "suse", None), ("plan9-4", None, None), ("", None, None), ("linuxmint-22.1", None, "noble"),
    ],
)  # fmt: skip
def test_the_users_word(word: str, family: str | None, codename: str | None) -> None:
    found = from_word(word)
    assert (found.family, found.codename) == (family, codename)


@pytest.mark.parametrize(
    ("identifier", "like", "family"),
    [
        ("linuxmint", ("ubuntu", "debian"), "ubuntu"), ("rocky", ("rhel", "centos", "fedora"), "rhel"), ("amzn", ("centos", "rhel", "fedora"), "rhel"),
        ("opensuse-leap", ("suse", "opensuse"), "suse"), ("endeavouros", ("arch",), "arch"), ("void", (), None), ("nobara", ("fedora",), "fedora"),
    ],
)  # fmt: skip
def test_relatives(identifier: str, like: tuple[str, ...], family: str | None) -> None:
    assert family_of(identifier, like) == family


def test_the_machines_own_word() -> None:
    system = OperatingSystem(id="linuxmint", version_id="22.1", codename="xia", like=("ubuntu", "debian"))
    state = {OPERATING_SYSTEM: system, PCI: bus(gpu(device=KEPLER))}
    assert "nvidia-driver-470" in commands(written("driver-not-installed", state, distro=None))
    assert "nvidia-470xx-dkms" in commands(written("driver-not-installed", state, distro="arch"))


# ---------------------------------------------------------------- Python
def python(*installed: tuple[str, str], conda: str | None = None) -> PythonEnvironment:
    return PythonEnvironment(
        path="/opt/my env/bin/python", version="3.12.3", prefix="/opt/my env", conda=conda,
        packages=tuple(PythonPackage(name=name, version=PackageVersion(version)) for name, version in installed),
    )  # fmt: skip


def machine(capability: str | None, cuda: str | None, *installed: tuple[str, str], conda: str | None = None) -> dict[Any, Any]:
    gpus = (nvml_gpu(compute_capability=ComputeCapability(capability)),) if capability else ()
    return {
        NVML: nvml(gpus=gpus),
        LADDER: Ladder(cuda=CudaVersion(cuda) if cuda else None),
        PYTHON: python(*installed, conda=conda),
    }


@pytest.mark.parametrize(
    ("capability", "cuda", "installed", "requirement"),
    [
        ("9.0", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu13]"),
        ("9.0", "13.0", ("cuda-bindings", "12.9.4"), "numba-cuda[cu12]"),
        ("9.0", "13.0", ("nvidia-cublas-cu12", "12.9"), "numba-cuda[cu12]"),
        ("9.0", "13.2", ("numpy", "2.0.0"), "numba-cuda[cu13]"),
        ("9.0", "12.4", ("cuda-bindings", "13.1.0"), "numba-cuda[cu12]"),
        ("6.1", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu12]"),
        ("7.0", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu12]"),
        ("7.5", "13.0", ("cuda-bindings", "13.1.0"), "numba-cuda[cu13]"),
        ("3.5", "11.4", ("numpy", "1.26.4"), "numba-cuda[cu11]<0.19"),
        (None, None, ("numpy", "1.26.4"), "numba-cuda[cu12]"),
    ],
)
def test_the_toolkit_that_fits_driver_and_gpu(
    capability: str | None, cuda: str | None, installed: tuple[str, str], requirement: str
) -> None:
    Requirement(requirement)
    found = shells(written("toolkit-missing", machine(capability, cuda, installed)))
    assert shlex.split(found[0]) == ["/opt/my env/bin/python", "-m", "pip", "install", requirement]


def test_a_gpu_that_no_toolkit_of_numba_cuda_serves_gets_words() -> None:
    assert shells(written("toolkit-missing", machine("3.0", "11.4"))) == []


def test_a_conda_environment_gets_conda() -> None:
    found = shells(written("toolkit-missing", machine("9.0", "12.4", conda="/opt/my env")))
    assert shlex.split(found[0])[:7] == ["conda", "install", "-y", "-p", "/opt/my env", "-c", "conda-forge"]
    assert "cuda-version=12" in shlex.split(found[0])
    assert "pip" not in found[0]


@pytest.mark.parametrize(
    ("numba", "target", "bound"),
    [("0.68.1", "0.30.4", "2.5"), ("0.61.0", "0.20.0", "2.2"), ("0.59.1", None, "1.27"), ("0.68.1", "0.31.0", "2.6")],
)
def test_numpy_below_the_limit_of_numba_and_numba_cuda(numba: str, target: str | None, bound: str) -> None:
    packages_ = (("numba", numba), *((("numba-cuda", target),) if target else ()))
    state = machine("9.0", "12.4", *packages_)
    root = finding("python-abi-mismatch", "ImportError: Numba needs NumPy 2.2 or less. Got NumPy 2.4.")
    found = prescribe(root, {}, facts_of(state), KNOWLEDGE, None)
    assert found is not None
    assert shlex.split(shells(found)[0])[-1] == f"numpy<{bound}"
    Requirement(shlex.split(shells(found)[0])[-1])


def test_the_rules_own_requirement_comes_first() -> None:
    found = written("python-abi-mismatch", machine("9.0", "12.4"), {"requirement": "llvmlite<0.51,>=0.50", "package": "llvmlite"})
    assert Requirement(shlex.split(shells(found)[0])[-1]) == Requirement("llvmlite>=0.50,<0.51")
    assert shells(written("python-abi-mismatch", machine("9.0", "12.4"), {"requirement": "no requirement; at all ("})) == []


def test_a_toolkit_too_new_is_pinned_to_the_driver_or_the_driver_renewed() -> None:
    found = written("toolkit-newer-than-driver", machine("9.0", "12.2"), {"version": "12.8"})
    assert shlex.split(shells(found)[0])[-2:] == ["numba-cuda[cu12]", "cuda-toolkit==12.2.*"]
    assert "reboot" not in commands(found)
    bare = {PCI: bus(gpu(device=PASCAL)), DRIVER_PACKAGES: packages("nvidia-driver-470"), KERNEL: RELEASE}
    assert "nvidia-driver-580" in commands(written("toolkit-newer-than-driver", bare, {"version": "12.8"}))
