"""The settings in a file of a run folder: plain values, whoever has written them.

What is written there has no links, no tags and no references, so none is read: with them, a few lines of YAML could
stand for more than memory holds, or for objects of any class.
"""

from io import StringIO
from pathlib import Path

import yaml
from omegaconf import DictConfig, OmegaConf

from fcl_bench.bounded import read_bytes

LARGEST = 2**19  # bytes
DEEPEST = 20  # groups within groups


def saved_settings(path: Path) -> DictConfig:
    """A ``config.yaml`` as this package writes it; a ValueError says what is wrong with another one."""
    text = read_bytes(path, LARGEST).decode()
    if "${" in text:
        raise ValueError("it has references to other settings")
    try:
        _check(text)
        config = OmegaConf.load(StringIO(text))
    except (yaml.YAMLError, OSError) as error:  # the second one for text that is neither list nor mapping
        raise ValueError(f"it is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, DictConfig):
        raise ValueError("it holds a list instead of settings")
    return config


def _check(text: str) -> None:
    """Look at the parts of a YAML text one after the other, which takes no more memory than the text."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has links within itself")
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"it asks for an object ({event.tag})")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"it has more than {DEEPEST} groups within groups")
