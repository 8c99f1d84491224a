"""Files that went through import and export load in Python as what they were.

usage: torch_load_test.py RLREPLAY DATA      DATA: the folder of the project's own torch files

Loads with torch where it is installed, and else with pickle and zipfile, torch's calls replaced by
numpy. Runs of the reference dumps are compared too where RLREPLAY_REFERENCE names their folder.
"""
import collections
import io
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy
except ImportError:
    sys.exit(77)

FORMATS = {"DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2",
           "BFloat16Storage": "<u2", "LongStorage": "<i8", "IntStorage": "<i4",
           "ShortStorage": "<i2", "CharStorage": "<i1", "ByteStorage": "<u1", "BoolStorage": "?"}
CLASSES = {}


class Plain:
    """Stands for a class of a framework."""

    def __init__(self, *state):
        self.state = state


def stand_in(module, name):
    return CLASSES.setdefault((module, name), type(name, (Plain,), {"module": module}))


class Tensor:
    def __init__(self, storage, offset, size, stride, requires_grad, hooks, metadata=None):
        kind, location, data = storage
        step = data.dtype.itemsize
        view = numpy.lib.stride_tricks.as_strided(data[offset:], size, [s * step for s in stride])
        self.state = (kind, location, requires_grad, tuple(size), view.tobytes())


class Loader(pickle.Unpickler):
    """torch.load without torch."""

    def __init__(self, archive):
        self.archive = archive
        self.root = archive.namelist()[0].split("/")[0]
        super().__init__(io.BytesIO(archive.read(self.root + "/data.pkl")))

    def find_class(self, module, name):
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            return Tensor
        if module == "torch" and name in FORMATS:
            return name
        if module.split(".")[0] in ("torch", "slime", "miles", "relax"):
            owner, _, nested = name.partition(".")
            made = stand_in(module, owner)
            return getattr(made, nested) if nested else made
        return super().find_class(module, name)

    def persistent_load(self, pid):
        _, kind, key, location, count = pid
        data = numpy.frombuffer(self.archive.read(f"{self.root}/data/{key}"), FORMATS[kind])
        assert len(data) == count
        return kind, location, data


for owner in ("slime.utils.types", "miles.utils.types", "relax.utils.types"):
    stand_in(owner, "Sample").SpecInfo = stand_in(owner, "SpecInfo")
    stand_in(owner, "Sample").PrefixCacheInfo = stand_in(owner, "PrefixCacheInfo")
    stand_in(owner, "Sample").Status = stand_in(owner, "Status")


def load(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return Loader(archive).load()


def bits(value):
    """A value as something that == compares by type and bits."""
    if isinstance(value, float):
        return ("float", numpy.float64(value).tobytes())
    if isinstance(value, numpy.ndarray) or isinstance(value, numpy.generic):
        return (type(value).__name__, value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return (type(value).__name__, [(bits(k), bits(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [bits(v) for v in value])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted(map(repr, map(bits, value))))
    if isinstance(value, (Plain, Tensor)):
        return (type(value), bits(vars(value)))
    return (type(value).__name__, value)


def compare(rlreplay, vendor, sources, names, folder):
    dump, out = folder / "dump", folder / "out"
    run = lambda *words: subprocess.run([rlreplay, *map(str, words)], check=True,
                                        stdout=subprocess.DEVNULL)
    run("import", *sources, "-o", dump, "--format", vendor)
    run("export", dump, "--to", vendor, "-o", out)
    for name, original in names.items():
        assert bits(load(out / name)) == bits(load(original)), name
        try:
            import torch
            torch.load(out / name, weights_only=False, map_location="cpu")
        except ImportError:
            pass
    return len(names)


def main():
    rlreplay, data = sys.argv[1], pathlib.Path(sys.argv[2])
    files = 0
    with tempfile.TemporaryDirectory() as folder:
        own = [data / name for name in ("rollout.pt", "arrays.pt", "values_p2.pt")]
        files += compare(rlreplay, "slime", own, {p.name: p for p in own}, pathlib.Path(folder))
    reference = pathlib.Path(os.environ.get("RLREPLAY_REFERENCE", "/nonexistent")) / "dumps"
    for run in sorted(reference.glob("*/*/rollout_data")):
        run = run.parent
        with tempfile.TemporaryDirectory() as folder:
            names = {p.relative_to(run): p for p in run.rglob("*.pt")}
            vendor = run.parent.name.split("-")[0]
            files += compare(rlreplay, vendor, [run], names, pathlib.Path(folder))
    print(f"{files} files load as what they were")


main()
