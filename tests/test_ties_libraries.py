"""Libraries and toolkits by what the same text says of them: no path, no cuDNN, Numba's own target, a job without a GPU."""

from __future__ import annotations

import pytest

from tests.pasted import first, root, suspects

PATH, MIXED = "library-path-conflict", "toolkit-libraries-mixed"
LIBRARIES, CUDNN = "framework-cuda-libs-missing", "cudnn-missing-or-mismatched"
SYMBOL = (
    "ImportError: /srv/v/lib/python3.12/site-packages/nvidia/cu13/lib/libcusparse.so.12: undefined symbol: "
    "__nvJitLinkGetErrorLogSize_13_0, version libnvJitLink.so.13\n"
)
PROVIDER = (
    '[E:onnxruntime:Default, provider_bridge_ort.cc:1992] LoadLibrary failed with error 126 "" when trying to load '
    '"C:\\py\\onnxruntime\\capi\\onnxruntime_providers_cuda.dll"\n'
)
REPORT = "CUDA Driver Version                           : 13.0\nCUDA Runtime Version                          : {}\n"
NO_PLATFORM = "RuntimeError: Unable to initialize backend 'cuda': INTERNAL: no supported devices found for platform CUDA\n"
JOB = "JobId=90122817 JobName=jax_pd\n   AllocTRES=cpu=16,mem=120G,node=1,billing=16{}\n"
NO_LIBCUDA = "OSError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
NO_IMAGE = "main.cu(511): CUDA runtime error 209: no kernel image is available for execution on the device\nIt is an RTX 3070.\n"
LISTED = ">>> numba.cuda.is_available()\nFalse\n>>> dict(os.environ)\n{'CUDA_HOME': '/usr/local/cuda', 'NUMBA_DISABLE_CUDA': '%s'}\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (SYMBOL, PATH),
        (SYMBOL + "LD_LIBRARY_PATH is set.\n", PATH),
        (SYMBOL.replace("site-packages/nvidia/cu13/lib", "cuda/lib64") + "LD_LIBRARY_PATH is empty.\n", PATH),
        (PROVIDER, LIBRARIES),
        (PROVIDER + "cudnn64_9.dll is there.\n", LIBRARIES),
        (REPORT.format("13.0") + "numba                    0.61.2\nllvmlite                 0.44.0\n", "numba-too-old"),
        (REPORT.format("13.0") + "numba                    0.61.2\nnumba-cuda               0.20.1\n", None),
        (REPORT.format("12.4") + "numba                    0.61.2\n", None),
        (REPORT.format("13.0"), None),
        (NO_PLATFORM + JOB.format(""), "scheduler-gave-no-gpu"),
        (NO_PLATFORM + JOB.format(",gres/gpu=1"), None),
        (NO_LIBCUDA + "During the build there is no GPU, so I linked it.\n", "libcuda-missing"),
        (NO_LIBCUDA + "There is no GPU at build time.\n", "libcuda-missing"),
    ],
)
def test_what_the_text_decides(text: str, cause: str | None) -> None:
    assert root(text) == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (NO_IMAGE + "My nvcc is the one that I never touched (9.2).\n", "toolkit-too-old-for-gpu"),
        (NO_IMAGE + "My nvcc is the one that I never touched (12.2).\n", "framework-lacks-gpu-arch"),
        (LISTED % "1", "numba-cuda-disabled"),
        (
            "The string of available GPU device IDs '23' may not contain device IDs that were not detected or are not compatible\n",
            "cuda-visible-devices-invalid",
        ),
        (
            "Numba, why is my graphics card idle?\n$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv\n"
            "pid, process_name, used_gpu_memory [MiB]\n$ \n",
            "program-not-on-gpu",
        ),
    ],
)
def test_what_is_likeliest(text: str, cause: str) -> None:
    assert first(text) == cause


def test_what_says_the_opposite_raises_none_of_them() -> None:
    assert "numba-cuda-disabled" not in suspects(LISTED % "0")[:1]
    assert first("The side panel is on, and the GPU stays at 2.8 M PPD.\n") != "thermal-or-power-throttling"


TRAINS = "@8f0a7c2d11b3:/# nvidia-smi\nbash: nvidia-smi: command not found\n"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("I do not know whether it runs on the GPU.", None),
    ],
)
def test_only_the_tool_is_missing_where_the_program_runs(said: str, cause: str | None) -> None:
    assert root(f"{said}\nroot{TRAINS}") == cause


NO_IMAGE = "CUDA error: no kernel image is available for execution on the device\n"
ADVICE = "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
NO_LIBCUDA = "Failed to import with ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')\n"
HIP = "[W326 11:03:17.247903641 HIPAllocatorConfig.h:29] Warning: expandable_segments not supported on this platform\n"
NO_GPUS = 'time=2025-04-29T20:11:09.132Z level=INFO source=gpu.go:377 msg="no compatible GPUs were discovered"\n'
INSPECTED = '"LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",\n"NVIDIA_VISIBLE_DEVICES=all",\n'
NO_ARCHITECTURE = "nvcc fatal   : Unsupported gpu architecture 'compute_No CUDA devices found.'\n"


def test_the_advice_of_pytorch_tells_whose_binaries_they_are() -> None:
    assert root(NO_IMAGE + ADVICE) == "framework-lacks-gpu-arch"
    assert root(NO_IMAGE) is None


def test_a_build_for_amd_makes_no_fault_of_a_driver_that_is_not_there() -> None:
    assert (root(NO_LIBCUDA + HIP), suspects(NO_LIBCUDA + HIP)[0]) == (None, "no-nvidia-gpu")
    assert root(NO_LIBCUDA) == "libcuda-missing"


def test_what_an_image_sets_for_itself_asks_for_no_gpu() -> None:
    assert suspects(NO_GPUS + INSPECTED)[0] == "container-no-gpu-access"
    assert suspects(NO_GPUS + "docker run -e NVIDIA_VISIBLE_DEVICES=all ollama/ollama\n")[0] != "container-no-gpu-access"


def test_a_step_of_an_images_build_has_no_gpu() -> None:
    assert root(NO_ARCHITECTURE + "Step 3/7 : RUN cmake --build build\n") == "build-sees-no-gpu"
    assert (root(NO_ARCHITECTURE), suspects(NO_ARCHITECTURE)[0]) == (None, "libcuda-missing")
