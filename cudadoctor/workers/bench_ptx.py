"""The kernels of benchmark and smoke test in PTX, which the driver compiles itself: no toolkit, compiler or Python package is needed.

Each module names the oldest PTX version and target that know its instructions, for newer drivers and GPUs read older PTX and never the
reverse. Kernels that are unrolled are written by Python. No kernel keeps a value that the driver's compiler could work out beforehand:
factors come as parameters, and what was computed is compared or stored.
"""

from __future__ import annotations

import struct

# 16-byte loads of a thread that reads. Threads enough to fill the GPU hide the time that memory takes to answer; measured: more than one
# load a thread is slower where it stores.
UNROLLED_READ = 4
CHAINS = 8  # independent sums of a thread: hides the time that one multiply-add takes
ROUNDS = 16  # times that the loop body repeats all chains; even, see `arithmetic`
STEPS = 16  # dependent loads in one turn of the pointer chase
SHARED_BYTES = 16384  # of the kernel that reads shared memory
SHARED_LOADS = 16  # 16-byte loads in one turn of its loop
# PTX version, target, and the compute capability without which it cannot be compiled.
BASE, HALF, BFLOAT = ("6.0", "sm_50", (5, 0)), ("6.0", "sm_53", (5, 3)), ("7.0", "sm_80", (8, 0))

# Index of the thread in the grid in %r4, number of threads in %r5.
_WHERE = """
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    mov.u32 %r5, %nctaid.x;
    mul.lo.s32 %r5, %r5, %r2;
"""
_REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<32>; .reg .f64 %d<32>; .reg .b16 %h<4>;"


def head(version: str, target: str) -> str:
    """The beginning of a module."""
    return f".version {version}\n.target {target}\n.address_size 64\n\n"


def entry(name: str, parameters: str, body: str, before: str = "", directives: str = "") -> str:
    """One kernel; registers %r1 to %r5 say where the thread stands. `before`: what it declares beside the registers of all.

    `parameters`: name:type:register:pointer, in the order in which they are given. One with a register is loaded into it, one with a
    pointer is an address, which the pointer then holds as one of global memory.
    """
    given = [one.split(":") for one in parameters.split()]
    listed = ", ".join(f".param .{one[1]} {one[0]}" for one in given)
    loads = "".join(f"\n    ld.param.{one[1]} {one[2]}, [{one[0]}];" for one in given if len(one) > 2)
    pointers = "".join(f"\n    cvta.to.global.u64 {one[3]}, {one[2]};" for one in given if len(one) > 3)
    start = f".visible .entry cudadoctor_{name}({listed})\n{directives}{{\n    {_REGISTERS}\n{before}{_WHERE}"
    return f"{start}{loads}{pointers}{body}\n    ret;\n}}\n"


def repeated(body: str, counter: str, flag: str = "%p1") -> str:
    """The body as often as a register counts, which is zero then."""
    return f"TURN:\n{body}\n    sub.u32 {counter}, {counter}, 1;\n{jump('ne.u32', counter, 0, 'TURN', flag)}"


def jump(condition: str, one: str, other: str | int, target: str, flag: str = "%p1") -> str:
    """Go on elsewhere where a comparison holds."""
    return f"    setp.{condition} {flag}, {one}, {other};\n    @{flag} bra {target};"


def place(pointer: str, base: str, index: str, width: str | int, offset: str = "") -> str:
    """The address of an element, `width` bytes long, of an array in global memory."""
    return f"    mul.wide.u32 {offset or pointer}, {index}, {width};\n    add.s64 {pointer}, {base}, {offset or pointer};"


def listed(prefix: str, first: int, count: int = 4) -> str:
    """Registers in a row; four take a load of 16 bytes."""
    return "{" + ", ".join(f"{prefix}{first + number}" for number in range(count)) + "}"


# Waits for the host's word, so that everything behind it is queued before the first of it starts. It never waits longer than its limit.
GATE = entry(
    "gate",
    "p_flag:u64:%rd1:%rd3 p_limit:u64:%rd2",
    f"""
    mov.u64 %rd4, %globaltimer;
WAIT:
    ld.volatile.global.u32 %r6, [%rd3];
{jump("ne.u32", "%r6", 0, "DONE")}
    mov.u64 %rd5, %globaltimer;
    sub.s64 %rd6, %rd5, %rd4;
{jump("lt.u64", "%rd6", "%rd2", "WAIT", "%p2")}
DONE:""",
)

# Does nothing, as often as it is launched.
EMPTY = entry("nothing", "", "")


