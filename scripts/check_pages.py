"""Open a page of weft.explain in a browser without a screen, use everything on it, and keep pictures of it.

    ./dev browser                      # a page of a small training step
    ./dev browser PAGE.html ...        # pages that `weft explain --html` wrote
    ./dev browser --pictures FOLDER    # where the pictures go (default: a new folder, which is named)

Needs Chromium (`apt-get install chromium`), which is no part of weft. Fails where the page's console has an error, or
where something on it that can be pressed throws one.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE.html")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        print(f"there is no browser here: none of {', '.join(BROWSERS)} is on the PATH", file=sys.stderr)
        return 2
    folder = options.pictures or Path(tempfile.mkdtemp(prefix="weft-pages-"))
    folder.mkdir(parents=True, exist_ok=True)
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
