"""A dump as a mapping of arrays, and its samples, tokens and scalars as tables."""
import collections
import collections.abc
import html
import os
import re

import numpy

from rlreplay._reader import Reader

TORCH_TYPES = {"bf16": "bfloat16", "f16": "float16", "f8e4m3": "float8_e4m3fn",
               "f8e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu"}
OPEN_UNITS = 4  # kept in memory at once
FINISH = {0: "stop", 1: "length", 2: "aborted", 3: "failed", 255: None}


_STEP = re.compile(r"(-?\d+)-(-?\d+)")  # a group's name: rollout and step, either below 0


def _order(step):
    """Of the step that people write 3.0."""
    return [int(number) for number in step.split(".")]


def _name(group):
    """What people write of a group: 3.0 of a step."""
    step = _STEP.fullmatch(group)
    return f"{step[1]}.{step[2]}" if step else group


def _pandas():
    try:
        import pandas
    except ImportError as e:
        raise ImportError("tables need pandas: pip install pandas") from e
    return pandas


class Dump(collections.abc.Mapping):
    """The arrays of a dump by name: rollout/ROLLOUT/NAME, train/STEP/rankR/NAME,
    weights/STEP/rankR/NAME, where a step is written 3.0 (of a large state rankR-part0 and others, too). Nothing is read before it is asked for; listing all names opens every unit.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        self._reader = Reader(self.path)
        about = self._reader.about
        self.version, self.root = about["version"], about["root"]
        self.sealed, self.complete = about["sealed"], about["complete"]
        self.meta, self.unstable = about["meta"], about["unstable"]
        self._places = {}  # what stands before an array's own name: the unit, the group in it
        for unit in about["units"]:
            for group in unit["groups"]:
                self._places[self._prefix(unit, group)] = (unit["path"], group)
        self._units = collections.OrderedDict()

    @staticmethod
    def _prefix(unit, group):
        kind, group = unit["kind"], _name(group)
        if kind.startswith("x-"):
            return unit["path"].removesuffix(".h5") + "/" + group
        if kind == "rollout":
            return f"{kind}/{group}"
        part = re.search(r"(-part\d+)?\.h5$", unit["path"])[1] or ""
        return f"{kind}/{group}/rank{unit['rank']}{part}"

    def _unit(self, path):
        if path not in self._units:
            self._units[path] = self._reader.unit(path)
            while len(self._units) > OPEN_UNITS:
                self._units.popitem(last=False)
        self._units.move_to_end(path)
        return self._units[path]

    def _find(self, key):
        """The unit of an array, and its path there."""
        parts = key.split("/")
        for end in range(len(parts) - 1, 0, -1):
            place = self._places.get("/".join(parts[:end]))
            if place:
                unit, path = self._unit(place[0]), "/".join([place[1], *parts[end:]])
                if path in unit.datasets:
                    return unit, path
        raise KeyError(key)

    def __getitem__(self, key):
        unit, path = self._find(key)
        return unit.read(path)

    def __iter__(self):
        for prefix, (path, group) in self._places.items():
            for name in self._unit(path).datasets:
                if name.startswith(group + "/"):
                    yield prefix + name[len(group):]

    def __len__(self):
        return sum(1 for _ in self)

    @property
    def rollouts(self):
        """The rollouts that were generated or trained on, in order."""
        return sorted({int(p.split("/")[1].split(".")[0]) for p in self._known()})

    @property
    def steps(self):
        """The steps that were trained, in order, as 3.0."""
        return sorted({p.split("/")[1] for p in self._places if p.startswith("train/")}, key=_order)

    def _known(self):
        return [p for p in self._places if p.startswith(("rollout/", "train/"))]

    def about(self, key):
        """dtype, shape, axes and columns of an array, without reading it."""
        unit, path = self._find(key)
        return dict(unit.datasets[path])

    def columns(self, key):
        """The names of an array's last axis."""
        return self.about(key)["columns"].split("\n")

    def torch(self, key):
        """The array as a torch tensor of its own type, bfloat16 and the eight-bit floats too."""
        import torch
        tensor = torch.from_numpy(self[key])
        own = TORCH_TYPES.get(self.about(key)["dtype"])
        return tensor.view(getattr(torch, own)) if own else tensor

    def _group_arrays(self, prefix):
        """The arrays of a group of samples, and the axes of each: {name: (values, axes)}."""
        place = self._places.get(prefix.rstrip("/"))
        if place is None:
            raise KeyError(f"{prefix}: no such group; there are {', '.join(self._known()[:8])} ...")
        unit, group = self._unit(place[0]), place[1]
        names = [p[len(group) + 1:] for p in unit.datasets if p.startswith(group + "/")]
        return {n: (unit.read(f"{group}/{n}"), unit.datasets[f"{group}/{n}"]["axes"])
                for n in names if "/" not in n}

    def samples(self, prefix):
        """The samples of rollout/3 or train/3.0/rank0 as a DataFrame: what a sample has once as values,
        what its tokens have as arrays, None where it was not recorded for a sample."""
        arrays = self._group_arrays(prefix)
        return _pandas().DataFrame(_sample_columns(arrays))

    def tokens(self, prefix):
        """The tokens of the same as a DataFrame: sample_id, position, and every column of tokens."""
        arrays = self._group_arrays(prefix)
        offsets = arrays["offsets"][0].astype(numpy.int64)
        lengths = numpy.diff(offsets)
        out = {"position": numpy.arange(offsets[-1]) - numpy.repeat(offsets[:-1], lengths)}
        for name, (values, axes) in arrays.items():
            if axes == "S" and not name.endswith("_present") and name in ("sample_id", "prompt_length"):
                out[name] = numpy.repeat(values, lengths)
            elif axes == "T":
                shown = arrays.get(name + "_present")
                out[name] = values if shown is None else numpy.where(
                    numpy.repeat(shown[0], lengths) != 0, values.astype(numpy.float64), numpy.nan)
        order = ["sample_id", "position"] + [n for n in out if n not in ("sample_id", "position")]
        return _pandas().DataFrame({n: out[n] for n in order if n in out})

    def scalars(self):
        """loss, grad_norm and the other numbers of every step, one row for each rank that has them."""
        rows = []
        for prefix, (path, group) in self._places.items():
            if not prefix.startswith("train/"):
                continue
            unit, name = self._unit(path), f"{group}/scalars"
            if name in unit.datasets:
                row = dict(zip(unit.datasets[name]["columns"].split("\n"), unit.read(name)))
                step, rank = prefix.split("/")[1:]
                rows.append({"step": step, "rank": int(rank.removeprefix("rank").split("-")[0]), **row})
        rows.sort(key=lambda row: (_order(row["step"]), row["rank"]))
        return _pandas().DataFrame(rows)

    def __repr__(self):
        state = "" if self.complete else ", recovered" if self.sealed else ", unfinished"
        return (f"<rlreplay dump {self.path!r}: {len(self.rollouts)} rollouts, "
                f"{len(self.steps)} steps{state}>")

    def _repr_html_(self):
        config = self.meta.get("config") or {}
        rows = [("dump", self.path), ("format", self.version), ("root", self.root),
                ("state", "complete" if self.complete else
                 "recovered" if self.sealed else "unfinished"),
                ("source", self.meta.get("source")),
                ("model", config.get("model") if isinstance(config, dict) else None),
                ("rollouts", _shown(self.rollouts)), ("steps", _shown(self.steps))]
        cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
                        for name, value in rows if value not in (None, "", []))
        return f"<table>{cells}</table>"


def _shown(items):
    return f"{len(items)}: {items[0]} to {items[-1]}" if len(items) > 1 else str(*items)


def _sample_columns(arrays):
    """{name: one value a sample}."""
    offsets = arrays["offsets"][0]
    size = len(offsets) - 1
    out = {}
    for name, (values, axes) in arrays.items():
        own = arrays.get(name + "_offsets") or (
            arrays.get("version_offsets") if name in ("versions", "version_starts") else None)
        if name.endswith(("_present", "offsets")) or name == "scalars":
            continue
        if axes.split(" ")[0] == "S":
            column = list(values) if values.ndim > 1 else values.tolist()
        elif axes.split(" ")[0] == "T":
            column = [values[offsets[s]:offsets[s + 1]] for s in range(size)]
        elif own is not None:
            column = [values[own[0][s]:own[0][s + 1]] for s in range(size)]
            if name.endswith("_text"):
                column = [c.tobytes().decode("utf-8", "surrogatepass") for c in column]
        else:
            continue
        if name == "finish":
            column = [FINISH.get(code, code) for code in column]
        shown = arrays.get(name + "_present")
        if shown is not None:
            column = [c if there else None for c, there in zip(column, shown[0])]
        out[name] = column
    return out
