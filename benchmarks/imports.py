"""How long a person waits for nothing: import, and a list of what there is."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Row, best

REPEATS = 7


def imports() -> Iterator[Row]:
    bare, imported = best(
        REPEATS,
        lambda: python("-c", "import sys"),
        lambda: python("-c", "import fcl_bench, sys; assert 'torch' not in sys.modules"),
    )
    how = f"a new process without torch, best of {REPEATS}, less {bare:.3f} s for a bare interpreter"
    yield Row("import fcl_bench", how, imported - bare, "s", limit=0.3)
    (listed,) = best(3, lambda: python("-m", "fcl_bench", "list"))
    yield Row("python -m fcl_bench list", "a new process, best of 3", listed, "s", limit=3)


def python(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
