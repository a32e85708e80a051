"""What a text's own facts decide where a code has several causes, and whose memory an out-of-memory message counts."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.out_of_memory import judged
from tests.judging import cause_of
from tests.pasted import first, report, root, suspects

INSIDE = "root@098b49afe624:/# "
WSL = "Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host)\n"
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Fri Jul  2 06:04:10 UTC 2021\n"
LIBRARY = "lrwxrwxrwx 1 root root 20 Jul 19 16:31 /usr/lib/x86_64-linux-gnu/libcuda.so.1 -> libcuda.so.{}\n"
COMPAT = "lrwxrwxrwx 1 root root 20 Jul 19 16:31 /usr/local/cuda-12.4/compat/libcuda.so.1 -> libcuda.so.550.54.15\n"
REFUSED = "Error 804: forward compatibility was attempted on non supported HW in cudaGetDeviceCount\n"
PAIR = "cudaGetDeviceCount returned 803\n-> system has unsupported display driver / cuda driver combination\n"
INSUFFICIENT = "RuntimeError: CUDA driver version is insufficient for CUDA runtime version\n"
BLOCKED = "Failed to initialize NVML: GPU access blocked by the operating system\n"
HYPER_V = "hyperv-gpu-incomplete"
KERNEL_GEN = (
    "2026-02-03 10:00:00.000001: W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] "
    "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_{}'\n"
)
UNKNOWN = "Failed to initialize NVML: Unknown Error\n"
NO_NVVM = "NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:\n"
NO_LIBCUDA = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (INSIDE + "nvidia-smi\n" + UNKNOWN, "container-lost-devices"),
        ("$ docker exec -it train nvidia-smi\n" + UNKNOWN, "container-lost-devices"),
        (UNKNOWN, None),
        (INSIDE + "ls\n" + "Unknown Error\n", None),
        (WSL + BLOCKED, "wsl-gpu-unavailable"),
        (BLOCKED, None),
        (BLOCKED + "$ modinfo dxgkrnl\nfilename:       /lib/modules/6.8.0-60-generic/updates/dkms/dxgkrnl.ko.zst\n", HYPER_V),
        ("$ /usr/lib/wsl/lib/nvidia-smi\n" + BLOCKED + "dxgkrnl/1.0, 6.8.0-60-generic, x86_64: installed\n", HYPER_V),
        ("I put dxgkrnl-dkms into the guest, as in WSL.\n\n" + BLOCKED, HYPER_V),
        ("A Debian guest of Hyper-V has a share of the card by GPU-P.\n\n" + BLOCKED, HYPER_V),
        (WSL + BLOCKED + "I read of dxgkrnl-dkms.\n", "wsl-gpu-unavailable"),
        (KERNEL_GEN.format("INVALID_PTX"), "framework-lacks-gpu-arch"),
        (KERNEL_GEN.format("UNSUPPORTED_PTX_VERSION"), "toolkit-newer-than-driver"),
        (KERNEL_GEN.format("ILLEGAL_ADDRESS"), "program-memory-fault"),
        (MODULE.format("460.91.03") + LIBRARY.format("470.57.02") + REFUSED, "driver-version-mismatch"),
        (MODULE.format("460.91.03") + LIBRARY.format("470.57.02") + PAIR, "driver-version-mismatch"),
        (MODULE.format("470.57.02") + LIBRARY.format("470.57.02") + REFUSED, "forward-compat-unsupported"),
        (MODULE.format("470.57.02") + COMPAT + PAIR, "forward-compat-unsupported"),
        ("export LD_LIBRARY_PATH=/usr/local/cuda-12.4/compat\n" + PAIR, "forward-compat-unsupported"),
        ("NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 12.1\n" + PAIR, "forward-compat-unsupported"),
        (PAIR, "driver-version-mismatch"),
        ("no cuda-compat package of NVIDIA\n" + PAIR, "driver-version-mismatch"),
        ("NVIDIA's cuda-compat-12-4 is installed\n" + PAIR, "forward-compat-unsupported"),
        (MODULE.format("418.226.00") + INSUFFICIENT, "toolkit-newer-than-driver"),
        (INSUFFICIENT, None),
        ("export CUDA_HOME=$CUDA_HOME:/usr/local/cuda-11.8\n" + NO_NVVM, "cuda-home-wrong"),
        ("export CUDA_HOME=/usr/local/cuda-11.8\n" + NO_NVVM, "toolkit-missing"),
        ("NVIDIA_DRIVER_CAPABILITIES=utility\n" + NO_LIBCUDA, "container-driver-capabilities"),
        ("NVIDIA_DRIVER_CAPABILITIES=compute,utility\n" + NO_LIBCUDA, "libcuda-missing"),
    ],
)
def test_the_text_itself_decides(text: str, cause: str | None) -> None:
    assert root(text) == cause


@pytest.mark.parametrize(
    ("words", "likeliest"), [("driver 470.256.02", "toolkit-newer-than-driver"), ("driver 580.95.05", "libcuda-missing")]
)
def test_a_driver_that_is_only_spoken_of_orders_the_suspects(words: str, likeliest: str) -> None:
    text = f"A Tesla P100 with {words}.\n>>> torch.__version__, torch.version.cuda, torch.cuda.is_available()\n('2.3.0+cu121', '12.1', False)\n"
    assert (root(text), suspects(text)[0]) == (None, likeliest)


@pytest.mark.parametrize(
    ("value", "path"),
    [("$CUDA_HOME:/usr/local/cuda-11.8", "/usr/local/cuda-11.8"), ("/usr/local/cuda-11.8:/opt/cuda-12", None), ("~/my", None)],
)
def test_the_one_folder_in_a_malformed_value_is_what_to_set(value: str, path: str | None) -> None:
    found = report(f"export CUDA_HOME={value}\n" + NO_NVVM)
    assert cause_of(found) == "cuda-home-wrong"
    assert found.prescription is not None
    commands = [step.shell for step in found.prescription.steps]
    assert (f"export CUDA_HOME={path}" if path else "unset CUDA_HOME") in commands


def test_an_insufficient_driver_that_nobody_showed_may_be_no_driver_at_all() -> None:
    assert suspects(INSUFFICIENT)[:2] == ["toolkit-newer-than-driver", "libcuda-missing"]
    without = "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
    assert suspects(without)[:2] == ["libcuda-missing", "toolkit-newer-than-driver"]


TABLE = """$ nvidia-smi
| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |
|===============================+======================+======================|
|   0  Tesla P100-SXM2...  Off  | 00000000:05:00.0 Off |                    0 |
| N/A   34C    P0    33W / 300W |  {:>5}MiB / 16280MiB |      0%      Default |
+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|=============================================================================|
|  {} |
+-----------------------------------------------------------------------------+
"""
FULL = "CUDA error: out of memory\n"
NOBODY = "No running processes found                                               "
SOMEBODY = "  0   N/A  N/A     18427      C   python3                         12000MiB "


def test_memory_in_use_without_a_process() -> None:
    assert root(FULL + TABLE.format(12809, NOBODY)) == "zombie-gpu-process"
    assert root(FULL + TABLE.format(300, NOBODY)) != "zombie-gpu-process", "what the driver itself reserves"
    assert root(TABLE.format(12809, NOBODY)) is None, "nothing ran out of memory"
    assert root(FULL + TABLE.format(12809, SOMEBODY)) is None
    assert root(INSIDE + "python x.py\n" + FULL + TABLE.format(12809, NOBODY)) is None, "a container does not list the host's processes"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "CUDA out of memory. Tried to allocate 28.00 MiB (GPU 0; 7.93 GiB total capacity; 7.18 GiB already allocated; "
            "27.56 MiB free; 7.36 GiB reserved in total by PyTorch)",
            "program-out-of-memory",
        ),
        (
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.92 GiB total capacity; 69.56 MiB already allocated; "
            "10.62 MiB free; 86.00 MiB reserved in total by PyTorch)",
            "gpu-memory-held-by-others",
        ),
        (
            "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 3.00 GiB already allocated; "
            "10.00 MiB free; 4.00 GiB reserved in total by PyTorch)",
            None,
        ),
        (
            "CUDA out of memory. Tried to allocate 12.00 GiB (GPU 0; 7.93 GiB total capacity; 0 bytes already allocated; "
            "7.50 GiB free; 0 bytes reserved in total by PyTorch)",
            "program-out-of-memory",
        ),
        (
            "CUDA out of memory. Tried to allocate 270.00 MiB. GPU 0 has a total capacity of 15.72 GiB of which 81.44 MiB is free. "
            "Process 2514 has 14.91 GiB memory in use. Of the allocated memory 14.62 GiB is allocated by PyTorch, and 25.86 MiB is "
            "reserved by PyTorch but unallocated.",
            "program-out-of-memory",
        ),
        ("CUDA out of memory. Tried to allocate 20.00 MiB", None),
    ],
)
def test_whose_memory_it_is(message: str, cause: str | None) -> None:
    assert judged(message) == cause
    if cause is not None:
        assert root(message) == cause
        assert root(message.replace(". ", ".\n").replace("; ", ";\n")) == cause


MIG = """\
| NVIDIA-SMI 460.73.01    Driver Version: 460.73.01    CUDA Version: 11.2     |
|   0  A100-SXM4-40GB      On   | 00000000:07:00.0 Off |                   On |
| N/A   32C    P0    69W / 400W |      0MiB / 40536MiB |     N/A      Default |
|                               |                      |              Enabled |
"""
CHILD = "It starts a child process (multiprocessing) and initialises there too.\n"
COUNTERS = "NVML: Unable to get the NvLink link utilization counter control for link 0: Insufficient Permissions\n"
OLD_TENSORFLOW = (
    "name: GeForce GTX 1080\nTotal memory: 7.92GiB\nFree memory: 190.31MiB\n"
    "E cuda_driver.cc:1002] failed to allocate 190.31M from device: CUDA_ERROR_OUT_OF_MEMORY\n"
)
GPUSTAT = "> An error while retrieving `compute_processes`: Function Not Found\n"
HALF_UPDATED = (
    "NVRM: API mismatch: the client has the version 570.153.02, but\nNVRM: this kernel module has the version 570.144.  Please\n"
    "nvidia 0000:07:00.0: Direct firmware load for nvidia/570.144/gsp_ga10x.bin failed with error -2\n"
    "NVRM: GPU 0000:07:00.0: RmInitAdapter failed! (0x61:0x56:1770)\n"
)
TWO_PLACES = (
    '$ python -c "import torch; print(torch.cuda.is_available())"\nError 34: CUDA driver is a stub library\nFalse\n{}\n'
    '$ python -c "import torch; print(torch.cuda.is_available())"\nTrue\n'
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("RuntimeError: no CUDA-capable device is detected\n" + MIG, "mig-without-instances"),
        ("LogicError: cuInit failed: initialization error\n", "uvm-unavailable"),
        (CHILD + "LogicError: cuInit failed: initialization error\n", "program-forked-after-init"),
        (COUNTERS, None),
        (OLD_TENSORFLOW, "gpu-memory-held-by-others"),
        (GPUSTAT, "pynvml-conflict"),
        (HALF_UPDATED, "driver-version-mismatch"),
        (TWO_PLACES.format("in another environment, outside of docker:"), "libcuda-stub-loaded"),
        (TWO_PLACES.format("after a restart:"), None),
        ("GeForce GTX 760. The package nvidia-driver-470 wants NVIDIA driver 535.\n", "driver-too-new-for-gpu"),
        ("MPS daemon runs.\nERROR: The NVIDIA Driver is present, but CUDA failed to initialize.\n", "mps-problem"),
        (
            "NVIDIA GTX 550 Ti, CUDA 9.1, built from source\nCUDA error: no kernel image is available for execution on the device\n",
            "toolkit-dropped-gpu",
        ),
        ("GTX 1080, cuda 7.5\nnvcc fatal   : Unsupported gpu architecture 'compute_61'\n", "toolkit-too-old-for-gpu"),
    ],
)
def test_what_is_first(text: str, cause: str | None) -> None:
    assert first(text) == cause
