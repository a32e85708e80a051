"""The words by which a text says who else is on a GPU and how its programs ended, read by parsers/setting.py: data."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.parsers._setting_words import Sign

_PROGRAM = r"(?:training|jobs?|scripts?|runs?|programs?|python|notebook|kernel|inference|server|it)"
_LINE_WAS_LOST = r"(?:broke|dropped|died|timed out|disconnected|was (?:lost|closed|cut)|got (?:lost|closed|cut))"

# Memory that stays in use after its program ended, in the words of those who see it.
_ENDED = r"(?:kill|Ctrl|ctrl|stopp|terminat|exit|interrupt|crash|process|fuser|[Zz]ombie|defunct|orphan)"
_MEMORY = r"(?:GPU|gpu|memory|VRAM|vram)"
_FREED = r"(?:released?|freed|free up|cleared|cleaned up)"
_STAYS = rf"{_MEMORY}[^.\n]{{0,60}}(?:\b(?:not|never)\b|n't|still)[^.\n]{{0,24}}\b(?:{_FREED}|occupied|allocated|in use|used|held)\b"
_LEFT_OVER = (
    rf"(?:{_STAYS}[^\n]{{0,120}}\b{_ENDED}|\b{_ENDED}[^\n]{{0,120}}{_STAYS})"
    r"|\bmemory (?:stays|remains)\b[^.\n]{0,40}\b(?:in use|used|allocated|occupied|full|after)"
    r"|\bfuser -v /dev/nvidia[^\n]{0,120}\b(?:kill|PID|pid|process|left)"
    r"|\bno (?:running )?process(?:es)?\b[^.\n]{0,40}\bbut\b[^.\n]{0,60}\b(?:used|occupied|memory|full|in use)\b"
    r"|ray::\S{1,40} (?:process\w{0,2} )?[^.\n]{0,24}\b(?:still|remain|left)\b"
    r"|显存[^\n]{0,16}(?:没有?被?释放|未释放|不释放|不会释放|无法释放|仍然?被?占用|依然被?占用|还在占用|一直被?占用)|显存[^\n]{0,12}占[^\n]{0,40}(?:没有|看不到|找不到|不显示)[^\n]{0,16}进程"
    r"|メモリ[^\n]{0,16}(?:解放され(?:ない|ません|ず)|残(?:っ|り))|메모리[^\n]{0,16}(?:해제되지|반환되지|남아)"
    r"|[Ss]peicher[^\n]{0,60}nicht (?:frei|wieder frei)|[mM][ée]moire[^\n]{0,60}pas (?:été )?lib[ée]r"
    r"|[mM]emoria[^\n]{0,60}no se (?:libera|ha liberado)"
    r"|[mM]em[óo]ria[^\n]{0,60}não (?:é|foi) liberada|[Пп]амять[^\n]{0,60}не (?:освобо|очища)"
)
# nvidia-smi lists no process although memory is in use. In a container it never lists any.
_NOBODY = (
    r"(?i)\b(?:used|full|taken|occupied|in use|gone|allocated|belegt|belegte?n?|voll|occupée?s?|utilisée?s?|ocupad[oa]s?|usad[oa]s?)\b"
    r"[^\n]{0,80}(?:\bprocess(?:es)? (?:list|table|part|section|box)\b[^.\n]{0,16}\b(?:empty|blank|nothing)\b"
    r"|\bempty (?:process (?:list|table)|list of processes)\b"
    r"|\b(?:kein\w{0,2}|aucun\w{0,2}|ning[uú]n\w{0,2}|nessun\w?|nenhum)\s(?:\w{1,12}\s)?(?:Prozess|Eintr[aä]g|process|proceso|entr))"
    r"|\b(?:empty (?:process list|list of processes)|process (?:list|table) (?:is |was )?(?:empty|blank))\b[^\n]{0,60}"
    r"\b(?:but|yet|while|although|still)\b[^\n]{0,60}\b(?:used|full|taken|occupied|in use|allocated)\b"
    r"|\b(?:list of processes|process(?:es)? (?:list|table|part|section)|table of processes)\b[^.\n]{0,24}\b(?:has|shows?|contains|lists)"
    r" (?:no|not a single|nothing)\b[^.\n]{0,24}\b(?:but|yet|while|although|still)\b[^\n]{0,40}"
    r"\b(?:used|full|taken|occupied|in use|allocated)\b"
)
_LEFT_OVER_HINTS = (
    "memory", "VRAM", "vram", "fuser -v", "ray::", "显存", "メモリ", "메모리", "Speicher", "speicher", "moire", "emoria", "emória",
    "память", "GPU", "processes",
)  # fmt: skip
# Memory that others hold, in the words of those who share a GPU.
_HELD = (
    r"(?i)\b(?:another|other|someone else'?s?|somebody else'?s?|a colleague'?s?|my colleague'?s?|second)\b"
    r"(?: (?:process(?:es)?|programs?|users?|jobs?|notebooks?|kernels?|people|instances?|\w{1,16}(?: process(?:es)?)?))?"
    r"[^.,;\n]{0,40}\b(?:us(?:es|ing)|tak(?:es|ing)|hold(?:s|ing)?|occup(?:y|ies|ying)|has taken|keeps)\b"
    r"[^.,;\n]{0,40}(?:\bmemory\b|\bVRAM\b|\d ?Gi?B|\d{4,5} ?Mi?B|\bthe (?:same )?GPU)"
    r"|\b(?:when|after|once|if) (?:I )?clos(?:e|ed|ing) (?:the )?other\b"
    r"|\b(?:(?:the )?others|(?:my |the |our )?colleagues|other (?:users|people|students))\b[^.;\n]{0,40}"
    r"\b(?:on|at|use|share|using|sharing) (?:\w{1,8} ){0,4}the same (?:server|machine|node|box|gpu|card)\b"
    r"|(?:被|有)(?:其他|其它|别的|别人|他人)[^\n]{0,12}(?:进程|程序|用户|人)?[^\n]{0,8}占"
)
_HELD_HINTS = ("nother", "other", "omeone else", "omebody else", "olleague", "second", "其他", "其它", "别的", "别人", "他人")

MEMORY_WORDS = (
    Sign("left-over", _LEFT_OVER_HINTS, lazy(_LEFT_OVER)),
    Sign("held", _HELD_HINTS, lazy(_HELD)),
    Sign("nobody-listed", ("process", "Prozess", "Eintr", "proceso", "entr"), lazy(_NOBODY)),
    # A look for one process by its number finds none.
    Sign(
        "gone",
        ("/proc/", "o such process", "o Such Process"),
        lazy(r"/proc/\d{2,10}\b[^\n]{0,40}: No such file|\bkill\b[^\n]{0,24}\d{2,10}\b[^\n]{0,20}[Nn]o such process"),
    ),
    # Nobody but the user's own program can hold the memory.
    Sign(
        "alone",
        ("alone", "only user", "only one", "else", "o other"),
        lazy(
            r"(?i)\b(?:I am|I['’]m|I was|is|runs) (?:all )?alone on (?:this|the|that|my) (?:card|gpu|machine|server|node|box|workstation)\b"
            r"|\bI am the only (?:user|one) (?:on|of|who uses|using)\b"
            r"|\b(?:nobody|no ?one|no other (?:user|person)) (?:else )?(?:uses|has an account|is (?:logged in|on)|works)\b"
            r"|\bnothing else (?:runs|is running|is open|uses|was running)\b"
            r"|\bno other (?:line|entry|process|program|job)s?\b[^.\n]{0,24}"
            r"\b(?:in the (?:table|list)|on (?:the|this) (?:card|gpu)|than my)\b"
        ),
    ),
    # A program that did not end by itself, or whose terminal went away under it.
    Sign(
        "cut-off",
        ("trl", "TRL", "kill", "ancel", "bort", "nterrupt", "stopp", "rash", "ssh", "SSH", "onnection", "ession", "erminal"),
        lazy(
            rf"(?i)\b(?:pressed|hit|with|used|after|by|typed)\b[^.\n]{{0,12}}\bctrl[ +-]?[cz]\b"
            rf"|\bctrl[ +-]?[cz]\b[^.\n]{{0,24}}\b{_PROGRAM}\b"
            rf"|\b(?:I|we)\b[^.\n]{{0,16}}\b(?:killed|aborted|cancell?ed|interrupted|stopped|terminated)\b[^.\n]{{0,24}}\b{_PROGRAM}\b"
            rf"|\b{_PROGRAM}\b[^.\n]{{0,16}}\b(?:was|got|has been) (?:killed|aborted|cancell?ed|interrupted|terminated)\b"
            rf"|\b{_PROGRAM} (?:has )?crashed\b"
            rf"|\b(?:ssh|connection|terminal|session)\b[^.\n]{{0,20}}\b{_LINE_WAS_LOST}\b"
        ),
    ),
)  # fmt: skip
