"""Healthy machines that look odd: each runs a kernel, and of none of them may anything be said to be wrong.

CUDADOCTOR_PATIENT=/path/to/python pytest -m gpu_faults tests/faults
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import test_gpu_faults as faults
from tests.faults.test_gpu_faults import NOBODY, Fault, _hold

pytestmark = faults.pytestmark

_OTHER_USER = "setpriv --reuid 1234 --regid 1234 --clear-groups --"
_HELD_BY_OTHERS = _hold("0.75", orphan=False).replace('"$PATIENT" $D/hold.py', f'{_OTHER_USER} "$PATIENT" $D/hold.py')
# Kernels without end, of another user's.
_BUSY = f"""cat > $D/spin.py <<'END'
import sys
import numpy as np
from numba import cuda
@cuda.jit
def spin(a, n):
    x = 0.5
    for _ in range(n): x = x * 1.0000001 + 1e-9
    a[cuda.grid(1) % a.size] = x
a = cuda.to_device(np.zeros(64)); spin[8, 64](a, 1000); cuda.synchronize(); open(sys.argv[1], "w").write("on")
while True: spin[66, 256](a, 2000000); cuda.synchronize()
END
rm -f $D/on; {_OTHER_USER} "$PATIENT" $D/spin.py $D/on & HELPER=$!; for i in $(seq 200); do [ -s $D/on ] && break; sleep 0.1; done"""
# A debugger's way: the child is traced, and each of its signals is handed on.
_TRACER = r"""cat > $D/trace.c <<'END'
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <signal.h>
int main(int c, char **v) {
  pid_t p = fork(); int s;
  if (!p) { ptrace(PTRACE_TRACEME, 0, 0, 0); execvp(v[1], v + 1); return 127; }
  while (waitpid(p, &s, 0) == p) {
    if (WIFEXITED(s)) return WEXITSTATUS(s);
    if (WIFSIGNALED(s)) return 128 + WTERMSIG(s);
    ptrace(PTRACE_CONT, p, 0, WSTOPSIG(s) == SIGTRAP ? 0 : WSTOPSIG(s)); }
  return 126; }
