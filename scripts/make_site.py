"""Build the site of docs/ into build/site, and look whether every link of it leads somewhere.

    ./dev docs --site           # builds; a warning of Sphinx or a dead link is an error
    ./dev docs --serve          # builds, and shows it at http://127.0.0.1:8000 (--port)

The pages need no server: build/site/index.html opens from the folder, the search too.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"


class Links(HTMLParser):
    """What a page of HTML links to (`targets`), and the places that others may link to (`anchors`)."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.add(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./dev docs --site", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--serve", action="store_true", help="show the site when it is built, until Ctrl-C")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)
    if not built(SITE):
        return 1
    dead = list(dead_links(SITE))
    for text in dead:
        print(text, file=sys.stderr)
    if dead:
        return 1
    print(f"built {SITE.relative_to(ROOT)}/index.html; no warning, no dead link")
    if options.serve:
        serve(SITE, options.port)
    return 0


def built(folder: Path) -> bool:
    """Whether Sphinx made the site without a warning."""
    shutil.rmtree(folder, ignore_errors=True)
    flags = ["--quiet", "--builder", "html", "--fresh-env", "--fail-on-warning", "--keep-going"]
    command = [sys.executable, "-m", "sphinx", *flags, "--doctree-dir", str(folder.with_name("doctrees"))]
    return subprocess.run([*command, str(ROOT / "docs"), str(folder)]).returncode == 0


def dead_links(folder: Path) -> Iterator[str]:
    """Links within the site to pages, files or places that are not there."""
    pages = {path: links_of(path) for path in sorted(folder.rglob("*.html"))}
    for path, links in pages.items():
        for target in sorted(links.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_place = not parts.fragment or file not in pages or unquote(parts.fragment) in pages[file].anchors
            if not file.exists() or not is_place:
                yield f"{path.relative_to(folder)}: {target} leads nowhere"


def links_of(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text(encoding="utf-8"))
    return links


def serve(folder: Path, port: int) -> None:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{port}")
        server.serve_forever()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
