"""The content root of a dump, computed from its arrays by format/SPEC.md alone: its tables say what
is of samples, its section 7 which options count."""
import collections
import json
import math
import pathlib
import re
import sys

import numpy

from dump_files import canonical, digest as hash_of

sys.path.append(str(pathlib.Path(__file__).parents[1] / "format"))
from spec_cuts import PLACING, assembled, boxes_of  # noqa: E402

SPEC = (pathlib.Path(__file__).parents[2] / "format/SPEC.md").read_text()
KINDS = ("rollout", "train", "weights")
NO_COLUMNS = ("scalars", "expert_layers", "sample_id", "coordinates", "slices", "lengths")
INTEGERS = ("u1", "<i4", "<i8", "<u8")
NAMES = {"u1": "u8", "<i4": "i32", "<i8": "i64", "<u8": "u64", "<f4": "f32", "<f8": "f64"}
STYLES = ("linear", "cosine")  # of other ones nothing works out
Whole = collections.namedtuple("Whole", "unit text part")
Stored = collections.namedtuple("Stored", "dtype dims count more more_text array")


Column = collections.namedtuple("Column", "dtypes axes own")


def columns_of(kind):
    """Datasets of samples or tokens by name; `own`: their offsets, None for those of samples."""
    text = SPEC[SPEC.index(f"\n### {kind}\n"):]
    out, letters = {}, {}
    for row in re.findall(r"^\| (`.*?) \| ([^|]*) \| ([^|]*) \|", text[:text.index("\n### ", 5)], re.M):
        names = re.findall(r"`([^`]*)`", row[0])
        shapes = [shape.split(", ") for shape in re.findall(r"\[([^\]]*)\]", row[2])]
        types = row[1].split(", ")
        own, = [n for n, axes in zip(names, shapes) if axes == ["S+1"] and len(shapes) > 1] or [None]
        for i, name in enumerate(names):
            axes = shapes[i] if len(shapes) > 1 else shapes[0]
            dtypes = [types[i]] if len(types) == len(names) > 1 else types
            if own:
                letters[axes[0]] = own
            if "/" not in name and name not in NO_COLUMNS and axes != ["S+1"]:
                out[name] = Column(dtypes, axes, {"S": None, "T": "offsets"}.get(axes[0], own or letters.get(axes[0])))
    return out


COLUMNS = {kind: columns_of(kind) for kind in ("rollout", "train")} | {"weights": {}}


def value_text(array, values):
    """TYPE and HASH of elements."""
    if array.dtype in ("f16", "bf16", "f8e4m3", "f8e5m2", "e8m0"):
        return f"{array.dtype} {hash_of(values.tobytes())}"
    if values.dtype.kind == "f":
        with numpy.errstate(over="ignore"):
            narrow = values.astype("<f4")
        nan = numpy.isnan(values)
        kind = "<f4" if (nan | (narrow.astype("<f8") == values)).all() else "<f8"
        made = narrow if kind == "<f4" else values.copy()
        made.view("<u4" if kind == "<f4" else "<u8")[nan] = \
            0x7fc00000 if kind == "<f4" else 0x7ff8000000000000
    else:
        kind = next(k for k in INTEGERS if not values.size
                    or numpy.iinfo(k).min <= int(values.min())
                    and int(values.max()) <= numpy.iinfo(k).max)
        made = values.astype(kind)
    return f"{NAMES[kind]} {hash_of(made.tobytes())}"


def line_of(array, values, shape, without=(), more=""):
    """An item's line behind its key."""
    out = f"{value_text(array, values)} {','.join(map(str, shape))}"
    for name, value in sorted(array.attributes.items()):
        if name not in (*without, *PLACING):
            text = isinstance(value, str)
            out += f" {name}=" + (hash_of(value.encode()) if text else ",".join(map(str, value)))
    return out + more + "\n"


