"""A run's policy in use: on the run's own bars it does what scoring had it do, bar by bar."""

from __future__ import annotations

import gc
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import se_rl
from se_rl.config import ConfigError
from se_rl.core.deploy import LoadedPolicy, UnlikeTraining, load_policy
from se_rl.core.evaluate import own_settings
from se_rl.core.parent_order import ParentOrder
from se_rl.data.features import FeatureScales
from se_rl.data.known import Known
from se_rl.data.market_data import DataError, MarketData
from se_rl.data.synthetic import SyntheticConfig, synthetic_market
from se_rl.environments.costs import FREE, Costs
from se_rl.environments.static_world import StaticWorld
from se_rl.environments.worlds import Episodes
from se_rl.modules.agent_interface import further_width
from se_rl.modules.defaults import Modules
from se_rl.modules.kinds.network import CONTRACT
from se_rl.modules.loading import load_design
from se_rl.records.plain import from_plain, to_plain
from se_rl.rl.policy import Policy
from se_rl.rl.policy_file import PolicyFileError, policy_facts, save_weights
from se_rl.rl.policy_origin import PolicyOrigin, TrainedBars, TrainedScales
from se_rl.sandbox.lockdown import isolation_level
from se_rl.scoring.play import play
from se_rl_benchmarks import act_cost

HORIZON = 12
DESIGNED = next(text for text in CONTRACT.examples if "history = 4" in text)
"""A network that sees four observations at once: what was left before matters to it."""
SEES_A_BOOK = DESIGNED.replace("    history = 4\n", "    inputs = ('own_lots', 'drift')\n")
"""A network that asks for more than bars tell."""
needs_sandbox = pytest.mark.skipif(
    not isolation_level().enough, reason="no sandbox is to be had on this machine"
)


@pytest.fixture(scope="module")
def market() -> MarketData:
    return synthetic_market(SyntheticConfig(symbols=4, sessions=9, seed=3))


@pytest.fixture(scope="module")
def frame(market: MarketData) -> pd.DataFrame:
    return market.to_frame()


def origin_of(market: MarketData, **changes: Any) -> PolicyOrigin:
    train = market.select(dates=market.dates[:5])
    origin = PolicyOrigin(
        bars=TrainedBars.of(train, sha256="0" * 64),
        scales=TrainedScales.of(FeatureScales.fit(train)),
        costs=Costs(),
        horizons=(HORIZON,),
        dynamic_horizons=(6,),
        sizes=(0.01, 0.30),
    )
    return replace(origin, **changes)


def write_policy(
    path: Path,
    origin: PolicyOrigin | None,
    *,
    design: dict[str, str] | None = None,
    agents: int = 1,
) -> Path:
    """A policy of random weights, large enough that it does something else at every bar."""
    modules = load_design(design) if design else Modules()
    inputs = modules.interface.inputs
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        policy = Policy(
            modules,
            observation_size=32 + further_width(inputs),
            worlds=2,
            agents=agents,
            message_size=4 * (agents > 1),
        )
        with torch.no_grad():
            policy.heads.weight.normal_(std=0.5)
    facts = {
        "name": "a design",
        "world": "both",
        "shape": policy.shape,
        "action_map": {"zero": 1.0, "scale": 1.0, "price_scale": 2.0},
        "neutral": {"dynamic": {"multiple": 1.5, "offset": 1.0}},
        "design": design or {},
        "seed": 0,
        "work": 1.0,
    }
    if inputs:
        facts["inputs"] = list(inputs)
    save_weights(path, policy, facts | ({} if origin is None else {"origin": to_plain(origin)}))
    return path


@pytest.fixture(scope="module")
def default(market: MarketData, tmp_path_factory: pytest.TempPathFactory) -> LoadedPolicy:
    path = tmp_path_factory.mktemp("policy") / "best.policy"
    return load_policy(write_policy(path, origin_of(market)).parent)


