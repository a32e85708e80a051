"""What a text's own facts say about the program: impossible launches, forks, late errors, and whose memory ran out."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.base import Text
from cudadoctor.parsers.out_of_memory import clues
from tests.pasted import report, root, suspects

OWN, OTHERS, ZOMBIE = "program-out-of-memory", "gpu-memory-held-by-others", "zombie-gpu-process"
FAULT, TIMEOUT = "program-memory-fault", "program-launch-timeout"
LAUNCH_FAILED = "./queens 18: CUDA error: unspecified launch failure ({})\n"
WATCHED = "  Run time limit on kernels:                     {}\n"
FULL = "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\n"
UNINITIALISED = "cupy.cuda.driver.CUDADriverError: CUDA_ERROR_NOT_INITIALIZED: initialization error\n"
MEMORY = "$ nvidia-smi --query-gpu=memory.used,memory.total --format=csv\nmemory.used [MiB], memory.total [MiB]\n{} MiB, 8192 MiB\n"
PIDS = "$ nvidia-smi --query-compute-apps=pid,used_memory --format=csv\npid, used_gpu_memory [MiB]\n"
CHILD = '  File "/usr/lib/python3.8/multiprocessing/process.py", line 315, in _bootstrap\n'
SPAWNED = '  File "/usr/lib/python3.8/multiprocessing/spawn.py", line 116, in spawn_main\n'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("CudaAPIError: [1] Call to cuLaunchKernel results in CUDA_ERROR_INVALID_VALUE", "program-launch-config"),
        ("pycuda._driver.LogicError: cuLaunchKernel failed: invalid argument", "program-launch-config"),
        ("CudaAPIError: [1] Call to cuMemcpyDtoH results in CUDA_ERROR_INVALID_VALUE", None),
        (UNINITIALISED + CHILD, "program-forked-after-init"),
        (UNINITIALISED + SPAWNED + CHILD, None),
        (UNINITIALISED, None),
        (UNINITIALISED + "import multiprocessing as mp\n", "program-forked-after-init"),
        (
            "Caught RuntimeError in DataLoader worker process 0.\nRuntimeError: CUDA error: initialization error",
            "program-forked-after-init",
        ),
        ('CUDA error at r.cu:2 code=999(cudaErrorUnknown) "cudaDeviceSynchronize()"', None),
        ('CUDA error at r.cu:2 code=999(cudaErrorUnknown) "cudaGetDeviceCount(&n)"\nthe screen goes black', None),
        (LAUNCH_FAILED.format("after 5.4 s") + WATCHED.format("Yes"), TIMEOUT),
        (LAUNCH_FAILED.format("after 5.4 s") + WATCHED.format("No"), FAULT),
        (LAUNCH_FAILED.format("at once") + WATCHED.format("Yes"), FAULT),
        (LAUNCH_FAILED.format("after 40 s") + WATCHED.format("Yes"), FAULT),
        (LAUNCH_FAILED.format("after 2.2 s") + "    TdrDelay    REG_DWORD    0x2\n", TIMEOUT),
        (LAUNCH_FAILED.format("after 2.2 s") + WATCHED.format("Yes") + "Invalid __global__ write of size 4 bytes\n", FAULT),
    ],
)
def test_what_the_program_did(text: str, cause: str | None) -> None:
    assert root(text) == cause


def test_a_late_unknown_error_is_the_kernels() -> None:
    found = suspects('CUDA error at r.cu:2 code=999(cudaErrorUnknown) "cudaDeviceSynchronize()"')
    assert found[:2] == ["program-launch-timeout", "program-memory-fault"]
    assert suspects("cuInit failed: unknown error")[0] == "uvm-unavailable"


@pytest.mark.parametrize(
    ("shown", "cause"),
    [
        ("", None),
        (MEMORY.format(214), OWN),
        (PIDS + "40711, 7398 MiB\n", OTHERS),
        (PIDS + "40711, 7398 MiB\n$ ls /proc/40711\nls: cannot access '/proc/40711': No such file or directory\n", ZOMBIE),
        (PIDS + "40711, 7398 MiB\n$ ls /proc/1411\nls: cannot access '/proc/1411': No such file or directory\n", OTHERS),
        (PIDS + "40711, 7398 MiB\n$ kill -9 40711\nbash: kill: (40711) - No such process\n", ZOMBIE),
        (PIDS + "40711, 7398 MiB\n$ ps -p 40711\n    PID TTY          TIME CMD\n$ \n", ZOMBIE),
        (PIDS + "40711, 7398 MiB\n$ ps -p 40711\n    PID TTY          TIME CMD\n", OTHERS),  # the rest may not have been copied
        (PIDS + "40711, 7398 MiB\n$ ps -p 40711\n    PID TTY          TIME CMD\n  40711 pts/1    00:10:01 python3\n$ \n", OTHERS),
        ("In the docker container:\n" + PIDS + "40711, 7398 MiB\n$ kill -9 40711\nbash: kill: (40711) - No such process\n", OTHERS),
        (MEMORY.format(7411) + PIDS, None),  # the list may go on
        (MEMORY.format(7411) + PIDS + "ada@box:~$\n", ZOMBIE),
        (MEMORY.format(7411), None),
        ("root@098b49afe624:/# ls\n" + MEMORY.format(7411) + PIDS + "root@098b49afe624:/#\n", None),  # its host's processes are not seen
    ],
)
def test_whose_memory_by_the_answers_to_what_was_asked(shown: str, cause: str | None) -> None:
    assert root(FULL + shown) == cause


def test_without_an_answer_both_stay_open() -> None:
    assert suspects(FULL)[:2] == [OWN, OTHERS]
    assert suspects("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")[:2] == [OWN, OTHERS]


LLAMA = (
    "  Device 0: NVIDIA GeForce RTX 4090, compute capability 8.9, VMM: yes{}\n"
    "llama_model_load: using device CUDA0 (NVIDIA GeForce RTX 4090) - {} MiB free\n"
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating {} MiB on device 0: cudaMalloc failed: out of memory\n"
)
TORCH_1 = "CUDA out of memory. Tried to allocate {} (GPU 0; {} total capacity; {} already allocated; {} free; {} {})"
TORCH_2 = (
    "CUDA out of memory. Tried to allocate {} GPU 0 has a total capac{}ty of {} of which {} is free. {}"
    "Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated."
)
RESERVED, CACHED = "reserved in total by PyTorch", "cached"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (TORCH_1.format("20.00 MiB", "7.92 GiB", "7.03 GiB", "15.19 MiB", "7.15 GiB", RESERVED), OWN),
        (TORCH_1.format("20.00 MiB", "7.92 GiB", "69.56 MiB", "10.62 MiB", "86.00 MiB", RESERVED), OTHERS),
        (TORCH_1.format("20.00 MiB", "10.76 GiB", "2.42 GiB", "26.12 MiB", "2.75 GiB", RESERVED), OTHERS),
        (TORCH_1.format("12.50 MiB", "10.92 GiB", "8.57 MiB", "9.28 GiB", "4.68 MiB", CACHED), None),  # there was room
        (TORCH_1.format("244.00 MiB", "2.00 GiB", "1.12 GiB", "25.96 MiB", "333.35 MiB", CACHED), OWN),  # the context fills the rest
        (TORCH_1.format("1.00 GiB", "23.00 GiB", "12.00 GiB", "26.00 MiB", "12.50 GiB", RESERVED), OTHERS),  # 9.5 GiB are no context
        (TORCH_1.format("1.00 GiB", "12.00 GiB", "6.00 GiB", "26.00 MiB", "6.50 GiB", RESERVED), None),  # half and half
        (TORCH_2.format("1.50 GiB.", "", "23.69 GiB", "812.94 MiB", "", "21.20 GiB", "1.20 GiB"), OWN),
        (TORCH_2.format("1.50 GiB.", "i", "23.69 GiB", "812.94 MiB", "", "21.20 GiB", "1.20 GiB"), OWN),
        (
            TORCH_2.format(
                "2.00 GiB.", "i", "23.69 GiB", "15.44 MiB", "Process 8817 has 22.10 GiB memory in use. ", "1.02 GiB", "12.53 MiB"
            ),
            OTHERS,
        ),
        (
            TORCH_2.format(
                "2.00 GiB.", "i", "15.72 GiB", "81.44 MiB", "Process 25 has 14.91 GiB memory in use. ", "14.62 GiB", "25.86 MiB"
            ),
            OWN,
        ),
        (TORCH_2.format("999.00 GiB.", "i", "139.80 GiB", "139.29 GiB", "", "0 bytes", "0 bytes"), OWN),  # more than there is at all
        (TORCH_2.format("2.00 GiB.", "i", "79.15 GiB", "60.00 GiB", "20.00 GiB allowed; ", "18.50 GiB", "0.50 GiB"), OWN),
        ("torch.OutOfMemoryError: HIP" + TORCH_2.format("2 GiB.", "i", "16.00 GiB", "22.00 MiB", "", "15.30 GiB", "0 bytes")[4:], None),
        ("Cannot allocate 1.5GB memory on GPU 0, 10.2GB memory has been allocated and available memory is only 512.0MB.", OWN),
        ("Cannot allocate 1.5GB memory on GPU 0, 10.2MB memory has been allocated and available memory is only 512.0MB.", None),
        ("Free memory on device (2.1/79.15 GiB) on startup is less than desired GPU memory utilization (0.9, 71.24 GiB)", OTHERS),
        ("Free memory on device cuda:0 (14.6/15.9 GiB) on startup is less than desired GPU memory utilization (0.95, 15.1 GiB)", OWN),
        ("totalMemory: 7.93GiB freeMemory: 177.75MiB\nfailed to allocate: CUDA_ERROR_OUT_OF_MEMORY", OTHERS),
        ("totalMemory: 7.93GiB freeMemory: 7.61GiB\nfailed to allocate: CUDA_ERROR_OUT_OF_MEMORY", None),
        ("totalMemory: 7.93GiB freeMemory: 177.75MiB\nEpoch 1", None),
        (LLAMA.format("", 23620, "37546.98"), OWN),
        (LLAMA.format("", 21000, "37546.98"), None),  # of what card: it may be a larger one
        (LLAMA.format("", 23620, "23700.00"), OWN),
        (LLAMA.format("", 23620, "4000.00"), None),  # there was room
        (LLAMA.format(", VRAM: 24080 MiB", 3620, "4000.00"), OTHERS),
        (LLAMA.format(", VRAM: 24080 MiB", 3620, "24400.00"), OWN),
        (LLAMA.format(", VRAM: 24080 MiB", 15000, "16000.00"), None),  # both
        (LLAMA.format("", 23620, "37546.98").replace("CUDA0", "CUDA1"), None),  # of another device
    ],
)
def test_whose_memory_by_the_messages_figures(message: str, cause: str | None) -> None:
    found = clues(Text(message, source="text"))
    assert [clue.cause for clue in found] == ([cause] if cause is not None else [])


def test_a_broken_line_is_read_as_one() -> None:
    message = TORCH_1.format("20.00 MiB", "7.92 GiB", "7.03 GiB", "15.19 MiB", "7.15 GiB", RESERVED)
    assert [clue.cause for clue in clues(Text(message.replace("; ", ";\n"), source="text"))] == [OWN]


IDLE = (
    "+-----+\n| NVIDIA-SMI 535.129.03   Driver Version: 535.129.03   CUDA Version: 12.2 |\n"
    "|   0  NVIDIA GeForce RTX 3090    Off  | 00000000:1A:00.0 Off |                  N/A |\n"
    "|  0%   31C    P8    12W / 350W |     12MiB / 24576MiB |      0%      Default |\n"
)


@pytest.mark.parametrize("epoch", [1, 2, 3, 35, 46, 100, 999])
def test_a_number_of_a_line_is_no_code(epoch: int) -> None:
    """A clue keeps the code that raised it: no rule reads one out of the quoted line."""
    status = "epoch {} : cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\n"
    shown, plain = (report(IDLE + status.format(name)).diagnosis for name in (epoch, "x"))
    assert (shown.root and shown.root.cause) == (plain.root and plain.root.cause)
    assert [one.cause for one in shown.suspects] == [one.cause for one in plain.suspects]


PLUGIN = "E0203 09:14:27.518846       1 main.go:132] error starting plugins: unable to create plugin manager: invalid device discovery strategy\n"


@pytest.mark.parametrize(
    "shown",
    [
        '$ sudo crictl info | grep -i defaultruntimename\n      "defaultRuntimeName": "nvidia",\n',
        '$ sudo crictl info | jq .config.containerd.defaultRuntimeName\n"nvidia"\n',
        "$ docker info | grep -i runtime\n Runtimes: io.containerd.runc.v2 nvidia runc\n Default Runtime: nvidia\n",
    ],
)
def test_an_engine_whose_default_is_nvidias_runtime_has_one(shown: str) -> None:
    assert root(PLUGIN) == "container-toolkit-missing"
    assert root(shown + PLUGIN) is None
    assert suspects(shown + PLUGIN)[:2] == ["container-no-gpu-access", "container-toolkit-missing"]


def test_other_words_of_a_missing_runtime_stand_beside_that_setting() -> None:
    text = 'Default Runtime: nvidia\ndocker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
    assert root(text) == "container-toolkit-missing"
