"""A page as a browser takes it apart."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements of a page, each with its attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    @property
    def tags(self) -> set[str]:
        """Return which elements there are."""
        return {tag for tag, _ in self.elements}

    @property
    def links(self) -> list[str]:
        """Return where its links lead."""
        return [str(of["href"]) for tag, of in self.elements if tag == "a" and "href" in of]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.texts.append(data)
