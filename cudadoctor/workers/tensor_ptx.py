"""The kernels of the tensor cores in PTX: operands, and the rate with operands at hand. Whole products are in product_ptx.py.

All types are laid out alike in bytes: one instruction takes 32 bytes of each row of A and of each column of B, both stored with the summed
index innermost, so a kernel differs between types in the name of its instruction alone. The driver compiles them.
"""

from __future__ import annotations

from cudadoctor_lines import TYPE_CHECKING, sibling

if TYPE_CHECKING:
    from collections.abc import Callable

bench_ptx = sibling("bench_ptx")
head: Callable[..., str] = bench_ptx.head
entry: Callable[..., str] = bench_ptx.entry
timed, wrong, listed, jump = bench_ptx.timed, bench_ptx.wrong, bench_ptx.listed, bench_ptx.jump

# Bytes of one number; the instruction's K; its types as mma.sync and as wgmma write them; the least PTX version, target and capability of
# mma.sync; what wgmma writes after its operands; whether sums are integers.
KINDS = {
    "fp16": (2, "f32.f16.f16.f32", "f32.f16.f16", ("7.0", "sm_80", (8, 0)), "p, 1, 1, 0, 0", False),
    "bf16": (2, "f32.bf16.bf16.f32", "f32.bf16.bf16", ("7.0", "sm_80", (8, 0)), "p, 1, 1, 0, 0", False),
    "tf32": (4, "f32.tf32.tf32.f32", "f32.tf32.tf32", ("7.0", "sm_80", (8, 0)), "p, 1, 1", False),
    "fp8": (1, "f32.e4m3.e4m3.f32", "f32.e4m3.e4m3", ("8.4", "sm_89", (8, 9)), "p, 1, 1", False),
    "int8": (1, "s32.s8.s8.s32", "s32.s8.s8", ("7.0", "sm_80", (8, 0)), "p", True),
}
# A word of ones, and what makes each of them -1.
ONE = {"fp16": 0x3C003C00, "bf16": 0x3F803F80, "tf32": 0x3F800000, "fp8": 0x38383838, "int8": 0x01010101}
SIGN = {"fp16": 0x80008000, "bf16": 0x80008000, "tf32": 0x80000000, "fp8": 0x80808080, "int8": 0xFEFEFEFE}
# Random operands of a product, word by word: the bits that are random, and those that are set. Numbers from 1/8 to 2, or all bytes.
RANDOM = {
    "fp16": (0x8FFF8FFF, 0x30003000), "bf16": (0x81FF81FF, 0x3E003E00), "tf32": (0x81FFE000, 0x3E000000), "fp8": (0x9F9F9F9F, 0x20202020),
    "int8": (0xFFFFFFFF, 0),
}  # fmt: skip
ROW = 32  # bytes of a row that one instruction takes
HOPPER = (9, 0)
THREADS = 256  # of the kernels that measure the rate
CHAINS = 8  # independent sums of a warp: hides the time that one instruction takes
ROUNDS = 8  # instructions of a chain in one turn; even: each second one takes back what the first added

TILE_M, TILE_N, SLICE = 128, 256, 128  # of what groups of warps multiply: rows of A, rows of B, bytes of the summed index at once
A_BYTES, B_BYTES = TILE_M * SLICE, TILE_N * SLICE
GROUPS_SHARED = 2 * A_BYTES + B_BYTES + 1024  # of the kernel that measures the rate of wgmma


# ------------------------------------------------------------------ operands
def fill() -> str:
    """Random operands: each 32-bit word of the buffer is a hash of its place, cut by p_mask and set by p_base."""
    return head("6.0", "sm_50") + entry(
        "fill",
        "p_to:u64:%rd1:%rd1 p_words:u64:%rd2 p_seed:u32:%r11 p_mask:u32:%r12 p_base:u32:%r13",
        f"""
    mad.wide.u32 %rd3, %r1, %r2, 0;
    cvt.u64.u32 %rd4, %r3;
    add.u64 %rd3, %rd3, %rd4;
    mov.u32 %r7, %nctaid.x;
    mul.wide.u32 %rd5, %r7, %r2;
WORD:
{jump("ge.u64", "%rd3", "%rd2", "DONE")}
    cvt.u32.u64 %r8, %rd3;
    add.u32 %r8, %r8, %r11;
    mul.lo.u32 %r8, %r8, 0x9E3779B1;
    shr.u32 %r9, %r8, 16; xor.b32 %r8, %r8, %r9;
    mul.lo.u32 %r8, %r8, 0x85EBCA6B;
    shr.u32 %r9, %r8, 13; xor.b32 %r8, %r8, %r9;
    mul.lo.u32 %r8, %r8, 0xC2B2AE35;
    shr.u32 %r9, %r8, 16; xor.b32 %r8, %r8, %r9;
    and.b32 %r8, %r8, %r12;
    or.b32 %r8, %r8, %r13;
    shl.b64 %rd6, %rd3, 2;
    add.u64 %rd6, %rd1, %rd6;
    st.global.u32 [%rd6], %r8;
    add.u64 %rd3, %rd3, %rd5;
    bra WORD;
DONE:""",
    )


