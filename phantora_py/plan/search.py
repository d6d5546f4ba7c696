"""The search for a placement: greedy, with a beam, by annealing, and exactly where there is little
to choose from.

A placement is a list of the number of the option of each table. The score never falls when a table
is added, so that a partial placement bounds its completions from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

import numpy as np

from phantora_py.plan.model import Array, PlanModel
from phantora_py.plan.options import Option
from phantora_py.plan.parts import Choice, families, parts
from phantora_py.plan.symmetry import Symmetry

METHODS = ("greedy", "beam", "anneal")
_BEAM = 32
# Steps of annealing for each table, and its temperatures as shares of the score (assumed): once to
# leave what greed has found, and then nearer and nearer to the best.
_STEPS = 100
_HOT, _COLD = (0.05, 0.01, 0.002), 1e-5
# Exchanges of two tables' options that a descent makes at most.
_MOST_SWAPS = 25
# Partial placements that the exact search scores before it gives up.
_MOST_SCORED = 200_000
_FEW_TABLES = 8


def search(
    model: PlanModel, method: str, known: Sequence[Choice] = (), seed: int = 0
) -> list[Choice]:
    """Placements, the best first, different from each other; none is worse than a `known` one, nor
    than what is found among some of the options only (`parts`).

    Only those that fit are returned: none, if none was found.
    """
    found = list(known)
    for part in parts(model):
        inside = _searched(part.model, method, part.inward(found), seed)
        found += part.outward(inside)
    return _best(model, found)


def _searched(model: PlanModel, method: str, known: Sequence[Choice], seed: int) -> list[Choice]:
    """From beams, and then from the best of these and of `known`, which may be a trap."""
    own: list[Choice] = []
    width = 1 if method == "greedy" else _BEAM
    for part in families(model):
        own += part.outward(_best(part.model, _widened(part.model, width))[:1])
    own += [_descended(model, choice) for choice in _best(model, own)[:2]]
    found = [*known, *own]
    found += [_descended(model, choice) for choice in _best(model, known)[:1]]
    for hot in _HOT if method == "anneal" else ():
        for choice in _best(model, own if hot == _HOT[0] else found)[:1]:
            found.append(_descended(model, _annealed(model, choice, hot, seed)))
    if len(model.tables) <= _FEW_TABLES and method != "greedy":
        best = _best(model, found)
        found += _exact(model, best[0] if best else None)
    return _best(model, found)


def _best(model: PlanModel, found: Sequence[Choice]) -> list[Choice]:
    scored = {choice: model.cost_ns(choice) for choice in found}
    fitting = [choice for choice, score in scored.items() if score < np.inf]
    return sorted(fitting, key=lambda choice: (scored[choice], choice))


def _order(model: PlanModel) -> list[int]:
    """Tables by the least that they cost alone, the greatest first."""
    least = [float(model.score_ns(ranked).min()) for ranked in model.ranked]
    return sorted(range(len(least)), key=lambda table: -least[table])


def _widened(model: PlanModel, width: int) -> list[Choice]:
    """One table after the other where the time grows least; so many of the best are kept. None if
    they do not fit.
    """
    states: list[tuple[Choice, Array]] = [((), model.nothing)]
    order = _order(model)
    for table in order:
        ranked = np.stack([sums for _, sums in states])[:, None] + model.ranked[table]
        scores = model.score_ns(ranked)
        # Among equals the one that leaves more room, and then the more even one.
        evenness = (ranked[..., :2] ** 2).sum(axis=(-1, -2))
        flat = np.lexsort((evenness.ravel(), scores.ravel()))
        # Behind these are placements that do not fit.
        flat = flat[: min(width, int(np.isfinite(scores).sum()))]
        best = np.stack(np.unravel_index(flat, scores.shape), axis=-1).tolist()
        states = [((*states[before][0], option), ranked[before, option]) for before, option in best]
        if not states:
            return []
    places = np.argsort(order)
    return [tuple(choice[place] for place in places) for choice, _ in states]


def _descended(model: PlanModel, choice: Choice) -> Choice:
    """Tables moved one at a time, then in pairs, while that helps."""
    current = list(choice)
    ranked = model.sums(current)
    best = float(model.score_ns(ranked))
    improved, swaps = True, 0
    while improved and swaps < _MOST_SWAPS:
        improved = False
        for table in range(len(current)):
            rest = ranked - model.ranked[table][current[table]]
            scores = model.score_ns(rest + model.ranked[table])
            place = int(scores.argmin())
            if scores[place] < best * (1 - 1e-12):
                best, improved = float(scores[place]), True
                current[table] = place
                ranked = model.sums(current)
        if not improved:
            swaps += 1
            improved = _swapped(model, current, best)
            ranked = model.sums(current)
            best = float(model.score_ns(ranked))
    return tuple(current)


def _swapped(model: PlanModel, current: list[int], best: float) -> bool:
    """Tries all options of two tables together, one of which is on the slowest rank."""
    ranked = model.sums(current)
    slowest = {int(row.argmax()) for row in ranked[:, :2].T}
    tables = range(len(current))
    heavy = [t for t in tables if any(model.ranked[t][current[t]][r, 0] > 0 for r in slowest)]
    for one in heavy:
        for other in tables:
            if one == other:
                continue
            rest = ranked - model.ranked[one][current[one]] - model.ranked[other][current[other]]
            scores = model.score_ns(rest + model.ranked[one][:, None] + model.ranked[other][None])
            places = np.unravel_index(int(scores.argmin()), scores.shape)
            if scores[places] < best * (1 - 1e-12):
                current[one], current[other] = int(places[0]), int(places[1])
                return True
    return False


def _annealed(model: PlanModel, choice: Choice, hot: float, seed: int) -> Choice:
    """Random steps: to any option of a table, the likelier the better, or to each other's options
    of two, accepted the less the worse they are; both the later they come.
    """
    random = np.random.default_rng(seed)
    numbers = [{one: number for number, one in enumerate(of)} for of in model.options]
    current, best = list(choice), choice
    ranked = model.sums(current)
    score = best_score = float(model.score_ns(ranked))
    steps = _STEPS * len(current)
    for step in range(steps):
        temperature = hot * (_COLD / hot) ** (step / steps) * best_score
        one, other = random.integers(len(current), size=2).tolist()
        chance = random.random()
        if random.random() < 0.5:
            moved = (ranked - model.ranked[one][current[one]]) + model.ranked[one]
            scores = model.score_ns(moved)
            likely = np.cumsum(np.exp((scores.min() - scores) / temperature))
            option = int(np.searchsorted(likely, chance * likely[-1]))
            current[one], ranked, score = option, moved[option], float(scores[option])
        else:
            changes = _exchange(model, numbers, current, one, other)
            new_ranked = ranked
            for table, option in changes.items():
                change = model.ranked[table][option] - model.ranked[table][current[table]]
                new_ranked = new_ranked + change
            new = float(model.score_ns(new_ranked))
            if new <= score or chance < exp((score - new) / temperature):
                ranked, score = new_ranked, new
                for table, option in changes.items():
                    current[table] = option
        if score < best_score:
            best, best_score = tuple(current), score
    return best


def _exchange(
    model: PlanModel, numbers: list[dict[Option, int]], current: list[int], one: int, other: int
) -> dict[int, int]:
    """New options by table; none if they do not have each other's."""
    wanted = {
        one: numbers[one].get(model.options[other][current[other]]),
        other: numbers[other].get(model.options[one][current[one]]),
    }
    found = {table: option for table, option in wanted.items() if option is not None}
    return found if len(found) == 2 else {}


