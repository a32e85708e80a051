"""Where evidence comes from: a live host, a recording, a user's text. Only this package and workers/ touch the machine.

What collects and writes a recording here goes along in the file that `record --script` prints, as it is: it keeps to the syntax and the
standard library of Python 3.6 (annotations may be newer), and so do the workers. tests/test_collect_script.py looks.
"""
