"""What ranks of a step say of the same samples, and tables of events of a run that names no model.
usage: ranks_test.py RLREPLAY
"""
import copy
import json
import os
import sys
import unittest

try:
    import numpy as np
    from dump_patch import Array, Patched
except ImportError:
    sys.exit(77)

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))

FINDING, CORRUPT = 1, 3
STORED = {"u64": "<u8", "u32": "<u4", "i32": "<i4", "f32": "<f4"}


def array(values, dtype, shape=None):
    values = np.asarray(values).astype(STORED[dtype]).reshape(-1)
    return Array(values, dtype, shape or [values.size], {})


def slices_of(samples, begin, packed):
    """A rank's step: of each sample, which has four tokens, those two from `begin` on."""
    count = len(samples)
    out = {"sample_id": array(samples, "u64"), "offsets": array([2 * i for i in range(count + 1)], "u64"),
           "slice_offsets": array(range(count + 1), "u64"), "lengths": array([4] * count, "u64"),
           "slices": array([[begin, 2]] * count, "u64", [count, 2]),
           "prompt_length": array([1] * count, "u32"),
           "log_probs": array([[0 if begin == 0 else -1.5, -0.5]] * count, "f32")}
    return out | ({"micro_batch": array(packed, "u32")} if packed else {})


class Ranks(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain, _ = cls.capture("plain", "--model", "demo", "--steps", "2", "--rollout-batch-size",
                                   "2", "--n-samples-per-prompt", "2")
        cls.loaded = Patched(cls.plain)

    def verified(self, dump, code):
        return self.lines("verify", "--deep", dump.write(self.folder / "patched"), code=code)[0]

    def steps(self, *ranks):
        dump = Patched.__new__(Patched)
        dump.meta, dump.unstable = {"ranks": len(ranks), "source": {"imported": "jsonl"}}, {}
        ids = sorted({i for samples, _, _ in ranks for i in samples})
        rollout = {"sample_id": array(ids, "u64"), "prompt_length": array([1] * len(ids), "u32"),
                   "offsets": array([4 * i for i in range(len(ids) + 1)], "u64"),
                   "tokens": array([5] * (4 * len(ids)), "i32")}
        dump.units = {"rollout/0.h5": {f"0/{name}": column for name, column in rollout.items()}}
        for rank, said in enumerate(ranks):
            dump.units[f"train/0-0/rank{rank}.h5"] = {
                f"0-0/{name}": column for name, column in slices_of(*said).items()}
        return dump

    def test_micro_batches_of_slices(self):
        """Ranks that hold other slices of the same samples pack them alike; others need not."""
        self.verified(self.steps(([1, 2], 0, [0, 1]), ([2, 1], 2, [1, 0])), code=0)
        for packed in ([1, 0], None):
            self.verified(self.steps(([1, 2], 0, [0, 1]), ([1, 2], 2, [0, 1]),
                                     ([3, 4], 0, packed), ([3, 4], 2, packed)), code=0)
        for others in ((), (([3], 0, [7]), ([3], 2, [7]))):
            report = self.verified(self.steps(([1, 2], 0, [0, 1]), ([1, 2], 2, [0, 0]), *others),
                                   code=CORRUPT)
            self.assertEqual([p["code"] for p in report["problems"]], ["meaning"])
            self.assertIn("sample 2 has another micro_batch here than in train/0-0/rank0.h5",
                          report["problems"][0]["message"])

    def test_tables_of_events_without_a_model(self):
        def change(name, value):
            dump = copy.deepcopy(self.loaded)
            dump.meta = {"ranks": 1}
            dump.at("train/1-0/rank0.h5", f"1-0/events/{name}").values[-1] = value
            return dump
        for name, value, words in (("run_sample", 1 << 40, "which is not there"),
                                   ("run_position", 1 << 20, "has rows of tokens to"),
                                   ("run_count", 1 << 20, "rows, expected")):
            with self.subTest(name):
                report = self.verified(change(name, value), code=FINDING)
                self.assertTrue(any(words in p["message"] for p in report["problems"]),
                                report["problems"])

    def test_elements_that_no_tensor_has(self):
        """More that are not finite than there are, or the first of them outside of the tensor."""
        rows = self.loaded.at("train/1-0/rank0.h5", "1-0/events/row_set").values
        at = 4 * next(i for i, row_set in enumerate(rows) if row_set >= 0)
        for change in ({0: 1 << 40}, {1: 7}, {0: 1, 1: 77777}, {0: 1, 2: 1 << 20}, {0: 1, 3: 1 << 40}):
            with self.subTest(change):
                dump = copy.deepcopy(self.loaded)
                units = dump.units["train/1-0/rank0.h5"]
                units["1-0/events/nonfinite"] = array(np.zeros(4 * rows.size), "u64", [rows.size, 4])
                for place, value in change.items():
                    units["1-0/events/nonfinite"].values[at + place] = value
                report = self.verified(dump, code=FINDING)
                problem, = (p for p in report["problems"] if p["code"] == "meaning")
                self.assertEqual(problem["dataset"], "1-0/events/nonfinite")
                diff = self.run_program("diff", self.plain, self.folder / "patched")
                self.assertEqual(diff.returncode, CORRUPT, diff.stdout + diff.stderr)

    def test_a_name_twice(self):
        dump = copy.deepcopy(self.loaded)
        tensors = dump.at("train/1-0/rank0.h5", "1-0/events/tensors")
        lines = bytes(tensors.values).split(b"\n")
        lines[-3] = next(line for line in lines if line.split()[1:] == lines[-3].split()[1:])
        dump.units["train/1-0/rank0.h5"]["1-0/events/tensors"] = tensors.reshaped(
            np.frombuffer(b"\n".join(lines), "u1"))
        report = self.verified(dump, code=FINDING)
        self.assertTrue(any("expected each name once" in p["message"] for p in report["problems"]),
                        report["problems"])
        diff = self.run_program("diff", self.plain, self.folder / "patched")
        self.assertEqual(diff.returncode, CORRUPT, diff.stdout + diff.stderr)

    def test_values_that_are_not_finite_though_none_is_said(self):
        dump, _ = self.capture("values", "--model", "demo", "--steps", "1", "--rollout-batch-size", "2",
                               "--n-samples-per-prompt", "2", "--record", "tensors+values")
        dump = Patched(dump)
        dump.meta = {"ranks": 1}
        events = {name.split("/")[-1]: data for name, data in dump.units["train/0-0/rank0.h5"].items()
                  if "/events/" in name}
        named = [line.split()[0] for line in bytes(events["tensors"].values).decode().splitlines()
                 if line.split()[1] == "f32"]
        events["values_f32"].values[0] = np.nan
        report = self.verified(dump, code=FINDING)
        problem, = report["problems"]
        self.assertEqual((problem["code"], problem["message"]),
                         ("event", "1 element of its values are not finite, and events/nonfinite says 0"))
        self.assertIn(problem["dataset"], named)
        shown = self.run_program("show", self.folder / "patched", "--event", f"0.0/{problem['dataset']}").stdout
        self.assertIn("finite   1 value not, though events/nonfinite says none", shown)
        self.assertNotIn("finite   all", shown)

    def test_events_of_two_ranks_hide_nothing(self):
        """Of a captured run, of which a second rank also holds a step: the rest is judged."""
        path, _ = self.capture("states", "--model", "demo", "--steps", "2", "--rollout-batch-size", "2",
                               "--n-samples-per-prompt", "2", "--weights", "all")
        dump = Patched(path)
        dump.units["train/0-0/rank7.h5"] = copy.deepcopy(dump.units["train/0-0/rank0.h5"])
        dump.at("train/1-0/rank0.h5", "1-0/log_probs").values[-1] = 0.5
        report = self.verified(dump, code=FINDING)
        self.assertIn("bad-log-prob", {p["code"] for p in report["problems"]})
        self.assertTrue(any("events of 2 ranks" in note for note in report["not_checked"]),
                        report["not_checked"])

    def test_diff_calls_nothing_equal_that_breaks_a_rule(self):
        """Of which no hash of what a step says tells."""
        dump = copy.deepcopy(self.loaded)
        dump.units["train/1-0/rank0.h5"]["1-0/coordinates"] = array([0, 1] * 5, "u32", [5, 2])
        sound = dump.write(self.folder / "sound")
        dump.at("train/1-0/rank0.h5", "1-0/coordinates").values[0] = 2048
        broken = dump.write(self.folder / "patched")
        self.lines("verify", "--deep", broken, code=CORRUPT)
        for pair in ((sound, broken), (broken, sound)):
            result = self.run_program("diff", *pair)
            self.assertEqual(result.returncode, CORRUPT, result.stdout)
            self.assertIn("is rank 2048 of 1", result.stderr)

    def shared(self, dump, damaged, take):
        """Strip and pack refuse what verify calls damaged, for what it names, and nothing else."""
        path, out = dump.write(self.folder / "patched"), self.folder / "shared"
        report = json.loads(self.run_program("verify", "--deep", path, "--json").stdout)
        self.assertEqual(report["verdict"] == "DAMAGED", damaged, report["problems"])
        for words in ["strip", path, "-o", out, "--force", *take], ["pack", path, "-o", f"{out}.zip", "--force"]:
            result = self.run_program(*words)
            self.assertEqual(result.returncode, CORRUPT if damaged else 0, result.stdout + result.stderr)
            if damaged:
                self.assertIn(report["problems"][0]["message"], result.stderr)

    def test_strip_and_pack_judge_units_of_a_step_together(self):
        sound = ([1, 2], 0, None), ([1, 2], 2, None)
        for name, ranks, damaged in (("as they are", sound, False), ("no rank holds token 3", (sound[0], ([1, 2], 1, None)), True),
                                     ("packed otherwise", (([1, 2], 0, [0, 1]), ([1, 2], 2, [0, 0])), True),
                                     ("a rank is missing", sound[:1], True)):
            with self.subTest(name):
                dump = self.steps(*ranks)
                dump.units["rollout/0.h5"]["0/group_id"] = array([0, 0], "u64")
                self.shared(dump, damaged, ["--columns", "group_id"])
        dump.meta["ranks"], dump.complete = 2, False  # the other rank's writer died: no such step is there
        self.shared(dump, False, ["--columns", "group_id"])
        # However many units the rank that is there has: here with events in one of their own.
        dump.units["train/0-0a/rank0.h5"] = {
            f"0-0/{name.split('/', 1)[1]}": dataset
            for name, dataset in self.loaded.units["train/1-0/rank0.h5"].items() if "/events/" in name}
        self.shared(dump, False, ["--columns", "group_id"])

        def copied(unit, other, of):
            dump = copy.deepcopy(self.loaded)
            dump.units[other] = {name: dataset for name, dataset in dump.units[unit].items() if of in name}
            return dump
        events = copied("train/1-0/rank0.h5", "train/1-0a/rank0.h5", "/events/")
        self.shared(events, True, ["--texts"])
        self.shared(copied("rollout/1.h5", "rollout/1a.h5", ""), True, ["--texts"])
        replica = copied("train/1-0/rank0.h5", "train/1-0/rank1.h5", "/")
        for name in [name for name in replica.units["train/1-0/rank1.h5"] if "/events/" in name]:
            del replica.units["train/1-0/rank1.h5"][name]
        for change in 0, 0.5:  # of which verify says that they contradict each other: whole samples of two ranks
            probs = replica.at("train/1-0/rank1.h5", "1-0/log_probs")
            replica.units["train/1-0/rank1.h5"]["1-0/log_probs"] = probs.reshaped(probs.values - change)
            self.shared(replica, False, ["--texts"])


if __name__ == "__main__":
    unittest.main()