def stored(array):
    """As spec_cuts.py takes a dataset."""
    rest = line_of(array, array.values[:0], [0])
    more = {name: tuple(v) if isinstance(v, list) else v for name, v in array.attributes.items()}
    return Stored(array.dtype, tuple(array.shape), math.prod(array.shape), more, lambda *_: rest, array)


def sound_offsets(arrays, name, samples):
    array = arrays.get(name)
    if array is None or array.dtype != "u64" or array.shape != [samples + 1]:
        return None
    offsets = [int(n) for n in array.values]
    return offsets if offsets[0] == 0 and offsets == sorted(offsets) else None


class Unit:
    """What a unit says of a group: by field, hashes of samples' items and what is whole."""

    def __init__(self, kind, number, arrays):
        self.number, self.arrays, self.kind = number, arrays, kind
        self.samples = collections.defaultdict(list)
        self.whole = collections.defaultdict(list)
        self.parts = collections.defaultdict(list)
        ids, offsets = arrays.get("sample_id"), None
        if kind != "weights" and ids is not None and ids.dtype == "u64" and len(ids.shape) == 1:
            offsets = sound_offsets(arrays, "offsets", ids.values.size)
        told = set() if offsets is None else self.add_columns([int(i) for i in ids.values], offsets)
        for name, array in arrays.items():
            if name not in told | {"coordinates"}:
                self.add_whole(name, array)

    def add_columns(self, ids, offsets):
        """Returns the names of what is no item of its own."""
        told = {"sample_id", "offsets"}
        for sample, begin, end in zip(ids, offsets, offsets[1:]):
            count = numpy.array([end - begin], "<u8")
            self.add_sample("samples", sample, f"{value_text(self.arrays['offsets'], count)} 1\n")
        for name, (_, _, own) in COLUMNS[self.kind].items():
            array = self.arrays.get(name)
            places = list(range(len(ids) + 1)) if own is None else \
                sound_offsets(self.arrays, own, len(ids))
            if array is None or places is None:
                continue
            told.add(own)
            if array.shape[0] != places[-1]:
                continue
            told.add(name)
            present = self.arrays.get(name + "_present")
            if present is not None:
                told.add(name + "_present")
            width = int(numpy.prod(array.shape[1:], dtype=int))
            for s, sample in enumerate(ids):
                if name == "micro_batch" or present is not None and not present.values[s]:
                    continue
                rows = array.values[places[s] * width:places[s + 1] * width]
                shape = [places[s + 1] - places[s], *array.shape[1:]]
                self.add_sample(name, sample, line_of(array, rows, shape))
        return told

    def add_sample(self, field, sample, text):
        self.samples[field].append(hash_of(f"{sample} {text}".encode()))

    def add_whole(self, name, array):
        names = array.attributes.get("columns", "").split("\n")
        if name == "scalars" and len(set(names)) == len(names) == array.shape[0] and names != [""]:
            for i, scalar in enumerate(names):
                self.put(f"scalars/{scalar}", array, array.values[i:i + 1], [1], ["columns"])
        elif name != "scalars" or array.shape != [0] or names != [""]:
            self.put(name, array, array.values, array.shape)

    def put(self, field, array, values, shape, without=()):
        d = stored(array)
        if any(key in d.more for key in PLACING):
            for tensor, box, begin in boxes_of(field, d):
                end = begin + math.prod(length for _, length, _ in box)
                self.parts[tensor] += [(self.number, (d, box, array.values[begin:end]))] * bool(tensor)
            return
        whole = d, tuple((0, n, n) for n in shape), values
        self.whole[field].append(Whole(self.number, line_of(array, values, shape, without), whole))


def part_lines(parts):
    values, dims, whole, agree = assembled([part for _, part in parts])
    if values is not None and whole and agree:
        d = max((part[0] for _, part in parts), key=lambda d: d.dtype)
        return ["- " + line_of(d.array, values, dims)]
    return [f"{number} " + line_of(d.array, values, [length for _, length, _ in box],
                                   more=" boxes=" + ",".join(str(n) for row in box for n in row))
            for number, (d, box, values) in parts if values.size]


