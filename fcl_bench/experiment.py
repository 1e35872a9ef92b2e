"""One run, from configuration to record."""

from omegaconf import DictConfig

from fcl_bench.config import build
from fcl_bench.console import View
from fcl_bench.evaluate import predict
from fcl_bench.federation import Meter
from fcl_bench.method import facts
from fcl_bench.record import Record
from fcl_bench.seeds import derive, seeded
from fcl_bench.summary import Result
from fcl_bench.world import World, deal, prepare, step


def run(config: DictConfig, view: View) -> Result:
    """Show the result of a finished run, or do what is left of it."""
    record = Record(config)
    result = record.finished() if config.resume else None
    if result is None:
        dataset, stream = deal(config)
        with record.opened(stream, dataset.test.labels):
            result = learn(prepare(config, dataset, stream, view.filling), record, view)
    view.end(result, record.folder)
    return result


def learn(world: World, record: Record, view: View) -> Result:
    """Learn task after task, predict the whole test set after each, and keep it all."""
    method, logger = world.method(), build(world.config.logger)
    about = facts(method)
    checkpoint = record.restore(world.start(method.init()))
    federation = world.federation(checkpoint.memories, view.answered, record.log_exchange)
    view.begin(world, method, finished=len(checkpoint.costs))
    try:
        for task in world.stream.tasks[len(checkpoint.costs) :]:
            state, meter, clients = checkpoint.state, Meter(), federation.open(method, task)
            with seeded(derive(world.config.seed, "server", task.index)):
                for state in meter.run(method.learn(state, task, clients), clients):
                    view.round()
            predictions = predict(method.classifier(state), world.test, world.stream.order)
            checkpoint = step(checkpoint, state, predictions, federation, clients, meter)
            result = record.save(checkpoint, about)
            logger.log(record.folder, result)
            view.learned(task, result)
    except BaseException:
        record.save_result(checkpoint, about, "interrupted")
        raise
    return record.save_result(checkpoint, about, "complete")
