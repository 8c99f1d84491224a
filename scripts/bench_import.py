#!/usr/bin/env python3
"""Imports rollout dumps as slime writes them, against torch.load of the same files.

usage: scripts/bench import [--bytes 256M] [--files 1,4,16] [--repeats 1] [--torch PYTHON]
                            [--folder DIR] [--json]

The same bytes in as many files as each number says. --torch names a Python that has torch; without
it, and without torch here, that side is left out, and it is where the machine has too little memory
free for the objects of one file. The sides take turns, each alone and with the files in the page
cache; medians count. Importing does all that torch.load does, and then converts, compresses, hashes
and writes; its time includes the program's start, torch's leaves out that of Python and torch.

The bound: at its peak, import holds no more than the packed content of one file and 512 MiB. Packed
content is what the file's rollout takes in the dump, uncompressed: tokens as int32, log-probabilities
as float32 (float64 where that alone holds them), masks as bytes, texts as UTF-8. Exits with 1 where
the bound does not hold.
"""
import argparse
import io
import json
import os
import pathlib
import pickle
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

BYTES_A_TOKEN = 16  # of the pickle: an id of 3 to 5, a float of 9, a mask of 2, text
ALLOWED = 512 << 20  # bytes above the packed content of a file
TORCH_MEMORY = 9  # bytes for each of a file's: an object a number, and a pointer to it
PROMPT, RESPONSE, GROUP = 200, 4000, 8
BATCH = 1000  # values that pickle appends at once
LOAD = """
import sys, time, torch
start, cpu = time.perf_counter(), time.process_time()
for path in sys.argv[1:]:
    torch.load(path, weights_only=False)
print(time.perf_counter() - start, time.process_time() - cpu)
"""


def size(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1]] if text[-1] in units else int(text)


