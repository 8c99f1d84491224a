"""Opens a dump as a mapping of arrays, for notebooks. One file; needs h5py, hdf5plugin and numpy.

    import rlreplay_h5
    dump = rlreplay_h5.open("dump/")
    dump["rollout/3/tokens"]                     # a numpy array of the recorded shape
    dump["train/3-0/rank0/advantages"]
    for sample in dump.samples("rollout/3"):     # one dict a sample, its rows cut out
        print(sample["sample_id"], sample["log_probs"][sample["prompt_length"]:].mean())

With xxhash installed, every unit's bytes are checked against the manifest before HDF5 sees them.
bf16 and the eight-bit floats come as their bits; `dump.torch(name)` makes tensors of them.

usage: rlreplay_h5.py DUMP [NAME]    lists the arrays, or prints one
"""
import collections.abc
import io
import json
import pathlib
import struct
import sys

import h5py
import hdf5plugin  # noqa: F401  (registers the zstd filter)
import numpy

try:
    import xxhash
except ImportError:
    xxhash = None

TORCH_TYPES = {"bf16": "bfloat16", "f16": "float16", "f8e4m3": "float8_e4m3fn",
               "f8e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu", "bool": "bool"}


class DumpError(Exception):
    """A dump that is not what it says."""


def open(path):  # noqa: A001  (used as rlreplay_h5.open)
    return Dump(path)


def _record(line):
    body = json.loads(line)["body"]
    if xxhash and xxhash.xxh3_128_hexdigest(line[8:-43].encode()) != json.loads(line)["hash"]:
        raise DumpError("a record does not have its hash")
    return body


def _attributes(dataset):
    """Texts of fixed length come as bytes."""
    return {name: value.decode() if isinstance(value, bytes) else value
            for name, value in dataset.attrs.items()}


