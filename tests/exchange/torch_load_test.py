"""Files that went through import and export load in Python as what they were.

usage: torch_load_test.py RLREPLAY DATA      DATA: the folder of the project's own torch files

Loads with torch where it is installed, and else with pickle and zipfile, torch's calls replaced by
numpy. Runs in the forms of the frameworks are compared too, also those of RLREPLAY_REFERENCE where it
names a folder.
"""
import collections
import io
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy
except ImportError:
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
import checkpoints  # noqa: E402
import material  # noqa: E402

FORMATS = {"DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2",
           "BFloat16Storage": "<u2", "LongStorage": "<i8", "IntStorage": "<i4",
           "ShortStorage": "<i2", "CharStorage": "<i1", "ByteStorage": "<u1", "BoolStorage": "?"}
CLASSES = {}


class Plain:
    """Stands for a class of a framework."""

    def __init__(self, *state):
        self.state = state


def stand_in(module, name):
    return CLASSES.setdefault((module, name), type(name, (Plain,), {"module": module}))


class Tensor:
    def __init__(self, storage, offset, size, stride, requires_grad, hooks, metadata=None):
        kind, location, data = storage
        step = data.dtype.itemsize
        view = numpy.lib.stride_tricks.as_strided(data[offset:], size, [s * step for s in stride])
        self.state = (kind, location, requires_grad, tuple(size), view.tobytes())


class Loader(pickle.Unpickler):
    """torch.load without torch."""

    def __init__(self, archive):
        self.archive = archive
        self.root = archive.namelist()[0].split("/")[0]
        super().__init__(io.BytesIO(archive.read(self.root + "/data.pkl")))

    def find_class(self, module, name):
        if module == "torch._utils" and name == "_rebuild_tensor_v2":
            return Tensor
        if module == "torch" and name in FORMATS:
            return name
        if module.split(".")[0] in ("torch", "slime", "miles", "relax"):
            owner, _, nested = name.partition(".")
            made = stand_in(module, owner)
            return getattr(made, nested) if nested else made
        return super().find_class(module, name)

    def persistent_load(self, pid):
        _, kind, key, location, count = pid
        data = numpy.frombuffer(self.archive.read(f"{self.root}/data/{key}"), FORMATS[kind])
        assert len(data) == count
        return kind, location, data


for owner in ("slime.utils.types", "miles.utils.types", "relax.utils.types"):
    stand_in(owner, "Sample").SpecInfo = stand_in(owner, "SpecInfo")
    stand_in(owner, "Sample").PrefixCacheInfo = stand_in(owner, "PrefixCacheInfo")
    stand_in(owner, "Sample").Status = stand_in(owner, "Status")


def load(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return Loader(archive).load()


def bits(value):
    """A value as something that == compares by type and bits."""
    if isinstance(value, float):
        return ("float", numpy.float64(value).tobytes())
    if isinstance(value, numpy.ndarray) or isinstance(value, numpy.generic):
        return (type(value).__name__, value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return (type(value).__name__, [(bits(k), bits(v)) for k, v in value.items()])
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [bits(v) for v in value])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted(map(repr, map(bits, value))))
    if isinstance(value, (Plain, Tensor)):
        return (type(value), bits(vars(value)))
    return (type(value).__name__, value)


def compare(rlreplay, vendor, sources, names, folder):
    dump, out = folder / "dump", folder / "out"
    run = lambda *words: subprocess.run([rlreplay, *map(str, words)], check=True,
                                        stdout=subprocess.DEVNULL)
    run("import", *sources, "-o", dump, "--format", vendor)
    run("export", dump, "--to", vendor, "-o", out)
    for name, original in names.items():
        assert bits(load(out / name)) == bits(load(original)), name
        try:
            import torch
            torch.load(out / name, weights_only=False, map_location="cpu")
        except ImportError:
            pass
    return len(names)


def units(dump):
    """Content hashes of what was generated and trained on, by unit."""
    lines = (dump / "journal/0.jsonl").read_text().splitlines()
    found = [json.loads(line)["body"].get("unit", {"path": ""}) for line in lines]
    return {unit["path"]: unit["content"] for unit in found
            if unit["path"].startswith(("rollout/", "train/"))}


def numbers(tensor):
    kind, _, _, shape, data = tensor.state
    return numpy.frombuffer(data, FORMATS[kind]).reshape(shape)


STOPS = range(0, 257, 9)  # so that some responses stop before their limit
REWARD = (f"{sys.executable} -c \"import json, sys\nfor line in sys.stdin:\n"
          "    print(len(json.loads(line)['response']) % 4)\"")


def check_shaped(samples, train):
    """Rewards of a group less their mean, over their deviation, by slime's formula in binary64."""
    raw = numpy.array([s["reward"] for s in samples])
    assert train["raw_reward"] == raw.tolist()
    groups = raw.reshape(-1, 4)
    centred = groups - groups.mean(axis=1, keepdims=True)
    shaped = centred / (groups.std(axis=1, ddof=1, keepdims=True) + 1e-6)
    rewards = [row["rewards"] for row in train["samples"]]
    assert all(type(reward) is float for reward in rewards)
    assert numpy.abs(rewards - shaped.ravel()).max() < 1e-12 and len(set(rewards)) > 2
    for row in train["samples"]:
        assert abs(numbers(row["advantages"]) - row["rewards"]).max() < 1e-6


