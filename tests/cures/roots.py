"""A system of Debian's or Ubuntu's in a folder: its packages from its archive, nothing started, no module loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cudadoctor.model.recipe import Step
from cudadoctor.model.values import ENVIRONMENT as VARIABLES
from cudadoctor.model.values import KERNEL, PCI, SET_IN, USER, Environment, Kernel, SetIn
from cudadoctor.prescribe import prescribe
from tests.facts_builder import bus, facts_of, gpu
from tests.judging import KNOWLEDGE
from tests.prescriptions import AMPERE, ROOT_USER, finding

READY = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("debootstrap") is not None
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
SCRIPTS = Path("/usr/share/debootstrap/scripts")
POCKETS, COMPONENTS = ("", "-updates"), "main restricted universe multiverse"
UBUNTU = "http://archive.ubuntu.com/ubuntu"


class Root:
    """A system in a folder, with the kernel of this package or none."""

    driver = True  # whether the archive's driver compiles for the archive's kernel

    def __init__(self, folder: Path, release: str, distro: str, *, kernel: str | None) -> None:
        self.folder, self.distro = folder, distro
        ubuntu = distro.startswith("ubuntu")
        # Debian knows no newer release of Ubuntu's; each is set up by the same script. Its keys come with the first packages.
        more = ["--no-check-gpg", release, str(folder), UBUNTU, str(SCRIPTS / "gutsy")] if ubuntu else [release, str(folder)]
        include = f"--include={','.join(('ca-certificates', 'kmod', 'pciutils'))}"
        subprocess.run(["debootstrap", "--variant=minbase", include, *more], check=True)
        if ubuntu:
            lines = (f"deb {UBUNTU} {release}{pocket} {COMPONENTS}\n" for pocket in POCKETS)
            (folder / "etc/apt/sources.list").write_text("".join(lines))
        (folder / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # packages start nothing
        (folder / "usr/sbin/policy-rc.d").chmod(0o755)
        self.must("apt-get update -q" + (f" && apt-get install -q -y {kernel} initramfs-tools" if kernel is not None else ""))
        self.kernel = next((path.name for path in (folder / "lib/modules").iterdir()), "") if kernel is not None else ""

    def ran(self, script: str) -> subprocess.CompletedProcess[str]:
        inside = f'mount -t proc proc {self.folder}/proc; exec chroot {self.folder} sh -euc "$1"'
        argv = ["unshare", "-m", "-p", "-f", "sh", "-c", inside, "sh", script]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=QUIET, stdin=subprocess.DEVNULL)

    def must(self, script: str) -> str:
        done = self.ran(script)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def steps(self, cause: str, *places: SetIn, beside: Mapping[Any, Any] | None = None, **values: str) -> list[Step]:
        """The commands of the fix as `check` writes them for this system, an RTX 3090 in it. `beside`: what else is known of it."""
        state = {
            PCI: bus(gpu("0000:01:00.0", AMPERE)), USER: ROOT_USER, KERNEL: Kernel(system="Linux", release=self.kernel, machine="x86_64"),
            SET_IN: places, VARIABLES: Environment(variables={"CUDA_VISIBLE_DEVICES": "x"}, lines={}),
            **(beside or {}),
        }  # fmt: skip
        found = prescribe(finding(cause), values, facts_of(state), KNOWLEDGE, self.distro)
        assert found is not None
        return [step for step in found.steps if step.shell and step.mode == "do"]

    def carry_out(self, steps: Sequence[Step]) -> None:
        """As `fix --apply` does: line by line, but for what restarts the machine or loads a module."""
        for step in steps:
            for line in (step.shell or "").split("\n"):
                if step.kind not in ("restart", "reads", "session") and not line.startswith("modprobe"):
                    self.must(line)


@contextmanager
def folder_for_root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cures-", dir=Path.home()))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