# ------------------------------------------------------------------ the rate, by mma.sync
_GIVEN = "p_out:u64:%rd2:%rd2 p_turns:u32:%r6"
_LANE = "\n    and.b32 %r8, %r3, 15;"


def sums(count: int, kind: str, first: str) -> tuple[str, str, str]:
    """Registers for sums: how they are declared, how each gets its first value, and what counts those that do not hold it at the end."""
    differs = "setp.ne.s32" if kind == "b32" else f"setp.neu.{kind}"
    names = [f"%a{number}" for number in range(count)]
    starts = "\n".join(f"    mov.{kind} {name}, {first};" for name in names)
    return f"    .reg .{kind} %a<{count}>;\n", starts, "".join(wrong(differs, name, first) for name in names)


def multiplied(instruction: str, sums_count: int, chains: int, operands: Callable[[int], str], scales: str = "") -> str:
    """ROUNDS times the instruction on all chains; `operands` of one time."""
    return "\n".join(
        f"    mma.sync.aligned.{instruction} {of_chain}, {operands(turn)}, {of_chain}{scales};"
        for turn in range(ROUNDS)
        for of_chain in (listed("%a", sums_count * chain, sums_count) for chain in range(chains))
    )


def rate(kind: str) -> str:
    """m16n8k(32 bytes) on registers: `rate_of` of a kind of whole bytes."""
    size, types, _, (version, target, _), _, integer = KINDS[kind]
    instruction = f"m16n8k{ROW // size}.row.col.{types}"
    return rate_of(instruction, (version, target), ONE[kind], SIGN[kind], integer=integer)


def rate_fp4() -> str:
    """The same in E2M1, two numbers a byte, each 32 of them with a scale of 1 (UE8M0: a power of two, 127 more than its exponent).

    PTX ISA, "Warp-level Block Scaling": only compute capability 12.x multiplies FP4 warp by warp; 10.x does it by tcgen05 alone.
    """
    instruction = f"m16n8k{2 * ROW}.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    return rate_of(instruction, ("8.8", "sm_120f"), 0x22222222, 0x88888888, scales=", %r10, {0, 0}, %r10, {0, 0}")


def rate_of(instruction: str, needs: tuple[str, str], one_word: int, sign_bits: int, *, integer: bool = False, scales: str = "") -> str:
    """Operands are 1 and -1 by turns of the lane's bits; each second instruction has -A, so that after an even number every sum holds its
    first value again: p_out + 16 counts those that do not. Sums of integers take -A too. `scales`: the operands after the sums."""
    start, first = ("", "%r8") if integer else ("\n    cvt.rn.f32.u32 %f1, %r8;", "%f1")
    declared, starts, checks = sums(4 * CHAINS, "b32" if integer else "f32", first)
    sign, one = f"0x{sign_bits:08X}", f"0x{one_word:08X}"
    negated = "\n".join(f"    xor.b32 %y{part}, %x{part}, {sign};" for part in range(4))
    body = multiplied(instruction, 4, CHAINS, lambda turn: listed("%y" if turn % 2 else "%x", 0) + ", {%b0, %b1}", scales)
    return head(*needs) + entry(
        "rate",
        _GIVEN,
        f"""
    and.b32 %r5, %r3, 1;
    neg.s32 %r7, %r5;
    and.b32 %r7, %r7, {sign};
    xor.b32 %b0, %r7, {one};
    mov.b32 %b1, {one};
    mov.b32 %x0, {one}; mov.b32 %x1, {one}; mov.b32 %x2, %b0; mov.b32 %x3, {one};
    mov.b32 %r10, 0x7F7F7F7F;                   // scales, where there are any
{negated}{_LANE}{start}
{starts}{timed(body)}{_LANE}{start}{checks}""",
        before=declared + "    .reg .b32 %x<4>; .reg .b32 %y<4>; .reg .b32 %b<2>;\n",
    )


