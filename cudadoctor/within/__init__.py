"""Judges what a stranger may have written within a budget that no text can outlast: in one child, which the kernel ends.

    asking.py     the doctor's side: starts the child early, so that it costs no time, and asks again for less where its time is over
    answering.py  the child's side
    less.py       what is left of a question without what took too long

The child says which part of the work begins. When its time is over (CPU seconds, so that a busy machine is no reason; on Windows, which
cannot set that limit, seconds), the part that was going on is left out, and a new child judges the rest: of a long text first its end
remains, then nothing. The report says what was left out; it is then broken or undecided, never healthy.
"""

import struct

FRAME = struct.Struct(">cQ")  # what it is, and how many bytes follow
PART, TOLD, FAILED = b"p", b"t", b"f"
