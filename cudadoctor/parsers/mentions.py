"""What a pasted text mentions around a failure: a suspend, a fork, a compute mode that was set, SELinux, a virtual machine.

A mention proves nothing by itself. Codes and messages with several causes are decided by it (checks/ties), and by nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from cudadoctor.model.facts import Fact, Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import MENTIONS, Mentions
from cudadoctor.parsers.base import QUOTE_LENGTH, Parser, Text
from cudadoctor.parsers.literals import Literals
from cudadoctor.parsers.shell import pasted

_QUOTES = 6
# Topic -> the words that speak of it. Each word is looked for on single lines; the first line of a topic is kept.
_TOPICS: dict[str, re.Pattern[str]] = {
    "suspend": lazy(
        r"(?i)\bsuspend(?:ed|ing|s)?\b(?!_)|\bhibernat|\bstand-?by\b|\bwak(?:e|es|ing)[ -]?up\b|\bwok(?:e|en)\b"
        r"|\bafter (?:wake|waking|resum|sleep)"
        r"|\bresum(?:e|es|ed|ing) from\b|\bfrom (?:sleep|suspend|standby|hibernation)\b"
        r"|systemd-sleep|PM: (?:suspend|hibernation)|\bsleep mode\b"
        r"|休眠|睡眠|待机|挂起|スリープ|サスペンド|Ruhezustand|mise en veille|suspensi[oó]n|спящ"
    ),
    "fork": lazy(
        r"popen_fork\.py|\bos\.fork\(|forked (?:sub)?process|Fork(?:Pool)?(?:Worker|Process)-\d|start method ['\"]?fork\b|\bfork\(\)"
        r"|/multiprocessing/(?:process|pool|managers)\.py|\bin DataLoader worker process \d|/billiard/(?:process|pool|popen_fork)\.py"
        r"|/gunicorn/arbiter\.py|/concurrent/futures/process\.py"
    ),
    "out-of-memory": lazy(r"\bOOM\b|(?i:out.of.memory)|显存不足|显存溢出"),
    "display-reset": lazy(
        r"(?i)\bscreens?\b.{0,12} (?:black|blank|flash\w*|flicker\w*|fr[eo]ez\w*|froze)\b|\bblack screen\b|\bTDR\b|\bTdr(?:Delay|Level)\b"
        r"|display driver.{0,80}(?:stopped|crash|recover)|黑屏"
    ),
    "children": lazy(r"(?<![Nn]o )(?<!without )\bmultiprocessing\b|\bnum_workers ?[=:] ?[1-9]"
        r"|\bDataLoader worker|\bchild process|\bfork\b"),
    "spawn": lazy(r"/multiprocessing/(?:spawn|popen_spawn_\w{5,6}|forkserver)\.py|SpawnProcess-\d|SpawnPoolWorker-\d"),
    "compute-mode": lazy(
        r"Set compute mode to (?:EXCLUSIVE|PROHIBITED)|Compute Mode\s{1,40}: (?:Exclusive|Prohibited)"
        r"|\b(?:Exclusive_(?:Process|Thread)|EXCLUSIVE_(?:PROCESS|THREAD))\b|, (?:Exclusive|Prohibited)\b"
        r"|nvidia-smi (?:[^|;&`]{0,40} )?(?:-c|--compute-mode)[ =](?:[123]\b|EXCLUSIVE|PROHIBITED)"
    ),
    "mps": lazy(r"CUDA_MPS_PIPE_DIRECTORY|nvidia-cuda-mps-(?:control|server)|MPS (?:control )?daemon"),
    "selinux": lazy(
        r"(?i)\bselinux\b(?!.{0,20}disabled)|container_use_devices|--privileged\b|label[=:]disable|xserver_misc_device_t|\benforcing$|apparmor"
    ),
    "permissive": lazy(r"^[^\n]{0,80}[$#] (?:sudo )?setenforce 0\s{0,4}$"),
    "confidential": lazy(
        r"CC status: ON|\bconfidential compute mode ON\b"
        r"|CC State\s{0,40}: ON|\bCC mode(?: is)? on\b|has CC mode on|(?i:\bconfidential (?:vm|virtual|gpu|container|guest))"
        r"|\bSEV-SNP\b|\bTDX\b|\bnvtrust\b|\bnvAttest\b|\battestation\b"
    ),
    # The ready state says not-ready also where confidential computing is off and means nothing there.
    "confidential-off": lazy(r"CC status: OFF|CC State\s{0,40}: OFF|\bCC mode(?: is)? off\b"),
    "confidential-not-ready": lazy(r"GPUs Ready state: not"),
    "confidential-ready": lazy(r"GPUs Ready state: ready"),
    "licence": lazy(
        r"(?i)\bunlicensed\b|\blicens(?:e|ing) (?:issue|problem|error|lost|expired|server|status)|\bv?GPU licen[sc]"
        r"|nvidia-gridd|gridd\.conf"
    ),
    "laptop": lazy(
        r"(?i)\blaptop\b|\bnotebook (?:pc|computer)|\boptimus\b|\bbbswitch\b|\bbumblebee\b|\bhybrid (?:graphics|mode)|prime-select"
        r"|\bmax-q\b|\bthinkpad\b|\bXPS \d|\bport[aá]til\b|\b(?:ordinateur|pc) portable\b|ноутбук|笔记本|ノートPC|ノートパソコン|노트북"
    ),
    "rootless": lazy(r"(?i)\brootless\b|keep-groups|--userns|no-cgroups ?= ?true"),
    "virtual-machine": lazy(
        r"\b(?:vGPU|GRID|vSphere|ESXi|VMware|vmware|Proxmox|proxmox|QEMU|qemu|KVM|libvirt|XenServer|Hyper-V|hypervisor|OpenStack|openstack)\b"
        r"|(?i:\bvirtual machine|\bvirtuali[sz]ed\b|\bguest (?:os|vm|driver)|\bvm guest)|虚拟机|\bin a VM\b"
    ),
}  # fmt: skip
# Programs that advise a compute mode speak of one that is not set.
_ADVICE = lazy(r"(?i)suggest|recommend|\bshould\b|\buse 'nvidia-smi")


def parse(text: Text) -> Iterator[Fact[Any] | Unknown]:
    """One fact with all topics that the text speaks of."""
    if not pasted(text):
        return
    places = _literals().places(text.joined)
    found: dict[str, int] = {}
    for topic, pattern in _TOPICS.items():
        near = {text.line_at(at) for word in _NEAR[topic] for at in places.of(word)}
        line = next((number for number in sorted(near) if _speaks(topic, pattern, text.lines[number - 1][: 4 * QUOTE_LENGTH])), None)
        if line is not None:
            found[topic] = line
    found = dict(sorted(found.items(), key=lambda entry: entry[1]))
    if found:
        quotes = [text.quote(number) for number in dict.fromkeys(found.values())]
        yield text.fact(MENTIONS, Mentions(topics=found), *quotes[:_QUOTES], whole=False)


def _speaks(topic: str, pattern: re.Pattern[str], line: str) -> bool:
    return pattern.search(line) is not None and not (topic == "compute-mode" and _ADVICE.search(line))


@cache
def _literals() -> Literals:
    return Literals(word for words in _NEAR.values() for word in words)


# One of these stands in every line that speaks of the topic: most lines speak of none.
_NEAR: dict[str, tuple[str, ...]] = {
    "suspend": (
        "uspend", "USPEND", "ibernat", "tand-by", "tandby", "wak", "Wak", "woke", "esum", "leep", "休眠", "睡眠", "待机", "挂起",
        "スリープ", "サスペンド", "Ruhezustand", "veille", "suspensi", "спящ",
    ),
    "fork": ("fork", "Fork", "/multiprocessing/", "DataLoader worker", "/billiard/", "/gunicorn/", "/concurrent/futures/"),
    "out-of-memory": ("OOM", "emory", "EMORY", "显存"),
    "display-reset": ("screen", "Screen", "TDR", "Tdr", "driver", "Driver", "黑屏"),
    "children": ("multiprocessing", "num_workers", "DataLoader worker", "child process", "fork"),
    "spawn": ("/multiprocessing/", "Spawn"),
    "compute-mode": ("xclusive", "EXCLUSIVE", "rohibited", "PROHIBITED", "-c ", "compute-mode"),
    "mps": ("MPS", "-mps-"),
    "selinux": (
        "elinux", "ELinux", "ELINUX", "container_use_devices", "privileged", "label", "xserver_misc", "nforcing", "pparmor", "ppArmor",
    ),
    "permissive": ("setenforce",),
    "confidential": ("CC s", "CC S", "CC m", "onfidential", "SEV-SNP", "TDX", "nvtrust", "nvAttest", "ttestation"),
    "confidential-off": ("CC s", "CC S", "CC m"),
    "confidential-not-ready": ("Ready state: not",),
    "confidential-ready": ("Ready state: ready",),
    "licence": ("icens", "icenc", "gridd"),
    "laptop": (
        "aptop", "LAPTOP", "otebook", "ptimus", "bbswitch", "umblebee", "ybrid", "prime-select", "ax-Q", "ax-q", "hinkPad",
        "hinkpad", "XPS", "ortátil", "ortatil", "ortable", "оутбук", "笔记本", "ノート", "노트북",
    ),
    "rootless": ("ootless", "keep-groups", "userns", "no-cgroups"),
    "virtual-machine": (
        "vGPU", "GRID", "vSphere", "ESXi", "VMware", "vmware", "roxmox", "QEMU", "qemu", "KVM", "libvirt", "XenServer", "Hyper-V",
        "ypervisor", "irtual ", "irtuali", "penStack", "penstack", "uest ", "虚拟机", " VM",
    ),
}  # fmt: skip


PARSER = Parser(
    name="mentions",
    reads=(),
    keys=(MENTIONS.name,),
    parse=parse,
    # What makes a mention worth knowing: a GPU program, the driver or its tools are spoken of.
    wakes=(
        "nvidia", "NVIDIA", "NVRM: ", "initialize NVML", "cuInit", "libcuda", "cudaEr", "CUDA_E", "CUDA e", "CUDA i", "CUDA u", "CUDA r",
        "CUDA d", "CUDA-c", "cuda r", "cuda e", "CUDA out of memory", "multiprocessing",
    ),
)  # fmt: skip
