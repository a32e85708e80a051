"""Real faults on a machine with an NVIDIA GPU, made as root in mount namespaces, by environment and by helper processes.

    CUDADOCTOR_PATIENT=/path/to/python pytest -n 8 -m gpu_faults tests/faults

The patient is an interpreter in which Numba kernels run. The card's settings are never touched, and each fault ends with its
namespace. Where a fault can be cured on the spot, the printed steps are run in the same shell and the machine is examined again.
CUDADOCTOR_OLD_DRIVER may name a folder with libcuda.so.1 and libnvidia-ml.so.1 of another driver branch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

FOLDER = Path(__file__).resolve().parent
PATIENT = os.environ.get("CUDADOCTOR_PATIENT", "")
TOO_NEW = os.environ.get("CUDADOCTOR_TOO_NEW_NUMPY", "")  # an interpreter whose NumPy its numba-cuda does not know
OLD_DRIVER = os.environ.get("CUDADOCTOR_OLD_DRIVER", "")
READY = bool(PATIENT) and os.path.exists("/dev/nvidiactl") and hasattr(os, "geteuid") and os.geteuid() == 0
pytestmark = [pytest.mark.gpu_faults, pytest.mark.skipif(not READY, reason="needs root, an NVIDIA GPU and CUDADOCTOR_PATIENT")]

NO_MKNOD = "setpriv --bounding-set -mknod --inh-caps -mknod --"
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups --"
COPY_DEV = "mkdir -p $D/dev && mount -t tmpfs none $D/dev && cp -a /dev/. $D/dev/ 2>/dev/null; mount --bind $D/dev /dev"
# Each folder of PATH that holds nvidia-smi is replaced by one of links to everything else in it.
HIDE_SMI = (
    'N=""; n=0; for p in $(echo "$PATH" | tr ":" " "); do if [ -e "$p/nvidia-smi" ]; then n=$((n+1)); mkdir $D/p$n; '
    'ln -s "$p"/* $D/p$n/; rm $D/p$n/nvidia-smi; p=$D/p$n; fi; N="$N:$p"; done; export PATH="${N#:}"'
)
LIBRARY_FOLDER = 'L=$(dirname "$(readlink -f "$(ldconfig -p | awk \'/libcuda.so.1 /{print $NF; exit}\')")")'
HIDE_LIBCUDA = (
    LIBRARY_FOLDER + "; mkdir -p $D/full && mount --bind $L $D/full && mount -t tmpfs -o mode=755 none $L && "
    'for f in $D/full/*; do case "$f" in */libcuda.so*) ;; *) ln -s "$f" "$L/";; esac; done'
)


def _hide(library: str) -> str:
    """The driver's folder without one library."""
    return HIDE_LIBCUDA.replace("*/libcuda.so*", f"*/{library}*")


# The driver's library gets one in front that spoils what passes through: meddle.c.
MEDDLE = (
    LIBRARY_FOLDER + "; F=$(basename $(readlink -f $L/libcuda.so.1)); mkdir -p $D/real $D/meddle && "
    "cc -shared -o $D/real/$F -x c /dev/null && "  # without a name of its own: the one in front then asks for it by its path
    f"cc -shared -fPIC -o $D/meddle/libcuda.so.1 {FOLDER}/meddle.c -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed $D/real/$F -ldl && "
    "mount --bind $L $D/real && mount --bind $D/meddle/libcuda.so.1 $L/$F && export "
)
ONE_GPU = "[ $(ls /dev/nvidia[0-9]* | wc -l) = 1 ]"
HIDE_TOOLKIT = "for t in /usr/local/cuda-*; do mount -t tmpfs none $t; done"
HOLD = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1"); cuda.cuInit(0)
ctx = ctypes.c_void_p(); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0); cuda.cuCtxSetCurrent(ctx)
free, total = ctypes.c_size_t(), ctypes.c_size_t(); cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
pointer = ctypes.c_void_p(); size = int(free.value * float(sys.argv[1]))
while size > 0 and cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) != 0:
    size -= 64 << 20
if float(sys.argv[1]) >= 1:  # leave no room at all
    for step in (16 << 20, 2 << 20, 1 << 16):
        while cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(step)) == 0: pass
import os; open(sys.argv[2], "w").write(str(os.getpid())); time.sleep(120)
"""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: how it is made, what the doctor must say, and whether its printed fix cures it here."""

    name: str
    root: str | None
    verdict: str
    setup: str = ":"
    prefix: str = ""
    cured: str | None = None  # verdict after the printed steps were run
    python: str = PATIENT
    after: str = ":"  # clean up
    needs: str = "true"
    rows: dict[str, str] = {}
    command: str = "check"
    proof: str | None = None  # what was changed in the experiment that shows it


