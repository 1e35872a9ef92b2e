"""How long a person waits for nothing: an import, and the list of what there is."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Row, best

REPEATS = 5


def imports() -> Iterator[Row]:
    bare, imported, listed = best(
        REPEATS,
        lambda: python("-c", "import sys"),
        lambda: python("-c", "import sys, fcl_bench; assert 'torch' not in sys.modules"),
        lambda: python("-m", "fcl_bench", "list"),
    )
    how = f"a new process, in which torch must not be loaded, less {bare:.3f} s of a bare one; best of {REPEATS}"
    yield Row("import fcl_bench", how, imported - bare, "s", limit=0.3)
    yield Row("python -m fcl_bench list", f"a new process; best of {REPEATS}", listed, "s", limit=3)


def python(*words: str) -> None:
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
