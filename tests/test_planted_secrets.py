"""Some three hundred secrets and names that were planted in logs mostly by people who had not read the redaction: none of them leaves the machine.

The file is packed, for scanners of repositories take the secrets for real ones; all of them are made up.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from typing import Any

import pytest

from cudadoctor.sources import pasted
from cudadoctor.sources.redact import _decoded, _end, redact
from tests.cases import every
from tests.command_line import ROOT

CASES = [
    json.loads(line) for line in zlib.decompress(base64.decodebytes((ROOT / "fixtures" / "planted_secrets.b64").read_bytes())).splitlines()
]
# A list without headings, a name that stands as a key, a folder of Windows' own: nothing says there that these are names or secrets.
NOT_FOUND = {"github-hosts-yml-gho", "sacctmgr-parsable", "squeue-custom-format", "windows-profile"}
# Three lines of variables in a row are a printed environment, of which a recording keeps what a diagnosis reads; public names by chance.
ALSO_GONE = {"azure-client-secret", "anthropic-key-dotenv", "export-db-pass", "datadog-agent-yaml", "rsa-key-truncated-no-end",
             "netrc-one-line", "ldd-and-rpath-u-cluster"}  # fmt: skip


def redacted(text: str) -> str:
    return redact(pasted.evidence_of(text.encode())).items[0].stdout or ""


@every("case", CASES)
def test_what_was_planted_is_gone(case: dict[str, Any]) -> None:
    out = redacted(case["text"])
    leaked = [secret for secret in case["secret"] if secret in out]
    assert bool(leaked) == (case["kind"] in NOT_FOUND), (leaked, out)
    assert out.count("\n") == case["text"].count("\n")


@every("case", CASES)
def test_what_a_diagnosis_reads_stays(case: dict[str, Any]) -> None:
    lost = [kept for kept in case["keep"] if kept not in redacted(case["text"])]
    assert bool(lost) == (case["kind"] in ALSO_GONE), lost


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", True),
        ("/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/cuda/12.4/bin/nvcc", True),
        ("/data/miniconda3/envs/torch/lib/python3.11/site-packages/acme/kernels.py", True),
        ("/sw/cuda-12.4/lib64/libcudart.so.12.4.127", True),
        ("/sys/fs/cgroup/user.slice/user-1000.slice/memory.max", True),
        ("/sys/fs/cgroup/kubepods/besteffort/cpu.cfs_quota_us", True),
        ("/scratch/mhartwig/run", False),
        ("/var/home/www/okonkwo/x", False),
        ("/root/shell/liu", False),
        ("D:\\Projects\\hartwig\\cuda", False),
        ("C:\\Program Files\\NVIDIA Corporation\\NVSMI\\nvml.dll", True),
    ],
)
def test_a_path_is_what_systems_and_programs_call_their_folders(path: str, kept: bool) -> None:
    assert (redacted(f"File {path}: not found\n") == f"File {path}: not found\n") is kept


@pytest.mark.parametrize(
    "text",
    [
        "posted to https://mm.example.com/hooks/69m64p2g158z6tnovmizwdiaeq\n",
        "kept in s3://bucket/69m64p2g158z6tnovmizwdiaeq\n",
        "pushed to registry.example.com/gJTe4dNnF8IBXu2L7DxtpY9SXpfKtHF4 now\n",
        "pulled x@gJTe4dNnF8IBXu2L7DxtpY9SXpfKtHF4\n",
        "came back with code=gJTe4dNnF8IBXu2L7DxtpY9SXpfKtHF4&state=1\n",
        "my password is Kranich\n",
        "Password was: Kranich7.\n",
        "/var/lib/docker/volumes/kranich_daten/_data/x: denied\n",
        "ImportError: /opt/kranich/lib/libcudart.so.11: cannot open\n",
        'The container name "/kranich_trainer" is already in use\n',
        'SSID: "Netz Kranich"\n',
        "kranich is not in the sudoers file.\n",
        "rpcclient -U 'corp\\me%Kranich7' tarn\n",
        "Unseal Key 1: KranichQ\n",
        "useradd -m -p Kranich7 ada\n",
        "HOSTNAME=kranich\n",
        "SLURM_JOB_NAME=kranich\n",
        "gpasswd -a kranich video\n",
        "<4>Nov 20 10:00:01 kranich kernel: NVRM: x\n",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=kranich, Ch 00000010\n",
        "USER ada\n331 Password required\nPASS Kranich7\n",
        "das Passwort lautet: Kranich\n",
        "Loaded /home/ada/.config/kranich/settings.json\n",
        "/home/ada/miniconda3/envs/kranich/bin/python3: not found\n",
        "open /home/ada/.cache/torch/kranich.pt failed\n",
        "cd ~/kranich/run\n",
        "load $HOME/kranich/model.pt\n",
        'open("/home/ada/Our kranich Files/a.py")\n',
        '{"path": "\\/home\\/kranich\\/x"}\n',
        "GET /x?next=%252Fhome%252Fkranich%252Fx\n",
        "$ python experiments/kranich/train.py\n",
        "./kranich-v2/run.sh: line 3: x: command not found\n",
        'File "kranich.py", line 3, in <module>\n',
        "$ sbatch kranich.sbatch\n",
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-11-30T10:00:00 BY USER kranich ***\n",
        "Submitted by: kranich\n",
        "chown: changing ownership of 'x' to kranich: not permitted\n",
        "$ sudo adduser kranich render\n",
        "$ useradd -m -s /bin/bash kranich\n",
        "$ id kranich\n",
        "#SBATCH --mail-user=kranich\n",
        "Last login: Mon Nov 30 10:00:00 2026 from kranich\n",
        "curl: (6) Could not resolve host: kranich\n",
        "dial tcp: lookup kranich on 127.0.0.53:53: no such host\n",
        "PING kranich (192.0.2.7) 56(84) bytes of data.\n",
        "$ kubectl describe node kranich\n",
        "$ kubectl drain kranich --force\n",
        "Running on host kranich\n",
        "C:\\> runas /user:ml Kranich7 cmd\n",
        'expect "assword:" { send "Kranich7\\r" }\n',
        "$ conda activate kranich\n",
        "(kranich) root@box:~# ls\n",
        "On branch feature/kranich\n",
        "Cloning into 'kranich-thesis'...\n",
        "pod/kranich-train-0 created\n",
        "docker pull registry.corp.example/kranich/train:latest\n",
        "fatal: https://gitlab.corp.example/kranich/x.git not found\n",
        "Author: Ada Kranich\n",
        'To: "Ada Kranich" <a@b.de>\n',
        'from_pretrained("kranich/secret-llm")\n',
        "the password for the cluster is kranich56rh.\n",
        "login with user ada and pass kranichhz\n",
    ],
)
def test_a_token_behind_a_slash_and_a_name_where_programs_put_one_are_gone(text: str) -> None:
    assert not any(word in redacted(text).lower() for word in ("69m64p", "gjte4d", "kranich"))


def test_what_is_cut_away_leaves_no_secret_without_its_sign() -> None:
    """Of a long log the end is kept: from the beginning of a line, and of one without a line break from the second word."""
    assert _end("ssword kranich x\nlast\n") == "last\n"
    assert _end("ssword kranich and last") == "and last"


def test_equal_parts_stay_equal_and_a_prefix_a_prefix() -> None:
    first, second, third = redacted("/scratch/hartwig/a /scratch/hartwig/zimt/b /work/zimt/b\n").split()
    assert second.startswith(first.rpartition("/")[0])
    assert second.split("/")[3] == third.split("/")[2]


def test_a_table_of_many_columns_takes_no_longer_than_its_length() -> None:
    """Each cell was held against each heading: 20 KB took seconds."""
    text = "USER " * 8000 + "\n" + "abcd " * 8000 + "\n"
    began = time.process_time()
    assert "abcd" not in redacted(text)
    assert time.process_time() - began < 10


@pytest.mark.long
def test_many_names_take_no_longer_than_their_number() -> None:
    """Each name was looked for by an expression of its own: 20,000 took a minute. A limit that only that kind of growth exceeds."""
    text = "".join(f"open /home/u{number * 7919 % 10**7:07d}/x.py failed\n" for number in range(20_000))
    began = time.process_time()
    out = redacted(text)
    assert time.process_time() - began < 20
    assert "/home/u0007919/" not in out
    assert out.count("/home/user-") == 20_000


@pytest.mark.parametrize(
    "text",
    [
        '{"user": "x", "pwd": "hunter2X"}\n',
        "telegram_bot_token: 4782508188:hunter2X\n",
        "bot 60718293:AAFhunter2XeQzberD3ncgOiop_r2awCsoT took over\n",
        "Qf3hunter2XKp9.atlasv1.ZoeB7mQ0hUq3vTfYw9kL2sNxC8dRj5aG1pVb6eM4tWyXuIzHnO0PqSlKrJ\n",
        "login with xY18Q~hunter2Xab_cdefghijklmnopqrstuvw failed\n",
        "signed by whsec_hunter2XabcdefghijklmnoPQRS\n",
        "pscale_tkn_hunter2XabcdefghijklmnoPQRSTUVW\n",
        "rpa_ABCDEFhunter2XGHIJKLMNOPQRSTUVWXYZ0123456789\n",
        "db:\n  pass: hunter2X\n",
        "sent Basic b2tvbmt3bzpodW50ZXIyWA== twice\n",
        "curl --proxy-user okonkwo:hunter2X x\n",
        "sent with bearer sorrel-hunter2X and refused\n",
        "reached by ssh (pw: hunter2X) at night\n",
        "mot de passe : hunter2X\n",
        "パスワード：x, Contraseña: hunter2X\n",
        "RUN echo 'okonkwo:hunter2X' | chpasswd\n",
        "printf '%s' hunter2X | cryptsetup luksOpen /dev/sda3 d -\n",
        "openssl enc -aes-256-cbc -k hunter2X -in w.tar\n",
        "nmcli dev wifi connect Lab password hunter2X\n",
        "$c = ConvertTo-SecureString 'hunter2X' -AsPlainText -Force\n",
        "    DefaultPassword    REG_SZ    hunter2X\n",
        "password_pbkdf2 root grub.pbkdf2.sha512.10000.hunter2X\n",
        "n7:~# hunter2X!q7Bw\n-bash: hunter2X!q7Bw: command not found\n",
        'read(0, "hunter2X~q7Bw\\n", 1024) = 14\n',
        "GET https://drop.example.com/d/hunter2Xq7LamP4kWz9Tb/w.tar\n",
        "le mot de passe du BMC a changé : hunter2X\n",
        "> clave del wifi → hunter2X\n",
        "    auth_pass hunter2X\n",
        "ipa-client-install --principal=enroll -w hunter2X --unattended\n",
    ],
)
def test_a_few_forms_more(text: str) -> None:
    assert not any(secret in redacted(text) for secret in ("hunter2X", "b2tvbmt3bzpodW50ZXIyWA"))


@pytest.mark.parametrize(
    "text",
    [
        "args: [get-token, --login, devicecode, --client-secret, hunter2X]\n",
        "GET https://api.example.com/v1?v=2&key=hunter2X failed\n",
        "https://example.com/callback?code=hunter2X&state=1\n",
        "https_proxy=okonkwo:hunter2X@proxy7:3128 pip install x\n",
        "<password>hunter2X</password><user>okonkwo</user>\n",
        "+trainer.logger.api_key=hunter2X user.name=okonkwo\n",
        "grant_type=password&username=okonkwo&password=hunter2X\n",
        "AccountName=okonkwo;AccountKey=hunter2X;EndpointSuffix=core.windows.net\n",
        "wandb: Currently logged in as: ada (okonkwo). Use `wandb login --relogin`\n",
        "http://hub.example.com/user/okonkwo/lab\n",
        "[user]\n\tname = Blessing Okonkwo\n\temail = okonkwo@example.com\n",
        "[0] NVIDIA A100 | 30'C, 0 % | 1 / 80000 MB | okonkwo(1000M) ada(12M)\n",
        "whoami\nlab\\okonkwo\n",
        "Okonkwos-MacBook-Pro:~ okonkwo$ python x.py\n",
        "Linux okonkwo7 6.8.0-40-generic #40 SMP x86_64 GNU/Linux\n",
        "okonkwo7               Tue Nov 21 10:00:00 2026  535.54\n",
        "The client socket has timed out after 60s while trying to connect to (okonkwo7, 29500).\n",
        "{'host': 'okonkwo7', 'local_world_size': 1}\n",
        "  host      : okonkwo7\n",
        "ray start --address=okonkwo7:6379\n",
        "LM_LICENSE_FILE=27000@okonkwo7\n",
        "git@okonkwo.example.com:x/y.git\n",
        "systemd[1]: Started Session 77 of User okonkwo.\n",
        'pods is forbidden: User "okonkwo" cannot get\n',
        "gkr-pam: unlocked login keyring for okonkwo\n",
        "no crontab for okonkwo\n",
        "rank 0 on okonkwo7: NCCL error\n",
        "DISPLAY=okonkwo7:10.0\n",
        "vscode-remote://ssh-remote+okonkwo7/x\n",
        "JobId=77 JobName=okonkwo-train\n",
        "#SBATCH --job-name=okonkwo_phd\n",
        'wlan0: associated with SSID "okonkwo home"\n',
        "okonkwo7,10.1.2.3 ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ\n",
        "The authenticity of host 'okonkwo7 (10.1.2.3)' can't be established.\n",
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "                77       gpu    train      ada  R       0:01      1 okonkwo7\n",
        "okonkwo7:2211:2240 [3] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_reg_mr failed\n",
        "[okonkwo7:4455:0:4455] Caught signal 11 (Segmentation fault)\n",
        "okonkwo7:/export/home   10T  4T  6T  40% /home\nokonkwo7:/export/x on /home type nfs4 (rw)\n",
        "okonkwo7:/export/root / nfs4 rw\n",
        "Host Name:                 okonkwo7\n   Host Name . . . . . . . . . . . . : okonkwo7\n",
        "SLURM_NODELIST=okonkwo7 COMPUTERNAME=okonkwo7\n#SBATCH -w okonkwo7\n",
        "usermod: user 'okonkwo' does not exist\nsu: (to root) okonkwo on pts/0\n",
        "fatal: [okonkwo7]: FAILED! => {}\n",
        "/sys/fs/cgroup/system.slice/jupyter-okonkwo.service/memory.max\n",
        "login(token=os.environ.get('HF_TOKEN', 'hunter2Xwort'))\n",
        '[auth]\nsecret_key = """\nhunter2Xwort\n"""\n',
        "database:\n  password:\n    hunter2Xwort\n  port: 5432\n",
        "<key>Password</key>\n<string>hunter2Xwort</string>\n",
        ".corp.example\tTRUE\t/\tTRUE\t1790000000\tsession\thunter2Xwort\n",
        "postgresql://train:hunter2X/wort@db/metrics\n",
        "AKIAIOSFODNN7EXAMPLE:hunter2Xwort\n",
        'conn x\n  PSK "hunter2Xwort"\n',
        "schtasks /create /tn train /ru svc /rp hunter2Xwort /tr train.bat\n",
        "vault server -dev-root-token-id=hunter2Xwort\n",
        "winexe -U CORP/admin%hunter2Xwort //host cmd\n",
        "  host      : okonkwo\n  rank      : 1 (local_rank: 1)\n",
        "NCCL WARN Call to connect from 1.2.3.4 to okonkwo<4001> failed\n",
        "NAME STATUS ROLES AGE\nokonkwo Ready worker 1d\n",
        "127.0.1.1 okonkwo\nsearch hpc.okonkwo.intern\n",
        "su: user okonkwo does not exist\n",
        "Permission denied for user okonkwo\n",
        "(okonkwo) CMD (nvidia-smi)\n",
        "getpass.getuser() -> 'okonkwo'\n",
        "user.name=Ulrike Okonkwo\n",
    ],
)
def test_where_programs_print_a_secret_or_a_name(text: str) -> None:
    assert not any(word in redacted(text) for word in ("hunter2X", "okonkwo", "Okonkwo"))


@pytest.mark.parametrize(
    "text",
    [
        "git clone git@github.com:NVIDIA/cuda-samples.git\n",
        "the password is required\n",
        "usermod -aG video,render $USER\n",
        "/nix/store/0c7h2kqvx8m3l5r1n9w4yzb6gd8sjf2p-cuda-12/lib\n",
        "undefined symbol: _ZN2at4_ops10zeros_like4callERKNS_6TensorE\n",
        "kernel=sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4\n",
        "--model=Qwen2.5-VL-72B-Instruct-AWQ\n",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000010\n",
        "the shapes (batch, 512) and (heads, 64) differ\n",
        "secret, the token and password, none of them is read\n",
        "nvidia/cuda:12.4.1-base@sha256:0 python:3.12@x\n",
        "Linux version 6.8.0 and Linux kernels\n",
        "host: x86_64-pc-linux-gnu\nnode: v18.12.1\nserver: 24.0.7\n{'host': 'cuda0'}\n",
        "INFO 11-02 12:00:00 [gpu_model_runner.py:1234] x\n",
        "torch/cuda/memory.py: out of memory\n",
        "$ python train.py\n",
        "(base) root# python main.py\n",
        "$ conda activate base\n",
        "at ../aten/src/ATen/native/cuda/Loss.cu:94\n",
        "Copyright (c) 2005-2024 NVIDIA Corporation\n",
        "the password for the cluster\n",
        "CUDA 12.4 +cu124 and driver +1\n",
    ],
)
def test_and_no_other_word(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "Basic configuration of GPUs\n",
        "  pass: 16 rows\n",
        "(pass: 16)\n",
        "echo done | grep done\n",
        "curl -k https://docs.nvidia.com/x\n",
        '{"status": "pass"}\n',
    ],
)
def test_words_that_look_like_these_stay(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "secret", ["Q7W8E9R0T1Y2U3I4O5P6A7S8", "AB12CD34EF56GH78IJ90KL12", "S64HNE0T512345X", "Q7W8E-R9T1Y-U2I3O-P4A5S-D6F7G"]
)
def test_capitals_and_digits_by_turns_are_no_word(secret: str) -> None:
    assert secret not in redacted(f"CUDA error\nsee {secret} here\n")


@pytest.mark.parametrize(
    "word",
    [
        "MCX75310AASNEATSG5", "X570AORUSMASTER", "699-2G520-0200-000", "CUDA_ERROR_ECC_UNCORRECTABLE", "EPYC7763V64CORE", "cuMemcpyDtoH_v2",
        "__nvJitLinkAddData_12_1", "cuMemsetD2D16_v2_ptds",
    ],
)  # fmt: skip
def test_names_of_parts_are_words(word: str) -> None:
    assert word in redacted(f"CUDA error\nsee {word} here\n")


def test_the_key_of_a_licence_stands_behind_its_seats() -> None:
    text = redacted("CUDA error\nFEATURE cudafortran pgroupd 23.0 31-dec-2026 4 3AB8DE06EBCFD7A4DDD0 \\\n")
    assert "FEATURE cudafortran pgroupd 23.0 31-dec-2026 4 " in text
    assert "3AB8DE06EBCFD7A4DDD0" not in text


@pytest.mark.parametrize("length", [300, 401, 5000])
def test_the_length_of_a_secret_does_not_save_it(length: int) -> None:
    secret = ("FwoGZXIvYXdz4kT9qLm2" * 250)[:length]
    assert secret[:40] not in redacted(f"session {secret} is over\n")


@pytest.mark.parametrize("unit", ["pass:", "cookie ", "eyJ-"])
def test_names_of_secrets_one_after_another_take_no_longer_than_their_length(unit: str) -> None:
    """From each of them the way to the end of its value was gone anew: 100 KB took ten seconds and more, which grew with its square."""
    began = time.process_time()
    redacted(unit * (30_000 // len(unit)) + "\n")
    assert time.process_time() - began < 1.5


def test_signs_of_an_encoding_one_after_another_take_no_longer_than_their_length() -> None:
    began = time.process_time()
    assert _decoded("%" * 200_000, str.upper) == "%" * 200_000
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "text",
    [
        "gcloud auth activate-service-account --key=plum-tree77", "gcloud services api-keys lookup --key-string plum-tree77",
        "BMC user: admin / plum-tree77", "IPMI credentials: ADMIN/plum-tree77", "creds: ada:plum-tree77", "credentials are ada and plum-tree77",
        "log in as labuser (plum-tree77) and look", "password (plum-tree77) for the node", "ssh to it (pw plum-tree77)", "password - plum-tree77",
        "LUKS key is plum-tree77", "the LUKS key for /dev/sda2: plum-tree77", "SLURM_JWT: plum-tree77", "Das Kennwort lautet plum-tree77",
        "le mot de passe est plum-tree77", "parola: plum-tree77", "\u5bc6\u7801\uff1aplum-tree77", "password\uff1aplum-tree77",
        "\ube44\ubc00\ubc88\ud638: plum-tree77", "racadm -r bmc -u root -p plum-tree77 getsysinfo", "PsExec64.exe \\\\gpu07 -u ACME\\ada -p plum-tree77 cmd",
        "train.py --login ada --pass-word plum-tree77", "useradd -p plum-tree77 ada",
        "snmpget -v3 -A otherkey99 -X plum-tree77 bmc", "rclone obscure plum-tree77", "unrar x -pplum-tree77 a.rar", "su ada <<< plum-tree77",
        "ipmipass=plum-tree77", "loginpw=plum-tree77",
        "    Key Content            : plum-tree77",
        "user | password\nada | plum-tree77", "user,password,shell\nada,plum-tree77,sh\nroot,plum-tree77,sh", "| host | pw |\n|---|---|\n| a | plum-tree77 |",
    ],
)  # fmt: skip
def test_what_follows_a_name_or_stands_in_a_pair_is_gone(text: str) -> None:
    assert "plum-tree77" not in redacted(f"CUDA error: no device\n{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "user: nobody/nogroup: no such file", "Login: see https://docs.nvidia.com/cuda", "Segmentation fault (sig 11 on cuda12)", "sort --key=2",
        "Users: numba/cuda/cudadrv/driver.py", "account: /dev/nvidia0 and /dev/nvidiactl", "user: root / cuda: 12.4", "token - expected x",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(f"CUDA error: no device\n{text}\n") == f"CUDA error: no device\n{text}\n"


@pytest.mark.parametrize(
    "text",
    [
        "cryptsetup luksFormat --key-file <(echo -n hunter2X) /dev/nvme0n1p3\n",
        "radtest okonkwo hunter2X 10.3.2.1 0 testing123\n",
        "radtest okonkwo x1 10.3.2.1 0 hunter2X\n",
        "munge: key=hunter2X loaded from /etc/munge/munge.key\n",
        "license: ABCD-EFGH-7891 activated for MATLAB\n",
        "license file found, key hunter2X, expires 2027\n",
        "INCREMENT nvcc nvidia 1.0 1-jan-2027 4 SIGN=hunter2X\n",
        "PIN code 739142 entered\n",
        "\u5bc6\u7801\u662f hunter2X\n",
        "login okonkwo / hunter2X on the head node\n",
        "you can log in with okonkwo and hunter2X\n",
        "I ssh in with hunter2X as password\n",
        "password for okonkwo on gpu07 is hunter2X, look yourself\n",
        "my root pw is hunter2X\n",
        "root/hunter2X works on the BMC\n",
        "mount -t cifs //nas/data /mnt -o user=okonkwo%hunter2X\n",
        "lftp -u okonkwo,hunter2X sftp://store\n",
        "some-client --host store -u okonkwo -p hunter2X put x\n",
        "etcdctl --user root:hunter2X get x\n",
        "curl -sSuokonkwo:hunter2X https://x\n",
        "http -a okonkwo:hunter2X GET x.org\n",
        "rclone config create r sftp host x user okonkwo pass hunter2X\n",
        "expect -c 'send \"hunter2X\\r\"'\n",
        '"Cmd": ["redis-server", "--requirepass", "hunter2X"]\n',
        "AuthInfo=socket=/run/munge.sock jwt_key=hunter2X\n",
        "subscription-manager register --org=123 --activationkey=hunter2X\n",
        "sshd[12]: Invalid user hunter2X from 10.2.2.2 port 22\n",
        'wandb.login(key="hunter2X")\n',
        "wandb login --relogin hunter2X\n",
        'paramiko.connect("gpu7", 22, "okonkwo", "hunter2X")\n',
        "ftp.login('okonkwo', 'hunter2X')\n",
        "rocommunity hunter2X 10.0.0.0/8\n",
        "echo hunter2X | kinit okonkwo\n",
        "yes hunter2X | passwd okonkwo\n",
        "echo 'hunter2X' | openconnect --passwd-on-stdin vpn\n",
        "openconnect --passwd-on-stdin vpn <<< hunter2X\n",
        "gpg --batch --passphrase-fd 0 -d x.gpg <<< hunter2X\n",
        "vault operator unseal hunter2X\n",
        "mc alias set minio http://m1:9000 admin hunter2X\n",
        "poetry config http-basic.corp okonkwo hunter2X\n",
        "sudo pro attach hunter2X\n",
        "NEPTUNE_API_TOKEN is set to hunter2X\n",
        "anaconda -t hunter2X upload x\n",
        "community string: hunter2X\n",
        "com2sec readonly default hunter2X\n",
        "ldap_bind_pw hunter2X\n",
        "rootpw --plaintext hunter2X\n",
        "ipmitool user set password 2 hunter2X\n",
        "nmcli con modify Lab wifi-sec.psk hunter2X\n",
        'Environment="ADMIN=admin:hunter2X"\n',
        "chpasswd:\n  list: |\n    okonkwo:hunter2X\n    root:RANDOM\n",
        "kubectl create secret generic x --from-literal=hf=hunter2X\n",
        "apiVersion: v1\ndata:\n  hf: hunter2X\nkind: Secret\n",
        "echo hunter2X > ~/.vnc/passwd\n",
        "wg set wg0 private-key <(echo hunter2X)\n",
        "redis> auth okonkwo hunter2X\n",
        "Enter passphrase for key '/home/okonkwo/.ssh/id_rsa': hunter2X\n",
        "Verification code: 739142\n",
        "Initial Admin Password\nhunter2X\n",
        "user okonkwo, pass hunter2X\n",
        "Kennung okonkwo, PW hunter2X\n",
        "Zugangsdaten: okonkwo / hunter2X\n",
        "usuario okonkwo clave hunter2X\n",
        "MdP: hunter2X\n",
        "m\u1eadt kh\u1ea9u: hunter2X\n",
        "\u05e1\u05d9\u05e1\u05de\u05d4: hunter2X\n",
    ],
)
def test_what_somebody_is_let_in_with_has_no_name(text: str) -> None:
    """What a program takes as its next word, through its standard input or by an option; what stands beside a user's name."""
    out = redacted(text)
    assert not any(secret in out for secret in ("hunter2X", "ABCD-EFGH-7891", "739142")), out


