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
from fcl_bench.world import prepare, step


def run(config: DictConfig, view: View) -> Result:
    """Learn task after task, predict the whole test set after each, and keep it all."""
    record = Record(config)
    record.open()
    if config.resume and (finished := record.finished()):
        view.end(finished, record.folder)
        return finished

    world = prepare(config, view.filling)
    method, logger = world.method(), build(config.logger)
    record.begin(world.stream, world.dataset.test.labels, facts(method))
    checkpoint = record.restore(world.start(method.init()))
    federation = world.federation(checkpoint.memories, view.answered, record.log_exchange)
    view.begin(config, world, method, finished=len(checkpoint.costs))

    try:
        for task in world.stream.tasks[len(checkpoint.costs) :]:
            state, meter, clients = checkpoint.state, Meter(), federation.open(method, task)
            with seeded(derive(config.seed, "server", task.index)):
                for state in meter.run(method.learn(state, task, clients), clients):
                    view.round()
            predictions = predict(method.classifier(state), world.test, world.stream.order)
            checkpoint = step(checkpoint, state, predictions, federation, clients, meter)
            result = record.save(checkpoint)
            logger.log(record.folder, result)
            view.learned(task, result)
    except BaseException:
        record.save_result(checkpoint, "interrupted")
        raise
    result = record.save_result(checkpoint, "complete")
    view.end(result, record.folder)
    return result
