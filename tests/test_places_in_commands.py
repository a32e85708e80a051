"""Which places a command may name: software that everybody may read, the user's own module, and nobody's home or settings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cudadoctor import api
from cudadoctor.knowledge.load import load
from cudadoctor.prescribe.placeholders import fits, for_commands
from cudadoctor.prescribe.shells import names
from tests.command_line import host, run
from tests.judging import KNOWLEDGE
from tests.prescriptions import commands, written


@pytest.mark.parametrize(
    "path",
    [
        "/", "/root", "/home", "/home/ada", "/home/ada/.ssh/x.py", "/etc/", "/etc/ssl/private/x.so", "/var", "/usr", "/usr/lib", "/usr/lib64/", "/opt",
        "/srv/data", "/lib/x86_64-linux-gnu/", "/usr/local", "/home/ada/cuda/libcudart.so.12", "/usr/local/cuda/../../../etc", "/usr/local/cuda/.x",
        "/opt/app/key.py", "/data/libcuda.so.1", "/usr/local/etc/x.so",
    ],
)  # fmt: skip
def test_nothing_is_opened_to_all_but_software(path: str) -> None:
    found = written("file-not-readable", values={"path": path})
    assert "chmod" not in commands(found)
    assert any("home" in step.text for step in found.steps)


@pytest.mark.parametrize(
    "path",
    [
        "/usr/local/cuda", "/usr/local/cuda-12.4/nvvm", "/opt/nvidia/hpc_sdk", "/opt/miniconda3", "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14",
        "/usr/lib64/libnvvm.so.4", "/usr/local/lib/python3.12/dist-packages/numba", "/usr/lib/python3/dist-packages", "/opt/venv/lib/python3.12/site-packages/numba/x.py",
    ],
)  # fmt: skip
def test_software_is_opened_to_all(path: str) -> None:
    assert f"chmod -R a+rX {path}" in commands(written("file-not-readable", values={"path": path}))


def test_the_folder_of_a_library_is_not_opened() -> None:
    """Settings and keys may lie beside it."""
    report = api.explain("OSError: /etc/libcuda.so.1: cannot open shared object file: Permission denied")
    assert report.prescription is not None
    assert "chmod" not in commands(report.prescription)


@pytest.mark.parametrize(
    ("named", "command"),
    [
        ("/home/ada/work/numba.py", "mv -nT /home/ada/work/numba.py /home/ada/work/my_numba.py"),
        ("/home/ada/work/numba/__init__.py", "mv -nT /home/ada/work/numba /home/ada/work/my_numba"),
        ("/home/numba/__init__.py", ""),
        ("/home/torch/production", ""),
        ("/home/numba/.ssh", ""),
        ("/home/ada/env/lib/python3.12/site-packages/numba/core.py", ""),
        ("/home/ada/env/lib/python3.12/site-packages/numba/__init__.py", ""),
        ("/home/ada/env/lib/python3.12/site-packages/numba.py", ""),
    ],
)
def test_only_a_module_is_renamed(named: str, command: str) -> None:
    for said in (
        f"AttributeError: module 'numba' has no attribute 'jit' (consider renaming '{named}' since it has the same name as the library)",
        f"ImportError: cannot import name 'jit' from 'numba' ({named})",
    ):
        report = api.explain(said)
        assert report.prescription is None or ("mv " in command) == ("mv " in commands(report.prescription))
        assert report.prescription is None or command in commands(report.prescription)


def test_no_command_trusts_a_name_in_a_folder_where_everybody_may_make_files() -> None:
    """Who lays the file out there first decides what root installs."""
    steps = (step for recipe in load().recipes.values() for step in recipe.steps)
    scripts = [script for step in steps for script in (step.shell, step.verify, step.undo, *step.shells.values()) if script is not None]
    found = {script for script in scripts if re.search(r"(?<![\w.])/(?:(?:usr|var)/)?tmp\b|/dev/shm|/var/(?:lock|crash)\b", script)}
    assert found == {  # the mount itself, which nobody lays out
        "findmnt -no SIZE,USED -T /dev/shm\nls -lh /dev/shm",
        "findmnt -no SIZE,USED -T /dev/shm",
        "mount -o remount,size=75% /dev/shm",
    }


# ---------------------------------------------------------------- names, where no form of their own says more
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linux_driver_packages", ("nvidia-driver-550+", "nvidia-utils-550")),  # apt takes a last + or - for a wish
        ("linux_driver_packages", ("nvidia-settings-",)),
        ("held_packages", ("linux-image-6.8.0-1025-nvidia-",)),
        ("held_packages", ("nvidia-driver-550+",)),
        ("kernel_headers", ("linux-headers-6.8.0-",)),
        ("kernel", "6.8.0-45-generic-"),
        ("prebuilt_module", "linux-modules-nvidia-580-6.8.0-"),
        ("built_kernel", "../vmlinuz"),
        ("toolkit_module", "../dropbox/cuda/12.4"),
        ("toolkit_module", "./cuda/12.4"),
        ("ptxas", "/tmp/evil/bin/ptxas"),
        ("ptxas", "../evil/bin/ptxas"),
        ("ptxas", "/usr/local/cuda/bin/sh"),
        ("driver_packages", ("nvidia driver",)),
        ("mode_unit", "firewalld.service"),  # what a system stands on
        ("closed_unit", "systemd-poweroff.service"),
        ("unit", "ssh.service"),
        ("units", ("whisper.service", "sshd.service")),
        ("drained_node", "ALL"),  # for Slurm every node
    ],
)
def test_what_is_no_name_enters_no_command(name: str, value: str | tuple[str, ...]) -> None:
    given = {name: value} if fits(name, value, KNOWLEDGE) else {}
    assert for_commands(given, KNOWLEDGE) == {}


def test_every_value_of_a_command_has_a_form() -> None:
    """Its own, or that of names and versions: a path, a list or a sentence needs one of its own."""
    templates = [template for recipe in KNOWLEDGE.recipes.values() for template in recipe.steps]
    written = [text for one in templates for text in (one.shell, one.verify, one.undo, *one.shells.values()) if text]
    used = {name for text in written for name in names(text)}
    assert used
    assert all(for_commands({name: "/bin/x"}, KNOWLEDGE) == {} for name in used - set(KNOWLEDGE.placeholder_forms))


# ---------------------------------------------------------------- what a pasted text alone may not bring about
FEDORA = "$ cat /etc/os-release\nID=fedora\nVERSION_ID=42\n"
MISMATCH = "$ nvidia-smi\nFailed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.78\n"


def told(text: str) -> str:
    report = api.explain(text)
    return "\n".join(step.shell or "" for step in (report.prescription.steps if report.prescription is not None else ()))


@pytest.mark.parametrize(("others", "edited"), [("nouveau", True), ("ext4,nvme", False)])
def test_a_strangers_kernel_parameter_blacklists_nothing_here(others: str, edited: bool) -> None:
    line = f"[    0.000000] Command line: BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.8.5 ro modprobe.blacklist=nvidia,{others}\n"
    failed = "$ nvidia-smi\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    found = told(FEDORA + line + failed + "$ modinfo -F version nvidia\n550.78\n")
    assert (f"--args=modprobe.blacklist={others}" in found) == edited
    assert edited or others not in found


def test_a_hold_lets_go_of_the_drivers_packages_alone() -> None:
    debian = "$ cat /etc/os-release\nID=debian\nVERSION_ID=12\n"
    held = "$ apt-mark showhold\n*nvidia*\nboinc-client-nvidia-cuda\nnvidia-kernel-dkms\n"
    found = told(debian + held + MISMATCH)
    assert "apt-mark unhold nvidia-kernel-dkms\n" in found
    assert "--only-upgrade nvidia-kernel-dkms" in found
    arch = told("$ cat /etc/os-release\nID=arch\n$ cat /etc/pacman.conf\nIgnorePkg = postgresql linux nvidia-utils\n" + MISMATCH)
    edit = (
        next(line for line in arch.split("\n") if "IgnorePkg" in line)
        .replace("sudo ", "")
        .replace(" /etc/pacman.conf", "")
        .replace("-i.before ", "")
    )
    lines = "IgnorePkg = postgresql linux nvidia-utils\nServer = https://x.example/nvidia\n"
    left = subprocess.run(["sh", "-c", edit], input=lines, capture_output=True, text=True, check=True).stdout
    assert left == "IgnorePkg = postgresql linux\nServer = https://x.example/nvidia\n"


@pytest.mark.parametrize(
    "more",
    [
        "Package: *\nPin: release a=unstable\nPin-Priority: -10\n",
        "package:  systemd-sysv telnetd\npin: release *\npin-priority: -1\n",
        "Package: nvidia-settings\n telnetd\nPin: release *\nPin-Priority: -1\n",
        "Package: nvidia-settings\nPin: version 580*\nPin-Priority: 990\n",
    ],
)
def test_preferences_that_speak_of_other_packages_stay_where_they_are(more: str) -> None:
    debian = "$ cat /etc/os-release\nID=debian\nVERSION_ID=12\n"
    pins = "Package: nvidia-driver\nPin: release *\nPin-Priority: -1\n\n"
    assert "mv -nT /etc/apt" in told(f"{debian}$ cat /etc/apt/preferences\n{pins}{MISMATCH}")
    assert "mv -nT /etc/apt" not in told(f"{debian}$ cat /etc/apt/preferences\n{pins}{more}{MISMATCH}")


@pytest.mark.parametrize(
    ("folder", "moved"),
    [
        ("/home/ada/llama.cpp/build", True), ("/work/llama.cpp/build", True), ("/home/ada", False), ("/home/ada/Documents", False),
        ("/home/ada/.ssh", False), ("/home/ada/x/.git/y", False), ("/root", False), ("/opt", False), ("/srv/data", False),
        ("/home/ada/x/build/", False),
    ],
)  # fmt: skip
def test_only_a_folder_inside_a_project_is_moved_for_a_new_build(folder: str, moved: bool) -> None:
    knowledge = load()
    assert fits("build_folder", folder, knowledge) is moved


def test_every_value_of_a_step_that_changes_something_is_known_before_it_runs() -> None:
    """A file that a step changes is looked at, also where the step has no undo."""
    steps = written("file-not-readable", values={"path": "/opt/conda/envs/x/lib/python3.12/site-packages/torch/lib/libc10.so"}).steps
    opened = next(step for step in steps if "chmod" in (step.shell or ""))
    assert any(part in (opened.shell or "") for value in opened.values.values() for part in value), opened


@pytest.mark.parametrize("unit", ["debug-shell", "rc-local", "accounts-daemon", "wg-quick@wg0", "openvpn", "iwd", "snapd", "open-iscsi"])
def test_no_text_restarts_what_opens_a_shell_or_carries_the_network(unit: str) -> None:
    knowledge = load()
    assert fits("unit", "whisper.service", knowledge)
    assert not fits("unit", f"{unit}.service", knowledge)


SETS_MODE = (
    "$ cat /etc/systemd/system/{0}\n[Service]\nExecStart=/usr/bin/nvidia-smi -c 3\n$ python train.py\n"
    "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n"
)


@pytest.mark.parametrize(
    "unit",
    [
        "tailscaled",
        "netfilter-persistent",
        "cockpit",
        "amazon-ssm-agent",
        "k3s",
        "autovt@tty1",
        "nvidia-fabricmanager",
        "gpu-manager",
        "tailscaled-gpu",
        "my-ssh-gpu",
        "training-vpn",
        "raynet",
        "constraint",
    ],
)
def test_what_a_text_calls_a_service_is_stopped_only_where_its_name_says_that_it_computes(unit: str) -> None:
    other = api.explain(SETS_MODE.format(f"{unit}.service")).prescription
    own = api.explain(SETS_MODE.format("gpu-exclusive.service")).prescription
    assert other is not None
    assert own is not None
    assert unit not in commands(other)
    assert "A service sets the mode" in other.steps[0].text
    assert "systemctl disable --now gpu-exclusive.service" in commands(own)


# ---------------------------------------------------------------- a text beside a machine
UNITS = (
    "$ systemctl cat trainer.service\n# /etc/systemd/system/{0}\n[Service]\nExecStart=/usr/bin/python3 /srv/train.py\nPrivateTmp=yes\n"
    "$ systemctl cat {0}\n[Service]\nExecStart=/usr/bin/nvidia-smi -c 3\n$ nvidia-cuda-mps-control -d\n"
    "An instance of this daemon is already running\nRuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable\n"
)


@pytest.mark.parametrize("name", ["mps-daemon-missing", "mps-daemon-of-another-user", "h100-mps-daemon-stopped", "compute-mode-exclusive"])
def test_a_text_names_no_service_where_the_machine_itself_is_ill(name: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(UNITS.format("ollama.service"))
    assert "ollama" not in run("fix", "--replay", host(name), "--log", str(log)).out


REPORTS = Path(__file__).parent.parent / "fixtures" / "reports"


def of_report(name: str, *changes: tuple[str, str]) -> str:
    text = (REPORTS / name / "report.txt").read_text("utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    found = api.explain(text).prescription
    return commands(found) if found is not None else ""


def test_a_system_is_rebased_to_images_of_known_makers_alone() -> None:
    name = "open-module-unsupported-gpu--image-with-open-modules"
    assert "rpm-ostree rebase" in of_report(name)
    assert "rebase" not in of_report(name, ("ghcr.io/ublue-os", "evil.example/ublue-os"))


def test_a_container_is_given_no_device_but_one_with_a_number_that_is_drawn() -> None:
    """1 is that of the machine's memory."""
    name = "container-lost-devices--number-of-uvm"
    assert "devices.allow" in of_report(name)
    assert "devices.allow" not in of_report(name, ("506", "1"))
