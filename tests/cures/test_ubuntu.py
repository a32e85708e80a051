"""Steps for Ubuntu in a root of each release: what apt and ubuntu-drivers are told resolves, with the names of today's archive.

apt only simulates: NVIDIA's modules that Ubuntu built itself are not in every mirror. ubuntu-drivers looks for the GPU below a folder that
stands for /sys (UBUNTU_DRIVERS_SYS_DIR, its own way to be tested).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from cudadoctor.model.values import DRIVER_PACKAGES, KERNEL, Kernel
from tests.cures.roots import READY, Root, folder_for_root
from tests.facts_builder import packages
from tests.judging import KNOWLEDGE
from tests.prescriptions import AMPERE

pytestmark = [pytest.mark.cures, pytest.mark.skipif(not READY, reason="needs root, debootstrap and Ubuntu's archive")]
RELEASES = {"jammy": "ubuntu-22.04", "noble": "ubuntu-24.04", "resolute": "ubuntu-26.04"}
MODALIAS = f"pci:v000010DEd0000{AMPERE.upper()}sv000010DEsd00001467bc03sc00i00\n"
# ubuntu-drivers asks for the kernel that runs: in the root it is the one that is installed there.
RUNNING = """import os
real = os.uname()
os.uname = lambda: os.uname_result((real.sysname, real.nodename, "{}", *real[3:]))
"""
SIMULATE = 'APT::Get::Simulate "true";\n'
# What another repository has, and what asks the machine.
ELSEWHERE = re.compile(r"nvidia-container-toolkit|nvidia-l4t|nvlsm|\$\(|~i|cuda-compat|--fix-broken")


@pytest.fixture(scope="module", params=sorted(RELEASES))
def root(request: pytest.FixtureRequest) -> Iterator[Root]:
    with folder_for_root() as folder:
        root = Root(folder, request.param, RELEASES[request.param], kernel=None)
        root.must("apt-get install -q -y --no-install-recommends ubuntu-drivers-common")
        root.kernel = max(re.findall(r"linux-image-(\d\S+-generic)", root.must("apt-cache depends linux-image-generic")))
        for name in ("linux-image-generic", f"linux-image-{root.kernel}"):  # ubuntu-drivers looks which kernels are installed
            control = f"Package: {name}\\nVersion: 1\\nArchitecture: amd64\\nMaintainer: none\\nDescription: empty\\n"
            root.must(
                f"mkdir -p /srv/{name}/DEBIAN; printf '{control}' > /srv/{name}/DEBIAN/control; dpkg-deb -b /srv/{name} && dpkg -i /srv/{name}.deb"
            )
        (folder / "srv/python").mkdir()
        (folder / "srv/python/sitecustomize.py").write_text(RUNNING.format(root.kernel))
        device = folder / "srv/sys/devices/pci0000:00/0000:00:10.0"
        device.mkdir(parents=True)
        (device / "modalias").write_text(MODALIAS)
        (folder / "etc/apt/apt.conf.d/99simulate").write_text(SIMULATE)
        yield root


def lines_of(root: Root, cause: str, word: str, **known: object) -> list[str]:
    return [line for step in root.steps(cause, **known) for line in (step.shell or "").split("\n") if word in line]  # type: ignore[arg-type]


def test_ubuntus_tool_takes_the_name_that_it_is_given(root: Root) -> None:
    (line,) = lines_of(root, "driver-not-installed", "ubuntu-drivers install")
    driver = line.rpartition("nvidia:")[2]
    for command, module in ((line, "linux-modules-nvidia"), (line.replace("install", "install --include-dkms"), "nvidia-[a-z-]+")):
        done = root.must(f"export UBUNTU_DRIVERS_SYS_DIR=/srv/sys PYTHONPATH=/srv/python; {command}")
        for name in ("nvidia-(?:driver|headless-no-dkms)", module):
            assert re.search(rf"^Inst {name}-{driver}", done, re.MULTILINE), done


def test_what_apt_is_told_to_install_is_in_the_archive(root: Root) -> None:
    lines = {
        line
        for cause in KNOWLEDGE.causes
        if KNOWLEDGE.cause(cause).recipes
        for line in lines_of(root, cause, "apt-get install")
        if not ELSEWHERE.search(line)
    }
    failed = {line: done.stderr for line in sorted(lines) if (done := root.ran(line)).returncode != 0}
    assert not failed
    assert len(lines) > 5


def test_a_module_that_ubuntu_signed_takes_the_place_of_one_built_here(root: Root) -> None:
    """For each cloud: the driver stays, what builds the module goes."""
    series = "580-server-open"
    here = packages(f"nvidia-dkms-{series}", f"nvidia-headless-{series}")
    for cloud in ("aws", "azure", "gcp", "oracle"):
        known = {KERNEL: Kernel(system="Linux", release=f"6.8.0-1034-{cloud}", machine="x86_64"), DRIVER_PACKAGES: here}
        (line,) = lines_of(root, "secure-boot-blocks-module", "linux-modules-nvidia", beside=known)
        done = root.must(line.replace("install -y", f"install -y nvidia-headless-{series}"))
        assert f"Inst linux-modules-nvidia-{series}-{cloud} " in done
        assert f"Inst nvidia-headless-{series} " in done
        assert f"Inst nvidia-dkms-{series} " not in done
