#!/usr/bin/env python3
"""Writes tests/foreign/data: small files in torch.save's layout, and their content as JSON.

Needs only Python's standard library: its own pickler writes the pickles, and stand-ins carry the
names of torch's, numpy's and slime's functions and classes. The JSON is computed here from the
Python objects, so it is an opinion of its own about what the files hold. Same bytes every time.

    tests/foreign/make_fixtures.py tests/foreign/data
"""

import enum
import io
import json
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from pathlib import Path

ITEM = {"Float": ("f", "float32"), "Long": ("q", "int64"), "Int": ("i", "int32"),
        "Bool": ("B", "bool"), "BFloat16": ("H", "bfloat16"), "Double": ("d", "float64")}


def module(name):
    """A stand-in module, importable under its name while the script runs."""
    made = sys.modules.setdefault(name, types.ModuleType(name))
    if "." in name:
        parent, child = name.rsplit(".", 1)
        setattr(module(parent), child, made)
    return made


def named(owner, name, value):
    """Makes `value` what the pickler knows as owner.name."""
    value.__module__, value.__name__, value.__qualname__ = owner, name, name
    setattr(module(owner), name, value)
    return value


# -- torch --------------------------------------------------------------------------------------
def rebuild(*_):
    raise AssertionError("a stand-in is only ever written, never called")


REBUILD_TENSOR = named("torch._utils", "_rebuild_tensor_v2", lambda *a: rebuild(*a))
STORAGE_CLASS = {kind: named("torch", kind + "Storage", type(kind, (), {})) for kind in ITEM}


class Storage:
    def __init__(self, key, kind, values, location="cpu"):
        self.key, self.kind, self.values, self.location = key, kind, values, location

    def bytes(self):
        return struct.pack(f"<{len(self.values)}{ITEM[self.kind][0]}", *self.values)


class Tensor:
    def __init__(self, storage, shape, stride, offset=0):
        self.storage, self.shape, self.stride, self.offset = storage, shape, stride, offset

    def __reduce__(self):
        return REBUILD_TENSOR, (self.storage, self.offset, self.shape, self.stride, False,
                                OrderedDict())

    def elements(self):
        places = [self.offset]
        for size, step in zip(self.shape, self.stride):
            places = [p + i * step for p in places for i in range(size)]
        return [self.storage.values[p] for p in places]

    def json(self):
        code, dtype = ITEM[self.storage.kind]
        values = self.elements()
        return {"$tensor": dict(dtype=dtype, shape=list(self.shape), requires_grad=False,
                                record=self.storage.key, location=self.storage.location,
                                offset=self.offset, stride=list(self.stride),
                                hex=struct.pack(f"<{len(values)}{code}", *values).hex())}


# -- numpy --------------------------------------------------------------------------------------
RECONSTRUCT = named("numpy.core.multiarray", "_reconstruct", lambda *a: rebuild(*a))
NDARRAY = named("numpy", "ndarray", type("ndarray", (), {}))
NUMPY_DTYPE = named("numpy", "dtype", lambda *a: rebuild(*a))


class Dtype:
    def __init__(self, code, order):
        self.code, self.order = code, order

    def __reduce__(self):
        return NUMPY_DTYPE, (self.code, False, True), (3, self.order, None, None, None, -1, -1, 0)


class Array:
    """`rows` in C order; pickled in Fortran order or big-endian where asked."""

    def __init__(self, rows, shape, fortran=False, order="<"):
        self.rows, self.shape, self.fortran, self.order = rows, shape, fortran, order

    def __reduce__(self):
        rows = self.rows
        if self.fortran:
            height, width = self.shape
            rows = [rows[r * width + c] for c in range(width) for r in range(height)]
        raw = struct.pack(f"{self.order}{len(rows)}i", *rows)
        state = (1, self.shape, Dtype("i4", self.order), self.fortran, raw)
        return RECONSTRUCT, (NDARRAY, (0,), b"b"), state

    def json(self):
        raw = struct.pack(f"<{len(self.rows)}i", *self.rows)
        return {"$ndarray": dict(dtype="<i4", shape=list(self.shape), hex=raw.hex())}


# -- slime --------------------------------------------------------------------------------------
class Sample:
    class Status(enum.Enum):
        COMPLETED = "completed"

    class SpecInfo:
        pass


