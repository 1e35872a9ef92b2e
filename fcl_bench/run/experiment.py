"""One run, from configuration to record."""

import time
import warnings
from contextlib import closing
from dataclasses import asdict

from omegaconf import DictConfig

from fcl_bench.config.compose import build
from fcl_bench.federation import Federation
from fcl_bench.learning import Costs, Progress, beginning, learn
from fcl_bench.message_classes import declared_classes
from fcl_bench.method import facts
from fcl_bench.run.checkpoint import TaskCosts, first_checkpoint
from fcl_bench.run.environment import peak_memory_mb
from fcl_bench.run.finished_runs import finished_result
from fcl_bench.run.identity import store
from fcl_bench.run.observer import Observer
from fcl_bench.run.record import Record
from fcl_bench.run.result import Result
from fcl_bench.run.scenario import Scenario, materialise, plan
from fcl_bench.run.scores import score
from fcl_bench.run.stability import warning
from fcl_bench.threads import threads_fixed


def run(config: DictConfig, observer: Observer, command: str | None = None) -> Result:
    """Show the result of a finished run, or do what is left of it; ``command`` is recorded as what asked for it."""
    began = time.time_ns()
    planned = plan(config)
    record = Record(config, planned.identity, command)
    store(config, record.identity, planned.files, began)
    result = finished_result(record, record.identity) if config.resume else None
    if result:
        observer.finished_before(result, record.folder)
        return result
    with threads_fixed(config.threads), record.opened(planned.stream, planned.dataset.test.labels):
        result = learn_stream(materialise(config, planned, observer.filling), record, observer)
    observer.end(result, record.folder)
    return result


def learn_stream(scenario: Scenario, record: Record, observer: Observer) -> Result:
    """Learn task after task, predict the whole test set after each, and keep it all."""
    config = scenario.config
    method = scenario.method()
    logger = build(config.logger)
    declared = facts(method)
    declared["exact"] &= not build(config.privacy).adds_noise
    start = first_checkpoint(beginning(method), len(scenario.test))
    checkpoint = record.restore(start, declared, declared_classes(type(method)))
    with closing(build(config.transport)) as transport, logger.opened(record.folder) as log:
        federation = scenario.federation(transport, observer.answered, record.log_exchange)
        federation.restore(checkpoint.memories)
        warn_of_large_steps(scenario)
        observer.begin(scenario, method, checkpoint.progress)
        for progress in learn(method, federation, checkpoint.progress):
            if not progress.between_tasks:
                observer.round_done()
                if getattr(method, "resumes_within_tasks", False) and record.pace.is_due():
                    with record.pace.saving():
                        record.save_progress(checkpoint.within_task(progress, federation.memories()))
                continue
            memories = federation.memories()
            scores = score(method, progress, memories, scenario)
            progress = progress.plus(Costs(server_seconds=scores.server_seconds))
            checkpoint = checkpoint.after_task(progress, memories, scores, costs_of(progress, federation))
            result = record.save(checkpoint)
            log(result)
            observer.learned(scenario.stream.tasks[progress.task - 1], result)
        return record.complete()


def warn_of_large_steps(scenario: Scenario) -> None:
    """Say it before training if the learning rate may be too large for the features that clients hold."""
    sentence = warning(scenario.config, scenario.train)
    if sentence:
        warnings.warn(sentence, stacklevel=2)


def costs_of(progress: Progress, federation: Federation) -> TaskCosts:
    """What a record says about traffic, time and memory after a task."""
    costs = progress.costs
    return {
        **asdict(costs),
        "runtime_seconds": costs.client_seconds + costs.server_seconds,
        "stored_bytes": federation.stored_bytes,
        "peak_memory_mb": peak_memory_mb(),
    }
