"""What a prescription chooses: the driver for each GPU on each distribution."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from cudadoctor.model.facts import Facts
from cudadoctor.model.values import (
    DKMS,
    DRIVER_PACKAGES,
    KERNEL,
    PCI,
    SETTING,
    Kernel,
    PciFunction,
    Setting,
)
from cudadoctor.prescribe import prescribe
from cudadoctor.prescribe.distribution import from_word
from cudadoctor.prescribe.families import resolved
from cudadoctor.prescribe.steps import case_of
from tests.cases import every
from tests.facts_builder import ADDRESS, bus, facts_of, gpu, packages
from tests.judging import KNOWLEDGE
from tests.pasted import report
from tests.prescriptions import (
    AMPERE,
    BLACKWELL,
    DEVICES,
    FERMI,
    HOPPER,
    KEPLER,
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


def zypper(packages: str) -> str:
    return f"zypper install -y --auto-agree-with-licenses --force-resolution {packages}"


@pytest.mark.parametrize(
    ("device", "distro", "command"),
    [
        (KEPLER, "ubuntu-20.04", "ubuntu-drivers install nvidia:470"),
        (KEPLER, "ubuntu-22.04", "ubuntu-drivers install nvidia:470"),
        (KEPLER, "ubuntu-24.04", "ubuntu-drivers install nvidia:470"),
        (PASCAL, "ubuntu-24.04", "ubuntu-drivers install nvidia:580"),
        (VOLTA, "ubuntu-26.04", "ubuntu-drivers install nvidia:580"),
        (HOPPER, "ubuntu-24.04", "ubuntu-drivers install --gpgpu nvidia:595-server-open"),
        (HOPPER, "ubuntu-20.04", "ubuntu-drivers install --gpgpu nvidia:570-server-open"),
        (AMPERE, "ubuntu-20.04", "ubuntu-drivers install nvidia:570-open"),
        (BLACKWELL, "ubuntu-22.04", "ubuntu-drivers install nvidia:595-open"),
        (AMPERE, "ubuntu-26.04", "ubuntu-drivers install nvidia:595-open"),
        (KEPLER, "debian-12", "apt-get install -y nvidia-tesla-470-driver libnvidia-tesla-470-cuda1 nvidia-tesla-470-smi"),
        (PASCAL, "debian-12", "apt-get install -y nvidia-driver libcuda1 nvidia-smi"),
        (PASCAL, "debian-13", "apt-get install -y nvidia-driver libcuda1 nvidia-smi"),
        (PASCAL, "debian-13-server", "apt-get install -y nvidia-kernel-dkms libcuda1 nvidia-smi"),
        (AMPERE, "debian-13", "apt-get install -y nvidia-driver nvidia-open-kernel-dkms libcuda1 nvidia-smi"),
        (BLACKWELL, "debian-13", "apt-get install -y nvidia-open"),
        (BLACKWELL, "lmde-6", "apt-get install -y nvidia-open"),
        (KEPLER, "fedora-42", "dnf install -y --allowerasing akmod-nvidia-470xx xorg-x11-drv-nvidia-470xx-cuda"),
        (PASCAL, "fedora-42", "dnf install -y --allowerasing akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda"),
        (HOPPER, "fedora-42", "dnf install -y --allowerasing akmod-nvidia xorg-x11-drv-nvidia-cuda"),
        (PASCAL, "rhel-9.4", "dnf module install -y --allowerasing nvidia-driver:580-dkms"),
        (AMPERE, "rhel-9.4", "dnf module install -y --allowerasing nvidia-driver:open-dkms"),
        (HOPPER, "rhel-9.4", "dnf install -y --allowerasing nvidia-driver-cuda kmod-nvidia-open-dkms"),
        (AMPERE, "rocky-10", "dnf install -y --allowerasing nvidia-open"),
        (PASCAL, "rocky-10", "dnf versionlock add '*nvidia*580*'"),
        (KEPLER, "rocky-8", "dnf module install -y --allowerasing nvidia-driver:470-dkms"),
        (AMPERE, "amazonlinux-2023", "dnf module install -y --allowerasing nvidia-driver:open-dkms"),
        (PASCAL, "arch", "yay -S --needed nvidia-580xx-dkms nvidia-580xx-utils"),
        (KEPLER, "arch", "yay -S --needed nvidia-470xx-dkms nvidia-470xx-utils"),
        (HOPPER, "arch", "pacman -Syu --needed linux-headers nvidia-open-dkms nvidia-utils"),
        (FERMI, "arch", "yay -S --needed nvidia-390xx-dkms nvidia-390xx-utils"),
        (PASCAL, "manjaro", "mhwd -a pci nonfree 0302"),
        (PASCAL, "opensuse-leap-15.6", zypper("nvidia-driver-G06-kmp-meta nvidia-video-G06 nvidia-compute-utils-G06")),
        (AMPERE, "opensuse-leap-15.6", zypper("nvidia-open-driver-G06-signed-kmp-meta nvidia-video-G06 nvidia-compute-utils-G06")),
        (AMPERE, "opensuse-leap-16.0", zypper("nvidia-open-driver-G07-signed-kmp-meta nvidia-video-G07 nvidia-compute-utils-G07")),
        (HOPPER, "opensuse-tumbleweed", zypper("nvidia-open-driver-G07-signed-kmp-meta nvidia-compute-utils-G07")),
        (HOPPER, "sles-15-sp6", zypper("nvidia-open-driver-G06-signed-kmp-meta nvidia-compute-utils-G06")),
        (KEPLER, "linuxmint-21.3", "apt-get install -y nvidia-driver-470"),
        (KEPLER, "ubuntu", "ubuntu-drivers install"),
        (PASCAL, "silverblue-42", "rpm-ostree install -y --idempotent akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda"),
        (AMPERE, "bazzite", "rpm-ostree rebase ostree-image-signed:docker://ghcr.io/ublue-os/bazzite-nvidia-open:stable"),
        (PASCAL, "nixos-25.05", "nixos-rebuild boot"),
    ],
)
def test_the_driver_that_fits_gpu_and_distribution(device: str, distro: str, command: str) -> None:
    lines = driver_for(device, distro).split("\n")
    assert command in [line.removeprefix("sudo ") for line in lines]
    assert lines[-1] == "sudo reboot"


@pytest.mark.parametrize(
    ("device", "distro", "branch"),
    [
        (KEPLER, "ubuntu-26.04", "470"),
        (BLACKWELL, "debian-sid", "570"),
        (KEPLER, "rocky-10", "470"),
        (KEPLER, "rocky-9", "470"),
        (FERMI, "ubuntu-24.04", "390"),
        (KEPLER, "debian-13", "470"),
        (AMPERE, "openeuler-24.03", "515"),
        (PASCAL, "centos-7", "580"),
    ],
)
def test_a_branch_that_is_not_packaged_is_said(device: str, distro: str, branch: str) -> None:
    found = written("driver-not-installed", {PCI: bus(gpu(device=device))}, distro=distro)
    text = " ".join(step.text for step in found.steps)
    assert f"branch {branch}" in text
    assert "no package" in text
    assert "nvidia.com" in text
    assert "reboot" not in commands(found)
    assert not re.search(r"install -y \S*nvidia", commands(found))


def test_a_release_that_has_the_branch_is_named() -> None:
    found = written("driver-not-installed", {PCI: bus(gpu(device=KEPLER))}, distro="ubuntu-26.04")
    assert any("Ubuntu 24.04 (noble) is the last release" in step.text for step in found.steps)
    old = written("driver-not-installed", {PCI: bus(gpu(device=KEPLER))}, distro="debian-13")
    assert any("Debian 12 (bookworm) is the last release" in step.text for step in old.steps)


# ---------------------------------------------------------------- every generation on every family
# What is installed, by its most telling name; None: words alone.
MIDDLE, NEW = ("maxwell", "pascal", "volta"), ("turing", "ampere", "ada", "hopper")
CHOICES: dict[str, tuple[str | None, str | None, str | None, str | None, str | None]] = {
    #                        fermi                kepler                    maxwell to volta           turing to hopper            blackwell
    "ubuntu-20.04-desktop": ("nvidia-driver-390", "nvidia-driver-470", "nvidia-driver-570", "nvidia-driver-570-open", "nvidia-driver-570-open"),
    "ubuntu-22.04-desktop": ("nvidia-driver-390", "nvidia-driver-470", "nvidia-driver-580", "nvidia-driver-595-open", "nvidia-driver-595-open"),
    "ubuntu-24.04-server": (None, "nvidia-headless-470-server", "nvidia-headless-580-server", "nvidia-headless-595-server-open",
                            "nvidia-headless-595-server-open"),
    "ubuntu-26.04-desktop": (None, None, "nvidia-driver-580", "nvidia-driver-595-open", "nvidia-driver-595-open"),
    "debian-11-desktop": ("nvidia-legacy-390xx-driver", "nvidia-driver", "nvidia-driver", None, None),
    "debian-12-desktop": (None, "nvidia-tesla-470-driver", "nvidia-driver", "nvidia-driver", "nvidia-open"),
    "debian-13-desktop": (None, None, "nvidia-driver", "nvidia-open-kernel-dkms", "nvidia-open"),
    "debian-13-server": (None, None, "nvidia-kernel-dkms", "nvidia-open-kernel-dkms", "nvidia-kernel-open-dkms"),
    "debian-sid-server": ("nvidia-legacy-390xx-kernel-dkms", "nvidia-tesla-470-kernel-dkms", "nvidia-kernel-dkms", "nvidia-open-kernel-dkms", None),
    "fedora-42": ("akmod-nvidia-390xx", "akmod-nvidia-470xx", "akmod-nvidia-580xx", "akmod-nvidia", "akmod-nvidia"),
    "silverblue-42": ("akmod-nvidia-390xx", "akmod-nvidia-470xx", "akmod-nvidia-580xx", "akmod-nvidia", "akmod-nvidia"),
    "bazzite": (None, None, "bazzite-nvidia:stable", "bazzite-nvidia-open:stable", "bazzite-nvidia-open:stable"),
    "rocky-8-desktop": (None, "nvidia-driver:470-dkms", "nvidia-driver:580-dkms", "nvidia-driver:open-dkms", "nvidia-driver:open-dkms"),
    "rocky-9-desktop": (None, None, "nvidia-driver:580-dkms", "nvidia-driver:open-dkms", "nvidia-driver:open-dkms"),
    "rocky-9-server": (None, None, "kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms", "kmod-nvidia-open-dkms"),
    "rocky-10-desktop": (None, None, "kmod-nvidia-latest-dkms", "nvidia-open", "nvidia-open"),
    "rocky-10-server": (None, None, "kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms", "kmod-nvidia-open-dkms"),
    "arch": ("nvidia-390xx-dkms", "nvidia-470xx-dkms", "nvidia-580xx-dkms", "nvidia-open-dkms", "nvidia-open-dkms"),
    "opensuse-leap-15.6-desktop": ("x11-video-nvidiaG04", "x11-video-nvidiaG05", "nvidia-driver-G06-kmp-meta", "nvidia-open-driver-G06-signed-kmp-meta",
                                   "nvidia-open-driver-G06-signed-kmp-meta"),
    "opensuse-tumbleweed-server": ("x11-video-nvidiaG04", "x11-video-nvidiaG05", "nvidia-driver-G06-kmp-meta",
                                   "nvidia-open-driver-G07-signed-kmp-meta", "nvidia-open-driver-G07-signed-kmp-meta"),
    "gentoo": (None, None, None, None, None),
}  # fmt: skip


@every("distro", CHOICES)
def test_each_generation_gets_its_driver(distro: str) -> None:
    columns = (("fermi",), ("kepler",), MIDDLE, NEW, ("blackwell",))
    for generations, column in zip(columns, CHOICES[distro], strict=True):
        for generation in generations:
            case = case_of(finding("driver-not-installed"), {}, facts_of({PCI: bus(gpu(device=DEVICES[generation]))}), KNOWLEDGE, distro)
            # Debian 11 has branch 470, which knows the first two of the newer generations.
            wanted = "nvidia-driver" if distro == "debian-11-desktop" and generation in ("turing", "ampere") else column
            chosen = " ".join((*case.driver.packages, case.driver.stream or "")).split()
            if wanted is None:
                assert chosen == [], generation
                assert case.driver.words
            else:
                assert wanted in [name.rpartition("/")[2] for name in chosen], f"{generation}: {chosen}"
            open_ = generation in (*NEW, "blackwell")
            assert not (open_ and "proprietary" in case.driver.words), f"{generation}: {case.driver.words}"
            assert not (not open_ and "open kernel modules" in case.driver.words), f"{generation}: {case.driver.words}"


@pytest.mark.parametrize(
    ("generation", "lines"),
    [
        ("fermi", ("nvidiaPackages.legacy_390;", "hardware.nvidia.open = false;", "acceptLicense = true;")),
        ("kepler", ("nvidiaPackages.legacy_470;", "hardware.nvidia.open = false;")),
        ("pascal", ("nvidiaPackages.legacy_580;", "hardware.nvidia.open = false;")),
        ("ampere", ("nvidiaPackages.production;", "hardware.nvidia.open = true;")),
        ("blackwell", ("nvidiaPackages.production;", "hardware.nvidia.open = true;")),
    ],
)
def test_nixos_gets_the_lines_of_its_configuration(generation: str, lines: tuple[str, ...]) -> None:
    found = written("driver-not-installed", {PCI: bus(gpu(device=DEVICES[generation]))}, distro="nixos")
    text = " ".join(step.text for step in found.steps)
    assert all(line in text for line in lines), text
    assert shells(found) == ["sudo nixos-rebuild boot", "sudo reboot"]


@pytest.mark.parametrize("distro", ["windows-11", "wsl-ubuntu-22.04", "wsl"])
def test_where_the_driver_is_that_of_windows_linux_gets_none(distro: str) -> None:
    for generation, device in DEVICES.items():
        found = written("driver-not-installed", {PCI: bus(gpu(device=device)), KERNEL: RELEASE}, distro=distro)
        assert shells(found) == [], generation
        text = " ".join(step.text for step in found.steps)
        assert "https://www.nvidia.com/drivers" in text
        assert ("475.14, of notebooks 425.31" in text) == (generation == "kepler")


# ---------------------------------------------------------------- what is known of the GPUs and of the packages
@pytest.mark.parametrize(("devices", "first"), [(("20b0",), 450), (("2206",), 455), (("2206", "20b0"), 455), (("20b0", "2206"), 455)])
def test_of_one_architecture_the_chip_that_needs_the_later_driver_counts(devices: tuple[str, ...], first: int) -> None:
    listed = [gpu(f"0000:0{number}:00.0", device=device) for number, device in enumerate(devices, 1)]
    case = case_of(finding("driver-not-installed"), {}, facts_of({PCI: bus(*listed)}), KNOWLEDGE, "windows-11")
    assert [row.first_driver_branch for row in case.gpus.architectures] == [first]


def test_ubuntu_chooses_where_the_gpu_is_not_known() -> None:
    found = written("driver-not-installed", {KERNEL: RELEASE})
    assert "ubuntu-drivers install" in commands(found)


def test_gpus_of_two_generations_get_the_branch_of_the_older() -> None:
    both = bus(gpu(device=PASCAL), gpu(device=AMPERE, address="0000:02:00.0"))
    assert "ubuntu-drivers install nvidia:580\n" in commands(written("driver-not-installed", {PCI: both}))
    never = bus(gpu(device=KEPLER), gpu(device=BLACKWELL, address="0000:02:00.0"))
    found = written("driver-not-installed", {PCI: never})
    assert "no single driver" in " ".join(step.text for step in found.steps)


def test_the_message_names_the_branch_where_nothing_else_does() -> None:
    found = written("driver-too-new-for-gpu", {}, {"legacy_branch": "470"}, "ubuntu-22.04")
    assert "ubuntu-drivers install nvidia:470" in commands(found)
    quoted_id = finding("driver-too-old-for-gpu", "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2d04)")
    made = prescribe(quoted_id, {}, Facts(()), KNOWLEDGE, "ubuntu-24.04")
    assert made is not None
    assert "ubuntu-drivers install nvidia:595-open" in commands(made)


def test_a_gpu_of_which_only_the_name_is_known() -> None:
    named = PciFunction(address=ADDRESS, vendor="10de", class_code="0302", name="GK208M [GeForce GT 740M]")
    assert "nvidia:470" in commands(written("nouveau-bound", {PCI: bus(named)}, distro="ubuntu-22.04"))


def test_nouveau_with_a_fitting_driver_installed_needs_no_install() -> None:
    state = {PCI: bus(gpu("nouveau", PASCAL)), DRIVER_PACKAGES: packages("nvidia-driver-580", "nvidia-dkms-580"), KERNEL: RELEASE}
    found = written("nouveau-bound", state)
    assert found.action == "reboot"
    assert "apt-get" not in commands(found)
    assert "blacklist nouveau" in commands(found)
    without = written("nouveau-bound", {**state, DRIVER_PACKAGES: packages()})
    assert without.action == "install-driver"
    assert "nvidia:580" in commands(without)
    assert "update-initramfs -u" in commands(without)
    misfit = written("nouveau-bound", {**state, DRIVER_PACKAGES: packages("nvidia-driver-595")})
    assert "nvidia:580" in commands(misfit)


def test_transitional_packages_are_followed_to_their_end() -> None:
    assert resolved("nvidia-driver-535", "noble", KNOWLEDGE) == "nvidia-driver-580"
    assert resolved("nvidia-driver-580", "noble", KNOWLEDGE) == "nvidia-driver-580"
    for row in KNOWLEDGE.ubuntu_transitional:
        assert row.ends_at in {package.package for package in KNOWLEDGE.ubuntu_packages(row.release)}
    installed = {DRIVER_PACKAGES: packages("nvidia-driver-535-server")}
    assert "nvidia-utils-580-server" in commands(written("nvidia-smi-missing", installed, distro="ubuntu-24.04"))
    assert "nvidia-utils-535-server" in commands(written("nvidia-smi-missing", installed, distro="ubuntu-20.04"))


@pytest.mark.parametrize("distro", [name for name in RELEASES if name and re.match(r"ubuntu-2\d", name)])
def test_ubuntu_packages_that_are_named_exist(distro: str) -> None:
    known = {row.package for row in KNOWLEDGE.ubuntu_packages(from_word(distro, KNOWLEDGE).codename or "")}
    for device in DEVICES.values():
        for end in ("", "-server"):
            found = driver_for(device, distro + end)
            assert set(re.findall(r"nvidia-driver-\S+", found)) <= known
            assert {f"nvidia-driver-{name}" for name in re.findall(r"nvidia-headless-(\S+)", found)} <= known
            assert {f"nvidia-driver-{name}" for name in re.findall(r"nvidia-utils-(\S+)", found)} <= known


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


@pytest.mark.parametrize(
    ("distro", "kernel", "here", "lines"),
    [
        ("arch", "6.12.4-arch1-1", "nvidia", ["sudo pacman -Syu", "sudo reboot"]),
        ("arch", "6.12.4-1-lts", "nvidia-lts-open", ["sudo pacman -Syu", "sudo reboot"]),
        ("arch", "6.12.4-zen1-1-zen", "nvidia-open", ["sudo pacman -Syu --needed nvidia-open-dkms linux-zen-headers", "sudo reboot"]),
        ("manjaro", "6.6.8-2-MANJARO", "linux515-nvidia-470xx", ["sudo pacman -Syu --needed linux66-nvidia-470xx", "sudo reboot"]),
        ("arch", "6.12.4-arch1-1", "nvidia-open-dkms", ["sudo pacman -Syu --needed linux-headers", "sudo reboot"]),
        (
            "rocky-9.4", "5.14.0-427.33.1.el9_4.x86_64", "kmod-nvidia-open-535.183.06-5.14.0-427.20.1",
            [
                "sudo dnf install -y --refresh 'kmod-nvidia-open-535.*-5.14.0-427.33.1*'",
                "sudo grubby --set-default /boot/vmlinuz-5.14.0-427.20.1.el9_4.x86_64",
                "sudo modprobe nvidia",
                "sudo modprobe nvidia-uvm",
            ],
        ),
    ],
)  # fmt: skip
def test_a_ready_made_module_is_not_built_by_dkms(distro: str, kernel: str, here: str, lines: list[str]) -> None:
    state = {KERNEL: Kernel(system="Linux", release=kernel), DRIVER_PACKAGES: packages(here, version="535.183.06-3.el9_4")}
    assert commands(written("driver-module-missing-for-kernel", state, distro=distro)).split("\n") == lines


MISMATCHED = """\
# nvidia-smi
Failed to initialize NVML: Driver/library version mismatch
NVML library version: 550.144
# cat /proc/driver/nvidia/version
NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024
"""


@pytest.mark.parametrize(
    "entered",
    [
        "root@pve:~# pct enter 204\n",
        "root@ct:~# systemd-detect-virt\nlxc\n",
        "root@ct:~# tr '\\0' '\\n' < /proc/1/environ\ncontainer=lxc\n",
    ],
)
def test_a_container_of_lxc_takes_the_libraries_of_its_host(entered: str) -> None:
    found = report(entered + MISMATCHED).prescription
    assert found is not None
    assert commands(found) == "sh NVIDIA-Linux-x86_64-550.90.07.run --no-kernel-module"


def test_a_restart_that_would_load_the_same_module_is_not_advised() -> None:
    suse = 'n1:~ # modinfo -F version nvidia\n550.90.07\nPRETTY_NAME="openSUSE Leap 15.6"\n'
    found = report(MISMATCHED + suse).prescription
    assert found is not None
    assert "reboot" not in commands(found)
    assert commands(found).endswith("nvidia-compute-G06=550.90.07 nvidia-compute-utils-G06=550.90.07")
    other = report(f"{MISMATCHED}{suse}".replace("\n550.90.07", "\n550.144.03")).prescription
    assert other is not None
    assert "sudo reboot" in commands(other)


def test_a_driver_that_does_not_compile_is_not_installed_again() -> None:
    line = "/var/lib/dkms/nvidia-current/{}/build/nvidia-drm/nvidia-drm-drv.c:300:6: error: no member named 'x'"
    state = {PCI: bus(gpu(None, AMPERE)), KERNEL: RELEASE, SETTING: Setting(words={"compiled-with-headers": 1})}
    found = prescribe(finding("driver-build-failed", line.format("535.154.05")), {}, facts_of(state), KNOWLEDGE, "debian-12")
    assert found is not None
    assert "apt-get install -y nvidia-open" in commands(found)
    assert "linux-headers" not in commands(found)
    old = {**state, PCI: bus(gpu(None, KEPLER))}
    last = prescribe(finding("driver-build-failed", line.format("470.256.02")), {}, facts_of(old), KNOWLEDGE, "debian-12")
    assert last is not None
    assert "no single driver" not in "".join(step.text for step in last.steps)


def test_no_command_for_the_system_is_printed_twice() -> None:
    lines = shells(written("nouveau-bound", {PCI: bus(gpu("nouveau", AMPERE)), KERNEL: RELEASE}, distro="silverblue-42"))
    assert len(lines) == len(set(lines))


def test_without_dkms_none_is_asked_to_build() -> None:
    found = written("driver-module-missing-for-kernel", {KERNEL: RELEASE, DKMS: None}, distro="rocky-9.4")
    assert "dkms" not in commands(found)
    assert "nvidia-driver" in "".join(step.text for step in found.steps)


def test_a_gpu_of_nouveau_waits_for_a_restart() -> None:
    state = {KERNEL: RELEASE, PCI: bus(gpu("nouveau", AMPERE))}
    found = commands(written("driver-module-missing-for-kernel", state))
    assert found.endswith("sudo dkms autoinstall -k 6.8.0-45-generic\nsudo reboot")


def test_only_the_linux_driver_leaves_wsl() -> None:
    here = packages("nvidia-driver-535", "libnvidia-compute-535", "libnvidia-container1", "nvidia-container-toolkit", "cuda-toolkit-12-4")
    found = commands(written("wsl-linux-driver-installed", {DRIVER_PACKAGES: here}))
    assert "purge -y nvidia-driver-535 libnvidia-compute-535\n" in found


@every(
    "text, checks",
    [
        (
            'PRETTY_NAME="Fedora Linux 43 (Workstation Edition)"\n$ rpm -q akmod-nvidia\nakmod-nvidia-590.48.01-1.fc43.x86_64\n'
            "NVRM: The NVIDIA GPU 0000:09:00.0 (PCI ID: 10de:1c03)\nNVRM: installed in this system is not supported by the\n"
            "NVRM: NVIDIA 590.48.01 driver release.\n",
            ["rpm -q akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda", r"modinfo -F version nvidia | grep '^580\.'"],
        ),
        (
            'PRETTY_NAME="Ubuntu 24.04.3 LTS"\n01:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2b85]\n$ cat /proc/driver/nvidia/version\n'
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025\n"
            "NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n",
            ["modinfo -F license nvidia | grep -x 'Dual MIT/GPL'"],
        ),
    ],
)
def test_the_check_of_a_new_driver_fails_with_the_one_before(text: str, checks: list[str]) -> None:
    found = report(text).prescription
    assert found is not None
    assert [step.verify for step in found.steps if step.verify is not None][: len(checks)] == checks


def test_where_nothing_but_a_restart_is_left_no_package_is_asked_for() -> None:
    found = report(
        'PRETTY_NAME="CachyOS"\nID=cachyos\nNVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver.\n$ uname -r\n6.17.8-2-cachyos\n'
        "$ sudo modprobe nvidia\nmodprobe: FATAL: Module nvidia not found in directory /lib/modules/6.17.8-2-cachyos\n"
        "$ pacman -Q | grep nvidia\nlinux-cachyos-nvidia-open 6.17.9-2\nnvidia-utils 580.105.08-5\n"
    ).prescription
    assert found is not None
    assert (shells(found), found.action) == (["sudo reboot"], "reboot")


def test_of_a_very_long_word_for_a_distribution_the_beginning_is_looked_at() -> None:
    """Each run of its words was put together: nine seconds for 100 kB of a recording, again and again."""
    began = time.process_time()
    assert from_word("ubuntu-24.04" + " ab" * 100_000, KNOWLEDGE).family == "ubuntu"
    assert time.process_time() - began < 0.5
