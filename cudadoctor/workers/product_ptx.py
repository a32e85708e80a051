"""The kernel of a whole matrix product on Hopper's tensor cores, C = A x B^T, in PTX. Types and instructions are those of tensor_ptx.py.

Each block of 3 groups of 128 threads computes TILE_M x TILE_N of C. One group fetches, two multiply, 64 rows each.
"""

from __future__ import annotations

from cudadoctor_lines import sibling

ptx = sibling("tensor_ptx")
jump = ptx.jump
STAGES = 4  # slices under way
THREADS = 384
A_POLICY, B_POLICY = "evict_last", "evict_first"
GROUP = 8  # pairs of blocks along M that run side by side, so that they share rows of A and B in the second level of cache

SLICE_BYTES = ptx.A_BYTES + ptx.B_BYTES
# The stage in %r10, its phase in %r11.
NEXT_STAGE = f"""    add.u32 %r10, %r10, 1;
    setp.eq.u32 %p2, %r10, {STAGES};
    selp.u32 %r10, 0, %r10, %p2;
    selp.u32 %r24, 1, 0, %p2;
    xor.b32 %r11, %r11, %r24;"""
# Tells a block that the stage of %r32 is free.
SET_FREE = f"""    add.u32 %r33, %r32, {8 * STAGES};
    add.u32 %r33, %r31, %r33;
    mbarrier.arrive.shared::cluster.b64 _, [%r33];"""


def shared_memory() -> int:
    """Bytes; what is left of them aligns the first slice."""
    return int(STAGES * SLICE_BYTES + 2 * 8 * STAGES + 1024)


def product(kind: str, size: int, row_bytes: int) -> str:
    """A and B: `size` rows of `row_bytes` bytes; C: size x size, 32-bit numbers for tf32 and int8, else bf16.

    Two blocks of a cluster multiply different rows of A by the same rows of B, of which each fetches one half for both. p_out: the sums of
    the cycles and nanoseconds of the first block.
    """
    integer = ptx.KINDS[kind][5]
    narrow = ptx.KINDS[kind][0] < 4 and not integer
    tiles = size // (2 * ptx.TILE_M), size // ptx.TILE_N
    begins = f"""
    setp.ge.u32 %p1, %r5, {tiles[0] * tiles[1]};
    @%p1 bra """
    where = _where(tiles)
    return "".join((
        ptx.head("8.0", "sm_90a"),
        _set_up(f".reg .{'b32' if integer else 'f32'} %a<{ptx.TILE_N // 2}>;"),
        _fetch(f"{begins}FETCHED;\n{where}", row_bytes),
        _multiply(f"{begins}END;\n{where}", kind, row_bytes, columns=8 if narrow else 2),
        _store(size, 2 if narrow else 4, "\n".join(_narrow_stores() if narrow else _wide_stores())),
    ))  # fmt: skip


def _set_up(sums: str) -> str:
    """Up to where the groups part. `sums`: their registers."""
    barriers = "\n".join(
        f"    mbarrier.init.shared::cta.b64 [%r9 + {8 * stage}], 1;\n    mbarrier.init.shared::cta.b64 [%r9 + {8 * (STAGES + stage)}], 4;"
        for stage in range(STAGES)
    )
    return f""".extern .shared .align 1024 .b8 memory[];

.visible .entry cudadoctor_product(.param .align 64 .b8 p_a[128], .param .align 64 .b8 p_b[128], .param .u64 p_c, .param .u64 p_out)
.explicitcluster
.reqnctapercluster 2, 1, 1
.maxntid {THREADS}, 1, 1
.minnctapersm 1
{{
    .reg .pred %p<12>; .reg .b16 %h<2>; .reg .b32 %x<4>; .reg .b32 %y<2>; .reg .b32 %r<64>; .reg .b64 %rd<32>; {sums}
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 7;                        // group of 128 threads
    mov.u32 %r3, %cluster_ctarank;
    mov.u32 %r4, %ctaid.x;
    shr.u32 %r5, %r4, 1;                        // the pair's first tile
    mov.u32 %r6, %nctaid.x;
    shr.u32 %r6, %r6, 1;                        // number of pairs
    mov.u32 %r7, memory;
    add.u32 %r7, %r7, 1023;
    and.b32 %r7, %r7, 0xFFFFFC00;               // slices of A
    add.u32 %r8, %r7, {STAGES * ptx.A_BYTES};                // slices of B
    add.u32 %r9, %r7, {STAGES * SLICE_BYTES};                   // barriers: full, then empty
{jump("ne.u32", "%r1", 0, "READY")}
{barriers}
    fence.mbarrier_init.release.cluster;
READY:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.u32 %r10, 0;                            // stage
    mov.u32 %r11, 0;                            // its phase
    setp.eq.u32 %p4, %r10, 0;                   // true
{jump("ne.u32", "%r2", 0, "MULTIPLY")}

"""


