"""Whose evidence it is: the names of users, hosts, groups and accounts that its pieces show, and the secrets among its variables.

A name that is a word of the trade, or that stands in evidence on packages, modules and devices, is told apart: replaced wherever it stands
it would take away what a diagnosis reads.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby

from cudadoctor.model.evidence import Evidence
from cudadoctor.sources.common_names import GROUPS, PUBLIC, SERVICES, USERS, WORDS
from cudadoctor.sources.decoding import json_objects
from cudadoctor.sources.keyed import NAME
from cudadoctor.sources.private_paths import known
from cudadoctor.sources.sensitive import GONE, HOME, HOME_OF_WINDOWS, PSEUDONYM, Pseudonyms

# Variables whose value a diagnosis reads. All others keep their name and lose their value.
KEPT_VARIABLES = re.compile(
    r"^(CUDA\w*|NUMBA\w*|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_CUDA|DISABLE_REQUIRE)|LD_LIBRARY_PATH|LD_PRELOAD|LIBRARY_PATH|"
    r"PATH|PYTHONPATH|PYTHONHOME|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV|CUDNN_\w*|TORCH_CUDA_ARCH_LIST|NCCL_\w*_DISABLE|XLA_FLAGS|"
    r"SLURM_JOB_ID|SLURM_JOBID|SLURM_JOB_GPUS|SLURM_STEP_GPUS|SLURM_GPUS\w*|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|"
    r"PBS_JOBID|PBS_GPUFILE|LSB_JOBID|LSB_GPU_ALLOC|JOB_ID|WSL_DISTRO_NAME|WSL_INTEROP|WSLENV|container|LANG|LC_\w+|TERM|TMPDIR)$"
)
_LOCALE = re.compile(r"(?:[a-z]{2,3}(?:_[A-Z]{2})?|C|POSIX)(?:\.[\w-]{1,20})?(?:@\w{1,20})?")
_OF_PERSONS = re.compile(
    r"LICEN|PROXY|HOST(?!CXX|_COMPILER)|USER|MAIL|OWNER|ADDR|PHONE"
)  # in the name of a variable that nobody but its owner knows


def keeps(name: str, value: str) -> bool:
    """Whether a diagnosis reads this variable and its value is no secret."""
    if KEPT_VARIABLES.match(name) is None or SECRET_NAME.search(name) or re.search(r"://[^/\s]*@", value):
        return False
    return _LOCALE.fullmatch(value) is not None if name.startswith("LC_") else _OF_PERSONS.search(name) is None


_GIVES_ACCESS = re.compile(rf"{NAME}(?![A-Za-z])", re.IGNORECASE)
SECRET_NAME = re.compile(rf"{_GIVES_ACCESS.pattern}|KEY", re.IGNORECASE)
VARIABLE = re.compile(r"^((?:declare -\w{1,6} |export )?([ \t]{0,8}[A-Za-z_][^\s=]{0,200}[ \t]{0,8})=)(.*)$", re.DOTALL)
# Evidence in which a bare user or host name stands; elsewhere a name that is also a common word stays.
NAMING_ITEMS = frozenset({"uname", "user", "environment", "kernel-log", "text", "dev", "dev-after", "driver-libraries"})
_LISTINGS = frozenset({"dev", "dev-after", "driver-libraries"})
# Evidence on hardware and software. A word in it is a word of the trade, whoever is called so.
_TECHNICAL = frozenset(
    {
        "pci", "modules", "sys-modules", "driver-version", "sys-driver-version", "module-files", "os-release", "wsl-lib", "ldconfig",
        "nvcc", "dkms", "mokutil", "modinfo", "lspci", "lsmod", "lshw", "video-controllers", "windows-version", "tegra", "dmi",
        "nvidia-modprobe",
    }
)  # fmt: skip
_USER_VARIABLES = re.compile(r"^(?:USER|LOGNAME|SUDO_USER|USERNAME|SLURM_JOB_USER|PBS_O_LOGNAME|JUPYTERHUB_USER|LSFUSER|NB_USER)$")
_HOST_VARIABLES = re.compile(
    r"^(?:HOSTNAME|HOST|COMPUTERNAME|USERDOMAIN|SLURMD_NODENAME|SLURM_SUBMIT_HOST|SLURM_TOPOLOGY_ADDR|SLURM_CLUSTER_NAME|PBS_O_HOST|"
    r"LSB_SUB_HOST|"
    r"MASTER_ADDR|NODE_NAME|SLURM_LAUNCH_NODE_HOST|SLURM_JOB_NODELIST|SLURM_NODELIST)$"
)
_ACCOUNT_VARIABLES = re.compile(r"^(?:SLURM_JOB_ACCOUNT|SLURM_ACCOUNT|SBATCH_ACCOUNT|SALLOC_ACCOUNT|PBS_ACCOUNT|LSB_PROJECT_NAME)$")

_NAME = r"[A-Za-z_][\w.-]{0,62}\$?"
_PERSON = r"(?:[Uu]ser|USER|[Oo]wner|OWNER|LOGNAME|GroupId|RunAs)(?:[._]?[Nn]ame|_?NAME|Id)?"
_IS = r"[ \t]{0,4}(?:=|:(?!:)|>(?=[^<\n]{1,64}</))[ \t]{0,40}"
_ASKS = r"(?:bjobs|crane|docker|ipmitool|mongosh|mysql|podman|psql|qstat|sacct|scancel|skopeo|squeue)"
_HOST = r"[A-Za-z0-9][\w.-]{0,200}"
_NUMBERED = r"(?!v?\d|x86|i\d86|aarch|arm|ppc|cuda|sm_|compute_)(?=[\w.-]{0,60}\d)"  # neither a platform nor a version
_PROMPT = re.compile(
    rf"(?:^|[\s(\[\x07])({_NAME})@({_HOST})(?=(?::| )[~/][^\n]{{0,200}}?[$#%>](?:\s|$)|[ :][^\n\]]{{0,80}}\][$#%])", re.MULTILINE
)
_STAMP = r"^(?:\S{0,40}\| )?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,20}|\[ {0,6}\d{1,9}\.\d{1,9}\])"
_DAEMON = r"(?:kernel|systemd|sshd|sudo|slurmd|slurmstepd|dockerd|containerd|kubelet|nvidia-\w+|gnome-shell|CRON|cron)"
_OF_USERS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"\buid=\d{1,10}\(([^)\n]{1,256})\)",
        rf"\buser ({_NAME})\(uid=",
        rf"\bof [Uu]ser ({_NAME})\.?$",
        rf"\b(?:keyring|crontab|forbidden: User) (?:for )?\"?({_NAME})(?=[\" ]|$)",
        rf"\blogname: ({_NAME})$",
        rf"\b(?:(?:[Ll]ogged in(?: to \S{{1,80}})?|[Aa]uthenticated|[Ll]ogin|[Rr]unning) as|su -|runuser -u|sudo -u):? [\"'`]?({_NAME})",
        rf"^({_NAME}):(?:\$\w{{1,8}}\$|\{{SS?HA|[x*!]{{1,2}}:\d)",  # htpasswd, shadow, passwd
        rf"\b(?:login|username) ({_NAME})$",  # netrc
        rf"^({_NAME})\s{{1,20}}(?:pts/\d|tty\w|:\d)",  # last, who, w
        rf"^\d{{1,20}}[\w.+-]{{0,20}}\|({_NAME})\|",  # sacct -P
        rf"(?<![\w./-])\w{{0,30}}?{_PERSON}[\"']?{_IS}[\"']?({_NAME})(?=[\"',;:@()&<\s]|$)",
        rf"\b(?:CRON|cron)\[\d{{1,10}}\]: \(({_NAME})\)",
        rf"\b(?:docker|podman|helm|az|oc)\b[^\n]{{0,40}} login [^\n]{{0,80}}?-u {{0,2}}({_NAME})",
        rf"\b{_ASKS}\b[^\n]{{0,80}}? (?:-u|-U|--user|--username)[ =]({_NAME})",
        rf"\b(?:cn|uid|CN|UID)=({_NAME})(?=,)",
        rf"\b(?:login|username) ({_NAME}) password\b",
        rf"otpauth://\w{{1,8}}/(?:[^:/?\s]{{1,80}}:)?({_NAME})",
        rf"\b(?:publickey|password|session opened) for (?:invalid user |user )?({_NAME})\b",
        rf"\b(?:[Ii]nvalid|[Aa]uthenticating|[Dd]isconnected from) user ({_NAME})(?=[ :]|$)",
        rf"\bsudo(?:\[\d+\])?: {{1,8}}({_NAME}) : ",
        rf"\bssh (?:-\w \S{{1,80}} ){{0,3}}-l ({_NAME})\b",
        rf"\bchown (?:-\w{{1,8}} ){{0,2}}({_NAME})(?=[: ])",
        rf"(?:^|[$#%>]) ?(?:whoami|id -un)\n(?:[\w.-]{{1,60}}\\)?({_NAME})$",
        rf"\b({_NAME})\(\d{{1,7}}M\)(?=\s|$)",  # gpustat
        rf"/user/({_NAME})/(?:api|lab|notebooks|proxy|tree)\b",  # of a JupyterHub
        rf"^{_HOST}:[~/]\S{{0,80}} ({_NAME})[$%] ",  # the prompt of macOS
        rf"[Ll]ogged in as: {_NAME} \(({_NAME})\)",
        rf"\bby user <({_NAME})>",
        rf"\b(?:git@[\w.-]{{1,80}}:|wandb\.ai/)({_NAME})/",
    )
)
_OF_HOSTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"{_STAMP} ({_HOST}) {_DAEMON}\b[^\n]{{0,20}}:",
        rf"\b[Hh]ost_?[Nn]ame[\"']? {{0,2}}[=:] {{0,2}}[\"']?({_HOST})",
        rf"(?:^|[>\s'\"])Host: ({_HOST})",
        rf"\bmachine ({_HOST})$",
        rf"\bHost(?:Name)? ({_HOST})$",
        rf"^{_NAME}\s{{1,20}}(?:pts/\d|tty\w)[^\n]{{0,60}}\(({_HOST})\)$",
        rf"\b(?:srun|sbatch|slurmstepd|slurmd|mpirun)(?:-[\w.-]{{1,60}})?: error: ({_HOST}): ",
        rf"\bON ({_HOST}) CANCELLED\b",
        rf"[$#%>] ?hostname(?: -[fs])?\n({_HOST})$",
        rf"--(?:master[_-]addr|rdzv[_-]endpoint|head[_-]node|nodelist)[ =]({_HOST})",
        rf"\bssh (?:-\w \S{{1,80}} ){{0,3}}-l {_NAME} ({_HOST})",
        rf"\b(?:connect to host|resolve host(?:name)?|Connection (?:to|closed by|reset by)) ({_HOST})",
        r"\[([A-Za-z][\w.-]{1,200})\]:\d{2,5}\b",
        rf"(?:^|[\s:])({_HOST}):\d+:\d+ \[\d+\] NCCL\b",
        rf"^\[({_HOST}):\d{{3,7}}\] (?:\*\*\*|\[ ?\d|Signal)",
        rf"\bon node ({_HOST}) exited\b",
        rf"\b[Rr]ank \d{{1,6}} on ({_HOST})(?=[:, ]|$)",
        rf"\bDISPLAY[=:] ?({_HOST}):\d{{1,3}}(?:\.\d)?\b",
        rf"\bssh-remote\+({_HOST})",
        rf"\bhost=['\"]({_HOST})['\"]",
        r"\b(?:[Cc]onnect(?:ing|ed)?(?: to)?|[Rr]each(?:ing)?|[Ll]istening on|server at) ([A-Za-z][\w.-]{2,200}):\d{2,5}\b",
        r"^\s{0,20}(?:Host|Node|Machine|Server)(?:[Nn]ame)?: {1,20}([A-Za-z][\w.-]{2,200})$",
        rf"\b(?:MASTER_ADDR|SLURMD_NODENAME|nodename|NodeName|node_name|NodeList|BatchHost) ?[=:] ?({_HOST})",
        rf"\b(?:ssh|scp|rsync) (?:-\S+ ){{0,4}}(?:{_NAME}@)({_HOST})",
        rf"^Linux ({_HOST}) \d{{1,2}}\.\d",  # uname -a
        rf"^({_HOST}) {{2,40}}[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d \d{{4}}\b",  # gpustat
        rf"^({_HOST}):[~/]\S{{0,80}} {_NAME}[$%] ",
        rf"\b(?:to|from|on|at) \(({_HOST}), \d{{2,5}}\)",  # PyTorch's sockets
        rf"(?:^|[{{,])[ \t]{{0,20}}[\"']?(?:host|hostname|node|server)[\"']?[ \t]{{0,12}}[:=] ?[\"']?{_NUMBERED}({_HOST})",
        rf"-\w{{0,20}}(?:addr(?:ess)?|host|server|endpoint)[ =]({_HOST})(?=:\d)",
        rf"(?<![\w.])\d{{4,5}}@({_HOST})",  # of a licence server
        rf"\bgit@({_HOST}):",
        rf"^({_HOST})(?:,\S{{1,80}})? (?:ssh-\w{{3,8}}|ecdsa-\S{{1,30}}) AAAA",  # known_hosts
        rf"\bauthenticity of host '({_HOST}) \(",
    )
)
_OF_ACCOUNTS = re.compile(
    r"(?:--account(?:=| )|#SBATCH -A |\b\w{0,20}(?:[Aa]ccount(?:[ _]?[Nn]ame)?|ACCOUNT)[ \t]{0,2}[:=] ?|"
    r"\b(?:srun|sbatch|salloc)\b[^\n]{0,80} -A )"
    r"[\"']?([A-Za-z][\w.-]{1,60})"
)
# What somebody called his job or his network. Words that everybody uses for that stay.
_CALLED = re.compile(
    r"(\b(?:JobName=|job[-_ ]name[=:] ?)[\"']?|\bE?SSID[=:]? ?\")([A-Za-z][\w.-]{1,80}|(?<=\")[^\"\n]{1,64}(?=\"))", re.IGNORECASE
)
# Whose page it is.
_OF_PAGES = re.compile(r"(\b(?:huggingface\.co|wandb\.ai)/(?:(?:api|datasets|models|spaces)/){0,2})([\w.-]{2,96})(?=/)")
# A line of headings: several words, one of which stands above names of people.
_TABLE = re.compile(r"[ \t>|]{0,40}(?:[A-Z%][\w%/()+-]{1,30}[ \t]{1,60}){2}")
_COLUMN = re.compile(r"(?<!\S)(USER|UID|RUSER|EUSER|User|UserName|USERNAME|OWNER|Owner|LOGIN|Account|ACCOUNT)(?!\S)")
_COLUMN_OF_HOSTS = re.compile(r"(?<!\S)(NODELIST(?:\(REASON\))?|HOSTNAMES?|EXEC_HOST|FROM_HOST)(?!\S)")
_CELL = re.compile(r"\S{1,64}")
_RULE = re.compile(r"[-=+| ]{4,400}$")
_AUTHOR = re.compile(
    r"(\b(?:Author|Committer|Commit|From|To|Cc|Signed-off-by|Reviewed-by|Tested-by|Co-authored-by|Reported-by|Maintainer|Contact): {1,4})"
    r"([^\W\d_][^<>\n:@]{1,60}?)(?= ?(?:<|\())"
)
_OF_GIT = re.compile(r"(\bname = )([^\W\d_][^\n=]{1,60})(?=\n[ \t]{0,20}email = )")
# Ada Lovelace <address>, and the full name in a line of /etc/passwd.
_FULL_NAMES = re.compile(
    r"((?:^|[\"'(\[>,;]|: )[ \t]{0,4})([^\W\d_][\w'.-]{1,40}(?: [^\W\d_][\w'.-]{0,40}){1,4})(?= <(?:[^>\s@]{1,80}@|address-))"
    r"|(^[\w.-]{1,64}:[x*!]{0,2}:\d{1,10}:\d{1,10}:)([^:\n,]{3,80})(?=[:,])",
    re.MULTILINE,
)
_LS = re.compile(r"^[-bcdlps][-rwxsStT]{9}[.+@]? {1,8}\d+ {1,20}(\S+) {1,20}(\S+) {1,20}[\d,.]+[KMG]? ", re.MULTILINE)
# What stands before the numbers of other things than hosts.
_BEFORE_NUMBERS = re.compile(
    r"(?:gpu|cuda|nvidia|device|dev|card|rank|cpu|mig|sm|cu|lib|python|py|torch|rtx|gtx|h|a|v|t)[-_]?|node|.{0,200}[._]", re.IGNORECASE
)
_DUMPED = re.compile(r"^(?:export |declare -x )?[A-Za-z_]\w*=.*$")


MOST_NAMES = 1000  # of one kind


class Names:
    """The names of one evidence. `technical`: its texts on hardware and software."""

    def __init__(self, technical: str) -> None:
        self.users: set[str] = set()
        self.hosts: set[str] = set()
        self.groups: set[str] = set()
        self.accounts: set[str] = set()
        self.secrets: set[str] = set()
        self.technical, self.lower = technical, technical.lower()

    def distinct(self, names: Iterable[str]) -> set[str]:
        return {name for name in _longest(names) if not self._is_ordinary(name)}

    def ordinary(self, names: Iterable[str]) -> set[str]:
        return {name for name in _longest(names) if self._is_ordinary(name) and name.lower() not in WORDS}

    def siblings(self) -> set[str]:
        """What the names of numbered hosts begin with: where one is node-17, node-31 is one too."""
        found = (re.fullmatch(r"([A-Za-z][\w-]{2,60}?)\d{1,6}", host) for host in self.distinct(self.hosts))
        return {one[1] for one in found if one is not None and _BEFORE_NUMBERS.fullmatch(one[1]) is None}

    def _is_ordinary(self, name: str) -> bool:
        if len(name) < 3 or name.lower() in WORDS:
            return True
        return (
            name.lower() in self.lower and re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", self.technical, re.I) is not None
        )


def _longest(names: Iterable[str]) -> list[str]:
    """As many as are looked for wherever they stand; what its place says to be a name is replaced there in any case."""
    return sorted(names, key=lambda name: (-len(name), name))[:MOST_NAMES]


def personal(name: str) -> bool:
    """Whether a user's name tells who somebody is."""
    bare = name.rpartition("\\")[2]
    return bare.lower() not in USERS and not bare.isdigit() and SERVICES.match(bare) is None and bool(bare)


