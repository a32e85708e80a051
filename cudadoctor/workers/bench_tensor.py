"""Figures of the tensor cores: the rate of their instructions, whole matrix products, and cuBLAS on the same operands.

Loaded by bench.py by its path. The rate kernels prove their own sums; of a product some numbers are computed again on the host. What a
multiprocessor can do in one cycle is the doctor's knowledge; here only its parts are measured.
"""

from __future__ import annotations

import ctypes
import glob
import os
import struct
import sys

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

bench_card, copy_steps, ptx, products = (sibling(name) for name in ("bench_card", "copy_steps", "tensor_ptx", "product_ptx"))
MIB = 1 << 20
SIZES = (8192, 4096)  # rows of A, rows of B, and length of the sums
SAMPLES = 24  # numbers of a product that are computed again
SAMPLE_SECONDS = 0.1
SLOT_BYTES = 16  # two words for each sample: the cycles, and the nanoseconds that they took
WARM_SECONDS = 0.6  # until the power limit binds: the clock falls by a fifth within the first tenths of a second
SEEDS = (0x0A0A0A0A, 0x0B0B0B0B)
KINDS = ("fp16", "bf16", "tf32", "fp8", "int8")
LEAST = {"fp64": (8, 0), "fp4": (12, 0)}  # the compute capability of those whose instructions are like no other's
# How far a sum may be off, as a share of the sum of all magnitudes, beside the rounding of the result itself. Hopper's sums of FP8 keep
# fewer digits.
SLACK = {"fp16": 2.0**-16, "bf16": 2.0**-16, "tf32": 2.0**-16, "fp8": 2.0**-11, "int8": 0.0}
# cudaDataType of operands and result, cublasComputeType, and the type of the factors
CUBLAS: dict[str, tuple[int, int, int, Any]] = {
    "fp16": (2, 2, 68, ctypes.c_float), "bf16": (14, 14, 68, ctypes.c_float), "tf32": (0, 0, 77, ctypes.c_float),
    "int8": (3, 10, 72, ctypes.c_int),
}  # fmt: skip


