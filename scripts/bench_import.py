#!/usr/bin/env python3
"""Imports rollout dumps as slime writes them, against torch.load of the same files.

usage: scripts/bench import [--bytes 256M] [--files 4] [--torch PYTHON] [--folder DIR] [--json]

--torch names a Python that has torch; without it, and without torch here, that side is left out. Each
side runs alone, the files are in the page cache for both. Importing does all that torch.load does, and
then converts, compresses, hashes and writes.
"""
import argparse
import json
import os
import pathlib
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

BYTES_A_TOKEN = 14  # of the pickle: an id of 3 to 5, a float of 9, a mask of 2
PROMPT, RESPONSE, GROUP = 200, 4000, 8
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


def write(path, rollout, bytes_wanted, draw):
    count = max(GROUP, bytes_wanted // ((PROMPT + RESPONSE) * BYTES_A_TOKEN) // GROUP * GROUP)
    value = {"rollout_id": rollout,
             "samples": [sample(draw, rollout * count + i) for i in range(count)]}
    tokens = sum(len(s["tokens"]) for s in value["samples"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in (("data.pkl", pickle.dumps(value, protocol=2)), ("version", b"3\n")):
            archive.writestr(f"{path.stem}/{name}", data)
    return count, tokens


def generate(folder, rollout, bytes_wanted):
    """Writes a rollout's file in a process of its own: the peak of a program is never counted below
    that of the process which starts it. Returns its tokens."""
    script = (f"import sys, random, pathlib; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r});"
              f"import bench_import as b; print(b.write(pathlib.Path({str(folder)!r}) / "
              f"'{rollout}.pt', {rollout}, {bytes_wanted}, random.Random({rollout + 1}))[1])")
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
    lines = (dump / "journal.jsonl").read_text().splitlines()
    units = [json.loads(line)["body"].get("unit", {}) for line in lines]
    return max(int(u["logical"]) for u in units if u.get("path", "").startswith("rollout/"))


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("program")
    parser.add_argument("--bytes", type=size, default=size("256M"))
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--torch", default=sys.executable)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--json", action="store_true")
    own = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="rlreplay bench ", dir=own.folder))
    try:
        report(own, work)
    finally:
        shutil.rmtree(work)


def report(own, work):
    folder = work / "rollout_data"
    folder.mkdir()
    paths, tokens = [], 0
    for rollout in range(own.files):
        paths.append(folder / f"{rollout}.pt")
        tokens += generate(folder, rollout, own.bytes // own.files)
    total = sum(p.stat().st_size for p in paths)
    out = {"schema": "rlreplay.bench_import/1", "bytes": total, "files": own.files,
           "tokens": tokens}
    wall, cpu, peak, _ = run([own.program, "import", folder, "-o", work / "dump"])
    packed = packed_bytes(work / "dump")
    out["import"] = {"seconds": wall, "processor_seconds": cpu, "peak_bytes": peak,
                     "packed_bytes_of_a_file": packed}
    if has_torch(own.torch):
        _, _, peak, text = run([own.torch, "-c", LOAD, *map(str, paths)])
        seconds, load_cpu = map(float, text.split())
        out["torch"] = {"seconds": seconds, "processor_seconds": load_cpu, "peak_bytes": peak}
        out["ratio"], out["processor_ratio"] = seconds / wall, load_cpu / cpu
    if own.json:
        print(json.dumps(out))
        return
    print(f"{own.files} files, {total / 1e6:.0f} MB, {tokens} tokens")
    for side in ("import", "torch"):
        if side in out:
            s = out[side]
            print(f"{side:8} {s['seconds']:8.2f} s, {total / 1e6 / s['seconds']:7.0f} MB/s, "
                  f"processor {s['processor_seconds']:.2f} s, peak {s['peak_bytes'] / 1e6:.0f} MB")
    print(f"packed content of one file: {packed / 1e6:.0f} MB; above it at the peak: "
          f"{(out['import']['peak_bytes'] - packed) / 1e6:.0f} MB")
    if "ratio" in out:
        print(f"torch.load / import: {out['ratio']:.2f}, of processor seconds "
              f"{out['processor_ratio']:.2f}: other work on the machine changes those least")
    else:
        print("torch.load: not measured, no torch here")


if __name__ == "__main__":
    main()
