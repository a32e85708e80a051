"""The tensor-core figures: kernels that a compiler takes, numbers as the host reads them, and a product that is wrong is named.

What the kernels compute is seen on a GPU (tests/benchmarks/tensor.py); here the driver is a stand-in that multiplies on the CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.checks.benchmark import assess
from cudadoctor.knowledge.load import load as knowledge_of_package
from cudadoctor.model.values import Measurement
from cudadoctor.model.version import ComputeCapability
from tests.worker_runs import load

TENSOR = load("bench_tensor")
PTX, PRODUCTS, CARD, PLACE = TENSOR.ptx, TENSOR.products, TENSOR.bench_card, TENSOR.copy_steps
KINDS = tuple(PTX.KINDS)
SIZE = 64


def compilers() -> list[str]:
    """ptxas of a toolkit or of a package."""
    found = [shutil.which("ptxas"), *(str(path) for folder in sys.path for path in Path(folder).glob("nvidia/c*/bin/ptxas"))]
    return [path for path in found if path]


@pytest.mark.skipif(not compilers(), reason="no ptxas here")
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiler_takes_the_kernels(kind: str, tmp_path: Path) -> None:
    of_no_kind = (
        ("sm_75", PTX.fill()),
        ("sm_90", PTX.rate_fp64(hopper=True)),
        ("sm_80", PTX.rate_fp64(hopper=False)),
        ("sm_120f", PTX.rate_fp4()),
    )
    for target, text in (
        (PTX.KINDS[kind][3][1], PTX.rate(kind)),
        ("sm_90a", PTX.rate_of_groups(kind)),
        *(("sm_90a", PRODUCTS.product(kind, size, size * PTX.KINDS[kind][0])) for size in TENSOR.SIZES),
        *(of_no_kind if kind == KINDS[0] else ()),
    ):
        (tmp_path / "kernel.ptx").write_text(text)
        command = [compilers()[0], "-v", "-arch", target, str(tmp_path / "kernel.ptx"), "-o", str(tmp_path / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "0 bytes spill stores" in done.stderr
        assert "Potential Performance Loss" not in done.stderr  # said where wgmma is serialised


def test_numbers_are_read_as_the_types_say() -> None:
    assert TENSOR.numbers(struct.pack("<3f", 1.5, -2.0, 0.25), "tf32") == [1.5, -2.0, 0.25]
    assert TENSOR.numbers(struct.pack("<2e", 1.5, -0.125), "fp16") == [1.5, -0.125]
    assert TENSOR.numbers(bytes.fromhex("803f40c0"), "bf16") == [1.0, -3.0]
    assert TENSOR.numbers(bytes([0, 0x7F, 0x80, 0xFF]), "int8") == [0.0, 127.0, -128.0, -1.0]
    # OCP 8-bit floating point, E4M3: 1, -1, the largest, the smallest normal and subnormal numbers
    assert TENSOR.numbers(bytes([0x38, 0xB8, 0x7E, 0x08, 0x01]), "fp8") == [1.0, -1.0, 448.0, 2.0**-6, 2.0**-9]


@pytest.mark.parametrize("kind", KINDS)
def test_random_operands_are_numbers_of_moderate_size(kind: str) -> None:
    """Whatever the hash gives: no infinity, nothing so large that a sum of 8192 of them overflows."""
    mask, base = PTX.RANDOM[kind]
    chance = random.Random(kind)
    for _ in range(200):
        word = struct.pack("<I", chance.getrandbits(32) & mask | base)
        assert all(abs(value) < (129 if kind == "int8" else 2.01) for value in TENSOR.numbers(word, kind))
    assert {abs(value) for value in TENSOR.numbers(struct.pack("<I", PTX.ONE[kind]), kind)} == {1.0}
    assert {*TENSOR.numbers(struct.pack("<I", PTX.ONE[kind] ^ PTX.SIGN[kind]), kind)} == {-1.0}


class _Memory:
    """The driver's part in `check`: a copy from the device is one from this process's memory."""

    def fetch(self, place: Any, data: Any) -> Any:
        ctypes.memmove(data, place.value, ctypes.sizeof(data))
        return data


class _Card:
    def __init__(self) -> None:
        self.driver = _Memory()
        self.gpu = type("Gpu", (), {"capability": "9.0"})()


def multiplied(kind: str, wrong: tuple[int, int] | None = None) -> Any:
    """A Tensor whose operands and product lie in this process's memory; `wrong`: a place of the product that is off."""
    tensor = TENSOR.Tensor(_Card())
    chance, width = random.Random(kind), PTX.KINDS[kind][0]
    mask, base = PTX.RANDOM[kind]
    words = SIZE * SIZE * width // 4
    raw = [struct.pack(f"<{words}I", *(chance.getrandbits(32) & mask | base for _ in range(words))) for _ in range(2)]
    rows = [[TENSOR.numbers(one[row * SIZE * width : (row + 1) * SIZE * width], kind) for row in range(SIZE)] for one in raw]
    narrow = width < 4 and kind != "int8"
    result = b""
    for row, left in enumerate(rows[0]):
        for column, right in enumerate(rows[1]):
            exact = sum(x * y for x, y in zip(left, right, strict=True))
            exact = exact * 1.02 + 1 if (row, column) == wrong else exact
            single = struct.pack("<I", struct.unpack("<I", struct.pack("<f", exact))[0] + (0x8000 if narrow else 0))  # rounded, not cut
            result += struct.pack("<i", int(exact)) if kind == "int8" else single[2:] if narrow else single
    held = [ctypes.create_string_buffer(one, len(one)) for one in (*raw, result)]
    tensor.held = held
    tensor.operands = (kind, SIZE, *(ctypes.c_uint64(ctypes.addressof(one)) for one in held))
    return tensor