def _spoiled(name: str, root: str, how: str, *, command: str = "check") -> Fault:
    return Fault(name=name, root=root, verdict="broken", setup=MEDDLE + how, needs="command -v cc", command=command)


def _visible(value: str, root: str, verdict: str = "broken") -> Fault:
    return Fault(
        name=f"visible-devices={value!r}",
        root=root,
        verdict=verdict,
        setup=f"export CUDA_VISIBLE_DEVICES='{value}'",
        cured="healthy",
        proof="CUDA_VISIBLE_DEVICES unset" if verdict == "broken" else None,
    )


def _variable(assignment: str) -> Fault:
    name = assignment.partition("=")[0]
    return Fault(
        name=f"{name} is set",
        root="environment-variable-breaks-cuda",
        verdict="broken",
        setup=f"export {assignment}",
        cured="healthy",
        proof=f"{name} unset",
    )


def _hold(share: str, *, orphan: bool) -> str:
    start = f'"$PATIENT" $D/hold.py {share} $D/held'
    run = f"( ( setsid sh -c '{start} & sleep 0.1' ) & ) >/dev/null 2>&1" if orphan else f"{start} & HELPER=$!"
    return f"{run}; for i in $(seq 100); do [ -e $D/held ] && break; sleep 0.1; done"


FAULTS = (
    Fault(name="as it is", root=None, verdict="healthy"),
    _visible("", "cuda-visible-devices-hides-all"),
    _visible("-1", "cuda-visible-devices-hides-all"),
    _visible("bash", "cuda-visible-devices-hides-all"),
    _visible("7", "cuda-visible-devices-invalid"),
    _visible("7,0", "cuda-visible-devices-invalid"),
    _visible("GPU-deadbeef-0000-0000-0000-000000000000", "cuda-visible-devices-invalid"),
    _visible("0,7", "cuda-visible-devices-invalid", "degraded"),
    Fault(
        name="job without GPU", root="scheduler-gave-no-gpu", verdict="broken", setup="export CUDA_VISIBLE_DEVICES=NoDevFiles SLURM_JOB_ID=17"
    ),
    Fault(name="simulator", root="numba-simulator-enabled", verdict="broken", setup="export NUMBA_ENABLE_CUDASIM=1", cured="healthy", proof="NUMBA_ENABLE_CUDASIM unset"),
    Fault(name="disabled", root="numba-cuda-disabled", verdict="broken", setup="export NUMBA_DISABLE_CUDA=1", cured="healthy", proof="NUMBA_DISABLE_CUDA unset"),
    Fault(
        name="no uvm node, no right to make it", root="uvm-unavailable", verdict="broken", setup=f"{COPY_DEV}; rm /dev/nvidia-uvm",
        prefix=NO_MKNOD, cured="healthy",
    ),
    Fault(name="no uvm node, root", root="uvm-unavailable", verdict="degraded", setup=f"{COPY_DEV}; rm /dev/nvidia-uvm", cured="healthy"),
    Fault(
        name="no nvidiactl, no right to make it", root="device-nodes-missing", verdict="broken", setup=f"{COPY_DEV}; rm /dev/nvidiactl",
        prefix=NO_MKNOD, cured="healthy",
    ),
    Fault(
        name="no nodes, no right to make them", root="device-nodes-missing", verdict="broken",
        setup=f"{COPY_DEV}; rm -rf /dev/nvidia*", prefix=NO_MKNOD, cured="healthy",
    ),
    Fault(name="no nodes, root", root="device-nodes-missing", verdict="degraded", setup=f"{COPY_DEV}; rm -rf /dev/nvidia*", cured="healthy"),
    Fault(
        name="nodes for root only", root="device-permission-denied", verdict="broken", setup=f"{COPY_DEV}; chmod 600 /dev/nvidia*[0-9lms]",
        prefix=NOBODY, cured="healthy",
    ),
    Fault(name="libcuda hidden", root="libcuda-missing", verdict="broken", setup=HIDE_LIBCUDA),
    Fault(
        name="stub first", root="libcuda-stub-loaded", verdict="broken", cured="healthy",
        setup="mkdir -p $D/lib64/stubs; ln -s /usr/local/cuda/lib64/stubs/libcuda.so $D/lib64/stubs/libcuda.so.1;"
        ' export LD_LIBRARY_PATH="$D/lib64/stubs:$LD_LIBRARY_PATH"',
        needs="[ -e /usr/local/cuda/lib64/stubs/libcuda.so ]",
    ),
    Fault(
        name="stub linked among other libraries", root="libcuda-stub-loaded", verdict="broken", cured="healthy",
        setup="mkdir -p $D/lib; ln -s /usr/local/cuda/lib64/stubs/libcuda.so $D/lib/libcuda.so.1; touch $D/lib/libreadline.so.7;"
        ' export LD_LIBRARY_PATH="$D/lib:$LD_LIBRARY_PATH"',
        needs="[ -e /usr/local/cuda/lib64/stubs/libcuda.so ]",
    ),
    Fault(
        name="older user-space driver", root="driver-version-mismatch", verdict="broken",
        setup=f'export LD_LIBRARY_PATH="{OLD_DRIVER}:$LD_LIBRARY_PATH"', needs=f"[ -e '{OLD_DRIVER}/libcuda.so.1' ]",
    ),
    Fault(
        name="CUDA_HOME absent", root="cuda-home-wrong", verdict="broken", setup="export CUDA_HOME=/nonexistent/cuda", cured="healthy",
    ),
    Fault(
        name="CUDA_HOME with a colon", root="cuda-home-wrong", verdict="broken", setup="export CUDA_HOME=/usr/local/cuda:", cured="healthy",
    ),
    Fault(name="toolkit hidden", root="toolkit-missing", verdict="broken", setup=HIDE_TOOLKIT),
    Fault(name="nvidia-smi absent", root="nvidia-smi-missing", verdict="degraded", setup=HIDE_SMI),
    Fault(
        name="nvidia-smi hangs", root=None, verdict="healthy", rows={"nvidia-smi": "unknown"},
        setup='mkdir $D/bin; printf "#!/bin/sh\\nexec sleep 300\\n" > $D/bin/nvidia-smi; chmod +x $D/bin/nvidia-smi; export PATH="$D/bin:$PATH"',
    ),
    Fault(
        name="nvidia-smi prints noise", root=None, verdict="healthy", rows={"nvidia-smi": "unknown"},
        setup='mkdir $D/bin; printf "#!/bin/sh\\necho lorem ipsum\\n" > $D/bin/nvidia-smi; chmod +x $D/bin/nvidia-smi; export PATH="$D/bin:$PATH"',
    ),
    Fault(
        name="memory held, none left", root="gpu-memory-held-by-others", verdict="broken", setup=_hold("1.0", orphan=False),
        after="kill -9 $HELPER 2>/dev/null", cured="healthy",
    ),
    Fault(
        name="memory held, some left", root="gpu-memory-held-by-others", verdict="degraded", setup=_hold("0.9", orphan=False),
        after="kill -9 $HELPER 2>/dev/null", cured="healthy",
    ),
    Fault(
        name="memory held by an orphan", root="zombie-gpu-process", verdict="degraded", setup=_hold("0.5", orphan=True),
        after="kill -9 $(cat $D/held) 2>/dev/null", cured="healthy",
    ),
    Fault(
        name="no memory left to an orphan", root="zombie-gpu-process", verdict="broken", setup=_hold("1.0", orphan=True),
        after="kill -9 $(cat $D/held) 2>/dev/null", cured="healthy",
    ),
    Fault(name="/proc/driver hidden", root=None, verdict="healthy", setup="mount -t tmpfs none /proc/driver"),
    # -- beyond the usual: other forms, other files, other users
    _visible("0 1", "cuda-visible-devices-invalid", "degraded"),
    _visible("0,0", "cuda-visible-devices-invalid"),
    _visible(" ", "cuda-visible-devices-hides-all"),
    _visible("none", "cuda-visible-devices-hides-all"),
    _visible("-1,0", "cuda-visible-devices-hides-all"),
    _visible("cuda:0", "cuda-visible-devices-hides-all"),
    _visible("gpu-00000000", "cuda-visible-devices-invalid"),
    Fault(name="visible-devices ends with a comma", root=None, verdict="healthy", setup="export CUDA_VISIBLE_DEVICES=0,"),
    Fault(name="empty device order", root="cuda-visible-devices-invalid", verdict="broken", setup="export CUDA_DEVICE_ORDER="),
    Fault(
        name="one GPU's node gone, no right to make it", root="device-nodes-missing", verdict="broken", setup=f"{COPY_DEV}; rm /dev/nvidia0",
        prefix=NO_MKNOD, cured="healthy", needs=ONE_GPU,
    ),
    Fault(
        name="nodes of a group", root="device-permission-denied", verdict="broken",
        setup=f"{COPY_DEV}; chgrp video /dev/nvidia*[0-9lms]; chmod 660 /dev/nvidia*[0-9lms]", prefix=NOBODY,
    ),
    Fault(name="libnvidia-ml hidden", root="driver-libraries-incomplete", verdict="degraded", setup=_hide("libnvidia-ml.so")),
    Fault(name="PTX compiler hidden", root="driver-libraries-incomplete", verdict="broken", setup=_hide("libnvidia-ptxjitcompiler.so")),
    Fault(
        name="libcuda truncated", root="environment-variable-breaks-cuda", verdict="broken", proof="LD_LIBRARY_PATH without",
        setup='mkdir $D/t; head -c 100 /dev/zero > $D/t/libcuda.so.1; export LD_LIBRARY_PATH="$D/t:$LD_LIBRARY_PATH"',
    ),
    Fault(
        name="compat library first", root="forward-compat-unsupported", verdict="broken", needs="[ -e /usr/local/cuda/compat/libcuda.so.1 ]",
        setup='export LD_LIBRARY_PATH="/usr/local/cuda/compat:$LD_LIBRARY_PATH"',
    ),
    Fault(
        name="simulator by a file", root="numba-simulator-enabled", verdict="broken", needs='"$PATIENT" -c "import yaml"',
        setup='mkdir $D/w; echo "enable_cudasim: 1" > $D/w/.numba_config.yaml; cd $D/w',
    ),
    Fault(name="simulator off", root=None, verdict="healthy", setup="export NUMBA_ENABLE_CUDASIM=0"),
    Fault(name="numba.py in the way", root="python-module-shadowed", verdict="degraded", setup="mkdir $D/w; : > $D/w/numba.py; cd $D/w"),
    Fault(name="CUDA_HOME in quotes", root="cuda-home-wrong", verdict="broken", setup="export CUDA_HOME='\"/usr/local/cuda\"'", cured="healthy"),
    Fault(name="CUDA_HOME empty", root="cuda-home-wrong", verdict="broken", setup="export CUDA_HOME=", cured="healthy"),
    Fault(name="CUDA_HOME is bin", root="cuda-home-wrong", verdict="broken", setup="export CUDA_HOME=/usr/local/cuda/bin", cured="healthy"),
    Fault(name="CUDA_HOME not set", root=None, verdict="healthy", setup="unset CUDA_HOME"),
    Fault(name="NVVM hidden", root="toolkit-missing", verdict="broken", setup="mount -t tmpfs -o mode=755 none /usr/local/cuda/nvvm"),
    Fault(name="libdevice hidden", root="toolkit-missing", verdict="broken", setup="mount -t tmpfs -o mode=755 none /usr/local/cuda/nvvm/libdevice"),
    Fault(name="address space limited", root="process-limits", verdict="broken", setup="ulimit -v 8000000", cured=None),
    Fault(
        name="MPS of another user", root="mps-problem", verdict="broken", prefix=NOBODY,
        setup="rm -rf /tmp/nvidia-mps; CUDA_MPS_LOG_DIRECTORY=$(mktemp -d) && export CUDA_MPS_LOG_DIRECTORY && chown 1 $CUDA_MPS_LOG_DIRECTORY &&"
        " setpriv --reuid 1 --regid 1 --clear-groups nvidia-cuda-mps-control -d; sleep 1",
        after="echo quit | setpriv --reuid 1 --regid 1 --clear-groups nvidia-cuda-mps-control",
    ),
    Fault(name="MPS folder without a daemon", root=None, verdict="healthy", setup="export CUDA_MPS_PIPE_DIRECTORY=/nonexistent"),
    Fault(name="PCI bus hidden", root=None, verdict="healthy", setup="mount -t tmpfs none /sys/bus/pci"),
    Fault(
        name="modules hidden", root=None, verdict="healthy", setup="mount -t tmpfs none /sys/module; mount --bind /dev/null /proc/modules"
    ),
    Fault(
        name="little memory held", root=None, verdict="healthy", setup=_hold("0.01", orphan=False), after="kill -9 $HELPER 2>/dev/null"
    ),
    Fault(name="an ordinary user", root=None, verdict="healthy", prefix=NOBODY),
    Fault(name="no HOME, no temporary folder", root=None, verdict="healthy", setup="unset HOME; export TMPDIR=/nonexistent"),
    _spoiled("the driver's kernel computes wrong", "gpu-computes-wrong", 'MEDDLE_PTX="xor.b32 %r7=>or.b32 %r7"'),
    _spoiled("a bit flips on the way back", "gpu-computes-wrong", "MEDDLE_FLIP=1000000"),
    # The experiments would name the variable that switches the meddling on, and rightly.
    _spoiled(
        "a kernel writes out of bounds", "program-memory-fault", 'MEDDLE_PTX="st.global.u32 [%rd4]=>st.global.u32 [%rd3]"',
        command="check --no-try",
    ),
    _spoiled("a sum is wrong", "gpu-computes-wrong", 'MEDDLE_PTX="add.u32 %r13, %r13, %r14;=>add.u32 %r13, %r13, 1;"', command="smoke"),
    _spoiled("surplus threads write", "gpu-computes-wrong", 'MEDDLE_PTX="setp.ge.u64 %p1, %rd10, %rd2=>setp.ge.u64 %p1, %rd10, -1"', command="smoke"),
    _spoiled("a pattern is written out of bounds", "program-memory-fault", 'MEDDLE_PTX="add.u64 %rd11, %rd1, %rd11=>add.u64 %rd11, %rd11, 8"', command="smoke"),
    _spoiled("memory is not what was written", "gpu-computes-wrong", 'MEDDLE_PTX="ld.global.u64 %rd14, [%rd11]=>ld.global.u64 %rd14, [%rd1]"', command="smoke"),
    # -- the surroundings: they change nothing about the GPU
    Fault(name="temporary folder is read-only", root=None, verdict="healthy", setup="mkdir $D/ro; mount -t tmpfs -o ro none $D/ro; export TMPDIR=$D/ro"),
    Fault(
        name="temporary folder is full", root=None, verdict="healthy",
        setup="mkdir $D/full; mount -t tmpfs -o size=16k none $D/full; head -c 16k /dev/zero > $D/full/x; export TMPDIR=$D/full",
    ),
    Fault(name="temporary folder forbids programs", root=None, verdict="healthy", setup="mkdir $D/n; mount -t tmpfs -o noexec none $D/n; export TMPDIR=$D/n"),
    Fault(name="no PATH", root=None, verdict="healthy", setup="hash -r; export PATH="),
    Fault(name="working directory is gone", root="working-directory-deleted", verdict="broken", setup="mkdir $D/gone; cd $D/gone; rmdir $D/gone"),
    Fault(name="a terminal of one column", root=None, verdict="healthy", setup="export COLUMNS=1 LINES=1"),
    Fault(name="an unknown language", root=None, verdict="healthy", setup="export LC_ALL=xx_YY.none LANG=xx PYTHONIOENCODING=latin-1"),
    Fault(name="a library to preload that is not there", root=None, verdict="healthy", setup="export LD_PRELOAD=/nonexistent/lib.so"),
    Fault(name="files are made for nobody", root=None, verdict="healthy", setup="umask 077"),
    Fault(name="/sys hidden", root=None, verdict="healthy", setup="mount -t tmpfs none /sys"),
    Fault(
        name="nvidia-smi prints without end", root=None, verdict="healthy", rows={"nvidia-smi": "unknown"},
        setup='mkdir $D/bin; printf "#!/bin/sh\\nexec yes\\n" > $D/bin/nvidia-smi; chmod +x $D/bin/nvidia-smi; export PATH="$D/bin:$PATH"',
    ),
    Fault(
        name="dmesg and ldconfig hang", root=None, verdict="healthy",
        setup='mkdir $D/bin; for n in dmesg ldconfig modinfo dpkg-query; do printf "#!/bin/sh\\nexec sleep 300\\n" > $D/bin/$n; chmod +x $D/bin/$n; done;'
        ' export PATH="$D/bin:$PATH"',
    ),
    Fault(name="few open files", root=None, verdict="healthy", setup="ulimit -n 128"),
    # -- libraries, nodes, packages and processes in other ways
    Fault(
        name="libcuda of another machine", root="driver-libraries-incomplete", verdict="broken",
        setup=LIBRARY_FOLDER + "; F=$(basename $(readlink -f $L/libcuda.so.1)); cp $L/$F $D/other; printf '\\267' | dd of=$D/other bs=1 seek=18 conv=notrunc "
        "2>/dev/null; mount --bind $D/other $L/$F",
    ),
    Fault(
        name="libnvidia-ml of an older driver", root="driver-version-mismatch", verdict="degraded", needs=f"[ -e '{OLD_DRIVER}/libnvidia-ml.so.1' ]",
        setup=f'mkdir $D/ml; cp {OLD_DRIVER}/libnvidia-ml.so.* $D/ml; export LD_LIBRARY_PATH="$D/ml:$LD_LIBRARY_PATH"',
    ),
    Fault(
        name="a plain file in a node's place", root="device-nodes-missing", verdict="broken", prefix=NO_MKNOD, cured="healthy",
        setup=f"{COPY_DEV}; rm /dev/nvidiactl; touch /dev/nvidiactl",
    ),
    Fault(
        name="a node that leads nowhere", root="device-nodes-missing", verdict="broken", prefix=NO_MKNOD,
        setup=f"{COPY_DEV}; rm /dev/nvidiactl; ln -s /nonexistent /dev/nvidiactl",
    ),
    Fault(
        name="a stopped process holds the memory", root="gpu-memory-held-by-others", verdict="broken",
        setup=_hold("1.0", orphan=False) + "; kill -STOP $HELPER", after="kill -9 $HELPER 2>/dev/null", cured="healthy",
    ),
    Fault(
        name="another user holds the memory", root="gpu-memory-held-by-others", verdict="broken", cured="healthy",
        setup="chmod 777 $D; " + _hold("1.0", orphan=False).replace('"$PATIENT" $D', f'{NOBODY} "$PATIENT" $D'),
        after="kill -9 $(cat $D/held) $HELPER 2>/dev/null",
    ),
    Fault(name="a defunct process", root=None, verdict="healthy", setup="sh -c 'sleep 0.1 & exec sleep 60' & HELPER=$!; sleep 0.5", after="kill -9 $HELPER"),
    Fault(
        name="a pynvml that fails", root="python-module-shadowed", verdict="degraded",
        setup='mkdir $D/p; echo "raise RuntimeError(1)" > $D/p/pynvml.py; export PYTHONPATH=$D/p:$PYTHONPATH',
    ),
    Fault(
        name="half of Numba is gone", root="python-abi-mismatch", verdict="broken",
        setup='N=$("$PATIENT" -c "import os, numba; print(os.path.dirname(numba.__file__))"); mount -t tmpfs none $N/core',
    ),
    Fault(
        name="half of NumPy is gone", root="python-abi-mismatch", verdict="broken",
        setup='N=$("$PATIENT" -c "import os, numpy; print(os.path.dirname(numpy.__file__))"); mount -t tmpfs none $N/_core',
    ),
    Fault(name="a kernel must be compiled anew", root=None, verdict="healthy", setup="export CUDA_CACHE_DISABLE=1 CUDA_LAUNCH_BLOCKING=1"),
    Fault(name="Numba's cache may not be written", root=None, verdict="healthy", setup="export NUMBA_CACHE_DIR=/proc/nowhere", prefix=NOBODY),
    # -- what nobody foresaw: found by experiment
    _variable("CUDA_DISABLE_PTX_JIT=1"),
    _variable("NUMBA_FORCE_CUDA_CC=9.9"),
    _variable("NUMBA_NUM_THREADS=0"),
    _variable("NUMBA_CUDA_MEMORY_MANAGER=bogus"),
    Fault(
        name="a toolkit that is none", root="environment-variable-breaks-cuda", verdict="broken", proof="CUDA_HOME unset", cured="healthy", prefix=NOBODY,
        setup="mkdir -p $D/t/nvvm/lib64 $D/t/nvvm/libdevice $D/t/bin; touch $D/t/nvvm/lib64/libnvvm.so $D/t/nvvm/lib64/libnvvm.so.4 $D/t/bin/nvcc"
        " $D/t/nvvm/libdevice/libdevice.10.bc; chmod +x $D/t/bin/nvcc; export CUDA_HOME=$D/t",
    ),
    Fault(
        name="one place of LD_LIBRARY_PATH", root="environment-variable-breaks-cuda", verdict="broken", proof="LD_LIBRARY_PATH without", prefix=NOBODY,
        setup="mkdir -p $D/a $D/l; touch $D/l/libstdc++.so.6; export LD_LIBRARY_PATH=$D/a:$D/l",
    ),
    Fault(
        name="a library to preload keeps a node closed", root="preloaded-library-interferes", verdict="broken", proof="LD_PRELOAD unset",
        setup=f"cc -shared -fPIC -o $D/closed.so {FOLDER}/closed.c -ldl; export LD_PRELOAD=$D/closed.so", prefix=NOBODY, needs="command -v cc",
    ),
    Fault(
        name="uvm's node has an old number", root="uvm-unavailable", verdict="broken", prefix=NO_MKNOD, cured="healthy",
        setup=f"{COPY_DEV}; rm /dev/nvidia-uvm; mknod -m 666 /dev/nvidia-uvm c 240 0",
    ),
    Fault(
        name="nvidiactl has an old number", root="device-nodes-missing", verdict="broken", prefix=NO_MKNOD, cured="healthy",
        setup=f"{COPY_DEV}; rm /dev/nvidiactl; mknod -m 666 /dev/nvidiactl c 240 255",
    ),
    Fault(
        name="half of llvmlite is gone", root="python-package-broken", verdict="broken",
        setup='N=$("$PATIENT" -c "import os, llvmlite; print(os.path.dirname(llvmlite.__file__))"); mount -t tmpfs none $N/binding',
    ),
    Fault(
        name="llvmlite's library is empty", root="python-package-broken", verdict="broken",
        setup='N=$("$PATIENT" -c "import os, llvmlite; print(os.path.dirname(llvmlite.__file__))"); : > $D/z; mount --bind $D/z $N/binding/libllvmlite.so',
    ),
    Fault(
        name="half of cuda.bindings is gone", root="python-package-broken", verdict="broken",
        setup='N=$("$PATIENT" -c "import os, cuda.bindings as b; print(os.path.dirname(b.__file__))"); mount -t tmpfs none $N/_internal',
    ),
    Fault(
        name="nvidia-smi takes three seconds", root=None, verdict="healthy",
        setup='mkdir $D/bin; printf "#!/bin/sh\\nsleep 3.2\\nexec $(command -v nvidia-smi)\\n" > $D/bin/nvidia-smi; chmod +x $D/bin/nvidia-smi; export PATH="$D/bin:$PATH"',
    ),
    Fault(
        name="the driver's folder not passed in", root="container-no-gpu-access", verdict="broken",
        setup=f"{LIBRARY_FOLDER}; {COPY_DEV}; rm -rf /dev/nvidia*; mount -t tmpfs none $L", prefix=NO_MKNOD, needs="[ -e /.dockerenv ]",
    ),
    Fault(
        name="a pod without GPU", root="container-no-gpu-access", verdict="broken", prefix=NO_MKNOD,
        setup=f"{LIBRARY_FOLDER}; {COPY_DEV}; rm -rf /dev/nvidia*; mount -t tmpfs none $L; export KUBERNETES_SERVICE_HOST=10.0.0.1",
    ),
    Fault(
        name="capabilities without compute", root="container-driver-capabilities", verdict="broken", needs="[ -e /.dockerenv ]",
        setup=f"{HIDE_LIBCUDA}; export NVIDIA_DRIVER_CAPABILITIES=utility",
    ),
    Fault(
        name="nvidia-smi of another format", root="nvidia-smi-missing", verdict="degraded", rows={"nvidia-smi": "warn"},
        setup="mkdir $D/smi; printf '\\177ELF' > $D/smi/nvidia-smi; chmod 755 $D/smi/nvidia-smi; export PATH=$D/smi:$PATH",
    ),
    Fault(
        name="killed for the memory of its group", root="process-limits", verdict="broken",
        needs="[ -w /sys/fs/cgroup/memory ] || grep -q memory /sys/fs/cgroup/cgroup.subtree_control",
        setup="G=/sys/fs/cgroup/memory; [ -d $G ] || G=/sys/fs/cgroup; mkdir -p $G/few; echo 220M > $G/few/memory.limit_in_bytes 2>/dev/null "
        "|| echo 220M > $G/few/memory.max; echo $$ > $G/few/cgroup.procs",
        after="echo $$ > $G/cgroup.procs",
    ),
    Fault(
        name="NumPy too new", root="python-abi-mismatch", verdict="broken", python=TOO_NEW, needs=f"[ -x '{TOO_NEW}' ]",
    ),
)  # fmt: skip


