"""Prompts made from the contracts, what never stands in them, and modules got out of any answer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from se_rl.data.cache import cache_folder
from se_rl.llm.extraction import Extraction, extract, normal_form
from se_rl.llm.prompts import (
    Scored,
    anonymous,
    build_prompt,
    default_macro,
    default_micro,
    module_text,
    repair_prompt,
)
from se_rl.modules.kinds import KINDS

REAL_SMOLLM2 = (
    cache_folder() / "models" / "smollm2"
)  # the user's own, asked for before tests get a private cache
REWARD = KINDS["reward"].contract.examples[0]
SYMBOLS = st.one_of(
    st.from_regex(r"[A-Z]{3,5}", fullmatch=True),
    st.from_regex(r"[A-Z]{2,4}[.-][A-Z]", fullmatch=True),
    st.from_regex(r"[036]0[0-9]{4}(\.(SH|SZ|SS|XSHG))?", fullmatch=True),
    st.from_regex(r"(sh|sz)\.?[036]0[0-9]{4}", fullmatch=True),
)
DATES = st.one_of(
    st.dates().map(lambda day: day.isoformat()).filter(lambda text: text > "1900"),
    st.dates().map(lambda day: f"{day:%m/%d/%Y}"),
    st.dates().map(lambda day: f"{day:%d %B %Y}"),
    st.dates().map(lambda day: f"{day:%b %d, %Y}"),
    st.datetimes().map(lambda moment: f"{moment:%Y-%m-%d %H:%M:%S}"),
)
WORDS = [
    "Here",
    "is",
    "the",
    "module",
    "you",
    "asked",
    "for:",
    "it's",
    "good,",
    "and",
    "uses",
    "3",
    "terms.",
]
PROSE = st.lists(st.sampled_from(WORDS)).map(" ".join)
DESIGNS = st.builds(
    lambda code_type, seed: (
        code_type,
        KINDS[code_type].random_source(np.random.default_rng(seed)),
    ),
    st.sampled_from(list(KINDS)),
    st.integers(0, 2**32 - 1),
)


def _all(code_type: str = "reward", **prompt: object) -> str:
    return "\n".join(message["content"] for message in build_prompt(code_type, **prompt))  # type: ignore[arg-type]


@pytest.mark.parametrize("code_type", KINDS)
def test_a_prompt_states_the_whole_contract(code_type: str) -> None:
    contract = KINDS[code_type].contract
    text = _all(code_type)
    for part in (contract.task, contract.signature, *contract.rules, *contract.glossary):
        assert part in text
    assert default_macro() in text and default_micro(code_type) in text
    assert all(module_text(example) in text for example in contract.examples)


def test_switches_change_what_stands_in_the_prompt() -> None:
    example = module_text(REWARD)
    assert example not in _all(few_shot=False)
    assert "step by step" in _all(chain_of_thought=True) and "step by step" not in _all()
    assert "Combine" in _all() and "Combine" not in _all(micro="Punish risk.")
    assert "Punish risk." in _all(micro="Punish risk.") and "Be brief." in _all(macro="Be brief.")
    with pytest.raises(ValueError, match="chain_of_thought to False"):
        build_prompt("reward", constrained=True, chain_of_thought=True)
    with pytest.raises(ValueError, match="'strategy'; use one of reward"):
        build_prompt("strategy")


@pytest.mark.parametrize("constrained", [True, False])
def test_history_shows_the_best_and_the_worst_in_order(constrained: bool) -> None:
    tried = [
        Scored(f"def reward(step):\n    return {i}.5 * step.news\n", {"PA": i}, f"idea{i}")
        for i in range(20)
    ]
    failed = Scored("def reward(step):\n    return broken\n", {}, "idea20")
    text = _all(history=[*tried[::-1], failed, Scored("def (", {})], constrained=constrained)
    assert text.index("broken") < text.index("19.5 * step.news") and "idea10" not in text
    assert "failed" in text and "pa +19" in text and "idea19" in text


@pytest.mark.parametrize("constrained", [True, False])
def test_the_parent_stands_with_its_scores(constrained: bool) -> None:
    parent = Scored(REWARD, {"PA": 0.314, "seed std": 0.02, "lost": float("nan")})
    text = _all(parent=parent, constrained=constrained)
    assert (
        module_text(REWARD).strip() in text
        and "pa +0.314, seed std +0.02" in text
        and "lost" not in text
    )
    with pytest.raises(ValueError, match="not Python"):
        build_prompt("reward", parent=Scored("def ("))


def test_a_repair_shows_the_answer_and_the_reason() -> None:
    asked = build_prompt("reward")
    chat = repair_prompt(asked, "my answer", "line 2: no such field")
    assert chat[:2] == asked and [m["role"] for m in chat] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert chat[2]["content"] == "my answer" and "line 2: no such field" in chat[3]["content"]


def test_the_short_form_is_short() -> None:
    for code_type in KINDS:
        assert len(_all(code_type, constrained=True)) < 1100  # about 3.7 characters a token
        assert (
            "import"
            not in build_prompt(code_type, constrained=True)[1]["content"].split("Example")[1]
        )


@pytest.mark.skipif(
    not REAL_SMOLLM2.is_dir(), reason="smollm2 is not here; run: se-rl llm pull smollm2"
)
def test_the_short_form_has_at_most_350_tokens() -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(REAL_SMOLLM2 / "tokenizer.json"))
    for code_type in KINDS:
        chat = build_prompt(code_type, constrained=True)
        frame = 16  # what the chat template puts around two messages
        assert sum(len(tokenizer.encode(message["content"])) for message in chat) + frame <= 350


@settings(max_examples=150)
@given(SYMBOLS, DATES, st.booleans())
def test_no_symbol_and_no_date_reaches_a_model(symbol: str, date: str, constrained: bool) -> None:
    told = f"On {date} {symbol} did well ({symbol}, {date})."
    source = f'"""{told}"""\n# {told}\ndef reward(step):\n    """{told}"""\n    note = "{told}"\n    return step.news\n'
    known = _all(constrained=constrained)
    text = _all(
        macro=f"Beat TWAP. {told}",
        micro=told,
        parent=Scored(source, {f"PA {symbol}": 1.0, date: 2.0}),
        history=[Scored(source, {symbol: 0.5}, told)],
        constrained=constrained,
    )
    assert not re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", text) or symbol in known
    assert date not in text and "TWAP" in text


def test_no_symbol_of_real_data_survives(shared_data: Path) -> None:
    files = [
        file
        for file in sorted(shared_data.rglob("*.parquet"))
        if "symbol" in pq.read_schema(file).names
    ]
    names = {
        name
        for file in files
        for name in pq.read_table(file, columns=["symbol"])["symbol"].unique().to_pylist()
    }
    if not names:
        pytest.skip(f"real data not found: no parquet file with symbols in {shared_data}")
    survivors = {name for name in names if name in anonymous(f"buy {name} now").split()}
    assert all(len(name) == 1 for name in survivors), (
        "a single letter is also a word of the contracts"
    )


def test_instructions_keep_their_sense() -> None:
    text = "Pair with TWAP, try nn.GRU with 0.0005 and 64 units; weights 0.00001 to 1.5, at most 300 steps (PPO)."
    assert anonymous(text) == text


def test_module_text_is_code_alone() -> None:
    source = 'import torch\n\n\ndef reward(step):  # why\n    """What."""\n    return step.news  # gain\n'
    assert module_text(source) == "import torch\n\ndef reward(step):\n    return step.news\n"
    assert module_text(source, imports=False) == "def reward(step):\n    return step.news\n"
    assert module_text('def f():\n    """Only words."""\n') == "def f():\n    pass\n"
    assert (
        normal_form(source)
        == normal_form(module_text(source))
        != normal_form(source.replace("news", "imbalance"))
    )
    assert normal_form("def (") == "def ("


WRAPPED = {
    "bare": "{code}",
    "prose around bare": "{before}\n\n{code}\nThis is why: {after}",
    "python fence": "{before}\n```python\n{code}```\n{after}",
    "py fence": "{before}\n```py\n{code}\n```\n{after}",
    "plain fence": "```\n{code}```",
    "tildes": "~~~python\n{code}~~~\n{after}",
    "no end": "{before}\n```python\n{code}",
    "twice fenced": "```python\n```python\n{code}```\n```",
    "other blocks": "```bash\npip install torch\n```\n{before}\n```python\n{code}```\n```python\nprint('done')\n```",
    "thoughts": "<think>maybe ```python\ndef reward(step): ...\n``` or {before}</think>\n```python\n{code}```",
    "open thoughts before": "let me think\n</think>```python\n{code}```",
    "sample of use": "```python\n{code}\nresult = print(1)\nfor i in range(3):\n    print(i)\n```",
    "windows": "{before}\r\n```python\r\n{code}```\r\n",
    "invisible": "\ufeff{before}\n```python\n\u200b{code}```",
}


@settings(max_examples=120)
@given(
    DESIGNS,
    PROSE,
    PROSE,
    st.sampled_from(sorted(WRAPPED)),
    st.sampled_from(["as is", "tabs", "smart", "indented"]),
)
def test_the_module_comes_out_of_any_wrapping(
    design: tuple[str, str], before: str, after: str, wrapping: str, typing: str
) -> None:
    code_type, code = design
    typed = {
        "as is": code,
        "tabs": re.sub(
            r"^( {4})+", lambda found: "\t" * (len(found.group()) // 4), code, flags=re.MULTILINE
        ),
        "smart": re.sub('"(.*?)"', "\u201c\\1\u201d", code),
        "indented": re.sub("^(?=.)", "    ", code, flags=re.MULTILINE),
    }[typing]
    answer = WRAPPED[wrapping].format(code=typed, before=before, after=after)
    if wrapping == "windows":
        answer = answer.replace("\n", "\r\n").replace("\r\r", "\r")
    found = extract(answer, code_type)
    assert found.source is not None, found.reason
    assert ast.dump(ast.parse(found.source)) == ast.dump(ast.parse(code))


SHARDS = [
    *"`~\n\t #()[]{}:='\"@<>/\\\u201d\x00",
    "def reward(step)",
    "return step.news",
    "```python\n",
    "<think>",
]
SHARDS += [
    "</think>",
    "class Network",
    "import torch\n",
    "    ",
    ":\n    return 1\n",
    "def reward(step):\n    return 1",
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(SHARDS), max_size=30).map("".join))
def test_no_answer_breaks_extraction(answer: str) -> None:
    found = extract(answer, "reward")
    if found.source is None:
        assert found.reason and "\n" not in found.reason
    else:
        names = [getattr(node, "name", "") for node in ast.parse(found.source).body]
        assert "reward" in names


@pytest.mark.parametrize(
    "answer, reason",
    [
        ("", "no `reward`"),
        ("I cannot do that.", "no `reward`"),
        ("```python\ndef other(step):\n    return 1\n```", "no `reward`"),
        (
            "```python\ndef reward(step):\n    return step.news.clamp(\n",
            "line 2: '(' was never closed",
        ),
        ("```python\ndef reward(step)\n    return 1\n```", "line 1: expected ':'"),
        ('"""\ndef reward(step: ...\n"""', "not at the top level"),
        ("x" * 300_000, "300000 characters"),
        ("def reward(step):\n    return " + "(" * 5000, "line 2: too many nested parentheses"),
    ],
)
def test_reasons_can_be_acted_on(answer: str, reason: str) -> None:
    found = extract(answer, "reward")
    assert found.source is None and reason in found.reason


def test_the_last_of_several_modules_counts() -> None:
    first, second = (
        f"```python\ndef reward(step):\n    return {i}.0 * step.news\n```\n" for i in (1, 2)
    )
    assert extract(f"{first}Better:\n{second}", "reward") == Extraction(
        "def reward(step):\n    return 2.0 * step.news\n"
    )
    assert (
        extract(first + "or\n```python\ndef reward(step:\n```", "reward").source
        == "def reward(step):\n    return 1.0 * step.news\n"
    )


def test_helpers_and_constants_stay() -> None:
    code = "import math\n\nSCALE = 2.0\n\n\ndef gain(step):\n    return step.news\n\n\n"
    code += "def reward(step):\n    return SCALE * gain(step)\n"
    assert extract(f"```python\n{code}```", "reward").source == code
