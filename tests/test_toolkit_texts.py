"""Short texts of layers toolkit and python: what a program prints, with the few words that a user adds, and the cause that it shows.

The facts of the same text decide (texts/tie_breakers/toolkit.py, texts/tie_breakers/packages.py); "none" is a text that shows no fault.
"""

from __future__ import annotations

import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.model.version import ComputeCapability
from cudadoctor.sources.pasted import evidence_of
from tests.cases import every
from tests.judging import KNOWLEDGE

NONE = "none"
SHOWN: list[tuple[str, str]] = [
    # The CUDA of a wheel, which brings its own NVRTC, is older than the GPU; so is a version that stands in a line of its own.
    (
        "toolkit-too-old-for-gpu",
        "RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)\ntorch 1.7.1+cu110, RTX 3090\n",
    ),
    (
        "toolkit-too-old-for-gpu",
        "cupy.cuda.compiler.CompileException: nvrtc: error: invalid value for --gpu-architecture (-arch)\n\nCUDA Version: 8.0\nGPU: Tesla V100\n",
    ),
    (
        "toolkit-too-old-for-gpu",
        "nvcc fatal : Unsupported gpu architecture 'compute_61'\nThe card is a GTX 1080.\nCUDA version (if applicable): 7.5\n",
    ),
    (  # conda brings CUDA 10.2, the driver has 10.1
        "toolkit-newer-than-driver",
        "conda install pytorch torchvision cudatoolkit=10.2 -c pytorch\n"
        "PyTorch reports no GPU:\n>>> torch.cuda.is_available()\nFalse\n"
        "$ nvidia-smi\n"
        "+-----------------------------------------------------------------------------+\n"
        "| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |\n"
        "|-------------------------------+----------------------+----------------------+\n"
        "|   0  Tesla V100-SXM2...  On   | 00000000:89:00.0 Off |                    0 |\n"
        "| N/A   32C    P0    41W / 300W |      0MiB / 32480MiB |      0%      Default |\n",
    ),
    ("framework-cpu-build", "RuntimeError: Failed to infer device type\n\ntorch==2.6.0+cpu\nvllm==0.8.3\n"),
    (  # JAX without CUDA, and JAX whose CUDA backend came up beside the one of another maker
        "framework-cpu-build",
        "Unable to initialize backend 'cuda': module 'jaxlib.xla_extension' has no attribute 'GpuAllocatorConfig'\n[CpuDevice(id=0)]\n",
    ),
    (
        NONE,
        "Unable to initialize backend 'rocm': module 'jaxlib.xla_extension' has no attribute 'GpuAllocatorConfig'\n[CudaDevice(id=0)]\n",
    ),
    (
        "toolkit-newer-than-driver",
        "CUDA driver version is insufficient for CUDA runtime version\ngpu_cuda:          9.1\ngpu_driver:        390.77\n",
    ),
    (
        "framework-cpu-build",
        "I installed torch with pip on Windows 11, RTX 3060.\n"
        ">>> import torch\n"
        ">>> torch.__version__\n"
        "'2.1.0+cpu'\n"
        ">>> torch.cuda.is_available()\n"
        "False\n",
    ),
    (
        "framework-cpu-build",
        "Collecting environment information...\n"
        "PyTorch version: 1.4.0\n"
        "Is debug build: No\n"
        "CUDA used to build PyTorch: None\n"
        "\n"
        "OS: Ubuntu 16.04.6 LTS\n"
        "Is CUDA available: No\n"
        "CUDA runtime version: Could not collect\n"
        "GPU models and configuration: GPU 0: GeForce GTX 1080\n"
        "Nvidia driver version: 440.33.01\n"
        "[conda] pytorch                   1.4.0               py3.7_cpu_0  [cpuonly]  pytorch\n",
    ),
    (
        "toolkit-newer-than-driver",
        "Collecting environment information...\n"
        "PyTorch version: 2.1.0+cu121\n"
        "CUDA used to build PyTorch: 12.1\n"
        "Is CUDA available: False\n"
        "GPU models and configuration: GPU 0: NVIDIA GeForce GTX 1080\n"
        "Nvidia driver version: 470.199.02\n"
        "cuDNN version: Could not collect\n",
    ),
    (
        "framework-cpu-build",
        "torch.cuda.is_available() is False\n"
        "\n"
        "conda list\n"
        "pytorch                   1.9.0               py3.8_cpu_0    pytorch\n"
        "torchvision               0.10.0                 py38_cpu    pytorch\n"
        "cudatoolkit               11.3.1               h2bc3f7f_2\n",
    ),
    (
        "framework-lacks-gpu-arch",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
        "CUDA kernel errors might be asynchronously reported at some other API call\n"
        "GPU: RTX 5080, torch 2.5.1+cu121",
    ),
    (
        "toolkit-too-old-for-gpu",
        "numba.cuda.cudadrv.driver.CudaAPIError: [209] Call to cuModuleLoadDataEx results in CUDA_ERROR_NO_BINARY_FOR_G"
        "PU\n"
        "GPU RTX 4090, cudatoolkit 11.2 by conda\n",
    ),
    (
        "build-arch-list-stale",
        "nvcc fatal   : Unsupported gpu architecture 'compute_35'\nUsing CUDA 12.1, RTX 3090. make fails",
    ),
    (
        "toolkit-dropped-gpu",
        "nvcc fatal   : Unsupported gpu architecture 'compute_61'\nCUDA 13.0, GTX 1080 Ti",
    ),
    (
        "toolkit-dropped-gpu",
        "My card is a GTX 1080 (Pascal).\n"
        "$ nvcc --version\n"
        "Cuda compilation tools, release 13.0, V13.0.48\n"
        "nvcc fatal   : Unsupported gpu architecture 'compute_61'\n",
    ),
    (
        "build-arch-list-stale",
        "nvcc --version\n"
        "Cuda compilation tools, release 13.0, V13.0.48\n"
        "RTX 4070\n"
        "nvcc fatal   : Unsupported gpu architecture 'compute_61'\n",
    ),
    (
        "toolkit-too-old-for-gpu",
        "nvcc fatal   : Unsupported gpu architecture 'compute_86'\nubuntu 20.04 RTX 3090, nvidia-cuda-toolkit from apt",
    ),
    (
        "host-compiler-unsupported",
        "In file included from /usr/local/cuda-10.2/include/cuda_runtime.h:83,\n"
        "                 from <command-line>:\n"
        "/usr/local/cuda-10.2/include/crt/host_config.h:138:2: error: #error -- unsupported GNU version! gcc versions l"
        "ater than 8 are not supported!\n"
        "make: *** [Makefile:83: main.o] Error 1",
    ),
    (
        "host-compiler-unsupported",
        "CMake Error at /usr/share/cmake-3.28/Modules/CMakeTestCUDACompiler.cmake:59 (message):\n"
        "  The CUDA compiler\n"
        '    "/usr/bin/nvcc"\n'
        "  is not able to compile a simple test program.\n"
        "  It fails with the following output:\n"
        '    /usr/include/stdlib.h(141): error: identifier "_Float32" is undefined\n',
    ),
    (
        "toolkit-libraries-mixed",
        "RuntimeError: \n"
        "The detected CUDA version (12.4) mismatches the version that was used to compile\n"
        "PyTorch (11.8). Please make sure to use the same CUDA versions.",
    ),
    (
        "toolkit-libraries-mixed",
        "pip freeze | grep cupy\n"
        "cupy-cuda11x==12.3.0\n"
        "cupy-cuda12x==13.0.0\n"
        "\n"
        "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory",
    ),
    (
        "cudnn-missing-or-mismatched",
        "ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory\n import tensorflow as tf",
    ),
    (
        "cudnn-missing-or-mismatched",
        "[E:onnxruntime:Default, provider_bridge_ort.cc:1744 TryGetProviderInfo_CUDA] /onnxruntime_src/onnxruntime/core"
        "/session/provider_bridge_ort.cc:1426 onnxruntime::Provider& onnxruntime::ProviderLibrary::Get() [ONNXRuntimeEr"
        "ror] : 1 : FAIL : Failed to load library libonnxruntime_providers_cuda.so with error: libcudnn.so.9: cannot op"
        "en shared object file: No such file or directory\n"
        "\n"
        "[W:onnxruntime:Default, onnxruntime_pybind_state.cc:870 CreateExecutionProviderInstance] Failed to create CUDA"
        "ExecutionProvider. Please reference https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.htm"
        "l#requirementsto ensure all dependencies are met.",
    ),
    (
        "framework-cuda-libs-missing",
        "[W:onnxruntime:Default, onnxruntime_pybind_state.cc:870 CreateExecutionProviderInstance] Failed to create CUDA"
        "ExecutionProvider. Please reference https://onnxruntime.ai/docs/",
    ),
    (
        "framework-cuda-libs-missing",
        "2024-01-22 W tensorflow/core/common_runtime/gpu/gpu_device.cc:2256] Cannot dlopen some GPU libraries. Please m"
        "ake sure the missing libraries mentioned above are installed properly if you would like to use GPU. Skipping r"
        "egistering GPU devices...\n"
        "[]",
    ),
    (
        "framework-cuda-libs-missing",
        "Traceback (most recent call last):\n"
        '  File "x.py", line 1, in <module>\n'
        "    import torch\n"
        '  File "/opt/conda/lib/python3.8/site-packages/torch/__init__.py", line 196, in <module>\n'
        "    _load_global_deps()\n"
        "OSError: libcurand.so.10: cannot open shared object file: No such file or directory",
    ),
    (
        "python-abi-mismatch",
        "ImportError: /usr/lib/python3/dist-packages/torch_scatter/_version_cuda.so: undefined symbol: _ZNK3c1010Tensor"
        "Impl36is_contiguous_nondefault_policy_implENS_12MemoryFormatE",
    ),
    (
        "python-abi-mismatch",
        "AttributeError: module 'numpy' has no attribute 'int'\n  File numba/...",
    ),
    (
        "numba-too-old",
        "OSError: exception: access violation reading 0x0000000000000001\nnumba 0.59.1, driver 581.29, from numba import cuda",
    ),
    (
        "numba-too-old",
        "numba.cuda.cudadrv.error.NvvmSupportError: No supported GPU compute capabilities found. Please check your cuda"
        "toolkit version matches your CUDA version.\n"
        "Cuda compilation tools, release 12.0, V12.0.140\n"
        "numba 0.55",
    ),
    (
        "numba-cuda-target-missing",
        "Traceback (most recent call last):\n"
        '  File "/x/numba_cuda/numba/cuda/__init__.py", line 12\n'
        "ImportError: CUDA bindings not found. Please pip install the cuda-bindings package.",
    ),
    (
        "toolkit-missing",
        "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
    ),
    (
        "toolkit-missing",
        "numba.cuda.cudadrv.error.NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:\nlibrary nvvm not found",
    ),
    (
        "cuda-home-wrong",
        "error: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'\necho $CUDA_HOME\n/usr/local/cuda",
    ),
    (
        "libcuda-missing",
        "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"
        "Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file",
    ),
    (
        "library-path-conflict",
        "ImportError: /home/u/.local/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCom"
        "mRegister\n"
        "echo $LD_LIBRARY_PATH\n"
        "/usr/local/cuda/lib64",
    ),
    (
        "toolkit-libraries-mixed",
        "ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12\n"
        "$ pip list | grep nvidia\n"
        "nvidia-cuda-runtime-cu12   12.4.127\n"
        "nvidia-cusparse-cu12       12.3.1.170\n"
        "nvidia-nvjitlink-cu12      12.1.105\n",
    ),
    (
        "framework-lacks-gpu-arch",
        "NVIDIA GeForce RTX 3090 with CUDA capability sm_86 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70.",
    ),
    (
        "toolkit-newer-than-driver",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insuffici"
        "ent for CUDA runtime version\n"
        "+----+\n"
        "| NVIDIA-SMI 418.67       Driver Version: 418.67       CUDA Version: 10.1     |\n"
        "|-------------------------------+----------------------+----------------------+\n",
    ),
    (
        "framework-cuda-libs-missing",
        "RuntimeError: Library libcublas.so.12 is not found or cannot be loaded\nfaster-whisper 1.0.3",
    ),
    (
        "toolkit-libraries-mixed",
        "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 11.5 d"
        "oes not match the version torch was compiled with 11.7, unable to compile cuda/cpp extensions without a matchi"
        "ng cuda version.",
    ),
    (
        "toolkit-missing",
        "deepspeed: MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)",
    ),
    (
        "toolkit-too-old-for-gpu",
        "ptxas fatal   : Value 'sm_86' is not defined for option 'gpu-name'\nJAX jaxlib",
    ),
    (
        "numba-simulator-enabled",
        "$ numba -s\nid 0             b'SIMULATOR'                              [SUPPORTED]\n",
    ),
    (
        "pynvml-conflict",
        "AttributeError: module 'pynvml' has no attribute 'nvmlInit'",
    ),
    (
        "none",
        "I use torch 2.1.0+cu121 on RTX 3090, driver 535. Training loss is NaN after 3 epochs. pip list:\n"
        "numpy 1.26.0\n"
        "torch 2.1.0+cu121\n"
        "numba 0.56.4\n",
    ),
    (
        "none",
        "Collecting environment information...\n"
        "PyTorch version: 2.1.0+cu121\n"
        "CUDA used to build PyTorch: 12.1\n"
        "Is CUDA available: True\n"
        "GPU 0: NVIDIA GeForce RTX 3090\n"
        "Nvidia driver version: 535.54.03\n"
        "[pip3] numpy==1.26.0\n"
        "[pip3] torch==2.1.0+cu121\n"
        "\n"
        "My model gives a wrong gradient for torch.linalg.eigh",
    ),
    (
        "none",
        "2023-01-01 I tensorflow/core/platform/cpu_feature_guard.cc:193] This TensorFlow binary is optimized with oneAP"
        "I Deep Neural Network Library\n"
        "Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been re"
        "gistered\n"
        "TF-TRT Warning: Could not find TensorRT\n"
        "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]",
    ),
    (
        "host-compiler-unsupported",
        "unable to build: error: command '/usr/local/cuda-10.1/bin/nvcc' failed with exit status 1\n"
        "gcc --version\n"
        "gcc (Ubuntu 9.4.0-1ubuntu1~20.04.1) 9.4.0\n",
    ),
    (
        "numba-cuda-disabled",
        "numba.cuda.cudadrv.error.CudaSupportError: \n"
        "CUDA is disabled due to setting NUMBA_DISABLE_CUDA=1\n"
        "in the environment, or because CUDA is unsupported on 32-bit systems.",
    ),
    (
        "framework-cpu-build",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you"
        " are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your st"
        "orages to the CPU.\n"
        "pip show torch\n"
        "Name: torch\n"
        "Version: 2.0.1+cpu\n",
    ),
    (
        "framework-cuda-libs-missing",
        "Failed to import CuPy.\n"
        "\n"
        "If you installed CuPy via wheels (cupy-cudaXXX or cupy-rocm-X-X), make sure that the package matches with the "
        "version of CUDA or ROCm installed.\n"
        "\n"
        "Original error:\n"
        "  ImportError: libnvrtc.so.11.2: cannot open shared object file: No such file or directory",
    ),
    (
        "cudnn-missing-or-mismatched",
        "Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: cannot open shared object file: No such file or directory",
    ),
]