@pytest.mark.parametrize(
    "text",
    [
        "docker run --rm -u 1000:1000 -p 8888:8888 nvcr.io/nvidia/pytorch:24.05-py3\n",
        "docker run --user root:video nvidia/cuda\n",
        "python -u train.py -p fp16x2\n",
        "squeue -u root -p gpu\n",
        "License: Apache-2.0, BSD-3-Clause AND LGPL-2.1\n",
        "pin 1234 of the connector, the pin is 12v\n",
        "KeyError: key=layer1 not found in the session\n",
        "we had to pro attach the machine and log in to the host\n",
        "log in with ssh and run nvidia-smi\n",
        "sudo pro attach <token>\n",
        "wandb login --relogin\n",
        "echo 1 | sudo tee /sys/bus/pci/rescan\n",
        "dist.connect(host, port, 'gloo')\n",
        "PASS TestConv2dGpu\npass TestConv2dGpu\n",
        "[PASS]: TestConv2dGpu (0.3 s)\nclave de registro no encontrada\n",
        "error code 100, status code: 12345678, exit code 139\n",
        "NVIDIA Community Edition, cuda2024 and more\n",
        "kind: ConfigMap\ndata:\n  version: 12.4.1\n",
        "echo 1 > /sys/bus/pci/devices/0000:01:00.0/remove\n",
        "the login node has driver 535.54 and CUDA 12.4\n",
        "Compiling entry function '_Z15flash_fwd_splitkILi128ELi64ELb1EEv16Flash_fwd_params' for 'sm_80'\n",
        "[cublasLt][Error] workSpace=0X7F11C2000000 size=33554432\n",
        "e8 19 d4 f0 ff call 101070 <cudaLaunchKernel@plt>\n",
        "an encoded check%0APage1b and make -j$(nproc)\n",
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/Compute-Capability-9x0/index.html\n",
        "first_pass 0.123 s, password prompt for host: none\n",
        "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB\nH100-PCIE-80GB-HBM3\n",
        "alias: pci:v000010DEd*sv*sd*bc03sc02i00*\n",
        "EDAC MC3: 1 CE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#1 (channel:0)\n",
        "gpuClearFbhubPoisonIntrForBug2924523_GA100: not for this board\n",
        "root=UUID=11a7 --mem=16G CUDA_VISIBLE_DEVICES=0,1 _RNvXs5_NtCsk8VwQpXzT2_6cudarc6driver\n",
    ],
)
def test_what_looks_like_it_stays(text: str) -> None:
    assert not any(sign in redacted(text) for sign in ("<redacted>", "@host-"))