def scored(
    policy: LoadedPolicy, market: MarketData, costs: Costs = FREE
) -> tuple[StaticWorld, Episodes, list[Any]]:
    """Orders of the last day as scoring plays them, with every action that the policy took."""
    scales = policy.origin.scales.feature_scales()
    world = StaticWorld(
        market, horizon=HORIZON, dates=market.dates[-1:], scales=scales, costs=costs
    ).showing(policy._saved.interface.inputs)
    episodes = world.draw(np.random.default_rng(1), 4)
    actions: list[Any] = []
    actor = policy._saved.actor("static", HORIZON, len(episodes))
    actor.start(len(episodes), HORIZON)
    observation = world.reset(episodes)
    fields = np.zeros((len(world.field_names), len(episodes)), np.float32)
    for _ in range(HORIZON):
        left = world.core.remaining.copy()
        ratio, offset = actor.act(observation)
        touch = world.core.touch().copy()
        observation = world.step(ratio, offset if world.takes_price else None, fields)
        actions.append((ratio, offset, touch, left))
    actor.close()
    return world, episodes, actions


def orders_of(market: MarketData, world: StaticWorld, episodes: Episodes, order: int) -> Any:
    """One of the played orders as a desk would state it when it begins."""
    orders = episodes.orders
    minute = int(market.grid.minutes[orders.start[order]])
    day = pd.to_datetime(str(market.dates[-1])) + pd.Timedelta(minutes=minute)
    return ParentOrder(
        "sell" if orders.side[order] > 0 else "buy",
        float(orders.quantity[order]),
        HORIZON,
        symbol=market.symbols[orders.row[order] // len(market.dates)],
        start=day,
    )


@pytest.mark.parametrize(
    "network",
    [
        None,
        pytest.param("sees a book", marks=needs_sandbox),
        pytest.param("designed", marks=needs_sandbox),
    ],
)
def test_acts_as_scoring_has_it_act(
    network: str | None, market: MarketData, frame: pd.DataFrame, tmp_path: Path
) -> None:
    designs = {"designed": DESIGNED, "sees a book": SEES_A_BOOK}
    sources = {"network": designs[network]} if network else None
    path = write_policy(tmp_path / "best.policy", origin_of(market), design=sources)
    with load_policy(path) as policy:
        world, episodes, actions = scored(policy, market)
        for number in range(len(episodes)):
            order = orders_of(market, world, episodes, number)
            for step, (ratio, _, _, left) in enumerate(actions):
                if step in (0, 1, 5, HORIZON - 1):
                    moment = order.start + pd.Timedelta(minutes=step)
                    action = policy.act(frame[frame["timestamp"] < moment], order)
                    assert action.share == pytest.approx(ratio[number], rel=1e-6)
                    assert action.shares == pytest.approx(ratio[number] * left[number], rel=1e-6)
                    assert action.limit is None and action.offset_ticks == 0.0
                order = order.after(float(ratio[number]) * order.left)
        assert len({float(ratio[0]) for ratio, *_ in actions}) > HORIZON // 2, "it does decide"
        assert policy.sources == (sources or {})
    if network == "designed":
        assert policy._saved.isolation in ("strong", "standard")


def test_limits_are_those_of_scoring(
    market: MarketData, frame: pd.DataFrame, tmp_path: Path
) -> None:
    costs = Costs(fills="limit_on_bars", max_participation=0.5)
    policy = load_policy(write_policy(tmp_path / "a.policy", origin_of(market, costs=costs)))
    world, episodes, actions = scored(policy, market, costs)
    order = orders_of(market, world, episodes, 0)
    _, offset, touch, _ = actions[0]
    action = policy.act(frame, order)
    side = 1 if order.side == "sell" else -1
    assert action.limit == pytest.approx(touch[0] + side * np.rint(offset[0]) * 0.01)
    assert action.offset_ticks == np.rint(offset[0])


def test_limits_as_in_simulated_markets_are_measured_by_volatility(
    market: MarketData, frame: pd.DataFrame, tmp_path: Path
) -> None:
    path = write_policy(tmp_path / "a.policy", origin_of(market))
    policy = load_policy(path, world="dynamic")
    start = pd.to_datetime(str(market.dates[-1])) + pd.Timedelta(hours=11)
    order = ParentOrder("sell", 20_000, HORIZON, symbol=market.symbols[1], start=start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnlikeTraining)
        action = policy.act(frame, order)
    bar = market.grid.minutes.index(11 * 60)
    known = Known(market, policy.origin.scales.feature_scales())
    half_move_ticks = 0.5 * known.sigma[1, -1, bar] * market.close[1, -1, bar - 1] / 0.01
    offset = policy._policy._answer[1]
    assert half_move_ticks > 1.5, "otherwise a tick is the unit"
    assert action.offset_ticks == np.rint(offset * half_move_ticks)
    assert market.ask is not None and action.limit is not None
    away = action.limit - market.ask[1, -1, bar - 1]
    assert away == pytest.approx(action.offset_ticks * 0.01, abs=1e-9)


def test_neither_later_bars_nor_the_call_before_matter(
    default: LoadedPolicy, market: MarketData, frame: pd.DataFrame
) -> None:
    start = pd.to_datetime(str(market.dates[-1])) + pd.Timedelta(hours=11)
    order = ParentOrder("buy", 20_000, HORIZON, symbol=market.symbols[1], start=start)
    order = order.after(1_000).after(0)
    known = frame[frame["timestamp"] < start + pd.Timedelta(minutes=2)]
    later = frame["timestamp"] >= start + pd.Timedelta(minutes=2)
    spoilt = frame.copy()
    spoilt.loc[later, ["open", "high", "low", "close"]] *= 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnlikeTraining)
        first = default.act(known, order)
        assert default.act(spoilt, order) == first
        assert default.act(known, replace(order, side="sell")) != first
        assert default.act(known, order) == first
        assert default.act(known, replace(order, start=None)) == first, "the bar after the last"