@every("cause, text", SHOWN)
def test_a_short_text_names_its_cause(cause: str, text: str) -> None:
    report = judge(evidence_of(text.encode()), KNOWLEDGE)
    diagnosis = report.diagnosis
    assert diagnosis.crashes == ()
    root = diagnosis.root.cause if diagnosis.root is not None else None
    assert root == (None if cause == NONE else cause), [finding.cause for finding in diagnosis.suspects]


@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.is_available() returns False\n",
        "RuntimeError: Torch is not able to use GPU; add --skip-torch-cuda-test to COMMANDLINE_ARGS variable to disable this check\n",
        "an invalid device function was hit: no kernel image is available for execution on the device\n",
        "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED\n",
    ],
)
def test_what_has_several_causes_stays_open_and_says_what_to_ask(text: str) -> None:
    report = judge(evidence_of(text.encode()), KNOWLEDGE)
    assert report.verdict == "undecided"
    assert report.diagnosis.suspects
    assert report.diagnosis.ask


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("$ nvcc --version\nbash: nvcc: command not found\n", "toolkit-missing"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\nRTX 4070\n", "toolkit-too-old-for-gpu"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\nGeForce GTX 660\n", "toolkit-dropped-gpu"),
    ],
)
def test_the_likeliest_suspect_comes_first(text: str, first: str) -> None:
    diagnosis = judge(evidence_of(text.encode()), KNOWLEDGE).diagnosis
    assert diagnosis.root is None
    assert diagnosis.suspects[0].cause == first


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GeForce RTX 5090", "12.0"), ("NVIDIA RTX 6000 Ada Generation", "8.9"), ("NVIDIA RTX A6000", "8.6"), ("Quadro RTX 4000", "7.5"),
        ("NVIDIA A100-SXM4-40GB", "8.0"), ("NVIDIA H100 80GB HBM3", "9.0"), ("Tesla T4", "7.5"), ("Tesla V100-SXM2-32GB", "7.0"),
        ("TITAN X (Pascal)", "6.1"), ("GeForce GTX TITAN X", "5.2"), ("GeForce GTX 960M", "5.0"), ("GeForce GTX 980", "5.2"), ("Tesla K80", "3.7"),
        ("GeForce GTX 660", "3.0"), ("GeForce GTX 580", "2.0"), ("NVIDIA B200", "10.0"), ("NVIDIA GB10", "12.1"),
    ],
)  # fmt: skip
def test_a_product_has_one_capability(name: str, capability: str) -> None:
    found = KNOWLEDGE.capability_of_product(name)
    assert found == ComputeCapability(capability)
    assert KNOWLEDGE.capability(found) is not None


