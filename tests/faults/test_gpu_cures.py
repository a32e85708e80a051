"""The cures of real faults on a machine with an NVIDIA GPU: `run --cured` starts a program that works, `fix --apply` edits what the fault
comes from, a new shell is well then, and `fix --undo` puts every byte back.

    CUDADOCTOR_PATIENT=/path/to/python pytest -m gpu_faults tests/faults/test_gpu_cures.py

Made as root in a mount namespace with a home of its own. For the cures of packages CUDADOCTOR_WHEELS names a folder from which pip
installs; the patient's environment is copied for them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.faults.test_gpu_faults import PATIENT, READY

WHEELS = os.environ.get("CUDADOCTOR_WHEELS", "")
pytestmark = [pytest.mark.gpu_faults, pytest.mark.skipif(not READY, reason="needs root, an NVIDIA GPU and CUDADOCTOR_PATIENT")]

KERNEL = """
import sys
import numpy
from numba import config, cuda
assert not config.ENABLE_CUDASIM
@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2
x = cuda.to_device(numpy.arange(1000, dtype=numpy.float32))
double[10, 100](x)
assert (x.copy_to_host() == numpy.arange(1000) * 2).all()
"""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """`profile`: what the user's ~/.profile holds, read before anything runs; `setup`: what else is done in the home. `alone`: one program
    can be cured without changing anything; `edits`: --apply changes files of the home, or packages."""

    name: str
    profile: str = ""
    setup: str = ":"
    alone: bool = True
    edits: bool = True
    packages: bool = False


def _set(line: str, **more: bool) -> Fault:
    return Fault(name=line, profile=f"alias ll='ls -l'\n{line}\nexport LATER=1\n", **more)


BAD = "mkdir -p $HOME/old/llvmlite; echo 'raise ImportError(\"old\")' > $HOME/old/llvmlite/__init__.py"
FAULTS = (
    _set("export CUDA_VISIBLE_DEVICES=-1"),
    _set("export CUDA_VISIBLE_DEVICES=7"),
    _set("export CUDA_VISIBLE_DEVICES=bash"),
    _set("export NUMBA_DISABLE_CUDA=1"),
    _set("export NUMBA_ENABLE_CUDASIM=1"),
    _set("export NUMBA_FORCE_CUDA_CC=9.9"),
    _set("export NUMBA_NUM_THREADS=0"),
    _set("export CUDA_HOME=/nonexistent/cuda", edits=False),
    _set('if [ -n "$HOME" ]; then export CUDA_VISIBLE_DEVICES=-1; fi', edits=False),
    Fault(name="PYTHONPATH with an old package", setup=BAD, profile="export PYTHONPATH=$HOME/old\n"),
    Fault(name="PYTHONPATH, one entry of two", setup=f"{BAD}; mkdir $HOME/good", profile="export PYTHONPATH=$HOME/good:$HOME/old\n", edits=False),
    Fault(name="simulator by a file", setup="cd $HOME; printf 'opt: 3\\nENABLE_CUDASIM: 1\\n' > .numba_config.yaml", alone=False),
    Fault(name="numba.py in the way", setup="mkdir $HOME/work; cd $HOME/work; : > numba.py", alone=False),
    Fault(name="half of NumPy is gone", setup="rm $SITE/numpy/_core/multiarray.py", alone=False, packages=True),
)  # fmt: skip


def _script(fault: Fault, folder: Path) -> str:
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "profile").write_text(fault.profile)
    doctor = f"{sys.executable} -P -m cudadoctor"
    kept = "find . '(' -path ./.local -o -path ./.nv -o -path ./venv ')' -prune -o -type f -print0 | sort -z | xargs -0 sha256sum"
    state = f'( cd $HOME; {kept}; [ -z "$SITE" ] || ls -d $SITE/*.dist-info )'
    return "\n".join((
        f"export D={folder} PATIENT={PATIENT} SITE= PIP_NO_INDEX=1 PIP_FIND_LINKS={WHEELS} XDG_STATE_HOME= PYTHONDONTWRITEBYTECODE=1; chmod a+rx $D",
        "mount -t tmpfs -o mode=755 none /home; mkdir /home/ada; export HOME=/home/ada; cd $HOME; cp $D/profile .profile",
        *((
            "V=$(dirname $(dirname $PATIENT)); cp -a $V $HOME/venv; PATIENT=$HOME/venv/bin/python",
            "SITE=$($PATIENT -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')",
        ) if fault.packages else ()),
        fault.setup,
        f"{state} > $D/before",
        ". $HOME/.profile",
        "ended() { echo $? > $D/$1.code; }",
        '$PATIENT -c "$(cat $D/kernel.py)" > $D/plain.out 2>&1; ended plain',
        f'{doctor} run --cured -- $PATIENT -c "$(cat $D/kernel.py)" > $D/cured.out 2>&1; ended cured',
        f"{doctor} fix --apply --yes environment --yes reads --python $PATIENT > $D/apply.out 2>&1; ended apply",
        f"{state} > $D/applied",
        "env -i PYTHONDONTWRITEBYTECODE=1 HOME=$HOME PATH=$PATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH CUDA_HOME=/usr/local/cuda bash -c '. $HOME/.profile; \"$@\"' sh $PATIENT -c \"$(cat $D/kernel.py)\" > $D/new.out 2>&1; ended new",
        f"{doctor} fix --undo --yes environment > $D/undo.out 2>&1; ended undo",
        f"{state} > $D/after",
        "true",
    ))  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_cure(fault: Fault, tmp_path: Path) -> None:
    if fault.packages and not WHEELS:
        pytest.skip("CUDADOCTOR_WHEELS names no folder of wheels")
    if "numba_config" in fault.setup and subprocess.run([PATIENT, "-c", "import yaml"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("Numba reads its file where PyYAML is installed")
    subprocess.run(["unshare", "-m", "bash", "-c", _script(fault, tmp_path)], timeout=200, check=True, stdin=subprocess.DEVNULL)
    code = {path.stem: int(path.read_text()) for path in tmp_path.glob("*.code")}
    before, applied, after = ((tmp_path / name).read_text() for name in ("before", "applied", "after"))
    said = "\n".join((tmp_path / f"{name}.out").read_text() for name in ("cured", "apply", "undo"))
    assert code["plain"] != 0, "the fault is none"
    assert (code["cured"] == 0) == fault.alone, said
    assert (applied != before) == (fault.edits and not fault.packages), said  # pip brings the same version back
    assert (code["new"] == 0) == fault.edits, (tmp_path / "new.out").read_text() + said
    assert after == before, said
    assert code["undo"] == 0, said
