"""What rollouts, ranks, steps and states say of each other (format/SPEC.md 3), and digests of recorded values
(docs/numerics.md 8). Of `spec_reader.py`, which see.
"""
import itertools
import json
import math
import re
import struct
import urllib.parse

import numpy as np
import xxhash

from spec_cuts import assembled, boxes_of, is_old, sample_parts, slices_of
from spec_values import item, require, rows_of, table


# 3. Rollouts and steps say the same; blocks of a tensor do not overlap

def samples(parts):
    """(unit, {id: {column: item of the sample}}) of each unit of a group that holds any."""
    held, sliced = [], {}
    for unit, group in parts:
        if "sample_id" not in group:
            continue
        ids, cuts, _ = rows_of(unit, group)
        cuts.update({"micro_batch": range(len(ids) + 1)} if "micro_batch" in group else {})
        pieces = slices_of(group) if unit.kind == "train" else None
        length = np.diff(group["offsets"].elements()) if pieces is None else group["lengths"].elements()
        found = {i: {"length": item("", group["offsets"], length[n:n + 1], ())} for n, i in enumerate(ids)}
        for name, rows in cuts.items():
            d, present = group[name], group.get(f"{name}_present")
            v = d.elements().reshape(d.dims)
            for n, i in enumerate(ids):
                if present is not None and not present.elements()[n]:
                    continue
                if pieces is not None and table(unit, name)[1].startswith("T"):
                    of_sample = sample_parts(d, rows[n], pieces[n], int(length[n]))
                    sliced.setdefault((i, name), (unit, found, []))[2].extend(of_sample)
                else:
                    found[i][name] = item("", d, v[rows[n]:rows[n + 1]], ())
        held.append((unit, found))
    for (i, name), (unit, found, of_sample) in sliced.items():
        values, _, whole, agree = assembled(of_sample)
        require(values is not None and whole and agree, "meaning", unit.path, name, f"sample {i}")
        found[i][name] = item("", of_sample[0][0], values, ())
    return held


def check_same(unit, group, mine, other, names):
    """What both record of the samples that they share is the same."""
    for i in mine.keys() & other.keys():
        for name in names & mine[i].keys() & other[i].keys():
            require(mine[i][name] == other[i][name], "join", unit.path, group, f"{name} of sample {i}")


def check_units(name, parts):
    """What all units of a rollout have or none, and name alike."""
    held = [group for _, group in parts if "sample_id" in group]

    def alike(column, said):
        require(len(set(said)) <= 1, "meaning", parts[0][0].path, f"{name}/{column}")
    for column in ("prompt_length", "experts", "expert_gates", "expert_layers"):
        alike(column, [column in group for group in held])
    alike("version_starts", ["version_starts" in group for group in held if "versions" in group])
    for column in ("experts", "expert_gates"):
        alike(column, [group[column].dims[1:] for group in held if column in group])
    alike("expert_layers", [tuple(group["expert_layers"].elements()) for group in held if "expert_layers" in group])
    alike("reward_components", [group["reward_components"].more["columns"]
                                for group in held if "reward_components" in group])
    called = [group for group in held if "call_offsets" in group]
    for column in ("call_finish", "call_truncated", "call_version", "call_seed", "call_numbers"):
        alike(column, [column in group for group in called])


def check_joins(dump):
    for (kind, name), parts in dump.groups.items():
        if kind == "rollout":
            check_units(name, parts)
        if kind == "weights":
            check_tiles(parts)
            continue
        held = list(samples(parts))
        for (_, mine), (unit, other) in itertools.combinations(held, 2):
            require(kind == "train" or not mine.keys() & other.keys(), "meaning", unit.path, name)
            packing = {"micro_batch"} if mine.keys() != other.keys() else set()
            check_same(unit, name, mine, other, set().union(*mine.values()) - packing)
        events = [unit.rank if kind == "train" else 0 for unit, group in parts if "events/tensors" in group]
        require(len(set(events)) == len(events), "meaning", parts[0][0].path, name, "events of two units")
        if kind == "train":
            if not dump.old:  # 0.1 had no such rule
                check_scalars(name, parts, {unit.path: frozenset(found) for unit, found in held})
            rollout = dump.groups.get(("rollout", re.match("-?[0-9]+", name)[0]), [])
            for (unit, mine), (_, other) in itertools.product(held, samples(rollout)):
                check_same(unit, name, mine, other, {"length", "prompt_length", "tokens"})


