"""Designers side by side, as a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from se_rl_benchmarks.markdown_tables import number, signed, table

HEAD = """# Which designer writes better edits?

Made by `python benchmarks/designers.py`; do not edit. Each designer edits the same parents: designs
of the [bank](bank.md) that were kept out when the adapter was trained, with all of their chains. The
gain of an edit is its score less its parent's, both trained with the same seed and scored on the
same orders. Intervals are 95 % and go by parent, since edits of one parent are no independent trials.
"""


PREFERS = """Single changes in which the last designer differs most from the one before it: how often each made
them, and the mean gain of all trained edits that have them, in bps. Edits have up to three changes.
"""


VALID = """Written, drawn again where they repeat, and tried in the sandbox. The seconds are of all that, on two
cores shared with other work; the CPU seconds are those of the process that writes, on one thread.
"""


SEARCHES = """Made by `python benchmarks/designer_searches.py`. **No result**: trainings are pretended, and the
adapter learned from the surrogate that pretends them, so this tells how well it was learned. A
single edit of the default gains less than one reading may be wrong by; with all of that luck no
search of this length leaves the default ([a thousand of them](simulated_searches.md)), so readings
have a tenth of it here. The area is what the best design tried so far truly gains, by the surrogate
and in bps, averaged over all trainings of a search. `local` draws its edits, `untouched` asks the
model without an adapter, `shipped` with the package's, `learning` also lets prompts and weights
learn. The bank tells no search what to begin with. Searches of one seed are paired, and the number
of pairs stands behind each difference.
"""
CURVES = (("area", "ci95"), ("end", "end_ci95"))


def page(told: Mapping[str, Any]) -> str:
    """All that is known."""
    parts = [HEAD]
    if told["one_step"]:
        judge = "real trainings" if told["against"] == "trainings" else "the bank's surrogate"
        parts.append(f"## One edit, by {judge}\n{_skills(told)}")
    for world, one in told.get("elsewhere", {}).items():
        parts.append(f"## One edit in another world, by real trainings: {world}\n{_skills(one)}")
    if told.get("preferences"):
        parts.append(f"## What each prefers\n\n{PREFERS}\n{_preferred(told)}\n")
    if told.get("wishes"):
        parts.append(f"## What was asked for\n\n{_wishes(told['wishes'])}\n")
    if told.get("edits"):
        parts.append(
            f"## Valid edits of the default's modules\n\n{VALID}\n{_valid(told['edits'])}\n"
        )
    if told.get("search"):
        shipped = f"; shipped is {told['shipped']}" if told.get("shipped") else ""
        head = f"## Whole searches, against the bank's surrogate{shipped}"
        parts.append(f"{head}\n{_searches(told['search'])}\n")
    return "\n".join(parts)


def _searches(told: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, one in told.items():
        area, end = (f"{_fine(one[key])} {_finely(one[bounds])}" for key, bounds in CURVES)
        over = [_more(one["over"].get(other)) for other in ("local", "shipped")]
        spent = [f"{one['trainings']:.0f}", number(one["trainings_to_local_end"], 0)]
        ends = [end, _fine(one["leader_end"]), *spent]
        rows.append([name, str(one["runs"]), area, *over, *ends])
    head = ("designer", "searches", "area", "less `local`'s", "less `shipped`'s", "in the end")
    rest = ("leader", "trainings", "until where `local` ends")
    return f"\n{SEARCHES}\n{table((*head, *rest), rows)}"


def _more(over: Mapping[str, Any] | None) -> str:
    if over is None:
        return "-"
    return f"{_fine(over['mean'])} {_finely(over['ci95'])}, p {over['p']:.2g} ({over['pairs']})"


def _fine(value: float) -> str:
    """To a thousandth: searches differ by hundredths of a basis point."""
    return signed(value, 3)


def _finely(bounds: tuple[float, float]) -> str:
    return f"[{_fine(bounds[0])}, {_fine(bounds[1])}]"


def _skills(told: Mapping[str, Any]) -> str:
    rows = []
    for name, one in told["one_step"].items():
        share = f"{one['positive_share']:.0%}" if one["n"] else "-"
        rows.append([name, str(one["n"]), signed(one["mean_gain"]), _between(one["ci95"]), share])
    head = ("designer", "edits", "mean gain, bps", "95 % interval", "share above 0")
    text = "\n" + table(head, rows) + "\n"
    if "work" in told:
        text = f"\nTrainings of {told['work']:g} work units.\n" + text
    rows = []
    for name, one in told.get("differences", {}).items():
        p = f"{one['p']:.2g}"
        rows.append([name, str(one["parents"]), signed(one["mean"]), _between(one["ci95"]), p])
    if rows:
        head = ("difference", "parents", "mean, bps", "95 % interval", "p")
        text += "\n" + table(head, rows) + "\n"
    return text


def _preferred(told: Mapping[str, Any]) -> str:
    designers = list(told["one_step"])
    rows = []
    for one in told["preferences"]:
        made = [str(one["made"].get(name, 0)) for name in designers]
        change = one["change"].replace("|", "\\|")
        gain = [signed(one["mean_gain"]), str(one["trained"])]
        rows.append([one["module"], f"`{change}`", *made, *gain])
    return table(("module", "change", *designers, "mean gain", "trained"), rows)


def _between(bounds: tuple[float, float]) -> str:
    return f"[{signed(bounds[0])}, {signed(bounds[1])}]"


def _wishes(told: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for designer, by_wish in told.items():
        for wish, one in by_wish.items():
            net = f"{signed(one['net'])} {_between(one['ci95'])}"
            shares = [f"{one[way]:.0%}" for way in ("toward", "away")]
            rows.append([wish, designer, str(one["n"]), *shares, net])
    rows.sort(key=lambda row: row[0])
    head = ("wish", "designer", "edits", "toward it", "away from it", "net, 95 % interval")
    return table(head, rows)


def _valid(told: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for designer, by_module in told.items():
        for module, one in by_module.items():
            seconds = [number(one["seconds"]), number(one["cpu_seconds"])]
            rows.append([designer, module, str(one["n"]), f"{one['valid']:.1%}", *seconds])
    return table(("designer", "module", "edits", "valid", "seconds each", "CPU seconds each"), rows)
