"""Small dumps of everything that format/SPEC.md's tables name, drawn at random."""
import numpy

from content import COLUMNS
from dump_patch import STORED, Array, Patched

FLOATS = (0.0, -0.0, 1.5, -0.1, 0.1, 1e-45, 1e300, float("nan"), float("inf"))
LIMITS = {"loss_mask": 2, "prompt_length": 2, "finish": 4, "removed": 2, "roles": 4, "prompt_text": 127,
          "response_text": 127, "label_text": 127}


def draw(choose, name, dtype, count):
    """Elements that break no rule of what values mean."""
    if dtype.startswith("f"):
        values = [choose.choice(FLOATS if dtype == "f64" else FLOATS[:5]) for _ in range(count)]
    else:
        most = min(LIMITS.get(name, 1 << choose.choice((3, 20, 40))),
                   int(numpy.iinfo(STORED[dtype]).max))
        values = [choose.randrange(most) for _ in range(count)]
    return numpy.array(values, STORED[dtype])


def offsets_of(choose, samples, least):
    steps = [choose.randrange(least, 4) for _ in range(samples)]
    return numpy.cumsum([0, *steps]).astype("<u8")


def add_columns(choose, kind, group, ids, to):
    """Samples with some of the columns; tokens, and so offsets, are always there."""
    size = {"S": len(ids), "K": 2, "M": 2, "E": 1}
    offsets = {"offsets": offsets_of(choose, len(ids), 1)}
    to[f"{group}/sample_id"] = Array(numpy.array(ids, "<u8"), "u64", [len(ids)], {})
    for name, (dtypes, axes, own) in COLUMNS[kind].items():
        needed = name == "tokens" and kind == "rollout"
        if not needed and (own not in (None, "offsets") or choose.random() < 0.4):
            continue
        if own and own not in offsets:
            offsets[own] = offsets_of(choose, len(ids), 0)
        shape = [int(offsets[own][-1]) if i == 0 and own else size[axis]
                 for i, axis in enumerate(axes)]
        dtype = choose.choice(dtypes)
        columns = {"columns": "a\nb"} if "K" in axes else {}
        values = draw(choose, name, dtype, int(numpy.prod(shape)))
        to[f"{group}/{name}"] = Array(values, dtype, shape, columns)
        if own in (None, "offsets") and not needed and choose.random() < 0.3:
            present = numpy.array([choose.randrange(2) for _ in ids], "u1")
            to[f"{group}/{name}_present"] = Array(present, "u8", [len(ids)], {})
    for name, values in offsets.items():
        to[f"{group}/{name}"] = Array(values, "u64", [values.size], {})


def add_texts(choose, group, ids, to):
    for name in ("prompt_text", "response_text", "label_text"):
        offsets = offsets_of(choose, len(ids), 0)
        values = draw(choose, name, "u8", int(offsets[-1]))
        to[f"{group}/{name}"] = Array(values, "u8", [values.size], {})
        to[f"{group}/{name}_offsets"] = Array(offsets, "u64", [offsets.size], {})


def scalars(choose):
    names = choose.sample(["loss", "grad_norm", "lr"], choose.randrange(1, 4))
    return Array(draw(choose, "", "f64", len(names)), "f64", [len(names)],
                 {"columns": "\n".join(names)})


def weights(choose, rank):
    """A tensor that one rank owns, and its part of one that is sharded."""
    dtype = choose.choice(("f32", "bf16" if "bf16" in STORED else "f32"))
    part = Array(draw(choose, "", dtype, 2), dtype, [2],
                 {"full_shape": [8], "start": [2 * rank]})
    return {"0-0/parameters/sharded": part,
            "0-0/parameters/whole": Array(draw(choose, "", "f32", 4), "f32", [2, 2], {})}


def random_dump(choose):
    """Several ranks, whose numbers may contradict each other, and what no table knows."""
    dump = Patched.__new__(Patched)
    ranks = choose.randrange(1, 4)
    dump.meta, dump.unstable, dump.units = {"ranks": ranks}, {}, {}
    ids = sorted(choose.sample(range(1, 9), 4))
    dump.units["rollout/0.h5"] = rollout = {}
    add_columns(choose, "rollout", "0", ids, rollout)
    add_texts(choose, "0", ids, rollout)
    if choose.random() < 0.5:
        rollout["0/of-a-vendor"] = Array(draw(choose, "", "i16", 3), "i16", [3], {"note": "x"})
    for rank in range(ranks):
        unit = dump.units[f"train/0-0/rank{rank}.h5"] = {}
        add_columns(choose, "train", "0-0", ids[rank::ranks], unit)
        if choose.random() < 0.8:
            unit["0-0/scalars"] = scalars(choose)
        dump.units[f"weights/0-0/rank{rank}.h5"] = weights(choose, rank)
    return dump
