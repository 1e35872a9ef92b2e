"""From runs to tables: only comparable runs share a table, only runs of equal settings share a row."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, TypeVar

from fcl_bench.config.protocol import published_seeds
from fcl_bench.config.settings_node import SettingsNode
from fcl_bench.leaderboard.columns import HEADLINE, column, metrics_in, repeats_exactly
from fcl_bench.leaderboard.runs import Run, Settings, other_classifiers
from fcl_bench.leaderboard.statistics import Comparison, Score, compared, holm, score
from fcl_bench.leaderboard.titles import HEADING, heading, natural, text, unique_names

T = TypeVar("T")
Role = Literal["competitor", "other classifier", "oracle"]
ROLES: tuple[Role, ...] = ("competitor", "other classifier", "oracle")  # only the first are ranked and compared
OTHER_CLASSIFIER = "other_classifier"
CERTIFIED = "certified"  # all runs of the row
DIFFERS = "certificate_differs"  # for one run at least

NETWORK = ("backbone.weights", "backbone.input_size", "backbone.mean_norm")
FAULTS = tuple(f"federation.{name}" for name in ("lost", "late", "twice", "join_later", "away", "forget"))
USUAL_FEDERATION = {
    "federation.participation": 1,
    "federation.dropout": 0,
    "federation.arrival": "ordered",
    **dict.fromkeys(FAULTS, 0),
}


@dataclass(frozen=True)
class Row:
    """A method with one choice of its settings, or another classifier of it."""

    name: str  # with the settings in which it differs from other rows of its method
    runs: tuple[Run, ...]  # one per draw, by seed
    scores: dict[str, Score]  # by metric, in the units of the record
    comparison: Comparison | None  # with the best row; None for the best itself and for rows that do not compete

    @property
    def method(self) -> str:
        """The method's name alone."""
        return self.runs[0].method

    @property
    def tuned(self) -> SettingsNode | None:
        """Where the hyper-parameters come from; None where the records do not say."""
        return self.runs[0].tuned

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the runs, each once."""
        return tuple(sorted({run.result["seed"] for run in self.runs}))

    @property
    def facts(self) -> tuple[str, ...]:
        """What the method declares about itself, and what certificates say of the runs."""
        declared = self.runs[0].result["facts"]
        facts = [name for name in declared if declared[name]]
        if self.runs[0].classifier is not None:
            facts.append(OTHER_CLASSIFIER)
        verdicts = [run.certificate and run.certificate.verdict for run in self.runs]
        if "differs" in verdicts:
            facts.append(DIFFERS)
        elif None not in verdicts:
            facts.append(CERTIFIED)
        return tuple(facts)

    @property
    def role(self) -> Role:
        """Whether the row competes."""
        if self.runs[0].classifier is not None:
            return "other classifier"
        return "oracle" if "oracle" in self.facts else "competitor"


@dataclass(frozen=True)
class Board:
    """The table of one group of comparable runs."""

    heading: str
    conditions: Settings
    sort: str  # the metric of the order and of the comparison with the best
    metrics: tuple[str, ...]  # all that the rows have scores for
    rows: tuple[Row, ...]  # the best first

    @property
    def stream(self) -> str:
        """The settings of the stream, of the frozen network's inputs, and of a federation that is not the usual one."""
        keys = [key for key in self.conditions if key not in HEADING and "." not in key]
        keys += NETWORK
        for key, usual in USUAL_FEDERATION.items():
            if self.conditions.get(key, usual) != usual:
                keys.append(key)
        parts = []
        for key in keys:
            value = self.conditions.get(key)
            if value is not None:
                parts.append(f"{key} {text(value)}")
        return ", ".join(parts)

    @property
    def tells_tuning(self) -> bool:
        """Whether a reader should know of each row where its hyper-parameters come from."""
        return self.conditions["protocol"] is not None or any(row.tuned for row in self.rows)

    @property
    def published(self) -> tuple[int, ...]:
        """The seeds that the protocol publishes; none where it does not say."""
        return tuple(published_seeds(self.conditions["protocol"]))

    @property
    def uneven(self) -> bool:
        """Whether the rows have seen different seeds or streams."""
        draws = {frozenset(_values(row, self.sort)) for row in self.rows}
        return len(draws) > 1

    @property
    def ranked(self) -> list[Row]:
        """The competitors for which the metric is defined, the best first."""
        competitors = [row for row in self.rows if row.role == "competitor"]
        return [row for row in competitors if row.scores[self.sort].mean is not None]


def boards(runs: Iterable[Run], sort: str = HEADLINE, asked: Sequence[str] = ()) -> tuple[Board, ...]:
    """One table per group of comparable runs, each with its best row first.

    Rows have scores for the metrics of any record, and for those ``asked`` for even if no record has them.
    """
    every = list(_with_other_classifiers(runs))
    metrics = metrics_in([*(run.values for run in every), [sort, *asked]])
    names = row_names(every)
    groups = _grouped(every, lambda run: _key(run.conditions))
    shared = [group[0].conditions for group in groups]
    headings = unique_names([heading(conditions) for conditions in shared], shared, mark=": ")
    made = []
    for title, conditions, group in zip(headings, shared, groups, strict=True):
        ordered = rows(group, names, metrics, sort)
        board = Board(title, conditions, sort, metrics, ordered)
        made.append(_compared_with_best(board))
    return tuple(sorted(made, key=lambda board: natural(board.heading)))


