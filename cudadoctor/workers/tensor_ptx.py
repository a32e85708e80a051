"""The kernels of the tensor cores in PTX: operands, and the rate with operands at hand. Whole products are in product_ptx.py.

All types are laid out alike in bytes: one instruction takes 32 bytes of each row of A and of each column of B, both stored with the summed
index innermost, so a kernel differs between types in the name of its instruction alone. The driver compiles them.
"""

from __future__ import annotations

from cudadoctor_lines import sibling

bench_ptx = sibling("bench_ptx")
head, repeated, wrong = bench_ptx.head, bench_ptx.repeated, bench_ptx.wrong

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
    return f"""{head("6.0", "sm_50")}.visible .entry cudadoctor_fill(
    .param .u64 p_to, .param .u64 p_words, .param .u32 p_seed, .param .u32 p_mask, .param .u32 p_base)
{{
    .reg .pred %p<2>; .reg .b32 %r<16>; .reg .b64 %rd<12>;
    ld.param.u64 %rd1, [p_to];
    ld.param.u64 %rd2, [p_words];
    ld.param.u32 %r1, [p_seed];
    ld.param.u32 %r2, [p_mask];
    ld.param.u32 %r3, [p_base];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mov.u32 %r6, %tid.x;
    mad.wide.u32 %rd3, %r4, %r5, 0;
    cvt.u64.u32 %rd4, %r6;
    add.u64 %rd3, %rd3, %rd4;
    mov.u32 %r7, %nctaid.x;
    mul.wide.u32 %rd5, %r7, %r5;
WORD:
    setp.ge.u64 %p1, %rd3, %rd2;
    @%p1 bra DONE;
    cvt.u32.u64 %r8, %rd3;
    add.u32 %r8, %r8, %r1;
    mul.lo.u32 %r8, %r8, 0x9E3779B1;
    shr.u32 %r9, %r8, 16; xor.b32 %r8, %r8, %r9;
    mul.lo.u32 %r8, %r8, 0x85EBCA6B;
    shr.u32 %r9, %r8, 13; xor.b32 %r8, %r8, %r9;
    mul.lo.u32 %r8, %r8, 0xC2B2AE35;
    shr.u32 %r9, %r8, 16; xor.b32 %r8, %r8, %r9;
    and.b32 %r8, %r8, %r2;
    or.b32 %r8, %r8, %r3;
    shl.b64 %rd6, %rd3, 2;
    add.u64 %rd6, %rd1, %rd6;
    st.global.u32 [%rd6], %r8;
    add.u64 %rd3, %rd3, %rd5;
    bra WORD;
DONE:
    ret;
}}
"""


# ------------------------------------------------------------------ the rate, by mma.sync
_ENTRY = ".visible .entry cudadoctor_rate(.param .u64 p_out, .param .u32 p_turns)"
_GIVEN = """    ld.param.u64 %rd2, [p_out];
    ld.param.u32 %r6, [p_turns];
    cvta.to.global.u64 %rd2, %rd2;"""
_BEGIN = """    mov.u64 %rd20, %clock64;
    mov.u64 %rd21, %globaltimer;
"""
# Cycles and nanoseconds that the first thread saw: their quotient is the clock under this very load.
_END = """    mov.u64 %rd22, %clock64;
    mov.u64 %rd23, %globaltimer;
    sub.s64 %rd22, %rd22, %rd20;
    sub.s64 %rd23, %rd23, %rd21;
    setp.ne.u32 %p7, %r4, 0;
    @%p7 bra CLOCKED;
    st.global.u64 [%rd2], %rd22;
    st.global.u64 [%rd2 + 8], %rd23;
CLOCKED:
"""


def listed(prefix: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"{prefix}{first + number}" for number in range(count)) + "}"


def timed(body: str) -> str:
    """%r6 turns of a loop whose clock is told."""
    return f"{_BEGIN}{repeated(body, '%r6')}\n{_END}"


def sums(count: int, kind: str, first: str) -> tuple[str, str, str]:
    """Registers for sums: how they are declared, how each gets its first value, and what counts those that do not hold it at the end."""
    differs = "setp.ne.s32" if kind == "b32" else f"setp.neu.{kind}"
    names = [f"%a{number}" for number in range(count)]
    starts = "\n".join(f"    mov.{kind} {name}, {first};" for name in names)
    return f".reg .{kind} %a<{count}>;", starts, "".join(wrong(differs, name, first) for name in names)