def _exact(model: PlanModel, known: Choice | None) -> list[Choice]:
    """The best placement by branch and bound; nothing if that takes too long."""
    order, alike = _order(model), Symmetry(model.options, model.ranks)
    # What the tables after each place add at least, spread evenly over the ranks.
    least = np.array([model.ranked[t].sum(axis=-2).min(axis=0) for t in order]) / model.ranks
    later = np.concatenate([np.cumsum(least[::-1], axis=0)[::-1], np.zeros((1, least.shape[1]))])
    best = known
    best_score = model.cost_ns(known) if known else np.inf
    # The partial choice in `order`, with its sums.
    stack: list[tuple[Choice, Array]] = [((), model.nothing)]
    scored = 0
    while stack and scored < _MOST_SCORED:
        chosen, ranked = stack.pop()
        depth = len(chosen)
        scored += len(model.options[order[depth]])
        all_ranked = ranked + model.ranked[order[depth]]
        bounds = _bounds(model, all_ranked, later[depth + 1])
        seen = set()
        following = []
        for place in np.argsort(bounds):
            if bounds[place] >= best_score * (1 - 1e-12):
                break
            key = alike.key(all_ranked[place])
            if key in seen:
                continue
            seen.add(key)
            longer = (*chosen, int(place))
            if depth + 1 < len(order):
                following.append((longer, all_ranked[place]))
                continue
            places = np.argsort(order)
            best, best_score = tuple(longer[p] for p in places), float(bounds[place])
        stack += reversed(following)
    return [] if stack or best is None else [best]


def _bounds(model: PlanModel, ranked: Array, later: Array) -> Array:
    """No completion of these partial placements takes less."""
    evenly = ranked.mean(axis=-2) + later
    return model.score_ns(np.maximum(ranked, evenly[..., None, :]))