COLLECTED = frozenset(
    (
        "as it is",
        "visible-devices='bash'",
        "simulator",
        "no uvm node, no right to make it",
        "libcuda hidden",
        "CUDA_HOME absent",
        "nvidia-smi hangs",
        "little memory held",
    )
)


def _script(fault: Fault, folder: Path) -> str:
    (folder / "hold.py").write_text(HOLD)
    doctor = f"{fault.prefix} {sys.executable} -m cudadoctor"
    options = f"--python {fault.python} --format json --timeout 60"
    lines = [
        f"export D={folder} PATIENT={fault.python}; chmod 1777 $D; chmod a+rx $D/.. $D/../.. $D/../../..; cd /; export PYTHONPATH={FOLDER.parent.parent}",
        fault.setup,
        f"{doctor} {fault.command} {options} --record $D/recording --no-redact > $D/before.json 2> $D/before.err",
        f"{sys.executable} -m cudadoctor {fault.command} --replay $D/recording --format json > $D/replay.json 2>> $D/before.err",
    ]
    if fault.name in COLLECTED:  # the file that needs no installation, run by a Python without any package
        lines += [
            f"{sys.executable} -m cudadoctor record --script > $D/collect.py; chmod 644 $D/collect.py",
            f"{fault.prefix} {os.path.realpath(sys.executable)} -S -E -s $D/collect.py -o $D/collected --python {fault.python} > $D/collect.out 2>&1",
            f"{sys.executable} -m cudadoctor check --replay $D/collected --format json > $D/collected.json 2>> $D/before.err",
        ]
    if fault.cured is not None:
        lines += [
            f'{sys.executable} -c \'import json, sys; p = json.load(open(sys.argv[1]))["prescription"];'
            ' print("\\n".join(s["shell"] for s in (p or {"steps": []})["steps"] if s["shell"]))\' $D/before.json > $D/fix.sh',
            'sudo() { "$@"; }; . $D/fix.sh > $D/fix.out 2>&1',  # this shell is root's already
            f"{doctor} check {options} > $D/after.json 2>> $D/before.err",
        ]
    return "\n".join([*lines, fault.after, "true"])