def sample(draw, index):
    """Floats are those of a binary32 log-probability that went through JSON."""
    response = RESPONSE + draw.randrange(-RESPONSE // 4, RESPONSE // 4)
    raw = draw.randbytes(4 * (PROMPT + response))
    tokens = [x % 151936 for x in struct.unpack(f"<{PROMPT + response}I", raw)]
    exponents = draw.randbytes(response)
    floats = b"".join(bytes((a, b, c, 0xBD + (d & 1)))
                      for a, b, c, d in zip(raw, raw[1:], exponents, raw[2:]))
    return {"group_index": index // GROUP, "index": index, "prompt": f"question {index // GROUP}",
            "tokens": tokens, "response": f"answer {index} " * 500, "response_length": response,
            "label": "7", "reward": float(index % 2), "loss_mask": [1] * response,
            "weight_versions": ["3"], "rollout_log_probs": list(
                struct.unpack(f"<{response}f", floats[:4 * response])),
            "remove_sample": False, "status": "completed", "metadata": {}}


class Pieces:
    """Pickles of parts of one object, to be written one behind the other: those of `shared` values
    refer to their first place."""

    def __init__(self, shared):
        self.buffer = io.BytesIO()
        self.pickler = pickle.Pickler(self.buffer, protocol=2)
        self.head = b"".join(self.piece(value) for value in shared)
        self.memo = self.pickler.memo.copy()

    def piece(self, value):
        self.buffer.seek(0)
        self.buffer.truncate()
        self.pickler.dump(value)
        return self.buffer.getvalue()[2:-1]  # without the protocol and STOP

    def next(self, value):
        self.pickler.memo = self.memo  # what lies behind need not be kept
        return self.piece(value)


def write(path, rollout, bytes_wanted, draw):
    """What pickle.dump writes of a dict of the rollout's id and its samples, a sample at a time: the
    objects of them all would take eight times the memory of the file. Returns the tokens."""
    count = max(GROUP, bytes_wanted // ((PROMPT + RESPONSE) * BYTES_A_TOKEN) // GROUP * GROUP)
    keys = list(sample(draw, 0))
    pieces = Pieces([*keys, "completed", "3", "7"])
    tokens = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(f"{path.stem}/data.pkl", "w", force_zip64=True) as out:
            out.write(b"\x80\x02" + pieces.head + b"0" * (len(keys) + 3))  # POP: they are in the memo
            out.write(b"}(" + pieces.next("rollout_id") + pieces.next(rollout))
            out.write(pieces.next("samples") + b"]")
            for begin in range(0, count, BATCH):
                out.write(b"(")
                for index in range(begin, min(begin + BATCH, count)):
                    made = sample(draw, rollout * count + index)
                    tokens += len(made["tokens"])
                    out.write(pieces.next(made))
                out.write(b"e")
            out.write(b"u.")
        archive.writestr(f"{path.stem}/version", b"3\n")
    return tokens


def generate(folder, rollout, bytes_wanted):
    """Writes a rollout's file in a process of its own: the peak of a program is never counted below
    that of the process which starts it. Returns its tokens."""
    script = (f"import sys, random, pathlib; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r});"
              f"import bench_import as b; print(b.write(pathlib.Path({str(folder)!r}) / "
              f"'{rollout}.pt', {rollout}, {bytes_wanted}, random.Random({rollout + 1})))")
    made = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE)
    return int(made.stdout)


def run(command):
    """Wall seconds, processor seconds and the peak of resident memory in bytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"bench import: {command[0]} failed")
    return (time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024,
            output.decode())


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True,
                          check=False).returncode == 0


def packed_bytes(dump):
    """Decoded content of the largest rollout unit, as the journal says it."""
    lines = (dump / "journal/0.jsonl").read_text().splitlines()
    units = [json.loads(line)["body"].get("unit", {}) for line in lines]
    return max(int(u["logical"]) for u in units if u.get("path", "").startswith("rollout/"))


def free_memory():
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def read_once(paths):
    """Brings files into the page cache."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass


def import_once(own, paths, dump):
    shutil.rmtree(dump, ignore_errors=True)
    read_once(paths)
    wall, cpu, peak, _ = run([own.program, "import", paths[0].parent, "-o", dump])
    return {"seconds": wall, "processor_seconds": cpu, "peak_bytes": peak}


def load_once(own, paths):
    read_once(paths)
    _, _, peak, text = run([own.torch, "-c", LOAD, *map(str, paths)])
    seconds, cpu = map(float, text.split())
    return {"seconds": seconds, "processor_seconds": cpu, "peak_bytes": peak}


def summary(runs):
    """The median times, and the highest peak."""
    out = {key: statistics.median(r[key] for r in runs) for key in ("seconds", "processor_seconds")}
    return {**out, "peak_bytes": max(r["peak_bytes"] for r in runs)}


def measure(own, work, count, torch):
    """One number of files. `torch` says whether that side can be measured."""
    folder = work / "rollout_data"
    folder.mkdir()
    paths = [folder / f"{rollout}.pt" for rollout in range(count)]
    tokens = sum(generate(folder, rollout, own.bytes // count) for rollout in range(count))
    sizes = [path.stat().st_size for path in paths]
    out = {"schema": "rlreplay.bench_import/2", "bytes": sum(sizes), "files": count,
           "tokens": tokens, "repeats": own.repeats}
    imports, loads = [], []
    out["torch_memory_missing"] = torch and free_memory() < TORCH_MEMORY * max(sizes)
    for _ in range(own.repeats):
        imports.append(import_once(own, paths, work / "dump"))
        if torch and not out["torch_memory_missing"]:
            loads.append(load_once(own, paths))
    packed = packed_bytes(work / "dump")
    out["import"] = summary(imports)
    out["packed_bytes_of_a_file"], out["bound_bytes"] = packed, packed + ALLOWED
    out["within_bound"] = out["import"]["peak_bytes"] <= out["bound_bytes"]
    if loads:
        out["torch"] = summary(loads)
        for name, key in (("ratio", "seconds"), ("processor_ratio", "processor_seconds")):
            out[name] = statistics.median(b[key] / a[key] for a, b in zip(imports, loads))
    shutil.rmtree(folder)
    shutil.rmtree(work / "dump")
    return out


def show(out):
    print(f"{out['files']} files, {out['bytes'] / 1e6:.0f} MB, {out['tokens']} tokens")
    for side in ("import", "torch"):
        if side in out:
            s = out[side]
            print(f"  {side:8} {s['seconds']:7.2f} s, {out['bytes'] / 1e6 / s['seconds']:5.0f} MB/s, "
                  f"processor {s['processor_seconds']:.2f} s, peak {s['peak_bytes'] / 1e6:.0f} MB")
    peak, packed = out["import"]["peak_bytes"], out["packed_bytes_of_a_file"]
    print(f"  bound: {packed / 1e6:.0f} MB packed content of a file + {ALLOWED / 1e6:.0f} MB; import "
          f"took {(peak - packed) / 1e6:.0f} MB above the content: "
          f"{'within' if out['within_bound'] else 'NOT WITHIN'}")
    if "ratio" in out:
        print(f"  torch.load / import: {out['ratio']:.2f} of time, {out['processor_ratio']:.2f} of "
              "processor time, which other work on the machine changes least")
    elif out["torch_memory_missing"]:
        print("  torch.load: not measured, too little memory is free for one file's objects")
    else:
        print("  torch.load: not measured, no torch here")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("program")
    parser.add_argument("--bytes", type=size, default=size("256M"))
    parser.add_argument("--files", type=lambda text: list(map(int, text.split(","))),
                        default=[1, 4, 16])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--json", action="store_true")
    own = parser.parse_args()
    torch = has_torch(own.torch)
    within = True
    for count in own.files:
        work = pathlib.Path(tempfile.mkdtemp(prefix="rlreplay bench ", dir=own.folder))
        try:
            out = measure(own, work, count, torch)
        finally:
            shutil.rmtree(work)
        if own.json:
            print(json.dumps(out), flush=True)
        else:
            show(out)
            sys.stdout.flush()
        within = within and out["within_bound"]
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
