"""Whether a text reports a fault that is there now: what is over, what others have, what only a document lists, what works further below."""

from __future__ import annotations

import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.knowledge.load import load
from cudadoctor.parsers.discourse import is_prose, speech_of
from cudadoctor.sources.pasted import evidence_of
from tests.cases import every
from tests.pasted import report, root

SPEECH = speech_of(load())
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
BUS = "NVRM: Xid (PCI:0000:01:00): 79, pid=12, name=python3, GPU has fallen off the bus."
CPU = "AssertionError: Torch not compiled with CUDA enabled"
TABLE = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-6f1c2f0e-3a57-52c9-9a7c-1ad6d6c10a3c)"
CITED = (
    "The check runs before each job.\nIt ends with one of three codes.\nA node that fails it takes no job.\nThe second code stands for\n\n    {}\n\n"
    "and drains the node at once.\nThe third one is for the network.\n"
)
SILENT = {
    "a question with answers to choose from": f"3. What does Xid 79 stand for?\n   a) a page fault   b) {BUS}   c) an ECC error\n",
    "answers one below another": f"Was ist hier der richtige Schritt?\n\na) abwarten\nb) {MISMATCH}\nc) neu starten\n",
    "over": f"{MISMATCH}\n\nI drained the node and rebooted it, the matter is solved.\n",
    "over, in German": f"{MISMATCH}\n\nWir haben den Knoten neu gestartet, das Problem ist behoben.\n",
    "over, and what it was behind it": "Solved: a reboot was due. It was NVRM: API mismatch: the client has the version 550.54.15, but this "
    "kernel module has the version 535.161.07.\n",
    "over, said first": f"[SOLVED] no GPU after the update\n\nThis is what I got:\n\n{MISMATCH}\n\nThe headers were missing.\n",
    "over, said first behind a word": f"Status: solved.\n\nIt was this on my node:\n\n{MISMATCH}\n\nThe headers were missing.\n",
    "somebody else's, in a channel": f"[12:03] <ann> my neighbour's box has {BUS}\n[12:04] <bob> and yours?\n[12:04] <ann> all good here, i am happy\n",
    "what it was, with thanks": f"{MISMATCH}\n\nIt turned out that an upgrade ran at night.\nThanks to all of you!\n",
    "somebody else's": f"The log of my neighbour's machine was full of\n\n{BUS}\n\nMy own box is healthy. Which card would you buy?\n",
    "a quotation": f"[quote=ann]\nmine says {MISMATCH}\n[/quote]\n\nThat is another matter, I wonder about the fan curve only.\n",
    "what rg found": 'docs/gpu.md\n41:If the kernel says "GPU has fallen off the bus" switch it off.\n\nsrc/a.py\n7:    "GPU has fallen off the bus",\n',
    "a patch": f'diff --git a/a.c b/a.c\n--- a/a.c\n+++ b/a.c\n@@ -1,2 +1,2 @@\n-  say("{MISMATCH}");\n+  say("{MISMATCH}: reboot");\n',
    "a title that begins with it": f"[SOLVED] modprobe says no\n\n> ann\n> {MISMATCH} Help?\n\n> bob\n> Reboot.\n\n> ann\n> That was it!\n",
    "a patch of one line": f"@@ -1 +1 @@\n-{MISMATCH}\n+{MISMATCH}: reboot\n",
    "a manual": "EXIT STATUS of the tool\n\n"
    + "".join(f'The code {code} stands for a device of which it says "{said}".\n' for code, said in enumerate((MISMATCH, "GPU is lost")))
    + "The tool reads the log of the kernel.\nThe tool ends at once.\nThe tool writes no file.\n",
    "refuted below": f"$ nvidia-smi\n{MISMATCH}\n\nThen a reboot.\n\n$ nvidia-smi -L\n{TABLE}\n",
    "a framework that answers below": f">>> torch.zeros(1).cuda()\n{CPU}\n\nWith the other wheel:\n\n>>> torch.cuda.is_available()\nTrue\n",
    "of old times, and all is well": f"What I saw last week on the node was\n\n{MISMATCH}\n\nThanks to Ann, all is fine.\n",
    "a title": f"Handbook of the cluster, chapter 3\n\nUsers may meet\n\n{MISMATCH}\n\nand call us then.\n",
    "a title of Markdown": f"# Runbook: lost nodes\n\n    {MISMATCH}    reboot\n    {BUS}    power\n",
    "a talk": "I am preparing slides. One of them is about Xid 79, where the GPU has fallen off the bus. My cards are fine, thanks.\n",
    "words of many causes": f"Counted so far\n  {BUS} none\n  Double Bit ECC Error (Xid 48): none\n  NVLink errors (Xid 74): none\n  GSP timeouts (Xid 119): none\n",
    "a table of numbers": "XID  Name\n79  GPU has fallen off the bus  X\n48  Double Bit ECC Error  X\n119  GSP RPC Timeout  X\n",
    "what others read": f'I am curious why "{MISMATCH}" is such a common one. Mine never did.\n',
    "tasks": f"- name: look\n  command: nvidia-smi\n\n- name: stop\n  fail:\n    msg: >-\n      {MISMATCH}\n",
    "a file of settings": f"# else it says {MISMATCH}\nHOLD=1\nLEVEL=info\n",
    "a table of Markdown": f"| text | who |\n|---|---|\n| {MISMATCH} | ann |\n| {BUS} | bob |\n| {CPU} | ann |\n",
    "a document that cites it": CITED.format(MISMATCH),
    "the title of a change": f"fix(nvml): say what to do\n\nThe message is now\n\n{MISMATCH}\n",
    "what a change is good for": f'The release lets them be used together with older ones ("{MISMATCH}" otherwise). Not pretty, but short.\n',
    "a change with its diff": f'Load it first\n\nWithout it one sees\n\n    {MISMATCH}\n\n```diff\n+  _load("nvml")\n```\n',
    "a change that is offered": f"Say what to do\n\nThis PR adds a sentence below\n\n{MISMATCH}\n",
    "a change that closes a report": f"Say what to do\n\nFixes #123: a sentence is missing below\n\n{MISMATCH}\n",
    "a long title that begins with it": f"[SOLVED] {'modprobe says no ' * 8}\n\nThis is what I got:\n\n{MISMATCH}\n\nThe headers were missing.\n",
    "a title that says it is over": f"# No GPU in WSL (solved)\n\nLast year this came up:\n\n```\n{MISMATCH}\n```\n\nand then it ran.\n",
    "tests of Go that passed": f"=== RUN   TestA/lost\n    a_test.go:7: {BUS}\n--- PASS: TestA/lost (0.01s)\nPASS\nok  \texample.com/a\t0.052s\n",
    "tests of Ginkgo that passed": f"[sig-node] step 1/2: lost\nI1 plugin.go:51] {BUS}\n---\nSUCCESS! -- 2 Passed | 0 Failed | 0 Pending | 0 Skipped\n",
    "a directive of a manual": f".. exception:: Lost\n\n   Raised where NVML answers ``{MISMATCH}`` twice.\n\n.. versionchanged:: 4.2\n",
    "a sample in a file with sections": f"[sources.a]\ntype = 1\n\n[sinks.b]\nsource = 'x'\n# sample: {BUS}\n. |= parse(.message)\n",
    "what is looked for": f'$ dmesg | grep -c "{BUS}"\n0\n',
}
FORM = "Hardware\nGraphics card\nQuadro T1000 (TU117)\nVBIOS\nFirmware level 3\nKernel\nMotherboard\n\n### Describe the bug\n\n{}\n"
SPEAKING = {
    "help is sought behind a question": f"{MISMATCH}\n\nThe card is fine in Windows. Is there a cure without a restart? Thanks a lot\n",
    "a change that did harm": f"This PR broke it for me, I get\n\n{MISMATCH}\n",
    "a form without a writer": f"# [Bug]: no GPU\n\n### Steps to reproduce\n\nBoot the node.\nStart the service.\nAsk it.\nWait for one minute.\n"
    f"Ask it again.\nIt stays so.\n\n### Actual behavior\n\nIt prints this.\n\n{MISMATCH}\n",
    "a command and its answer": f"- Result on each of these nodes: `nvidia-smi` → `{MISMATCH}`.\n",
    "the name of a program": f"Stable Diffusion on Windows, since the disk was full. Since then:\n\n{CPU}\n\nOn my laptop it works. Thanks\n",
    "symptoms in a list with letters": f"Two things are wrong: a) nvidia-smi says {MISMATCH}, b) torch sees nothing.\n",
    "lines with letters": f"What is wrong here:\na) dmesg: {BUS}\nb) nvidia-smi: it hangs\nc) torch finds 7 of 8 GPUs\n",
    "what was tried, with letters": f"{MISMATCH}\nI tried (a) a reboot, (b) another kernel. What else?\n",
    "something was done on purpose": f"We intentionally kept driver 535.\n\n{MISMATCH}\n\nHow do I fix it?\n",
    "images of Amazon's": f"Thanks to the AMIs of AWS.\n{MISMATCH}\n",
    "help is sought, and thanks come first": f"On the CPU the script runs fine. On the node:\n\n{MISMATCH}\n\nThanks\n",
    "help is sought, and the message is a paragraph": f"Everything else on the server is stable.\n\n{MISMATCH}\n\nThanks for any pointers.\n",
    "help is sought, in French": f"Sur le CPU tout va bien. Sur la carte :\n\n{MISMATCH}\n\nMerci beaucoup\n",
    "a cause that is to be found": f"The older one was fine.\n\n{MISMATCH}\n\nWhat could the root cause be? Thank you.\n",
    "what a colleague's machine does not show": f"My colleague's machine is fine. Mine:\n\n{MISMATCH}\n\nThanks\n",
    "an image of Amazon's": f"We build our AMI ourselves. Elsewhere it is fine.\n\n{CPU}\n",
    "a long title with it in the middle": f"{'no GPU ' * 16}(solved) and the rest of a list\n\nThis is what I get:\n\n{MISMATCH}\n",
    "a document that names a machine": CITED.format(f"{MISMATCH}\n    Ubuntu 24.04"),
    "a document filled in": CITED.format(f"May 21 03:09:47 node-7 smi: {MISMATCH}"),
    "the headings of a form": FORM.format("After each suspend the GPU falls off the bus and the screen stays black."),
    "the headings of a form, and a quotation": FORM.format(f"`{MISMATCH}`"),
    "another machine is well": f"[root@a ~]# nvidia-smi\n{MISMATCH}\n[root@b ~]# nvidia-smi -L\n{TABLE}\n",
    "another environment is well": f"(base) $ python a.py\n{CPU}\n(other) $ python -c 'import torch; print(torch.cuda.is_available())'\nTrue\n",
    "another matter was solved first": f"I fixed it by a new power supply.\n\nThis is what I get instead:\n\n{MISMATCH}\n",
    "solved first, and it goes on": f"[SOLVED] no GPU after the update\n\n{MISMATCH}\n\nI still have it each morning.\n",
    "it came back": f"{MISMATCH}\n\nA reboot solved that, but it came back in the evening.\n",
    "somebody asks on": f"{MISMATCH}\n\nA reboot solved that.\n\nAny idea why it happens each week?\n",
    "not over yet": f"{MISMATCH}\n\nThis should be solved by a reboot, and I have to wait for the jobs.\n",
    "the same here": f"My colleague has\n\n{BUS}\n\nand I see the same thing, his other card is healthy.\n",
    "thanks in the sentence that asks": f"{MISMATCH}\n\n一切正常 before.\n请问应该装哪个包?谢谢。\n",
    "a form that begins with a list": f"### Checklist\n- [x] I searched\n\n### What happens\n```\n{MISMATCH}\n```\n\n### More\nAll fine before.\n",
    "solved for others": f"[SOLVED] no GPU\n#1 ann: solved, thanks!\n\n#2 bob: It is NOT solved for me:\n\n    # nvidia-smi\n    {MISMATCH}\n",
    "what a number stands for beside it": f"{BUS}\nNotes: 119 = GSP RPC timeout, see the wiki\n",
    "thanks in advance": f"{MISMATCH}\n\nIt turned out that an upgrade ran.\nThanks in advance, what do I do?\n",
    "typed below a title": f"Release notes, node a, addendum\n\n$ nvidia-smi\n{MISMATCH}\n",
    "what a manual says, and what is so": f"The manual says that it prints a table. Here it prints\n\n{MISMATCH}\n",
    "one of two remains": f"Solved the first one with another cable, the second one remains on my node:\n\n{MISMATCH}\n",
    "it was well once": f"The card was fine two weeks ago. I took another kernel. The log of today:\n\n{BUS}\n",
    "another is well": f"My other card is fine. This one has\n\n{BUS}\n\nAny idea?\n",
    "a table of what somebody tried": f"I did all that:\n\n| step | said |\n|---|---|\n| a | ok |\n| b | ok |\n| c | {MISMATCH} |\n",
    "settings, and what followed": f"# .env\nHOLD=1\n\n{MISMATCH}\n",
    "a number that somebody met": "Since the update I get Xid 79 every night.\n",
    "a quoted message that somebody met": f'Thanks for the list. My node says "{MISMATCH}" today.\n',
    "an item that somebody met": f"My machines this morning:\n- node a prints {MISMATCH}\n- node b is up\n",
    "what a task of Ansible printed": f'TASK [nvidia : ask] ***\nfatal: [gn01]: FAILED! => {{"msg": "{MISMATCH}"}}\n',
    "in short": f"{MISMATCH}\n",
    "what began then goes on": f"I took the node down yesterday, since then my card is gone.\n\n$ nvidia-smi\n{MISMATCH}\n\nThe updates run by themselves, I did nothing.\n",
    "it lists and goes on": f"$ nvidia-smi\n{MISMATCH}\n\nOn the old kernel:\n$ nvidia-smi -L\n{TABLE}\n\nBut not with the new one, how do I get it back?\n",
    "first well, then ill": f"$ nvidia-smi -L\n{TABLE}\n\n$ nvidia-smi\n{MISMATCH}\n",
    "a manual that somebody followed": f'The manual says "{MISMATCH}" is cured by a reboot.\nIt has five steps.\nI took them all.\nThe last is a reboot.\n'
    f"Nothing changed.\n$ nvidia-smi\n{MISMATCH}\n",
}