def test_an_order_that_begins_before_the_symbol_has_printed(
    default: LoadedPolicy, market: MarketData, frame: pd.DataFrame
) -> None:
    """At the open there is no bar of the day; scoring shows the policy the clock and the order."""
    opening = pd.to_datetime(str(market.dates[-1])) + pd.Timedelta(minutes=570)
    usual = default.origin.scales.feature_scales()
    quantity = 0.1 * float(usual.window_volume(np.array([0]), np.array([0]), HORIZON)[0])
    order = ParentOrder("sell", quantity, HORIZON, symbol=market.symbols[0], start=opening)
    world = StaticWorld(market, horizon=HORIZON, scales=usual, starts=[0])
    drawn = world.draw(np.random.default_rng(0), 2)
    last = np.full(2, len(market.dates) - 1)
    orders = replace(drawn.orders, row=last, quantity=np.full(2, quantity), size=np.full(2, 0.1))
    actor = default._saved.actor("static", HORIZON, 2)
    actor.start(2, HORIZON)
    ratio, _ = actor.act(world.reset(Episodes(orders)))
    action = default.act(frame[frame["timestamp"] < opening], order)
    assert action.share == pytest.approx(ratio[0], rel=1e-6)


def test_messages_of_a_multi_agent_policy(
    market: MarketData, frame: pd.DataFrame, tmp_path: Path
) -> None:
    policy = load_policy(write_policy(tmp_path / "a.policy", origin_of(market), agents=3))
    usual = policy.origin.scales.feature_scales()
    world = StaticWorld(market, horizon=HORIZON, dates=market.dates[-1:], scales=usual)
    episodes = world.draw(np.random.default_rng(1), 2)
    record = play(world, episodes, policy._saved.actor, agents=3).record
    order = orders_of(market, world, episodes, 0)
    for step in range(3):
        shares = policy.act(frame, order).shares
        assert shares / order.quantity == pytest.approx(record.fills[0, step], rel=1e-5)
        order = order.after(shares)


