"""One way to make a page: a template, our style and plotly.js in a single file that asks the
network for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def render(
    template: str,
    *,
    filters: Mapping[str, Callable[..., Any]],
    tests: Mapping[str, Callable[..., bool]] | None = None,
    **context: Any,
) -> str:
    """The template beside this file with everything from outside escaped; `css` and `plotly_js` are
    given to it.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    folder = Path(__file__).parent
    pages = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= dict(filters)
    pages.tests |= dict(tests or {})
    css = Markup((folder / "page.css").read_text(encoding="utf-8"))
    return pages.get_template(template).render(css=css, plotly_js=Markup(get_plotlyjs()), **context)