named("slime.utils.types", "Sample", Sample)
Sample.Status.__module__ = Sample.SpecInfo.__module__ = "slime.utils.types"
Sample.Status.__qualname__ = "Sample.Status"
Sample.SpecInfo.__qualname__ = "Sample.SpecInfo"


def make(cls, **attributes):
    made = cls()
    made.__dict__.update(attributes)
    return made


# -- the content as JSON ------------------------------------------------------------------------
def bits(x):
    return struct.pack(">d", x).hex()


def text_json(x):
    try:
        x.encode()
        return x
    except UnicodeEncodeError:
        return {"$wtf8": x.encode("utf-8", "surrogatepass").hex()}


def pairs(items):
    return [[content(k), content(v)] for k, v in items]


def content(x):
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, (Tensor, Array)):
        return x.json()
    if isinstance(x, enum.Enum):
        return {"$enum": "slime.utils.types.Sample.Status", "value": x.value}
    if type(x) is int:
        return x if -2**63 <= x < 2**63 else {"$int": str(x)}
    if type(x) is float:
        return {"$f": bits(x)}
    if type(x) is complex:
        return {"$complex": [bits(x.real), bits(x.imag)]}
    if type(x) is str:
        return text_json(x)
    if type(x) in (bytes, bytearray):
        return {"$" + type(x).__name__: bytes(x).hex()}
    if type(x) is list:
        if x and all(type(v) is float for v in x):
            return {"$fl": [bits(v) for v in x]}
        return [content(v) for v in x]
    if type(x) is tuple:
        return {"$tuple": [content(v) for v in x]}
    if type(x) in (set, frozenset):
        return {"$" + type(x).__name__: sorted((content(v) for v in x), key=json.dumps)}
    if type(x) is range:
        return {"$range": [x.start, x.stop, x.step]}
    if type(x) is OrderedDict:
        return {"$object": "collections.OrderedDict", "items": pairs(x.items())}
    if type(x) is dict:
        if all(type(k) is str and not k.startswith("$") for k in x):
            return {k: content(v) for k, v in x.items()}
        return {"$dict": pairs(x.items())}
    name = type(x).__module__ + "." + type(x).__qualname__
    return {"$object": name, "state": {k: content(v) for k, v in vars(x).items()}}


# -- files --------------------------------------------------------------------------------------
class Pickler(pickle._Pickler):
    def persistent_id(self, x):
        if not isinstance(x, Storage):
            return None
        self.storages[x.key] = x
        return "storage", STORAGE_CLASS[x.kind], x.key, x.location, len(x.values)


def write_archive(stream, members, compression, force_zip64):
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = compression
            with archive.open(info, "w", force_zip64=force_zip64) as member:
                member.write(data)


class Unseekable(io.BytesIO):
    """Makes zipfile write data descriptors."""

    def seekable(self):
        return False

    def seek(self, *_):
        raise io.UnsupportedOperation

    def tell(self):
        raise io.UnsupportedOperation


def save(folder, name, value, protocol=2, compression=zipfile.ZIP_STORED, force_zip64=False,
         stream=None):
    blob = io.BytesIO()
    pickler = Pickler(blob, protocol)
    pickler.storages = {}
    pickler.dump(value)
    members = [(f"{name}/data.pkl", blob.getvalue()), (f"{name}/byteorder", b"little")]
    members += [(f"{name}/data/{k}", s.bytes()) for k, s in pickler.storages.items()]
    members.append((f"{name}/version", b"3\n"))
    stream = stream or io.BytesIO()
    write_archive(stream, members, compression, force_zip64)
    (folder / f"{name}.pt").write_bytes(stream.getvalue())
    text = json.dumps(content(value), separators=(",", ":")) + "\n"
    (folder / f"{name.split('_')[0]}.json").write_text(text)


