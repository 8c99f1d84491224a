"""The digests of tests/golden/digest.txt, computed a second time from docs/numerics.md section 8.

usage: digest_golden.py [--write]    without --write: fails unless the file holds these digests
"""
import pathlib
import sys

try:
    import xxhash
except ImportError:
    print("skipped: needs the Python package xxhash (scripts/requirements.txt)")
    sys.exit(77)

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/digest.txt"
SIZES = {"bool": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "i32": 4, "f64": 8, "i64": 8}
SAMPLES = [7, 2**56 + 3]  # the first third of a batch's rows belongs to the first one

# kind, name, dtype, rows, columns, segments of the last axis, positions of a leaf
CASES = [
    ("part", "model.embed_tokens.weight", "f32", 643, 48, 1, 0),
    ("part", "model.layers.0.mlp.down_proj.weight", "f32", 48, 163, 8, 0),
    ("part", "model.layers.0.mlp.down_proj.weight", "i64", 48, 163, 8, 0),
    ("part", "narrow", "bf16", 5, 3, 8, 0),
    ("part", "empty", "f32", 0, 17, 1, 0),
    ("vector", "model.norm.weight", "f32", 1, 896, 1, 0),
    ("vector", "model.layers.3.self_attn.k_proj.bias", "f16", 1, 128, 2, 0),
    ("tokens", "layers.1.residual", "f32", 100, 96, 1, 0),
    ("tokens", "layers.1.mlp.intermediate", "f32", 100, 163, 4, 0),
    ("scalars", "log_prob", "f32", 300, 1, 1, 64),
    ("scalars", "mask", "u8", 300, 1, 1, 256),
    ("scalars", "id", "i32", 3, 1, 1, 64),
]


def contents(count):
    state, out = count, bytearray()
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(state >> 56)
    return bytes(out)


def words(*numbers):
    return b"".join(n.to_bytes(8, "little") for n in numbers)


def digest(kind, name, dtype, rows, cols, segments, chunk):
    size = SIZES[dtype]
    data = contents(rows * cols * size)
    dims = {"part": [rows, cols], "vector": [cols], "tokens": [cols], "scalars": []}[kind]
    h0 = xxhash.xxh3_64_intdigest(f"{name}|{dtype}|{','.join(map(str, dims))}".encode())
    blocks = []  # coordinates, first element, end
    first = rows // 3
    if kind == "scalars":
        for sample, begin, end in ((SAMPLES[0], 0, first), (SAMPLES[1], first, rows)):
            for at in range(begin, end, chunk):
                blocks.append(([sample, (at - begin) // chunk], at, min(end, at + chunk)))
    else:
        for row in range(rows):
            for segment in range(segments):
                begin, end = cols * segment // segments, cols * (segment + 1) // segments
                where = [row, begin]
                if kind == "tokens":
                    where = [SAMPLES[0], row] if row < first else [SAMPLES[1], row - first]
                    where += [begin] if segments > 1 else []
                if begin < end:
                    blocks.append((where, row * cols + begin, row * cols + end))
    total = 0
    for where, begin, end in blocks:
        seed = xxhash.xxh3_64_intdigest(words(h0, *where))
        total += xxhash.xxh3_128_intdigest(data[begin * size:end * size], seed)
    return f"{total % 2**128:032x}"


def main():
    lines = sorted(" ".join(map(str, case)) + " " + digest(*case) + "\n" for case in CASES)
    lines = ["# rlreplay golden 1\n", "# made by: tests/base/digest_golden.py --write\n"] + lines
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text("".join(lines))
    elif GOLDEN.read_text().splitlines(keepends=True) != lines:
        sys.exit(f"{GOLDEN} does not hold the digests that this script computes")


if __name__ == "__main__":
    main()
