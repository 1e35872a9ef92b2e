"""``python -m fcl_bench``: a run by default, or one of a few other verbs."""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence

from fcl_bench.cli.plain_text import replace_missing_characters
from fcl_bench.errors import UserError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and turn what goes wrong into one sentence and an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    replace_missing_characters()
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    from fcl_bench.cli.verbs import VERBS, run

    try:
        if words and words[0] in VERBS:
            VERBS[words[0]](words[1:])
        else:
            run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UserError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("Interrupted. Finished tasks are kept: the same command goes on from there.", 130)
    return 0


def _fail(message: str, code: int) -> int:
    if "FCL_BENCH_TRACEBACK" in os.environ:
        traceback.print_exc()
    print(f"fcl_bench: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