@every("name", SILENT)
def test_nothing_is_claimed(name: str) -> None:
    assert report(SILENT[name]).diagnosis.root is None


@every("name", SPEAKING)
def test_what_is_there_now_counts(name: str) -> None:
    found = report(SPEAKING[name]).diagnosis
    assert found.root is not None or found.suspects


@pytest.mark.parametrize(
    "line",
    [
        "ERROR 02-04 21:40:19 core.py:210] The engine was stopped, see above",
        "(EngineCore pid=512) The engine was stopped, see above",
        "[21:40:19] the engine was stopped",
        "WARNING 2026-02-04 21:40:19 the engine was stopped",
    ],
)
def test_a_line_of_a_log_is_no_prose(line: str) -> None:
    assert not is_prose(line)
    assert is_prose("At 21:40 the engine was stopped")


def test_a_long_log_is_no_writing() -> None:
    assert SPEECH.lines_of(["the matter is solved now"] * 6000) == frozenset()


def test_a_literal_that_stands_twice_counts_where_the_message_is() -> None:
    line = 'libcuda.so.1 comes from the host, so "libcuda.so.1: cannot open shared object file" is normal here'
    assert report(line).diagnosis.root is None


XID = "[ 1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus."
IMAGE = "CUDA error: no kernel image is available for execution on the device"


