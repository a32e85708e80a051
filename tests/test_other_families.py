"""Lines for dnf, zypper and pacman that these package managers refused when tests/cures carried them out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cudadoctor.model.values import DRIVER_PACKAGES, KERNEL, LOADED_DRIVER, PCI, USER, Kernel, LoadedDriver
from cudadoctor.model.version import ModuleVersion
from tests.facts_builder import bus, gpu, packages
from tests.prescriptions import DEVICES, HOPPER, KEPLER, PASCAL, ROOT_USER, commands, shells, written


def state(device: str, *installed: str, loaded: str | None = None, release: str | None = None) -> dict[Any, Any]:
    found: dict[Any, Any] = {PCI: bus(gpu(device=device)), USER: ROOT_USER}
    if installed:
        found[DRIVER_PACKAGES] = packages(*installed)
    if loaded is not None:
        found[LOADED_DRIVER] = LoadedDriver(version=ModuleVersion(loaded), flavour="proprietary")
    if release is not None:
        found[KERNEL] = Kernel(system="Linux", release=release, machine="x86_64")
    return found


# ---------------------------------------------------------------- dnf
@pytest.mark.parametrize(("cause", "values"), [("driver-libraries-incomplete", {}), ("nvidia-smi-missing", {"unfit": "nvidia-smi"})])
@pytest.mark.parametrize("distro", ["fedora-42", "rhel-9.4"])
def test_a_package_that_is_not_there_is_installed_where_it_cannot_be_reinstalled(cause: str, values: dict[str, str], distro: str) -> None:
    """dnf reinstall: "available, but not installed", exit 1. RPM Fusion's driver recommends its CUDA libraries, no more."""
    line = next(line for line in commands(written(cause, state(HOPPER), values, distro)).split("\n") if "reinstall" in line)
    again, _, instead = line.partition(" || ")
    assert instead == again.replace("reinstall", "install")


@pytest.mark.parametrize("cause", ["driver-packages-conflict", "container-cuda-too-new"])
@pytest.mark.parametrize(
    ("distro", "needed"), [("rhel-9-server", "dnf module switch-to -y --allowerasing nvidia-driver:"), ("rocky-10", "dnf versionlock add ")]
)
def test_a_driver_of_a_stream_or_a_locked_branch_is_one_in_each_recipe(cause: str, distro: str, needed: str) -> None:
    """Without the stream: "All matches were filtered out by modular filtering"; without the lock the newest branch comes. A stream that is
    only enabled leaves newer packages of another one in place; switch-to takes them back (tried with dnf 4.14).
    """
    for device in (PASCAL, HOPPER) if "server" in distro else (PASCAL,):
        text = commands(written(cause, state(device), distro=distro))
        assert needed in text, device
        assert text.index(needed) < text.index("dnf install -y --allowerasing ")


def test_a_stream_of_one_branch_has_the_modules_that_are_asked_for() -> None:
    text = commands(written("open-module-required", state(PASCAL), distro="rhel-9-server"))
    assert "dnf module switch-to -y --allowerasing nvidia-driver:580-open" in text
    assert "kmod-nvidia-open-dkms" in text


@pytest.mark.parametrize(
    ("distro", "release", "package"),
    [
        ("amzn-2023", "6.1.134-150.224.amzn2023.x86_64", "kernel-devel-6.1.134-150.224.amzn2023.x86_64"),
        ("amzn-2023", "6.12.22-27.96.amzn2023.x86_64", "kernel6.12-devel-6.12.22-27.96.amzn2023.x86_64"),
        ("rhel-9.4", "5.14.0-427.13.1.el9_4.aarch64+64k", "kernel-64k-devel-5.14.0-427.13.1.el9_4.aarch64"),
        ("almalinux-9", "5.14.0-427.13.1.el9_4.x86_64+rt", "kernel-rt-devel-5.14.0-427.13.1.el9_4.x86_64"),
        ("fedora-42", "6.14.5-300.fc42.x86_64+debug", "kernel-debug-devel-6.14.5-300.fc42.x86_64"),
    ],
)
def test_the_headers_of_a_kernel_with_a_name_of_its_own(distro: str, release: str, package: str) -> None:
    found = shells(written("driver-not-installed", state(HOPPER, release=release), distro=distro))
    assert any(f"{line} ".startswith(f"dnf install -y {package} ") for line in found)