def _tiled(name: str, loads: int, stores: str, before: str = "", behind: str = "") -> str:
    """A kernel over whole tiles of blockDim x `loads` x 16 bytes, one block after the other. %rd1 from, %rd2 to, %r6 number of tiles."""
    step = "\n".join(f"    ld.global.v4.u32 {listed('%r', 10 + 4 * one)}, [%rd{10 + one}];" for one in range(loads))
    places = "\n".join(f"    add.s64 %rd{10 + one}, %rd{9 + one}, %rd5;" for one in range(1, loads))
    return entry(
        name,
        "p_to:u64:%rd2:%rd2 p_from:u64:%rd1:%rd1 p_tiles:u32:%r6",
        f"""{before}
    mul.wide.u32 %rd3, %r3, 16;                 // the thread's place in a tile
    mul.wide.u32 %rd5, %r2, 16;                 // bytes that a block moves at once
    mul.lo.u32 %r7, %r2, {loads};
    mul.wide.u32 %rd6, %r7, 16;                 // bytes of a tile
    mov.u32 %r8, %nctaid.x;
TILE:
{jump("ge.u32", "%r1", "%r6", "DONE")}
    cvt.u64.u32 %rd7, %r1;
    mad.lo.u64 %rd4, %rd7, %rd6, %rd3;
    add.s64 %rd10, %rd1, %rd4;
{places}
{step}
{stores}
    add.u32 %r1, %r1, %r8;
    bra TILE;
DONE:{behind}""",
    )


def copy() -> str:
    """Copies within the device, 16 bytes a load."""
    return _tiled("copy", 1, f"    add.s64 %rd20, %rd2, %rd4;\n    st.global.v4.u32 [%rd20], {listed('%r', 10)};")


def read() -> str:
    """Reads device memory and keeps the exclusive or of all of it, stored where it is the one value that it cannot be by chance."""
    folded = "\n".join(f"    xor.b32 %r9, %r9, %r{10 + one};" for one in range(4 * UNROLLED_READ))
    tail = f"""
{jump("ne.u32", "%r9", 1515870810, "OUT", "%p2")}
    st.global.u32 [%rd2], %r9;
OUT:"""
    return _tiled("read", UNROLLED_READ, folded, "\n    mov.u32 %r9, 0;", tail)


# A chain through memory: element i names element (i x 1664525 + 1013904223) mod 2^n. By the theorem of Hull and Dobell it meets all.
CHAIN = entry(
    "chain",
    "p_place:u64:%rd1:%rd2 p_mask:u32:%r6 p_stride:u32:%r7",
    f"""
{jump("gt.u32", "%r4", "%r6", "DONE")}
    mad.lo.u32 %r8, %r4, 1664525, 1013904223;
    and.b32 %r8, %r8, %r6;
{place("%rd3", "%rd2", "%r8", "%r7")}
{place("%rd4", "%rd2", "%r4", "%r7")}
    st.global.u64 [%rd4], %rd3;
DONE:""",
)

# Every thread adds 1 to its place p_turns times; p_mask says how many places there are. The sum of all places is then known.
ADD = entry(
    "add",
    "p_place:u64:%rd1:%rd1 p_mask:u32:%r6 p_turns:u32:%r7",
    f"""
    and.b32 %r8, %r4, %r6;
{place("%rd2", "%rd1", "%r8", 4)}
"""
    + repeated("    red.global.add.u32 [%rd2], 1;", "%r7"),
)


def timed(body: str, counter: str = "%r6", after: str = "") -> str:
    """Turns of a loop, and what must be done before the clock is read again. Cycles and nanoseconds that the first thread saw are kept:
    their quotient is the clock under this very load."""
    return f"""
    mov.u64 %rd20, %clock64;
    mov.u64 %rd21, %globaltimer;
{repeated(body, counter)}{after}
    mov.u64 %rd22, %clock64;
    mov.u64 %rd23, %globaltimer;
{jump("ne.u32", "%r4", 0, "CLOCKED", "%p7")}
    sub.s64 %rd22, %rd22, %rd20;
    sub.s64 %rd23, %rd23, %rd21;
    st.global.u64 [%rd2], %rd22;
    st.global.u64 [%rd2 + 8], %rd23;
CLOCKED:"""


_LOADS = "    ld.global.cg.u64 %rd1, [%rd1];\n" * STEPS
# One thread follows the chain; each load waits for the one before. Past the first level of cache. p_out: cycles, nanoseconds, the end.
CHASE = entry(
    "chase",
    "p_place:u64:%rd1:%rd1 p_turns:u32:%r6 p_out:u64:%rd2:%rd2",
    timed(_LOADS, after="\n    st.global.u64 [%rd2 + 16], %rd1;"),
)


