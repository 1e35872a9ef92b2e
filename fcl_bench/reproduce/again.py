"""One row again: from its record to a new record elsewhere, and to a verdict."""

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from fcl_bench.config.older import check_recorded, present
from fcl_bench.errors import ConfigError
from fcl_bench.reproduce.places import Places
from fcl_bench.reproduce.verdict import Verdict, recorded_threads, verdict
from fcl_bench.run.allocator import keep_freed_memory
from fcl_bench.run.alone import alone_from_the_start
from fcl_bench.run.environment import forget_peak_memory, made_by_present_code
from fcl_bench.run.experiment import run
from fcl_bench.run.folder import RunFolder
from fcl_bench.run.observer import Observer
from fcl_bench.run.partings import Saved, contents_that_differ
from fcl_bench.run.same import opened
from fcl_bench.run.scenario import plan
from fcl_bench.threads import threads_fixed


@dataclass(frozen=True)
class Reproduction:
    """What came of a record."""

    verdict: Verdict
    folder: Path | None  # of the new record; None where nothing was run


def reproduce(path: Path, places: Places, observer: Observer, command: str) -> Reproduction:
    """Run the row of a record again; a :class:`UserError` says why that cannot be."""
    record = opened(path)
    if "forgotten" in record.result:
        raise ConfigError(f"The record {path} is that of a run which has forgotten samples: run unlearn again instead.")
    config = configuration(record, places)
    new = RunFolder(config)
    _refuse_the_place_of(record, Path(config.output_dir))
    differing = _of_contents(record, config)
    if differing:
        return Reproduction(differing, None)
    before = new.result()
    config.resume = config.resume and (before is None or made_by_present_code(before))
    with threads_fixed(recorded_threads(record.result)), alone_from_the_start(config):
        keep_freed_memory()
        forget_peak_memory()
        run(config, observer, command)
    return Reproduction(verdict(record, opened(new.folder)), new.folder)


def configuration(record: Saved, places: Places) -> DictConfig:
    """The settings of a record as this version has them, here; a :class:`ConfigError` where it has them no more."""
    settings = OmegaConf.create(record.result["config"])
    assert isinstance(settings, DictConfig)
    config = present(settings, record.result["method"])
    places.put_into(config)
    _find_manifest(config, record.path)
    try:
        check_recorded(config)
    except ConfigError as error:
        raise ConfigError(f"The settings of the record {record.path} do not fit this version: {error}") from error
    return config


def _find_manifest(config: DictConfig, record: Path) -> None:
    """A manifest that was replayed is replayed again; where it is no more, the record's own one stands for it."""
    manifest = config.stream.get("manifest")
    if manifest and not Path(manifest).exists() and record.with_name("stream.npz").exists():
        config.stream.manifest = str(record.parent)


def _refuse_the_place_of(record: Saved, output_dir: Path) -> None:
    """Raise a :class:`ConfigError` if new records would come to lie among published ones."""
    if output_dir.resolve() in record.path.resolve().parents:
        raise ConfigError(
            f"The record lies in output_dir={output_dir}, where new ones would be written: set output_dir= to another "
            "folder."
        )


def _of_contents(record: Saved, config: DictConfig) -> Verdict | None:
    """What can be said before anything is learned: data set, weights or stream are not those of the record."""
    planned = plan(config)
    now = {"inputs": planned.identity, "stream": {"hash": planned.stream.hash}}
    differing = "; ".join(parting.sentence() for parting in contents_that_differ(record.result, now))
    if not differing:
        return None
    remedy = "nothing was run; data_dir=FOLDER names the data that it was made with"
    return Verdict("different", f"{differing}: {remedy}.")
