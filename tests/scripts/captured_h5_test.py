"""A captured run in the hands of others: scripts/rlreplay_h5.py (h5py with hdf5plugin) and h5dump
with the project's own zstd plugin read what the program says.
usage: captured_h5_test.py RLREPLAY PLUGIN_FOLDER
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import hdf5plugin  # noqa: F401
    import numpy
except ImportError:
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "scripts"))
import rlreplay_h5  # noqa: E402

RLREPLAY, PLUGIN = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]


def run(*arguments):
    return subprocess.run([RLREPLAY, *map(str, arguments)], check=True, capture_output=True,
                          text=True).stdout


class Captured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.path = cls.folder / "dump"
        lines = run("capture", "--model", "demo", "--steps", "3", "--rollout-batch-size", "4",
                    "--record", "ops+values", "--weights", "all", "--json", "-o", cls.path)
        cls.steps = [json.loads(line) for line in lines.splitlines()]
        cls.dump = rlreplay_h5.open(cls.path)

    def test_steps(self):
        self.assertEqual(len(self.steps), 3)
        for step in self.steps:
            name = f"train/{step['rollout_id']}-{step['step_id']}/rank0"
            scalars = dict(zip(self.dump.columns(f"{name}/scalars"), self.dump[f"{name}/scalars"]))
            for column in ("loss", "grad_norm", "lr"):
                self.assertEqual(scalars[column], step[column], column)
            self.assertEqual(self.dump[f"rollout/{step['rollout_id']}/offsets"][-1], step["tokens"])
            self.assertAlmostEqual(self.dump[f"rollout/{step['rollout_id']}/rewards"].mean(),
                                   step["reward"], places=12)

    def test_samples(self):
        run("export", self.path, "--to", "jsonl", "-o", self.folder / "lines.jsonl")
        seen, samples = 0, {}
        for text in (self.folder / "lines.jsonl").read_text().splitlines():
            line = json.loads(text)
            if line["schema"] == "rlreplay.sample/1":
                prefix = f"rollout/{line['rollout_id']}"
            elif line["schema"] == "rlreplay.train/1":
                prefix = f"train/{line['rollout_id']}-{line['step_id']}/rank0"
            else:
                continue
            if prefix not in samples:
                samples[prefix] = {s["sample_id"]: s for s in self.dump.samples(prefix)}
            sample = samples[prefix][line["sample_id"]]
            if "tokens" in sample:
                self.assertEqual(sample["tokens"].tolist(), line["tokens"])
            for name in ("log_probs", "old_log_probs", "advantages"):
                if name in line:
                    values = sample[name][line.get("prompt_length", 0):]
                    self.assertEqual(values.tobytes(), numpy.array(line[name], values.dtype).tobytes())
                    seen += len(values)
        self.assertGreater(seen, 500)

    def event_values(self, step, event):
        """The recorded elements of an event, found as format/SPEC.md says."""
        name = f"train/{step}/rank0/events/"
        rows = self.dump[name + "tensors"].tobytes().decode().splitlines()
        at = [row.split()[0] for row in rows].index(event)
        start = int(self.dump[name + "value_start"][at])
        count = int(self.dump[name + "value_count"][at])
        return self.dump[name + "values_f32"][start:start + count]

    def test_states_of_three_steps(self):
        """The state before a step is what the step before it computed."""
        for kind, folder in (("weight", "parameters"), ("exp_avg_sq", "exp_avg_sq")):
            for tensor, layer in (("model.norm.weight", "-"),
                                  ("model.layers.1.mlp.down_proj.weight", "1")):
                for before, step in (("0-0", "1-0"), ("1-0", "2-0")):
                    event = f"optimizer/{layer}/{kind}/{tensor}"
                    stored = self.dump[f"weights/{step}/rank0/{folder}/{tensor}"]
                    computed = self.event_values(before, event)
                    self.assertGreater(computed.size, 0)
                    self.assertEqual(stored.tobytes(), computed.tobytes(), event)

    def test_h5dump(self):
        environment = {**os.environ, "HDF5_PLUGIN_PATH": PLUGIN}
        raw = self.folder / "raw"
        seen = 0
        for unit in ("rollout/0.h5", "train/1-0/rank0.h5", "weights/0-0/rank0.h5"):
            with h5py.File(self.path / unit) as file:
                arrays = {}
                file.visititems(lambda name, item: arrays.update({name: item[...]})
                                if isinstance(item, h5py.Dataset) else None)
            for name, array in list(arrays.items())[::1 if unit.startswith("rollout") else 7]:
                try:
                    subprocess.run(["h5dump", "-d", "/" + name, "-b", "LE", "-o", raw,
                                    self.path / unit], env=environment, check=True,
                                   stdout=subprocess.DEVNULL)
                except FileNotFoundError:
                    self.skipTest("there is no h5dump")
                self.assertEqual(raw.read_bytes(), array.tobytes(), name)
                seen += array.size > 1024
        self.assertGreater(seen, 3)  # compressed ones


if __name__ == "__main__":
    unittest.main()
