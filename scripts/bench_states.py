"""What it takes to store a run's states as differences: bytes and seconds against storing them whole.

usage: scripts/bench states DUMP

Each state of the dump (`capture --weights all`) is packed as the format does (chunks of 512 KiB, shuffle,
zstd level 1), whole and as its XOR with the state before it, as binary32 and rounded to bf16. Seconds are
of packing and of unpacking with one thread, for a state.
"""
import pathlib
import sys
import time

import numpy
import zstandard

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import rlreplay_h5  # noqa: E402

CHUNK = 512 << 10
FOLDERS = ("parameters", "exp_avg", "exp_avg_sq")


def states_of(dump):
    """The tensors of each step's state, by folder, one behind the other, in the order of steps."""
    units = [unit for unit in dump.units if unit.startswith("weights/")]
    for unit in sorted(units, key=lambda path: tuple(map(int, path.split("/")[1].split("-")))):
        state = {folder: [] for folder in FOLDERS}

        def visit(name, item, unit=unit, state=state):
            folder = name.split("/")[1] if "/" in name else ""
            if folder in state and hasattr(item, "dtype"):
                state[folder].append(dump._bytes(unit, name).view("<u4").ravel())

        dump._file(unit).visititems(visit)
        yield {folder: numpy.concatenate(arrays) for folder, arrays in state.items()}


def rounded(words):
    """To bf16, ties to even."""
    return ((words + 0x7fff + ((words >> 16) & 1)) >> 16).astype("<u2")


def pack(words):
    out, step, packer = [], CHUNK // words.itemsize, zstandard.ZstdCompressor(level=1)
    for begin in range(0, words.size, step):
        chunk = words[begin:begin + step]
        shuffled = chunk.view("u1").reshape(-1, words.itemsize).T.tobytes()
        out.append(packer.compress(shuffled))
    return out


def unpack(frames, width):
    for frame in frames:
        data = numpy.frombuffer(zstandard.ZstdDecompressor().decompress(frame), "u1")
        numpy.ascontiguousarray(data.reshape(width, -1).T)


def main(path):
    before, total = None, {}
    for state in states_of(rlreplay_h5.open(path)):
        for folder in FOLDERS:
            for dtype, of in (("f32", lambda words: words), ("bf16", rounded)):
                whole = of(state[folder])
                forms = {"whole": whole}
                if before is not None:
                    forms["xor"] = whole ^ of(before[folder])
                for form, words in forms.items():
                    begin = time.process_time()
                    frames = pack(words)
                    middle = time.process_time()
                    unpack(frames, words.itemsize)
                    end = time.process_time()
                    row = total.setdefault((folder, dtype, form), [0, 0, 0, 0, 0])
                    for i, value in enumerate((1, words.nbytes, sum(map(len, frames)),
                                               middle - begin, end - middle)):
                        row[i] += value
        before = state
    print(f"{'':24}{'MB':>9}{'packed':>9}{'ratio':>8}{'pack s':>9}{'unpack s':>9}")
    for key, (count, size, packed, write, read) in total.items():
        print(f"{' '.join(key):24}{size / count / 1e6:9.2f}{packed / count / 1e6:9.2f}"
              f"{packed / size:8.3f}{write / count:9.4f}{read / count:9.4f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