@every(
    "text",
    (
        f"{XID}\nlost GPU 0, marking as unhealthy\n",
        f"{XID}\nAll DNS names resolved\n",
        f"{XID}\nNodes back in service after drain\n",
        f"{XID}\nDependency tree resolved in 0.2 s\n",
        f"{MISMATCH}\n=== 3 passed, 2 skipped in 0.12s ===\n",
        f"{MISMATCH}\ntest result: ok. 3 passed; 0 failed\n",
        f"checkpointer wrote 10 bytes to:\n{XID}\n",
        "RuntimeError('Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU')\n",
        f'level=error detail="{IMAGE}" step=3\n',
        f"explainer.py:12: {IMAGE}\n",
    ),
)
def test_no_line_of_a_program_hides_what_it_printed_before(text: str) -> None:
    found = report(text).diagnosis
    assert found.root is not None or found.suspects


def test_in_what_a_program_printed_nobody_speaks() -> None:
    """The same words below a traceback, of a person and of a program."""
    text = f"RuntimeError: {IMAGE}\nI fixed it, thanks, the matter is solved now.\n"
    assert report(text).diagnosis.root is None
    printed = judge(evidence_of(text.encode(), printed=True), load()).diagnosis.root
    assert printed is not None


TOLD = "My 5090 sits in an external box. As soon as I start a training I get a dead card, and only a power cycle brings it back.\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"# RTX 5090 dies with Xid 79 under load\n\n{TOLD}", True),
        (f"# What does Xid 79 mean?\n\n{TOLD}", False),
        (f"# Xid 79 under load\n\n{TOLD}\nThe riser was loose, it is solved now.\n", False),
        (
            "# Xid 79 in the nightly report\n\nThe exporter counts it twice. The table of the report has one column for each number.\n",
            False,
        ),
    ],
)
def test_the_title_of_a_report_raises_a_suspicion_where_its_writer_met_it(text: str, named: bool) -> None:
    found = report(text).diagnosis
    assert found.root is None
    assert ["gpu-fell-off-bus"] * named == [finding.cause for finding in found.suspects][:1]
    for quote in (quote for finding in found.suspects for quote in finding.evidence):
        assert quote.first == 1