@pytest.mark.parametrize("name", ["GeForce GT 730", "Radeon RX 580", "GeForce GTX 860M", "P8", "Intel UHD 630"])
def test_a_name_with_several_chips_or_of_no_gpu_has_none(name: str) -> None:
    assert KNOWLEDGE.capability_of_product(name) is None


def test_every_index_of_pytorch_is_of_a_known_toolkit_and_serves_known_gpus() -> None:
    for row in KNOWLEDGE.torch_indexes:
        assert KNOWLEDGE.toolkit(row.toolkit) is not None
        assert row.tag == f"cu{row.cuda.replace('.', '')}"
        assert KNOWLEDGE.capability(ComputeCapability(row.cc_min)) is not None


@pytest.mark.parametrize(
    "shown",
    [
        "- PyTorch version (GPU?): 2.0.1+cpu (False)",
        "Ultralytics 8.3.40 Python-3.11.9 torch-2.4.0+cpu CPU (AMD Ryzen 5 5600X 6-Core Processor)",
        ">>> torch.__version__\n'2.3.0+cpu'",
        "YOLOv5  v6.0-147-g628817d torch 1.10.2+cpu CPU",
    ],
)
@pytest.mark.parametrize("also", ["", "CUDA available: True\n"])
def test_a_build_without_cuda_in_a_listing_is_looked_at_first_and_blamed_for_nothing(shown: str, also: str) -> None:
    found = judge(evidence_of(f"{shown}\n{also}".encode()), KNOWLEDGE).diagnosis
    assert found.root is None
    assert [suspect.cause for suspect in found.suspects] == ([] if also else ["framework-cpu-build"])