@pytest.mark.parametrize(("branch", "loaded"), [("340", "340.108"), ("470", "470.256.02"), ("580", "580.95.05")])
def test_rpm_fusions_old_branches_have_parts_of_their_own(branch: str, loaded: str) -> None:
    """The current xorg-x11-drv-nvidia-cuda conflicts with them. A loaded 580 alone may have been the current branch."""
    installed = (f"akmod-nvidia-{branch}xx", f"xorg-x11-drv-nvidia-{branch}xx")
    known = state(PASCAL, *installed, loaded=loaded)
    assert f"dnf install -y xorg-x11-drv-nvidia-{branch}xx-cuda" in shells(written("nvidia-smi-missing", known, distro="fedora-42"))
    assert f"dnf install -y xorg-x11-drv-nvidia-{branch}xx-cuda-libs" in commands(written("libcuda-missing", known, distro="fedora-42"))
    current = state(HOPPER, "akmod-nvidia", loaded="580.95.05")
    assert "dnf install -y xorg-x11-drv-nvidia-cuda" in shells(written("nvidia-smi-missing", current, distro="fedora-42"))


@pytest.mark.parametrize(
    ("distro", "lines"),
    [
        (
            "rhel-9.4",
            ("dnf install -y dnf-plugins-core", "dnf config-manager --add-repo", "dnf install -y docker-ce docker-ce-cli containerd.io"),
        ),
        ("centos-7", ("yum install -y yum-utils", "yum-config-manager --add-repo", "yum install -y docker-ce docker-ce-cli containerd.io")),
        ("amzn-2023", ("dnf install -y docker",)),
        ("azurelinux-3", ("dnf install -y moby-engine",)),
        ("openeuler-24.03", ()),
    ],
)
def test_dockers_repository_is_for_rhel_and_what_is_built_from_it(distro: str, lines: tuple[str, ...]) -> None:
    """Its address holds the release's number: there is none for 2023 or 24.03."""
    step = next(
        step for step in written("container-engine-sandboxed", state(HOPPER), distro=distro).steps if "Install Docker Engine" in step.text
    )
    found = (step.shell or "").split("\n") if step.shell else []
    assert len(found) == len(lines)
    assert all(one.startswith(line) for one, line in zip(found, lines, strict=True))


def test_on_centos_7_no_line_calls_dnf() -> None:
    for cause in ("driver-libraries-incomplete", "container-engine-sandboxed", "nvidia-smi-missing"):
        assert not re.search(r"(?<![\w-])dnf(?![\w-])", commands(written(cause, state(HOPPER), distro="centos-7"))), cause


# ---------------------------------------------------------------- zypper
@pytest.mark.parametrize(
    "cause",
    ["driver-packages-conflict", "container-cuda-too-new", "driver-module-missing-for-kernel", "libcuda-missing", "nvidia-smi-missing",
     "driver-libraries-incomplete"],
)  # fmt: skip
@pytest.mark.parametrize("distro", ["opensuse-leap-15.6", "opensuse-tumbleweed", "opensuse-microos"])
def test_the_licence_of_nvidias_packages_is_agreed_to(cause: str, distro: str) -> None:
    """zypper install -y: "Aborting installation due to the need for license confirmation", exit 4."""
    text = commands(written(cause, state(HOPPER), distro=distro))
    asked = [line for line in text.split("\n") if re.search(r"install .*nvidia-(open-driver|driver|compute|video)-", line)]
    assert asked or (distro, cause) == ("opensuse-microos", "driver-module-missing-for-kernel")
    assert all("--auto-agree-with-licenses" in line for line in asked), asked


@pytest.mark.parametrize(("device", "group"), [(KEPLER, "G05"), (DEVICES["fermi"], "G04")])
def test_suses_old_groups_have_libcuda_and_nvidia_smi_in_one_package(device: str, group: str) -> None:
    for cause in ("libcuda-missing", "nvidia-smi-missing", "driver-libraries-incomplete"):
        text = commands(written(cause, state(device), distro="opensuse-leap-15.6"))
        assert f" nvidia-compute{group}" in text, cause
        assert f"nvidia-compute-{group}" not in text
        assert "nvidia-compute-utils" not in text


