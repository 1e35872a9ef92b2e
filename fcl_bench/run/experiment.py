"""One run, from configuration to record."""

import time

from omegaconf import DictConfig

from fcl_bench.config.compose import build
from fcl_bench.federation import Meter
from fcl_bench.method import facts, other_classifiers
from fcl_bench.run.evaluate import predict
from fcl_bench.run.identity import store
from fcl_bench.run.observer import Observer
from fcl_bench.run.record import Record
from fcl_bench.run.result import Result
from fcl_bench.run.scenario import World, deal, prepare, step


def run(config: DictConfig, view: Observer, command: str | None = None) -> Result:
    """Show the result of a finished run, or do what is left of it; ``command`` is recorded as what asked for it."""
    began = time.time_ns()
    dealt = deal(config)
    record = Record(config, dealt.identity, command)
    store(config, record.identity, dealt.files, began)
    result = record.finished() if config.resume else None
    if result:
        view.finished_before(result, record.folder)
    else:
        with record.opened(dealt.stream, dealt.dataset.test.labels):
            result = learn(prepare(config, dealt, view.filling), record, view)
        view.end(result, record.folder)
    return result


def learn(world: World, record: Record, view: Observer) -> Result:
    """Learn task after task, predict the whole test set after each, and keep it all."""
    method, logger = world.method(), build(world.config.logger)
    checkpoint = record.restore(world.start(method.init()), facts(method))
    federation = world.federation(checkpoint.memories, view.answered, record.log_exchange)
    view.begin(world, method, finished=len(checkpoint.costs))
    with logger.opened(record.folder) as log:
        for task in world.stream.tasks[len(checkpoint.costs) :]:
            state, meter, clients = checkpoint.state, Meter(), federation.open(method, task)
            for state in meter.learn(method, state, clients):
                view.round()
            predictions = predict(meter.serve(method.classifier, state), world.test, world.stream.order)
            others = {
                name: predict(other, world.test, world.stream.order) for name, other in other_classifiers(method, state)
            }
            checkpoint = step(checkpoint, state, predictions, others, federation, clients, meter)
            result = record.save(checkpoint)
            log(result)
            view.learned(task, result)
        return record.complete()