def of(evidence: Evidence) -> Names:
    """All names, of every piece of evidence."""
    names = Names(_technical(evidence))
    for item in evidence.items:
        for text in (item.stdout, item.stderr, item.why):
            if text and item.id not in _TECHNICAL and item.id != "packages":
                _from_text(names, text, item.id)
        if item.kind == "environment" and item.stdout:
            _from_environment(names, item.stdout)
        if item.id == "processes" and item.stdout:
            users = [entry.get("user") for entry in json_objects(item.stdout.split("\n"))]
            names.users.update(user.rpartition("\\")[2] for user in users if isinstance(user, str))
        if item.id == "uname" and item.stdout:
            names.hosts.update(item.stdout.split()[1:2])
    if evidence.node is not None:
        names.hosts.add(evidence.node)
    names.users = {name for name in names.users if personal(name) and len(name) > 1 and not PSEUDONYM.fullmatch(name)}
    names.hosts = {name for host in names.hosts for name in _host_names(host)}
    names.accounts = {name for name in names.accounts if name.lower() not in USERS | WORDS and len(name) > 2}
    names.groups = {name for name in names.groups - names.users - GROUPS if not name.isdigit() and SERVICES.match(name) is None}
    names.secrets = {secret for secret in names.secrets if secret not in names.technical}
    return names


