"""Cures that are tried: a fault is made for real, what `fix --apply` would do is done, the fault is gone, and undo brings it back.

    pytest -m cures tests/cures

Needs the network (PyPI; for the files of a system, root, debootstrap and Debian's archive) and takes minutes. The machine around the
fault, which has a GPU, is a recorded one; the GPU machine tries the cures of tests/faults with its own.
"""
