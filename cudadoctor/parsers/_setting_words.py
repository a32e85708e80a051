"""The words by which a text says where its programs run, read by parsers/setting.py: data, one sign for each kind of place.

A sign is found where one of its hints stands and its pattern fits on that line. Hints are plain literals, so that a long text is searched
for them alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers.other_languages import NO_SUCH_FILE


class Sign(NamedTuple):
    """Words of one kind: literals that lead to a line, and what must stand on that line."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_LACKS = (
    r"(?i)(?<!\bif )(?<!\bbuild )(?<!\bbuild, )(?<!\bbuild time )(?<!\bbuild time, )"
    r"\b(?:i|we|it|my [\w ]{1,16}|this (?:computer|machine|laptop|server|pc|box)|which|and|but|there)\s"
    r"(?:(?:do|does|did)(?:n.?t| not) have|have no|has no|haven.?t|is no|is not|isn.?t|without)\s(?:an? |any )?(?:\w{1,12} )?"
    r"(?:nvidia\s(?:\w{1,12}\s)?(?:gpu|card|graphics|cuda)"
    r"|(?:\w{1,12}\s)?(?:gpu|graphics card|video card)(?=\s?[,.;:)]"
    r"|\s(?:and|so|at(?! (?:build|compile))|in(?! (?:the |a )?(?:docker |image )?build)|here|on)\b|$))"
    r"|\b(?:nodes?|instances?|machines?|vms?|servers?|hosts?|computers?|laptops?)\b[^.\n]{0,24}?\b\**"
    r"(?:without|(?:do|does)(?:n.?t| not) have|have no|has no|with no)\b\**\s(?:an? |any )?(?:\w{1,12} )?"
    r"(?:nvidia (?:\w{1,12} )?(?:gpus?|devices?|cards?)|gpus?)\b(?! (?:driver|node|toolkit|support|operator|memory|plugin))"
    r"|\bcpu[- ]only (?:nodes?|instances?)\b"
    r"|没有(?:独立|英伟达|NVIDIA)?\s?(?:显卡|GPU)"
    r"|\b(?:keine? (?:nvidia|grafikkarte|gpu)|no tengo (?:gpu|tarjeta)|pas de (?:gpu|carte))|нет (?:видеокарты|GPU)"
)
_DEVICES = r"(?:CUDA |nvidia )?(?:GPUs?|devices?)"
_SEEN = r"(?:visible|seen|found|detected|recogni[sz]ed)"
SIGNS = (
    Sign(
        "container",
        ("docker", "Docker", "podman", "Podman", "kubectl", "ubernetes", "K8s", "k8s", "container", "apptainer", "ingularity",
         "OCI runtime", "/usr/local/nvidia/lib", " pod", "LXC", " lxc", "Proxmox", "Dev Container", "nvidia/cuda:", "nvcr.io/"),
        lazy(
            r"(?:(?<!\b[Nn]o )(?<!not in )(?<!not using )(?<!\bkein )(?<!\bohne )(?<!\bwithout )(?<!\bsans )(?<!\bsin )"
            r"|(?!\w{1,16}(?:,? (?:n?or|and) \w{1,12})?"
            r"(?: (?:here|anywhere|there|involved|used|installed|at all))?(?:\s?[,.;:)]|$)))"  # no Docker, ...
            r"\b(?:[Dd]ocker(?:file|-compose)?|[Pp]odman|kubectl|[Kk]ubernetes|[Kk]8s|[Aa]pptainer|[Ss]ingularity|devcontainer"
            r"|(?:the|a|an|my|each|every|this|all|these|running|inside|in) (?:containers?|pods?)|containers?:|OCI runtime|LXC|lxc|Proxmox"
            r"|Dev Containers?)\b|/usr/local/nvidia/lib|\bnvidia/cuda:\d|\bnvcr\.io/\w"
        ),
    ),
    Sign(
        "wsl",
        ("WSL", "wsl", "Subsystem for Linux", "/mnt/c/", "@DESKTOP-", "@LAPTOP-", "buntu on ", "Bash on "),
        lazy(r"\bWSL ?[12]?\b|\bwsl2?\b|Subsystem for Linux|/mnt/c/|\w@(?:DESKTOP|LAPTOP)-[A-Z0-9]{6,8}:[~/]"
            r"|\b(?:Ubuntu|Bash)(?: \d\d\.\d\d)? on (?:Ubuntu on )?[Ww]in(?:dows)?\b"),
    ),
    Sign(
        "daemon-reload",
        ("daemon-reload", "systemd: Reloading", "systemd[1]: Reloading"),
        lazy(r"daemon-reload|systemd(?:\[1\])?: Reloading\."),
    ),
    Sign("void", ("NVIDIA_VISIBLE_DEVICES",), lazy(r"NVIDIA_VISIBLE_DEVICES=(?:void|none|)$")),
    # Of the driver's parts a container asks for some, and compute is not among them.
    Sign(
        "no-compute",
        ("NVIDIA_DRIVER_CAPABILITIES",),
        lazy(
            r"NVIDIA_DRIVER_CAPABILITIES[\"']?(?:\s?[=:]\s?| )[\"']?(?:utility|video|graphics|display|ngx|compat32)"
            r"(?:,(?:utility|video|graphics|display|ngx|compat32)){0,5}(?![\w,])"
        ),
    ),
    # What an image asks of its host's driver.
    Sign("requires-cuda", ("NVIDIA_REQUIRE_CUDA",), lazy(r"NVIDIA_REQUIRE_CUDA[\"']?\s?[=:]\s?[\"']?cuda ?>= ?\d{1,2}\.\d")),
    # The same image, started by hand and asking for a GPU, has it: the start that fails is another one.
    Sign(
        "asked-works",
        ("--gpus",),
        lazy(
            r"(?i)--gpus\b(?![^\n]{0,120}(?:n't|\bnot|\bbut|\bfail\w{0,2}|\bneither|ません|nicht|\bpas\b|\bno\b|не)\s)[^\n]{0,80}"
            r"(?:\b(?:works?|worked|runs|ran|fine|sees?|funktioniert|l[äa]uft|fonctionne|marche|funciona|va bien|работает)\b"
            r"|問題なく|使えま|動きま|正常|可以|没问题|됩니다|잘 )"
        ),
    ),
    Sign("jetson", ("tegra", "L4T", "Jetson"), lazy(
        r"\d-tegra\b|\bL4T R?\d\d\b|nv_tegra_release|-linux-gnu/(?:tegra|nvidia)/libcuda|\bJetson (?:AGX|Orin|Nano|Xavier|TX\d)"
    )),
    Sign("jetson-thor", ("Thor", "thor"), lazy(r"\b(?:[Jj]etson|AGX) [Tt]hor\b|\b[Tt]hor\b.{0,20}\b(?:board|kit|module)\b")),
    Sign(
        "desktop-package",
        ("nvidia-", "cuda-drivers"),
        lazy(
            r"(?<![\w-])(?:nvidia-(?:driver|headless(?:-no-dkms)?|dkms|utils|compute-utils)-\d{3}(?:-server)?(?:-open)?|libnvidia-compute-\d{3}"
            r"(?:-server)?|cuda-drivers(?:-\d{3})?)[:/ ][^\n]{0,100}(?<!\w)(?:arm64|aarch64)\b"
            r"|(?<![\w-])libnvidia-compute-\d{3}(?:-server)?:arm64"
        ),
    ),
    Sign(
        "all-nodes",
        ("/dev/nv", "ls "),
        lazy(r"\bls\b[^\n|]{0,16} /dev/nv(?:idia)?\*|\bls\b[^\n|]{0,16} /dev/? ?\| ?grep[^\n]{0,8} [\"']?nv"),
    ),
    Sign("bare-nodes", ("/dev/nvidia",), lazy(r"^\s{0,8}/dev/nvidia[\w-]{1,20}(?:\s{1,8}/dev/nv[\w-]{1,20}){0,20}\s{0,4}$")),
    # In WSL: the history of apt names a driver for Linux, its library lies on the disk, the folder that Windows lends is not there.
    Sign(
        "driver-history",
        ("Install: ", "Upgrade: "),
        lazy(r"^(?:Install|Upgrade): [^\n]{0,380}\b(?:libnvidia-compute|nvidia-dkms|cuda-drivers|nvidia-driver)-\d{3}(?:-server)?:"),
    ),
    Sign("linux-libcuda", ("/libcuda.so.",), lazy(r"(?<!/wsl)/(?:usr/)?lib(?:64|/x86_64-linux-gnu)/libcuda\.so\.\d{3}\.\d{2,3}")),
    Sign(
        "no-wsl-libs",
        ("/usr/lib/wsl",),
        lazy(
            r"/usr/lib/wsl(?:/lib)?/?[`'\"]?:? {0,2}(?:is (?:missing|absent|empty|not there)|does(?: not|n't) exist"
            r"|nie ma|nie istnieje|fehlt"
            r"|gibt es nicht|existiert nicht|n'existe pas|no existe|não existe|non esiste|не существует|отсутствует"
            r"|不存在|存在しな|はありませ|No such file)"
            r"|\b(?:no|without) (?:folder |directory )?/usr/lib/wsl(?:/lib)?\b"
            rf"|/usr/lib/wsl(?:/lib)?/?['’]?: (?:{NO_SUCH_FILE})"
        ),
    ),
    Sign("vgpu-profile", ("GRID ", "NVIDIA "), lazy(r"\b(?:GRID|NVIDIA) [A-Z]{1,3}\w{1,5}-\d{1,2}[QCBA]\b")),
    # WSL 1, and Windows 10 before the release that lends its GPU to WSL (21H2, build 19044).
    Sign("wsl-1", ("-Microsoft", "Version 10.0."), lazy(r"\b4\.4\.0-\d{5}-Microsoft\b|\[Version 10\.0\.1(?:[0-8]\d{3}|904[1-3])\b")),
    Sign("windows", ("C:\\", "D:\\", "E:\\", "Windows", "win32", "win-64"), lazy(r"\b[C-E]:\\|\bWindows\b|\bwin32\b|\bwin-64\b")),
    # Another driver holds the GPU because its owner wants that.
    Sign(
        "nouveau-meant",
        ("nouveau", "driver"),
        lazy(
            r"(?i)\bnouveau\b[^.\n]{0,24}\b(?:on purpose|deliberately|intentionally|by choice)\b"
            r"|\b(?:on purpose|deliberately|intentionally|by choice)\b[^.\n]{0,24}\bnouveau\b"
            r"|\b(?:want|prefer|like|plan) to (?:keep|stay|use|remain)(?: with| on| using)? (?:the )?nouveau\b"
            r"|\b(?:do(?:n.?t| not)|never) (?:want|need)\b[^.\n]{0,30}\b(?:nvidia(?:.?s)?|proprietary|closed|binary) driver"
        ),
    ),
    Sign(
        "guest-works",
        ("guest", "VM", "irtual machine"),
        lazy(
            r"(?i)\b(?:guest|vm|virtual machine)\b[^.\n]{0,60}\b(?:works?|runs?) "
            r"(?:perfectly|fine|well|great|flawlessly|as (?:planned|expected|intended|it should))\b"
        ),
    ),
    Sign(
        "given-to-guest",
        (" VM", "guest", "irtual machine"),
        lazy(
            r"(?i)\b(?:g[ia]ves?|given|pass(?:es|ed|ing)?(?: through)?|assign(?:s|ed)?|attach(?:es|ed)?|reserved?)\b[^.\n]{0,40}"
            r"\b(?:card|gpu)\b[^.\n]{0,16}\b(?:to|for|into) (?:a|an|the|my|another|one)\b[^.\n]{0,24}\b(?:vm|guest|virtual machine)\b"
        ),
    ),
    # Two ids for the driver that keeps a GPU for guests, as the kernel's command line or modprobe's options give them.
    Sign("ids-for-guests", ("vfio-pci",), lazy(r"\bvfio-pci(?:\.ids=| ids=)(?:[0-9a-f]{4}:[0-9a-f]{4},?){1,16}")),
    # The driver's modules were taken out by hand and not put back on the same line.
    Sign(
        "unloaded",
        ("rmmod", "modprobe -r"),
        lazy(
            r"\b(?:rmmod|modprobe -r)(?: -\w)?(?: nvidia[-_]\w{2,12}){0,4} nvidia(?![-_\w])(?: nvidia[-_]\w{2,12}){0,4}"
            r"(?![^\n]{0,200}\b(?:modprobe (?:-v )?nvidia|insmod|in use|busy)\b)(?![^.,\n]{0,24}\b(?:fails?|failed)\b)"
        ),
    ),
    # Windows' own driver for any display: none of NVIDIA's is installed.
    Sign(
        "basic-adapter",
        ("Microsoft", "Майкрософт"),
        lazy(
            r"\bMicrosoft (?:Basic Display Adapter|Basic[ -]Anzeigeadapter|基本显示适配器|基本ディスプレイ ?アダプター)"
            r"|(?i:\bcarte graphique (?:de base )?microsoft\b|\badaptador de pantalla b[aá]sico\b|базовый видеоадаптер \(майкрософт\))"
        ),
    ),
    # A container's own look for the nodes finds none, in the words of its user.
    Sign(
        "no-nodes-inside",
        ("/dev/nv",),
        lazy(
            r"(?i)\bls (?:-\w{1,4} )?/dev/nv(?:idia)?\*[`'\"]? (?:[^.\n]{0,24} )?"
            r"(?:in there|in it|inside|(?:inside|within|in) (?:of )?(?:the|this|that|my) (?:dev ?)?(?:container|pod))\b[^\n]{0,24}"
            r"(?:No such file|\bnothing\b|\bempty\b|\bno matches\b)"
        ),
    ),
    Sign("on-the-host", (" host", "@pve"), lazy(r"(?i)\bon the (?:\w{1,16} )?host\b|\w@pve[\w-]{0,12}:")),
    # The kernel found an NVIDIA display device when it started.
    Sign("seen-at-boot", ("[10de:",), lazy(r"\bpci [0-9a-f]{4}:[0-9a-f:]{5}\.\d: \[10de:[0-9a-f]{4}\][^\n]{0,30}class 0x03")),
    Sign(
        "cuda-compat",
        ("cuda-compat", "/compat"),
        lazy(r"(?<!\bno )(?<!\bnot )(?<!without )\bcuda-compat(?:-\d{1,2}[-.]\d{1,2})?\b|/cuda(?:-[\d.]{2,5})?/compat\b"),
    ),
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
        ("macOS", "Darwin", "osx 10", "OS X", "OSX 10", "/Users/", "Mac OS", "MacBook", "darwin", "Apple M"),
        lazy(
            r"\bmacOS[ -]?\d|\bmacOS-|OS: macOS|Darwin Kernel|Platform Name\s+: Darwin|File \"/Users/|\bMac OS X\b|\bMacBook\b"
            r"|\bdarwin(?:1\d|2\d)\b|\bApple M[1-9]\b|\b(?:OS ?X|osx) 10\.\d"
        ),
    ),
    Sign(
        "visible-placeholder",
        ("CUDA_VISIBLE_DEVICES",),
        lazy(r"\bCUDA_VISIBLE_DEVICES=[\"']?(?:\$\{?[A-Za-z_]\w{0,30}\}?|<[\w -]{1,30}>)"),
    ),
    Sign("virtualbox", ("irtualBox", "irtualbox"), lazy(r"\b(?:Oracle )?(?:VM )?[Vv]irtual[Bb]ox\b")),
    Sign(
        "no-tools-package",
        ("nvidia-headless-", "--gpgpu"),
        lazy(r"\bnvidia-headless(?:-no-dkms)?-\d{3}|\bubuntu-drivers (?:install|autoinstall) --gpgpu\b"),
    ),
    Sign(
        "no-card",
        ("NVIDIA", "Nvidia", "nvidia", "NVidia", " GPU", " gpu", "graphics card", "CPU only", "CPU-only", "cpu-only", "没有",
         "tarjeta", "carte", "Grafikkarte", "видеокарты"),
        lazy(_LACKS),
    ),
    Sign(
        "cpu-meant",
        ("on purpose", "eliberately", "ntentional", "s expected", "--device cpu", "by design", "absichtlich", "exprès"),
        lazy(
            r"(?i)\b(?:on purpose|deliberately|intentional(?:ly)?|by design|absichtlich|exprès)\b[^.\n]{0,40}"
            r"\b(?:(?:on|with|for|uses?) (?:the )?cpu|cpu[- ](?:only|build|wheel)|without (?:an? |any )?gpus?|no gpus?|sans gpu|ohne gpu)\b"
            r"|\b(?:without (?:an? |any )?gpus?|no gpus?|(?:on|with) (?:the )?cpu|cpu[- ]only|ohne gpu|sans gpu|False)\b[^.\n]{0,30}"
            r"\b(?:on purpose|deliberately|intentional(?:ly)?|by design|as expected|absichtlich|exprès)\b"
            r"|\bpython3? [^\n]{0,120} --device[ =]cpu\b"
        ),
    ),
    Sign(
        "which-nvcc",
        ("/nvcc", "path of", "path to"),
        lazy(
            r"^\s{0,4}/[^\s:]{1,120}/nvcc\s{0,4}$"
            r"|(?i:\b(?:full|whole|absolute|long|complete) (?:\w{1,10} )?path (?:of|to) (?:the )?(?:nvcc|compiler)\b[^.\n]{0,40}"
            r"\b(?:works?|answers?|runs?|prints?)\b)"
        ),
    ),
    Sign(
        "gpu-asked",
        ("nvidia", "gpu", "--nv", "NVIDIA_VISIBLE"),
        lazy(
            r"runtime[:=] ?\"?nvidia\b|driver: ?\"?nvidia\b|capabilities: ?\[.{0,20}gpu"
            r"|(?<!without )(?<!without `)(?<!no )--gpus\b|nvidia\.com/gpu|--nv(?:ccli)?\b"
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
            r"|nvidia-smi`? (?:is|was) (?:unavailable|missing|absent|not (?:available|present|there|included|part))\b"
            r"|No such file or directory: ['\"]nvidia-smi"
            r"|\b(?:cannot find|can't find|without) [^\n.]{0,24}\bnvidia-smi\b(?! (?:work|output|show))|\bno nvidia-smi\b"
        ),
    ),
    Sign(
        "smi-inside",
        ("nvidia-smi",),
        lazy(
            r"\b(?:docker|podman|nerdctl|kubectl|oc)\b[^\n]{0,20}\bexec\b[^\n]{0,80}\bnvidia-smi\b"
            r"|@[0-9a-f]{12}:[^\n]{0,60}[#$] ?nvidia-smi\s{0,4}$"
            r"|(?i:nvidia-smi\b[^\n.]{0,24}\b(?:works?|runs?|shows?|sees?|lists?|prints?|good|fine|ok(?:ay)?)\b[^\n.]{0,40}"
            r"\b(?:inside|within|in|from) (?:of )?(?:the |my |this )?(?:docker )?container)"
            r"|(?i:\b(?:inside|within|in) (?:of )?(?:the |my |this )?(?:docker )?container,? (?:run )?nvidia-smi\b[^\n.]{0,24}"
            r"\b(?:works?|(?:shows?|prints?|lists?) the)\b)"
        ),
    ),
    Sign(
        "gpu-works",
        ("Result = PASS", "full speed", "on the GPU", "on the card", "is_available", "CUDA works", "cuda works", "OpenGL "),
        lazy(
            r"Result = PASS|(?<!not )torch\.cuda\.is_available\(\)['\"`)]{0,3}\s{0,3}(?:is|returns?|gives|says|->|=>|==?|:)?\s{0,3}True\b"
            r"|(?i:(?<!\bif )(?<!whether )(?<!that )\b(?:training|inference|it|program|job|script)\b(?: in (?:it|there))?"
            r" (?:runs?|works?|trains?|computes?) (?:well |fine )?"
            r"(?:at full speed|on the (?:gpu|card)(?=[ ,.;]|$)))"
            r"|(?<!if )\b(?:CUDA|cuda) works\b(?! (?:on|with|in)\b)|OpenGL vendor string: NVIDIA"
            r"|OpenGL renderer string: (?:NVIDIA|GeForce|Quadro)"
        ),
    ),
    Sign("none-counted", ("0 False", "False 0"), lazy(r"^\s{0,4}(?:0 False|False 0)\s{0,4}$")),  # device_count(), is_available()
    Sign(
        "none-seen",
        ("visible", "sees", "see ", "found", "detect", "recogni"),
        lazy(
            rf"(?i)\b(?:no|not any|zero) {_DEVICES} (?:(?:are|is|were|can be|could be) )?{_SEEN}\b"
            rf"|\b(?:sees?|finds?|detects?|recogni[sz]es?) no {_DEVICES}\b|\b{_DEVICES} (?:is|are|was|were) not {_SEEN}\b"
            r"|\b(?:can ?not|can't|doesn't|does not|don't|do not|didn't|not) (?:be able to )?(?:see|find|detect|recogni[sz]e) "
            rf"(?:the |any |my |a |its )?{_DEVICES}\b"
        ),
    ),
    # The display's watchdog is on: deviceQuery's line, the attribute of the runtime, the delay that Windows has written down.
    Sign(
        "watched",
        ("Run time limit", "xecTimeout", "EXEC_TIMEOUT", "TdrDelay"),
        lazy(
            r"Run time limit on kernels:?\s{1,60}Yes|(?:kernelExecTimeoutEnabled|KERNEL_EXEC_TIMEOUT)\W{1,6}(?:1|[Tt]rue)\b"
            r"|TdrDelay\s{1,12}(?:REG_DWORD\s{1,12})?(?:= ?)?(?:0x)?[1-9a]\b"
        ),
    ),
    # What a program says of the place of its model or data.
    Sign(
        "on-cpu",
        ("cpu", "CPU"),
        lazy(
            r"(?i)\bparameters\(\)\)\.device\b\W{1,6}(?:device\(type=)?'?cpu\b|\bdevice ?[=:] ?['\"]?cpu\b(?! (?:if|else))"
            r"|\b(?:model|network|net|parameters|weights|tensors?|batch|inputs?|data)(?:'s)? (?:is |are |was |were )?"
            r"(?:still )?(?:on|placed on|loaded (?:on|to)|moved to|device:?) (?:the )?(?:device )?['\"]?cpu\b"
            r"|\b(?:using|use|running on|set to use) (?:the )?(?:device:? )?['\"]?cpu\b(?! (?:cores?|threads?))"
        ),
    ),
    Sign(
        "idle",
        ("nothing on", "idle", "Idle", " 0 %", " 0%", "not used", "unused"),
        lazy(
            r"(?i)\bnothing (?:runs |happens |is (?:running )?|shows up )?on (?:the|my) (?:card|gpu)\b"
            r"|\b(?:card|gpu)\b[^.\n]{0,32}\b(?:idles?|unused|not used|stays? at 0 ?%)|\b(?:gpu|util\w{0,8})\b[^.\n]{0,16}\b0 ?%"
            r"|\bidle (?:card|gpu)\b"
        ),
    ),
    Sign(
        "batch",
        ("srun", "ray::", "ray.remote", "SLURM", "SBATCH", "sbatch", "Slurm", "salloc", "#PBS", "bsub"),
        lazy(r"\bray::\w|@ray\.remote\b|\b(?:srun|SLURM|SBATCH|sbatch|[Ss]lurm|salloc|bsub)|#PBS\b"),
    ),
)  # fmt: skip