def _technical(evidence: Evidence) -> str:
    """What evidence on hardware and software says, and the keys and single words of the workers' lines."""
    parts = [item.stdout or "" for item in evidence.items if item.id in _TECHNICAL]
    for item in evidence.items:
        if item.id == "packages":
            parts += [line for line in (item.stdout or "").split("\n") if "nvidia" in line or "cuda" in line]
        elif item.id.startswith("nvidia-smi"):
            parts.append((item.stdout or "").partition("Processes")[0])
        elif item.kind == "worker" and item.id != "processes":
            parts += _words_of(item.stdout or "")
    return HOME_OF_WINDOWS.sub(r"\1", HOME.sub(r"\1", "\n".join(parts)))


def _words_of(text: str) -> Iterator[str]:
    for entry in json_objects(text.split("\n")):
        for key, value in entry.items():
            yield key
            if isinstance(value, str) and (key == "name" or re.fullmatch(r"[\w.+-]{1,60}", value)):
                yield value


def _host_names(host: str) -> Iterator[str]:
    """A host's name, its first label, and the domain behind it. Slurm's lists (gpu[01-04]) give what stands before the bracket."""
    host = host.split("[")[0].strip(".,:")
    if PUBLIC.search(host) or re.fullmatch(r"[\d.]+", host):
        return
    if PSEUDONYM.fullmatch(host) or host.endswith((".py", ".so", ".cpp", ".cu", ".log")):
        return
    first, _, domain = host.partition(".")
    for name in (host, first, domain if "." in domain else ""):
        if len(name) > 2 and name.lower() not in USERS and not name.isdigit():
            yield name


