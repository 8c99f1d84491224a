"""Importing what frameworks wrote: nothing is missing silently, nothing is left behind unsaid.

usage: exchange_test.py RLREPLAY
"""
import json
import os
import pathlib
import pickle
import re
import shutil
import struct
import sys
import unittest
import zipfile

import material
import support


class Loader(pickle.Unpickler):
    """Of a file of torch.save, its tensors as the numbers of their storages."""
    ELEMENTS = {"FloatStorage": "f", "DoubleStorage": "d", "LongStorage": "q", "IntStorage": "i",
                "ByteStorage": "B"}

    def __init__(self, archive):
        self.archive, self.root = archive, archive.namelist()[0].split("/")[0]
        super().__init__(archive.open(f"{self.root}/data.pkl"))

    def find_class(self, module, name):
        if name == "_rebuild_tensor_v2":
            return lambda storage, offset, size, *_: storage[offset:] if size else storage[offset]
        return name if module == "torch" else super().find_class(module, name)

    def persistent_load(self, pid):
        content = self.archive.read(f"{self.root}/data/{pid[2]}")
        return struct.unpack(f"<{pid[4]}{self.ELEMENTS[pid[1]]}", content)


def torch_content(path):
    with zipfile.ZipFile(path) as archive:
        return Loader(archive).load()


DOCS = pathlib.Path(__file__).parents[2] / "docs/jsonl.md"


