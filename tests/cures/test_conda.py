"""What is printed for conda environments, carried out by conda itself on empty packages (conda_packages.py).

conda comes inside conda-lock: under its own name the index has no version of this decade. Its own solver is used, which needs no library of
conda-forge's. A line is carried out as it is printed, for a driver of the CUDA that it was written for, in an environment that has nothing
of CUDA, in one with builds for the CPU, and in one with builds for an older CUDA. Packages are linked; nothing of them is run.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cudadoctor.model.values import LADDER, NVML, PYTHON, Ladder, PythonEnvironment
from cudadoctor.model.version import ComputeCapability, CudaVersion
from cudadoctor.prescribe import render_step
from cudadoctor.prescribe.conditions import holds
from cudadoctor.prescribe.steps import case_of
from tests.cures.conda_packages import write_channel
from tests.cures.stub_packages import must
from tests.facts_builder import facts_of, nvml, nvml_gpu
from tests.judging import KNOWLEDGE
from tests.prescriptions import STEPS, finding

pytestmark = [pytest.mark.cures, pytest.mark.skipif(sys.platform != "linux", reason="the packages are for Linux")]
FOLDER = "/opt/my env"  # of the environment, as the lines name it; it lies in a folder of the test's
CONDA = ("conda-lock==4.0.3", "pycosat", "pluggy", "tqdm", "requests", "platformdirs", "archspec", "conda-package-handling")
MACHINES = (("3.5", "11.4"), ("7.0", "12.4"), ("9.0", "12.0"), ("12.0", "12.8"), ("6.1", "13.0"), ("8.6", "13.0"))  # GPU, driver's CUDA
FRAMEWORKS = {
    "pytorch-gpu": "pytorch",
    "tensorflow-gpu": "tensorflow",
    "jaxlib": "jaxlib",
    "onnxruntime": "onnxruntime",
    "bitsandbytes": "bitsandbytes",
}
VALUES, SAID = {"requirement": "numpy<2.3"}, "gcc versions later than 13 are not supported"
OF_THE_MACHINE = {"wheels", "!wheels", "conda-toolkit", "toolkit-pin"}  # conditions; what the others ask for is taken as met
# What is there before, as it was asked for when it was made, and the recipes that are for it.
BEFORE = {
    "plain": ("python=3.12 numpy=2.4", ""),
    "for-cpu": ("python=3.12 pytorch=*=cpu* jaxlib=*=cpu* tensorflow=*=cpu* onnxruntime=*=*cpu bitsandbytes=*=cpu* numba=0.61.2", ""),
    "for-older-cuda": ("python=3.12 pytorch-gpu=2.1.2 pytorch=2.1.2=cuda118* numba=0.57.1", ""),
    "for-cpu-by-name": ("python=3.12 pytorch-cpu tensorflow-cpu", "install-gpu-build"),
    "cudatoolkit-by-name": (
        "python=3.12 numba=0.57.1 cudatoolkit=11.4",
        "install-numba-cuda use-newer-toolkit upgrade-numba give-numba-newer-toolkit",
    ),
}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What conda carries out, the oldest CUDA of the drivers that it is written for, and what undoes it."""

    shell: str
    cuda: str
    step: str
    undo: str


def printed() -> list[Line]:
    """Each line that the recipes hold for these machines."""
    found = []
    for (capability, cuda), (recipe, number, template) in itertools.product(MACHINES, STEPS):
        if not (template.shell or "").startswith("conda "):
            continue
        facts = facts_of({
            NVML: nvml(gpus=(nvml_gpu(compute_capability=ComputeCapability(capability)),)), LADDER: Ladder(cuda=CudaVersion(cuda)),
            PYTHON: PythonEnvironment(path=f"{FOLDER}/bin/python", version="3.9.20", prefix=FOLDER, conda=FOLDER),
        })  # fmt: skip
        cause = next(cause.id for cause in KNOWLEDGE.causes.values() if recipe.id in cause.recipes)
        case = case_of(finding(cause, SAID), VALUES, facts, KNOWLEDGE, "ubuntu-24.04")
        step = render_step(template, case)
        if step.shell is not None and holds(" ".join(set((template.when or "").split()) & OF_THE_MACHINE), case):
            found.append(Line(shell=step.shell, cuda=cuda, step=f"{recipe.id}/{number}", undo=step.undo or ""))
    return found


