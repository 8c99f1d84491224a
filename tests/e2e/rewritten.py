"""Dumps with other content whose hashes fit again: what only a comparison of numbers can find.

Needs h5py, hdf5plugin, numpy and xxhash.
"""
import json
import pathlib
import shutil

import h5py
import hdf5plugin  # noqa: F401  registers the zstd filter
import numpy as np
import xxhash


def digest(data):
    return xxhash.xxh3_128_hexdigest(data)


def canonical(value):
    """Only of texts without control characters."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def record(body):
    text = canonical(body)
    return '{"body":%s,"hash":"%s"}\n' % (text, digest(text.encode())), digest(text.encode())


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
    first = json.loads((dump / "journal.jsonl").read_text().splitlines()[0])["body"]
    meta = first["meta"]
    meta.get("config", {}).update(config or {})
    line, previous = record(first)
    journal = [line]
    for number, unit in enumerate(units, 1):
        line, previous = record({"line": number, "previous": previous, "unit": unit})
        journal.append(line)
    journal = "".join(journal)
    (dump / "journal.jsonl").write_text(journal)
    if not sealed:
        (dump / "manifest.json").unlink()
        (dump / "INCOMPLETE").write_text("")
        return
    units = sorted(units, key=lambda unit: unit["path"])
    root = "".join(f"{unit['path']} {unit['content']}\n" for unit in units)
    body = {**body, "meta": meta, "units": units,
            "journal": {"size": len(journal), "hash": digest(journal.encode())},
            "root": digest(f"rlreplay root\n{canonical(meta)}\n{root}".encode())}
    (dump / "manifest.json").write_text(record(body)[0])


def rewrite(source, target, changes=None, without=(), config=None, sealed=True, copies=None):
    """A copy of a dump. `changes`: unit -> {dataset: function of its array}; `copies`: unit -> {new
    dataset: the one that it equals}; `without`: units that are left out; `config`: other recorded
    options."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    body = json.loads((target / "manifest.json").read_text())["body"]
    lines = (target / "journal.jsonl").read_text().splitlines()[1:]
    units = [json.loads(line)["body"]["unit"] for line in lines]
    for path in without:
        (target / path).unlink()
    units = [unit for unit in units if unit["path"] not in without]
    for unit in units:
        change, copied = ((of or {}).get(unit["path"], {}) for of in (changes, copies))
        if not change and not copied:
            continue
        path = target / unit["path"]
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