def _fetch(tile: str, row_bytes: int) -> str:
    """The group that fetches. `tile`: ends it behind the last tile, and says where one is."""
    return f"""    setmaxnreg.dec.sync.aligned.u32 40;
{jump("ne.u32", "%r1", 0, "END")}
    mov.u64 %rd20, %clock64;
    mov.u64 %rd21, %globaltimer;
    mov.b64 %rd1, p_a;
    cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, p_b;
    cvta.param.u64 %rd2, %rd2;
    mov.u16 %h1, 3;
    createpolicy.fractional.L2::{A_POLICY}.b64 %rd4, 1.0;   // the rows of A serve every column of a group of tiles
    createpolicy.fractional.L2::{B_POLICY}.b64 %rd5, 1.0;
FETCH_TILE:{tile}
    mad.lo.u32 %r20, %r16, 2, %r3;
    mul.lo.u32 %r20, %r20, {ptx.TILE_M};            // first row of A
    mul.lo.u32 %r21, %r17, {ptx.TILE_N};
    mad.lo.u32 %r21, %r3, {ptx.TILE_N // 2}, %r21;       // first row of this block's half of B
    mov.u32 %r22, 0;                            // first word of the slice
FETCH:
    shl.b32 %r24, %r10, 3;
    add.u32 %r25, %r9, %r24;
    add.u32 %r26, %r25, {8 * STAGES};
    xor.b32 %r27, %r11, 1;
WAIT_EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r26], %r27;
    @!%p2 bra WAIT_EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r25], {SLICE_BYTES};
    mad.lo.u32 %r28, %r10, {ptx.A_BYTES}, %r7;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint
        [%r28], [%rd1, {{%r22, %r20}}], [%r25], %rd4;
    mad.lo.u32 %r29, %r10, {ptx.B_BYTES}, %r8;
    mad.lo.u32 %r29, %r3, {ptx.B_BYTES // 2}, %r29;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint
        [%r29], [%rd2, {{%r22, %r21}}], [%r25], %h1, %rd5;
{NEXT_STAGE}
    add.u32 %r22, %r22, {ptx.SLICE // 4};
{jump("lt.u32", "%r22", row_bytes // 4, "FETCH", "%p2")}
    add.u32 %r5, %r5, %r6;
    bra FETCH_TILE;
FETCHED:
    mov.u64 %rd22, %clock64;
    mov.u64 %rd23, %globaltimer;
{jump("ne.u32", "%r4", 0, "END")}
    ld.param.u64 %rd3, [p_out];
    cvta.to.global.u64 %rd3, %rd3;
    sub.s64 %rd22, %rd22, %rd20;
    sub.s64 %rd23, %rd23, %rd21;
    red.global.add.u64 [%rd3], %rd22;
    red.global.add.u64 [%rd3 + 8], %rd23;
    bra END;

"""