def check_scalars(step, parts, ids):
    """Numbers of the step are one for all ranks; those of a rank's samples for ranks with the same."""
    of_step = {"grad_norm", "clip_scale", "lr", "trajectories"}
    of_samples = {"loss", "pg_loss", "entropy", "kl", "clip_fraction"}
    seen = {}
    for unit, d in ((unit, group["scalars"]) for unit, group in parts if "scalars" in group):
        for n, name in enumerate(d.more["columns"].split("\n") if d.count else []):
            if name in of_step | of_samples:
                mine = item("", d, d.elements()[n:n + 1], (), False)
                key = name, None if name in of_step else ids[unit.path]
                require(seen.setdefault(key, mine) == mine, "join", unit.path, step, name)


def check_tiles(parts):
    """Logical tensors: no element is said in two ways, none is missing; returns those that are whole."""
    held, old = {}, set()
    for unit, group in parts:
        for name, d in group.items():
            if name == "scalars" or table(unit, name):
                continue
            for tensor, box, begin in boxes_of(name, d):
                part = d, box, d.elements()[begin:begin + math.prod(length for _, length, _ in box)]
                held.setdefault(tensor, []).append((unit, part))
                old.update([tensor] * is_old(d))
    whole = {}
    for name, found in held.items():
        values, dims, there, agree = assembled([part for _, part in found], False)
        require(not name or agree and (there or name in old), "meaning", found[0][0].path, name)
        if name and values is not None and there:
            whole[name] = values.reshape(dims)
    return whole


# Digests (docs/numerics.md 8)

HEADS = r"(qkv|qk_norm|rotary)/d?q(_r)?|attention/(out|lse|delta|dq)|o/dx|.*o_proj\.weight|.*q_proj\.bias"
KEY_HEADS = r"(qkv|qk_norm|rotary)/d?[kv](_r)?|attention/d[kv]|.*[kv]_proj\.bias"
INNER = r"gate_up/(gate|up)|swiglu/.*|down/dx|.*down_proj\.weight"


