"""Takes what names a person or a machine out of evidence, when a recording is written.

Equal things stay equal, a prefix of a UUID stays a prefix of its pseudonym, line counts stay, and a path keeps its tail below the
home directory. The salt is drawn anew for each recording, so pseudonyms of two recordings do not match.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets

import msgspec

from cudadoctor.model.evidence import Evidence, Item

# Variables whose value a diagnosis reads. All others keep their name and lose their value.
KEPT_VARIABLES = re.compile(
    r"^(CUDA\w*|NUMBA\w*|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_CUDA|DISABLE_REQUIRE)|LD_LIBRARY_PATH|LD_PRELOAD|LIBRARY_PATH|"
    r"PATH|PYTHONPATH|PYTHONHOME|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV|CUDNN_\w*|TORCH_CUDA_ARCH_LIST|NCCL_\w*_DISABLE|XLA_FLAGS|"
    r"SLURM_JOB_ID|SLURM_JOBID|SLURM_JOB_GPUS|SLURM_STEP_GPUS|SLURM_GPUS\w*|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|"
    r"PBS_JOBID|PBS_GPUFILE|LSB_JOBID|LSB_GPU_ALLOC|JOB_ID|WSL_DISTRO_NAME|WSL_INTEROP|WSLENV|container|LANG|LC_\w+|TERM|TMPDIR)$"
)
_SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSW|KEY|CREDENTIAL)", re.IGNORECASE)
_UUID = re.compile(r"\b((?:GPU|MIG)-)([0-9a-fA-F]{2}[0-9a-fA-F-]{0,34})|\b([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b")
_HOME = re.compile(r"(/home/|/Users/)([^/\s:;'\",]+)")
# C:\Users\name, in JSON with every backslash twice. The name may hold blanks where the path goes on behind it.
_HOME_OF_WINDOWS = re.compile(
    r"([A-Za-z]:[\\/]{1,2}Users[\\/]{1,2})(?!(?:Public|Default|All Users)\b)([^\\/:*?\"<>|\r\n\t;]{1,64}(?=[\\/])|[^\\/:*?\"<>|\s;,']+)",
    re.IGNORECASE,
)
# The end of a device's name in Windows, which may be the card's serial number.
_INSTANCE = re.compile(r"(PCI\\{1,2}VEN_[0-9A-F]{4}[^\\\s\"]{0,80}\\{1,2})([0-9A-F&]{4,64})", re.IGNORECASE)
_IPV4 = re.compile(r"\b(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)\b")
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]+")
_COMMAND_FIELD = re.compile(r'("command": ?")((?:[^"\\]|\\.)*)(")')
_USER_FIELD = re.compile(r'("user": ?")((?:[^"\\]|\\.)*)(")')
_SERIALS = re.compile(
    r'((?:Serial Number|GPU PDI)[ \t]{0,60}: |<(?:serial|gpu_pdi)>|"serial_num"[ \t]{0,8}:[ \t]{0,8}")(?!N/A)[^\s"<]{1,80}'
)
_BOOT_LINE = re.compile(r"((?:C|Kernel c)ommand line:)[^\n]*")  # boot parameters may hold addresses and keys
_CREDENTIALS = re.compile(r"(://)[^/\s@]+@")  # user:password@ in an address
_IPV6 = re.compile(r"\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{0,4}\b|\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){1,5}::[0-9a-f:]*", re.IGNORECASE)
# Lines of the kernel log that any reader of it looks at; what the rest of a log says of a machine concerns nobody.
_KERNEL_LINE = re.compile(
    r"nvidia|nvrm|nouveau|nova|vfio|pci-stub|xid|linux version|module|lockdown|secure ?boot|pcieport|10de|blocked for more than|bbswitch|"
    r"command line",
    re.IGNORECASE,
)
# Names that tell nobody who somebody is, and that stand in paths, package names and JSON keys as ordinary words.
_COMMON_USERS = frozenset(
    [
        "root",
        "nobody",
        "daemon",
        "video",
        "render",
        "vglusers",
        "admin",
        "user",
        "users",
        "ubuntu",
        "debian",
        "fedora",
        "centos",
        "rocky",
        "arch",
        "ec2-user",
        "azureuser",
        "opc",
        "nvidia",
        "cuda",
        "gpu",
        "python",
        "conda",
        "numba",
        "docker",
        "jovyan",
        "vscode",
        "runner",
        "builder",
        "home",
        "local",
        "opt",
        "usr",
        "lib",
        "bin",
        "data",
        "work",
        "app",
        "test",
    ]
)
# Groups that every system has under these names: they tell what a user may do, and nothing of who it is. Others are named after
# departments, projects and people.
_COMMON_GROUPS = _COMMON_USERS | frozenset(
    (
        "adm", "admins", "audio", "cdrom", "dialout", "dip", "disk", "floppy", "games", "google-sudoers", "input", "kvm", "libvirt", "lp",
        "lpadmin", "lxd", "netdev", "nogroup", "optical", "plugdev", "podman", "power", "sambashare", "scanner", "sgx", "staff", "storage",
        "sudo", "sudoers", "sys", "systemd-journal", "tape", "tty", "usb", "utmp", "wheel",
    )
)  # fmt: skip
# Evidence in which the name of a group stands: `id`, and what `ls -l` prints.
_GROUP_ITEMS = frozenset({"user", "dev", "dev-after", "driver-libraries"})
# Evidence in which a bare user or host name stands; elsewhere only paths below a home folder name a person.
_NAMING_ITEMS = frozenset({"uname", "user", "environment", "kernel-log", "text", "dev", "dev-after", "driver-libraries"})


class Redactor:
    """One recording's pseudonyms."""

    def __init__(self, names: frozenset[str], hosts: frozenset[str], groups: frozenset[str] = frozenset()) -> None:
        self.salt = secrets.token_bytes(16)
        words = [re.escape(name) for name in sorted(names - _COMMON_USERS, key=len, reverse=True) if len(name) > 1]
        machines = [
            re.escape(host)
            for host in sorted(hosts, key=len, reverse=True)
            if len(host) > 2 and host not in _COMMON_USERS | {"localhost", "host"}
        ]
        self.users = re.compile(r"(?<![\w.-])(" + "|".join(words) + r")(?![\w-])") if words else None
        self.hosts = re.compile(r"(?<![\w.-])(" + "|".join(machines) + r")(?![\w-])") if machines else None

        others = [re.escape(group) for group in sorted(groups - names - _COMMON_GROUPS, key=len, reverse=True) if not group.isdigit()]
        self.groups = re.compile(r"(?<![\w.-])(" + "|".join(others) + r")(?![\w-])") if others else None

    def digest(self, text: str, length: int = 6) -> str:
        return hashlib.blake2s(text.encode(), key=self.salt).hexdigest()[:length]

    def uuid(self, match: re.Match[str]) -> str:
        head, tail = (match.group(1), match.group(2)) if match.group(1) else ("", match.group(3))
        out = []
        for place, letter in enumerate(tail):
            if letter == "-":
                out.append(letter)
            else:
                shift = int(self.digest(tail[:place].lower(), 1), 16)
                shifted = f"{(int(letter, 16) + shift) % 16:x}"
                out.append(shifted.upper() if letter.isupper() else shifted)
        return head + "".join(out)

    def text(self, text: str, *, names: bool = True) -> str:
        text = _CREDENTIALS.sub(r"\1<redacted>@", text)
        text = _SERIALS.sub(r"\1<redacted>", text)
        text = _UUID.sub(self.uuid, text)
        text = _HOME_OF_WINDOWS.sub(lambda match: f"{match.group(1)}user-{self.digest(match.group(2).lower())}", text)
        text = _INSTANCE.sub(lambda match: f"{match.group(1)}{self.digest(match.group(2).lower(), 12).upper()}", text)
        text = _HOME.sub(lambda match: f"{match.group(1)}user-{self.digest(match.group(2))}", text)
        text = _EMAIL.sub("<address>", text)
        text = _IPV4.sub(lambda match: match.group() if self.version_like(text, match) else "<ip>", text)
        text = _MAC.sub("<mac>", text)
        text = _IPV6.sub("<ip>", text)
        if not names:
            return text
        if self.hosts is not None:
            text = self.hosts.sub("host", text)
        if self.users is not None:
            text = self.users.sub(lambda match: f"user-{self.digest(match.group(1))}", text)
        return text

    @staticmethod
    def version_like(text: str, match: re.Match[str]) -> bool:
        """Package versions such as 13.1.0.3 have the form of an address; what stands before them tells."""
        before = text[max(0, match.start() - 24) : match.start()]
        return not re.search(r"(addr|inet|host|from|to|ip|@|//)[ :=]*$", before, re.IGNORECASE)

    def environment(self, text: str) -> str:
        lines = []
        for line in text.split("\n"):
            name, equals, value = line.partition("=")
            if equals and (not KEPT_VARIABLES.match(name) or _SECRET_NAME.search(name) or _CREDENTIALS.search(value)):
                value = "<redacted>"
            lines.append(f"{name}{equals}{value}")
        return "\n".join(lines)

    def processes(self, text: str) -> str:
        text = _COMMAND_FIELD.sub(lambda match: match.group(1) + (match.group(2).split(" ")[0]) + match.group(3), text)
        return _USER_FIELD.sub(lambda match: match.group(1) + self.user(match.group(2)) + match.group(3), text)

    def user(self, name: str) -> str:
        return name if name in _COMMON_USERS else f"user-{self.digest(name)}"

    def item(self, item: Item) -> Item:
        out, err = item.stdout, item.stderr
        if out is not None:
            if item.kind == "environment":
                out = self.environment(out)
            if item.id == "kernel-log":
                out = _BOOT_LINE.sub(r"\1 <redacted>", out)
                out = "\n".join(line if not line or _KERNEL_LINE.search(line) else "<redacted>" for line in out.split("\n"))
            if item.id == "processes":
                out = self.processes(out)
            out = self.text(out, names=item.id in _NAMING_ITEMS)
            if self.groups is not None and item.id in _GROUP_ITEMS:
                out = self.groups.sub(lambda match: f"group-{self.digest(match.group(1))}", out)
        what = self.text(item.what) if isinstance(item.what, str) else tuple(self.text(word) for word in item.what)
        return msgspec.structs.replace(
            item,
            what=what,
            stdout=out,
            stderr=None if err is None else self.text(err),
            why=None if item.why is None else self.text(item.why),
        )


