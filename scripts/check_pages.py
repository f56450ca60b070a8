"""Open a page of weft.explain in a browser without a screen, use everything on it, and keep pictures of it.

    ./dev browser                      # a page of a small training step
    ./dev browser PAGE.html ...        # pages that `weft explain --html` wrote
    ./dev browser --site               # the site that `./dev docs --site` built: its search, and some pages
    ./dev browser --pictures FOLDER    # where the pictures go (default: a new folder, which is named)

Needs Chromium (`apt-get install chromium`), which is no part of weft. Fails where the page's console has an error, or
where something on it that can be pressed throws one.
"""

from __future__ import annotations

import argparse
import functools
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
USE = """<script>
const problems = [];
addEventListener("error", e => problems.push(e.message));
function press(key) { document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); }
let pressed = 0;
try {
  for (let tab = 1; tab <= 6; tab++) {
    press(String(tab));
    if (!document.getElementById("view").textContent.trim()) problems.push("view " + tab + " is empty");
    const pressable = "#view .link, #view tr.row, #view tr.hot, #view rect.box, #view th";
    for (const link of [...document.querySelectorAll(pressable)].slice(0, 60)) {
      link.dispatchEvent(new MouseEvent("click", { bubbles: true })); pressed++;
      for (const inner of [...document.querySelectorAll("#side .link")].slice(0, 8)) inner.click();
      press(String(tab));
    }
    press("j"); press("k"); press("d"); press("Escape");
  }
  const search = document.getElementById("search");
  press("/"); search.value = "mul"; search.dispatchEvent(new Event("input")); press("3"); press("Escape");
  const total = program().kernels.reduce((sum, k) => sum + k.seconds, 0), native = program().native;
  if (native && (total > 1.1 * native || total < 0.5 * native)) problems.push(`kernels ${total} s of ${native} s`);
} catch (e) { problems.push(String(e)); }
document.documentElement.setAttribute("data-checked", problems.length ? problems.join("; ") : `ok, ${pressed} pressed`);
</script>"""

SITE = Path(__file__).resolve().parent.parent / "build" / "site"
SITE_PAGES = ("index", "guide/compile", "guide/gallery", "reference/names", "decisions/site", "source/weft/ir/graph.py")
WORD = "logsumexp"  # what is typed into the search
SEARCH = """<script>
// On the front page: type a word. On the page of results: follow the first one. There: say where that is.
function done(text) { fetch("/done?" + encodeURIComponent(text)); }
addEventListener("error", e => done("error: " + e.message));
addEventListener("load", () => {
  const page = location.pathname;
  if (page.endsWith("/index.html")) {
    const field = document.querySelector("input[name=q]");
    field.value = "WORD"; field.form.submit();
  } else if (page.endsWith("/search.html")) {
    const timer = setInterval(() => {
      const first = document.querySelector("#search-results li a");
      if (first) { clearInterval(timer); first.click(); }
    }, 50);
  } else done("ok, " + page + " " + document.body.textContent.includes("WORD"));
});
</script>""".replace("WORD", WORD)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE.html")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    parser.add_argument("--site", action="store_true", help="check build/site instead")
    options = parser.parse_args()
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print(f"there is no browser here: none of {', '.join(BROWSERS)} is on the PATH", file=sys.stderr)
        return 2
    folder = options.pictures or Path(tempfile.mkdtemp(prefix="weft-pages-"))
    folder.mkdir(parents=True, exist_ok=True)
    if options.site:
        return check_site(browser, folder)
    pages = options.pages or [page_of_a_step(folder)]
    worst = 0
    for page in pages:
        problem = checked(browser, page, folder)
        print(f"{page}: {problem or 'no error'}; {page.stat().st_size / 1e6:.2f} MB")
        worst |= bool(problem)
        for tab in ("summary", "source", "kernels", "timeline", "memory", "state"):
            picture = folder / f"{page.stem}-{tab}.png"
            run(browser, f"--screenshot={picture}", "--window-size=1400,900", f"{page.resolve().as_uri()}#{tab}")
    print(f"pictures: {folder}")
    return worst