def test_a_repository_that_is_there_is_not_added_again() -> None:
    """zypper addrepo: "already exists. Please use another alias", exit 4."""
    text = commands(written("container-toolkit-missing", state(HOPPER), distro="opensuse-leap-15.6"))
    assert re.search(r"^zypper repos nvidia-container-toolkit > /dev/null 2>&1 \|\| zypper addrepo ", text, re.MULTILINE)


# ---------------------------------------------------------------- pacman
@pytest.mark.parametrize("cause", ["libcuda-missing", "nvidia-smi-missing", "driver-libraries-incomplete", "container-cuda-too-new"])
def test_packages_of_the_aur_are_not_asked_of_pacman(cause: str) -> None:
    """pacman: "target not found: nvidia-580xx-utils"."""
    text = commands(written(cause, state(PASCAL, loaded="580.95.05"), distro="arch"))
    assert not re.search(r"pacman .*\d{3}xx", text), text
    assert re.search(r"^yay -S (?:--needed )?.*nvidia-580xx-utils$", text, re.MULTILINE)


# ---------------------------------------------------------------- what is removed
@pytest.mark.parametrize(
    ("distro", "goes", "stays"),
    [
        (
            "fedora-42",
            ("akmod-nvidia", "kmod-nvidia-6.14.5-300.fc42.x86_64", "xorg-x11-drv-nvidia", "xorg-x11-drv-nvidia-cuda-libs", "nvidia-modprobe"),
            ("nvidia-container-toolkit", "libnvidia-container1", "nvidia-gpu-firmware", "cuda-toolkit-13-0", "xorg-x11-drv-nouveau"),
        ),
        (
            "rhel-9.4",
            ("kmod-nvidia-open-dkms", "nvidia-driver-cuda-libs", "libnvidia-ml", "nvidia-kmod-common", "nvidia-open", "nvidia-persistenced"),
            ("nvidia-container-toolkit-base", "libnvidia-container-tools", "cuda-compat-13-0"),
        ),
        (
            "opensuse-leap-15.6",
            ("nvidia-gfxG05-kmp-default", "x11-video-nvidiaG05", "nvidia-glG05", "nvidia-computeG05", "nvidia-gl-G06", "nvidia-video-G06",
             "nvidia-open-driver-G06-signed-kmp-default", "nvidia-userspace-meta-G06"),
            ("nvidia-container-toolkit", "kernel-firmware-nvidia"),
        ),
        (
            "arch",
            ("nvidia-open", "nvidia-utils", "lib32-nvidia-utils", "opencl-nvidia", "nvidia-580xx-dkms", "linux612-nvidia", "nvidia"),
            ("nvidia-container-toolkit", "libnvidia-container", "linux-firmware-nvidia", "cuda"),
        ),
    ],
)  # fmt: skip
def test_all_of_the_driver_goes_and_nothing_else(distro: str, goes: tuple[str, ...], stays: tuple[str, ...]) -> None:
    """pacman: "removing nvidia-utils breaks dependency required by lib32-nvidia-utils"; dnf leaves the modules of what is not named."""
    text = commands(written("driver-packages-conflict", state(HOPPER, *goes, *stays), distro=distro))
    line = next(line for line in text.split("\n") if re.search(r" remove | -Rn ", line))
    assert set(line.split()) & {*goes, *stays} == set(goes)


@pytest.mark.parametrize(
    ("distro", "goes", "stays"),
    [
        ("fedora-42", ("akmod-nvidia", "libnvidia-ml", "xorg-x11-drv-nvidia"), ("libnvidia-container1", "nvidia-container-toolkit")),
        ("opensuse-leap-15.6", ("nvidia-gfxG05-kmp-default", "nvidia-glG05", "nvidia-userspace-meta-G06"), ("nvidia-container-toolkit",)),
        ("arch", ("nvidia-open", "linux612-nvidia", "lib32-opencl-nvidia"), ("libnvidia-container", "linux-firmware-nvidia")),
    ],
)
def test_all_of_the_driver_is_found_where_no_list_was_seen(distro: str, goes: tuple[str, ...], stays: tuple[str, ...]) -> None:
    text = commands(written("driver-packages-conflict", state(HOPPER), distro=distro))
    patterns = re.findall(r"grep -E '([^']+)'", next(line for line in text.split("\n") if re.search(r" remove | -Rn ", line)))
    out = re.findall(r"grep -v (\w+)", text)
    found = {name for name in (*goes, *stays) if re.search(patterns[0], name) and not any(word in name for word in out)}
    assert found == set(goes)