def _groups_of(evidence: Evidence) -> frozenset[str]:
    """The groups that `id` names."""
    user = evidence.get("user")
    found = re.search(r"groups=(.*)", user.stdout) if user is not None and user.stdout else None
    return frozenset(re.findall(r"\d+\(([^)]+)\)", found[1])) if found is not None else frozenset()


def _names_of(evidence: Evidence) -> tuple[frozenset[str], frozenset[str]]:
    """User and host names that the evidence itself shows."""
    users: set[str] = set()
    hosts: set[str] = set()
    user = evidence.get("user")
    if user is not None and user.stdout:
        users.update(re.findall(r"uid=\d+\(([^)]+)\)", user.stdout))
    uname = evidence.get("uname")
    if uname is not None and uname.stdout:
        hosts.update(uname.stdout.split()[1:2])
        hosts.update(name.split(".")[0] for name in uname.stdout.split()[1:2])
    environment = evidence.get("environment")
    if environment is not None and environment.stdout:
        users.update(re.findall(r"^(?:USER|LOGNAME|SUDO_USER|USERNAME)=(.+)$", environment.stdout, re.MULTILINE))
        hosts.update(re.findall(r"^(?:HOSTNAME|COMPUTERNAME|USERDOMAIN)=(.+)$", environment.stdout, re.MULTILINE))
        users.update(os.path.basename(home) for home in re.findall(r"^HOME=(/(?:home|Users)/[^/\n]+)$", environment.stdout, re.MULTILINE))
    return frozenset(users), frozenset(hosts)


def redact(evidence: Evidence) -> Evidence:
    """The same evidence without names of people and machines."""
    redactor = Redactor(*_names_of(evidence), _groups_of(evidence))
    return msgspec.structs.replace(
        evidence,
        items=tuple(redactor.item(item) for item in evidence.items),
        redacted=True,
        python=None if evidence.python is None else redactor.text(evidence.python),
        python_why=None if evidence.python_why is None else redactor.text(evidence.python_why),
        node=None if evidence.node is None else "node",
        remarks=tuple(redactor.text(remark).replace(evidence.node or "\n", "node") for remark in evidence.remarks),
    )
