"""Names and words that tell nobody who somebody is: left as they are when a recording is redacted. Data, for sources/redact.py."""

from __future__ import annotations

import re

# Users and groups that many systems have under these names, and that stand in paths, package names and JSON keys as ordinary words.
USERS = frozenset(
    (
        "root", "nobody", "daemon", "video", "render", "vglusers", "admin", "user", "users", "ubuntu", "debian", "fedora",
        "centos", "rocky", "arch", "ec2-user", "azureuser", "opc", "nvidia", "cuda", "gpu", "python", "conda", "numba", "docker",
        "jovyan", "vscode", "runner", "builder", "home", "local", "opt", "usr", "lib", "bin", "data", "work", "app", "test",
        "linuxbrew", "unknown", "none", "null", "true", "false", "user-name", "username", "you", "yourname", "me", "git", "host",
        "localhost",
    )
)  # fmt: skip
# What daemons run as.
SERVICES = re.compile(
    r"^(?:systemd|nvidia|dbus|polkitd|messagebus|syslog|sshd|rtkit|colord|avahi|gdm|lightdm|sddm|chrony|ntp|rpc|rpcuser|munge|slurm|"
    r"postfix|"
    r"www-data|nginx|apache|mysql|postgres|redis|tcpdump|uuidd|tss|usbmux|geoclue|gnome-initial-setup|kernoops|lp|mail|man|news|proxy|sync|"
    r"sys|games|backup|list|irc|gnats|pollinate|landscape|fwupd-refresh|whoopsie|saned|hplip|speech-dispatcher|cups-pk-helper|dnsmasq|_\S*)"
    r"(?:-\S*)?$"
)
GROUPS = USERS | frozenset(
    (
        "adm", "admins", "audio", "cdrom", "dialout", "dip", "disk", "floppy", "games", "google-sudoers", "input", "kvm", "libvirt", "lp",
        "lpadmin", "lxd", "netdev", "nogroup", "optical", "plugdev", "podman", "power", "sambashare", "scanner", "sgx", "staff", "storage",
        "sudo", "sudoers", "sys", "systemd-journal", "tape", "tty", "usb", "utmp", "wheel",
    )
)  # fmt: skip
# Who has one of these for a name is replaced where a name is expected (a path, a prompt, a process table), not wherever the word stands.
_WORDS = """
am an as at be by do go he if in is it me my no of on or so to up us we add all and any api are cpu did dev ecc end env err
exp for gcc get got had has her him his how int its job lib log map mig mps new nor not now off old one our out own pci pid
pip ptx put ran run set she smi str sub sum sys tmp too top try two url use var via was who why xid yes you address allocation
benchmark binary block board bridge build cache call card catch check clock code command common compute config container
context copy core count cuda current debug default detect device display docker driver end engine entry error event expected
fail failed failure fatal file first float found frame free from function graph graphics grid group have health host index
info init input install into invalid item kernel kind large launch layer level library like limit line link linux list load
local machine main make memory message missing mode model module name native network next node none note nova null number
object only open option order other output package page path pass power print process program queue quick read ready release
remote reset result runtime same search server service shared shell size slow smoke socket space stack start state status step
stop stream string sync system table task tensor test text thread time tool torch total train type unit unknown update user
value vector version volume wait warning warp with work worker write xorg zero
"""
WORDS = frozenset(_WORDS.split())
# What systems, sites and programs call parts of paths, besides the words and users above; a part of other words becomes a pseudonym.
# Numbers, single letters and signs part words.
_OF_PATHS = """
actions amazon anaconda appdata apps artifacts ascend assets auto automnt aws azure base batch beegfs besteffort buildkit builds buildx
burstable bz cc ceph cfg cgroup checkpoint checkpoints ci ckpt cluster clusters cmake cni colab comm compat compilers condaenv conf conmon
containerd containers cp cpp cray cri crio csv ctypes cu cubin cublas cudart cudnn cufft cuh cupti cupy curand cusolver cusparse cvmfs cxx
dask dataset datasets dbus deb deps desktop detectron dist dll dlopen doc docs documents downloads drive drivers easybuild ebs envs epoch
etc eval example examples exe export exports ext extern external extra fast fatbin files flashinfer fs fscratch garden gcp generic gguf
gnome gnu google gpfs gpus gromacs groups guest gz hdd hg homes hpc hpcx hpe hpp icd images infer inference ini installs intel ipynb jax
jaxlib jenkins json jupyter kaggle ko kubelet kubepods lab lambda ldconfig libpod libs licenses llama llvm lmod lock logs lustre lxc mamba
mambaforge manual math md media mellanox micromamba miniconda miniforge misc mnt models modulefiles modules mount mounts mpi multi mydrive
nas nccl net netscratch nfs notebook notebooks npy numpy nv nvcc nvhpc nvme nvrtc nvtx ollama oneapi onnx onnxruntime openmpi opentelemetry
packages parquet payload pkg pkl plugins pod pool private profile profiler proj project projects pt pth ptxas public py pyc pycuda pyi pypy
pytest raid ray rdparty releases repo repos results rocm rpm rst runs safetensors samba sample samples sandbox scipy scope scratch script
scripts sdk seq session setup sh shm site sklearn slice slurm slurmstepd soft software spack spawn spool src ssd staging static storage
store stubs sw tar targets temp tensorflow tensorrt terminal tests tgz toml toolkit tools torchaudio torchvision training transformers
triton tutorial txt ubi uid unified util utils uv venv vllm volumes vte web wheel wheels whl win windows workdir working workspace wsl xla
xz yaml yml zip
"""
OF_PATHS = frozenset(_OF_PATHS.split())
# Folders of / below which all is the system's own or a distribution's.
_SYSTEM = """
usr lib lib32 lib64 libx32 bin sbin etc dev proc sys boot snap nix gnu var opt root workspace workspaces content kaggle app System Library
Applications
"""
SYSTEM = frozenset(_SYSTEM.split())
# Addresses on the public web: messages name them, and so do the patterns that recognise these messages.
PUBLIC = re.compile(
    r"(?:^|\.)(?:nvidia\.com|nvcr\.io|pypi\.org|python\.org|pythonhosted\.org|pytorch\.org|github\.com|githubusercontent\.com|"
    r"github\.io|gitlab\.com|"
    r"anaconda\.(?:org|com)|conda\.io|conda-forge\.org|readthedocs\.(?:io|org)|pydata\.org|tensorflow\.org|google\.com|"
    r"googleapis\.com|goo\.gl|bit\.ly|"
    r"microsoft\.com|aka\.ms|ubuntu\.com|launchpad\.net|debian\.org|fedoraproject\.org|rpmfusion\.org|redhat\.com|archlinux\.org|"
    r"opensuse\.org|"
    r"suse\.com|snapcraft\.io|nixos\.org|gentoo\.org|kernel\.org|docker\.(?:com|io)|quay\.io|ghcr\.io|kubernetes\.io|huggingface\.co|wandb\.ai|"
    r"onnxruntime\.ai|"
    r"cupy\.dev|jax\.dev|rapids\.ai|vllm\.ai|blender\.org|proxmox\.com|stackoverflow\.com|askubuntu\.com|wikipedia\.org|w3\.org|"
    r"llvm\.org|gnu\.org|"
    r"freedesktop\.org|json-schema\.org|localhost)$",
    re.IGNORECASE,
)
