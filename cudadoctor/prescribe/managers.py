"""Who installs Python packages here, and how a recipe's line for pip or conda reads with it. None of them likes another's packages.

conda, pixi   own the environment: packages are conda-forge's
uv, poetry    own a project: what its file does not name is gone with the next sync; `uv` alone is an environment without pip
Source: https://pixi.prefix.dev/latest/python/pytorch (pytorch-gpu, cuda-version, __cuda), https://docs.astral.sh/uv/concepts/indexes
(uv add NAME --index INDEX=URL pins it), https://python-poetry.org/docs/repositories (explicit package sources; poetry add --source)
"""

from __future__ import annotations

import re

from cudadoctor.model.facts import Unknown
from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import SETTING
from cudadoctor.prescribe.case import Case
from cudadoctor.prescribe.shells import Script

# By the examined interpreter's place, and by the circumstances of a text (tables/circumstances.toml) in their order.
_PLACES = (("pixi", "/.pixi/envs/"), ("poetry", "/pypoetry/virtualenvs/"))
_TOLD = ("pixi", "poetry", "uv-project", "conda", "uv")
_PREFIX = lazy(
    r"(?<![\w.}$-])(?P<home>~)?(?P<prefix>(?:/|[A-Za-z]:\\)[\w.@+/\\-]{0,200}[/\\]envs[/\\][\w.-]{1,60})[/\\](?:lib|Lib|bin|python\.exe)\b"
)
_BELOW_HOME = lazy(r"(?:/(?!\.{1,2}/)[\w.@+-]{1,100}){1,20}")  # no shell takes any of it for more than it is
_PIP = lazy(r"\{python\} -m pip (?P<command>install|uninstall|check|list|show|freeze)\b(?P<options>(?: --?[a-z-]+)*)(?P<rest>.*)")
_INDEX = lazy(r" --index-url (?P<url>\S+/)(?P<tag>\{torch_index\})")
_CONDA = lazy(r"conda (?P<command>install|remove) -y -p \{prefix\}(?P<options>(?: -c conda-forge| --[a-z-]+)*)(?P<rest>.*)")
# uv and poetry leave the version that a project's file pins where a new one comes without bounds (seen with uv 0.13).
UNPINNED = {"torch": "torch~=2.0", "torchvision": "torchvision~=0.15", "torchaudio": "torchaudio~=2.0"}
# The project's own Python, where its path is not known.
RUNS = {"pixi": "pixi run python", "poetry": "poetry run python", "uv-project": "uv run python"}


def manager(case: Case) -> str | None:
    """pixi | poetry | uv-project | conda | uv; None: pip, or nobody knows."""
    python = case.python
    if python is not None:
        place = (python.prefix or python.path).replace("\\", "/") + "/"
        owner = next((name for name, folder in _PLACES if folder in place), None)
        return owner or ("uv" if python.uv else "conda" if python.conda else None)
    told = next((name for name in _TOLD if name in case.setting.words), None)
    if told in ("conda", None) and case.variable("VIRTUAL_ENV") is None and case.variable("CONDA_PREFIX"):
        told = "conda"
    # pip's PyTorch in a conda environment is pip's to replace.
    return None if told == "conda" and "torch-of-pip" in case.setting.words else told


def owns_project(case: Case) -> bool:
    """Whether a project's file names the packages, with their versions."""
    return manager(case) in ("uv-project", "poetry")


def conda_prefix(case: Case) -> str | None:
    """The folder of the environment that conda or pixi keeps; where a text shows no path of it, the active one."""
    if manager(case) not in ("conda", "pixi"):
        return None
    if case.python is not None:
        return case.python.prefix or case.python.conda
    setting = case.facts.get(SETTING)
    shown = "" if isinstance(setting, Unknown) else "\n".join(quote.text for quote in setting.quotes)
    named = _PREFIX.search(case.words) or _PREFIX.search(shown)
    if case.variable("CONDA_PREFIX") or named is None:
        return case.variable("CONDA_PREFIX") or Script("$Env:CONDA_PREFIX" if case.windows else '"$CONDA_PREFIX"')
    if not named["home"]:
        return named["prefix"]
    return Script(f'"$HOME"{named["prefix"]}') if _BELOW_HOME.fullmatch(named["prefix"]) else Script('"$CONDA_PREFIX"')


def in_its_words(text: str, case: Case) -> str | None:
    """A command with each line for pip or conda as this manager has it. None: it has no such thing, the words remain."""
    name = manager(case)
    lines = [_line(line, name, case) for line in text.strip("\n").split("\n")]
    return None if None in lines else "\n".join(filter(None, lines))


def _line(line: str, name: str | None, case: Case) -> str | None:
    pip, conda = _PIP.search(line), _CONDA.fullmatch(line)
    if name == "pixi" and conda is not None:
        return f"pixi {'add' if conda['command'] == 'install' else 'remove'}{_of_project(case)}{conda['rest']}"
    if name == "conda" and conda is not None:
        return _of_conda(case) + line[len("conda") :]
    if pip is None or name in (None, "conda"):
        return line
    if name == "uv":
        python = " --python {python}" if case.python is not None else ""
        return f"{line[: pip.start()]}uv pip {pip['command']}{python}{pip['options'].replace(' -y', '')}{pip['rest']}"
    if name == "poetry" and case.python is not None:
        return None  # the environment's place does not tell whose project it is
    if pip["command"] not in ("install", "uninstall"):
        return {"uv-project": f"uv pip {pip['command']}", "poetry": "poetry show", "pixi": f"pixi list{_of_project(case)}"}[name or ""]
    if pip["command"] == "uninstall" or pip.start():
        return None
    return _added(pip["rest"], name or "", case)


def _of_conda(case: Case) -> str:
    """What conda is called here. micromamba is one program, and often the only one; mamba and conda come together."""
    path = (case.variable("MAMBA_EXE") or "").replace("\\", "/")
    return "micromamba" if path.rpartition("/")[2].startswith("micromamba") or "micromamba" in case.setting.words else "conda"


def _added(rest: str, name: str, case: Case) -> str | None:
    """`pip install` for a project: its file names the package, and the index that it comes from."""
    index = _INDEX.search(rest)
    packages = _INDEX.sub("", rest)
    if name == "pixi":
        return None if index is not None else f"pixi add --pypi{_of_project(case)}{packages}"
    if name == "uv-project":
        return f"uv add{packages}" + (f" --index pytorch-{index['tag']}={index['url']}{index['tag']}" if index is not None else "")
    if index is None:
        return f"poetry add{packages}"
    source = f"pytorch-{index['tag']}"
    return f"poetry source add --priority=explicit {source} {index['url']}{index['tag']}\npoetry add --source {source}{packages}"


def _of_project(case: Case) -> str:
    """The project of an environment that was examined; a text's is the one that its shell is in."""
    return " --manifest-path {project}" if case.python is not None else ""


def project(case: Case) -> str | None:
    """The folder above .pixi."""
    folder = re.split(r"[/\\]\.pixi[/\\]", case.python.prefix or "") if case.python is not None else []
    return folder[0] if len(folder) > 1 else None
