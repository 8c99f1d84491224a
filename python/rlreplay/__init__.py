"""Opens the dumps of rlreplay as numpy arrays and pandas tables.

    import rlreplay
    dump = rlreplay.open("dump/")       # nothing but its manifest is read yet
    dump["rollout/3/tokens"]            # a numpy array of the recorded shape
    dump["train/3.0/rank0/advantages"]
    dump.samples("rollout/3")           # a DataFrame, one row a sample
    dump.tokens("train/3.0/rank0")      # one row a token
    dump.scalars()                      # one row a step: loss, grad_norm, lr

Every byte that is read is checked first, by the same reader and against the same hashes and rules as
`rlreplay verify`. The commands `rlreplay` and `rlbisect` of this package look at dumps, import, export and
compare them; what computes on a model needs the whole build.
"""
from rlreplay._dump import Dump
from rlreplay._reader import DumpError

__all__ = ["Dump", "DumpError", "open"]


def open(path):  # noqa: A001  (called rlreplay.open)
    """A dump, finished or not. Raises DumpError where the folder is none."""
    return Dump(path)