class Tensor:
    """One GPU; a figure is called by what is measured and the type of the operands, such as `product_bf16`."""

    def __init__(self, card: Any) -> None:
        self.card, self.driver = card, card.driver
        self.operands: tuple[str, int, Any, Any, Any] | None = None
        self.library: Any = None
        self.capability = tuple(int(part) for part in (card.gpu.capability or "0.0").split("."))

    def one(self, name: str) -> dict[str, Any]:
        what, _, kind = name.partition("_")
        return {"tensor": self.rate, "product": self.product, "cublas": self.cublas}[what](kind)

    # -------------------------------------------------------- rate
    def rate(self, kind: str) -> dict[str, Any]:
        """Multiply-adds with operands at hand: by wgmma on Hopper, by mma.sync elsewhere."""
        card = self.card
        launch, operations = self.instructions(kind)
        card.clear_out()
        turns, seconds = card.long_enough(launch)
        wrong = card.read_out(3)[2]
        if wrong:
            raise copy_steps.WrongError("{} sums of the tensor cores ({}) are wrong".format(wrong, kind))
        record = card.of_clock(operations * turns / seconds.median / 1e12, 3, seconds)
        return dict(record, unit=unit(kind), why="wgmma on shared memory" if self.by_groups(kind) else "mma.sync on registers")

    def by_groups(self, kind: str) -> bool:
        """Whether groups of warps multiply together."""
        return bool(self.capability == ptx.HOPPER and kind in KINDS)

    def instructions(self, kind: str) -> tuple[Any, float]:
        """What queues the instructions, for a number of turns, and the operations of one turn. The cycles are counted in `out`."""
        card = self.card
        needs = LEAST.get(kind) or ptx.KINDS[kind][3][2]
        if self.capability < needs:
            raise bench_card.UnfitError("compute capability {} does not have it".format(card.gpu.capability))
        groups, shared = self.by_groups(kind), 0
        if kind == "fp64":
            hopper = self.capability == ptx.HOPPER
            text, each = ptx.rate_fp64(hopper=hopper), (16 * 8 * 16 if hopper else 8 * 8 * 4) * 2 * ptx.CHAINS * ptx.ROUNDS
        elif kind == "fp4":
            text, each = ptx.rate_fp4(), 16 * 8 * 2 * ptx.ROW * ptx.CHAINS * ptx.ROUNDS
        elif groups:
            text, each, shared = ptx.rate_of_groups(kind), 64 * ptx.TILE_N * 2 * ptx.SLICE // ptx.KINDS[kind][0], ptx.GROUPS_SHARED
        else:
            text, each = ptx.rate(kind), 16 * 8 * ptx.ROW // ptx.KINDS[kind][0] * ptx.CHAINS * ptx.ROUNDS
        kernel = card.kernel("rate_" + kind, "rate", text, shared)
        blocks = card.sm_count * (1 if groups else min(4, card.blocks_per_sm(kernel, ptx.THREADS)))
        workers = blocks * ptx.THREADS // (128 if groups else 32)  # groups or warps, each of which does `each` multiply-adds in a turn

        def launch(turns: int) -> None:
            card.launch(kernel, blocks, ptx.THREADS, "pu", card.out, turns, shared=shared)

        return launch, 2.0 * each * workers

    # -------------------------------------------------------- products
    def given(self, kind: str) -> tuple[int, Any, Any, Any]:
        """Random operands of a product, and room for the result: the same for our kernel and for cuBLAS."""
        if self.operands is not None and self.operands[0] == kind:
            return self.operands[1:]
        self.forget()
        card = self.card
        width = ptx.KINDS[kind][0]
        size = next((one for one in SIZES if 3 * one * one * max(width, 4) < card.free_now() // 2), 0)
        if not size:
            raise bench_card.UnfitError("too little free memory on the GPU: {} MiB".format(card.free_now() // MIB))
        a, b, c = (card.memory(size * size * one) for one in (width, width, 4))
        fill = card.kernel("fill", "fill", ptx.fill())
        for buffer, seed in ((a, SEEDS[0]), (b, SEEDS[1])):
            card.launch(fill, 8 * card.sm_count, 256, "pquuu", buffer, size * size * width // 4, seed, *ptx.RANDOM[kind])
        self.driver.fill(c, 0xFF, size * size * 4)
        self.operands = (kind, size, a, b, c)
        return size, a, b, c

    def forget(self) -> None:
        if self.operands is not None:
            for buffer in self.operands[2:]:
                self.card.release(buffer)
            self.operands = None

    def product(self, kind: str) -> dict[str, Any]:
        """C = A x B^T of random numbers, whole."""
        card = self.card
        launch, size = self.launching(kind)
        card.clear_out()
        seconds = card.measure_steady(launch, WARM_SECONDS, SAMPLE_SECONDS)
        record = card.of_clock(2 * size**3 / seconds.median / 1e12, 3, seconds, seconds.middle)
        self.check(kind)
        return dict(record, unit=unit(kind), why="{0} x {0} x {0}, random numbers, wgmma".format(size))

    def launching(self, kind: str) -> tuple[Any, int]:
        """What queues one product, whose cycles are added to a slot of `out`, and the rows of A."""
        card = self.card
        if self.capability != ptx.HOPPER:
            raise bench_card.UnfitError("a kernel for whole products is here for compute capability 9.0 alone")
        size, a, b, c = self.given(kind)
        row_bytes = size * ptx.KINDS[kind][0]
        shared = products.shared_memory()
        kernel = card.kernel("product_{}_{}".format(kind, size), "product", products.product(kind, size, row_bytes), shared)
        maps = [self.tensor_map(buffer, size, row_bytes, ptx.TILE_M) for buffer in (a, b)]
        blocks = card.sm_count // 2 * 2

        def launch(slot: int) -> None:
            place = card.out.value + SLOT_BYTES * slot
            card.launch(kernel, blocks, products.THREADS, "mmpp", *maps, c, place, shared=shared)

        return launch, size

    def tensor_map(self, buffer: Any, rows: int, row_bytes: int, box: int) -> Any:
        """What the copy engine needs to fetch `box` rows of 128 bytes, swizzled. It is aligned as the driver asks for."""
        raw = (ctypes.c_ubyte * 256)()
        place = (ctypes.c_ubyte * 128).from_buffer(raw, -ctypes.addressof(raw) % 64)
        sizes, strides = (ctypes.c_uint64 * 2)(row_bytes // 4, rows), (ctypes.c_uint64 * 1)(row_bytes)
        boxes, steps = (ctypes.c_uint32 * 2)(ptx.SLICE // 4, box), (ctypes.c_uint32 * 2)(1, 1)
        words, none = ctypes.c_int(2), ctypes.c_int(0)  # of 32 bits, whatever the numbers are
        swizzle, promotion = ctypes.c_int(3), ctypes.c_int(3)  # of 128 bytes; 256 bytes into the second level of cache
        self.driver.call(
            "cuTensorMapEncodeTiled", ctypes.byref(place), words, ctypes.c_uint32(2), buffer, sizes, strides, boxes, steps, none, swizzle,
            promotion, none,
        )  # fmt: skip
        return place

    # -------------------------------------------------------- the result
    def check(self, kind: str) -> None:
        """Some numbers of the product, computed again in double precision; of integers all digits count."""
        assert self.operands is not None
        _, size, a, b, c = self.operands
        narrow = ptx.KINDS[kind][0] < 4 and kind != "int8"
        width, result = (2, "bf16") if narrow else (4, "int32" if kind == "int8" else "fp32")
        for number in range(SAMPLES):
            row, column = (number * 7919 + 13) % size, (number * 104729 + 7) % size
            left, right = self.row_of(a, row, size, kind), self.row_of(b, column, size, kind)
            exact, all_of_it = sum(x * y for x, y in zip(left, right)), sum(abs(x * y) for x, y in zip(left, right))
            got = numbers(self.read(c.value + (row * size + column) * width, width), result)[0]
            slack = SLACK[kind] * all_of_it + (abs(exact) * 2.0**-8 if narrow else 0.0)
            if not abs(got - exact) <= slack:
                raise copy_steps.WrongError(
                    "row {}, column {} of the product ({}) is {:.6g}, not {:.6g}".format(row, column, kind, got, exact)
                )

    def row_of(self, buffer: Any, row: int, size: int, kind: str) -> list[float]:
        width = ptx.KINDS[kind][0]
        return numbers(self.read(buffer.value + row * size * width, size * width), kind)

    def read(self, place: int, size: int) -> bytes:
        return bytes(self.driver.fetch(ctypes.c_uint64(place), (ctypes.c_char * size)()))

    # -------------------------------------------------------- cuBLAS
    def cublas(self, kind: str) -> dict[str, Any]:
        """The same product by the cuBLAS of the examined Python or toolkit: what others reach here."""
        card = self.card
        if self.library is None:
            self.library = Cublas.found(card.stream) or False
        if not self.library:
            raise bench_card.UnfitError("no cuBLAS that fits this driver was found")
        size, a, b, c = self.given(kind)
        seconds = card.measure_steady(lambda _: self.library.multiply(kind, size, a, b, c), WARM_SECONDS, SAMPLE_SECONDS)
        why = "{0} x {0} x {0}, {1}".format(size, self.library.name)
        record: dict[str, Any] = bench_card.figure(2 * size**3 / seconds.median / 1e12, 3, seconds, why, unit=unit(kind))
        return record

    def close(self) -> None:
        self.forget()
        if self.library:
            self.library.close()


class Cublas:
    """A library of cuBLAS with its handle."""

    def __init__(self, library: Any, name: str, stream: Any) -> None:
        self.library, self.name = library, name
        self.handle = ctypes.c_void_p()
        if library.cublasCreate_v2(ctypes.byref(self.handle)) or library.cublasSetStream_v2(self.handle, stream):
            raise OSError("cuBLAS does not start")

    @classmethod
    def found(cls, stream: Any) -> Cublas | None:
        """The first one that starts with this driver."""
        for path in places():
            try:
                return cls(ctypes.CDLL(path), os.path.basename(path), stream)
            except OSError:
                continue
        return None

    def multiply(self, kind: str, size: int, a: Any, b: Any, c: Any) -> None:
        operand, result, compute, factor = CUBLAS[kind]
        alpha, beta, n = factor(1), factor(0), ctypes.c_int(size)
        code = self.library.cublasGemmEx(
            self.handle, ctypes.c_int(1), ctypes.c_int(0), n, n, n, ctypes.byref(alpha), ctypes.c_void_p(a.value), ctypes.c_int(operand), n,
            ctypes.c_void_p(b.value), ctypes.c_int(operand), n, ctypes.byref(beta), ctypes.c_void_p(c.value), ctypes.c_int(result), n,
            ctypes.c_int(compute), ctypes.c_int(-1),
        )  # fmt: skip
        if code:
            raise OSError("cublasGemmEx gave {}".format(code))

    def close(self) -> None:
        self.library.cublasDestroy_v2(self.handle)


def places() -> Iterator[str]:
    """Libraries of cuBLAS: those of the Python packages, the toolkit's, and what the loader finds."""
    for folder in sys.path:
        for found in sorted(glob.glob(os.path.join(glob.escape(folder), "nvidia", "cu*", "lib", "libcublas.so.*")), reverse=True):
            yield found
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield os.path.join(os.environ[name], "lib64", "libcublas.so")
    yield from ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11")


def unit(kind: str) -> str:
    """Additions and multiplications counted one by one."""
    return "TOP/s" if kind == "int8" else "TFLOP/s"


def numbers(raw: bytes, kind: str) -> list[float]:
    if kind == "fp8":
        return [_E4M3[value] for value in raw]
    if kind == "bf16":
        raw = b"".join(b"\0\0" + raw[place : place + 2] for place in range(0, len(raw), 2))
    return [float(value) for (value,) in struct.iter_unpack("<" + _LETTERS[kind], raw)]


def _e4m3(code: int) -> float:
    exponent, digits = code >> 3 & 15, code & 7
    value = (8 + digits) * 2.0 ** (exponent - 10) if exponent else digits * 2.0**-9
    return -value if code & 128 else value


# Of numbers and sums, as the module struct calls them; bf16 is the upper half of a float32.
_LETTERS = {"tf32": "f", "fp32": "f", "bf16": "f", "fp16": "e", "int8": "b", "int32": "i"}
_E4M3 = [_e4m3(code) for code in range(256)]
