"""A `doctor` as nodes might have it: what it does depends on the node's name. Used with real engines and with a stand-in for srun and ssh.

n1 and n6 print a report, n2 hangs with a grandchild, n3 is killed, n4 prints garbage, n5 has a Python that is too old, n7 prints half.
"""

from __future__ import annotations

import json
from pathlib import Path

from cudadoctor.report.json import render
from tests.judging import report_of

SICK = ("n2", "n3", "n4", "n5", "n7")
_DOCTOR = """#!/bin/sh
name=${NODE:-$(hostname)}
case $name in
  n2) setsid sleep 40 & sleep 40 ;;
  n3) kill -9 $$ ;;
  n4) printf 'Welcome\n\\377\\376\\001' ;;
  n5) echo "SyntaxError: invalid syntax" >&2; exit 1 ;;
  n7) head -c 4000 FOLDER/report.json ;;
  *) sed "s/NAME/$name/g" FOLDER/report.json ;;
esac
"""


def doctor(folder: Path) -> Path:
    """The program, beside the report that it prints."""
    body = json.loads(render(report_of("h200x2-bench")))
    body["origin"].update(host="NAME", boot_id="boot of NAME", time="2026-01-01T00:00:00Z")
    (folder / "report.json").write_text(json.dumps(body))
    program = folder / "doctor"
    program.write_text(_DOCTOR.replace("FOLDER", str(folder)))
    program.chmod(0o755)
    return program
