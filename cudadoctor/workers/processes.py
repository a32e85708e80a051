"""Worker: the process table as far as it matters to a GPU, as JSON lines.

One line for each process that is no kernel thread. What a process holds open, its command line and its control group are read
only where they matter: for those that hold a device, and for those that may be left over from a job that ended.
psutil names the processes; where it cannot be imported, /proc is read directly. On Windows, which has no /proc, psutil alone says who
there is, and nobody says what each holds open.

Options: `--doctor PID` leaves out that process and all it started (default: the parent); `--device-prefix PATH` says what a
device's path begins with; `--looks N` how often a passing state is looked at again.
"""

from __future__ import annotations

import sys

sys.path.insert(0, __file__.replace("\\", "/").rpartition("/")[0])
from cudadoctor_lines import TYPE_CHECKING, beginning, command_line, emit, held_open, listing, option, pids, read, start, stat_fields

# isort: split
import os
import time

if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Set, Tuple

    Entry = Dict[str, Any]

DEVICE_PREFIX = "/dev/nvidia"
COMMAND_LIMIT = 300  # characters
NAMES = "/proc/kallsyms"
IN_DRIVER = "[nvidia"  # a function of one of its modules: [nvidia], [nvidia_uvm]
PASSING = ("Z", "X", "D")  # states that every process may be in for a moment
MOMENT = 0.3  # seconds
ENDED = (FileNotFoundError, ProcessLookupError)  # what /proc says of who ended meanwhile
WAITS_LIMIT = 100  # characters of where a process waits
KERNEL_THREAD = 0x00200000  # PF_KTHREAD in the flags of /proc/PID/stat
# What may be the parent of a process whose own parent ended: an init, or a supervisor that asked to be one.
REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "podman-init", "catatonit", "runit", "s6-svscan", "supervisord")
# The driver's own daemons leave their session on purpose. Names as the kernel cuts them, at 15 characters.
DAEMONS = ("nvidia-persiste", "nvidia-cuda-mps", "nv-hostengine", "nv-fabricmanage", "nvidia-powerd", "nvidia-imex", "nvsm_core")
SHOWN = ("pid", "ppid", "sid", "user", "state", "start_time", "service", "devices", "waits", "in_driver", "command")


def tell(entry: Entry, own: bool) -> None:
    emit("process", own=own, **{key: entry[key] for key in SHOWN if entry.get(key) not in (None, [])})


