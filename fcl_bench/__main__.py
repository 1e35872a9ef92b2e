"""``python -m fcl_bench``: a run by default, or one of a few other verbs."""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import fcl_bench
from fcl_bench.cli.plain_text import replace_missing_characters
from fcl_bench.errors import UserError
from fcl_bench.interruption import Interrupted, Interruption, interruptible
from fcl_bench.visible import visible_lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command; what goes wrong becomes one sentence and an exit code."""
    with interruptible(process=arguments is None) as interruption:
        try:
            code = _outcome(list(sys.argv[1:] if arguments is None else arguments), interruption)
        except BaseException as error:
            if interruption.signal is None and not isinstance(error, KeyboardInterrupt):
                raise
            code = _interrupted(interruption)
        return code


def _outcome(words: list[str], interruption: Interruption) -> int:
    replace_missing_characters()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
            _carry_out(words)
        sys.stdout.flush()
        if interruption.signal:  # and what it raised was lost
            raise Interrupted
    except BrokenPipeError:  # the program that read the output, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UserError as error:
        if interruption.signal:  # it may have caused the error
            raise
        return _fail(str(error), error.exit_code)
    return 0


def _carry_out(words: list[str]) -> None:
    _check_package()
    from fcl_bench.cli.verbs import VERBS

    if words and words[0] in VERBS:
        VERBS[words[0]](words[1:])
        return
    from fcl_bench.cli.run import run  # takes longer to import than some verbs

    run(words)


def _check_package() -> None:
    """Refuse to work where Python takes a folder in the working directory, such as a clone, for the package."""
    if fcl_bench.__file__ is None:
        folder = Path("fcl_bench").absolute()
        raise UserError(
            f"Python takes the folder {folder} for the package fcl_bench: "
            "run this in another folder, such as that one, or write fcl-bench instead of python -m fcl_bench."
        )


def _interrupted(interruption: Interruption) -> int:
    interruption.told = True
    interruption.be_silent()  # again, as filters of warnings end with the command
    return _fail(interruption.sentence, interruption.exit_code)


def _fail(message: str, code: int) -> int:
    if "FCL_BENCH_TRACEBACK" in os.environ:
        traceback.print_exc()
    print(f"fcl_bench: {visible_lines(message)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
