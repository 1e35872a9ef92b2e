"""Records as a leaderboard needs them: the conditions of a run, the settings of its method, and its result."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fcl_bench.config.nested import flattened
from fcl_bench.config.run_id import result_relevant
from fcl_bench.config.settings_node import SettingsNode
from fcl_bench.errors import UserError
from fcl_bench.exact.certificate import Certificate, read_certificate
from fcl_bench.leaderboard.columns import COLUMNS, column, derived, in_view
from fcl_bench.run.content import Settings
from fcl_bench.run.found import records
from fcl_bench.run.result import VIEWS, Result, read_result
from fcl_bench.run.trust import Trust, verified
from fcl_bench.visible import visible, visible_content

LIMITS = ("limit_classes", "limit_train", "limit_test")
COMPARED = ("dataset", "backbone", "federation", *LIMITS)  # groups that runs of a table share
OURS = "fcl_bench.methods."
ORIGIN = "settings.name"  # among the settings of a run: tuned or faithful


@dataclass(frozen=True)
class Run:
    """One complete record, as one of the method's classifiers scored in it."""

    method: str
    draw: str  # what chance decided, seeds and stream: two runs of one setting that agree in it are the same run
    conditions: Settings  # all that must be equal for two runs to be compared
    settings: Settings  # of the method
    values: dict[str, float | None]  # by metric; None is undefined, such as retention after a single task
    result: Result
    path: Path  # of the record
    classifier: str | None = None  # None is the method's own one; others are scored, but do not compete
    certificate: Certificate | None = None  # a valid one for this very record
    trust: Trust = "no digest"

    @property
    def name(self) -> str:
        """The method, and whether its hyper-parameters are tuned or faithful, where the record says so."""
        origin = self.settings.get(ORIGIN)
        return f"{self.method} {origin}" if origin else self.method

    @property
    def tuned(self) -> SettingsNode | None:
        """Where the hyper-parameters come from; None where the record does not say."""
        node = self.result["config"].get("settings")
        return None if node is None else SettingsNode(**node)

    def scores_in(self, view: str) -> dict[str, Any] | None:
        """Curves and matrix in a view of the tasks' tests; None if the record does not have it."""
        return self.result if view == VIEWS[0] else self.result["views"].get(view)


@dataclass(frozen=True)
class Gathered:
    """What there is below some folders."""

    runs: tuple[Run, ...]
    interrupted: int
    unlearned: int  # of runs that have forgotten samples: what they know is not what their methods learn of a stream
    problems: tuple[str, ...]  # a sentence for each record or certificate that cannot be used


def gather(paths: Iterable[Path]) -> Gathered:
    """Every record below the given folders, or given directly; each file once."""
    runs = []
    problems = []
    interrupted = 0
    unlearned = 0
    for path in records(paths):
        try:
            run = read_run(path)
        except UserError as error:
            problems.append(visible(str(error)))
            continue
        if run is None:
            interrupted += 1
        elif "forgotten" in run.result:
            unlearned += 1
        else:
            runs.append(_certified(run, problems))
    return Gathered(tuple(runs), interrupted, unlearned, tuple(problems))


def read_run(path: Path) -> Run | None:
    """The run of a ``result.json`` that can be believed; None if it was interrupted. Its texts are fit to be shown."""
    if not os.path.lexists(path):
        raise UserError(f"There is no file or folder {path}: name folders of runs, or records.")
    result = read_result(path)
    if result.get("status") != "complete":
        return None
    trust = verified(result, path)
    return replace(run_of(visible_content(result), path), trust=trust)


def _certified(run: Run, problems: list[str]) -> Run:
    """With the certificate beside the record; one that is not worth anything becomes a problem."""
    try:
        return replace(run, certificate=read_certificate(run.path, run.result))
    except UserError as error:
        problems.append(visible(str(error)))
        return run


def run_of(result: Result, path: Path) -> Run:
    """The run that a record describes: its conditions and settings without the seed and what cannot change a result."""
    config = result["config"]
    seeds = (config["seed"], config["backbone"].get("seed"))
    return Run(
        method=result["method"],
        draw=f"{seeds[0]} {seeds[1]} {result['stream']['hash']}",
        conditions=_conditions(result),
        settings=_method_settings(result),
        values=_values(result),
        result=_filled(result),
        path=path,
    )


def other_classifiers(run: Run) -> Iterator[Run]:
    """The same run as the method's other classifiers score in it; its costs are theirs too."""
    for name, scores in run.result["other_classifiers"].items():
        own = {
            "metrics": _costs(run.result["metrics"]) | scores["metrics"],
            "curves": _costs(run.result["curves"]) | scores["curves"],
            "matrix": scores["matrix"],
            "views": scores.get("views", {}),
            "other_classifiers": {},
        }
        result = _filled(run.result | own)
        yield replace(run, classifier=name, values=_values(result), result=result, certificate=None)


def _conditions(result: Result) -> Settings:
    stream = result_relevant(result["stream"], "stream")
    config = result_relevant({key: result["config"].get(key) for key in COMPARED})
    conditions = {key: result[key] for key in ("dataset", "backbone", "track", "protocol")}
    conditions["stream"] = stream["name"]
    conditions |= {key: value for key, value in stream.items() if key not in ("name", "seed", "hash")}
    conditions |= {key: value for key, value in flattened(config).items() if key != "backbone.seed"}
    return conditions


def _method_settings(result: Result) -> Settings:
    """All but the name, and where they come from.

    A record of the time before methods had names has that of its class, if it is one of ours.
    """
    settings = result["config"]["method"]
    if str(settings.get("_target_")).startswith(OURS):
        settings = {"name": result["method"], **settings}
    settings = flattened(result_relevant(settings, "method"))
    return {key: value for key, value in settings.items() if key != "name"} | _further_settings(result)


def _further_settings(result: Result) -> Settings:
    """What else makes a row of its own: private uploads, and settings that are tuned or faithful; often nothing."""
    config = result["config"]
    return flattened(result_relevant({name: config[name] for name in ("privacy", "settings") if name in config}))


def _values(result: Result) -> dict[str, float | None]:
    """By metric, then by metric and view."""
    values: dict[str, float | None] = dict.fromkeys(COLUMNS)
    values |= result["metrics"]
    values |= derived(values)
    for view, scores in result.get("views", {}).items():
        for name, value in scores["metrics"].items():
            values[in_view(name, view)] = value
    return {name: None if value is None else float(value) for name, value in values.items()}


def _costs(by_metric: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in by_metric.items() if not column(name).score}


def _filled(result: Result) -> Result:
    """The record with all that one of another version may not have: undefined curves, no facts, no further scores."""
    undefined = [None] * len(result["matrix"])
    curves = dict.fromkeys(COLUMNS, undefined) | result["curves"]
    return {"facts": {}, "views": {}, "other_classifiers": {}, **result, "curves": curves}
