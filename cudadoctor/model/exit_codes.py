"""The exit codes that the README names. Nothing is imported, for Ctrl-C while Python still reads the modules ends with one of them."""

HEALTHY, BROKEN, USAGE, UNDECIDED, CRASHED, INTERRUPTED, ENDED = 0, 1, 2, 3, 4, 130, 143