def test_a_long_run_of_hexadecimal_digits_takes_no_longer_than_its_length() -> None:
    """Each digit was hashed with all before it: two megabytes took a minute."""
    started = time.process_time()
    out = redacted("\n".join(letter * 20_000 for letter in "abcdef0123" * 3))
    assert time.process_time() - started < 5
    assert not any(letter * 100 in out for letter in "abcdef0123")
    assert "a" * 100 not in redacted("a" * 40_000)


_GROUPS = "-".join(("8d0cb174", "9089", "04cf", "040a", "33f2567fe451"))


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("the kit says {}", "-".join(("A3", "JZS8UA", "KKVFFUPDMXK", "XWMYC", "WJ9TU", "Q52M8"))),
        ("plaid_client = '{}'", f"access-production-{_GROUPS}"),
        ("{}", f"secret-{_GROUPS}"),
        ("curl -u  admin:{} https://example.com", "mzsnkckh"),
        ("curl -su admin:{} https://example.com", "mzsnkckh"),
        ("BUNDLE_ENTERPRISE__CONTRIBSYS__COM={}", "d41907dc:8a05e4bb"),
        ("bundle config enterprise.contribsys.com {}", "d41907dc:8a05e4bb"),
        ('dropbox = "{}"', "oiz6in2320spdwi"),
        ('"airtable_base": "{}"', "kbpp9cm42z6r67p6s"),
        ("bearer {}", "A" * 22 + "jZxXpDqVqaFDRqGJpWs4sl0rf0O6txySBmHGO6nBU41H8XrFyNvhXDuzSkA8OBMDk"),
    ],
)
def test_what_a_service_gives_out_is_gone(line: str, secret: str) -> None:
    assert secret not in redacted(line.format(secret))