# ---------------------------------------------------------------- who there is
def name_of(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def table_from_proc() -> Dict[int, Entry]:
    ticks = os.sysconf("SC_CLK_TCK")
    boot = next((int(line.split()[1]) for line in read("/proc/stat").splitlines() if line.startswith("btime ")), None)
    names: Dict[int, Optional[str]] = {}
    table: Dict[int, Entry] = {}
    for pid in pids():
        try:
            uid = int(read("/proc/%d/status" % pid).partition("\nUid:")[2].split()[0])
            _, fields = stat_fields(pid)
        except (OSError, IndexError):
            continue  # it ended meanwhile
        if uid not in names:
            names[uid] = name_of(uid)
        began = boot + int(fields[19]) / ticks if boot is not None else None
        table[pid] = {"pid": pid, "ppid": int(fields[1]), "user": names[uid], "uid": uid, "start_time": began}
    return table


def table_from_psutil(psutil: Any) -> Dict[int, Entry]:
    table: Dict[int, Entry] = {}
    for process in psutil.process_iter(["ppid", "username", "uids", "create_time"]):
        found = process.info
        if found["uids"] is not None:  # None: not to be asked, as one that just ended
            began, uid = found["create_time"], found["uids"].real
            table[process.pid] = {"pid": process.pid, "ppid": found["ppid"], "user": found["username"], "uid": uid, "start_time": began}
    return table


def process_table() -> Tuple[Dict[int, Entry], str, Optional[str]]:
    """The processes, who named them, and why not psutil."""
    try:
        import psutil

        return table_from_psutil(psutil), "psutil %s" % psutil.__version__, None
    except BaseException as error:  # a broken module may even call sys.exit
        wrong = ("psutil: %s: %s" % (type(error).__name__, error))[:COMMAND_LIMIT]
    return table_from_proc(), "/proc", wrong


def add_stat(table: Dict[int, Entry]) -> Dict[int, Entry]:
    """Session, state letter, name and flags from /proc/PID/stat; kernel threads and those that ended are dropped. The same table."""
    for pid in list(table):
        try:
            name, fields = stat_fields(pid)
            flags = int(fields[6])
        except (OSError, IndexError, ValueError):
            del table[pid]
            continue
        if flags & KERNEL_THREAD:
            del table[pid]
        else:
            table[pid].update(letter=fields[0], sid=int(fields[3]), name=name)
    return table


def leave_what_lasts(table: Dict[int, Entry], family: Set[int], prefix: str) -> None:
    """A process that is just ending is defunct for a moment, and one that asks the driver sleeps for one: such a state counts where it is
    there when looked at again. Where there is no device it matters to nobody, nor does the doctor's own `family`.
    """
    folder, _, begins = prefix.rpartition("/")
    matters = any(name.startswith(begins) for name in listing(folder or "/"))
    for _ in range(int(option(sys.argv, "--looks", "1")) if matters else 0):
        passing = {pid: entry for pid, entry in table.items() if entry["letter"] in PASSING and pid not in family}
        if not passing:
            return
        time.sleep(MOMENT)
        for pid in set(passing) - set(add_stat(dict(passing))):
            del table[pid]


def doctors_own(table: Dict[int, Entry], doctor: int) -> Set[int]:
    """The doctor, its descendants, and the sessions that these lead; Windows has no sessions."""
    family = {doctor, os.getpid()}
    leaders: Set[int] = set()
    grown = True
    while grown:
        more = {pid for pid, entry in table.items() if pid not in family and (entry["ppid"] in family or entry.get("sid") in leaders)}
        grown = bool(more)
        family |= more
        leaders |= more
    return family


# ---------------------------------------------------------------- Windows
def table_of_windows(psutil: Any) -> Dict[int, Entry]:
    """Every process as far as this user may ask. Windows suspends apps whose windows are hidden: that is no state of a fault, all run."""
    table: Dict[int, Entry] = {}
    for process in psutil.process_iter(["ppid"]):
        entry: Entry = {"pid": process.pid, "ppid": process.info["ppid"], "user": None, "start_time": None, "state": "running"}
        table[process.pid] = entry
        try:
            entry.update(start_time=process.create_time(), user=process.username())
        except (psutil.Error, OSError):
            pass  # another user's, or an account that no longer has a name
    return table


def on_windows(doctor: int) -> None:
    """The table of Windows. It is never complete: which files other processes hold open is not asked there."""
    try:
        import psutil

        table, provider = table_of_windows(psutil), "psutil %s" % psutil.__version__
    except BaseException as error:  # a broken module may even call sys.exit
        emit("error", step="processes", error=("psutil: %s: %s" % (type(error).__name__, error))[:COMMAND_LIMIT])
        return
    own = table.get(os.getpid(), {}).get("user")
    family = doctors_own(table, doctor)
    emit("processes", provider=provider, provider_error=None, complete=False)
    for pid in sorted(set(table) - family):
        tell(table[pid], own=own is not None and table[pid]["user"] == own)


# ---------------------------------------------------------------- what each holds
def files_of(pid: int) -> int:
    """How many files a process holds open, where the kernel says it (Linux 6.2 and later)."""
    try:
        return os.stat("/proc/%d/fd" % pid).st_size
    except OSError:
        return 0


def devices(pid: int, letter: str, prefix: str) -> Tuple[Set[str], bool]:
    """Device files that a process holds, and whether that could be read."""
    folders = ["/proc/%d" % pid]
    found: Set[str] = set()
    try:
        if letter in ("Z", "X"):  # its first thread ended; others may still hold files
            folders = ["/proc/%d/task/%s" % (pid, thread) for thread in os.listdir("/proc/%d/task" % pid) if thread != str(pid)]
        for folder in folders:
            try:
                found |= held_open(folder + "/fd", (prefix,))
            except ENDED:
                pass  # and others go on
    except ENDED:
        pass
    except OSError:
        return set(), False
    return found, True


def waits(pid: int) -> Tuple[Optional[str], Optional[bool]]:
    """Where in the kernel a process waits, `os_acquire_mutex [nvidia]`, and whether that is in NVIDIA's driver: None where nobody says.

    The kernel's stack, which root alone may read, names the module of each function. Without it one function is told, which may be a lock
    that the driver took.
    """
    frames = [line.split("] ", 1)[-1].strip() for line in beginning("/proc/%d/stack" % pid).splitlines()]
    place = next((frame for frame in frames if IN_DRIVER in frame), frames[0] if frames else "")
    place = place or with_module(beginning("/proc/%d/wchan" % pid).strip())
    name, _, module = place.partition(" ")
    name = name.split("+")[0]
    if name in ("", "0"):
        return None, None
    return (name + " " + module).strip()[:WAITS_LIMIT], True if IN_DRIVER in place else False if frames else None


def with_module(function: str) -> str:
    """A function of the kernel as its stack would name it; the kernel's list of all names is told to everybody."""
    try:
        with open(NAMES, errors="replace") as lines:
            parts = next((line.split() for line in lines if line.split()[2:3] == [function]), [])
    except OSError:
        return function
    return " ".join([function, *parts[3:4]])


def in_service(pid: int) -> Optional[bool]:
    """Whether its control group is that of a systemd service, which would be started again and is nobody's left-over."""
    try:
        groups = read("/proc/%d/cgroup" % pid).splitlines()
    except OSError:
        return None
    return any(group.rpartition("/")[2].endswith(".service") and not group.rpartition("/")[2].startswith("user@") for group in groups)


def may_be_left_over(entry: Entry, table: Dict[int, Entry]) -> bool:
    """Parent is a reaper and the session's leader is gone. A daemon leads its own session; session 0 is another namespace's."""
    ppid, sid = entry["ppid"], entry["sid"]
    if sid == 0 or entry["name"] in DAEMONS:
        return False
    parent = table.get(ppid)
    adopted = ppid == 1 or (parent is not None and parent["name"] in REAPERS)
    leader = table.get(sid)
    return adopted and (leader is None or leader["letter"] in ("Z", "X"))


def state(entry: Entry, table: Dict[int, Entry]) -> str:
    """One word. `orphaned` is decided last: a stopped or defunct process is that first."""
    word = {"T": "stopped", "t": "stopped", "Z": "defunct", "X": "defunct", "D": "uninterruptible"}.get(entry["letter"])
    if word is not None:
        return word
    if may_be_left_over(entry, table):
        entry["service"] = in_service(entry["pid"])
        return "unknown" if entry["service"] is None else "running" if entry["service"] else "orphaned"
    return "running"


def main() -> None:
    """Read the table, and write each process when it is known; the last line says whether other users' open files could be read."""
    start()
    doctor = int(option(sys.argv, "--doctor", str(os.getppid())))
    if sys.platform == "win32":
        on_windows(doctor)
        return
    prefix = option(sys.argv, "--device-prefix", DEVICE_PREFIX)
    table, provider, wrong = process_table()
    family = doctors_own(add_stat(table), doctor)
    leave_what_lasts(table, family, prefix)
    mine = os.getuid() if hasattr(os, "getuid") else None
    complete = os.access("/proc/1/stat", os.R_OK)  # not so where other users' processes are hidden, or shown without what they do
    for pid in sorted(set(table) - family, key=lambda pid: (files_of(pid), pid)):  # who opened a million files hides nobody else
        entry = table[pid]
        held, readable = devices(pid, entry["letter"], prefix)
        entry["devices"], complete = sorted(held), complete and readable
        entry["state"] = state(entry, table)
        if entry["state"] == "uninterruptible":
            entry["waits"], entry["in_driver"] = waits(pid)
        if entry["devices"] or entry.get("waits"):
            entry["command"] = (command_line(pid) or "[%s]" % entry["name"])[:COMMAND_LIMIT]
            entry["service"] = in_service(pid)
        tell(entry, own=entry["uid"] == mine)
    emit("processes", provider=provider, provider_error=wrong, complete=complete)


if __name__ == "__main__":
    main()
