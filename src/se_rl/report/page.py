"""One way to make a page: a template, our style and plotly.js in a single file that asks the
network for nothing.

plotly.js is four fifths of a page, so it is packed there, and the browser unpacks it.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from se_rl.records.files import to_json


def render(
    template: str,
    *,
    filters: Mapping[str, Callable[..., Any]],
    tests: Mapping[str, Callable[..., bool]] | None = None,
    **context: Any,
) -> str:
    """The template beside this file with everything from outside escaped; `css` and
    `plotly_packed` are given to it.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

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
    template_found = pages.get_template(template)
    return template_found.render(css=css, plotly_packed=packed_plotly(), **context)


def finite(value: Any) -> Any:
    """The same as a browser's JSON can hold it: what is not a number is null."""
    return json.loads(to_json(value))


@cache
def packed_plotly() -> str:
    """plotly.js, zipped, in letters that need no escaping."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
