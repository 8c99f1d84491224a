"""diff reads little of large dumps; verify finds what is missing or contradicts itself.
usage: dumps_test.py PROGRAM

RLREPLAY_FULL=1 makes the large dump above 100 MB, else it is a tenth of that.
"""
import copy
import json
import os
import pathlib
import pickle
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import unittest
import zipfile

from support import FULL, SEED, Case

sys.path.append(str(pathlib.Path(__file__).parents[1] / "foreign"))
from make_fixtures import Array

Case.program = os.path.abspath(sys.argv[1])
del sys.argv[1:2]

ROLLOUTS, SAMPLES, PROMPT = 48, 8, 4
TOKENS = 36000 if FULL else 3000  # of a sample


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def next_float(x):
    return struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", x))[0] + 1))[0]


class Large(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        print("seed", SEED)
        rng = random.Random(SEED)
        cls.lines = []
        for rollout in range(ROLLOUTS):
            for s in range(SAMPLES):
                values = [f32(-rng.random() * 4) for _ in range(TOKENS - PROMPT)]
                row = {"rollout_id": rollout, "sample_id": rollout * SAMPLES + s,
                       "prompt_length": PROMPT}
                cls.lines.append({"schema": "rlreplay.sample/1", **row, "reward": float(s % 2),
                                  "tokens": [7] * PROMPT + [int(-x * 8000) for x in values],
                                  "log_probs": values})
                cls.lines.append({"schema": "rlreplay.train/1", **row, "step_id": 0,
                                  "rank": s % 2, "length": TOKENS, "old_log_probs": values[::-1]})
        cls.good = cls.written("good", lambda lines: None)

    @classmethod
    def written(cls, name, change):
        """A dump of the lines after a change, which is taken back."""
        lines = list(cls.lines)
        change(lines)
        path = cls.folder / (name + ".jsonl")
        with open(path, "w") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")
        result = cls.run_program("import", path, "-o", cls.folder / name)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        path.unlink()
        return cls.folder / name

    def diff(self, other):
        """What diff says, and how many bytes it read of anything."""
        command = shlex.join(map(str, [self.program, "diff", "--json", "--trust-hashes",
                                              self.good, other]))
        result = subprocess.run(["bash", "-c", command + "; echo $?; cat /proc/$$/io"],
                                capture_output=True, text=True)
        found = json.loads(result.stdout.splitlines()[0])
        self.assertEqual(result.stdout.splitlines()[1], "1", result.stderr)
        return found, int(re.search(r"rchar: (\d+)", result.stdout).group(1))

    @staticmethod
    def change(at, column, i):
        """A change of the line `at`, of its element `i`."""
        def apply(lines):
            lines[at] = copy.deepcopy(lines[at])
            value = lines[at][column]
            if column == "reward":
                lines[at][column] = 0.25
            elif column == "tokens":
                value[i] += 1
            else:
                value[i] = next_float(value[i])
        return apply

    def test_of_several_differences_the_first_is_named(self):
        place = 2 * (20 * SAMPLES + 5)
        changes = [self.change(2 * 31 * SAMPLES, "reward", None), self.change(place, "tokens", 90),
                   self.change(place, "log_probs", 77), self.change(place, "tokens", 85),
                   self.change(place + 2, "tokens", 9)]
        found, _ = self.diff(self.written("several", lambda lines: [c(lines) for c in changes]))
        first = found["first"]
        self.assertEqual((first["rollout_id"], first["field"]), (20, "rollout/tokens"))
        self.assertEqual((first["sample"], first["token"]), (20 * SAMPLES + 5, 85))
        self.assertEqual({f["field"]: f["different"] for f in found["fields"] if not f["equal"]},
                         {"rollout/tokens": 3, "rollout/log_probs": 1, "rollout/rewards": 1})

    def test_each_difference_is_named_and_little_is_read(self):
        stored = sum(p.stat().st_size for p in self.good.rglob("*.h5"))
        if FULL:
            self.assertGreater(stored, 100e6)
        place = 2 * (20 * SAMPLES + 5)

        def shard(lines):
            for at in range(2 * 20 * SAMPLES, 2 * 21 * SAMPLES):
                if lines[at].get("rank") == 1:
                    self.change(at, "old_log_probs", 0)(lines)

        for name, planted, field, token, rank in (
                ("token", self.change(place, "tokens", 77), "rollout/tokens", 77, None),
                ("ulp", self.change(place, "log_probs", 77), "rollout/log_probs", 77 + PROMPT, None),
                ("reward", self.change(place, "reward", None), "rollout/rewards", None, None),
                ("shard", shard, "train/old_log_probs", PROMPT, 1)):
            with self.subTest(name):
                other = self.written(name, planted)
                found, read = self.diff(other)
                first = found["first"]
                self.assertEqual(first["field"], field)
                self.assertEqual(first["rollout_id"], 20)
                self.assertEqual(first["sample"], 20 * SAMPLES + (1 if rank else 5))
                self.assertEqual((first["token"], first["rank"]), (token, rank))
                if name in ("ulp", "shard"):
                    self.assertEqual(first["ulps"], 1)
                different = {f["field"]: f["different"] for f in found["fields"] if not f["equal"]}
                self.assertEqual(different, {field: SAMPLES // 2 if rank else 1})
                # Of the two dumps; the program's own libraries are among what it reads.
                print(name, "read", read, "of", 2 * stored, f"{read / 2 / stored:.2%}")
                self.assertGreater(found["bytes_read"], 0)
                self.assertLess(found["bytes_read"], 0.05 * 2 * stored)
                self.assertLess(read, 0.05 * 2 * stored)
                if rank:
                    units = [unit for d in (self.good, other) for unit in (d / "train/20-0").iterdir()]
                    self.assertEqual(found["bytes_read"], sum(u.stat().st_size for u in units))


def save(path, content):
    """A file as torch.save writes it, of lists and numbers alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(path.stem + "/data.pkl", pickle.dumps(content, 2))
        archive.writestr(path.stem + "/version", "3\n")


def rank_file(rank, samples):
    """One rank's training data as slime wrote it; samples: index to log-probability."""
    data = {"tokens": [[1, 2, 3, 4]] * len(samples), "total_lengths": [4] * len(samples),
            "response_lengths": [2] * len(samples), "loss_masks": [[1, 1]] * len(samples),
            "rewards": [0.5] * len(samples), "sample_indices": list(samples),
            "rollout_ids": list(samples), "global_batch_sizes": [4],
            "log_probs": [[x, x] for x in samples.values()]}
    return {"rollout_id": 0, "rank": rank, "rollout_data": data}


class Verify(Case):
    def problems(self, path, *flags, code=1):
        found, = self.lines("verify", path, *flags, code=code)
        return [(p["code"], p["message"]) for p in found["problems"]]

    def foreign(self, name, *ranks):
        for rank, samples in ranks:
            save(self.folder / name / f"train_data/0_{rank}.pt", rank_file(rank, samples))
        return self.folder / name

    def test_ranks_of_foreign_files(self):
        halves = (0, {0: -0.5, 2: -0.25}), (1, {1: -1.0, 3: -2.0})
        self.assertEqual(self.problems(self.foreign("whole", *halves), code=0), [])
        (code, message), = self.problems(self.foreign("half", halves[0]), code=3)
        self.assertEqual(code, "rank-missing")
        self.assertIn("the file of rank 0 holds 2", message)
        # One file stands for itself.
        self.assertEqual(self.problems(self.folder / "half/train_data/0_0.pt", code=0), [])
        copies = halves[0], (1, dict(halves[0][1])), (2, halves[1][1]), (3, {1: -1.0, 3: -2.5})
        (code, message), = self.problems(self.foreign("copies", *copies))
        self.assertEqual(code, "replica-mismatch")
        self.assertIn("rank 3", message)

    def run_files(self, name, rollouts, trained):
        for rollout in rollouts:
            samples = [{"index": i, "group_index": 0, "tokens": [1, 2, 3, 4], "response_length": 2,
                        "reward": 1.0, "loss_mask": [1, 1], "status": "completed"}
                       for i in range(2)]
            save(self.folder / name / f"rollout_data/{rollout}.pt",
                 {"rollout_id": rollout, "samples": samples})
        for rollout in trained:
            content = {**rank_file(0, {0: -0.5, 1: -1.0}), "rollout_id": rollout}
            content["rollout_data"]["global_batch_sizes"] = [2]
            save(self.folder / name / f"train_data/{rollout}_0.pt", content)
        return self.folder / name

    def test_rollouts_against_steps(self):
        """Of foreign files, and of what was imported from them."""
        wanted = {"both": ([], ()), "ahead": ([], ()), "gone steps": (["step-missing"], (3,)),
                  "gone samples": (["sample-unknown"], (1,))}
        for name, rollouts, trained in (("both", (3, 4), (3, 4)), ("ahead", (3, 4, 5), (3, 4)),
                                        ("gone steps", (3, 4), (4,)),
                                        ("gone samples", (4,), (3, 4))):
            files = self.run_files(name, rollouts, trained)
            made = self.run_program("import", files, "-o", self.folder / f"{name} imported")
            self.assertEqual(made.returncode, 0, made.stderr)
            for path in (files, self.folder / f"{name} imported"):
                result = self.run_program("verify", path, "--json")
                found = json.loads(result.stdout)["problems"]
                self.assertEqual([p["code"] for p in found], wanted[name][0], (path, found))
                self.assertIn(result.returncode, wanted[name][1] or (0,), path)
                for problem in found:
                    self.assertEqual(problem["dataset"], "rollout 3")

    def test_two_runs_are_not_one(self):
        for run in ("a", "b"):
            self.run_files(f"two/{run}", (0,), (0,))
        (code, message), = self.problems(self.folder / "two")
        self.assertEqual(code, "two-runs")
        self.assertIn("a/rollout_data/0.pt holds rollout 0, too", message)

    def test_lines(self):
        path = self.folder / "run.jsonl"
        row = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 7, "prompt_length": 1,
               "tokens": [1, 2, 3], "log_probs": [-1.0, -0.5]}
        path.write_text(json.dumps(row) + "\n")
        for deep in ((), ("--deep",)):
            self.assertEqual(self.problems(path, *deep, code=0), [])
        self.assertIn("rlreplay verify --deep", self.run_program("verify", path).stdout)
        path.write_text(json.dumps({**row, "log_probs": ["7fc00000", -0.5]}) + "\n")
        (code, message), = self.problems(path, "--deep")
        self.assertEqual(code, "non-finite")
        path.write_text(json.dumps(row) + "\n{\n")
        (code, message), = self.problems(path, code=3)
        self.assertEqual(code, "corrupt")

    def test_ranks_of_a_dump(self):
        row = {"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "prompt_length": 1,
               "tokens": [1, 2, 3], "loss_mask": [1, 1], "old_log_probs": [-1.0, -0.5]}
        other = {**row, "sample_id": 1, "rank": 1}
        lines = [{**row, "sample_id": 1, "rank": 0}, other]

        def dump(name):
            path = self.folder / (name + ".jsonl")
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            result = self.run_program("import", path, "-o", self.folder / name)
            self.assertEqual(result.returncode, 0, result.stderr)
            return self.folder / name

        self.assertEqual(self.problems(dump("agree"), "--deep", code=0), [])
        other["old_log_probs"] = [-1.0, -0.25]
        path = dump("disagree")
        self.assertEqual(self.problems(path, code=0), [])
        (code, message), = self.problems(path, "--deep")
        self.assertEqual(code, "replica-mismatch")
        self.assertIn("other old_log_probs in train/0-0/rank1.h5 than in "
                      "train/0-0/rank0.h5 (token 2: -0.25, not -0.5)", message)
        lines.append({**row, "sample_id": 1, "step_id": 1, "rank": 0})
        with self.assertRaisesRegex(AssertionError, "of 2 ranks, no line of step 0-1 is of these: 1;"):
            dump("shorter")
        lines[:] = [other]
        with self.assertRaisesRegex(AssertionError, "of 2 ranks, no line of step 0-0 is of these: 0;"):
            dump("gone")
        other["old_log_probs"], other["rank"] = ["7fc00000", -0.25], 0
        (code, message), = self.problems(dump("nan"), "--deep")
        self.assertEqual((code, message), ("non-finite",
                                           "old_log_probs of sample 1 is nan at token 1"))


class Told(Case):
    """What a framework's files say beside samples and columns, and against each other."""

    def folder_of(self, name, ranks=(), samples=None):
        """`ranks`: number, samples and what its rollout_data has beside or instead."""
        for rank, of, more in ranks:
            content = rank_file(rank, of)
            content["rollout_data"].update(more)
            for key in [key for key, value in more.items() if value is None]:
                del content["rollout_data"][key]
            save(self.folder / name / f"train_data/0_{rank}.pt", content)
        if samples is not None:
            rows = [{"index": i, "group_index": 0, "tokens": [1, 2, 3, 4], "response_length": 2,
                     "rollout_log_probs": [-1.0, -0.5], "reward": float(i % 2),
                     "loss_mask": [1, 1], "status": "completed", "remove_sample": False, **row}
                    for i, row in enumerate(samples)]
            save(self.folder / name / "rollout_data/0.pt", {"rollout_id": 0, "samples": rows})
        return self.folder / name

    def imported(self, path):
        result = self.run_program("import", path, "-o", f"{path}.imported")
        self.assertEqual(result.returncode, 0, result.stderr)
        return pathlib.Path(f"{path}.imported")

    def codes(self, path, code):
        found, = self.lines("verify", "--deep", path, code=code)
        return {problem["code"] for problem in found["problems"]}

    def different(self, a, b, *flags, code=1):
        """What differs, by field, and all that was said."""
        found, = self.lines("diff", a, b, *flags, code=code)
        fields = {f["field"]: (f["different"], f["missing"]) for f in found["fields"]
                  if not f["equal"]}
        return fields, found

    def test_a_sample_taken_out_of_training(self):
        """slime and Miles set its mask to zeros when they make training data."""
        whole = self.folder_of("removed no", samples=[{}] * 4)
        out = self.folder_of("removed", samples=[{}, {"remove_sample": True}, {}, {}])
        zeros = self.folder_of("zeros", samples=[{}, {"loss_mask": [0, 0]}, {}, {}])
        none = self.folder_of("none", samples=[{"loss_mask": None},
                                               {"loss_mask": None, "remove_sample": True}, {}, {}])
        fields, found = self.different(whole, out)
        self.assertEqual(fields, {"rollout/removed": (1, 0)})
        self.assertEqual([found["first"][k] for k in ("sample", "a", "b")], [1, "0", "1"])
        self.assertIn("its mask counts as zeros", self.run_program("show", out, "--sample", "1").stdout)

        def loss(path):
            # 1: the recorded log-probabilities are not the demo's.
            step, = self.lines("train", path, "--model", "demo", "--lr", "5e-4", code=1)
            return step["loss"]
        self.assertEqual(loss(out), loss(zeros))
        self.assertEqual(loss(none), loss(zeros))
        self.assertNotEqual(loss(out), loss(whole))
        trained = self.folder_of("trained", [(0, dict.fromkeys(range(4), -0.5), {})],
                                 [{}, {"remove_sample": True}, {}, {}])
        self.assertEqual(self.codes(self.imported(trained), 1), {"removed-mismatch"})
        lines = self.folder / "removed.jsonl"
        self.run_program("export", self.imported(out), "--to", "jsonl", "-o", lines)
        self.assertEqual(self.different(out, lines, code=0)[0], {})

    def test_copies_that_contradict_each_other(self):
        """The last stage of a pipeline computes the loss: its copy is the step's. What the other
        one says is kept, and told of the imported dump too."""
        of = {0: -0.5, 1: -1.0, 2: -0.25, 3: -2.0}
        right, wrong = [[-1.0, -1.0]] * 4, [[-1.0, -1.0]] * 3 + [[-1.0, -9.0]]
        first = {"log_probs": None, "rollout_log_probs": wrong}
        dump = self.imported(self.folder_of("stages", [(0, of, first),
                                                       (1, of, {"rollout_log_probs": right})]))
        sound = self.imported(self.folder_of("sound", [(0, of, {**first, "rollout_log_probs": right}),
                                                       (1, of, {"rollout_log_probs": right})]))
        self.assertEqual(self.codes(sound, 0), set())
        self.assertEqual(self.codes(dump, 1), {"replica-mismatch"})
        found, = self.lines("verify", "--deep", dump, code=1)
        self.assertIn("sample 3", json.dumps(found["problems"]))
        self.assertIn("train_data/0_", json.dumps(found["problems"]))
        self.assertIn("contradict", self.run_program("mismatch", dump).stdout)
        fields, found = self.different(dump, sound, code=1)
        self.assertFalse(found["identical"])
        self.assertIn("only the files of A contradict each other: replica-mismatch: "
                      "rollout_log_probs of rank 0 differs", " ".join(found["only"]))

    def test_a_missing_copy(self):
        half, other = {0: -0.5, 2: -0.25}, {1: -1.0, 3: -2.0}
        path = self.folder_of("gap", [(0, half, {}), (2, other, {}), (3, other, {})])
        found, = self.lines("verify", path, code=3)
        (problem,) = found["problems"]
        self.assertEqual(problem["code"], "replica-missing")
        self.assertTrue(problem["message"].endswith("that of rank 1"), problem["message"])
        self.assertEqual(self.codes(self.imported(path), 3), {"replica-missing"})

    def test_what_only_a_file_says(self):
        of = {0: -0.5, 1: -1.0, 2: -0.25, 3: -2.0}
        a = self.folder_of("kept a", [(0, of, {"truncated": [0, 0, 0, 0]})])
        b = self.folder_of("kept b", [(0, of, {"truncated": [0, 0, 1, 0]})])
        self.assertEqual(self.different(a, a, code=0)[1]["notes"], [])
        _, found = self.different(a, b, code=0)
        self.assertTrue(found["identical"])
        self.assertEqual(found["kept_files"], 1)
        self.assertEqual(found["notes"], ["kept file train_data/0_0.pt differs "
                                          "(rollout_data.truncated[2]: 0, in B 1): what only the file "
                                          "says is no part of the content"])
        text = self.run_program("diff", a, b).stdout
        self.assertTrue(text.startswith("identical in content; 1 kept file differs\n"), text)
        save(a / "replay/other.pt", {"a": 1})
        (a / "train_data/note.json").write_text("{}")
        found, = self.lines("verify", a)
        self.assertEqual((found["files"], found["other_files"]), (2, 1))
        said = self.run_program("import", a, "-o", self.folder / "named")
        self.assertIn("train_data/note.json", said.stdout)

    def test_files_that_no_import_reads(self):
        """A note says that they differ: they are no part of what is compared."""
        of = {0: -0.5, 1: -1.0, 2: -0.25, 3: -2.0}
        a, b = (self.folder_of(f"others {name}", [(0, of, {})]) for name in "ab")
        for folder, name, text in ((a, "events/0.jsonl", "{}"), (b, "events/0.jsonl", "[]"),
                                   (a, "same.txt", "x"), (b, "same.txt", "x"), (b, "board.html", "x")):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        os.mkfifo(a / "pipe")
        os.mkfifo(b / "pipe")
        _, found = self.different(a, b, code=0)
        self.assertTrue(found["identical"])
        why = ": only .pt files are read, and it is no part of the content"
        self.assertEqual(found["notes"], ["events/0.jsonl differs" + why,
                                          "pipe was not compared (it cannot be read)" + why,
                                          "board.html is only in B" + why])
        self.assertEqual(self.different(a, a, code=0)[1]["notes"], [])
        for i in range(9):
            (a / f"{i}.log").write_text("")
        _, found = self.different(a, b, code=0)
        self.assertEqual(found["notes"][-1], "and 6 more files of this kind")

    def test_sums_of_masks(self):
        """They are compared by what they mean, and held against the masks."""
        of = {0: -0.5, 1: -1.0, 2: -0.25, 3: -2.0}
        a = self.folder_of("sums a", [(0, of, {"rollout_mask_sums": [2, 2, 2, 2]})])
        b = self.folder_of("sums b", [(0, of, {"rollout_mask_sums": [2, 2, 2, 1]})])
        fields, found = self.different(a, b)
        self.assertEqual(fields, {"train/trajectory_tokens": (1, 0)})
        self.assertEqual([found["first"][k] for k in ("sample", "a", "b")], [3, "2", "1"])
        self.assertEqual(self.codes(a, 0), set())
        self.assertEqual(self.codes(b, 1), {"mask-sum-mismatch"})
        mask = self.folder_of("sums mask", [(0, of, {"rollout_mask_sums": [2, 2, 2, 2],
                                                     "loss_masks": [[1, 1]] * 3 + [[1, 0]]})])
        self.assertEqual(self.different(a, mask)[0], {"train/loss_mask": (1, 0)})
        self.assertEqual(self.codes(mask, 1), {"mask-sum-mismatch"})
        # Miles has them as one array.
        for sums, same in (([2, 2, 2, 2], a), ([2, 2, 2, 1], b)):
            array = self.folder_of(f"sums {sums}", [(0, of, {"rollout_mask_sums": Array(sums, (4,))})])
            self.assertEqual(self.different(same, array, code=0)[0], {})
        self.assertEqual(self.codes(array, 1), {"mask-sum-mismatch"})
        for number in (float("nan"), float("inf"), -5, 1.5):
            bad = self.folder_of(f"sums {number}", [(0, of, {"rollout_mask_sums": [2, number, 2, 2]})])
            said = self.run_program("diff", a, bad)
            self.assertEqual(said.returncode, 3, said.stdout)
            self.assertIn("sample 1: rollout_mask_sums is", said.stderr)

    def test_what_no_reader_gets_past_is_a_problem(self):
        of = {0: -0.5, 1: -1.0, 2: -0.25, 3: -2.0}
        twice = self.folder_of("twice", [(0, of, {})])
        shutil.copytree(twice / "train_data", twice / "again/train_data")
        self.assertEqual(self.codes(twice, 1), {"two-runs"})
        self.assertIn("hold the same", self.run_program("verify", "--deep", twice).stdout)
        bad = self.folder_of("bad sums", [(0, of, {"rollout_mask_sums": [2, -5, 2, 2]})])
        self.assertEqual(self.codes(bad, 3), {"corrupt"})

    def lines_of(self, name, *rows):
        path = self.folder / (name + ".jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def test_lines_that_say_two_lengths_or_nothing(self):
        """Every verb refuses them alike, and says where."""
        row = {"rollout_id": 0, "sample_id": 0, "tokens": [1, 2, 3], "prompt_length": 1}
        sample, step = {"schema": "rlreplay.sample/1", **row}, {
            "schema": "rlreplay.train/1", "step_id": 0, "rank": 0, **row}
        good = self.lines_of("good", sample, {**step, "length": 3})
        blank = self.folder / "blank.jsonl"
        blank.write_text("\n  \n\n")
        for path, code, words in (
                (self.lines_of("longer", sample, {**step, "length": 4}), 3,
                 ("longer.jsonl:2", "/length", "it is 4, and `tokens` has 3")),
                (self.lines_of("shorter", {**sample, "length": 2}), 3, ("shorter.jsonl:1", "/length")),
                (self.lines_of("empty"), 3, ("empty.jsonl", "the file holds no samples")),
                (blank, 3, ("blank.jsonl", "the file holds no samples")),
                (self.lines_of("newer", {**sample, "schema": "rlreplay.sample/9"}), 4,
                 ("newer.jsonl:1", "/schema", "expected rlreplay.sample/1"))):
            for arguments in (("verify", path), ("verify", "--deep", path), ("show", path),
                              ("diff", path, good), ("diff", good, path),
                              ("import", path, "-o", self.folder / "refused lines")):
                with self.subTest(path=path.name, verb=arguments[:2]):
                    result = self.run_program(*arguments)
                    self.assertEqual(result.returncode, code, result.stdout + result.stderr)
                    said = " ".join((result.stdout + result.stderr).split())
                    for word in words:
                        self.assertIn(word, said)
        self.assertEqual(self.run_program("verify", "--deep", good).returncode, 0)

    def test_what_only_one_says_to_be_as_implied(self):
        """`removed` that is false and no `removed` mean the same, and are not stored alike."""
        def made(name, **more):
            return self.lines_of(name, *(
                {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": i, "tokens": [1, 2],
                 "prompt_length": 1, **more} for i in (5, 6)))

        says, says_not = made("says", removed=False), made("says not")
        result = self.run_program("diff", says, says_not)
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("stored otherwise", result.stdout)
        found, = self.lines("diff", says, says_not, code=1)
        first = found["first"]
        self.assertEqual((found["first"]["sample"], first["a"], first["b"]), (5, "recorded", None))

    def test_fields_are_judged_one_by_one(self):
        """Of samples that several ranks hold a column is that of the rank which has it."""
        row = {"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "sample_id": 0,
               "tokens": [1, 2, 3, 4], "prompt_length": 2, "loss_mask": [1, 1]}

        def step(name, advantage, log_prob):
            return self.lines_of(name, {**row, "rank": 0, "advantages": [advantage, 2.0]},
                                 {**row, "rank": 1, "log_probs": [log_prob, -0.5]})
        a, near, far = step("one", 1.0, -1.0), step("near", 1.0001, -3.0), step("far", 1.0, -3.0)
        flags = "--tolerance", "advantages=1e-3"
        self.assertFalse(self.different(a, near, *flags)[1]["within_tolerance"])
        fields, found = self.different(a, far)
        self.assertEqual(fields, {"train/log_probs": (1, 0)})
        self.assertEqual([found["first"][k] for k in ("a", "b", "token")], ["-1", "-3", 2])

    def test_samples_by_id(self):
        row = {"schema": "rlreplay.sample/1", "rollout_id": 0, "prompt_length": 2,
               "tokens": [1, 2, 3, 4], "finish": "stop", "response": "x" * 70 + "tail"}
        rows = [{**row, "sample_id": i, "prompt_length": 1 + i % 3} for i in range(6)]
        fields, _ = self.different(self.lines_of("all", *rows), self.lines_of("less", *rows[1:]))
        self.assertEqual(fields, {"rollout/samples": (0, 1)})
        for change, a, b in (({"finish": "length"}, "stop", "length"),
                             ({"response": "x" * 70 + "end"}, "..." + "x" * 16 + "tail",
                              "..." + "x" * 16 + "end")):
            other = self.lines_of("other", *rows[:5], {**rows[5], **change})
            text = self.run_program("diff", self.folder / "all.jsonl", other).stdout
            self.assertIn(f"\n  A      {a}\n  B      {b}\n", text)

    def test_another_order(self):
        row = {"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "rank": 0,
               "tokens": [1, 2, 3], "prompt_length": 1, "loss_mask": [1, 1]}
        rows = [{**row, "sample_id": i} for i in range(3)]
        a, b = self.lines_of("order", *rows), self.lines_of("reversed", *rows[::-1])
        found = self.different(a, b, code=0)[1]
        self.assertEqual(found["notes"], ["the samples of step 0 of rollout 0 stand in another "
                                          "order, which is no part of the content"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
