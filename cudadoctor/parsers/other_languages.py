"""What shells and the C library say in other languages than English, for the parsers that look for the English words.

Bash, dash, zsh, cmd.exe, Windows PowerShell and Ubuntu's command-not-found are translated; Python, the loader's messages within Python
and NVIDIA's own tools are not. A letter that was lost on the way (written in one code page, read in another) may be any.
"""

from __future__ import annotations

_OPEN, _CLOSE = "['\"`´‘’“”«»„「 \u00a0]{0,2}", "['\"`´‘’“”«»」 \u00a0]{0,2}"
# Behind the name: `bash: nvcc: Befehl nicht gefunden`, `'nvcc' n'est pas reconnu en tant que commande`.
_BEHIND = (
    "[Bb]efehl nicht gefunden", "[Kk]ommando nicht gefunden", "commande introuvable", "commande non trouvée", "orden no encontrada",
    "no se encontró la orden", "comando no encontrado", "comando não encontrado", "comando non trovato", "opdracht niet gevonden",
    "nie znaleziono polecenia", "příkaz nenalezen", "parancs nem található", "kommandot finns inte", "komut bulunamadı",
    "команда не найдена", "команду не знайдено", "未找到命令", "找不到命令", "command not found", "コマンドが見つかりません",
    "명령어를 찾을 수 없음", "명령을 찾을 수 없습니다", "không tìm thấy lệnh", "perintah tidak ditemukan",
    "is not recognized as", "n['’]est pas reconnu", "ist entweder falsch geschrieben", "wurde nicht als Name eines Cmdlet",
    "no se reconoce como", "n.o . reconhecid[oa] como", "non . riconosciuto come", "non riconosciuto come", "wordt niet herkend als",
    "не является внутренней", "не . внутрішньою", "не распознано как имя", "nie jest rozpoznawan[ay] jako",
    "nie zosta. rozpoznan[ay] jako", "nen. n.zvem vnitřn.ho", "i. ya da d.. komut", "terimi cmdlet, i.lev", "k.nns inte igen som",
    "不是内部或外部命令", "无法将", "项识别为 cmdlet", "不是內部或外部命令", "詞彙是否為 Cmdlet", "は、内部コマンドまたは外部コマンド",
    "は、コマンドレット、関数", "은\\(는\\) 내부 또는 외부 명령", "용어가 cmdlet, 함수",
)  # fmt: skip
# PowerShell's last words about it are the same in every language: CategoryInfo : ObjectNotFound: (nvcc:String) [], CommandNotFoundException
_CATEGORY = r"ObjectNotFound: \({}(?:\.exe)?:String\)"
# Before the name, as command-not-found says it: `Befehl »nvcc« nicht gefunden`.
_AROUND = (
    ("[Bb]efehl ", " nicht gefunden"),
    ("[Ll]a commande ", " n['’]a pas été trouvée"),
    ("[Nn]o se ha encontrado la orden ", ""),
    ("[Cc]omando ", " não encontrado"),
    ("[Cc]omando ", " non trovato"),
    ("[Кк]оманда ", " не найдена"),
    ("找不到命令", ""),
    ("未找到命令", ""),
)
NO_SUCH_FILE = (
    "Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier de ce (?:type|nom)|No existe el (?:archivo|fichero) o el directorio"
    "|Arquivo ou diretório (?:inexistente|não encontrado)|File o directory non esistente|Bestand of map bestaat niet"
    "|Nie ma takiego pliku ani katalogu|Нет такого файла или каталога|没有那个文件或目录|沒有此一檔案或目錄"
    "|そのようなファイルやディレクトリはありません|그런 파일이나 디렉터리가 없습니다|Böyle bir dosya ya da dizin yok"
)


def not_found(quoted: str) -> str:
    """A pattern for the lines by which shells of other languages say that there is no such program; `quoted` is its escaped name."""
    behind = rf"(?<![\w/.-]){_OPEN}{quoted}{_CLOSE}[:：]? {{0,2}}(?:{'|'.join(_BEHIND)})"
    around = "|".join(rf"{before}[:：]? ?{_OPEN}{quoted}(?![\w.-]){_CLOSE}{after}" for before, after in _AROUND)
    return rf"{behind}|{around}|\b{quoted} ?: (?:{NO_SUCH_FILE})|{_CATEGORY.format(quoted)}"
