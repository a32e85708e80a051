"""Whose memory it is by what a text says or lists beside a failure (texts/tie_breakers/programs.py), and limits of a subshell."""

from __future__ import annotations

import pytest

from tests.pasted import first, root, suspects

OWN, OTHERS, ZOMBIE = "program-out-of-memory", "gpu-memory-held-by-others", "zombie-gpu-process"
PLAIN = "RuntimeError: CUDA error: out of memory\n"
FIGURES = (
    "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 10.92 GiB total capacity; 0 bytes already allocated; "
    "1.69 MiB free; 0 bytes reserved in total by PyTorch)\n"
)
PIDS = (
    "$ nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv\npid, process_name, used_gpu_memory [MiB]\n7781, {}, {} MiB\n$ \n"
)
TABLE = (
    "|   0  NVIDIA GeForce RTX 3090    Off  | 00000000:1A:00.0 Off |                  N/A |\n"
    "| 30%   41C    P8    27W / 350W |  {:>5}MiB / 24576MiB |      0%      Default |\n"
    "| Processes:                                                                  |\n"
    "|  No running processes found                                                 |\n"
)
STOPPED = "I pressed Ctrl-C in a 4-GPU training.\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PLAIN, OTHERS),
        (PLAIN + "I am alone on this card.\n", OWN),
        (PLAIN + "Nobody else uses the server.\n", OWN),
        (PLAIN + "There is no other process on the GPU.\n", OWN),
        (PLAIN + "I am not alone on this card.\n", OTHERS),
        (PLAIN + "It fails by day, when the others sit at their notebooks on the same server.\n", OTHERS),
        (STOPPED + TABLE.format(22871), ZOMBIE),
        ("The ssh connection was lost during a training.\n" + TABLE.format(22871), ZOMBIE),
        (STOPPED + TABLE.format(12), None),
        (TABLE.format(22871), None),
        ("In my docker container. " + STOPPED + TABLE.format(22871), None),
    ],
)
def test_what_is_likeliest(text: str, cause: str | None) -> None:
    assert first(text) == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (FIGURES, OTHERS),
        (FIGURES + PIDS.format("[Not Found]", 10900), ZOMBIE),
        (FIGURES + PIDS.format("[Not Found]", 90), OTHERS),
        (FIGURES + PIDS.format("[Unknown Error]", 10900), OTHERS),  # may not be read
        (FIGURES + PIDS.format("python", 10900), OTHERS),
        ("docker run --gpus all x\n" + FIGURES + PIDS.format("[Not Found]", 10900), OTHERS),
    ],
)
def test_who_holds_what_the_figures_give_to_others(text: str, cause: str) -> None:
    assert root(text) == cause


CU_INIT = "pycuda._driver.MemoryError: cuInit failed: out of memory\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("$ ulimit -v\n16777216\n" + CU_INIT + "$ (ulimit -v unlimited; ./a)\nok\n", "process-limits"),
        ("$ ulimit -v\n16777216\n$ ulimit -v unlimited\n" + CU_INIT, None),
    ],
)
def test_a_limit_that_is_lifted_for_one_command_holds_for_the_others(text: str, cause: str | None) -> None:
    assert root(text) == cause


def test_where_cpu_and_gpu_share_one_memory_that_is_a_suspect() -> None:
    ran_out = "torch.AcceleratorError: CUDA error: out of memory\n"
    table = "$ nvidia-smi --query-gpu=name,memory.total --format=csv\nname, memory.total [MiB]\nNVIDIA {}, [N/A]\n"
    assert "unified-memory-exhausted" in suspects(ran_out + table.format("GB10"))
    assert "unified-memory-exhausted" not in suspects(ran_out + table.format("H100"))
