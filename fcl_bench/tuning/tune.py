"""Tuning from beginning to end: methods, trials, the file with all of them, and what is chosen."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fcl_bench.data.cache import Progress
from fcl_bench.errors import UserError
from fcl_bench.interruption import with_last_words
from fcl_bench.run.scenario import checked_method, refuse_missing_samples
from fcl_bench.tuning.held_out import ONE_IN, HeldOut, hold_out
from fcl_bench.tuning.outcome import SCHEMA, Outcome, TrialRecord, Tuned, change, recorded
from fcl_bench.tuning.subject import FIRST_SEED, Subject, Trial, subject
from fcl_bench.tuning.trial import Done, Score
from fcl_bench.tuning.tuned_yaml import write_configs
from fcl_bench.tuning.workers import all_done

CHOSEN_BY = "anytime_accuracy among those within a standard error of the highest average_accuracy"


@dataclass(frozen=True)
class Request:
    """What a command asks for."""

    methods: Sequence[str]
    words: Sequence[str]  # other overrides
    trials: int
    workers: int
    seed: int
    out: Path
    configs: Path | None


def tune(request: Request, tell: Callable[[str], None], filling: Callable[[str], Progress]) -> Outcome:
    """Run the trials that are left; ``tell`` gets a line for each of them."""
    subjects = [subject(method, request.words, request.seed) for method in request.methods]
    held = hold_out(subjects[0].config, filling)
    for each in subjects:
        refuse_missing_samples(each.config, checked_method(each.config), held.scenario.stream)
    trials = [trial for each in subjects for trial in each.trials(request.trials)]
    tuning = Tuning(request, held, subjects, trials)
    outcome = tuning.begin(tell)
    outcome = tuning.run(outcome, tell)
    _conclude(outcome, request, tell)
    return outcome


@dataclass(frozen=True)
class Tuning:
    """The trials of a command, and the file they go to."""

    request: Request
    held: HeldOut
    subjects: Sequence[Subject]
    trials: Sequence[Trial]

    @property
    def path(self) -> Path:
        """Of the file."""
        return path_of(self.request.out, self.subjects[0].config.protocol)

    def begin(self, tell: Callable[[str], None]) -> Outcome:
        """What the file knows of these trials already, under the settings of this command."""

        def edit(methods: dict[str, Tuned]) -> dict[str, Tuned]:
            return methods | {each.method: self._known(each, methods.get(each.method), tell) for each in self.subjects}

        return change(self.path, self._empty(), edit)

    def run(self, outcome: Outcome, tell: Callable[[str], None]) -> Outcome:
        """Run the trials that are left, and write each of them when it is over."""
        ends = all_done(self.held.scenario, self.left(outcome), self.request.workers)
        with with_last_words(lambda: tell(f"finished trials are in {self.path}")), closing(ends):
            for done in ends:
                outcome = self.add(done)
                for trial in self.of(done.trial):
                    tell(line(trial, self.request.trials, done))
        return outcome

    def left(self, outcome: Outcome) -> list[tuple[str, Any]]:
        """The trials to run, each once even if two of a method have the same values."""
        known = {trial.id for tuned in outcome.methods.values() for trial in tuned.trials}
        return list({trial.id: trial.config for trial in self.trials if trial.id not in known}.items())

    def add(self, done: Done) -> Outcome:
        """Write a trial into the file as soon as it is over."""
        new = [recorded(trial.number, trial.id, trial.values, done.score) for trial in self.of(done.trial)]
        method = self.of(done.trial)[0].method

        def edit(methods: dict[str, Tuned]) -> dict[str, Tuned]:
            return methods | {method: with_trials(methods[method], new, self.request.trials, self.samples)}

        return change(self.path, self._empty(), edit)

    @property
    def samples(self) -> int:
        """How many are held out."""
        return len(self.held.samples)

    def of(self, identity: str) -> list[Trial]:
        """The trials that have this id."""
        return [trial for trial in self.trials if trial.id == identity]

    def _known(self, each: Subject, before: Tuned | None, tell: Callable[[str], None]) -> Tuned:
        search = {name: each.space[name].written for name in sorted(each.space)}
        empty = Tuned(each.settings, search)
        if before is None:
            return empty.with_best(0, self.samples) if not search else empty
        scores = {old.id: Score(old.average_accuracy, old.anytime_accuracy, old.failed) for old in before.trials}
        own = [trial for trial in self.trials if trial.method == each.method]
        kept = [recorded(one.number, one.id, one.values, scores[one.id]) for one in own if one.id in scores]
        tell(f"{each.method}: {len(kept)} of {len(own)} trials are in {self.path}")
        if len(before.trials) > len(kept):
            tell(f"{each.method}: its settings or its search have changed, so {self.path} loses the other trials")
        return with_trials(empty, kept, self.request.trials, self.samples)

    def _empty(self) -> Outcome:
        first = self.subjects[0]
        return Outcome(
            schema=SCHEMA,
            protocol=first.config.protocol,
            chosen_by=CHOSEN_BY,
            trials=self.request.trials,
            seed=self.request.seed,
            run_seed=FIRST_SEED + self.request.seed,
            held_out={"one_in": ONE_IN, "samples": len(self.held.samples), "hash": self.held.hash},
            stream=self.held.scenario.stream.hash,
            contents=self.held.contents,
            settings=first.common,
        )


def path_of(out: Path, protocol: str | None) -> Path:
    """The file of a protocol."""
    return out / f"{protocol or 'none'}.json"


def with_trials(tuned: Tuned, new: Sequence[TrialRecord], of: int, samples: int) -> Tuned:
    """The same with more trials on so many samples; there are ``of`` trials in the end."""
    by_number = {trial.trial: trial for trial in (*tuned.trials, *new)}
    trials = tuple(by_number[number] for number in sorted(by_number))
    return Tuned(tuned.settings, tuned.search, trials).with_best(of, samples)


def line(trial: Trial, of: int, done: Done) -> str:
    """A trial that is over, for people.

    >>> print(line(Trial("afcl", 3, {"gamma": 0.5}, None), 16, Done("", Score(61.2, 50.04), 4.26)))
    afcl         3/15  61.20 %  anytime 50.04 %    4.3 s  gamma=0.5
    """
    score = done.score
    result = (
        f"failed: {score.failed}"
        if score.failed
        else f"{score.average_accuracy:.2f} %  anytime {score.anytime_accuracy:.2f} %"
    )
    return f"{trial.method:<10} {trial.number:>3}/{of - 1}  {result}  {done.seconds:>5.1f} s  {_written(trial.values)}"


def _written(values: dict[str, Any]) -> str:
    return " ".join(f"{name}={'null' if value is None else value}" for name, value in values.items())


def _conclude(outcome: Outcome, request: Request, tell: Callable[[str], None]) -> None:
    """Say what is chosen, and write it; a method of which every trial has failed is an error."""
    failed = []
    for method in request.methods:
        tuned = outcome.methods[method]
        if not tuned.search:
            tell(f"{method} has nothing to tune: its YAML has no search.")
        elif tuned.best is None:
            failed.append(f"{method} ({tuned.trials[0].failed})")
        else:
            chosen, usual = tuned.trials[tuned.best], tuned.trials[0].average_accuracy
            default = "failed" if usual is None else f"{usual:.2f} %"
            tell(f"{method}: {chosen.average_accuracy:.2f} % with {_written(chosen.values)} (defaults: {default})")
    for path in write_configs(outcome, request.configs) if request.configs else ():
        tell(f"configuration: {path}")
    if failed:
        raise UserError(f"Every trial has failed, so nothing was chosen: {'; '.join(failed)}.")