def test_what_differs_from_the_training_is_said_once(
    default: LoadedPolicy, market: MarketData, frame: pd.DataFrame
) -> None:
    policy = load_policy(default.path)
    usual = policy.origin.scales.feature_scales().window_volume(
        np.array([0]), np.array([0]), HORIZON
    )
    order = ParentOrder("buy", 0.04 * float(usual[0]), HORIZON + 1, symbol=market.symbols[0])
    known = frame[frame["timestamp"].dt.hour < 11]
    with pytest.warns(UnlikeTraining, match=f"{HORIZON + 1} bars, but .* trained on {HORIZON}"):
        policy.act(known, order)
    policy.act(known, order)  # a second warning would be an error here
    every_fifth = known[known["timestamp"].dt.minute % 5 == 0]
    with pytest.warns(UnlikeTraining, match="bars of 5 min, but .* bars of 1 min"):
        action = policy.act(every_fifth, order)
    assert 0.0 <= action.share <= 1.0
    renamed = known.replace({"symbol": {market.symbols[0]: "NEW"}})
    with pytest.warns(UnlikeTraining, match="NEW was not among the 4 symbols"):
        policy.act(renamed, replace(order, symbol="NEW"))
    with pytest.warns(UnlikeTraining, match="of the usual volume"):
        policy.act(known, replace(order, quantity=1e9))


def test_scales_of_longer_bars_keep_the_day(market: MarketData) -> None:
    from se_rl.data.calendar import session_grid

    origin = origin_of(market)
    one, five = origin.scales_on(market.grid), origin.scales_on(session_grid("XNYS", bar_minutes=5))
    assert five.volume_share.sum() == pytest.approx(one.volume_share.sum())
    np.testing.assert_allclose(five.volume_share, one.volume_share.reshape(-1, 5).sum(axis=1))
    np.testing.assert_allclose(five.variance, 5 * one.variance)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"side": "hold"}, "side 'hold' is unknown"),
        ({"quantity": 0.0}, "not positive"),
        ({"horizon": 0}, "horizon is 0"),
        ({"filled": (1.0, -2.0)}, "0 or more"),
        ({"filled": (4e6,)}, "check the fills"),
        ({"filled": (0.0,) * 13}, "one number for each bar"),
    ],
)
def test_an_impossible_order_is_one_line(changes: dict[str, Any], words: str) -> None:
    order = ParentOrder("buy", 1000.0, HORIZON)
    with pytest.raises(DataError, match=words) as caught:
        replace(order, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"symbol": None}, "name one of them"),
        ({"symbol": "NOBODY"}, "name one of them"),
        ({"start": "noon"}, "is no time"),
        ({"start": "2024-01-05 09:30:30"}, "label of no bar"),
        ({"start": "2024-01-05 08:00"}, "label of no bar"),
        ({"start": "1999-01-04 10:00"}, "earlier days"),
        ({"start": "2024-01-05 15:55"}, "longer than the session"),
        ({"filled": (1.0,) * HORIZON}, "the order is over"),
        ({"filled": (1000.0,)}, "the order is over"),
    ],
)
def test_an_order_that_does_not_fit_the_bars_is_one_line(
    changes: dict[str, Any],
    words: str,
    default: LoadedPolicy,
    market: MarketData,
    frame: pd.DataFrame,
) -> None:
    order = ParentOrder("buy", 1000.0, HORIZON, symbol=market.symbols[0])
    with pytest.raises((DataError, ConfigError), match=words) as caught:
        default.act(frame, replace(order, **changes))
    assert "\n" not in str(caught.value)