@pytest.mark.parametrize("kind", KINDS)
def test_a_right_product_is_right_and_a_wrong_number_is_named(kind: str) -> None:
    multiplied(kind).check(kind)
    place = (7919 + 13) % SIZE, (104729 + 7) % SIZE  # of the second sample
    with pytest.raises(PLACE.WrongError, match=rf"row {place[0]}, column {place[1]} of the product \({kind}\)"):
        multiplied(kind, place).check(kind)


def measured(name: str, value: float, capability: str = "9.0") -> Measurement:
    return Measurement(
        gpu=0, name=name, value=value, unit="TFLOP/s", sm_count=132, clock_mhz=1400.0, compute_capability=ComputeCapability(capability)
    )


@pytest.mark.parametrize(
    ("name", "value", "capability", "verdict"),
    [
        ("tensor_bf16", 740.0, "9.0", "ok"),
        ("tensor_bf16", 500.0, "9.0", "slow"),
        ("tensor_fp8", 1480.0, "9.0", "ok"),
        ("product_tf32", 350.0, "9.0", "ok"),
        ("product_bf16", 400.0, "9.0", "slow"),
        ("tensor_bf16", 200.0, "8.0", "cannot judge"),  # no machine was at hand: its rate is not in the table
        ("cublas_bf16", 700.0, "9.0", "cannot judge"),
        ("tensor_fp4", 1500.0, "12.0", "cannot judge"),
    ],
)
def test_a_figure_is_judged_where_the_rate_was_seen(name: str, value: float, capability: str, verdict: str) -> None:
    assert assess(measured(name, value, capability), knowledge_of_package()).verdict == verdict