def shared() -> str:
    """Reads shared memory, 16 bytes a load, each warp 512 bytes in a row: no two lanes ask the same bank."""
    loads = "\n".join(
        f"""    ld.shared.v4.u32 {listed("%r", 10)}, [%r8 + {one * 512 % SHARED_BYTES}];
    xor.b32 %r14, %r14, %r10; xor.b32 %r15, %r15, %r11; xor.b32 %r16, %r16, %r12; xor.b32 %r17, %r17, %r13;"""
        for one in range(SHARED_LOADS)
    )
    flip = f"""
    xor.b32 %r9, %r9, {SHARED_BYTES // 4};
    add.u32 %r8, %r6, %r9;"""
    return entry(
        "shared",
        "p_out:u64:%rd2:%rd2 p_turns:u32:%r7",
        f"""
    mov.u32 %r6, memory;
    mul.lo.u32 %r9, %r3, 16;
    and.b32 %r9, %r9, {SHARED_BYTES // 2 - 1};
    mov.u32 %r14, 0; mov.u32 %r15, 0; mov.u32 %r16, 0; mov.u32 %r17, 0;
    add.u32 %r8, %r6, %r9;
    st.shared.u32 [%r8], %r3;
    bar.sync 0;{timed(loads + flip, "%r7")}
    xor.b32 %r14, %r14, %r15; xor.b32 %r16, %r16, %r17; xor.b32 %r14, %r14, %r16;
{jump("ne.u32", "%r14", 1515870810, "DONE")}
    st.global.u32 [%rd2 + 24], %r14;
DONE:""",
        before=f"    .shared .align 16 .b8 memory[{SHARED_BYTES}];\n",
    )


# Type -> (register, multiply-add, how a float32 in %f1 becomes the register given, comparison, type of the two factors).
# The factors of paired types come packed: unpacked by the kernel they would be read as halves of one register, which is slower.
_TYPES = {
    "fp32": ("%f", "fma.rn.f32", "mov.f32 {0}, %f1;", "setp.neu.f32", "f32"),
    "fp64": ("%d", "fma.rn.f64", "cvt.f64.f32 {0}, %f1;", "setp.neu.f64", "f64"),
    "fp16": ("%r", "fma.rn.f16x2", "cvt.rn.f16.f32 %h1, %f1; mov.b32 {0}, {{%h1, %h1}};", "setp.ne.b32", "b32"),
    "bf16": ("%r", "fma.rn.bf16x2", "cvt.rn.bf16.f32 %h1, %f1; mov.b32 {0}, {{%h1, %h1}};", "setp.ne.b32", "b32"),
}


def arithmetic(kind: str) -> str:
    """Fused multiply-add: x becomes x * p_factor + p_add in every chain, p_turns x ROUNDS times.

    With the factor -1 and few digits all is exact in every type, and after an even number each chain holds its first value again:
    p_out + 16 counts the chains that do not. The operands change with every step, as those of a program do.
    """
    register, fma, convert, differs, given = _TYPES[kind]

    def start(target: str, chain: int) -> str:
        return f"    add.f32 %f1, %f2, 0f{struct.pack('>f', chain).hex().upper()};\n    {convert.format(target)}"

    chains = [f"{register}{20 + chain}" for chain in range(CHAINS)]
    factor, addend, again = (f"{register}{number}" for number in (17, 18, 19))
    body = "\n".join(f"    {fma} {chain}, {chain}, {factor}, {addend};" for _ in range(ROUNDS) for chain in chains)
    starts = "\n".join(start(chain, number) for number, chain in enumerate(chains))
    checks = "\n".join(start(again, number) + wrong(differs, chain, again) for number, chain in enumerate(chains))
    return entry(
        kind,
        f"p_out:u64:%rd2:%rd2 p_turns:u32:%r6 p_factor:{given}:{factor} p_add:{given}:{addend}",
        f"""
    and.b32 %r7, %r4, 15;
    cvt.rn.f32.u32 %f2, %r7;
    mul.f32 %f2, %f2, 0f3D800000;               // sixteenths
{starts}{timed(body)}
{checks}""",
    )


def wrong(differs: str, found: str, right: str) -> str:
    """Counts a register that does not hold what it should."""
    return f"\n    {differs} %p2, {found}, {right};\n    @%p2 red.global.add.u64 [%rd2 + 16], 1;"


# Each holds few kernels, so that a run compiles what it uses.
MODULES = {
    "gate": (BASE, GATE + EMPTY), "copy": (BASE, copy() + read()), "chase": (BASE, CHAIN + CHASE), "add": (BASE, ADD),
    "shared": (BASE, shared()), "fp32": (BASE, arithmetic("fp32")), "fp64": (BASE, arithmetic("fp64")), "fp16": (HALF, arithmetic("fp16")),
    "bf16": (BFLOAT, arithmetic("bf16")),
}  # fmt: skip
