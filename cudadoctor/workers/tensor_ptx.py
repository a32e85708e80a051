"""The kernels of the tensor cores in PTX: operands, and the rate with operands at hand. Whole products are in product_ptx.py.

All types are laid out alike in bytes: one instruction takes 32 bytes of each row of A and of each column of B, both stored with the summed
index innermost, so a kernel differs between types in the name of its instruction alone. The driver compiles them.
"""

from __future__ import annotations

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


def head(version: str, target: str) -> str:
    return ".version {}\n.target {}\n.address_size 64\n\n".format(version, target)


# ------------------------------------------------------------------ operands
def fill() -> str:
    """Random operands: each 32-bit word of the buffer is a hash of its place, cut by p_mask and set by p_base."""
    return (
        head("6.0", "sm_50")
        + """.visible .entry cudadoctor_fill(
    .param .u64 p_to, .param .u64 p_words, .param .u32 p_seed, .param .u32 p_mask, .param .u32 p_base)
{
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
}
"""
    )


# ------------------------------------------------------------------ the rate, by mma.sync
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
    return "{" + ", ".join("{}{}".format(prefix, first + number) for number in range(count)) + "}"


RATE = """.visible .entry cudadoctor_rate(.param .u64 p_out, .param .u32 p_turns)
{{
    .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<32>; .reg .f32 %f<4>; .reg .b32 %x<4>; .reg .b32 %y<4>; .reg .b32 %b<2>;
    .reg {number}<{sums_count}>;
    ld.param.u64 %rd2, [p_out];
    ld.param.u32 %r6, [p_turns];
    cvta.to.global.u64 %rd2, %rd2;
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
{begin}TURN:
{body}
    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra TURN;
{end}    and.b32 %r4, %r3, 15;
    {start}
{checks}
    ret;
}}
"""


