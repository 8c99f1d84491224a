"""Dumps with other content whose hashes fit again: what only a comparison of numbers can find.

Needs h5py, hdf5plugin, numpy and xxhash.
"""
import pathlib
import shutil

import h5py
import hdf5plugin  # noqa: F401  registers the zstd filter
import numpy as np

import dump_files
from dump_files import digest


def replace(file, name, values):
    """Other values of a dataset, which may be more or fewer."""
    old = file[name]
    attributes = dict(old.attrs)
    values = np.ascontiguousarray(values, old.dtype)
    if len(attributes["shape"]) == 1:
        attributes["shape"] = np.array([values.size], "<u8")
    attributes["hash"] = np.bytes_(digest(values.tobytes()))
    del file[name]
    made = file.create_dataset(name, data=values)
    for key, value in attributes.items():
        made.attrs[key] = value


def content_of(file):
    lines = []

    def visit(name, dataset):
        if not isinstance(dataset, h5py.Dataset):
            return
        known = {"dtype", "shape", "hash", "encoding", "base_unit", "base_hash"}
        words = [name, dataset.attrs["dtype"].decode(),
                 ",".join(map(str, dataset.attrs["shape"])), dataset.attrs["hash"].decode()]
        for key in sorted(set(dataset.attrs) - known):
            value = dataset.attrs[key]
            words.append(f"{key}=" + (digest(value) if isinstance(value, bytes)
                                      else ",".join(map(str, value))))
        lines.append((name.encode(), " ".join(words)))

    file.visititems(visit)
    text = "".join(line + "\n" for _, line in sorted(lines))
    return digest(("rlreplay content\n" + text).encode())


def logical_of(file):
    sizes = []
    file.visititems(lambda _, item: sizes.append(item[...].nbytes)
                    if isinstance(item, h5py.Dataset) else None)
    return sum(sizes)


def seal(dump, units, body, config=None, sealed=True):
    """The records of these units, with hashes that fit."""
    meta = dump_files.journal_bodies(dump)[0]["meta"]
    meta.get("config", {}).update(config or {})
    dump_files.write_records(dump, meta, units, body, sealed)


def rewrite(source, target, changes=None, without=(), config=None, sealed=True, copies=None):
    """A copy of a dump. `changes`: unit -> {dataset: function of its array}; `copies`: unit -> {new
    dataset: the one that it equals}; `without`: units that are left out; `config`: other recorded
    options."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    body, units = dump_files.manifest_of(target), dump_files.units_of(target)
    for path in without:
        (target / path).unlink()
    units = [unit for unit in units if unit["path"] not in without]
    for unit in units:
        change, copied = ((of or {}).get(unit["path"], {}) for of in (changes, copies))
        if not change and not copied:
            continue
        path = target / unit["path"]
        unit.pop("counts", None)  # optional, and of the values that were
        with h5py.File(path, "r+", libver=("v110", "v110")) as file:
            for name, function in change.items():
                replace(file, name, function(file[name][...].copy()))
            for name, equal in copied.items():
                file.copy(equal, name)
            unit["content"], unit["logical"] = content_of(file), logical_of(file)
        data = path.read_bytes()
        unit["size"], unit["hash"] = len(data), digest(data)
    seal(target, units, body, config, sealed)
    return target