def checked(browser: str, page: Path, folder: Path) -> str:
    """What is wrong with a page; "" if nothing is."""
    copy = folder / f"{page.stem}.used.html"
    copy.write_text(page.read_text("utf-8").replace("</body>", USE + "</body>"), "utf-8")
    done = run(browser, "--dump-dom", "--enable-logging=stderr", copy.resolve().as_uri())
    result = re.search(r'data-checked="([^"]*)"', done.stdout)
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    if result is None:
        return "the page's script did not run to its end"
    return "; ".join([*([] if result[1].startswith("ok") else [result[1]]), *errors])


def check_site(browser: str, folder: Path) -> int:
    """Search a word on the site, follow the first result, open some pages; 1 if something is wrong."""
    if not (SITE / "index.html").exists():
        print(f"{SITE} has no site: run ./dev docs --site first", file=sys.stderr)
        return 2
    worst = 0
    found, problems = searched(browser)
    print(f"search for {WORD}: {'; '.join(problems) or f'no error; the first result is {found}'}")
    worst |= bool(problems)
    with served(SITE) as address:
        results = f"search.html?q={WORD}"
        for name in (*(f"{name}.html" for name in SITE_PAGES), results):
            picture = folder / f"site-{re.sub(r'[^a-z]+', '-', name.removesuffix('.html'))}.png"
            page = run(
                browser, f"--screenshot={picture}", "--window-size=1400,1000", "--enable-logging=stderr",
                f"{address}/{name}",
            )
            problems = problems_in_console(page.stderr)
            print(f"{name}: {'; '.join(problems) or 'no error'}")
            worst |= bool(problems)
    print(f"pictures: {folder}")
    return worst


def searched(browser: str) -> tuple[str, list[str]]:
    """Type a word into the search of the front page and follow the first result: where it leads, and what is wrong.
    (Time of the browser's own, which `run` gives it, stands still over a change of pages.)"""
    answers: queue.Queue[str] = queue.Queue()
    with tempfile.TemporaryFile("w+") as log, served(SITE, SEARCH, answers) as address:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--remote-debugging-port=0"]
        process = subprocess.Popen([browser, *flags, f"{address}/index.html"], stderr=log, stdout=subprocess.DEVNULL)
        try:
            answer = answers.get(timeout=60)
        except queue.Empty:
            answer = "no result within a minute"
        finally:
            process.terminate()
            process.wait()
        log.seek(0)
        problems = problems_in_console(log.read())
    state, _, found = answer.partition(", ")
    if state != "ok":
        problems.append(answer)
    elif not found.endswith(" true"):
        problems.append(f"{found.split()[0]} does not have the word")
    return found.removesuffix(" true"), problems


def problems_in_console(log: str) -> list[str]:
    return [line for line in log.splitlines() if "CONSOLE" in line]


@contextmanager
def served(folder: Path, script: str = "", answers: queue.Queue[str] | None = None) -> Iterator[str]:
    """The address at which the pages of a folder are while the block runs, with a script at the end of each, whose
    requests for `/done?text` are answers."""
    handler = type("Handler", (PageHandler,), {"script": script, "answers": answers})
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class PageHandler(SimpleHTTPRequestHandler):
    """Gives files of a folder, those of HTML with a script."""

    script = ""
    answers: queue.Queue[str] | None = None

    def do_GET(self) -> None:
        if self.answers is not None and self.path.startswith("/done?"):
            self.answers.put(unquote(self.path.removeprefix("/done?")))
            self.send_error(204)
            return
        path = Path(self.translate_path(urlsplit(self.path).path))
        if path.suffix != ".html" or not path.is_file():
            super().do_GET()
            return
        body = path.read_text("utf-8").replace("</body>", self.script + "</body>").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what was asked for is no news."""


def run(browser: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=5000",
         *arguments],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def page_of_a_step(folder: Path) -> Path:
    """A page of a training step."""
    import weft

    model = weft.nn.Sequential(weft.nn.Linear(64, 256), weft.nn.GELU(), weft.nn.Linear(256, 4))
    optimizer = weft.optim.SGD(model.parameters(), lr=0.1)

    @weft.compile
    def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        optimizer.zero_grad()
        loss = weft.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = weft.randn(512, 64), weft.randint(0, 4, (512,))
    step(x, y)
    page = folder / "step.html"
    weft.explain(step, x, y).save(page)
    return page


if __name__ == "__main__":
    sys.exit(main())
