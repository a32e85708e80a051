"""How many of 306 texts that were written from knowledge alone are read right: 154 with a cause, 152 without one.

    python -m tests.benchmarks.blind_texts [--list]

The texts are packed so that nobody reads them by accident: whoever mends a message because of one of them has lost a measure. Printed are
figures for each kind; --list adds the ids of what was missed, and what was said instead. Of the kind `fault` any cause counts as right.
Those without a cause, and eighteen with one, were looked at when parsers/discourse.py got its score: on them the figures no longer measure
what a text nobody has seen would bring.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.sources import pasted

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PACKS = ("blind_texts.b64", "blind_mentions.b64", "blind_everyday.b64")


def texts() -> list[dict[str, Any]]:
    packed = (zlib.decompress(base64.decodebytes((FIXTURES / name).read_bytes())) for name in PACKS)
    return [json.loads(line) for lines in packed for line in lines.splitlines()]


def main() -> None:
    knowledge = load()
    right, first, of, accused, suspected = Counter[str](), Counter[str](), Counter[str](), 0, 0
    for text in texts():
        found = judge(pasted.evidence_of(text["text"].encode()), knowledge).diagnosis
        causes = [found.root.cause] if found.root is not None else [one.cause for one in found.suspects]
        wanted = {text["label"], *text["also"]}
        of[text["kind"]] += 1
        if text["label"] == "none":
            accused += found.root is not None
            suspected += found.root is None and bool(causes)
            good = not causes
        else:
            good = causes[:1] != [] and (causes[0] in wanted or text["label"] == "any")
            first["root"] += found.root is not None and good
        right[text["kind"]] += good
        if not good and "--list" in sys.argv:
            print(f"{text['id']} {text['kind']}: {text['label']}, said {', '.join(causes[:3]) or 'nothing'}")
    faulty = [kind for kind in of if kind in ("message", "compare", "language", "quoted", "wrong-suspicion", "fault")]
    for kind in of:
        print(f"{kind:16} {right[kind]:3} of {of[kind]}")
    total = sum(of[kind] for kind in faulty)
    print(f"with a cause: {sum(right[kind] for kind in faulty)} of {total} first ({first['root']} as the root)")
    print(f"without one: {accused} accused, {suspected} with a suspicion, of {sum(of.values()) - total}")


if __name__ == "__main__":
    main()
