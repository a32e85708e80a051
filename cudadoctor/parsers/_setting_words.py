"""The words by which a text says where its programs run, read by parsers/setting.py: data, one sign for each kind of place.

A sign is found where one of its hints stands and its pattern fits on that line. Hints are plain literals, so that a long text is searched
for them alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cudadoctor.model.pattern import lazy


class Sign(NamedTuple):
    """Words of one kind: literals that lead to a line, and what must stand on that line."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_LACKS = (
    r"(?i)(?<!\bif )\b(?:i|we|it|my [\w ]{1,16}|this (?:computer|machine|laptop|server|pc|box)|which|and|but|there)\s"
    r"(?:(?:do|does|did)(?:n.?t| not) have|have no|has no|haven.?t|is no|is not|isn.?t|without)\s(?:an? |any )?(?:\w{1,12} )?"
    r"(?:nvidia\s(?:\w{1,12}\s)?(?:gpu|card|graphics|cuda)"
    r"|(?:\w{1,12}\s)?(?:gpu|graphics card|video card)(?=\s?[,.;:)]|\s(?:and|so|at|in|here|on)\b|$))"
    r"|没有(?:独立|英伟达|NVIDIA)?\s?(?:显卡|GPU)"
    r"|\b(?:keine? (?:nvidia|grafikkarte|gpu)|no tengo (?:gpu|tarjeta)|pas de (?:gpu|carte))|нет (?:видеокарты|GPU)"
)
SIGNS = (
    Sign(
        "container",
        ("docker", "Docker", "podman", "Podman", "kubectl", "ubernetes", "K8s", "k8s", "container", "apptainer", "ingularity",
         "OCI runtime", "/usr/local/nvidia/lib", " pod", "LXC", " lxc", "Proxmox", "Dev Container"),
        lazy(
            r"\b(?:[Dd]ocker(?:file|-compose)?|[Pp]odman|kubectl|[Kk]ubernetes|[Kk]8s|[Aa]pptainer|[Ss]ingularity|devcontainer"
            r"|(?:the|a|an|my|each|every|this|all|these|running|inside|in) (?:containers?|pods?)|containers?:|OCI runtime|LXC|lxc|Proxmox"
            r"|Dev Containers?)\b|/usr/local/nvidia/lib"
        ),
    ),
    Sign(
        "wsl",
        ("WSL", "wsl", "Subsystem for Linux", "/mnt/c/", "@DESKTOP-", "@LAPTOP-"),
        lazy(r"\bWSL ?[12]?\b|\bwsl2?\b|Subsystem for Linux|/mnt/c/|\w@(?:DESKTOP|LAPTOP)-[A-Z0-9]{6,8}:[~/]"),
    ),
    Sign(
        "daemon-reload",
        ("daemon-reload", "systemd: Reloading", "systemd[1]: Reloading"),
        lazy(r"daemon-reload|systemd(?:\[1\])?: Reloading\."),
    ),
    Sign("void", ("NVIDIA_VISIBLE_DEVICES",), lazy(r"NVIDIA_VISIBLE_DEVICES=(?:void|none|)$")),
    Sign("wsl-1", ("-Microsoft",), lazy(r"\b4\.4\.0-\d{5}-Microsoft\b")),
    Sign("windows", ("C:\\", "D:\\", "E:\\", "Windows", "win32", "win-64"), lazy(r"\b[C-E]:\\|\bWindows\b|\bwin32\b|\bwin-64\b")),
    Sign(
        "snap-docker",
        ("snap", "canonical"),
        lazy(
            r"/(?:var/)?snap/(?:docker|bin/docker)\b|\bsnap\.docker\b|\bsnap (?:install|refresh|start) docker\b"
            r"|\bdocker\b[^\n]{0,40}\b(?:via|from|with|through|as|by|using) (?:a |the )?snap\b"
            r"|^docker {1,40}\S{1,40} {1,40}\d{1,8} {1,20}(?:latest|core)\S{0,30} {1,20}canonical"
        ),
    ),
    Sign(
        "docker-desktop",
        ("desktop", "Desktop"),
        lazy(r"\bdesktop-linux\b|/\.docker/desktop/|\b[Dd]ocker[ -][Dd]esktop\b|\bcom\.docker\.desktop\b"),
    ),
    Sign(
        "notebook",
        ("google.colab", "/content/", "/kaggle/"),
        lazy(r"\bgoogle\.colab\b|[\"' (]/content/\w|/kaggle/(?:working|input)\b"),
    ),
    Sign(
        "mac",
        ("macOS", "Darwin", "/Users/", "Mac OS", "MacBook", "darwin", "Apple M"),
        lazy(
            r"\bmacOS[ -]?\d|\bmacOS-|OS: macOS|Darwin Kernel|Platform Name\s+: Darwin|File \"/Users/|\bMac OS X\b|\bMacBook\b"
            r"|\bdarwin(?:1\d|2\d)\b|\bApple M[1-9]\b"
        ),
    ),
    Sign(
        "no-card",
        ("NVIDIA", "Nvidia", "nvidia", "NVidia", " GPU", " gpu", "graphics card", "没有", "tarjeta", "carte", "Grafikkarte", "видеокарты"),
        lazy(_LACKS),
    ),
    Sign(
        "gpu-asked",
        ("nvidia", "gpu", "--nv", "NVIDIA_VISIBLE"),
        lazy(
            r"runtime[:=] ?\"?nvidia\b|driver: ?\"?nvidia\b|capabilities: ?\[.{0,20}gpu|--gpus\b|nvidia\.com/gpu|--nv(?:ccli)?\b"
            r"|default-runtime\"?: ?\"nvidia|NVIDIA_VISIBLE_DEVICES=(?:all|\d|GPU-|MIG-)"
        ),
    ),
    Sign(
        "linux-driver",
        ("apt", "dpkg", "dnf ", "pacman"),
        lazy(
            r"\b(?:apt(?:-get|itude)?|dnf|pacman)\b[^\n]{0,40}\s(?:install|-S)\s[^\n]{0,120}"
            r"(?<![\w-])(?:nvidia-(?:driver|utils|dkms|headless|compute-utils|cuda-toolkit)|cuda-drivers|libnvidia-compute|cuda(?![\w-]))"
        ),
    ),
    Sign(
        "no-smi",
        ("nvidia-smi",),
        lazy(
            r"exec(?:utable file)?:? ?[\\\"'`]{1,4}nvidia-smi[\\\"'`]{1,4}:? (?:executable file )?not found"
            r"|nvidia-smi\b[^\n]{0,60}\b(?:not found|no such command|not installed|not recognized|does(?:n't| not) exist|cannot be found)"
            r"|\b(?:neither|cannot find|can't find|without) [^\n.]{0,24}\bnvidia-smi\b(?! (?:work|output|show))|\bno nvidia-smi\b"
        ),
    ),
    Sign(
        "batch",
        ("srun", "ray::", "SLURM", "SBATCH", "sbatch", "Slurm", "salloc", "#PBS", "bsub"),
        lazy(r"\bray::\w|\b(?:srun|SLURM|SBATCH|sbatch|[Ss]lurm|salloc|bsub)|#PBS\b"),
    ),
)  # fmt: skip