def segments(model, name, width):
    """The columns where the last axis of a tensor is cut."""
    if re.fullmatch(HEADS, name):
        n = next(n for n in (8, 4, 2, 1) if model["num_attention_heads"] % n == 0)
    elif re.fullmatch(KEY_HEADS, name):
        n = model["num_key_value_heads"]
    else:
        n = 8 if re.fullmatch(INNER, name) else 1
    return [i * width // n for i in range(n + 1)]


def block(head, place, data):
    seed = xxhash.xxh3_64_intdigest(struct.pack(f"<{len(place) + 1}Q", head, *place))
    return xxhash.xxh3_128_intdigest(data.tobytes(), seed=seed)


def row_digests(model, name, dtype, dims, values, tokens):
    """A digest for each row (or leaf) of a tensor; 0 where it has a NaN or an infinity."""
    head = xxhash.xxh3_64_intdigest(f"{name}|{dtype}|{','.join(map(str, dims))}".encode())
    if tokens and not dims:
        places = [(sample, position // 256) for sample, position in tokens]
        rows = [(place, np.array([v for _, v in found], values.dtype))
                for place, found in itertools.groupby(zip(places, values), key=lambda pair: pair[0])]
    else:
        shaped = values.reshape(-1, dims[-1] if dims else 1)
        rows = zip(tokens or ((n,) for n in range(len(shaped))), shaped)
    result = []
    for place, row in rows:
        cuts = segments(model, re.sub("^([0-9]+|-)/", "", name), len(row)) if dims else [0, len(row)]
        column = not tokens or len(cuts) > 2
        parts = [(a, b) for a, b in itertools.pairwise(cuts) if a < b] if np.isfinite(row).all() else []
        result.append(sum(block(head, (*place, *[a] * column), row[a:b]) for a, b in parts) % (1 << 128))
    return result


def check_digests(dump):
    """Recorded values against their digests, and a state against the events of the step before it."""
    try:
        model = json.loads(dump.meta["model"])
        model["num_attention_heads"], model["num_key_value_heads"]
    except (KeyError, TypeError, ValueError):
        return  # nothing says where axes are cut
    after = {}
    for (kind, name), parts in dump.groups.items():
        for unit, group in parts if kind != "weights" else []:
            if "events/row_set" in group:
                after.setdefault(name, {}).update(check_events(model, unit, group))
    steps = sorted((name for kind, name in dump.groups if kind == "train"), key=step_number)
    for before, step in itertools.pairwise(steps):
        for name, value in check_tiles(dump.groups.get(("weights", step), [])).items():
            kind, tensor = urllib.parse.unquote(name).split("/", 1)
            said = after.get(before, {}).get(tensor if kind == "parameters" else f"{kind}/{tensor}")
            if said and value.dtype == "<f4":
                full = tensor if kind == "parameters" else f"{kind}/{tensor}"
                mine = row_digests(model, full, "f32", value.shape, value.ravel(), None)
                require(sum(mine) % (1 << 128) == said, "digest", f"weights/{step}", name)


def step_number(step):
    return tuple(map(int, re.fullmatch("(-?[0-9]+)-(-?[0-9]+)", step).groups()))


def check_events(model, unit, group):
    """Returns the digests of the weights and moments that the step left."""
    e = {name[7:]: d.elements().reshape(d.dims) for name, d in group.items() if name.startswith("events/")}
    places, left = [], {}
    for a, b in itertools.pairwise(e["row_set_offsets"].tolist()):
        runs = zip(*(e[f"run_{key}"][a:b].tolist() for key in ("sample", "position", "count")))
        places.append([(sample, position + i) for sample, position, count in runs for i in range(count)])
    for n, line in enumerate(e["tensors"].tobytes().decode().splitlines()):
        where = "digest", unit.path, group["events/digest"].path, line
        path, dtype, text = line.split(" ")
        if not re.match("(rollout|forward|objective|backward|reduce|clip|optimizer)/", path):
            continue  # of another table, whose digests this text does not define
        phase, layer, op, tensor = path.split("/", 3)
        dims = () if text == "-" else tuple(map(int, text.split(",")))
        name = f"{layer}/{op}/{tensor}"
        if phase in ("reduce", "optimizer"):
            name = tensor if op in ("gradient", "weight") else f"{op}/{tensor}"
        want = int.from_bytes(e["digest"][n].tobytes(), "big")
        if phase == "optimizer":
            left[name] = want
        start, count = (int(e[f"value_{k}"][n]) for k in ("start", "count")) if "value_start" in e else (0, 0)
        first, last = e["row_digest_offsets"][n:n + 2].tolist() if "row_digest" in e else (0, 0)
        rows = [int.from_bytes(row.tobytes(), "big") for row in e["row_digest"][first:last]] if last else []
        require(not rows or sum(rows) % (1 << 128) == want, *where)
        if count:
            tokens = places[e["row_set"][n]] if e["row_set"][n] >= 0 else None
            values = e[f"values_{dtype}"][start:start + count]
            require(len(values) == count and (not tokens or len(tokens) == e["rows"][n]), *where)
            mine = row_digests(model, name, dtype, dims, values, tokens)
            require(sum(mine) % (1 << 128) == want and (not rows or mine == rows), *where)
    return left