def test_a_file_without_origin_or_with_a_forged_one_is_refused(
    market: MarketData, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="does not say what it was trained on"):
        load_policy(write_policy(tmp_path / "a.policy", None))
    with pytest.raises(ConfigError, match="no policy and holds none"):
        load_policy(tmp_path / "nowhere")
    good = to_plain(origin_of(market))
    forged: list[Any] = [
        {**good, "horizons": []},
        {**good, "sizes": [0.1]},
        {**good, "bars": {**good["bars"], "minutes": [5, 4]}},
        {**good, "bars": {**good["bars"], "exchange": "MARS"}},
        {**good, "scales": {**good["scales"], "variance": [1.0]}},
        {**good, "scales": {**good["scales"], "volume_share": [0.5, 0.5]}},
        {**good, "costs": {"fee_bps": -1.0}},
        7,
    ]
    for number, told in enumerate(forged):
        path = write_policy(tmp_path / f"{number}.policy", None)
        facts = policy_facts(path)
        save_weights(path, torch.nn.Linear(1, 1), facts | {"origin": told})
        with pytest.raises(PolicyFileError) as caught:
            load_policy(path)
        assert "\n" not in str(caught.value)


def test_origin_comes_back_and_gives_evaluate_its_settings(
    market: MarketData, tmp_path: Path
) -> None:
    costs = Costs(half_spread_bps=1.5, fee_bps=0.5, max_participation=0.2)
    origin = origin_of(market, costs=costs)
    assert from_plain(PolicyOrigin, to_plain(origin)) == origin
    path = write_policy(tmp_path / "a.policy", origin)
    own = own_settings(path)
    assert own.horizon == HORIZON and Costs.of(own) == costs
    assert own_settings(write_policy(tmp_path / "b.policy", None)).horizon == 240


def test_the_names_are_top_level(market: MarketData, frame: pd.DataFrame, tmp_path: Path) -> None:
    assert se_rl.load_policy is load_policy and se_rl.ParentOrder is ParentOrder
    assert se_rl.load_data(market) is market
    again = se_rl.load_data(frame)
    np.testing.assert_array_equal(again.close, market.close)
    frame.to_csv(tmp_path / "bars.csv", index=False)
    assert se_rl.load_data(tmp_path / "bars.csv").shape == market.shape


def test_the_cost_of_calls_is_measured_on_an_order_that_is_executed(
    default: LoadedPolicy, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--symbols", "2", "--sessions", "8", "--calls", "4"]
    assert act_cost.main([str(default.path), *told]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(", ")[1] for line in lines] == ["7 sessions", "8 sessions"]
    assert all("3 calls after it" in line for line in lines)


@needs_sandbox
def test_one_process_serves_all_calls_and_ends_with_the_policy(
    market: MarketData, frame: pd.DataFrame, tmp_path: Path
) -> None:
    """Also one that nobody closed: the process goes when the object goes."""
    path = write_policy(tmp_path / "a.policy", origin_of(market), design={"network": DESIGNED})
    start = pd.to_datetime(str(market.dates[-1])) + pd.Timedelta(hours=11)
    order = ParentOrder("buy", 20_000, HORIZON, symbol=market.symbols[1], start=start)
    policy = load_policy(path)
    answers = []
    for _ in range(3):
        answers.append(policy.act(frame, order))
        order = order.after(1_000)
    server = policy._saved._sandbox.sandbox.pid
    children = Path(f"/proc/{server}/task/{server}/children")
    assert len(children.read_text().split()) == 1
    for place, answer in enumerate(answers):
        policy._policy.close()  # the next call opens another, which is shown all bars again
        assert policy.act(frame, replace(order, filled=(1_000.0,) * place)) == answer
    del policy
    gc.collect()
    assert not Path(f"/proc/{server}").exists()


def test_a_policy_that_asks_for_a_book_is_refused_where_it_would_need_one(
    market: MarketData, tmp_path: Path
) -> None:
    path = write_policy(tmp_path / "a.policy", origin_of(market), design={"network": SEES_A_BOOK})
    with pytest.raises(ConfigError, match="asks to see own_lots, drift, which bars do not tell"):
        load_policy(path, world="dynamic")
