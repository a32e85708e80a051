"""The manual's site, built whole and opened in Chromium. It takes a minute and the extra `site`: a workflow runs it each week.

That every page is two clicks from the index and no link leads nowhere is tested on the Markdown pages (tests/test_cause_pages.py).
"""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.knowledge.load import load
from tests.command_line import ROOT
from tests.test_html_browser import CHROMIUM

pytestmark = pytest.mark.long
SCRIPT = ROOT / ".github" / "scripts" / "site.py"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="THE SITE WAS NOT BUILT: pip install '.[site]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, str(SCRIPT), str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_cause_has_its_stable_address_and_its_twin(built: Path) -> None:
    for cause in load().causes:
        assert (built / "causes" / cause / "index.html").is_file()
        assert (built / "causes" / f"{cause}.md").read_text("utf-8").startswith("# ")
    assert (built / "llms.txt").is_file()
    assert "https://cudadoctor.example/causes/nouveau-bound/" in (built / "causes" / "nouveau-bound" / "index.html").read_text("utf-8")


def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    code = (
        "import sys; sys.argv = [sys.argv[1], sys.argv[2]]\n"
        "from cudadoctor.commands import manual\n"
        "manual.files = lambda knowledge: iter([('index.md', '# One\\n\\n[two](two.md)\\n')])\n"
        "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(SCRIPT), str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "two" in done.stderr + done.stdout


# ---------------------------------------------------------------- in a browser
@pytest.fixture(scope="module")
def served(built: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(built))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def page(served: str) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("THE SITE WAS NOT LOOKED AT: no Chromium here")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        opened = browser.new_page()
        abroad: list[str] = []
        opened.on("request", lambda request: request.url.startswith((served, "data:")) or abroad.append(request.url))
        yield opened
        browser.close()
    assert abroad == []  # it asks nobody else


def test_from_the_index_to_a_cause_and_its_steps_for_each_family(page: Any, served: str) -> None:
    page.goto(served)
    page.locator("main, article").get_by_role("link", name="Causes", exact=True).first.click()
    page.get_by_role("link", name="driver-not-installed").click()
    assert page.url == f"{served}causes/driver-not-installed/"
    assert "ubuntu-drivers" in page.locator(".sd-tab-content:visible").inner_text()
    page.locator("label", has_text="Arch").first.click()
    assert "ubuntu-drivers" not in page.locator(".sd-tab-content:visible").inner_text()


@pytest.mark.parametrize(
    ("words", "title"),
    [
        ("CUDA_ERROR_NO_DEVICE", "CUDA 100, CUDA_ERROR_NO_DEVICE"),
        ("no+CUDA-capable+device+is+detected", "CUDA 100, CUDA_ERROR_NO_DEVICE"),
        ("Xid+79", "Xid 79, ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS"),
        ("Driver%2Flibrary+version+mismatch", "The loaded kernel module and the user-space driver are of different versions"),
        ("Torch+not+compiled+with+CUDA+enabled", "The framework installed is a CPU-only build"),
    ],
)
def test_a_printed_message_is_found_first(words: str, title: str, page: Any, served: str) -> None:
    page.goto(f"{served}search/?q={words}")
    page.locator("#search-results li a").first.wait_for()
    assert page.locator("#search-results li a").first.inner_text() == title


@pytest.mark.parametrize(
    "place", ["", "causes/", "causes/nouveau-bound/", "codes/cuda-100/", "gpus/kepler/", "messages/", "demands/", "ci/"]
)
def test_axe_finds_nothing_serious(place: str, page: Any, served: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.goto(served + place)
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")] == []
