"""What people say of a failure without showing its message, by the cause that such words make likeliest: data, read by parsers/setting.py.

These are the weakest signs of all. The kind of each is a cause; texts/tie_breakers/plain_words.py makes a suspicion of it, and only where
the text states no cause.
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers._setting_words import Sign

_NODE = r"/dev/nvidia(?:\d|ctl|-uvm|\\?\*)"
_SMI_RAN = r"(?:ran|run|running|type|typed|typing|execute|executing|executed|call|calling|called|start|starting|started)"
_ON_HOST = r"nvidia-smi`?(?: (?:once|first|again|manually|by hand|on the host(?: machine)?|as root)){0,3}"
# A program that does not come back, as people of several languages say it.
_NO_ANSWER = (
    r"(?:(?<!not )(?<!n['’]t )(?<!never )\b(?:hangs?|hung|freezes?|froze"
    r"|never (?:returns?|returned|finish\w{0,2}|comes? back)|blocks for ?ever"
    r"|(?:does not|doesn['’]?t|don['’]?t|won['’]?t|did not|didn['’]?t) (?:even )?(?:return|come back|finish|respond|answer))\b"
    r"|n['’]affiche (?:plus )?rien|\bne (?:répond|rend|revient|se termine)\b|\bse fige\b|\breste (?:bloquée?|figée?)\b"
    r"|\b(?:hängt|friert ein|hängen bleibt)\b|\b(?:kehrt|kommt|reagiert|antwortet)\b[^.\n]{0,16}\bnicht\b"
    r"|\bse (?:cuelga|congela|queda (?:colgad[oa]|congelad[oa]|bloquead[oa]|pensando))\b|\bno (?:responde|devuelve|termina|vuelve)\b"
    r"|\b(?:trava|congela)\b|\bnão (?:responde|retorna|termina|volta)\b|\bsi (?:blocca|pianta)\b|\bnon (?:risponde|ritorna|termina)\b"
    r"|\b(?:зависает|завис|зависла|висит)\b|\bне (?:отвечает|возвращает|завершается)\b|\b(?:wisi|zawiesza się|nie odpowiada)\b"
    r"|没有?(?:反应|响应)|无响应|卡(?:住|死)|固ま|フリーズ|応答(?:しな|がな|なし|しませ)|(?:返っ|戻っ)て(?:こな|きませ)"
    r"|멈(?:춤|춥|춰|췄)|응답이 없)"
)
# What works for root alone, in other languages than English.
_WITH_ROOT = (
    r"(?:\b(?:con|como|avec|en tant que|mit|als|come|com|met|från|med|z|jako) (?:el usuario |le |o )?(?:sudo|root)\b"
    r"|(?:\bс |\bчерез |\bпод |\bот )(?:sudo|root)|(?:用|使用|以) ?(?:sudo|root)|(?:sudo|root) ?(?:で|だと|権限|로|으로))"
    r"(?! ?(?:apt|dnf|yum|pacman|pip|make|modprobe|reboot|systemctl|snap|ubuntu-drivers)\b)"
)
_GOES = (
    r"\b(?:funciona|aparece|va bien|(?:ça |cela )?(?:marche|fonctionne)|funktioniert|geht es|läuft|klappt|funziona|werkt|fungerar|działa)\b"
    r"|\bработает\b|可以|正常|就行|動(?:く|き)|使え|작동|됩니다"
)

# What a thing does that is as it should be.
_FINE = r"(?:works?|worked|runs?|is (?:all )?(?:fine|ok|good)|(?:all|everything) (?:works|is)|(?:it['’]?s|was) (?:fine|ok|good|there))\b"
# A program, not a tool of the system, that was started by root.
_BY_ROOT = (
    r"(?:with|using|under|through|via) [`'\"]?(?:sudo|root)\b"
    r"(?! (?:apt|dnf|yum|pacman|zypper|pip|make|modprobe|rmmod|insmod|reboot|systemctl|snap|ubuntu-drivers"
    r"|docker|nvidia-smi|dpkg|chmod|setenforce)\b)"
)

COMPLAINTS = (
    Sign(
        "container-lost-devices",
        ("estart", "nknown error", "nknown Error", "stop", "Stop", "重启", "再起動"),
        lazy(
            r"(?i)\bstop(?:s|ped|ping)? working\b[^.\n]{0,24}\b(?:after|later)\b[^.\n]{0,24}\b(?:minutes?|hours?|days?|while)\b"
            r"|\bnvml:? unknown error\b[^\n]{0,40}\b(?:inside|in) (?:the |a |my )?(?:docker|container|pod)\b"
            r"|\b(?:only|just|until I|have to|need to|must|after I|simply)\b[^.\n]{0,24}\brestart(?:ing|ed)?\b[^.\n]{0,16}"
            r"\b(?:container|pod|docker)\b"
            r"|\brestart(?:ing|ed)? (?:the|my|that) (?:docker )?(?:container|pod)\b[^.\n]{0,24}\b(?:fix|solve|resolve|help|cure|bring|work)"
            r"|\brestart(?:ing)? the (?:docker|container|pod)\b[^.\n]{0,24}\b(?:every|each|daily|nightly)\b"
            r"|\b(?:docker|podman)(?:[ -]compose)? restart\b[^.\n]{0,24}\b(?:again|back|works|fixes|helps|wieder|снова|опять|помогает"
            r"|de nouveau|otra vez|de nuevo|di nuovo|de novo|znowu|yeniden)\b"
            r"|重启(?:这个|该)?(?:docker ?)?容器[^\n]{0,8}(?:就好|后?恢复|又可以|就可以|就正常)"
            r"|コンテナを再起動[^\n]{0,12}(?:直り|直る|復旧|使え|動)"
        ),
    ),
    Sign(
        "uvm-unavailable",
        ("nvidia-uvm", "/dev/nv"),
        lazy(
            r"(?i)(?:\b(?:no|not have|without|missing|lacks?)|n't have)\b[^.\n]{0,12}/dev/nvidia-uvm\b"
            r"|/dev/nvidia-uvm[`'\"]? (?:is|was) (?:missing|absent|not there)"
            # all nodes on one line, with the command before them
            r"|\bls (?:-\w+ )?/dev/nv(?:idia)?\*[`'\"]? {0,2}(?:->|=>|→|:|(?:shows?|gives|prints|lists)\b)"
            r"(?=[^\n]{0,200}/dev/nvidia\d)(?=[^\n]{0,200}/dev/nvidiactl)(?![^\n]{0,300}(?:nvidia-uvm|\.\.\.))"
        ),
    ),
    Sign(
        "device-nodes-missing",
        ("nvidia-smi", "/dev/nvidia", "ls /dev", "ls -l /dev", "no nvidia", "/nvidia-modprobe"),
        lazy(
            rf"(?i)\b(?:until|once|after|when|unless|by)\b[^.\n]{{0,40}}\b{_SMI_RAN} `?{_ON_HOST}[^.\n]{{0,40}}"
            r"\b(?:works?|worked|appears?|created?|(?:it['’]?s|is|are) (?:all )?(?:OK|fine|there|good))\b"
            r"|\bnvidia-smi`? (?:seems to |does |then )?[\"'`]?(?:loads?|creates?|makes?)\b[^.\n]{0,24}"
            r"(?:/dev/nvidia|\bit\b|\bthem\b|devices?\b)"
            rf"|\b(?:can ?not|can't|could not|couldn't) (?:find|open|stat|access) {_NODE}|{_NODE}[^.\n]{{0,24}}"
            r"\b(?:is|are|was|were|do|does|did) (?:missing|absent|not (?:there|exist|appear|created|present))"
            rf"|\b(?:no|without|missing) {_NODE}|\bnot make {_NODE}"
            r"|\bls (?:-\w+ )?/dev\b[^\n]{0,24}nvidia\S{0,3} (?:returns?|shows?|gives|prints|finds) nothing"
            r"|^-rwxr-xr-x\.? \d root root [^\n]{0,40}/nvidia-modprobe\s{0,4}$"  # without the bit that lets users make nodes
            r"|/dev\b[^.,\n]{0,32}\b(?:has|had|shows?|showed|lists?|listed|contains?|contained|with) no nvidia\b"
        ),
    ),
    Sign(
        "driver-hung",
        ("isk sleep", "nvidia-smi", "nvidia-container-cli", "nv-hostengine", "/dev/nvidia", " 0x46, "),
        lazy(
            r"\bD ?\((?:disk|isk) sleep\)|\bState:\s{1,8}D \(disk sleep\)"
            # a row of ps, the answer of timeout, and a call of strace's that has not come back
            r"|^\s{0,8}\d{1,8}\s[^\n]{0,40}\bD[sl<N+]{0,3}\s[^\n]{0,80}\b(?:nvidia-smi|nvidia-container-cli|nv-hostengine)\b"
            r"|\bnvidia-smi\b[^\n]{0,40}\b(?:rc|exit(?:ed)?(?: with)?(?: code| status)?|status|code)[=: ]{1,2}124\b"
            r"|^(?:\[pid +\d+\] )?openat?\((?:AT_FDCWD, )?\"/dev/nvidia[\w-]{1,16}\", "
            r"O_RDWR(?:\|O_[A-Z]{2,12}){0,3}(?: <unfinished \.\.\.>)?\s{0,4}$"
            r"|^(?:\[pid +\d+\] )?ioctl\(\d{1,4}, _IOC\([^)\n]{0,60} 0x46, [^=\n]{0,120}$"
            rf"|(?i:\bnvidia-smi\b(?: command)?[^.:,;\n]{{0,32}}{_NO_ANSWER})"
        ),
    ),
    Sign(
        "driver-not-loaded",
        ("blacklist", "kernel module", "modprobe nvidia", "modprobe -v nvidia"),
        lazy(
            r"(?i)\b(?:ha[sd]|have|needs?|needed|must)(?: to)? (?:\w{1,8} )?[`'\"]?(?:sudo )?modprobe (?:-v )?nvidia(?![-_\w])[^.\n]{0,40}"
            r"\b(?:before|every|each|after|to (?:make|get|have)|so that|until)\b"
            r"|\b(?:after|once|until|unless|when)\b[^.\n]{0,24}\bmodprobe (?:-v )?nvidia(?![-_\w])[^.\n]{0,40}(?<!not )(?<!n't )"
            r"\b(?:works?|worked|runs|finds|found|appears|(?:it['’]?s|is|are) (?:all )?(?:OK|fine|there|good))\b|"
            r"\bblacklists? (?:the )?(?:nvidia )?(?:kernel )?(?:driver|modules?)\b"
            r"|\bnvidia (?:kernel )?modules? (?:can ?not|can't|could not|couldn't|are not|is not|isn't|aren't|won't)(?: be)? loaded\b"
        ),
    ),
    Sign(
        "driver-module-missing-for-kernel",
        ("kernel", "Kernel", "ядр", "noyau", "úcleo", "内核", "カーネル", "커널"),
        lazy(
            rf"(?i)\b(?:previous|old|older|earlier|former) kernel\b[^\n]{{0,60}}(?<!not )(?<!n't )\b{_FINE}"
            r"|\b(?:alten|älteren|vorherigen|vorigen) kernel\b[^.\n]{0,60}(?:funktioniert|läuft|geht)\b"
            r"|(?:предыдущ|стар|прошл)\w{2,4} ядр\w{1,3}[^\n]{0,60}(?<!не )работа(?:ет|ло|ла)\b"
            r"|\b(?:ancien|précédent|vieux) noyau\b[^.\n]{0,60}(?:marche|fonctionne)\b"
            r"|\b(?:n[uú]cleo|kernel) (?:anterior|antiguo|viejo|antigo)\b[^.\n]{0,60}(?<!no )(?:funciona|va bien)\b"
            r"|(?:旧|以前的?|之前的?|上一个)内核[^\n]{0,24}(?:正常|可以|没问题)|(?:以前|古い|前)の?カーネル[^\n]{0,24}(?:動|使え|正常)"
            r"|(?:이전|예전) 커널[^\n]{0,24}(?:됩니다|작동|정상)"
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
        "container-toolkit-missing",
        ("daemon.json",),
        lazy(
            r"(?i)\bdaemon\.json[`'\"]? (?:file )?(?:does(?: not|n't) exist|is (?:missing|absent|empty|not there)|did(?: not|n't) exist)\b"
            r"|\b(?:no|without an?) (?:/etc/docker/)?daemon\.json\b"
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
        ("hermal", "HERMAL", "rottl", "fan", "Fan", "MHz", " off", " open", "removed"),
        lazy(
            r"(?i:\bfans?\b[^.\n]{0,32}\b(?:stands? still|(?:does|do|did|is|are|was|were)(?:n't| not)(?: \w{1,8})? (?:spin|turn|run)"
            r"|(?:never|no longer) (?:spin|turn|run)|stopped (?:spinning|turning)|is dead|are dead))"
            # cooler air makes it fast
            r"|(?i:\b(?:side ?panel|(?:case|chassis|rack|cabinet|server)(?: door| cover| lid)?|door|lid) (?:is |was |taken |left )?"
            r"(?:off|open(?:ed)?|removed)\b[^.\n]{0,60}\b(?:stays?|fast(?:er)?|full speed|speed is back|better|keeps?|holds?)\b)"
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
        "numba-cuda-disabled",
        ("NUMBA_DISABLE_CUDA", "disable_cuda", "umba not to"),
        lazy(
            r"\bNUMBA_DISABLE_CUDA[\"']?(?:=[\"']?|: ?[\"']?|\s{2,40})(?:1|[Tt]rue|yes)\b|^\s{0,8}disable_cuda: ?(?:1|[Tt]rue|yes)\b"
            r"|(?i:\bnumba (?:not|never) to (?:look for|use|search for|touch) (?:cuda|the gpu)\b)"
        ),
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
        ("eer access", "2P", "anAccessPeer", "to-GPU", "emcpyPeer", "to-peer", "one GPU", "between the GPUs", "between GPUs"),
        lazy(
            r"(?i)\bNCCL_P2P_DISABLE=1\b[^.\n]{0,40}\b(?:works?|runs?|helps?|fixe[sd]|solve[sd]|cures?)\b"
            r"|\b(?:works?|runs?) with NCCL_P2P_DISABLE=1\b"
            r"|\b(?:P2P|peer(?: access)?)\b[^.\n]{0,80}\b(?:silently|wrong|corrupt\w{0,4}|garbage|NaNs?|zeros|drops?|lost)\b"
            r"|\b(?:wrong|corrupt\w{0,4}|garbage)\b[^.\n]{0,60}(?:\b|\()(?:P2P|peer-to-peer|GPU-to-GPU|cudaMemcpyPeer)\b|\bGGML_CUDA_P2P=1\b"
            r"|\b(?:from one GPU to (?:the other|another)|between (?:the )?GPUs)\b[^.\n]{0,60}"
            r"\b(?:damaged|wrong|corrupt\w{0,4}|garbage|zeros)\b"
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
            rf"(?i)(?:{_WITH_ROOT})[^.:;\n]{{0,60}}(?:{_GOES})|(?:{_GOES})[^.:;\n]{{0,24}}(?:{_WITH_ROOT})|"
            rf"(?<!not ){_BY_ROOT}(?:[^.:;\n]|\.\w){{0,60}}(?<!not )(?<!n't )"
            rf"\b(?:it (?:works|runs|trains)|(?:all |everything )?(?:works|is fine)|{_FINE}"
            r"|trains?\b|sees? |finds? )|"
            r"\b(?:can ?not|not|n't|fails?|stops?)\b[^\n]{0,160}\b(?:unless|only|but) "
            r"(?:(?:run|runs|works?|it|as|with|when|I|am|the|is) ){0,4}(?:superuser|root|sudo)\b"
            r"|\bas (?:the )?superuser\b[^.\n]{0,24}\bworks?\b"
            r"|\b(?:works?|runs?|fine|success\w{0,5})\b[^.\n]{0,24}\b(?:only )?(?:as root|with sudo)\b[^.\n]{0,60}\bnot\b"
            r"|\b(?:access|works?|run|runs)\b[^.\n]{0,24}\bas (?:a |an )?(?:non-?root|normal|ordinary|unprivileged) user\b"
        ),
    ),
)  # fmt: skip