def check_captured_dump(dump, again, out):
    """A capture of our own as slime's files: read by slime's rules, and the same when imported."""
    assert units(again) == units(dump), "another content after export and import"
    samples = load(out / "rollout_data/0.pt")["samples"]
    train = load(out / "train_data/0.pt")
    assert train["format_version"] == 2 and train["rank"] == 0
    assert [s["sample_index"] for s in train["samples"]] == [s["index"] for s in samples]
    check_shaped(samples, train)
    assert {s["status"] for s in samples} == {"completed", "truncated"}
    assert {v for s in samples for v in s["weight_versions"]} == {"0"}
    later = load(out / "rollout_data/1.pt")["samples"]
    assert {tuple(s["weight_versions"]) for s in later} == {("2",)}
    for row, sample in zip(train["samples"], samples):
        stops = sample["tokens"][-1] in (*STOPS, 257)
        assert sample["status"] == ("completed" if stops else "truncated")
        assert row["truncated"] == (0 if stops else 1)
        assert type(sample["tokens"]) is list and type(sample["reward"]) is float
        assert row["tokens"].state[0] == "LongStorage" and row["loss_masks"].state[0] == "IntStorage"
        assert numbers(row["tokens"]).tolist() == sample["tokens"]
        response = row["response_lengths"]
        assert response == sample["response_length"] == len(sample["loss_mask"])
        for column in ("log_probs", "rollout_log_probs", "advantages", "entropy"):
            assert row[column].state[0] == "FloatStorage" and row[column].state[3] == (response,)
        assert numbers(row["rollout_log_probs"]).tolist() == sample["rollout_log_probs"]
        assert numbers(row["rollout_mask_sums"]) == sum(sample["loss_mask"])
    shard = train["dp_shards"][0]
    assert shard["num_microbatches"] == [1, 1] and shard["global_batch_sizes"] == [4, 4]
    assert shard["micro_batch_indices"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    return samples


def captured(rlreplay, folder):
    run = lambda *words: subprocess.run([rlreplay, *map(str, words)], check=True,
                                        stdout=subprocess.DEVNULL)
    model = checkpoints.write(folder / "model", checkpoints.config())
    prompts = checkpoints.write_prompts(folder / "prompts.jsonl")
    dump, out, again = folder / "dump", folder / "out", folder / "again"
    run("capture", "--model", model, "--prompts", prompts, "--num-rollout", 2,
        "--num-steps-per-rollout", 2, "--rollout-batch-size", 2, "--n-samples-per-prompt", 4,
        "--rollout-max-response-len", 6, "--rollout-stop-token-ids", *STOPS, "--reward", "command",
        "--reward-command", REWARD, "--record", "ops", "-o", dump)
    run("export", dump, "--to", "slime", "-o", out)
    run("import", out, "-o", again)
    samples = check_captured_dump(dump, again, out)
    # A sample brings its group; what losses are divided by stays that of the whole step.
    part = folder / "part"
    run("export", dump, "--to", "slime", "-o", part, "--samples", 5)
    chosen = load(part / "train_data/0.pt")
    group = [s["index"] for s in samples if s["group_index"] == samples[5]["group_index"]]
    assert 5 in group and [s["sample_index"] for s in chosen["samples"]] == group
    assert [s["index"] for s in load(part / "rollout_data/0.pt")["samples"]] == group
    assert chosen["dp_shards"][0]["global_batch_sizes"] == [4]
    assert not (part / "train_data/1.pt").exists()
    twice = folder / "twice"
    run("export", again, "--to", "slime", "-o", twice)
    for name in ("rollout_data/0.pt", "train_data/0.pt", "train_data/1.pt"):
        assert bits(load(twice / name)) == bits(load(out / name)), name
    try:
        import torch
        torch.load(out / "train_data/0.pt", weights_only=True)
        torch.load(out / "rollout_data/0.pt", weights_only=True)
    except ImportError:
        print("torch is not installed: files were read with pickle and numpy alone")


def main():
    rlreplay, data = sys.argv[1], pathlib.Path(sys.argv[2])
    files = 0
    with tempfile.TemporaryDirectory() as folder:
        captured(rlreplay, pathlib.Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        own = [data / name for name in ("rollout.pt", "arrays.pt", "values_p2.pt")]
        files += compare(rlreplay, "slime", own, {p.name: p for p in own}, pathlib.Path(folder))
    for run in sorted(run.parent for folder in material.folders()
                      for run in folder.glob("dumps/*/*/rollout_data")):
        with tempfile.TemporaryDirectory() as folder:
            names = {p.relative_to(run): p for p in run.rglob("*.pt")}
            vendor = run.parent.name.split("-")[0]
            files += compare(rlreplay, vendor, [run], names, pathlib.Path(folder))
    print(f"{files} files load as what they were")


main()