def row_names(runs: Sequence[Run]) -> dict[str, str]:
    """For every method and choice of its settings one name, in all tables of a protocol; by :func:`_settings_key`."""
    by_key = {_settings_key(run): run for run in runs}
    found = {}
    for group in _grouped(by_key.items(), lambda item: item[1].conditions["protocol"]):
        names = unique_names([run.name for _, run in group], [run.settings for _, run in group], mark=" ")
        for (key, _), name in zip(group, names, strict=True):
            found[key] = name
    return found


def by_protocol(boards: Sequence[Board]) -> dict[str | None, list[Board]]:
    """The tables of each protocol, in their order."""
    groups = _grouped(boards, lambda board: board.conditions["protocol"])
    return {group[0].conditions["protocol"]: group for group in groups}


def contradictions(runs: Sequence[Run]) -> list[str]:
    """A sentence for every two records of the same run that do not say the same; the first one counts."""
    sentences = []
    for first, *others in _grouped(runs, _identity):
        for other in others:
            different = ", ".join(_disagreements(first, other))
            if different:
                sentences.append(
                    f"Two records of the same run differ in {different}: {first.path} and {other.path}; "
                    "the first one counts."
                )
    return sentences


def rows(
    runs: Sequence[Run],
    names: dict[str, str],
    metrics: Sequence[str],
    sort: str,
) -> tuple[Row, ...]:
    """One row per method, choice of settings and classifier, the best first; a run that was found twice counts once."""

    def rank(row: Row) -> tuple[bool, float, str]:
        mean = row.scores[sort].mean
        return mean is None, _sign(sort) * (mean or 0.0), row.name

    made = []
    for group in _grouped(runs, lambda run: (_settings_key(run), run.classifier)):
        name = names[_settings_key(group[0])]
        classifier = group[0].classifier
        if classifier is not None:
            name += f" [{classifier}]"
        made.append(_row(name, group, metrics))
    return tuple(sorted(made, key=rank))


def by_mean(boards: Sequence[Board], role: Role) -> list[str]:
    """The names of the rows of all tables that have this role, by their mean over the tables, the best first.

    Rows that are not in all tables come after those that are.
    """
    means: dict[str, list[float]] = {}
    for board in boards:
        for row in board.rows:
            mean = row.scores[board.sort].mean
            if row.role == role and mean is not None:
                means.setdefault(row.name, []).append(mean)
    sign = _sign(boards[0].sort)

    def rank(name: str) -> tuple[int, float, str]:
        return -len(means[name]), sign * fmean(means[name]), name

    return sorted(means, key=rank)


def _with_other_classifiers(runs: Iterable[Run]) -> Iterator[Run]:
    for run in runs:
        yield run
        yield from other_classifiers(run)


def _row(name: str, runs: Iterable[Run], metrics: Sequence[str]) -> Row:
    by_draw: dict[str, Run] = {}
    for run in runs:
        by_draw.setdefault(run.draw, run)
    ordered = sorted(by_draw.values(), key=lambda run: (run.result["seed"], run.draw))
    scores = {}
    for metric in metrics:
        values = [run.values.get(metric) for run in ordered]
        scores[metric] = score(values)
    return Row(name, tuple(ordered), scores, comparison=None)


def _compared_with_best(board: Board) -> Board:
    """Every competitor with its comparison with the best one."""
    if not board.ranked:
        return board
    best, *others = board.ranked
    reference = _values(best, board.sort)
    comparisons = [compared(_values(row, board.sort), reference) for row in others]
    corrected = holm([comparison.p for comparison in comparisons])
    by_name = {}
    for row, comparison, p in zip(others, comparisons, corrected, strict=True):
        by_name[row.name] = replace(comparison, p_holm=p)
    rows = [replace(row, comparison=by_name.get(row.name)) for row in board.rows]
    return replace(board, rows=tuple(rows))


def _sign(metric: str) -> int:
    """By this factor the best value becomes the smallest."""
    return 1 if column(metric).lower_is_better else -1


def _values(row: Row, metric: str) -> dict[str, float | None]:
    """By draw."""
    return {run.draw: run.values.get(metric) for run in row.runs}


def _disagreements(one: Run, other: Run) -> Iterator[str]:
    """In what two records of the same run differ, apart from seconds and memory and from what only one of them has."""
    for key in ("inputs", "matrix"):
        if one.result.get(key) != other.result.get(key):
            yield key
    for metric, value in one.result["metrics"].items():
        if repeats_exactly(metric) and other.result["metrics"].get(metric, value) != value:
            yield metric
    for name, scores in one.result["other_classifiers"].items():
        if other.result["other_classifiers"].get(name, scores)["matrix"] != scores["matrix"]:
            yield f"the {name} classifier"


def _identity(run: Run) -> Hashable:
    return _key(run.conditions), _settings_key(run), run.draw


def _settings_key(run: Run) -> str:
    return f"{run.conditions['protocol']} {run.method} {_key(run.settings)}"


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of equal key together, in order of first appearance."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
