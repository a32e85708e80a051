"""The kernels of the smoke test's further steps, in PTX, beside those of bench_ptx.py. Each has a reference that Python computes."""

from __future__ import annotations

from cudadoctor_lines import sibling

bench_ptx = sibling("bench_ptx")
entry, repeated, jump, place = bench_ptx.entry, bench_ptx.repeated, bench_ptx.jump, bench_ptx.place
REDUCED_BY = 256  # threads of a block of the reduction: its shared memory holds a number for each

# The value of element i in a pattern: (i x factor + add) ^ ((i x factor + add) >> shift) ^ flip. %rd10 is i, the result is in %rd12.
_PATTERN = """
    ld.param.u64 %rd4, [p_factor];
    ld.param.u64 %rd5, [p_add];
    ld.param.u32 %r6, [p_shift];
    ld.param.u64 %rd6, [p_flip];
    mad.lo.u64 %rd12, %rd10, %rd4, %rd5;
    shr.u64 %rd13, %rd12, %r6;
    xor.b64 %rd12, %rd12, %rd13;
    xor.b64 %rd12, %rd12, %rd6;"""
# Places of 8 bytes: %rd1 the first, %rd2 their number, %rd10 this thread's, %rd11 its address. More than 2^32 of them are possible.
_PLACES = "p_place:u64:%rd1:%rd1 p_count:u64:%rd2"
_PLACE = f"""
    mul.wide.u32 %rd10, %r1, %r2;
    cvt.u64.u32 %rd11, %r3;
    add.u64 %rd10, %rd10, %rd11;
{jump("ge.u64", "%rd10", "%rd2", "DONE")}
    shl.b64 %rd11, %rd10, 3;
    add.u64 %rd11, %rd1, %rd11;"""
_PATTERN_PARAMETERS = f"{_PLACES} p_factor:u64 p_add:u64 p_shift:u32 p_flip:u64"

FILL = entry("write", _PATTERN_PARAMETERS, _PLACE + _PATTERN + "\n    st.global.u64 [%rd11], %rd12;\nDONE:")

# p_out: how many places differ, and the first of them.
VERIFY = entry(
    "verify",
    _PATTERN_PARAMETERS + " p_out:u64",
    _PLACE + _PATTERN + f"""
    ld.param.u64 %rd7, [p_out];
    cvta.to.global.u64 %rd7, %rd7;
    ld.global.u64 %rd14, [%rd11];
{jump("eq.u64", "%rd14", "%rd12", "DONE", "%p2")}
    red.global.add.u64 [%rd7], 1;
    red.global.min.u64 [%rd7 + 8], %rd10;
DONE:""",
)  # fmt: skip

# The sum of p_count 32-bit numbers: each thread some, each block through shared memory, the blocks by atomic additions.
REDUCE = entry(
    "reduce",
    "p_place:u64:%rd1:%rd1 p_count:u32:%r6 p_out:u64:%rd2:%rd2",
    f"""
    mov.u32 %r7, 0;
NEXT:
{jump("ge.u32", "%r4", "%r6", "SUMMED")}
{place("%rd3", "%rd1", "%r4", 4)}
    ld.global.u32 %r8, [%rd3];
    add.u32 %r7, %r7, %r8;
    add.u32 %r4, %r4, %r5;
    bra NEXT;
SUMMED:
    mov.u32 %r9, sums;
    shl.b32 %r10, %r3, 2;
    add.u32 %r9, %r9, %r10;
    st.shared.u32 [%r9], %r7;
    mov.u32 %r11, 128;
HALVE:
    bar.sync 0;
{jump("ge.u32", "%r3", "%r11", "SKIP", "%p2")}
    shl.b32 %r12, %r11, 2;
    add.u32 %r12, %r9, %r12;
    ld.shared.u32 %r13, [%r12];
    ld.shared.u32 %r14, [%r9];
    add.u32 %r13, %r13, %r14;
    st.shared.u32 [%r9], %r13;
SKIP:
    shr.u32 %r11, %r11, 1;
{jump("ne.u32", "%r11", 0, "HALVE", "%p3")}
{jump("ne.u32", "%r3", 0, "DONE", "%p4")}
    ld.shared.u32 %r15, [%r9];
    red.global.add.u32 [%rd2], %r15;
DONE:""",
    before=f"    .shared .align 4 .b8 sums[{4 * REDUCED_BY}];\n",
)