class Dump(collections.abc.Mapping):
    """The arrays of a dump by name: `KIND/GROUP/DATASET`, for train units `train/GROUP/rankR/...`."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        manifest = self.path / "manifest.json"
        if manifest.exists():
            body = _record(manifest.read_text().rstrip("\n"))
            self.meta, self.root = body["meta"], body["root"]
            ended = body["complete"]
            units = body["units"] if "units" in body else self._index_rows(body["index"])
        else:
            lines = list(self._journal_lines())
            if not lines:
                raise DumpError(f"{path}: no dump, or one that ended before it began")
            self.meta, self.root = lines[0]["meta"], None
            ended = False
            units = [line["unit"] for line in lines if "unit" in line]
        self.units = {unit["path"]: unit for unit in units}
        self._files = {}
        self._places = {}
        for unit in self.units:
            if not unit.startswith("x-"):
                self._index(unit)
        self.partial = [] if ended else self._leave_out_partial()

    def _leave_out_partial(self):
        """Where a writer died some ranks may have come further than others: a step or a state that not all of
        them hold is none. Returns their names, as `train/3-0`."""
        held = {}
        for key, (unit, name) in self._places.items():
            if key.startswith(("train/", "weights/")):
                ranks = held.setdefault(self._group_of(unit, name), set())
                file = unit.rsplit("/", 1)[-1]
                if "-part" not in file:
                    number = file.removeprefix("rank").removesuffix(".h5")
                    ranks.add(int(number) if file.startswith("rank") and number.isdigit() else 0)
        partial = sorted(group for group, ranks in held.items() if len(ranks) < self.meta["ranks"])
        self._places = {key: place for key, place in self._places.items()
                        if self._group_of(*place) not in partial}
        return partial

    @staticmethod
    def _group_of(unit, name):
        return unit.partition("/")[0] + "/" + name.partition("/")[0]

    def _index_rows(self, named):
        """The units of units.index."""
        data = (self.path / "units.index").read_bytes()
        if xxhash and xxhash.xxh3_128_hexdigest(data) != named["hash"]:
            raise DumpError("units.index: other bytes than the manifest's")
        units, groups = struct.unpack_from("<QQ", data, 16)
        strings = 64 + 72 * units + 64 * groups
        for row in range(units):
            at, length, _, _, size, logical = struct.unpack_from("<QIIQQQ", data, 64 + 72 * row)
            hashes = data[64 + 72 * row + 40:64 + 72 * row + 72].hex()
            yield {"path": data[strings + at:strings + at + length].decode(), "size": size, "logical": logical,
                   "hash": hashes[:32], "content": hashes[32:]}

    def _journal_lines(self):
        """Of every writer, its whole lines."""
        for journal in sorted(self.path.glob("journal/*.jsonl")):
            text = journal.read_text()
            yield from map(_record, text[:text.rfind("\n") + 1].splitlines())

    def _file(self, unit):
        if unit not in self._files:
            data = (self.path / unit).read_bytes()
            if xxhash and xxhash.xxh3_128_hexdigest(data) != self.units[unit]["hash"]:
                raise DumpError(f"{unit}: other bytes than the manifest's")
            self._files[unit] = h5py.File(io.BytesIO(data), "r")
        return self._files[unit]

    def _index(self, unit):
        kind, _, rest = unit.partition("/")
        rank = rest.rsplit("/", 1)[-1].removesuffix(".h5") if "/rank" in rest else None

        def visit(name, item):
            if not isinstance(item, h5py.Dataset):
                return
            group, _, dataset = name.partition("/")
            parts = [kind, group] + ([rank] if kind != "rollout" and rank else []) + [dataset]
            self._places["/".join(parts)] = (unit, name)

        self._file(unit).visititems(visit)

    def __iter__(self):
        return iter(self._places)

    def __len__(self):
        return len(self._places)

    def _bytes(self, unit, name):
        dataset = self._file(unit)[name]
        attributes = _attributes(dataset)
        data = dataset[...]
        if attributes["encoding"] == "xor":
            base = self._base(attributes["base_unit"], name, attributes["base_hash"])
            data = (data.view("u1") ^ base.view("u1")).view(data.dtype)
        return data

    def _base(self, unit, name, wanted):
        tail = name.partition("/")[2]
        file = self._file(unit)
        for group in file:
            path = f"{group}/{tail}"
            if path in file and _attributes(file[path])["hash"] == wanted:
                return self._bytes(unit, path)
        raise DumpError(f"{unit}: the base of {name} is not there")

    def __getitem__(self, key):
        unit, name = self._places[key]
        data = self._bytes(unit, name).reshape(self.attributes(key)["shape"].astype(int))
        return data.astype(bool) if self.dtype(key) == "bool" else data

    def attributes(self, key):
        """A dataset's attributes: dtype, shape, hash, columns, ..."""
        unit, name = self._places[key]
        return _attributes(self._file(unit)[name])

    def dtype(self, key):
        return self.attributes(key)["dtype"]

    def columns(self, key):
        """The names of the last axis."""
        return self.attributes(key)["columns"].split("\n")

    def torch(self, key):
        """The array as a torch tensor of its own type."""
        import torch
        tensor = torch.from_numpy(numpy.ascontiguousarray(self[key]))
        own = TORCH_TYPES.get(self.dtype(key))
        return tensor if own in (None, "bool") else tensor.view(getattr(torch, own))

    def samples(self, prefix):
        """The samples of a rollout (`rollout/3`) or of a rank's step (`train/3-0/rank0`); where the rank holds
        slices of them, their tokens one slice after the other, with `slices` and `lengths`."""
        names = [k[len(prefix) + 1:] for k in self if k.startswith(prefix + "/")]
        arrays = {n: self[f"{prefix}/{n}"] for n in names if "/" not in n}
        offsets = arrays["offsets"]
        size, tokens = len(offsets) - 1, int(offsets[-1])
        for s in range(size):
            sample = {}
            for name, array in arrays.items():
                shown = arrays.get(name + "_present")
                own = arrays.get(name + "_offsets")
                if name.endswith(("_present", "_offsets")) or name in ("offsets", "scalars", "coordinates"):
                    continue
                if shown is not None and not shown[s]:
                    sample[name] = None
                elif own is not None:
                    sample[name] = array[own[s]:own[s + 1]].tobytes().decode()
                elif name in OWN_OFFSETS:
                    own = arrays[OWN_OFFSETS[name]]
                    sample[name] = array[own[s]:own[s + 1]]
                elif PER_SAMPLE.get(name, len(array) == size and len(array) != tokens):
                    sample[name] = array[s]
                else:
                    sample[name] = array[offsets[s]:offsets[s + 1]]
            yield sample


PER_SAMPLE = dict.fromkeys(["sample_id", "group_id", "prompt_length", "rewards",
                            "reward_components", "finish", "removed", "micro_batch", "lengths"], True)
OWN_OFFSETS = {"versions": "version_offsets", "version_starts": "version_offsets", "slices": "slice_offsets"}


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    dump = Dump(sys.argv[1])
    if len(sys.argv) == 3:
        print(dump[sys.argv[2]])
        return
    for name in dump:
        print(name, dump.dtype(name), [int(n) for n in dump.attributes(name)["shape"]])


if __name__ == "__main__":
    main()