def field_hash(field, units):
    items = {item for unit in units for item in unit.samples[field]}
    said = [item for unit in units for item in unit.whole[field]]
    parts = [part for unit in units for part in unit.parts[field]]
    if parts:
        parts += [(item.unit, item.part) for item in said]
        items |= {hash_of(line.encode()) for line in part_lines(parts)}
    else:
        agree = len({item.text for item in said}) == 1
        items |= {hash_of(f"{'-' if agree else item.unit} {item.text}".encode()) for item in said}
    return hash_of("".join(item + "\n" for item in sorted(items)).encode())


def fields_of(dump, kind, group):
    """The hash of each field of a group."""
    def rank(path):
        found = re.search(r"/rank(0|[1-9][0-9]*)\.h5$", path)
        return int(found[1]) if found else 0

    def arrays(path):
        return {name.split("/", 1)[1]: array for name, array in dump.units[path].items()
                if name.split("/")[0] == group}

    holders = [path for path in dump.units if path.split("/")[0] == kind and arrays(path)]
    units = [Unit(kind, i, arrays(path))
             for i, path in enumerate(sorted(holders, key=lambda path: (rank(path), path)))]
    names = {field for unit in units for field in (*unit.samples, *unit.whole, *unit.parts)}
    return {name: field_hash(name, units) for name in sorted(names)}


def group_hash(dump, kind, group):
    lines = [f"{name} {value}\n" for name, value in fields_of(dump, kind, group).items()]
    return hash_of("".join(lines).encode())


def groups_of(dump):
    return sorted({(path.split("/")[0], name.split("/")[0]) for path, arrays in dump.units.items()
                   for name in arrays if path.split("/")[0] in KINDS})


def defaults():
    """The options that count, each with the value that does not."""
    block = SPEC[SPEC.index("\n## 7."):].split("```\n")[5]
    return dict(word.split("=", 1) for word in block.split())


def left_out():
    return set(re.findall(r"`([^`]*)`", SPEC[SPEC.index("Left out are: all other keys"):]))


def options_of(meta):
    """Those that count in this dump."""
    unset, options = defaults(), {}
    if "config" in meta:
        config = {name: meta["config"].get(name, value) for name, value in unset.items()}
        if config["eps-clip-high"] == config["eps-clip"]:
            config["eps-clip-high"] = "none"
        if config["lr-decay-style"] == "constant":
            del config["lr-decay-iters"], config["min-lr"]
        elif config["lr-decay-style"] in STYLES and config["lr-decay-iters"] == "none":
            config["lr-decay-iters"] = meta["config"]["steps"]
        options = {name: value for name, value in config.items() if value != unset[name]}
        options |= {name: value for name, value in meta["config"].items()
                    if name not in unset and name not in left_out()}
    for name in {"model", "contract"} & set(meta):
        options[name] = meta[name] if isinstance(meta[name], str) else canonical(meta[name])
    return options


def contradictions(dump):
    """In what the files of an import contradict each other, a line each."""
    found = [json.loads(line) for path, arrays in dump.units.items()
             if path.startswith("x-findings/") and "data/text" in arrays
             for line in bytes(arrays["data/text"].values).decode().splitlines()]
    return sorted({f"{f['code']}: {f['message']} ({f['where']})\n" for f in found
                   if f["code"] not in ("sample-id-replaced", "policy-loss-missing",
                                       "policy-loss-unplaced", "partial-column")})


def content_root(dump):
    options = options_of(dump.meta)
    lines = [f"option {name} {hash_of(options[name].encode())}\n" for name in sorted(options)]
    lines += [f"{kind} {group} {group_hash(dump, kind, group)}\n"
              for kind, group in groups_of(dump)]
    if found := contradictions(dump):
        lines.append(f"findings {hash_of(''.join(found).encode())}\n")
    return hash_of(("rlreplay content root\n" + "".join(lines)).encode())