def rate(kind: str) -> str:
    """m16n8k(32 bytes) on registers. Operands are 1 and -1 by turns of the lane's bits; each second instruction has -A, so that after an
    even number every sum holds its first value again: p_out + 16 counts those that do not. Sums of integers take -A too."""
    size, types, _, (version, target, _), _, integer = KINDS[kind]
    shape = "m16n8k{}".format(ROW // size)
    number, move, differs = (".b32 %a", "mov.b32", "setp.ne.s32") if integer else (".f32 %a", "mov.f32", "setp.neu.f32")
    start = "cvt.rn.f32.u32 %f1, %r4;" if not integer else ""
    first = "%r4" if integer else "%f1"
    body = "\n".join(
        "    mma.sync.aligned.{}.row.col.{} {}, {}, {{%b0, %b1}}, {};".format(
            shape, types, listed("%a", 4 * chain, 4), listed("%x" if turn % 2 == 0 else "%y", 0, 4), listed("%a", 4 * chain, 4)
        )
        for turn in range(ROUNDS)
        for chain in range(CHAINS)
    )
    sums = ["%a{}".format(one_) for one_ in range(4 * CHAINS)]
    return head(version, target) + RATE.format(
        number=number,
        sums_count=4 * CHAINS,
        sign="0x{:08X}".format(SIGN[kind]),
        one="0x{:08X}".format(ONE[kind]),
        negated="\n".join("    xor.b32 %y{0}, %x{0}, 0x{1:08X};".format(part, SIGN[kind]) for part in range(4)),
        start=start,
        starts="\n".join("    {} {}, {};".format(move, name, first) for name in sums),
        begin=_BEGIN,
        body=body,
        end=_END,
        checks="\n".join("    {} %p2, {}, {};\n    @%p2 red.global.add.u64 [%rd2 + 16], 1;".format(differs, name, first) for name in sums),
    )


RATE_FP64 = """.visible .entry cudadoctor_rate(.param .u64 p_out, .param .u32 p_turns)
{{
    .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<32>; .reg .f64 %d<4>; .reg .f64 %a<{count}>;
    ld.param.u64 %rd2, [p_out];
    ld.param.u32 %r6, [p_turns];
    cvta.to.global.u64 %rd2, %rd2;
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
{begin}TURN:
{body}
    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra TURN;
{end}{checks}
    ret;
}}
"""


def rate_fp64(*, hopper: bool) -> str:
    """The same in double precision: m16n8k16 on Hopper, m8n8k4 before."""
    shape, a_count, b_count, sums_count = ("m16n8k16", 8, 4, 4) if hopper else ("m8n8k4", 1, 1, 2)
    chains = 2 * CHAINS
    body = "\n".join(
        "    mma.sync.aligned.{}.row.col.f64.f64.f64.f64 {}, {{{}}}, {{{}}}, {};".format(
            shape,
            listed("%a", sums_count * chain, sums_count),
            ", ".join(["%d1" if turn % 2 == 0 else "%d2"] * a_count),
            ", ".join(["%d0"] * b_count),
            listed("%a", sums_count * chain, sums_count),
        )
        for turn in range(ROUNDS)
        for chain in range(chains)
    )
    sums = ["%a{}".format(number) for number in range(sums_count * chains)]
    return head(*(("7.8", "sm_90") if hopper else ("7.0", "sm_80"))) + RATE_FP64.format(
        count=len(sums),
        starts="\n".join("    mov.f64 {}, %d3;".format(name) for name in sums),
        begin=_BEGIN,
        body=body,
        end=_END,
        checks="\n".join("    setp.neu.f64 %p2, {}, %d3;\n    @%p2 red.global.add.u64 [%rd2 + 16], 1;".format(name) for name in sums),
    )


# ------------------------------------------------------------------ Hopper
def wgmma(kind: str, n: int, registers: str, a: str, b: str, scale: str = "p") -> str:
    size, _, types, _, after, _ = KINDS[kind]
    shape = "m64n{}k{}".format(n, ROW // size)
    return "    wgmma.mma_async.sync.aligned.{}.{} {}, {}, {}, {};".format(shape, types, registers, a, b, after.replace("p", scale, 1))


def descriptor(target: str, address: str) -> str:
    """Of a tile in shared memory: rows of 128 bytes, swizzled, eight of them 1024 bytes apart."""
    return """    and.b32 %r40, {address}, 0x3FFFF;
    shr.u32 %r40, %r40, 4;
    cvt.u64.u32 {target}, %r40;
    or.b64 {target}, {target}, 0x4000004000010000;
""".format(target=target, address=address)


RATE_OF_GROUPS = """.extern .shared .align 1024 .b8 memory[];

.visible .entry cudadoctor_rate(.param .u64 p_out, .param .u32 p_turns)
.maxntid 256, 1, 1
.minnctapersm 1
{{
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<4>; .reg {number}<{sums_count}>;
    ld.param.u64 %rd2, [p_out];
    ld.param.u32 %r6, [p_turns];
    cvta.to.global.u64 %rd2, %rd2;
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
    st.shared.b32 [%r11 + {a_bytes}], %r10;
    st.shared.b32 [%r11 + {b_place}], %r10;
    st.shared.b32 [%r11 + {b_middle}], %r9;
    add.u32 %r8, %r8, 256;
    setp.lt.u32 %p1, %r8, {words};
    @%p1 bra FILL;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    shr.u32 %r9, %r3, 7;
    mad.lo.u32 %r28, %r9, {half_a}, %r7;
    add.u32 %r29, %r28, {a_bytes};
    add.u32 %r30, %r7, {b_place};
{descriptors}    setp.eq.u32 %p4, %r6, %r6;
    and.b32 %r4, %r3, 15;
    cvt.rn.f32.u32 %f1, %r4;
{starts}
    mov.u32 %r1, %ctaid.x;
    mad.lo.s32 %r4, %r1, 256, %r3;
{begin}TURN:
    wgmma.fence.sync.aligned;
{multiply}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p1, %r6, 0;
    @%p1 bra TURN;
{end}    and.b32 %r4, %r3, 15;
{checks}
    ret;
}}
"""


def rate_of_groups(kind: str) -> str:
    """wgmma on operands in shared memory: two groups of 128 threads, 64 x 256 sums each. As in `rate`, each second slice has -A."""
    integer = KINDS[kind][5]
    number, move, differs = (".b32 %a", "mov.b32", "setp.ne.s32") if integer else (".f32 %a", "mov.f32", "setp.neu.f32")
    sums = ["%a{}".format(one) for one in range(TILE_N // 2)]
    multiply = []
    for a in ("%rd8", "%rd9"):
        for part in range(SLICE // ROW):
            multiply.append("    add.u64 %rd11, {}, {}; add.u64 %rd12, %rd10, {};".format(a, part * ROW // 16, part * ROW // 16))
            multiply.append(wgmma(kind, TILE_N, listed("%a", 0, TILE_N // 2), "%rd11", "%rd12", "%p4"))
    words = TILE_M * SLICE // 4
    return head("8.0", "sm_90a") + RATE_OF_GROUPS.format(
        number=number,
        sums_count=TILE_N // 2,
        sign="0x{:08X}".format(SIGN[kind]),
        one="0x{:08X}".format(ONE[kind]),
        a_bytes=A_BYTES,
        b_place=2 * A_BYTES,
        b_middle=2 * A_BYTES + B_BYTES // 2,
        half_a=A_BYTES // 2,
        words=words,
        descriptors=descriptor("%rd8", "%r28") + descriptor("%rd9", "%r29") + descriptor("%rd10", "%r30"),
        starts="\n".join("    {} {}, {};".format(move, name, "%r4" if integer else "%f1") for name in sums),
        begin=_BEGIN,
        multiply="\n".join(multiply),
        end=_END,
        checks="\n".join(
            "    {} %p2, {}, {};\n    @%p2 red.global.add.u64 [%rd2 + 16], 1;".format(differs, name, "%r4" if integer else "%f1")
            for name in sums
        ),
    )
