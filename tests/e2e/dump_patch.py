"""Dumps taken apart, changed and put together again, with every hash as format/SPEC.md demands."""
import dataclasses
import pathlib
import shutil
import struct
import sys

import h5py
import hdf5plugin  # noqa: F401  registers the zstd filter
import numpy
import xxhash

import dump_files
from dump_files import digest as hash_of

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import rlreplay_h5  # noqa: E402

STORED = {"bool": "u1", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1",
          "u16": "<u2", "u32": "<u4", "u64": "<u8", "f32": "<f4", "f64": "<f8"}
CHUNK = 4 << 20
OWN = ("dtype", "shape", "hash", "encoding", "base_unit", "base_hash")


@dataclasses.dataclass
class Array:
    """A dataset: its elements in a row, and what belongs to its content."""
    values: numpy.ndarray
    dtype: str
    shape: list
    attributes: dict
    base: tuple = None  # of a difference: the unit, and the Array there

    def reshaped(self, values, dtype=None):
        """The same dataset with other elements along the first axis."""
        rest = int(numpy.prod(self.shape[1:], dtype=int))
        dtype = dtype or self.dtype
        values = numpy.asarray(values).astype(STORED[dtype])
        return Array(values, dtype, [values.size // rest, *self.shape[1:]], self.attributes)

    def content(self):
        out = f"{self.dtype} {','.join(map(str, self.shape))} {hash_of(self.values.tobytes())}"
        for name, value in sorted(self.attributes.items()):
            numbers = not isinstance(value, str)
            out += f" {name}=" + (",".join(map(str, value)) if numbers else hash_of(value.encode()))
        return out


class Patched:
    """A dump in memory: `units[PATH][DATASET]`, `meta`, and, by path, the record of each unit."""

    complete = True

    def __init__(self, path):
        dump = rlreplay_h5.open(path)
        self.meta = dump.meta
        self.unstable = {}
        said = {unit["path"]: unit for unit in dump_files.units_of(path)}
        self.records = {p: dict(said.get(p, record)) for p, record in dump.units.items()}
        self.units = {unit: self._read(dump, unit) for unit in dump.units}

    @staticmethod
    def _read(dump, unit):
        datasets = {}

        def visit(name, item):
            if not isinstance(item, h5py.Dataset):
                return
            own = rlreplay_h5._attributes(item)
            extra = {k: v if isinstance(v, str) else [int(n) for n in v]
                     for k, v in own.items() if k not in OWN}
            datasets[name] = Array(dump._bytes(unit, name), own["dtype"],
                                   [int(n) for n in own["shape"]], extra)

        dump._file(unit).visititems(visit)
        return datasets

    def at(self, unit, dataset):
        return self.units[unit][dataset]

    def split_rollout(self, first, second, count):
        """Moves the samples of rollout 0 behind the first `count` into a unit of their own."""
        old, new = self.units[first], self.units.setdefault(second, {})
        middle = int(old["0/offsets"].values[count])
        for name, array in list(old.items()):
            if "events" in name:
                continue
            if "_text" in name:
                del old[name]
                continue
            by_token = name.split("/")[1] in ("tokens", "log_probs", "loss_mask")
            cut = middle if by_token else count
            kept, moved = array.values[:cut], array.values[cut:]
            if name.endswith("offsets"):
                kept, moved = array.values[:count + 1], array.values[count:] - array.values[count]
            old[name], new[name] = array.reshaped(kept), array.reshaped(moved)

    def write(self, path, sealed=True, change=lambda record: None):
        """Writes the dump with all hashes; `change` may falsify a unit's record."""
        path = pathlib.Path(path)
        shutil.rmtree(path, ignore_errors=True)
        records = []
        for name, datasets in self.units.items():
            made = self._write_unit(path, name, datasets)
            change(made)
            records.append(made)
        path.mkdir(exist_ok=True)
        body = {"unstable": self.unstable}
        dump_files.write_records(path, self.meta, records, body, sealed, self.complete)
        return path

    @staticmethod
    def _write_unit(folder, name, datasets):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with h5py.File(path, "w", libver=("v110", "v110")) as file:
            for key, value in (("format", "rlreplay"), ("version", "1.0"), ("unit", name)):
                _text(file, key, value)
            for dataset, array in datasets.items():
                _write_dataset(file, dataset, array)
        data = path.read_bytes()
        content = "rlreplay content\n" + "".join(
            f"{d} {a.content()}\n" for d, a in sorted(datasets.items()))
        return {"path": name, "size": len(data), "hash": hash_of(data),
                "content": hash_of(content.encode()),
                "logical": sum(a.values.nbytes for a in datasets.values()),
                "groups": sorted({d.split("/")[0] for d in datasets})}


def _text(at, key, value):
    data = value.encode()
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(max(1, len(data)))
    kind.set_strpad(h5py.h5t.STR_NULLPAD)
    kind.set_cset(h5py.h5t.CSET_UTF8)
    space = h5py.h5s.create(h5py.h5s.SCALAR)
    attribute = h5py.h5a.create(at.id, key.encode(), kind, space)
    attribute.write(numpy.array(data, dtype=f"S{max(1, len(data))}"), mtype=kind)


def _numbers(at, key, value):
    values = numpy.array(value, dtype="<u8")
    space = h5py.h5s.create_simple(values.shape)
    h5py.h5a.create(at.id, key.encode(), h5py.h5t.STD_U64LE, space).write(values)


def frame(count, byte=b"\0"):
    """A zstd frame with size and checksum of blocks that repeat one byte."""
    out = struct.pack("<IBI", 0xFD2FB528, 0xA4, count)
    for begin in range(0, count, 1 << 17):
        size = min(1 << 17, count - begin)
        out += (int(begin + size == count) | 1 << 1 | size << 3).to_bytes(3, "little") + byte
    return out + xxhash.xxh64(byte * count).digest()[:3:-1]


def _write_zeros(group, name, values):
    """A few hundred bytes a chunk."""
    made = group.create_dataset(name, shape=values.shape, dtype=values.dtype,
                                chunks=(CHUNK // values.itemsize,), compression=32015,
                                compression_opts=(1,), shuffle=values.itemsize > 1)
    stored = frame(CHUNK)
    for begin in range(0, values.size, CHUNK // values.itemsize):
        made.id.write_direct_chunk((begin,), stored)
    return made.id


def _write_dataset(file, name, array):
    values = numpy.ascontiguousarray(array.values).reshape(-1)
    array.values = values
    group, own = file.require_group(name.rsplit("/", 1)[0]), name.rsplit("/", 1)[1]
    stored = values
    if array.base:
        stored = (values.view("u1") ^ array.base[1].values.view("u1")).view(values.dtype)
    zeros = stored.nbytes >= CHUNK and not stored.any()
    made = (_write_zeros if zeros else _write_values)(group, own, stored)
    dataset = h5py.Dataset(made)
    _text(dataset, "dtype", array.dtype)
    _text(dataset, "hash", hash_of(values.tobytes()))
    _text(dataset, "encoding", "xor" if array.base else "plain")
    if array.base:
        _text(dataset, "base_unit", array.base[0])
        _text(dataset, "base_hash", hash_of(array.base[1].values.tobytes()))
    _numbers(dataset, "shape", array.shape)
    for key, value in array.attributes.items():
        (_text if isinstance(value, str) else _numbers)(dataset, key, value)


def _write_values(group, name, values):
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    create.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    made = h5py.h5d.create(group.id, name.encode(), h5py.h5t.py_create(values.dtype),
                           h5py.h5s.create_simple(values.shape), create)
    if values.size:
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    return made