@pytest.mark.parametrize(
    "line",
    [
        "Nov 22 10:00:00 gpu su[77]: (to root) {} on pts/1",
        "Nov 22 10:00:00 gpu systemd[1]: Started User Manager for UID 1000 ({}).",
        "MAIL=/var/spool/mail/{}",
        "Access: (0600/-rw-------)  Uid: ( 1001/ {})   Gid: ( 1001/ users)",
        "{} : video render",
        "    User {}",
        "Permission denied (publickey,password) for {}@gpu.",
        "sudo docker run --uid={} image",
        "{}    4242  99.0  1.2 123456 7890 pts/0  Rl 10:00  1:23 python train.py",
        "{}     4242     1  0 10:00 ?        00:00:01 python train.py",
        "   4242 {}   20   0   12.3g   1.2g 200m R 100.0  1.2   1:23.45 python",
        "   12345   gpu  train {} R 1:23 1 node1",
        "User {} Account physics JobID 3",
        "desktop-abc\\{}",
        "10.0.0.12   {}",
        "127.0.1.1 gpu.example.com {}",
        "does not appear to be running on this host ({})",
        "  Local host:   {}",
        "salloc: Nodes {} are ready for job",
        "Normal  Scheduled  Successfully assigned default/train-0 to {}",
        "Node:         {}/10.0.0.4",
        "docker run -u 1000 -h {} image",
        "[1,0]<stderr>: {}:4242:4270 NCCL WARN x",
        "(train pid=1, ip={})",
        "ssh -l root -p 2222 {} nvidia-smi",
    ],
)
def test_names_where_tools_print_them(line: str) -> None:
    assert "quillskov" not in redacted(f"RuntimeError: No CUDA GPUs are available\n{line.format('quillskov')}\n")