class Conda:
    """conda in a folder of its own, with its channels, packages and environments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        must(sys.executable, "-m", "venv", str(folder / "venv"))
        self.python = str(folder / "venv/bin/python")
        must(self.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *CONDA)
        (site,) = (folder / "venv/lib").glob("python*/site-packages")
        shutil.copytree(site / "conda_lock/_vendor/conda", site / "conda")  # there it finds itself under its own name
        for path in (site / "conda").rglob("*.py"):
            path.write_text(re.sub(r"conda_lock\._?vendor\.conda", "conda", path.read_text("utf-8")), "utf-8")
        write_channel(folder / "web/conda-forge")
        (folder / "condarc").write_text(
            f"channel_alias: file://{folder}/web\ndefault_channels: []\nsolver: classic\npkgs_dirs: [{folder}/pkgs]\n"
            f"envs_dirs: [{folder}/envs]\nnotify_outdated_conda: false\n"
        )
        for name, (specs, _) in BEFORE.items():
            self.must(f"conda create -y -p {folder}/before/{name} -c conda-forge {specs}", "13.0")
            history = folder / f"before/{name}/conda-meta/history"  # what was the newest then was asked for by its name
            history.write_text(re.sub(r"'([\w-]+)=[^']*'", r"'\1'", history.read_text()))

    def ran(self, line: str, cuda: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "CONDARC": str(self.folder / "condarc"), "CONDA_OVERRIDE_CUDA": cuda}
        words = [word.replace(FOLDER, str(self.folder / "my env")) for word in shlex.split(line)]
        argv = [self.python, "-m", *words, *(["-q"] if words[1] in ("create", "install") else [])]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=env, cwd="/", timeout=300)

    def must(self, line: str, cuda: str) -> str:
        done = self.ran(line, cuda)
        assert done.returncode == 0, f"{line}, CUDA {cuda}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    def become(self, name: str) -> None:
        shutil.rmtree(self.folder / "my env", ignore_errors=True)
        shutil.copytree(self.folder / "before" / name, self.folder / "my env")

    def installed(self, line: Line) -> dict[str, tuple[str, str]]:
        """Version and build of what is in the line's environment."""
        named = re.search(r"-n (\S+)", line.shell)
        folder = self.folder / f"envs/{named[1]}" if named is not None else self.folder / "my env"
        records = [json.loads(path.read_text()) for path in (folder / "conda-meta").glob("*.json")]
        return {record["name"]: (record["version"], record["build"]) for record in records}


@pytest.fixture(scope="module")
def conda() -> Iterator[Conda]:
    folder = Path(tempfile.mkdtemp(prefix="cures-", dir=Path.home()))
    yield Conda(folder)
    shutil.rmtree(folder)


def missing(conda: Conda, line: Line) -> Iterator[str]:
    """What the line was to bring, and did not."""
    here = conda.installed(line)
    for word in (word for word in shlex.split(line.shell.partition("-c conda-forge ")[2]) if not word.startswith("-")):
        name = re.split(r"[=<>!]", word)[0]
        if name not in here:
            yield name
        elif name in FRAMEWORKS and "cuda" not in here[FRAMEWORKS[name]][1]:
            yield f"a build of {name} for CUDA"
    if "cuda-version" in here and int(here["cuda-version"][0].split(".")[0]) > int(line.cuda.split(".")[0]):
        yield "a CUDA that the driver runs"


@pytest.mark.parametrize("before", BEFORE)
def test_every_line_is_one_that_conda_solves(conda: Conda, before: str) -> None:
    wrong = []
    recipes, lines = BEFORE[before][1].split(), printed()
    outs = {line.shell for line in lines if " remove " in line.shell}
    # The same line is carried out once for each major version: packages ask for no more of a driver.
    ours = (line for line in lines if line.shell not in outs and (not recipes or line.step.split("/")[0] in recipes))
    for line in {(line.shell, line.cuda[:2]): line for line in ours}.values():
        conda.become(before)
        for out in (out for out in outs if recipes and out.split()[-1] in conda.installed(line)):
            conda.must(out, line.cuda)
        done = conda.ran(line.shell, line.cuda)
        if done.returncode != 0:
            wrong.append(f"{line.shell}, CUDA {line.cuda}\n  ended with {done.returncode}: {done.stderr[-600:]}")
            continue
        wrong += [f"{line.shell}, CUDA {line.cuda}\n  did not bring {what}" for what in missing(conda, line)]
        if line.undo.startswith("conda "):
            conda.must(line.undo, line.cuda)
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_no_line_for_conda_is_left_out() -> None:
    """But for its settings, which are no packages."""
    of_packages = re.compile(r"\bconda (?!env config )(?!-forge)")
    steps = {
        f"{recipe.id}/{number}" for recipe, number, step in STEPS if of_packages.search((step.shell or "").replace("-c conda-forge", ""))
    }
    assert steps == {line.step for line in printed()}