def run(fault: Fault, folder: Path) -> None:
    subprocess.run(["unshare", "-m", "bash", "-c", _script(fault, folder)], timeout=200, check=True, stdin=subprocess.DEVNULL)


def _broken_where_the_kernel_failed(report: dict[str, object]) -> None:
    """A fault beside the ladder breaks the machine only where a kernel failed, on any GPU."""
    smoke = report["smoke"]
    assert isinstance(smoke, list)
    kernels = [step["status"] for step in smoke if step["step"] == "numba-kernel"]
    ran = kernels != [] and kernels == ["pass"] * sum(step["step"] == "context" for step in smoke)
    assert (report["verdict"] == "broken") != ran


def _load(path: Path) -> dict[str, object]:
    text = path.read_text("utf-8")
    assert text.strip(), (path.parent / "before.err").read_text("utf-8")
    return dict(json.loads(text))


def said(report: dict[str, object]) -> tuple[str | None, object]:
    diagnosis = report["diagnosis"]
    assert isinstance(diagnosis, dict)
    root = diagnosis["root"]
    return (root["cause"] if root else None), report["verdict"]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_fault(fault: Fault, tmp_path: Path) -> None:
    if subprocess.run(["sh", "-c", fault.needs], check=False).returncode != 0:
        pytest.skip(f"not here: {fault.needs}")
    run(fault, tmp_path)
    before = _load(tmp_path / "before.json")
    assert said(before) == (fault.root, fault.verdict)
    diagnosis, checks = before["diagnosis"], before["checks"]
    assert isinstance(diagnosis, dict)
    assert isinstance(checks, list)
    # The same on another GPU is no second fault.
    blocking = {finding["cause"] for finding in diagnosis["also"] if finding["effect"] == "blocks"}
    assert blocking <= {fault.root}
    if fault.proof is not None:
        proof = diagnosis["root"]["proof"]
        assert proof is not None, diagnosis["tried"]
        assert proof["change"].startswith(fault.proof)
    if fault.command == "check":  # `smoke` goes on after that kernel
        _broken_where_the_kernel_failed(before)
    statuses = {row["id"]: row["status"] for row in checks}
    assert {row: statuses[row] for row in fault.rows} == fault.rows
    replay = _load(tmp_path / "replay.json")
    same = [key for key in before if key not in ("origin", "timing")]
    assert {key: replay[key] for key in same} == {key: before[key] for key in same}
    if fault.name in COLLECTED:
        assert said(_load(tmp_path / "collected.json")) == (fault.root, fault.verdict), (tmp_path / "collect.out").read_text("utf-8")
    if fault.cured is not None:
        after = _load(tmp_path / "after.json")
        assert said(after) == (None, fault.cured), (tmp_path / "fix.sh").read_text("utf-8") + (tmp_path / "fix.out").read_text("utf-8")