class JsonLines(support.Case):
    """docs/jsonl.md names every key, and of which numbers the bits are binary64."""
    NAN32, NAN64 = "7fc00000", "7ff8000000000000"

    def lines(self):
        sample = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0, "group_id": 0,
                  "trajectory_id": 4, "prompt_length": 1, "tokens": [1, 2, 3],
                  "log_probs": [self.NAN64, -2.0], "wide": ["log_probs"], "loss_mask": [1, 1],
                  "removed": True, "nucleus": {"sizes": [1, 2], "ids": [2, 3, 4]}, "reward": self.NAN64,
                  "reward_components": {"a": self.NAN64, "b": 1.0}, "columns": ["b", "a"],
                  "finish": "stop", "versions": [3], "version_starts": [1], "prompt": "p",
                  "calls": [{"first": 1, "length": 1, "finish": "length", "truncated": True, "version": 3,
                             "seed": -2 ** 63, "temperature": 0.5},
                            {"first": 2, "length": 1, "finish": "stop", "truncated": False, "version": -1,
                             "seed": 1, "temperature": 1.0, "latency": 0.125}], "roles": [3, 1, 2],
                  "response": "r", "label": "l",
                  "experts": {"layers": 1, "slots": 1, "ids": [0, 1, 2], "layer_ids": [5],
                              "gates": [0.5, self.NAN32, 0.25], "recorded": [1, 1, 0]}}
        columns = {f"{name}log_probs": [self.NAN32, -1.0] for name in
                   ("", "old_", "ref_", "teacher_", "rollout_")}
        train = {"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "rank": 0,
                 "sample_id": 0, "length": 3, "tokens": [1, 2, 3], "prompt_length": 1,
                 "loss_mask": [1, 1],
                 "reward": self.NAN64, "trajectory_id": 4, "trajectory_tokens": 2,
                 "micro_batch": 0, "token_weights": [0.0, self.NAN64, 1.0], **columns}
        step = {"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": 0,
                "scalars": {"b": self.NAN64, "a": 1.0}, "columns": ["b", "a"]}
        return [sample, train, step]

    def test_ids_that_binary64_cannot_hold(self):
        ids = [2 ** 53 + 1, 2 ** 56 + 1, 2 ** 63 - 1, 2 ** 64 - 1]
        rows = [{"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": i, "group_id": i,
                 "trajectory_id": i, "prompt_length": 1, "tokens": [1, 2, 3],
                 "log_probs": [-1.0, -2.0]} for i in ids]
        one, other, dump = (self.folder / name for name in ("ids.jsonl", "other.jsonl", "ids"))
        one.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.assertEqual(self.run_program("import", one, "-o", dump).returncode, 0)
        back = self.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout
        self.assertEqual([json.loads(line) for line in back.splitlines()], rows)
        picked = self.run_program("export", dump, "--samples", ids[1], "--to", "jsonl", "-o", "-")
        self.assertEqual(json.loads(picked.stdout), rows[1])
        shown, = super().lines("show", dump, "--sample", ids[1])
        self.assertEqual([shown[key] for key in ("sample_id", "group_id", "trajectory_id")],
                         [ids[1], [ids[1]], [ids[1]]])
        self.assertEqual(self.run_program("show", dump, "--sample", ids[1] - 1).returncode, 2)
        rows[1]["log_probs"][0] = -3.0
        other.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found, = super().lines("diff", dump, other, code=1)
        self.assertEqual(found["first"]["sample"], ids[1])

    def test_every_key_is_documented_and_comes_back(self):
        path, dump = self.folder / "all.jsonl", self.folder / "all"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines()))
        made = self.run_program("import", path, "-o", dump)
        self.assertEqual(made.returncode, 0, made.stderr)
        back = [json.loads(line) for line in
                self.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout.splitlines()]
        self.assertEqual(back, self.lines())
        documented = set(re.findall(r"`(\w+)`", DOCS.read_text()))
        spec = re.findall(r"`(\w+)`", (DOCS.parents[1] / "format/SPEC.md").read_text())
        for line in back:
            self.assertLessEqual({key for key in line if not key.endswith("log_probs")}
                                 - {"schema"}, documented)
            self.assertLessEqual({key for key in line if key.endswith("log_probs")}, set(spec))
        for key in ("nucleus", "columns", "wide", "trajectory_tokens"):
            self.assertIn(key, documented)

    def test_whether_a_call_was_truncated_may_be_unknown(self):
        for said in ((True, None), (None, False), (None, None)):
            rows = self.lines()
            for call, truncated in zip(rows[0]["calls"], said, strict=True):
                call["truncated"] = truncated
            path, dump = self.folder / "calls.jsonl", self.folder / "calls"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            made = self.run_program("import", path, "-o", dump, "--force")
            self.assertEqual(made.returncode, 0, made.stderr)
            back = self.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout
            self.assertEqual([json.loads(line) for line in back.splitlines()], rows, said)

    def test_samples_with_images_are_a_difference_beside_the_content(self):
        rows = [{"schema": "rlreplay.sample/1", "rollout_id": 4, "sample_id": i, "prompt_length": 1,
                 "tokens": [1, 2, 3]} for i in range(6)]

        def written(name, *chosen):
            path = self.folder / f"{name}.jsonl"
            path.write_text("".join(json.dumps(
                row | ({"other_inputs": True} if row["sample_id"] in chosen else {})) + "\n"
                for row in rows))
            return path

        paths = {name: written(name, *ids) for name, ids in
                 (("none", ()), ("one", (3,)), ("all", range(6)), ("all again", range(6)))}
        for a, b, count, note in (
                ("none", "one", 1, "sample 3 of rollout 4 has images or sound in B alone"),
                ("all", "none", 6, "sample 0 of rollout 4 and 5 more have images or sound in A alone"),
                ("one", "all", 5, "sample 0 of rollout 4 and 4 more have images or sound in B alone")):
            said = self.run_program("diff", paths[a], paths[b]).stdout
            self.assertEqual(said.splitlines()[0], f"identical in content; {count} sample" + (
                " has" if count == 1 else "s have") + " images or sound in one only")
            self.assertIn(note, " ".join(said.split()))
            found, = super().lines("diff", paths[a], paths[b])
            self.assertEqual((found["other_inputs"], len(found["notes"])), (count, 1))
        self.assertEqual(self.run_program("diff", paths["all"], paths["all again"])
                         .stdout.splitlines()[0], "identical")

    def test_a_line_that_would_lose_something_is_refused(self):
        """By line and key; what stood there before stays."""
        sample, train, step = self.lines()
        old = self.folder / "old"
        cases = [
            ([sample, step, {**step, "scalars": {"c": 1.0}, "columns": ["c"]}], ":3 /scalars", "0-0"),
            ([sample, {**step, "columns": ["b", "b"]}], ":2 /columns/1", '"b"'),
            ([sample, {**step, "advantages": [1]}], ":2", '"advantages"'),
            ([sample, train, train], ":3 /sample_id", "the id 0 too"),
            ([sample, {**train, "rank": 2 ** 63 - 1}], ":2 /rank", "1048575"),
            ([sample, {**step, "rank": 2 ** 20}], ":2 /rank", "1048575"),
            ([sample, {**step, "scalars": {"": 1, "a": 2}, "columns": None}], ":2 /scalars", '""'),
            ([{**sample, "experts": {**sample["experts"], "ranks": 1}}], ":1 /experts", '"ranks"'),
            ([{**sample, "experts": {**sample["experts"], "gates": [1]}}], ":1 /experts/gates", "expected 3"),
            ([{**sample, "experts": {**sample["experts"], "recorded": [1, 1, 2]}}], ":1 /experts/recorded/2", ""),
            ([sample, {**sample, "sample_id": 1, "columns": None, "reward_components": {"a": 1, "b": 1},
                       "experts": {**sample["experts"], "layer_ids": [6]}}], ":2 /experts", "`layer_ids` are [6]"),
            ([{**sample, "nucleus": {**sample["nucleus"], "id": [1]}}], ":1 /nucleus", '"id"'),
            ([sample, {**sample, "sample_id": 1, "columns": None,
                       "reward_components": {"a": 1, "b": 1, "c": 1}}], ":2 /reward_components", ""),
            ([{**sample, "wide": ["log_prob"]}], ":1 /wide/0", 'did you mean "log_probs"?'),
            ([json.dumps(sample)[:-1] + ', "reward": 7}'], ":1", '"reward"'),
            ([{**sample, "group_id": 2 ** 64}], ":1 /group_id", "18446744073709551615"),
            ([{**sample, "group_id": -1}], ":1 /group_id", "18446744073709551615"),
            *(([{**sample, "wide": [], "log_probs": [x, -1.0]}], ":1 /log_probs/0", "binary32")
              for x in (1e39, -1e39, 3.4028236e38)),
            ([{**sample, "experts": {**sample["experts"], "gates": [0, 0, 1e39]}}],
             ":1 /experts/gates/2", "binary32"),
            ([sample, {**train, "kl": [1e39, 1]}], ":2 /kl/0", "binary32"),
            ([sample, json.dumps(step).replace('"a": 1.0', '"a": 1.0, "a": 2.0')], ":2", '"a"')]
        for number, (lines, where, key) in enumerate(cases):
            path = self.folder / f"lossy {number}.jsonl"
            path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n"
                                    for line in lines))
            with self.subTest(lines=lines):
                said = self.run_program("import", path, "-o", old, "--json")
                self.assertEqual(said.returncode, 3, said.stdout + said.stderr)
                error = json.loads(said.stdout)["error"]
                self.assertTrue(error["where"].endswith(where), error)
                self.assertIn(key, error["message"])
                self.assertFalse(old.exists())

    def test_the_largest_number_of_binary32(self):
        train = {**self.lines()[1], "old_log_probs": [-3.4028235e38, "ff800000"]}
        path, dump = self.folder / "largest.jsonl", self.folder / "largest"
        path.write_text(json.dumps(train) + "\n")
        self.lines_of_import(path, dump)
        back = self.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout
        self.assertEqual(json.loads(back.splitlines()[0]), train)

    def test_every_step_has_the_ranks_of_the_others(self):
        row = {"schema": "rlreplay.train/1", "rollout_id": 0, "length": 1, "log_probs": [-1.0]}
        def imported(places, code=0):
            path = self.folder / "ranks.jsonl"
            path.write_text("".join(json.dumps({**row, "step_id": step, "rank": rank, "sample_id": i})
                                    + "\n" for i, (step, rank) in enumerate(places)))
            out = self.run_program("import", path, "-o", self.folder / "ranks", "--force", "--json")
            self.assertEqual(out.returncode, code, out.stdout + out.stderr)
            return json.loads(out.stdout.splitlines()[-1])
        whole = [(0, 0), (0, 1), (1, 0), (1, 1)]
        for gone, (step, rank) in enumerate(whole):
            said = imported(whole[:gone] + whole[gone + 1:], code=3)["error"]["message"]
            self.assertIn(f"of 2 ranks, no line of step 0-{step} is of these: {rank};", said)
        imported([(0, 1), (1, 1)], code=3)
        self.assertEqual(imported(whole)["steps"], 2)
        alone, gap = imported([(0, 0), (3, 0)])["findings"]
        self.assertEqual(alone["code"], "rollouts-absent")
        self.assertEqual((gap["code"], gap["message"]),
                         ("step-missing", "2 steps are missing between the first and the last"))
        part, again = self.folder / "part.jsonl", self.folder / "part"
        rollout = [json.dumps({"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": i,
                               "prompt_length": 0, "tokens": [i]}) for i in range(4)]
        with open(self.folder / "ranks.jsonl", "a") as file:
            file.write("\n".join(rollout) + "\n")
        self.run_program("import", self.folder / "ranks.jsonl", "-o", self.folder / "ranks", "--force")
        done = self.run_program("export", self.folder / "ranks", "--samples", "0", "--to", "jsonl",
                                "-o", part)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.run_program("import", part, "-o", again).returncode, 0)
        back = self.run_program("export", again, "--to", "jsonl", "-o", "-").stdout
        self.assertEqual(back, part.read_text())
        self.assertEqual(self.run_program("verify", again).returncode, 0)

    def test_what_no_reader_takes_is_not_written(self):
        sample, _, step = self.lines()
        path, dump = self.folder / "names.jsonl", self.folder / "names"
        path.write_text(json.dumps(sample) + "\n")
        self.lines_of_import(path, dump)
        before = support.root(self.program, dump)
        many = {f"number {i:06}": 0.5 for i in range(5000)}
        for scalars, code, what in ((many, 4, "bytes"), ({"a\0b": 1.0}, 4, "NUL")):
            path.write_text("".join(json.dumps(line) + "\n" for line in
                                    (sample, {**step, "scalars": scalars, "columns": None})))
            said = self.run_program("import", path, "-o", dump, "--force", "--json")
            self.assertEqual(said.returncode, code, said.stdout + said.stderr)
            self.assertIn(what, json.loads(said.stdout)["error"]["message"])
            self.assertIn("0-0/scalars", json.loads(said.stdout)["error"]["where"])
            self.assertEqual(support.root(self.program, dump), before)

    def lines_of_import(self, path, dump):
        said = self.run_program("import", path, "-o", dump)
        self.assertEqual(said.returncode, 0, said.stderr)