END
cc -o $D/trace $D/trace.c"""
_SLOW_SMI = "mkdir -p $D/slow; printf '#!/bin/sh\\nsleep 3\\nexec %s \"$@\"\\n' $(command -v nvidia-smi) > $D/slow/nvidia-smi; chmod 755 $D/slow/nvidia-smi"
_MPS = (
    "export CUDA_MPS_PIPE_DIRECTORY=$D/mps CUDA_MPS_LOG_DIRECTORY=$D/mpslog; mkdir -p $D/mps $D/mpslog; "
    "nvidia-cuda-mps-control -d >/dev/null 2>&1 </dev/null; sleep 1"
)

# Name, how it is made (a shell's words), and what the doctor is started with.
ODD: tuple[tuple[str, str, str], ...] = (
    ("nvidia-smi takes three seconds", f"{_SLOW_SMI}; export PATH=$D/slow:$PATH", ""),
    ("three quarters of the memory are another user's", _HELD_BY_OTHERS, ""),
    ("another user computes", _BUSY, ""),
    ("48 busy loops", "H=''; for i in $(seq 48); do (while :; do :; done) & H=\"$H $!\"; done", ""),
    ("home on a tmpfs", "mkdir -p $D/home; mount -t tmpfs none $D/home; export HOME=$D/home", ""),
    ("home is read-only", "mkdir -p $D/home; mount -t tmpfs -o ro none $D/home; export HOME=$D/home", ""),
    ("root file system is read-only", "mount --bind $D $D; mount -o remount,ro,bind /", ""),
    ("Turkish", "export LC_ALL=tr_TR.UTF-8 LANGUAGE=tr", ""),
    ("a locale that is none", "export LC_ALL=xx_YY LANG=C.UTF-16", ""),
    ("other users' processes are hidden", "mount -t proc -o hidepid=2 proc /proc", NOBODY),
    ("MPS in use", _MPS, ""),
    ("1,500 variables", "for i in $(seq 1500); do export V$i=$(printf %040d $i); done", ""),
    ("a PATH of 4,000 entries", "P=$PATH; for i in $(seq 4000); do P=$P:/no/$i; done; export PATH=$P", ""),
    ("PYTHONSTARTUP", 'echo "raise SystemExit(3)" > $D/start.py; export PYTHONSTARTUP=$D/start.py', ""),
    ("a debugger is attached", _TRACER, "$D/trace"),
    ("neither HOME nor USER", "unset HOME USER LOGNAME", ""),
    ("a user without a name", "unset HOME USER LOGNAME", "setpriv --reuid 1000680000 --regid 0 --clear-groups --"),
    ("nothing may be read by others", "umask 077", ""),
    ("stdin is closed", ":", "sh -c 'exec \"$@\" <&-' sh"),
    ("a terminal without colours", "export TERM=dumb NO_COLOR=1", ""),
    ("the lowest priority", ":", "nice -n 19"),
    ("one CPU", "taskset -pc 0 $$ >/dev/null", ""),
    ("1,024 open files", "ulimit -n 1024", ""),
    ("no core files and a large stack", "ulimit -c 0; ulimit -s unlimited", ""),
    ("the first GPU alone", "export CUDA_VISIBLE_DEVICES=0", ""),
    ("GPUs in the order of the bus", "export CUDA_DEVICE_ORDER=PCI_BUS_ID", ""),
    ("folders of libraries that are not there", "export LD_LIBRARY_PATH=/no/lib:/no/lib64:$LD_LIBRARY_PATH", ""),
    ("no cache of kernels", "export CUDA_CACHE_DISABLE=1 NUMBA_CACHE_DIR=/proc/none", ""),
    ("one thread", "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1", ""),
    ("Python's switches", "export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONHASHSEED=0 PYTHONFAULTHANDLER=1", ""),
    ("a time zone that is none", "export TZ=:/nonexistent", ""),
    ("no network", ":", "unshare -n"),
    ("a PID namespace", ":", "unshare -p -f --mount-proc"),
    ("no new privileges", ":", "setpriv --no-new-privs --bounding-set=-all --inh-caps=-all --"),
    (
        "a temporary folder that is full",
        "mkdir -p $D/t; mount -t tmpfs -o size=4k none $D/t; dd if=/dev/zero of=$D/t/f bs=1k count=4 2>/dev/null; export TMPDIR=$D/t",
        "",
    ),
    ("a proxy that is gone", "export http_proxy=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9 ALL_PROXY=socks5://127.0.0.1:9", ""),
    ("an environment of conda's that is gone", "export CONDA_PREFIX=/opt/gone CONDA_DEFAULT_ENV=gone CONDA_SHLVL=2", ""),
    (
        "names that are not UTF-8",
        "W=$D/$(printf 'd\\351p'); mkdir -p \"$W\"; cd \"$W\"; export HOME=\"$W\" ODD=$(printf '\\377') LC_ALL=C PATH=$PATH:/x$(printf '\\377')",
        "",
    ),
    ("no /sys", "mount -t tmpfs none /sys", ""),
    ("no /proc/driver/nvidia", "[ -d /proc/driver/nvidia ] && mount -t tmpfs none /proc/driver/nvidia; true", ""),
)


@pytest.mark.parametrize(("name", "setup", "prefix"), ODD, ids=[name for name, _, _ in ODD])
def test_nothing_is_said_to_be_wrong(name: str, setup: str, prefix: str, tmp_path: Path) -> None:
    after = '[ -n "$H$HELPER" ] && kill -9 $H $HELPER 2>/dev/null; [ -e $D/mps ] && echo quit | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1'
    faults.run(Fault(name=name, root=None, verdict="healthy", setup=setup, prefix=prefix, after=after), tmp_path)
    report = faults._load(tmp_path / "before.json")
    assert faults.said(report) == (None, "healthy")
