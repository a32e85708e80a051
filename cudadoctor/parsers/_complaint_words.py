"""What people say of a failure without showing its message, by the cause that such words make likeliest: data, read by parsers/setting.py.

These are the weakest signs of all. The kind of each is a cause; checks/ties/plain_words.py makes a suspicion of it, and only where the text
states no cause.
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers._setting_words import Sign

_NODE = r"/dev/nvidia(?:\d|ctl|-uvm|\\?\*)"
_SMI_RAN = r"(?:ran|run|running|execute|executing|executed|call|calling|called|start|starting|started)"
_ON_HOST = r"nvidia-smi`?(?: (?:once|first|again|manually|by hand|on the host(?: machine)?|as root)){0,3}"

COMPLAINTS = (
    Sign(
        "container-lost-devices",
        ("estart", "nknown error", "nknown Error", "stop", "Stop"),
        lazy(
            r"(?i)\bstop(?:s|ped|ping)? working\b[^.\n]{0,24}\b(?:after|later)\b[^.\n]{0,24}\b(?:minutes?|hours?|days?|while)\b"
            r"|\bnvml:? unknown error\b[^\n]{0,40}\b(?:inside|in) (?:the |a |my )?(?:docker|container|pod)\b"
            r"|\b(?:only|just|until I|have to|need to|must|after I|simply)\b[^.\n]{0,24}\brestart(?:ing|ed)?\b[^.\n]{0,16}"
            r"\b(?:container|pod|docker)\b"
            r"|\brestart(?:ing|ed)? (?:the|my|that) (?:docker )?(?:container|pod)\b[^.\n]{0,24}\b(?:fix|solve|resolve|help|cure|bring|work)"
            r"|\brestart(?:ing)? the (?:docker|container|pod)\b[^.\n]{0,24}\b(?:every|each|daily|nightly)\b"
        ),
    ),
    Sign(
        "uvm-unavailable",
        ("nvidia-uvm",),
        lazy(
            r"(?i)(?:\b(?:no|not have|without|missing|lacks?)|n't have)\b[^.\n]{0,12}/dev/nvidia-uvm\b"
            r"|/dev/nvidia-uvm[`'\"]? (?:is|was) (?:missing|absent|not there)"
        ),
    ),
    Sign(
        "device-nodes-missing",
        ("nvidia-smi", "/dev/nvidia", "ls /dev", "ls -l /dev"),
        lazy(
            rf"(?i)\b(?:until|once|after|when|unless|by)\b[^.\n]{{0,20}}\b{_SMI_RAN} `?{_ON_HOST}[^.\n]{{0,40}}"
            r"\b(?:works?|worked|appears?|created?)\b"
            r"|\bnvidia-smi`? (?:seems to |does |then )?[\"'`]?(?:loads?|creates?|makes?)\b[^.\n]{0,24}"
            r"(?:/dev/nvidia|\bit\b|\bthem\b|devices?\b)"
            rf"|\b(?:can ?not|can't|could not|couldn't) (?:find|open|stat|access) {_NODE}|{_NODE}[^.\n]{{0,24}}"
            r"\b(?:is|are|was|were|do|does|did) (?:missing|absent|not (?:there|exist|appear|created|present))"
            rf"|\b(?:no|without|missing) {_NODE}|\bnot make {_NODE}"
            r"|\bls (?:-\w+ )?/dev\b[^\n]{0,24}nvidia\S{0,3} (?:returns?|shows?|gives|prints) nothing"
        ),
    ),
    Sign(
        "driver-hung",
        ("isk sleep",),
        lazy(r"\bD ?\((?:disk|isk) sleep\)|\bState:\s{1,8}D \(disk sleep\)"),
    ),
    Sign(
        "driver-not-loaded",
        ("blacklist", "kernel module"),
        lazy(
            r"(?i)\bblacklists? (?:the )?(?:nvidia )?(?:kernel )?(?:driver|modules?)\b"
            r"|\bnvidia (?:kernel )?modules? (?:can ?not|can't|could not|couldn't|are not|is not|isn't|aren't|won't)(?: be)? loaded\b"
        ),
    ),
    Sign(
        "driver-libraries-incomplete",
        ("libnvidia-",),
        lazy(
            r"(?i)\b(?:fails?|missing|lacks?|not|no)\b[^.\n]{0,60}\blibnvidia-(?:ptxjitcompiler|fatbinaryloader|nvvm|ml)\b"
            r"|\blibnvidia-(?:ptxjitcompiler|fatbinaryloader|nvvm|ml)\b[^\n]{0,24}\b(?:is|are|was|were) (?:missing|not (?:there|installed))"
        ),
    ),
    Sign(
        "gpu-fell-off-bus",
        ("the bus", "the PCI"),
        lazy(r"(?i)\b(?:fall(?:s|en|ing)?|fell|dropp?(?:s|ed|ing)?) (?:off|out)(?: of)? (?:of )?the (?:PCI(?:e|-E)? )?bus\b"),
    ),
    Sign(
        "pcie-link-degraded",
        ("en1", "en2", "en 1", "en 2", "2.5GT", "2.5 GT", "x1 ", "x1."),
        lazy(
            r"(?i)\b(?:sits?|stuck|runs?|running|stays?|remains?|negotiat\w{2,4}|train(?:s|ed)|drops?|fell|only|link(?: is)?) "
            r"(?:(?:up|back|down|at|in|to|as|with|on) )?(?:PCI-?e? )?(?:gen ?[12]\b|2\.5 ?GT/s|x1\b)"
        ),
    ),
    Sign(
        "thermal-or-power-throttling",
        ("hermal", "HERMAL", "rottl", "fan", "Fan", "MHz"),
        lazy(
            r"(?i:\bfans?\b[^.\n]{0,32}\b(?:stands? still|(?:does|do|did|is|are|was|were)(?:n't| not)(?: \w{1,8})? (?:spin|turn|run)"
            r"|(?:never|no longer) (?:spin|turn|run)|stopped (?:spinning|turning)|is dead|are dead))"
            r"|(?i:\b(?:clocks?|gpu|card|core|sm|speed|always|then|it)\b[^.\n]{0,40}"
            r"\b(?:drops?|dropped|falls?|fell|collapses?|collapsed|settles?|throttles?)\b[^.\n]{0,40}"
            r"\b(?:to|at) (?:\w{1,8} ){0,2}\d{2,3} ?MHz)|"
            r"SW Thermal Slowdown(?!\s{0,40}: ?Not)|HW (?:Thermal )?Slowdown(?!\s{0,40}: ?Not)|(?i:\bsoftware thermal\b)"
            r"|(?i:\bthermal slowdown active\b)|(?i:\b(?:gpu|card|clocks?)\b[^.\n]{0,40}\bthermal(?:ly)? throttl)"
            r"|(?i:\bthermal throttl\w{2,4}\b[^.\n]{0,40}\b(?:gpu|card|clocks?)\b)"
        ),
    ),
    Sign(
        "gpu-computes-wrong",
        ("cpu", "CPU", "reference", "wrong", "Wrong", "incorrect", "determinis"),
        lazy(
            r"(?i)\b(?:gpu|cuda(?::\d)?|card|device)\b[^\n]{0,40}\b(?:vs\.?|versus|against|compared (?:with|to)) (?:the )?"
            r"(?:cpu|host|reference)\b[^\n]{0,24}\b[1-9]\d{0,9} (?:mismatch|errors?|differen|wrong|bad)"
            r"|\bcpu\W{1,4}(?P<sum>-?\d[\d.]{0,20})\s{1,8}gpu\W{1,4}(?!(?P=sum)\s)-?\d[\d.]{0,20}\s[^\n]{0,20}"
            r"\b(?:diff|mismatch|wrong|fail|bad)"
            r"|\b(?:this|that|one|the (?:first|second|other|same|new|old)) (?:\w{1,12} )?(?:gpu|card)\b[^.\n]{0,24}"
            r"\b(?:computes?|calculates?|gives?|returns?|produces?)\b[^.\n]{0,12}\b(?:wrong|incorrect)\b"
            r"|\b(?:wrong|incorrect|non-?deterministic)\b[^.\n]{0,24}\bonly on (?:this|that|one|the (?:first|second|same)) (?:gpu|card)\b"
            r"|\b(?:card|gpu) ?#?\d\b[^.\n]{0,12}\b(?:non-?deterministic|(?:computes?|calculates?|is) wrong)\b"
        ),
    ),
    Sign(
        "secure-boot-blocks-module",
        ("cure boot", "cure Boot", "CURE BOOT"),
        lazy(
            r"(?i)\b(?:with|after|if|when|once)\b[^.\n]{0,16}\bsecure boot (?:is |was |being )?(?:disabled|off|turned off|deactivated)\b"
            r"|\b(?:disabling|turning off|deactivating|without) secure boot\b[^.\n]{0,40}\b(?:work|solve|fix|help|load|install)"
            r"|\b(?:not|fails?|failed|n't)\b[^.\n]{0,40}\bwhen secure boot is (?:on|enabled)\b"
        ),
    ),
    Sign(
        "security-policy-denies-devices",
        ("SELinux", "selinux", "AppArmor", "apparmor"),
        lazy(
            r"(?i)\b(?:SELinux|AppArmor)\b[^.\n]{0,40}\b(?:enabled|enforcing|den(?:y|ies|ied)|block\w{0,3})\b"
            r"|nvml-insufficient-permissions-and-selinux"
        ),
    ),
    Sign(
        "libcuda-stub-loaded",
        ("/stubs",),
        lazy(r"\bLD_LIBRARY_PATH\b[^\n]{0,80}/stubs\b|/stubs\b[^\n]{0,80}\bLD_LIBRARY_PATH\b"),
    ),
    Sign(
        "compute-mode-blocks",
        ("xclusive",),
        lazy(r"(?i)\bexclusive[ _-](?:process|thread|compute|mode)\b"),
    ),
    Sign(
        "numba-simulator-enabled",
        ("imulator", "IMULATOR", "CUDASIM", "cudasim"),
        lazy(r"(?i)\b(?:numba|cuda) (?:cuda )?simulator\b|\bnumba_enable_cudasim=[\"']?1"),
    ),
    Sign(
        "library-path-conflict",
        ("LD_LIBRARY_PATH",),
        lazy(
            r"(?i)\b(?:breaks?|fails?|crash\w{0,3})\b[^.\n]{0,60}\bLD_LIBRARY_PATH\b"
            r"|\bLD_LIBRARY_PATH\b[^.\n]{0,24}\b(?:breaks|conflicts)\b"
            r"|\b(?:unset(?:ting)?|without|clear(?:ing)?) (?:the |my )?LD_LIBRARY_PATH\b[^.\n]{0,32}\b(?:works?|fix|solve|help)"
        ),
    ),
    Sign(
        "vfio-bound",
        ('"Vfio"', "to Vfio"),
        lazy(r"\"mode\": ?\"Vfio\"|\bmode changed to Vfio\b"),
    ),
    Sign(
        "scheduler-gave-no-gpu",
        ("NoDevFiles", "accelerators: []"),
        lazy(r"\bNoDevFiles\b|\baccelerators: \[\], preempt"),
    ),
    Sign(
        "process-limits",
        ("irtual memory", "vmem-check", "ulimit -v"),
        lazy(r"(?i)\bbeyond (?:the )?'?(?:virtual|physical)'? memory limits?\b|\byarn\.nodemanager\.vmem-check|\bulimit -v \d"),
    ),
    Sign(
        "open-module-required",
        ("nvidia-open",),
        lazy(
            r"(?i)\b(?:not|without|n't)\b[^.\n]{0,16}\binstall(?:s|ed|ing)? [`'\"]?nvidia-open\b"
            r"|\bafter install(?:ing)? [`'\"]?nvidia-open\b[^.\n]{0,40}\bwork"
        ),
    ),
    Sign(
        "gpu-powered-off",
        ("nvy", "NVY"),
        lazy(r"(?i)\benvy ?control\b[^.\n]{0,60}\bintegrated\b|\bintegrated\b[^.\n]{0,40}\benvy ?control\b"),
    ),
    Sign(
        "container-driver-capabilities",
        ("apabilit",),
        lazy(
            r"(?i)\butility[\"'`]? (?:driver )?capabilit(?:y|ies)\b"
            r"|\bdriver capabilities\b[^.\n]{0,30}\b(?:utility|compute|missing)\b"
        ),
    ),
    Sign(
        "wsl-linux-driver-installed",
        ("libcuda.so",),
        lazy(
            r"libcuda\.so\.\d{1,3}[\d.]{0,12}[`'\"]? (?:in|from|under|at|of) [`'\"]?/(?:usr/)?lib/x86_64-linux-gnu"
            r"[^\n]{0,120}/usr/lib/wsl/lib"
        ),
    ),
    Sign(
        "peer-access-broken",
        ("eer access", "2P", "anAccessPeer", "to-GPU", "emcpyPeer", "to-peer"),
        lazy(
            r"(?i)\bNCCL_P2P_DISABLE=1\b[^.\n]{0,40}\b(?:works?|runs?|helps?|fixe[sd]|solve[sd]|cures?)\b"
            r"|\b(?:works?|runs?) with NCCL_P2P_DISABLE=1\b"
            r"|\b(?:P2P|peer(?: access)?)\b[^.\n]{0,80}\b(?:silently|wrong|corrupt\w{0,4}|garbage|NaNs?|zeros|drops?|lost)\b"
            r"|\b(?:wrong|corrupt\w{0,4}|garbage)\b[^.\n]{0,60}(?:\b|\()(?:P2P|peer-to-peer|GPU-to-GPU|cudaMemcpyPeer)\b|\bGGML_CUDA_P2P=1\b"
            r"|\bCanAccessPeer\b[^\n]{0,160}\b(?:do(?:es)? not work|fails?|silently|wrong|corrupt\w{0,4})\b"
        ),
    ),
    Sign(
        "nvidia-smi-missing",
        ("nvidia-smi",),
        lazy(r"(?i)\bnvidia-smi[`'\"]? (?:is|was|gets|has) (?:not|never) (?:been )?(?:mounted|injected|copied|included|packaged)\b"),
    ),
    Sign(
        "device-permission-denied",
        ("root", "sudo", "uperuser"),
        lazy(
            r"(?i)\b(?:can ?not|not|n't|fails?|stops?)\b[^\n]{0,160}\b(?:unless|only|but) "
            r"(?:(?:run|runs|works?|it|as|with|when|I|am|the|is) ){0,4}(?:superuser|root|sudo)\b"
            r"|\bas (?:the )?superuser\b[^.\n]{0,24}\bworks?\b"
            r"|\b(?:works?|runs?|fine|success\w{0,5})\b[^.\n]{0,24}\b(?:only )?(?:as root|with sudo)\b[^.\n]{0,60}\bnot\b"
            r"|\b(?:access|works?|run|runs)\b[^.\n]{0,24}\bas (?:a |an )?(?:non-?root|normal|ordinary|unprivileged) user\b"
        ),
    ),
)  # fmt: skip
