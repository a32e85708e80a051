"""Short texts of layers toolkit and python: what a program prints, with the few words that a user adds, and the cause that it shows.

The facts of the same text decide (texts/tie_breakers/toolkit.py, texts/tie_breakers/packages.py); "none" is a text that shows no fault.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cudadoctor.model.version import ComputeCapability
from tests.cases import every
from tests.judging import KNOWLEDGE
from tests.pasted import report, root, suspects

NONE = "none"
SHOWN: dict[str, list[str]] = msgspec.toml.decode(Path(__file__).with_name("toolkit_texts.toml").read_bytes())


@every("cause, text", [(cause, text) for cause, texts in SHOWN.items() for text in texts])
def test_a_short_text_names_its_cause(cause: str, text: str) -> None:
    assert root(text) == (None if cause == NONE else cause), suspects(text)


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
    found = report(text)
    assert found.verdict == "undecided"
    assert found.diagnosis.suspects
    assert found.diagnosis.ask


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("$ nvcc --version\nbash: nvcc: command not found\n", "toolkit-missing"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\nRTX 4070\n", "toolkit-too-old-for-gpu"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\nGeForce GTX 660\n", "toolkit-dropped-gpu"),
    ],
)
def test_the_likeliest_suspect_comes_first(text: str, first: str) -> None:
    assert (root(text), suspects(text)[0]) == (None, first)


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
    text = f"{shown}\n{also}"
    assert (root(text), suspects(text)) == (None, [] if also else ["framework-cpu-build"])