def rate_fp64(*, hopper: bool) -> str:
    """The same in double precision: m16n8k16 on Hopper, m8n8k4 before."""
    shape, a_count, b_count, sums_count = ("m16n8k16", 8, 4, 4) if hopper else ("m8n8k4", 1, 1, 2)
    declared, starts, checks = sums(sums_count * 2 * CHAINS, "f64", "%d3")
    a, b = [", ".join([name] * a_count) for name in ("%d1", "%d2")], ", ".join(["%d0"] * b_count)
    body = multiplied(shape + ".row.col.f64.f64.f64.f64", sums_count, 2 * CHAINS, lambda turn: f"{{{a[turn % 2]}}}, {{{b}}}")
    return (head("7.8", "sm_90") if hopper else head("7.0", "sm_80")) + entry(
        "rate",
        _GIVEN,
        f"""{_LANE}
    cvt.rn.f64.u32 %d3, %r8;
    mov.f64 %d0, 0d3FF0000000000000;
    add.f64 %d1, %d3, %d0;
    neg.f64 %d2, %d1;
{starts}{timed(body)}{checks}""",
        before=declared,
    )


# ------------------------------------------------------------------ Hopper
def wgmma(kind: str, n: int, registers: str, a: str, b: str, scale: str = "p") -> str:
    size, _, types, _, after, _ = KINDS[kind]
    more = after.replace("p", scale, 1)
    return f"    wgmma.mma_async.sync.aligned.m64n{n}k{ROW // size}.{types} {registers}, {a}, {b}, {more};"


def descriptor(target: str, address: str) -> str:
    """Of a tile in shared memory: rows of 128 bytes, swizzled, eight of them 1024 bytes apart."""
    return f"""    and.b32 %r40, {address}, 0x3FFFF;
    shr.u32 %r40, %r40, 4;
    cvt.u64.u32 {target}, %r40;
    or.b64 {target}, {target}, 0x4000004000010000;
"""


def rate_of_groups(kind: str) -> str:
    """wgmma on operands in shared memory: two groups of 128 threads, 64 x 256 sums each. As in `rate`, each second slice has -A."""
    integer = KINDS[kind][5]
    declared, starts, checks = sums(TILE_N // 2, "b32" if integer else "f32", "%r12" if integer else "%f1")
    sign, one = f"0x{SIGN[kind]:08X}", f"0x{ONE[kind]:08X}"
    multiply = []
    for a in ("%rd8", "%rd9"):
        for place in range(0, SLICE // 16, ROW // 16):
            multiply.append(f"    add.u64 %rd11, {a}, {place}; add.u64 %rd12, %rd10, {place};")
            multiply.append(wgmma(kind, TILE_N, listed("%a", 0, TILE_N // 2), "%rd11", "%rd12", "%p4"))
    body = "\n".join(
        ("    wgmma.fence.sync.aligned;", *multiply, "    wgmma.commit_group.sync.aligned;", "    wgmma.wait_group.sync.aligned 0;")
    )
    kernel = entry(
        "rate",
        _GIVEN,
        f"""
    mov.u32 %r7, memory;
    add.u32 %r7, %r7, 1023;
    and.b32 %r7, %r7, 0xFFFFFC00;               // A, then -A, then B
    mov.u32 %r8, %r3;
FILL:
    mul.lo.u32 %r9, %r8, 0x9E3779B1;
    shr.u32 %r9, %r9, 31;
    neg.s32 %r9, %r9;
    and.b32 %r9, %r9, {sign};
    xor.b32 %r9, %r9, {one};
    xor.b32 %r10, %r9, {sign};
    mad.lo.u32 %r11, %r8, 4, %r7;
    st.shared.b32 [%r11], %r9;
    st.shared.b32 [%r11 + {A_BYTES}], %r10;
    st.shared.b32 [%r11 + {2 * A_BYTES}], %r10;
    st.shared.b32 [%r11 + {2 * A_BYTES + B_BYTES // 2}], %r9;
    add.u32 %r8, %r8, 256;
{jump("lt.u32", "%r8", A_BYTES // 4, "FILL")}
    fence.proxy.async.shared::cta;
    bar.sync 0;
    shr.u32 %r9, %r3, 7;
    mad.lo.u32 %r28, %r9, {A_BYTES // 2}, %r7;
    add.u32 %r29, %r28, {A_BYTES};
    add.u32 %r30, %r7, {2 * A_BYTES};
{descriptor("%rd8", "%r28")}{descriptor("%rd9", "%r29")}{descriptor("%rd10", "%r30")}    setp.eq.u32 %p4, %r6, %r6;
    and.b32 %r12, %r3, 15;
    cvt.rn.f32.u32 %f1, %r12;
{starts}{timed(body)}{checks}""",
        before=declared,
        directives=".maxntid 256, 1, 1\n.minnctapersm 1\n",
    )
    return f"{head('8.0', 'sm_90a')}.extern .shared .align 1024 .b8 memory[];\n\n{kernel}"