def _from_environment(names: Names, text: str) -> None:
    for line in text.split("\n"):
        found = VARIABLE.match(line)
        if found is None or found[3] in ("", GONE):
            continue
        name, value = found[2], found[3].strip("\"'")
        if _USER_VARIABLES.match(name):
            names.users.add(value)
        elif _HOST_VARIABLES.match(name):
            names.hosts.add(value)
        elif _ACCOUNT_VARIABLES.match(name):
            names.accounts.add(value)
        elif name in ("HOME", "USERPROFILE"):
            names.users.add(os.path.basename(value.replace("\\", "/").rstrip("/")))
        elif _GIVES_ACCESS.search(name) and len(value) > 5 and not value.startswith(("/", "~", "file:")) and not value.isdigit():
            names.secrets.update({value} if value.lower() not in WORDS | USERS else ())


def _from_text(names: Names, text: str, item: str) -> None:
    for pattern in (HOME, HOME_OF_WINDOWS):
        names.users.update(match[2] for match in pattern.finditer(text) if re.fullmatch(r"[^\W\d][\w .-]*", match[2]))
    for match in _PROMPT.finditer(text):
        names.users.add(match[1])
        names.hosts.add(match[2])
    for patterns, found in ((_OF_USERS, names.users), (_OF_HOSTS, names.hosts)):
        for pattern in patterns:
            found.update(match[1] for match in pattern.finditer(text) if match[1].lower() not in WORDS)
    names.accounts.update(match[1] for match in _OF_ACCOUNTS.finditer(text))
    if item in _LISTINGS or item == "text":
        for match in _LS.finditer(text):
            names.users.add(match[1])
            names.groups.add(match[2])
    groups = re.search(r"\bgroups=(\S+)", text)
    names.groups.update(re.findall(r"\d\(([^)]{1,256})\)", groups[1]) if groups else ())
    if item == "text":
        names.users.update(name for name in _of_tables(text, _COLUMN) if re.fullmatch(_NAME, name) and name.lower() not in WORDS)
        names.hosts.update(name for name in _of_tables(text, _COLUMN_OF_HOSTS) if re.match(_HOST, name) and name.lower() not in WORDS)