def rate(kind: str) -> str:
    """m16n8k(32 bytes) on registers. Operands are 1 and -1 by turns of the lane's bits; each second instruction has -A, so that after an
    even number every sum holds its first value again: p_out + 16 counts those that do not. Sums of integers take -A too."""
    size, types, _, (version, target, _), _, integer = KINDS[kind]
    start, first = ("", "%r4") if integer else ("cvt.rn.f32.u32 %f1, %r4;", "%f1")
    declared, starts, checks = sums(4 * CHAINS, "b32" if integer else "f32", first)
    sign, one = f"0x{SIGN[kind]:08X}", f"0x{ONE[kind]:08X}"
    negated = "\n".join(f"    xor.b32 %y{part}, %x{part}, {sign};" for part in range(4))
    instruction = f"    mma.sync.aligned.m16n8k{ROW // size}.row.col.{types}"
    body = "\n".join(
        f"{instruction} {of_chain}, {listed('%x' if turn % 2 == 0 else '%y', 0, 4)}, {{%b0, %b1}}, {of_chain};"
        for turn in range(ROUNDS)
        for of_chain in (listed("%a", 4 * chain, 4) for chain in range(CHAINS))
    )
    return f"""{head(version, target)}{_ENTRY}
{{
    .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<32>; .reg .f32 %f<4>; .reg .b32 %x<4>; .reg .b32 %y<4>; .reg .b32 %b<2>;
    {declared}
{_GIVEN}
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    and.b32 %r5, %r3, 1;
    neg.s32 %r7, %r5;
    and.b32 %r7, %r7, {sign};
    xor.b32 %b0, %r7, {one};
    mov.b32 %b1, {one};
    mov.b32 %x0, {one}; mov.b32 %x1, {one}; mov.b32 %x2, %b0; mov.b32 %x3, {one};
{negated}
    and.b32 %r4, %r3, 15;
    {start}
{starts}
    mad.lo.s32 %r4, %r1, %r2, %r3;
{timed(body)}    and.b32 %r4, %r3, 15;
    {start}{checks}
    ret;
}}
"""


def rate_fp64(*, hopper: bool) -> str:
    """The same in double precision: m16n8k16 on Hopper, m8n8k4 before."""
    shape, a_count, b_count, sums_count = ("m16n8k16", 8, 4, 4) if hopper else ("m8n8k4", 1, 1, 2)
    declared, starts, checks = sums(sums_count * 2 * CHAINS, "f64", "%d3")
    a, b = [", ".join([name] * a_count) for name in ("%d1", "%d2")], ", ".join(["%d0"] * b_count)
    body = "\n".join(
        f"    mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64 {of_chain}, {{{a[turn % 2]}}}, {{{b}}}, {of_chain};"
        for turn in range(ROUNDS)
        for of_chain in (listed("%a", sums_count * chain, sums_count) for chain in range(2 * CHAINS))
    )
    return f"""{head("7.8", "sm_90") if hopper else head("7.0", "sm_80")}{_ENTRY}
{{
    .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<32>; .reg .f64 %d<4>; {declared}
{_GIVEN}
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    and.b32 %r5, %r3, 15;
    cvt.rn.f64.u32 %d3, %r5;
    mov.f64 %d0, 0d3FF0000000000000;
    add.f64 %d1, %d3, %d0;
    neg.f64 %d2, %d1;
    mad.lo.s32 %r4, %r1, %r2, %r3;
{starts}
{timed(body)[:-1]}{checks}
    ret;
}}
"""


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
    declared, starts, checks = sums(TILE_N // 2, "b32" if integer else "f32", "%r4" if integer else "%f1")
    sign, one = f"0x{SIGN[kind]:08X}", f"0x{ONE[kind]:08X}"
    multiply = []
    for a in ("%rd8", "%rd9"):
        for place in range(0, SLICE // 16, ROW // 16):
            multiply.append(f"    add.u64 %rd11, {a}, {place}; add.u64 %rd12, %rd10, {place};")
            multiply.append(wgmma(kind, TILE_N, listed("%a", 0, TILE_N // 2), "%rd11", "%rd12", "%p4"))
    body = "\n".join(
        ("    wgmma.fence.sync.aligned;", *multiply, "    wgmma.commit_group.sync.aligned;", "    wgmma.wait_group.sync.aligned 0;")
    )
    return f"""{head("8.0", "sm_90a")}.extern .shared .align 1024 .b8 memory[];

{_ENTRY}
.maxntid 256, 1, 1
.minnctapersm 1
{{
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<4>; {declared}
{_GIVEN}
    mov.u32 %r3, %tid.x;
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
    setp.lt.u32 %p1, %r8, {A_BYTES // 4};
    @%p1 bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    shr.u32 %r9, %r3, 7;
    mad.lo.u32 %r28, %r9, {A_BYTES // 2}, %r7;
    add.u32 %r29, %r28, {A_BYTES};
    add.u32 %r30, %r7, {2 * A_BYTES};
{descriptor("%rd8", "%r28")}{descriptor("%rd9", "%r29")}{descriptor("%rd10", "%r30")}    setp.eq.u32 %p4, %r6, %r6;
    and.b32 %r4, %r3, 15;
    cvt.rn.f32.u32 %f1, %r4;
{starts}
    mov.u32 %r1, %ctaid.x;
    mad.lo.s32 %r4, %r1, 256, %r3;
{timed(body)}    and.b32 %r4, %r3, 15;{checks}
    ret;
}}
"""
