"""What in a text opens a door or names a person or a machine whatever evidence it stands in: secrets, addresses, numbers of devices.

`Pseudonyms.text` replaces it. Equal things get equal pseudonyms, a prefix of a UUID stays a prefix of its pseudonym, line counts stay, and
a path keeps its tail below the home directory. The salt is drawn anew for each recording, so pseudonyms of two recordings do not match.
Standard library only.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from cudadoctor.sources import handed_over, keyed
from cudadoctor.sources.common_names import PUBLIC, USERS

GONE = "<redacted>"
PSEUDONYM = re.compile(r"(?:user|host|group|account|serial|dir)-[0-9a-f]{6}")
# ---------------------------------------------------------------- what opens a door
_PEM = re.compile(r"-----BEGIN ([A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?)-----(?:(?!-----BEGIN).){0,20000}?(?:-----END \1-----|\Z)", re.DOTALL)
_CREDENTIALS = re.compile(r"(://)[^/\s\"'<>]{1,400}@")  # user:password@ in an address; a password may hold an @
_LOGIN_AT = re.compile(r"(?<=[\s=\"'])[\w.%+-]{1,64}:[^\s@/:\"']{1,200}@(?=[\w.-]{1,200}:\d{2,5}\b)")  # the same without a scheme
_KNOWN_FORMS = re.compile(
    r"\b(?:(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_\w{20,255}|gl(?:pat|rt|dt|cbt|ptt|"
    r"soat)-[\w-]{16,200}|"
    r"(?:api_org|hf)_[A-Za-z0-9]{16,200}|nvapi-[\w-]{16,200}|xox[abeoprs][-.][\w-]{10,200}|xapp-\d-[\w-]{8,200}|sk-[A-Za-z0-9_-]{16,250}|[rs]k_(?:live|"
    r"test)_\w{16,200}|"
    r"AIza[\w-]{35}|ya29\.[\w-]{16,400}|pypi-[\w-]{16,400}|npm_[A-Za-z0-9]{30,60}|dckr_(?:pat|oat)_[\w-]{16,100}|dop_v1_[0-9a-f]{40,80}|"
    r"SG\.[\w-]{16,40}\.[\w-]{16,60}|wandb_v1_\w{16,200}|eyJ[\w-]{8,600}\.[\w-]{4,4000}(?:\.[\w-]{0,4000})?|"
    r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\S{1,30}) [A-Za-z0-9+/]{20,4000}={0,3}|SHA256:[A-Za-z0-9+/]{43}|"
    r"AGE-SECRET-KEY-1[A-Z0-9]{40,80}|(?:AC|SK)[0-9a-f]{32}|[MNO][\w-]{22,28}\.[\w-]{6}\.[\w-]{27,40}|[hsb](?:v[sbr])?\.[A-Za-z0-9]{24,200}|"
    r"tskey-[\w-]{16,80}|\d{8,10}:[A-Za-z0-9_-]{34,36}(?![\w-])|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{40,80}|[\w.~-]{3}\dQ~[\w.~-]{31,36}|"
    r"NRAK-[A-Z0-9]{20,40}|sq0[a-z]{3}-[\w-]{20,60}|dt0[a-z]\d\d\.[A-Z0-9]{16,30}\.[A-Z0-9]{40,70}|pul-[0-9a-f]{30,60}|pnu_\w{20,100}|"
    r"rdme_[a-z0-9]{30,90}|sm_aat_\w{12,60}|a[ks]-(?=[A-Za-z]{0,25}\d)[A-Za-z0-9]{20,30}|"
    r"whsec_[\w+/-]{16,100}|pscale_(?:tkn|pw|oauth)_[\w.-]{16,100}|rpa_[A-Za-z0-9]{30,60}|(?<![\w+/])[A-Za-z0-9+/]{30,20000}={1,2}(?![\w=]))"
)
# 40 letters of both cases and digits without a separator: what a cloud calls a secret key. Mangled names of C++ have _ before them.
_OPAQUE = re.compile(
    r"(?<![\w+/=.-])(?=[A-Za-z0-9+]{0,39}[A-Z])(?=[A-Za-z0-9+]{0,39}[a-z])(?=[A-Za-z0-9+]{0,39}\d)[A-Za-z0-9+]{40}(?![\w+/=.-])"
)
# Long ones with signs between: many letters of both cases and many digits. A name that a compiler made begins with _Z or ?.
_LONG_OPAQUE = re.compile(
    r"(?<![\w+/=.?@$-])(?!_Z|[A-Za-z]{0,12}::)(?=(?:[^A-Z\s]{0,40}[A-Z]){4})(?=(?:[^a-z\s]{0,40}[a-z]){4})(?=(?:[^0-9\s]{0,40}[0-9]){3})"
    r"[A-Za-z0-9+/_-]{40,20000}={0,3}(?![\w+/.-])"
)
# Shorter ones, wherever they stand: letters and digits by turns, as no word of a program has them; in both cases, or in one where
# not all are digits of a hexadecimal number; in capitals also base32, and a key in groups.
_BY_TURNS = re.compile(
    r"(?<![A-Za-z0-9+/?@$])(?!ZT?[NLISV]?K?\d|(?<=_)Z[A-Z]{1,4}[a-z])(?:(?=(?:[^A-Z\s]{0,40}[A-Z]){2})(?=(?:[^a-z\s]{0,40}[a-z]){2})"
    r"(?=\d{0,20}(?:[A-Za-z]{1,20}\d{1,20}){3})[A-Za-z0-9]{16,20000}|(?=[a-z0-9]{0,63}[g-z])(?=\d{0,20}(?:[a-z]{1,40}\d{1,20}){3})[a-z0-9]{20,20000}|"
    r"(?=(?:[A-Z]{1,20}[2-7]{1,20}){2})[A-Z2-7]{16,20000}|(?=[A-Z0-9]{0,63}[G-Z])(?=\d{0,20}(?:[A-Z]{1,20}\d{1,20}){3})[A-Z0-9]{12,20000}|"
    r"(?=[A-Z0-9-]{0,60}[G-Z])(?=(?:[A-Z-]{0,12}\d){4})(?:[A-Z0-9]{4,8}-){3,6}[A-Z0-9]{4,8})(?![A-Za-z0-9])"
)
# What a webhook's address ends with lets anybody write there.
_WEBHOOK = re.compile(
    r"(?i)((?:hooks\.slack\.com/(?:services|workflows|triggers)|hooks\.[\w.-]{1,60}/hooks/catch|[\w./-]{0,80}/webhooks?(?:b2)?|api\.telegram\.org)/|"
    r"/bot(?=\d{6,12}:))[\w:/.@%-]{12,400}"
)
_HASHED = re.compile(
    r"((?:^|[:\s\"'=])(?:\$(?:apr1|1|2[abxy]?|5|6|7|y|gy|sha1|argon2\w{0,2}|scrypt|pbkdf2[\w-]{0,12})\$|grub\.pbkdf2\.|\{SS?HA\d{0,3}\}))([^\s:\"']{8,300})",
    re.MULTILINE,
)
_PGPASS = re.compile(r"^([\w.*-]{1,200}:(?:\d{2,5}|\*):[^:\s]{1,80}:)([^:\s]{1,80}):(\S{3,200})$", re.MULTILINE)
_VAULT = re.compile(r"(\$ANSIBLE_VAULT;[^\n]{0,80}\n)((?:[ \t]{0,40}[0-9a-f]{16,120}[ \t]{0,4}(?:\n|\Z)){1,400})")
_SCHEME = re.compile(
    r"(\b(?:Basic (?=[A-Za-z0-9+/]{0,80}[A-Z])(?=[A-Za-z0-9+/]{0,80}(?:\d|=))|[Bb]earer {1,2}(?!authentication|tokens?\b)))"
    r"(?P<value>[^\s\"'\\]{6,4000})"
)
_CHANNEL = re.compile(r"(://[^\s/]{1,200}/t/)[\w-]{6,200}(?=/)")  # conda's way to put a token into a channel
# ---------------------------------------------------------------- what names a person or a machine
_UUID = re.compile(
    r"\b((?:GPU|MIG)-)([0-9a-fA-F]{2}[0-9a-fA-F-]{0,34})|"
    r"(?:(?<![0-9a-fA-F])|(?<=pod))((?<!-)[0-9a-fA-F]{8}([-_])[0-9a-fA-F]{4}\4[0-9a-fA-F]{4}\4[0-9a-fA-F]{4}\4[0-9a-fA-F]{12}|"
    r"[0-9a-f]{32,20000}|[0-9A-F]{32,20000})(?![0-9a-zA-Z])"
)
# Some sites sort their users by the first letter: /home/a/ada.
HOME = re.compile(
    r"(/home/(?:[a-z0-9]/(?=[\w.-]{2}))?|/homes/(?:[a-z0-9]/(?=[\w.-]{2}))?|/Users/)"
    r"((?<=/Users/)[^/\s:;'\",\\]{1,40}(?: [^/\s:;'\",\\]{1,40}){1,2}(?=/)|[^/\s:;'\",\\<>|)\]}]+)"
)
_HOME_IN_WSL = re.compile(r"(\\{1,2}home\\{1,2})([^\\/\s:;'\",<>|]+)")
# C:\Users\name, in JSON with every backslash twice. The name may hold blanks where the path goes on behind it.
HOME_OF_WINDOWS = re.compile(
    r"([A-Za-z]:[\\/]{1,2}(?:Users|Documents and Settings)[\\/]{1,2})(?!(?:Public|Default|All Users)\b)"
    r"([^\\/:*?\"<>|\r\n\t;]{1,64}(?=[\\/])|[^\\/:*?\"<>|\s;,']+)",
    re.IGNORECASE,
)
# The end of a device's name in Windows, which may be the card's serial number.
_INSTANCE = re.compile(r"(PCI\\{1,2}VEN_[0-9A-F]{4}[^\\\s\"]{0,80}\\{1,2})([0-9A-F&]{4,64})", re.IGNORECASE)
_SID = re.compile(r"\bS-1-5-21-\d{1,12}(?:-\d{1,12}){2,3}\b")
_SERIAL = re.compile(
    r"((?:\bserial(?:[ _-]?(?:number|num|no))?|\bGPU PDI|\bgpu_pdi|\bS/N|service[ _-]tag|asset[ _-]tag)[\"']?[ \t]{0,60}(?:[:=#]|"
    r">)[ \t]{0,20}[\"']?)"
    r"(?!\[?N/A|unknown|none|not |to be|default|<|serial-[0-9a-f]{6}\b)([^\s\"'<,;]{3,80})",
    re.IGNORECASE,
)
_GUID = re.compile(r"(\bGUIDs?:?[ \t]{1,8}0x)([0-9a-f]{8,16})\b", re.IGNORECASE)
_CSV = re.compile(
    r"^([^\n]{0,200}?(?:^|, ?)(?:gpu_)?serial(?:_number)?(?:,[^\n]{0,400})?)\n((?:[^\n]{0,400},[^\n]{0,400}(?:\n|\Z)){1,64})", re.MULTILINE
)
_AROUND = " \t\"'"
# A table with a heading, by bars, commas or tabs, of which one column holds passwords.
_HEADED = re.compile(
    r"^((?:[^\n]{0,200}[,;|\t])?[ \t\"']{0,4}(?:passw(?:or)?d|passphrase|pwd?|secret|api[ _-]?key|kennwort)"
    r"[ \t\"']{0,20}(?:[,;|\t][^\n]{0,400})?)\n"
    r"((?:[^\n]{1,400}(?:\n|\Z)){1,64})",
    re.MULTILINE | re.IGNORECASE,
)
_SERIAL_IN_PROSE = re.compile(
    r"(\b(?:serial(?: (?:number|no\.?))?|S/N)[ \t]{1,8})((?=[\w-]{0,40}\d{4})[A-Za-z0-9][\w-]{6,60})", re.IGNORECASE
)
# Boot parameters may hold addresses and keys. Those that concern a GPU stay.
_BOOT_LINE = re.compile(r"((?:C|Kernel c)ommand line:|^[ \t]{0,8}(?=BOOT_IMAGE=))([^\n]*)", re.MULTILINE)
_BOOT_WORD = re.compile(
    r"(?:nomodeset|(?:nouveau|nvidia[\w-]{0,20}|nova[\w-]{0,20}|modprobe|module|rd\.driver|vfio[\w-]{0,20})[._][\w.-]{1,60}=[\w.,:-]{0,400}"
    r"|(?:intel_|amd_)?iommu=\w{1,20}|module_blacklist=[\w,-]{1,400}|pci(?:e_\w{1,20})?=[\w,:]{1,200}|lockdown=\w{1,20})"
)
# user@host of whoever built a kernel or a driver at home. Those of distributions and of NVIDIA name nobody.
_BUILDER = re.compile(
    r"\((?!(?:dvs-builder|buildd|mockbuild|root|builder|linux|abuild|geeko|reproducible)@)([\w.-]{1,64})@([\w.-]{1,200})\)"
)
# Units of systemd (user@1000.service) and symbols of libraries (name@libcudart.so) are written so as well.
EMAIL = re.compile(
    r"(?<![\w.+-])(?!git@)[\w.+-]{1,100}@(?![\w.-]{0,100}\.(?:service|slice|socket|target|timer|scope|mount|so|py|"
    r"whl)\b)(?:[\w-]{1,100}\.){1,10}[A-Za-z]\w{0,40}"
)
# Without a dot behind the @, where nothing else is written so.
_AT_HOST = re.compile(
    r"(?<![\w.+@/-])(?!git@)([A-Za-z_][\w.-]{1,63})@(?!(?:https?|file|git|ssh|main|master|latest|"
    r"develop)\b)([A-Za-z][\w-]{1,63})(?![\w.(@])"
)
URL_HOST = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,20}://(?:<redacted>@)?)([A-Za-z0-9_][\w.-]{0,200})")
_SHARE = re.compile(r"((?:^|(?<=[\s\"'=(]))(?:\\\\){1,2})(?!wsl)([A-Za-z][\w.-]{1,200})(?=\\)", re.MULTILINE)
_WITH_PORT = re.compile(r"(?<![\w/.@-])([A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){1,8})(?=:\d{2,5}/)")
# A name on the network, by how it ends. What Python and programs write with dots has other ends, or no sign and no digit in it.
_FULL_NAME = re.compile(
    r"(?<![\w./@-])(?=[\w.-]{0,200}(?:\.(?:com|org|edu|gov|mil|de|fr|uk|ch|at|nl|be|eu|jp|cn|kr|tw|ca|au|nz|se|fi|dk|es|pt|pl|cz|br|ru|ua|il|tr|gr|ie)|[\d-][\w.-]{0,200}\.(?:net|io|ai|dev|cloud|app|tech|local))\b)"
    r"(?:[A-Za-z0-9](?:[\w-]{0,61}[A-Za-z0-9])?\.){1,8}(?:com|net|io|ai|dev|cloud|app|tech|local|org|edu|gov|mil|de|fr|uk|ch|at|nl|be|eu|jp|cn|kr|tw|ca|au|nz|se|fi|dk|es|pt|pl|cz|br|ru|ua|il|tr|gr|ie)"
    r"(?![\w-]|\.\w|\()"
)
_BY_ITS_END = re.compile(
    r"(?<![\w.-])(?:[\w-]{1,63}\.){1,6}(?:localdomain|lan|corp|intranet|home\.arpa|cluster\.local|compute\.internal|ec2\.internal|"
    r"c\.[\w-]{1,60}\.internal)\b"
    r"|\bip-\d{1,3}(?:-\d{1,3}){3}\b"
)
_IPV4 = re.compile(r"(?<![\w.-])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)")
_MAC = re.compile(
    r"(?<![\w:.-])(?:(?:[0-9a-f]{2}:){5}(?:[0-9a-f]{2}:){0,14}[0-9a-f]{2}|(?:[0-9a-f]{2}-){5}[0-9a-f]{2}|"
    r"(?=[\d.]{0,12}[a-f])[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}|"
    r"(?!(?:[0-9a-f]{4}:){0,2}10de:)(?:[0-9a-f]{4}:){3}[0-9a-f]{4})(?![\w:-]|\.\w)",
    re.IGNORECASE,
)
_IPV6 = re.compile(
    r"(?<![\w:.])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?=[0-9a-f:]{0,40}\d)(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}|"
    r"(?:[0-9a-f]{1,4}:){2,7}:)"
    r"(?![\w:])",
    re.IGNORECASE,
)
_ADDRESSED = re.compile(
    r"(?:\b(?:\w{0,20}_)?(?:addr(?:ess)?|inet|host|server|from|to|ip|at|src|dst|gateway|proxy)|@|//|\[)[ :=\"']{0,3}$", re.IGNORECASE
)
# Package versions such as 13.1.0.3 have the form of an address; what stands around them tells. No version begins as these networks do.
PRIVATE = re.compile(r"(?:192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254)\.")
# What has versions of four numbers. Hosts and programs are called after CUDA, Torch and NVIDIA too, so a name counts as a whole.
PRODUCT = (
    r"(?:python3?-)?(?:nvidia[-_](?:prime|settings|modprobe|driver|dkms|utils)|cuda[-_](?:toolkit|compat|cudart|drivers|libraries|nvcc|runtime)|"
    r"(?:nvidia[-_])?(?:lib)?(?:cublas(?:lt|xt)?|cudnn|cudss|cufftw?|cufile|cupti|curand|cusolver(?:mg)?|cusparse(?:lt)?|cutensor(?:mg)?|"
    r"nccl|npp[a-z]{0,4}|nvcomp|nvfatbin|nvinfer|nvjitlink|nvjpeg(?:2k)?|nvonnxparsers?|nvparsers|nvrtc|nvshmem|nvtx|nvvm|tensorrt))"
    r"(?:[-_.](?:cu|cuda|dev|devel|libs?|bindings|headers|static|runtime|bin|dispatch|lean|plugin|vc|common|lt|so)(?![a-z])|[-_.]?(?:cu)?\d{1,4}|"
    r":(?:amd64|arm64)|\[\w{1,20}\]){0,8}"
)
_OF_PACKAGE = re.compile(
    rf"(?:[=<>~!]=\s?[\"']?|[\w)\],]\s?[<>]\s?|\.so\.|version[\"']?\s?[:=]?\s?[\"']?|release\s|"
    rf"(?<![\w.-]){PRODUCT}[\s|:,\"'(=<>~!]{{1,60}})$",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"(?:[-+](?:\d|cu(?:da)?[-.]?\d|(?:microsoft|ubuntu|deb|ga|rc|py\d)(?![a-z]))|\.(?:whl|tar|run|deb|rpm|zip|conda)\b|\.\*)"
)
_LONG, _SHORT = 80, 16  # characters looked at before and after


class Pseudonyms:
    """One recording's pseudonyms, and what was replaced: the different things of each kind."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)
        self.replaced: dict[str, set[str]] = {}

    def digest(self, text: str, length: int = 6) -> str:
        return hashlib.blake2s(text.encode("utf-8", "replace"), key=self.salt).hexdigest()[:length]

    def note(self, kind: str, original: str) -> None:
        self.replaced.setdefault(kind, set()).add(self.digest(original, 16))

    def of(self, kind: str, original: str) -> str:
        """`user-3f2a1c`: the same for the same name, whatever the case of its letters."""
        self.note(kind, original.lower())
        return f"{kind}-{self.digest(original.lower())}"

    def gone(self, original: str) -> str:
        self.note("secret", original)
        return GONE

    def uuid(self, match: re.Match[str]) -> str:
        head, tail = (match.group(1), match.group(2)) if match.group(1) else ("", match.group(3))
        self.note("UUID", tail.lower())
        out = []
        for place, letter in enumerate(tail):
            if letter in "-_":
                out.append(letter)
            else:
                shift = int(self.digest(tail[:place].lower(), 1), 16)
                shifted = f"{(int(letter, 16) + shift) % 16:x}"
                out.append(shifted.upper() if letter.isupper() else shifted)
        return head + "".join(out)

    def value(self, match: re.Match[str]) -> str:
        """What was found, without the value at its end."""
        return match.group()[: match.start("value") - match.start()] + self.gone(match.group("value"))

    # ------------------------------------------------------------ a text
    def text(self, text: str) -> str:
        """The text without what its form alone shows to be private."""
        return self.addresses(self.numbers(self.secrets(text)))

    def secrets(self, text: str) -> str:
        if "PRIVATE KEY" in text:
            text = _PEM.sub(lambda match: self.gone(match.group()) + "\n" * match.group().count("\n"), text)
        if "://" in text:
            text = _CREDENTIALS.sub(lambda match: f"{match.group(1)}{self.gone(match.group())}@", text)
            text = _CHANNEL.sub(lambda match: match.group(1) + self.gone(match.group()), text)
        if "@" in text:
            text = _LOGIN_AT.sub(lambda match: f"{self.gone(match.group())}@", text)
        text = _KNOWN_FORMS.sub(lambda match: self.gone(match.group()), text)
        text = _WEBHOOK.sub(lambda match: match.group(1) + self.gone(match.group()), text) if "/" in text else text
        if "ANSIBLE_VAULT" in text:
            text = _VAULT.sub(lambda match: match.group(1) + self.gone(match.group(2)) + "\n" * match.group(2).count("\n"), text)
        text = _PGPASS.sub(lambda match: match.group(1) + self.user(match.group(2)) + ":" + self.gone(match.group(3)), text)
        text = _HASHED.sub(lambda match: match.group(1) + self.gone(match.group(2)), text)
        text = _HEADED.sub(self.headed, handed_over.without(text, self.gone))
        text = _SCHEME.sub(self.value, self.keyed(text))
        for pattern in (_OPAQUE, _LONG_OPAQUE, _BY_TURNS):
            text = pattern.sub(lambda match: self.gone(match.group()), text)
        return text

    def headed(self, match: re.Match[str]) -> str:
        """The cells below a heading that names a secret, in lines with as many cells."""
        sign = next((sign for sign in "|\t;," if sign in match[1]), "\n")
        secret = [keyed.is_name(head.strip(_AROUND)) for head in match[1].split(sign)]
        lines = []
        for line in match[2].split("\n"):
            cells = line.split(sign)
            if len(cells) == len(secret) > 1:
                named = [cell.strip(_AROUND) if hidden else "" for cell, hidden in zip(cells, secret)]
                cells = [cell.replace(word, self.gone(word)) if word.strip("-=: ")[2:] else cell for cell, word in zip(cells, named)]
            lines.append(sign.join(cells))
        return f"{match[1]}\n" + "\n".join(lines)

    def keyed(self, text: str) -> str:
        parts, end = [], 0
        for start, stop in keyed.spans(text):
            parts += [text[end:start], self.gone(text[start:stop])]
            end = stop
        return "".join((*parts, text[end:]))

    def numbers(self, text: str) -> str:
        """Numbers of devices and of systems, and what the boot loader was told."""
        text = _BOOT_LINE.sub(lambda match: match.group(1) + boot_words(match.group(2)), text)
        text = _SERIAL.sub(lambda match: match.group(1) + self.serial(match.group(2)), text)
        text = _GUID.sub(lambda match: match.group(1) + self.digest(match.group(2), 16), text)
        text = _CSV.sub(self.column, text) if "serial" in text else text
        text = _SERIAL_IN_PROSE.sub(lambda match: match.group(1) + self.serial(match.group(2)), text)
        text = _UUID.sub(self.uuid, text)
        text = _INSTANCE.sub(lambda match: f"{match.group(1)}{self.digest(match.group(2).lower(), 12).upper()}", text)
        return _SID.sub(lambda match: self.of("sid", match.group()), text)

    def addresses(self, text: str) -> str:
        """Where somebody lives or can be reached."""
        for pattern in (HOME_OF_WINDOWS, HOME, _HOME_IN_WSL):
            text = pattern.sub(lambda match: match.group(1) + self.user(match.group(2)), text)
        text = _BUILDER.sub(lambda match: f"({self.user(match.group(1))}@{self.host(match.group(2))})", text)
        if "://" in text:
            text = URL_HOST.sub(lambda match: match.group(1) + self.url_host(match.group(2)), text)
        if "@" in text:
            text = EMAIL.sub(lambda match: self.of("address", match.group()), text)
        text = _SHARE.sub(lambda match: match.group(1) + self.host(match.group(2)), text)
        text = _WITH_PORT.sub(lambda match: self.url_host(match.group(1)), text)
        text = _BY_ITS_END.sub(lambda match: self.host(match.group()), text)
        text = _FULL_NAME.sub(lambda match: self.url_host(match.group()), text)
        text = _IPV4.sub(lambda match: match.group() if version_like(text, match) else self.of("ip", match.group()), text)
        text = _MAC.sub(lambda match: self.of("mac", match.group()), text)
        return _IPV6.sub(lambda match: self.of("ip", match.group()), text)

    def people_at_hosts(self, text: str) -> str:
        """`ada@crunch7`, which in a text of a user's is a person; a kernel log and a list of packages write devices and versions so."""

        def pseudonym(match: re.Match[str]) -> str:
            user, host = match.groups()
            user = user if user.lower() in USERS else self.user(user)
            return f"{user}@{host if host.lower() in USERS else self.host(host)}"

        return _AT_HOST.sub(pseudonym, text) if "@" in text else text

    def column(self, match: re.Match[str]) -> str:
        """A table with commas, such as nvidia-smi --query-gpu=serial prints: the serial numbers below their heading."""
        heads = [head.strip() for head in match.group(1).split(",")]
        at = next(place for place, head in enumerate(heads) if head.startswith(("serial", "gpu_serial")))
        lines = []
        for line in match.group(2).split("\n"):
            cells = line.split(",")
            if len(cells) == len(heads) and re.fullmatch(r"\s?\w{6,80}", cells[at]):
                cells[at] = cells[at][: len(cells[at]) - len(cells[at].strip())] + self.serial(cells[at].strip())
            lines.append(",".join(cells))
        return f"{match.group(1)}\n" + "\n".join(lines)

    # ------------------------------------------------------------ names
    def serial(self, number: str) -> str:
        return number if PSEUDONYM.fullmatch(number) else self.of("serial", number)

    def user(self, name: str) -> str:
        return name if PSEUDONYM.fullmatch(name) else self.of("user", name)

    def host(self, name: str) -> str:
        return name if name == "host" or PSEUDONYM.fullmatch(name) else self.of("host", name)

    def url_host(self, name: str) -> str:
        """Addresses on the public web stay: they say where to read on."""
        bare = name.rstrip(".")
        plain = PUBLIC.search(bare) is not None or re.fullmatch(r"[\d.]+", bare) is not None
        return name if plain else self.host(bare) + name[len(bare) :]


def boot_words(said: str) -> str:
    """The boot parameters that concern a GPU, and a mark for the others."""
    return "".join(f" {word}" for word in said.split() if _BOOT_WORD.fullmatch(word)) + f" {GONE}"


def version_like(text: str, match: re.Match[str]) -> bool:
    """Whether four numbers are a version: unless they stand where an address does, what is before or behind them says so."""
    before = text[max(0, match.start() - _LONG) : match.start()].rpartition("\n")[2]
    behind = text[match.end() : match.end() + _SHORT]
    if match.group() in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - every machine's own
        return True
    if PRIVATE.match(match.group()) or _ADDRESSED.search(before) or re.match(r"[:/]\d|>", behind):
        return False
    if _OF_PACKAGE.search(before):
        return True
    # 10.x is a private network, and cuRAND, cuFFT and TensorRT count through 10: there only a name before it says that it is a version.
    return not match.group().startswith("10.") and _GOES_ON.match(behind) is not None