def _multiply(tile: str, kind: str, row_bytes: int, columns: int) -> str:
    """The groups that multiply; `columns` of C that lie side by side in a thread."""
    sums = ptx.listed("%a", 0, ptx.TILE_N // 2)
    multiply = "\n".join(
        f"    add.u64 %rd10, %rd8, {place}; add.u64 %rd11, %rd9, {place};\n"
        + ptx.wgmma(kind, ptx.TILE_N, sums, "%rd10", "%rd11", "%p4" if place else "%p3")
        for place in range(0, ptx.SLICE // 16, ptx.ROW // 16)
    )
    return f"""MULTIPLY:
    setmaxnreg.inc.sync.aligned.u32 232;
    ld.param.u64 %rd3, [p_c];
    cvta.to.global.u64 %rd3, %rd3;
    sub.u32 %r12, %r2, 1;                       // which 64 rows of the tile
    and.b32 %r13, %r1, 127;
    setp.lt.u32 %p5, %r13, 2;                   // these threads tell one block each that a stage is free
    shr.u32 %r14, %r13, 5;
    shl.b32 %r14, %r14, 4;
    and.b32 %r15, %r13, 31;
    shr.u32 %r30, %r15, 2;
    add.u32 %r14, %r14, %r30;
    mad.lo.u32 %r14, %r12, 64, %r14;            // this thread's row of the tile
    and.b32 %r15, %r15, 3;
    and.b32 %r52, %r15, 1;
    setp.ne.u32 %p6, %r52, 0;
    setp.gt.u32 %p7, %r15, 1;
    mul.lo.u32 %r15, %r15, {columns};           // and its first column
    mapa.shared::cluster.u32 %r31, %r9, %r13;   // the barriers of the block that it tells
TILE:{tile}
    mov.u32 %r22, 0;
SLICE:
    shl.b32 %r24, %r10, 3;
    add.u32 %r25, %r9, %r24;
WAIT_FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r25], %r11;
    @!%p2 bra WAIT_FULL;
    mad.lo.u32 %r28, %r10, {ptx.A_BYTES}, %r7;
    mad.lo.u32 %r28, %r12, {ptx.A_BYTES // 2}, %r28;
    mad.lo.u32 %r29, %r10, {ptx.B_BYTES}, %r8;
{ptx.descriptor("%rd8", "%r28")}{ptx.descriptor("%rd9", "%r29")}    setp.ne.u32 %p3, %r22, 0;
    wgmma.fence.sync.aligned;
{multiply}
    wgmma.commit_group.sync.aligned;
{jump("eq.u32", "%r22", 0, "HELD", "%p2")}
    wgmma.wait_group.sync.aligned 1;
    @!%p5 bra HELD;
{SET_FREE}
HELD:
    mov.u32 %r32, %r24;                         // the stage that is still read
{NEXT_STAGE}
    add.u32 %r22, %r22, 1;
{jump("lt.u32", "%r22", row_bytes // ptx.SLICE, "SLICE", "%p2")}
    wgmma.wait_group.sync.aligned 0;
    @!%p5 bra STORE;
{SET_FREE}
"""


def _store(size: int, width: int, stores: str) -> str:
    """The sums of a tile to C, whose numbers have `width` bytes."""
    return f"""STORE:
    mad.lo.u32 %r20, %r16, 2, %r3;
    mad.lo.u32 %r20, %r20, {ptx.TILE_M}, %r14;
    mad.lo.u32 %r21, %r17, {ptx.TILE_N}, %r15;
    mul.wide.u32 %rd12, %r20, {size};
    cvt.u64.u32 %rd13, %r21;
    add.u64 %rd12, %rd12, %rd13;
    mul.lo.u64 %rd12, %rd12, {width};
    add.u64 %rd13, %rd3, %rd12;
    add.u64 %rd14, %rd13, {8 * size * width};
{stores}
    add.u32 %r5, %r5, %r6;
    bra TILE;
END:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}}
"""


def _wide_stores() -> list[str]:
    """Sums of 32 bits as they are: four lanes hold eight of a row."""
    return [
        "    st.global.v2.b32 [%rd{} + {}], {{%a{}, %a{}}};".format(13 + half, 32 * part, 4 * part + 2 * half, 4 * part + 2 * half + 1)
        for part in range(ptx.TILE_N // 8)
        for half in range(2)
    ]


def _narrow_stores() -> list[str]:
    """Sums as bf16. Four lanes hold two columns each of four times eight; they change, so that each has all of one and stores 16 bytes."""
    lines = []
    for half in range(2):
        for part in range(ptx.TILE_N // 32):
            for block in range(4):
                low = 16 * part + 4 * block + 2 * half
                lines.append("    cvt.rn.bf16x2.f32 %x{}, %a{}, %a{};".format(block, low + 1, low))
            lines += _exchanged(("%x0", "%x1"), ("%x2", "%x3"), "%p6", 1)
            lines += _exchanged(("%x0", "%x2"), ("%x1", "%x3"), "%p7", 2)
            lines.append("    st.global.v4.b32 [%rd{} + {}], {{%x0, %x1, %x2, %x3}};".format(13 + half, 64 * part))
    return lines


def _exchanged(one: tuple[str, str], other: tuple[str, str], odd: str, distance: int) -> list[str]:
    """Of each pair the even lane keeps the first and the odd lane the second; what it does not keep becomes what its partner did not."""
    lines = []
    for first, second in (one, other):
        lines.append("    selp.b32 %y0, {}, {}, {};".format(first, second, odd))
        lines.append("    shfl.sync.bfly.b32 %y1, %y0, {}, 0x1F, 0xFFFFFFFF;".format(distance))
        lines.append("    selp.b32 {0}, %y1, {0}, {1};".format(first, odd))
        lines.append("    selp.b32 {0}, {0}, %y1, {1};".format(second, odd))
    return lines


def _where(tiles: tuple[int, int]) -> str:
    """Of tile %r5 the pair of rows of blocks in %r16 and the column in %r17: GROUP rows at a time, column by column."""
    group = min(GROUP, tiles[0])
    return """    div.u32 %r50, %r5, {in_group};
    mul.lo.u32 %r51, %r50, {in_group};
    sub.u32 %r51, %r5, %r51;
    rem.u32 %r16, %r51, {group};
    mad.lo.u32 %r16, %r50, {group}, %r16;
    div.u32 %r17, %r51, {group};""".format(in_group=group * tiles[1], group=group)
