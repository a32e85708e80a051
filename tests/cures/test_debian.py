"""Steps that change a system, in a root of Debian's own: packages from its archive, the module built against its headers, the initramfs.

No module is loaded and nothing is started. The kernel is the one that is installed in that root.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cudadoctor.model.values import SetIn
from tests.cures.roots import READY, Root, folder_for_root

pytestmark = [pytest.mark.cures, pytest.mark.skipif(not READY, reason="needs root and debootstrap")]
RELEASES = {"bookworm": "debian-12", "trixie": "debian-13"}


@pytest.fixture(scope="module", params=sorted(RELEASES))
def root(request: pytest.FixtureRequest) -> Iterator[Root]:
    with folder_for_root() as folder:
        yield Root(folder, request.param, RELEASES[request.param], kernel="linux-image-amd64")


def test_the_driver_is_installed_and_its_module_built(root: Root) -> None:
    try:
        root.carry_out(root.steps("driver-not-installed"))
    except AssertionError:
        # Seen with 550.163.01 and Linux 6.12.117 of Debian 13, open and from backports too: the archive's own packages do not fit each other.
        refused = root.ran("grep -h ': error: ' /var/lib/dkms/nvidia*/*/build/make.log").stdout.splitlines()
        if not refused:
            raise
        root.driver = False
        pytest.skip(f"the archive's driver does not compile for its own kernel {root.kernel}: {refused[0].rpartition('/')[2]}")
    version = root.must(f"modinfo -k {root.kernel} -F version nvidia || modinfo -k {root.kernel} -F version nvidia-current").strip()
    assert version
    assert version in root.must("dkms status")


def test_nouveau_is_kept_out_and_comes_back(root: Root) -> None:
    steps = [step for step in root.steps("nouveau-bound") if step.id.startswith("blacklist-nouveau/")]
    root.carry_out(steps)
    listed = root.must(f"lsinitramfs /boot/initrd.img-{root.kernel}")
    assert "etc/modprobe.d/blacklist-nouveau.conf" in listed
    assert "blacklist nouveau" in root.must("modprobe --showconfig")
    for step in reversed(steps):
        if step.undo:
            root.must(step.undo)
    assert not (root.folder / "etc/modprobe.d/blacklist-nouveau.conf").exists()


def test_a_library_that_is_gone_comes_back(root: Root) -> None:
    if not root.driver:
        pytest.skip("the driver does not compile here")
    for path in root.must("ldconfig -p | sed -n 's/.*libcuda.so.1 .*=> //p'").split():
        root.must(f"rm $(readlink -f {path}) {path}; ldconfig")
    assert "libcuda.so.1" not in root.must("ldconfig -p")
    steps = root.steps("driver-libraries-incomplete")
    root.carry_out(steps)
    assert steps[0].verify is not None
    assert "libcuda.so" in root.must(steps[0].verify)


def test_an_nvidia_smi_that_is_no_program_comes_back(root: Root) -> None:
    if not root.driver:
        pytest.skip("the driver does not compile here")
    program = root.folder / root.must("readlink -f $(command -v nvidia-smi)").strip().lstrip("/")
    whole = program.read_bytes()
    program.write_bytes(b"of another machine")
    root.carry_out(root.steps("nvidia-smi-missing", unfit="nvidia-smi"))
    assert program.read_bytes() == whole


def test_the_module_is_built_for_a_kernel_that_lacks_it(root: Root) -> None:
    if not root.driver:
        pytest.skip("the driver does not compile here")
    root.must(
        f"for m in $(dkms status | grep -oE '^nvidia[^,]*' | sort -u); do dkms unbuild $m -k {root.kernel}; done; depmod {root.kernel}"
    )
    assert root.ran(f"modinfo -k {root.kernel} nvidia-current || modinfo -k {root.kernel} nvidia").returncode != 0
    root.carry_out(root.steps("driver-module-missing-for-kernel"))
    assert root.must(f"modinfo -k {root.kernel} -F version nvidia-current || modinfo -k {root.kernel} -F version nvidia").strip()


def test_a_library_that_apt_itself_needs_comes_back(root: Root) -> None:
    """The recipe's words: apt does not start, dpkg does, and a package from elsewhere puts the file back."""
    library = root.must("readlink -f /usr/lib/x86_64-linux-gnu/libstdc++.so.6").strip()
    whole = (root.folder / library.lstrip("/")).read_bytes()
    root.must("cd /root && apt-get download -q libstdc++6")  # what another machine of this release does
    (root.folder / library.lstrip("/")).write_bytes(whole[:4096])
    assert root.ran("apt-get --version").returncode != 0
    steps = root.steps("system-library-missing", path=library)
    assert [step.kind for step in steps] == ["reads"]
    assert root.must(steps[0].shell or "false").startswith("libstdc++6:")
    root.must("dpkg -i /root/libstdc++6_*.deb")
    assert (root.folder / library.lstrip("/")).read_bytes() == whole
    root.must("apt-get --version")


def test_a_variable_leaves_a_file_of_the_system_and_comes_back(root: Root) -> None:
    path = root.folder / "etc/environment"
    path.write_text("LANG=C\nCUDA_VISIBLE_DEVICES=x\n")
    steps = [
        step
        for step in root.steps(
            "cuda-visible-devices-invalid",
            SetIn(name="CUDA_VISIBLE_DEVICES", path="/etc/environment", line=2),
            variable="CUDA_VISIBLE_DEVICES",
        )
        if step.kind == "system"
    ]
    root.carry_out(steps)
    assert path.read_text() == "LANG=C\n# CUDA_VISIBLE_DEVICES=x\n"
    (step,) = steps
    root.must(step.verify or "false")
    for line in (step.undo or "false").split("\n"):
        root.must(line)
    assert path.read_text() == "LANG=C\nCUDA_VISIBLE_DEVICES=x\n"


def test_every_package_of_the_driver_goes_before_one_is_installed_anew(root: Root) -> None:
    if not root.driver:
        pytest.skip("the driver does not compile here")
    steps = root.steps("driver-packages-conflict")
    purge = next(index for index, step in enumerate(steps) if "purge" in (step.shell or ""))
    root.carry_out([step for step in steps[: purge + 1] if step.kind != "reads"])
    left = root.must("dpkg-query -W -f '${Package} ${db:Status-Status}\\n'")
    assert [line for line in left.splitlines() if line.startswith(("nvidia-driver", "nvidia-kernel", "libcuda1", "libnvidia-ml"))] == []
    root.carry_out(steps[purge + 1 :])
    assert root.must(f"modinfo -k {root.kernel} -F version nvidia || modinfo -k {root.kernel} -F version nvidia-current").strip()
