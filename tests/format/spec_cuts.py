"""Parts of tensors and of samples, and the whole that they give (format/SPEC.md 3 and 7). Of
`spec_reader.py`, which see.
"""
import math

import numpy as np

PLACING = ("boxes", "tensors", "full_shape", "start")


def is_old(d):
    return "boxes" not in d.more and "tensors" not in d.more


def boxes_of(name, d):
    """(tensor, ((first, length, of) a dimension), its first element) of each box; None if not sound."""
    found = [key for key in PLACING if key in d.more]
    if not found:
        return [(name, tuple((0, n, n) for n in d.dims), 0)]
    if found == ["boxes", "tensors"]:
        numbers, text = d.more["boxes"], d.more["tensors"]
        if not isinstance(numbers, tuple) or not isinstance(text, str):
            return None
        lines = text.split("\n") if numbers else []
        n = len(numbers) // 3 // max(1, len(lines))
        if len(numbers) != 3 * n * len(lines) or numbers and not n or not numbers and text:
            return None
        triples = list(zip(numbers[::3], numbers[1::3], numbers[2::3]))
        boxes = [(line, tuple(triples[i * n:(i + 1) * n])) for i, line in enumerate(lines)]
    else:
        full, start = (d.more.get(key) for key in ("full_shape", "start"))
        if not isinstance(full, tuple) or not isinstance(start, tuple) or len(found) != 2 \
                or not len(full) == len(start) == len(d.dims):
            return None
        boxes = [(name, tuple(zip(start, d.dims, full)))]
    if any(first + length > of for _, dims in boxes for first, length, of in dims):
        return None
    out, at = [], 0
    for tensor, dims in boxes:
        out.append((tensor, dims, at))
        at += math.prod(length for _, length, _ in dims)
    return out if at == d.count else None


def same_bits(values):
    """Integers that are equal where the numbers are the same: every NaN is one."""
    if values.dtype.kind != "f":
        return values
    bits = values.copy().view(f"<u{values.itemsize}")
    bits[np.isnan(values)] = (1 << 8 * values.itemsize) - 1
    return bits


def assembled(parts, named=True):
    """(elements, dimensions, no element is missing, none is said in two ways) of parts of one value, each
    (dataset, box, its elements); elements are None where the parts are of different values. `named`: whether
    other attributes make them different, as for the content root.
    """
    shapes = {tuple(of for _, _, of in box) for _, box, _ in parts}
    kinds = {d.dtype for d, _, _ in parts}
    if len(shapes) > 1 or len(kinds) > 1 and kinds != {"f32", "f64"} or \
            named and len({d.more_text(True, PLACING) for d, *_ in parts}) > 1:
        return None, (), False, False
    shape = shapes.pop()
    if sum(values.size for _, _, values in parts) < math.prod(shape):
        return None, shape, False, True
    numpy = "<f8" if len(kinds) > 1 else parts[0][2].dtype
    whole, filled, agree = np.zeros(shape, numpy), np.zeros(shape, bool), True
    for _, box, values in parts:
        where = tuple(slice(first, first + length) for first, length, _ in box)
        values = values.astype(numpy).reshape([length for _, length, _ in box])
        known, there = filled[where], whole[where]
        agree &= bool((same_bits(there[known]) == same_bits(values[known])).all())
        there[~known] = values[~known]
        filled[where] = True
    return whole.ravel(), shape, bool(filled.all()), agree


def slices_of(group):
    """[[(first, length)] a sample], or None where samples are whole."""
    if "slices" not in group:
        return None
    pairs = [tuple(row) for row in group["slices"].elements().reshape(-1, 2).tolist()]
    cuts = group["slice_offsets"].elements().tolist()
    return [pairs[a:b] for a, b in zip(cuts, cuts[1:])]


def sample_parts(d, begin, pieces, length):
    """The parts of a sample's tokens that a dataset holds from row `begin` on, and an empty one."""
    rows = d.elements().reshape(d.dims)
    rest = tuple((0, n, n) for n in d.dims[1:])
    out = [(d, ((0, 0, length), *rest), rows[:0].ravel())]
    for first, count in pieces:
        out.append((d, ((first, count, length), *rest), rows[begin:begin + count].ravel()))
        begin += count
    return out