def _of_tables(text: str, column: re.Pattern[str]) -> Iterator[str]:
    """What stands below such a heading, up to an empty line: ps, top, squeue, sacct, ls of jobs."""
    starts: list[int] = []
    ends: list[int] = []
    for line in text.split("\n"):
        heads = list(column.finditer(line)) if _TABLE.match(line) else []
        if heads or not line.strip():
            starts, ends = [head.start(1) for head in heads], [head.end(1) for head in heads]
        elif starts and not _RULE.match(line):
            for word in _CELL.finditer(line):
                last = bisect_left(starts, word.end()) - 1  # the last heading that begins before the word ends
                if last >= 0 and word.start() < ends[last]:
                    yield word.group().rstrip("+")


# ---------------------------------------------------------------- in their place
def in_their_place(text: str, pseudonyms: Pseudonyms) -> str:
    """Accounts where they are named as such, also those that are common words; and who wrote something, with all parts of the name."""
    for pattern in (_AUTHOR, _OF_GIT):
        text = pattern.sub(lambda match: match[1] + pseudonyms.user(match[2]), text)
    text = _OF_PAGES.sub(lambda match: match[1] + (match[2] if known(match[2]) else pseudonyms.user(match[2])), text)
    text = _CALLED.sub(lambda match: match[1] + (match[2] if known(match[2]) else pseudonyms.of("account", match[2])), text)
    text = _FULL_NAMES.sub(lambda match: (match[1] or match[3] or "") + pseudonyms.user(match[2] or match[4]), text)
    return _OF_ACCOUNTS.sub(lambda match: match[0][: match.start(1) - match.start()] + _account(match[1], pseudonyms), text)


