"""Dumps open in Python as what JSON lines say of them.

usage: rlreplay_h5_test.py RLREPLAY DATA     DATA: the folder of the project's own torch files
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py  # noqa: F401
    import hdf5plugin  # noqa: F401
    import numpy
except ImportError:
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import rlreplay_h5  # noqa: E402


def compare(dump, line):
    if line["schema"] == "rlreplay.step/1":
        step = f"train/{line['rollout_id']}-{line['step_id']}/rank{line['rank']}/scalars"
        assert dict(zip(dump.columns(step), dump[step].tolist())) == line["scalars"]
        return
    train = line["schema"] == "rlreplay.train/1"
    prefix = (f"train/{line['rollout_id']}-{line['step_id']}/rank{line['rank']}" if train
              else f"rollout/{line['rollout_id']}")
    sample = next(s for s in dump.samples(prefix) if s["sample_id"] == line["sample_id"])
    prompt = line.get("prompt_length", 0)
    assert sample["tokens"].tolist() == line["tokens"]
    for theirs, ours in (("reward", "rewards"), ("group_id", "group_id")):
        if theirs in line:
            assert sample[ours] == line[theirs]
    for name in ("log_probs", "old_log_probs", "advantages", "loss_mask"):
        if name in line:
            wanted = numpy.array(line[name], sample[name].dtype)
            assert sample[name][prompt:].tobytes() == wanted.tobytes(), name
        else:
            assert sample.get(name) is None, name
    for name in ("prompt", "response"):
        if name in line:
            assert sample[name + "_text"] == line[name]


def main():
    rlreplay, data = sys.argv[1], pathlib.Path(sys.argv[2])
    lines = [
        {"schema": "rlreplay.sample/1", "rollout_id": 3, "sample_id": 1, "prompt_length": 2,
         "tokens": [5, 6, 7, 8, 9], "group_id": 4, "log_probs": [-0.5, -1.25, -0.1], "reward": 1.0,
         "prompt": "1+1=", "response": "zwei\u00e9"},
        {"schema": "rlreplay.sample/1", "rollout_id": 3, "sample_id": 2, "prompt_length": 1,
         "tokens": [5, 6], "group_id": 4, "reward": 0.0, "prompt": "", "response": "2"},
        {"schema": "rlreplay.train/1", "rollout_id": 3, "step_id": 0, "rank": 0, "sample_id": 2,
         "prompt_length": 1, "tokens": [5, 6], "old_log_probs": [-3.5], "advantages": [0.25],
         "loss_mask": [1], "reward": -0.5},
        {"schema": "rlreplay.step/1", "rollout_id": 3, "step_id": 0, "rank": 0,
         "scalars": {"grad_norm": 2.5, "loss": 0.125}},
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = lambda *words: subprocess.run([rlreplay, *map(str, words)], check=True,
                                            stdout=subprocess.DEVNULL)
        (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        run("import", folder / "lines.jsonl", "-o", folder / "own")
        dump = rlreplay_h5.open(folder / "own")
        assert len(dump) > 15 and dump.root
        for line in lines:
            compare(dump, line)

        run("import", data / "rollout.pt", "-o", folder / "slime")
        run("export", folder / "slime", "--to", "jsonl", "-o", folder / "slime.jsonl")
        dump = rlreplay_h5.open(folder / "slime")
        shown = [json.loads(line) for line in (folder / "slime.jsonl").read_text().splitlines()]
        assert shown
        for line in shown:
            compare(dump, line)

        unit = folder / "own" / "rollout" / "3.h5"
        damaged = bytearray(unit.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        unit.write_bytes(damaged)
        if rlreplay_h5.xxhash:
            try:
                rlreplay_h5.open(folder / "own")
                raise AssertionError("a damaged unit was opened")
            except rlreplay_h5.DumpError:
                pass


def check_slices():
    """A rank that holds slices of samples gives their tokens, and says which they are."""
    dump = rlreplay_h5.open(pathlib.Path(__file__).parents[2] / "tests/golden/dumps/0.9")
    samples = list(dump.samples("train/0-1/rank0"))
    assert [(s["sample_id"], s["lengths"], s["slices"].tolist()) for s in samples] == \
        [(5, 200, [[0, 50], [150, 50]]), (6, 300, [[0, 75], [225, 75]])]
    assert [len(s["log_probs"]) for s in samples] == [100, 150]
    assert all("coordinates" not in s for s in samples)


check_slices()
main()
