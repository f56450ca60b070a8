"""How Sphinx makes a site of these pages: `./dev docs --site`.

The pages are Markdown that reads well as it is. A link to a file of the repository (`../weft/ir/graph.py`) leads to
a page of the site that shows the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.addnodes import download_reference, toctree
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
PICTURES = (".svg", ".png")
NAMES = "reference/names"  # stands beside the pages of its folder, not below them

project = "weft"
extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]
root_doc = "index"
nitpicky = True
highlight_language = "none"  # of blocks that name no language: commands, signatures, layouts
myst_heading_anchors = 3
html_theme = "furo"
html_title = "weft"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["site"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}

source_files: set[Path] = set()  # files of the repository that a page links to


def add_pages_of_folder(app: Sphinx, page: str, source: list[str]) -> None:
    """Put the pages of a folder below its README, in the navigation."""
    folder, _, name = page.rpartition("/")
    if folder and name == "README":
        pages = sorted(p for p in app.env.found_docs if p.rpartition("/")[0] == folder and p not in (page, NAMES))
        source[0] += "\n".join(["", "```{toctree}", ":hidden:", "", *(f"/{p}" for p in pages), "```", ""])


def link_to_sources(app: Sphinx, doctree: nodes.document) -> None:
    """Lead links to files of the repository to their pages. (The parser takes them for downloads.)"""
    page = app.env.docname
    for link in list(doctree.findall(download_reference)):
        file = (Path(app.srcdir) / page).parent.joinpath(link["reftarget"]).resolve()
        if file.is_relative_to(ROOT) and file.suffix not in PICTURES:
            source_files.add(file)
            uri = app.builder.get_relative_uri(page, page_of(file))
            link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))


def page_of(file: Path) -> str:
    return f"source/{file.relative_to(ROOT).as_posix()}"


def source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """A page for each file that is linked to."""
    for file in sorted(source_files):
        try:
            lexer = get_lexer_for_filename(file.name)
        except ClassNotFound:
            lexer = TextLexer()
        name = file.relative_to(ROOT).as_posix()
        text = highlight(file.read_text(encoding="utf-8"), lexer, HtmlFormatter(linenos="inline"))
        yield page_of(file), {"title": name, "body": f"<h1>{name}</h1>\n{text}"}, "page.html"


def navigate_by_titles(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Make the navigation of pages alone. (With their 2,000 sections it takes half of the building's time, and the
    theme leaves the sections out afterwards.)"""
    navigation: Callable[..., str] = context["toctree"]

    def by_titles(**options: Any) -> str:
        full = app.env.tocs
        app.env.tocs = {name: without_sections(toc) for name, toc in full.items()}
        try:
            return navigation(**options)
        finally:
            app.env.tocs = full

    context["toctree"] = by_titles


def without_sections(toc: nodes.bullet_list) -> nodes.bullet_list:
    """The title of a page, and the pages below it."""
    short = toc.copy()
    for item in toc.children:
        kept = item.copy()
        kept += [child.deepcopy() for child in item.children if not isinstance(child, nodes.bullet_list)]
        pages = [tree.deepcopy() for tree in item.findall(toctree)]
        if pages:
            kept += nodes.bullet_list("", *pages)
        short += kept
    return short


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_pages_of_folder)
    app.connect("doctree-read", link_to_sources, priority=100)  # before downloads are collected
    app.connect("html-collect-pages", source_pages)
    app.connect("html-page-context", navigate_by_titles, priority=100)  # before the theme
