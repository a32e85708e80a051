"""Texts that are made of the project's own literals, in every arrangement: how long an answer takes, and how much memory.

    python -m tests.benchmarks.hostile_texts [NUMBER] [MIB]

Prints the slowest, and exits 1 where one gave no answer within the budget.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cudadoctor.knowledge.load import load
from cudadoctor.parsers.read import PARSERS
from cudadoctor.within.asking import SECONDS

Arrange = Callable[[random.Random, list[str]], str]


def literals() -> list[str]:
    found = {literal for cause in load().causes.values() for match in cause.match for literal in match.literals}
    found |= {word for parser in PARSERS for word in parser.wakes}
    return sorted(found)


def _until(size: int, parts: Iterator[str]) -> str:
    out, length = [], 0
    for part in parts:
        out.append(part)
        length += len(part)
        if length >= size:
            break
    return "".join(out)[:size]


ARRANGED: dict[str, Arrange] = {
    "one line": lambda chance, words: chance.choice(words) + " ",
    "one line, no blanks": lambda chance, words: chance.choice(words),
    "long lines": lambda chance, words: " ".join(chance.choices(words, k=60)) + "\n",
    "short lines": lambda chance, words: chance.choice(words) + "\n",
    "numbered lines": lambda chance, words: f"[{chance.random() * 1e5:12.6f}] {chance.choice(words)} {chance.randrange(10**6)}\n",
    "a table": lambda chance, words: "| " + " | ".join(chance.choices(words, k=4)) + " |\n",
    "a ruled table": lambda chance, words: "|" + "-" * chance.randrange(3, 90) + "|" + chance.choice(["\n", "-x\n", "|\n"]),
    "nested quotes": lambda chance, words: ">" * chance.randrange(1, 30) + " '\"" + chance.choice(words) + "\"'\n",
    "mail": lambda chance, words: "> " * chance.randrange(1, 8) + chance.choice(words) + " and\n",
    "json": lambda chance, words: '{"message": "' + "\\n".join(chance.choices(words, k=8)) + '"}\n',
    "brackets": lambda chance, words: "(" * 20 + chance.choice(words) + "[" * 20,
    "one word": lambda chance, words: words[0] + chance.choice([" ", "\n", "", ": ", "=", "x"]),
    "two words": lambda chance, words: chance.choice(words[:2]) + chance.choice(["\n", " "]),
    "prompts": lambda chance, words: f"user@host:~$ {chance.choice(words)}\n{chance.choice(words)}\n",
    "kernel log": lambda chance, words: f"Nov 21 10:00:{chance.randrange(60):02d} host kernel: NVRM: {chance.choice(words)}\n",
    "blanks": lambda chance, words: chance.choice(words) + " " * chance.randrange(1, 400) + "\n",
    "unicode": lambda chance, words: chance.choice(words) + "“” —\u200b" + chance.choice(words) + "\n",
}


def _endless(arrange: Arrange, chance: random.Random, words: list[str]) -> Iterator[str]:
    while True:
        yield arrange(chance, words)


def texts(number: int, size: int) -> Iterator[tuple[str, str]]:
    words = literals()
    for seed in range(number):
        chance = random.Random(seed)
        name = list(ARRANGED)[seed % len(ARRANGED)]
        some = chance.sample(words, chance.choice([1, 2, 5, 50, len(words)]))
        yield f"{name}, {len(some)} literals, seed {seed}", _until(size, _endless(ARRANGED[name], chance, some))


def main() -> int:
    number, mib = map(int, (*sys.argv[1:3], "200", "1")[:2] if len(sys.argv) < 3 else sys.argv[1:3])
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text"
        for name, text in texts(number, mib << 20):
            path.write_text(text, encoding="utf-8")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            started = time.monotonic()
            run = subprocess.run([sys.executable, "-m", "cudadoctor", "explain", str(path)], capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            whole = "too long" not in run.stdout
            rows.append((time.monotonic() - started, cpu, run.returncode, whole, name))
            if run.returncode not in (0, 1, 3) or cpu > SECONDS * 1.5:
                failed += 1
                print(f"no answer: {rows[-1]} {run.stderr[-300:]}")
    rows.sort(reverse=True)
    for wall, cpu, code, whole, name in rows[:15]:
        print(f"{wall:6.2f} s, {cpu:6.2f} s of CPU, exit {code}, {'whole' if whole else 'in part'}: {name}")
    print(f"{number} texts of {mib} MiB: {failed} without an answer, {sum(not row[3] for row in rows)} read in part; "
          f"largest process {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")  # fmt: skip
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