def test_in_chinese_nobody_has_to_say_i() -> None:
    said = "按照文档部署镜像，拉取完成后开始运行。\n这个镜像比较新。\n文档没有写驱动的要求。\n机器在机房里。\n遇到了下面的错误：\n"
    message = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.9, please update your driver: unknown.\n"
    found = report(f"{said}{message}应该升级驱动，还是换一个镜像？\n").diagnosis.root
    assert found is not None
    assert found.cause == "container-cuda-too-new"


def test_the_report_that_comfyui_writes_holds_the_message() -> None:
    text = "# ComfyUI Error Report\n## Error Details\n- **Exception Type:** OSError\n- **Exception Message:** {}\n## Stack Trace\n"
    found = report(text.format("The paging file is too small for this operation to complete. (os error 1455)")).diagnosis.root
    assert found is not None
    assert found.cause == "windows-page-file-too-small"


def test_lines_that_one_program_begins_alike_are_its_log_and_no_document() -> None:
    """As bitsandbytes told why it found no library, in whole sentences."""
    text = """
The following directories listed in your path were found to be non-existent: /home/ada/share/info
CUDA SETUP: PyTorch settings found: CUDA_VERSION=124, Highest Compute Capability: 7.5.
CUDA SETUP: To manually override the PyTorch CUDA version please see the guide of this library
CUDA SETUP: Required library version not found: libbitsandbytes_cuda124.so. Maybe you need to compile it from source?
CUDA SETUP: Defaulting to the library for the processor, which knows no GPU at all

CUDA SETUP: CUDA detection failed! Possible reasons:
You need to manually override the PyTorch CUDA version. Please see the guide
The driver is not installed on this computer
The toolkit is not installed on this computer
There are several libraries that contradict each other
The library was not compiled for this release of CUDA
"""
    assert root(text) == "framework-cuda-libs-missing"
    assert root(text.replace("CUDA SETUP: ", "")) is None