def rollout():
    samples = []
    for i in range(4):
        length = 5 + 3 * i
        samples.append(dict(
            group_index=i // 2, index=i, prompt=f"How many apples are {i} and {i}?",
            tokens=[(7919 * (i + 1) * (j + 1)) % 150000 for j in range(length + 4)],
            response=f"{2 * i} \u82f9\u679c", response_length=length, label=str(2 * i),
            reward=1.0 if i % 2 else 0, loss_mask=[j % 4 // 3 ^ 1 for j in range(length)],
            weight_versions=["0", "1"], rollout_log_probs=[-0.25 * j - i / 3 for j in range(length)],
            remove_sample=False, status="truncated" if i == 3 else "completed", metadata={}))
    return dict(rollout_id=3, samples=samples)


def values():
    shared = [1, 2, 3]
    return dict(
        integers=[0, -1, 255, 256, 65535, 65536, 2**31, -2**31, 2**63 - 1, -2**63, 2**63, -2**64],
        growing=[1, 300, 70000, 2**40, "then a text", 0.5],
        floats=[0.0, -0.0, 0.1, 1e300, float("inf"), float("nan")], one_float=2.5, narrow=[0.5, -3.0],
        flags=[True, False, None], texts=["", "plain", "na\u00efve \u5b66 \U0001F9EA", "a\\u0041\n\0"],
        lone="x\ud800y", raw=b"\0\xffraw", array=bytearray(b"abc"), tuples=[(), (1,), (1, 2, 3, 4)],
        keys={1: "one", None: "none", (1, "x"): "tuple", 1.5: "float", b"k": "bytes"},
        dollar={"$f": 1}, ordered=OrderedDict([("b", 1), ("a", 2)]), sets=[{1, 2}, frozenset([3])],
        span=range(2, 10, 3), number=1 - 2j, alias=[shared, shared], many=list(range(1200)),
        dicts={str(i): i for i in range(260)})


def train():
    base = Storage("0", "Float", [i / 8 for i in range(12)], "cuda:1")
    ids = Storage("1", "Long", list(range(100, 110)))
    half = Storage("2", "BFloat16", [0x3F80, 0xC000, 0x7FC1, 0x0001])
    mask = Storage("3", "Int", [1, 0, 1, 1, 1, 0])
    return dict(
        rollout_id=0, rank=1,
        rollout_data=dict(tokens=[Tensor(ids, (6,), (1,)), Tensor(ids, (4,), (1,), 6)],
                          total_lengths=[6, 4], response_lengths=[4, 2],
                          loss_masks=[Tensor(mask, (4,), (1,)), Tensor(mask, (2,), (1,), 4)],
                          rewards=[0.5, -0.5], raw_reward=[1, 0, 1, 0],
                          advantages=[Tensor(base, (4,), (1,), 2), Tensor(base, (2,), (3,), 1)]),
        views=dict(matrix=Tensor(base, (3, 4), (4, 1)), turned=Tensor(base, (4, 3), (1, 4)),
                   same=Tensor(base, (3, 2), (0, 1), 5), empty=Tensor(base, (0, 2), (2, 1)),
                   number=Tensor(base, (), (), 11), half=Tensor(half, (2, 2), (2, 1)),
                   flag=Tensor(Storage("4", "Bool", [1, 0]), (2,), (1,)),
                   wide=Tensor(Storage("5", "Double", [0.1]), (1,), (1,))))


def objects():
    spec = make(Sample.SpecInfo, spec_verify_ct=3, completion_token_num=4)
    sample = make(Sample, index=1, tokens=[5, 6], status=Sample.Status.COMPLETED, spec_info=spec)
    return [sample, dict(status=Sample.Status.COMPLETED)]


def arrays():
    return dict(plain=Array(list(range(-3, 3)), (2, 3)), high=Array([-1, 2**31 - 1], (2,)),
                fortran=Array(list(range(6)), (3, 2), fortran=True),
                big_endian=Array([1, 256], (2,), order=">"), none=Array([], (0, 2)))


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    save(folder, "rollout", rollout())
    save(folder, "train", train())
    save(folder, "objects", objects())
    save(folder, "objects_p4", objects(), protocol=4)
    save(folder, "arrays", arrays())
    save(folder, "arrays_p3", arrays(), protocol=3)
    for protocol in range(6):
        save(folder, f"values_p{protocol}", values(), protocol)
    save(folder, "deflated", rollout(), compression=zipfile.ZIP_DEFLATED)
    save(folder, "zip64", train(), force_zip64=True)
    save(folder, "descriptors", train(), stream=Unseekable())


if __name__ == "__main__":
    main()