@pytest.mark.parametrize(("capability", "operations"), [("9.0", 0), ("10.0", 0), ("12.0", 2 * 16 * 8 * 64), ("12.1", 2 * 16 * 8 * 64)])
def test_fp4_is_measured_where_warps_multiply_it(capability: str, operations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute capability 10.x has FP4 too, by tcgen05 alone: there nothing is measured, and nothing said."""
    card = _Card()
    card.gpu.capability, card.sm_count, card.blocks_per_sm = capability, 1, lambda *_: 1  # type: ignore[attr-defined]
    texts: list[str] = []
    card.kernel = lambda _, __, text, ___=0: texts.append(text)  # type: ignore[attr-defined]
    bench = load("bench")
    measured: list[str] = []
    figures = type("Figures", (), {"say": lambda _, __, ___, name, **____: measured.append(name), "close": lambda _: None})()
    monkeypatch.setattr(bench, "Figures", lambda *_, **__: figures)
    monkeypatch.setattr(bench.climbing, "heard", lambda: b"turn")
    monkeypatch.setattr(bench.copy_steps, "nearby", lambda _: contextlib.nullcontext())
    gpu = type("Gpu", (), {"capability": capability, "index": 0, "address": None})()
    bench.measure_long(type("Worker", (), {"emit": lambda *_, **__: None})(), None, gpu, None)
    assert measured.count("tensor_fp4") == (2 if operations else 0)
    if operations:
        warps = 256 // 32
        assert TENSOR.Tensor(card).instructions("fp4")[1] == operations * PTX.CHAINS * PTX.ROUNDS * warps
        assert texts == [PTX.rate_fp4()]


# ---------------------------------------------------------------- memory that CPU and GPU share
class _Shared:
    """A driver of a GPU whose memory is the host's, or of one with memory of its own."""

    def __init__(self, free: int, total: int, *, integrated: bool) -> None:
        self.free, self.total, self.integrated = free, total, integrated

    def attribute(self, number: int, device: int) -> int:
        return int(self.integrated) if number == CARD.INTEGRATED else 1

    def call(self, function: str, free: Any, total: Any) -> None:
        free._obj.value, total._obj.value = self.free, self.total


@pytest.mark.parametrize(
    ("integrated", "free", "available", "taken"),
    [
        (False, 70 << 30, 4 << 30, 70 << 30),  # a card of its own
        (True, 100 << 30, 10 << 30, 8 << 30),  # GB10: most of what is free is promised to somebody
        (True, 2 << 30, 50 << 30, 40 << 30),  # the page cache counts as used there
    ],
)
def test_of_memory_that_is_shared_no_more_is_taken_than_the_host_can_give(
    integrated: bool, free: int, available: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = type("Gpu", (), {"device": ctypes.c_int(0), "capability": "12.1"})()
    monkeypatch.setattr(PLACE, "available_memory", lambda: available)
    card = CARD.Card(_Shared(free, 120 << 30, integrated=integrated), gpu, short=True)
    assert card.free_now() == taken


# ---------------------------------------------------------------- a sustained load
class _Running:
    """A card whose pieces take 0.25 s at 1,500 MHz; the products' cycles are added up, those of other kernels replaced."""

    def __init__(self, *, adds: bool) -> None:
        self.adds, self.words, self.driver, self.ended = adds, [0] * 6, self, 0

    def launch(self, slot: int) -> None:
        at, counts = 2 * slot if self.adds else 0, (375_000_000, 250_000_000)
        self.words[at : at + 2] = [old * self.adds + new for old, new in zip(self.words[at : at + 2], counts, strict=True)]

    def batch(self, queue: Any, count: int) -> float:
        queue(0)
        return 0.25

    def keep(self, *_: Any) -> Any:
        return object()

    def record(self, _: Any) -> None: ...

    def call(self, *_: Any) -> None: ...

    def elapsed(self, *_: Any) -> float:
        return 0.25

    def read_out(self, count: int) -> list[int]:
        return self.words[:count]

    clock_of = staticmethod(CARD.Card.clock_of)
    clock_mhz = CARD.Card.clock_mhz


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("seconds", [0.0, 0.002])
def test_every_piece_of_a_load_has_its_clock_and_one_is_always_told(adds: bool, seconds: float) -> None:
    card, told = _Running(adds=adds), []
    load_made = load("sustained").Sustained(card, card.launch, 1e12, "bf16", adds=adds)
    rates = load_made.run(seconds, lambda **fields: told.append(fields), dict)
    assert rates
    assert set(rates) == {4.0}
    assert told[-1]["value"] == 4.0
    assert {one["clock_mhz"] for one in told} == {1500.0}