def _account(name: str, pseudonyms: Pseudonyms) -> str:
    return name if PSEUDONYM.fullmatch(name) or name.lower() in WORDS else pseudonyms.of("account", name)


def without_dumped_variables(text: str) -> str:
    """A text that shows `env`: three and more lines in a row that set a variable keep the values that a recording of this machine keeps."""
    lines: list[str] = []
    for sets, group in groupby(text.split("\n"), key=lambda line: _DUMPED.match(line) is not None):
        block = list(group)
        lines += map(_dumped, block) if sets and len(block) >= 3 else block
    return "\n".join(lines)


def _dumped(line: str) -> str:
    found = VARIABLE.match(line)
    return line if found is None or _builds(found[2]) or keeps(found[2], found[3]) else found[1] + GONE


@lru_cache(maxsize=1000)
def _builds(name: str) -> bool:
    return _BUILDS.match(name) is not None and SECRET_NAME.search(name) is None


# What builds and frameworks read; a text shows these, and a recording of the machine does not need them.
_BUILDS = re.compile(
    r"^(?:NV\w*|NCCL\w*|TORCH\w*|PYTORCH\w*|TF_\w+|XLA\w*|JAX\w*|CUPY\w*|CMAKE\w*|C?CC|CXX|\w*FLAGS|FORCE_CUDA|SLURM_\w+|PBS_\w+|"
    r"LSB_\w+|CONDA_\w+|"
    r"[A-Z][A-Z0-9_]*VERSION|NAME|ID|ID_LIKE|PRETTY_NAME|VARIANT\w*|\w+_URL|[a-z]\w*)$"
)