class Import(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        dump, _ = cls.capture("dump", "--model", "demo", "--num-rollout", "2",
                              "--rollout-batch-size", "2", "--n-samples-per-prompt", "4")
        cls.slime = cls.folder / "slime"
        cls.run_program("export", dump, "--to", "slime", "-o", cls.slime)

    def copied(self):
        folder = self.folder / "copied"
        shutil.rmtree(folder, ignore_errors=True)
        return shutil.copytree(self.slime, folder)

    def imported(self, folder, code=0):
        result = self.run_program("import", folder, "-o", self.folder / "imported", "--force", "--json")
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_a_missing_rank_is_refused_before_anything_is_read(self):
        folder = self.copied()
        for name in ("0_0", "0_1", "1_0"):
            (folder / "train_data" / f"{name}.pt").write_text("not even a torch file")
        error = self.imported(folder, code=3)["error"]
        self.assertIn("train_data/1_1.pt is not there, and rank 1 has a file of rollout 0",
                      error["message"])
        self.assertTrue(error["where"].endswith("1_1.pt"), error)

    def test_what_is_no_torch_file_is_named(self):
        folder = self.copied()
        (folder / "trajectory").mkdir()
        (folder / "notes.txt").write_text("x")
        for name in ("0.jsonl", "1.jsonl"):
            (folder / "trajectory" / name).write_text("{}\n")
        findings = {f["code"]: f["message"] for f in self.imported(folder)["findings"]}
        self.assertIn("notes.txt, trajectory/ (2 files)", findings["not-imported"])

    def test_links_are_followed_once(self):
        folder, whole = self.copied(), self.imported(self.slime)
        for name in ("train_data", "rollout_data"):
            (folder / name).rename(self.folder / f"away {name}")
            (folder / name).symlink_to(self.folder / f"away {name}")
        (folder / "rollout_data" / "loop").symlink_to(folder)
        linked = self.imported(folder)
        for name in ("train_data", "rollout_data"):
            shutil.rmtree(self.folder / f"away {name}")
        for key in ("rollouts", "steps", "samples", "tokens"):
            self.assertEqual(linked[key], whole[key])

    def test_a_file_that_is_none_is_refused(self):
        for make, sentence in ((lambda p: os.mkfifo(p), "pipe"),
                               (lambda p: p.symlink_to("nowhere"), "No such file"),
                               (lambda p: p.symlink_to("/dev/zero"), "device")):
            folder = self.copied()
            path = folder / "rollout_data" / "0.pt"
            path.unlink()
            make(path)
            error = self.imported(folder, code=3)["error"]
            self.assertIn(sentence, error["message"])
            self.assertTrue(error["where"].endswith("0.pt"), error)

    def test_a_folder_of_a_run_that_is_none_is_refused(self):
        for make in (os.mkfifo, lambda p: p.symlink_to("nowhere"), lambda p: p.write_text("")):
            folder = self.copied()
            shutil.rmtree(folder / "rollout_data")
            make(folder / "rollout_data")
            for error in (self.imported(folder, code=3)["error"],
                          json.loads(self.run_program("verify", folder, "--json").stdout)["error"]):
                self.assertIn("keeps a folder of this name", error["message"])
                self.assertTrue(error["where"].endswith("rollout_data"), error)

    def test_like_findings_are_said_once(self):
        lines = self.run_program("import", self.slime, "-o", self.folder / "imported",
                                 "--force").stdout.splitlines()
        findings = [line.split(" (")[0] for line in lines if line.startswith("finding ")]
        self.assertEqual(len(findings), len(set(findings)), lines)

    def test_experts_of_one_rollout_have_one_shape(self):
        path = self.folder / "experts.jsonl"
        row = {"schema": "rlreplay.sample/1", "rollout_id": 0, "prompt_length": 1, "tokens": [1, 2]}
        shapes = ((0, {"layers": 2, "slots": 1}), (1, {"layers": 1, "slots": 2}))
        path.write_text("".join(
            json.dumps({**row, "sample_id": i, "experts": {**shape, "ids": [0, 1, 2, 3]}}) + "\n"
            for i, shape in shapes))
        self.assertIn("it has 1 layer of 2 slots, the rollout's first line 2 layers of 1 slot",
                      self.imported(path, code=3)["error"]["message"])

    def test_an_error_names_the_file(self):
        folder = self.copied()
        path = folder / "rollout_data" / "1.pt"
        path.write_bytes(path.read_bytes()[:-100])
        self.assertIn("1.pt", self.imported(folder, code=3)["error"]["where"])
        for made in material.folders():
            path = made / "dumps/tricky/base.pt"
            self.assertIn("base.pt: row 0", self.imported(path, code=3)["error"]["where"])


class Export(support.Case):
    """What is not there is refused, and what is not written is named."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", "--model", "demo", "--num-rollout", "3",
                                  "--rollout-batch-size", "2", "--n-samples-per-prompt", "4",
                                  "--record", "tensors")
        cls.made = 0

    def export(self, to, *arguments, output="", code=0, dump=None):
        """The object that is printed, and where the files are."""
        type(self).made += 1
        path = self.folder / f"export {self.made}{output}"
        result = self.run_program("export", dump or self.dump, "--to", to, "-o", path, "--json",
                                  *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout), path

    def refused(self, to, *arguments, output="", dump=None):
        made, path = self.export(to, *arguments, output=output, code=2, dump=dump)
        self.assertFalse(path.exists())
        return made["error"]["message"]

    def test_what_does_not_exist_is_refused(self):
        for to, output in (("slime", ""), ("slime", ".pt"), ("miles", ""), ("jsonl", "")):
            said = self.refused(to, "--groups", "1,99", output=output)
            self.assertEqual(said, "there is no group 99; there are 0..5")
            said = self.refused(to, "--samples", "99", output=output)
            self.assertEqual(said, "there is no sample 99; there are 0..23")
        lines = self.folder / "no groups.jsonl"
        lines.write_text('{"schema":"rlreplay.sample/1","rollout_id":0,"sample_id":0,"tokens":[1]}\n')
        self.run_program("import", lines, "-o", self.folder / "no groups")
        self.assertEqual(self.refused("jsonl", "--groups", "0", dump=self.folder / "no groups"),
                         "there is no group 0: no groups are recorded")

    def test_lines_alone_are_written_to_standard_output(self):
        for to, words in (("slime", "name a folder (or one .pt file) for slime"),
                          ("safetensors", "name a file for safetensors")):
            result = self.run_program("export", self.dump, "--to", to, "-o", "-", cwd=self.folder)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            self.assertEqual(result.stderr, "rlreplay: -o -: jsonl alone is written to standard output: "
                                            f"{words}\n")
            self.assertFalse((self.folder / "-").exists())

    def test_a_dump_that_is_refused_leaves_no_file(self):
        dump = support.patched(self.dump)
        dump.meta["config"]["adam-beta2"] = "-1"
        path = dump.write(self.folder / "bad options")
        for to in ("slime", "jsonl", "safetensors"):
            made, output = self.export(to, dump=path, code=3)
            self.assertIn("adam-beta2", json.dumps(made["error"]))
            self.assertFalse(output.exists(), to)

    def test_one_file_holds_the_rollout_of_the_selection(self):
        made, path = self.export("slime", "--groups", "3", output=".pt")
        self.assertEqual(made["files"], [str(path)])
        shown = self.lines("show", path, "--samples")
        self.assertEqual([(s["rollout_id"], s["sample_id"]) for s in shown],
                         [(1, i) for i in range(12, 16)])
        self.assertIn("training data of 1 step (one .pt file holds a rollout: name a folder)",
                      made["not_written"])
        said = self.refused("slime", "--groups", "3,4", output=".pt")
        self.assertIn("lies in rollouts 1, 2, and one .pt file holds one", said)
        self.assertIn("the dump holds 3 rollouts", self.refused("slime", output=".pt"))

    def test_rollouts_without_a_chosen_sample_are_not_written(self):
        made, path = self.export("slime", "--samples", "13")
        self.assertEqual(sorted(str(p.relative_to(path)) for p in path.rglob("*.pt")),
                         ["rollout_data/1.pt", "train_data/1.pt"])
        _, lines = self.export("jsonl", "--samples", "13")
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
        self.assertEqual({row["rollout_id"] for row in rows}, {1})
        self.assertEqual({row["sample_id"] for row in rows if "sample_id" in row},
                         {12, 13, 14, 15})

    def test_a_selection_fits_together(self):
        """What a folder of chosen samples says of them, and a step's denominators, of all."""
        slime, imported = self.export("slime")[1], self.folder / "imported"
        self.run_program("import", slime, "-o", imported, "--force")
        other = self.dump_of(self.export("jsonl", output=".jsonl")[1], "of lines")
        for number, (dump, trained) in enumerate(((self.dump, True), (imported, False),
                                                  (other, False))):
            made, path = self.export("slime", "--samples", "3,20", dump=dump,
                                     output=f" chosen {number}")
            self.assertEqual(sorted(str(p.relative_to(path)) for p in path.rglob("*.pt")),
                             ["rollout_data/0.pt", "rollout_data/2.pt"]
                             + ["train_data/0.pt", "train_data/2.pt"] * trained)
            told = "training data of 2 steps (of a selection, only what this program trained is written)"
            self.assertEqual(told in made["not_written"], not trained)
            shown = self.lines("show", path, "--samples")
            self.assertEqual([s["sample_id"] for s in shown], [*range(4), *range(20, 24)])
            for flags in ([], ["--deep"]):
                found, = self.lines("verify", *flags, path)
                self.assertEqual(found["problems"], [])
            if trained:
                rows = self.export("jsonl", dump=self.dump_of(path, "chosen dump"))[1].read_text()
                steps = [row for row in map(json.loads, rows.splitlines())
                         if row["schema"] == "rlreplay.step/1"]
                self.assertEqual([row["scalars"]["trajectories"] for row in steps], [8, 8])

    def test_trajectories_of_several_samples_go_through_slime(self):
        """With what their losses are divided by, of samples that the step does not train on too."""
        rows = [{"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": i, "group_id": 0,
                 "trajectory_id": i // 2, "prompt_length": 1, "tokens": [1] * (3 + i),
                 "log_probs": [-0.5] * (2 + i), "reward": 1.0, "finish": "stop"} for i in range(4)]
        train = [{"schema": "rlreplay.train/1", "rollout_id": 0, "step_id": 0, "rank": 0,
                  "sample_id": i, "length": 3 + i, "prompt_length": 1, "loss_mask": [1] * (2 + i), "reward": 1.0,
                  "trajectory_id": i // 2, "old_log_probs": [-0.5] * (2 + i)} for i in range(4)]
        step = {"schema": "rlreplay.step/1", "rollout_id": 0, "step_id": 0, "rank": 0,
                "scalars": {"loss": 1.0}}
        for count, sums, batch in ((4, [5, 5, 9, 9], 2), (3, [5, 5, 9], 2)):
            lines = self.folder / "trajectories.jsonl"
            mine = [{**t, **({"trajectory_tokens": 9} if count == 3 and t["sample_id"] == 2 else {})}
                    for t in train[:count]]
            lines.write_text("".join(json.dumps(row) + "\n" for row in (*rows, *mine, step)))
            dump = self.dump_of(lines, "trajectories")
            _, files = self.export("slime", dump=dump)
            again = self.dump_of(files, "trajectories again")
            said = self.run_program("diff", dump, again)
            self.assertEqual(said.returncode, 0, said.stdout)
            found, = self.lines("verify", "--deep", files)
            self.assertEqual(found["problems"], [])
            # As slime reads it, which looks at no column of ours.
            content = torch_content(files / "train_data/0.pt")
            self.assertEqual([s["rollout_ids"] for s in content["samples"]],
                             [i // 2 for i in range(count)])
            self.assertEqual([s["rollout_mask_sums"] for s in content["samples"]], sums)
            self.assertEqual(content["dp_shards"][0]["global_batch_sizes"], [batch])

    def test_a_selection_brings_trajectories_along(self):
        """As the rollout names them or the step: what a sample says of its trajectory stays true."""
        def line(kind, **said):
            return {"schema": f"rlreplay.{kind}/1", "rollout_id": 0, **said}

        for kinds in (("sample", "train"), ("sample",), ("train",)):
            named = {kind: lambda i, of=kind in kinds: {"trajectory_id": i // 2} if of else {}
                     for kind in ("sample", "train")}
            rows = [line("sample", sample_id=i, prompt_length=1, tokens=[1] * (3 + i), **named["sample"](i))
                    for i in range(6)]
            rows += [line("train", step_id=0, rank=0, sample_id=i, length=3 + i, prompt_length=1,
                          loss_mask=[1] * (2 + i), trajectory_tokens=4 + i + (i ^ 1), **named["train"](i))
                     for i in range(6)]
            rows.append(line("step", step_id=0, rank=0, scalars={}))
            lines = self.folder / "in trajectories.jsonl"
            lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
            _, part = self.export("jsonl", "--samples", "2,5", dump=self.dump_of(lines, "whole"),
                                  output=".jsonl")
            written = map(json.loads, part.read_text().splitlines())
            self.assertEqual([row["sample_id"] for row in written if row["schema"] == "rlreplay.sample/1"],
                             [2, 3, 4, 5], kinds)
            found, = self.lines("verify", "--deep", self.dump_of(part, "part"), code=0)
            self.assertEqual(found["problems"], [])

    def dump_of(self, files, name):
        dump = self.folder / name
        result = self.run_program("import", files, "-o", dump, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        return dump

    def test_what_is_not_written_is_named(self):
        weights = "weights and moments of 1 state (rlreplay capture --resume --save writes the trained ones as a checkpoint)"
        for to in ("miles", "relax"):
            made, path = self.export(to)
            self.assertEqual(made["not_written"],
                             ["training data of 3 steps (it is written for slime, or as it was "
                              "imported)", weights])
            result = self.run_program("export", self.dump, "--to", to, "-o", path, "--force")
            self.assertIn("rlreplay: not written: training data of 3 steps", result.stderr)
        self.assertEqual(self.export("slime")[0]["not_written"], [weights])
        self.assertEqual(self.export("safetensors")[0]["not_written"], [weights])
        self.assertEqual(self.export("jsonl")[0]["not_written"],
                         ["events (lines of JSON have no form for them)", weights])
        # What was imported comes back whole; of a selection, rollouts.
        slime, imported = self.export("slime")[1], self.folder / "imported"
        self.run_program("import", slime, "-o", imported)
        self.assertEqual(self.export("slime", dump=imported)[0]["not_written"], [])
        self.assertEqual(self.export("slime", "--groups", "0", dump=imported)[0]["not_written"][0],
                         "training data of 1 step (of a selection, only what this program trained "
                         "is written)")
        self.assertIn("6 imported files as the framework wrote them (export for the framework that "
                      "did)", self.export("jsonl", dump=imported)[0]["not_written"])

    def test_every_verb_that_selects_refuses_what_is_not_there(self):
        for words, said in (
                (["objective", self.dump, "--steps", "0..9"], "the dump has 3 steps"),
                (["train", self.dump, "--steps", "0..9"], "the dump has 3 steps"),
                (["train", self.dump, "--forward", "--steps", "0..9"], "the dump has 3 steps"),
                (["train", self.dump, "--forward", "--steps", "0", "--samples", "1,9"],
                 "there is no sample 9; there are 0..7"),
                (["train", self.dump, "--forward", "--steps", "0", "--groups", "2"],
                 "there is no group 2; there are 0..1"),
                (["show", self.dump, "--sample", "99"], "there is no sample 99; there are 0..23"),
                (["show", self.dump, "--sample", "13", "--rollout", "0"],
                 "there is no sample 13; there are 0..7"),
                (["show", self.dump, "--rollout", "9", "--samples"],
                 "there is no rollout 9; there are 0..2"),
                (["show", self.dump, "--rollout", "9"], "there is no rollout 9; there are 0..2"),
                (["show", self.dump, "--step", "9.0"],
                 "there is no step 9.0; there are 0.0, 1.0, 2.0"),
                (["show", self.dump, "--step", "1.0", "--rank", "1"],
                 "there is no rank 1; there are 0"),
                (["show", self.dump, "--step", "1.0", "--tensor", "advantage"],
                 "did you mean advantages?")):
            result = self.run_program(*words)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn(said, result.stderr)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