# sqrt(x) x x / 3 + sqrt(x) of x = i + 1 in double precision, each step rounded as the standard says: the CPU gets the same bits.
DOUBLE = entry(
    "double",
    _PLACES,
    _PLACE + """
    add.u64 %rd12, %rd10, 1;
    cvt.rn.f64.u64 %d1, %rd12;
    sqrt.rn.f64 %d2, %d1;
    mul.rn.f64 %d3, %d2, %d1;
    mov.f64 %d4, 0d4008000000000000;
    div.rn.f64 %d3, %d3, %d4;
    add.rn.f64 %d3, %d3, %d2;
    st.global.f64 [%rd11], %d3;
DONE:""",
)  # fmt: skip

# 3 x + 1 of x = i mod 64 in half precision, exact; stored as single precision.
HALF = entry(
    "half",
    _PLACES,
    _PLACE + """
    cvt.u32.u64 %r7, %rd10;
    and.b32 %r7, %r7, 63;
    cvt.rn.f16.u32 %h1, %r7;
    mov.u32 %r8, 3;
    cvt.rn.f16.u32 %h2, %r8;
    mov.u32 %r8, 1;
    cvt.rn.f16.u32 %h3, %r8;
    fma.rn.f16 %h1, %h1, %h2, %h3;
    cvt.f32.f16 %f1, %h1;
    cvt.f64.f32 %d1, %f1;
    st.global.f64 [%rd11], %d1;
DONE:""",
)  # fmt: skip

# All blocks of the grid wait for each other: each leaves b x b + 1, and behind the barrier each adds up what all left. A launch that is
# not cooperative could wait for ever; this one gives up after p_limit nanoseconds.
MEET = entry(
    "meet",
    "p_counter:u64:%rd1:%rd1 p_left:u64:%rd2:%rd2 p_sums:u64:%rd3:%rd3 p_limit:u64:%rd4",
    f"""
{jump("ne.u32", "%r3", 0, "DONE")}
    mov.u32 %r7, %nctaid.x;
    mad.lo.u32 %r8, %r1, %r1, 1;
{place("%rd6", "%rd2", "%r1", 4, "%rd5")}
    add.s64 %rd7, %rd3, %rd5;
    st.global.u32 [%rd6], %r8;
    membar.gl;
    red.global.add.u32 [%rd1], 1;
    mov.u64 %rd8, %globaltimer;
WAIT:
    ld.volatile.global.u32 %r9, [%rd1];
{jump("ge.u32", "%r9", "%r7", "TOGETHER", "%p2")}
    mov.u64 %rd9, %globaltimer;
    sub.u64 %rd9, %rd9, %rd8;
{jump("lt.u64", "%rd9", "%rd4", "WAIT", "%p3")}
    bra DONE;
TOGETHER:
    membar.gl;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
ADD:
{place("%rd10", "%rd2", "%r10", 4)}
    ld.volatile.global.u32 %r12, [%rd10];
    add.u32 %r11, %r11, %r12;
    add.u32 %r10, %r10, 1;
{jump("lt.u32", "%r10", "%r7", "ADD", "%p4")}
    st.global.u32 [%rd7], %r11;
DONE:""",
)

_STEP = """    mad.lo.u32 %r9, %r9, 1664525, 1013904223;
    shr.u32 %r10, %r9, 13;
    xor.b32 %r9, %r9, %r10;"""
# A number that depends on every one of p_turns steps: x = x * 1664525 + 1013904223, then x ^= x >> 13.
MIX = entry(
    "mix",
    "p_place:u64:%rd1:%rd1 p_count:u32:%r6 p_turns:u32:%r7 p_seed:u32:%r8",
    f"""
{jump("ge.u32", "%r4", "%r6", "DONE")}
    add.u32 %r9, %r4, %r8;
{repeated(_STEP, "%r7", "%p2")}
{place("%rd2", "%rd1", "%r4", 4)}
    st.global.u32 [%rd2], %r9;
DONE:""",
)

MODULES = {
    "pattern": (bench_ptx.BASE, FILL + VERIFY), "reduce": (bench_ptx.BASE, REDUCE), "double": (bench_ptx.BASE, DOUBLE),
    "half": (bench_ptx.HALF, HALF), "meet": (bench_ptx.BASE, MEET), "mix": (bench_ptx.BASE, MIX),
}  # fmt: skip
