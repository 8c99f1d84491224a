"""Training in parallel layouts: the same dumps, replays across layouts, and the matrix of one step.

usage: layouts_test.py PROGRAM"""
import json
import os
import subprocess
import sys
import unittest

import h5py
import hdf5plugin  # noqa: F401

import checkpoints
from support import Case, wait_for

Case.program = os.path.abspath(sys.argv.pop(1))
RUN = ["--model", "demo", "--steps", "2", "--rollout-batch-size", "3", "--n-samples-per-prompt", "2",
       "--rollout-max-response-len", "6", "--weights", "all"]
NORM = "1.0/reduce/-/gradient/model.norm.weight:3:1"


class Layouts(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone, cls.steps = cls.capture("alone", *RUN, "--record", "ops")
        cls.without_ops, _ = cls.capture("without ops", *RUN)

    def judged(self, code, *arguments):
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_a_capture_in_a_layout_is_the_capture_of_one_rank(self):
        for layout in ("dp=2,tp=2,zero=1", "tp=2,pp=2,cp=2,sp=1"):
            with self.subTest(layout):
                path, steps = self.capture("in " + layout, *RUN, "--record", "ops", "--layout", layout)
                for here, there in zip(steps, self.steps, strict=True):
                    for key in ("loss_bits", "grad_norm_bits"):
                        self.assertEqual(here[key], there[key])
                self.assertNotIn("not checked", self.judged(0, "verify", "--deep", path).stdout)
                self.assertIn("identical\ncontent", self.judged(0, "diff", self.alone, path).stdout)
                self.judged(0, "train", path)
                self.judged(0, "train", path, "--layout", "pp=2,cp=2")

    def test_each_rank_writes_its_own_units(self):
        path, _ = self.capture("by ranks", *RUN, "--layout", "dp=2,tp=2,zero=1")
        four = {f"rank{rank}.h5" for rank in range(4)}
        for folder in ("train/0-0", "train/1-0", "weights/0-0", "weights/1-0"):
            self.assertEqual({unit.name for unit in (path / folder).iterdir()}, four)
        for rank in range(4):
            units = [json.loads(line)["body"].get("unit") for line in
                     (path / f"journal/{rank}.jsonl").read_text().splitlines()]
            own = {unit["path"] for unit in units if unit and unit["path"].startswith("train/")}
            self.assertEqual(own, {f"train/{step}-0/rank{rank}.h5" for step in (0, 1)})
        with h5py.File(path / "train/1-0/rank3.h5") as unit:
            self.assertEqual(unit["1-0/coordinates"][...].reshape(5, 2).tolist(),
                             [[1, 2], [1, 2], [0, 1], [0, 1], [0, 1]])
        elements = 0
        for rank in range(4):
            with h5py.File(path / f"weights/1-0/rank{rank}.h5") as unit:
                elements += sum(len(d) for d in unit["1-0/exp_avg"].values())
        with h5py.File(self.alone / "weights/1-0/rank0.h5") as unit:
            self.assertEqual(elements, sum(len(d) for d in unit["1-0/exp_avg"].values()))

    def test_samples_that_are_cut_come_back_whole(self):
        """Of leaves of 256 tokens, which context parallelism deals out."""
        model = checkpoints.write(self.folder / "long", checkpoints.config(max_position_embeddings=1200))
        prompts = checkpoints.write_prompts(self.folder / "prompts.jsonl")
        run = ["--model", model, "--prompts", prompts, "--steps", "2", "--rollout-batch-size", "2",
               "--n-samples-per-prompt", "2", "--rollout-max-response-len", "600", "--weights", "all"]
        alone, _ = self.capture("long alone", *run)
        path, _ = self.capture("long in ranks", *run, "--layout", "dp=2,cp=2")
        with h5py.File(path / "train/0-0/rank1.h5") as unit:
            self.assertGreater(len(unit["0-0/log_probs"]), 0)
            self.assertLess(len(unit["0-0/log_probs"]), unit["0-0/lengths"][...].sum())
        self.assertIn("identical\ncontent", self.judged(0, "diff", alone, path).stdout)
        self.assertNotIn("not checked", self.judged(0, "verify", "--deep", path).stdout)
        self.judged(0, "train", path, "--layout", "tp=2,pp=2")

    def test_other_verbs_read_what_ranks_wrote(self):
        path, _ = self.capture("read by verbs", *RUN, "--record", "ops", "--layout", "dp=2,pp=2,cp=2")
        for verb in ("objective", "mismatch"):
            alone, ranks = (self.lines(verb, dump) for dump in (self.alone, path))
            for line in alone + ranks:
                line.pop("path", None)
            self.assertEqual(alone, ranks)
        contents = []
        for name, dump in (("alone", self.alone), ("ranks", path)):
            self.judged(0, "export", dump, "--to", "slime", "-o", self.folder / f"slime {name}")
            self.judged(0, "import", self.folder / f"slime {name}", "-o", self.folder / f"again {name}")
            contents.append(self.lines("verify", "--deep", self.folder / f"again {name}")[-1]["content"])
        self.assertEqual(*contents)
        self.judged(0, "layouts", path, "--try", "tp=2", "--step", "1.0")

    def test_a_capture_goes_on_in_another_layout(self):
        for begun, other, there in (("dp=3", "tp=4", "weights/0-0/rank1.h5"),
                                    ("dp=2,tp=2", "pp=2,cp=2", "train/0-0/rank2.h5"),
                                    ("dp=1", "dp=2,tp=2", "train/0-0/rank0.h5"),
                                    ("tp=2,pp=2,zero=1", "dp=1", "weights/1-0/rank3.h5")):
            with self.subTest(begun + " and " + other):
                path = self.folder / f"{begun} goes on"
                run = subprocess.Popen([self.program, "capture", *RUN, "--record", "ops", "--layout", begun, "-o",
                                        path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                wait_for(lambda: run.poll() is not None or (path / there).exists())
                run.kill()
                run.wait()
                self.judged(0, "verify", path) if run.returncode == 0 else self.run_program("show", path)
                self.judged(0, "capture", "--resume", "--layout", other, "-o", path)
                self.assertIn("identical\ncontent", self.judged(0, "diff", self.alone, path).stdout)
                self.assertNotIn("not checked", self.judged(0, "verify", "--deep", path).stdout)

    def test_a_step_that_not_all_ranks_stored_is_none(self):
        path, _ = self.capture("torn", *RUN, "--layout", "dp=2,tp=2")
        (path / "manifest.json").unlink()
        (path / "units.index").unlink()
        (path / "INCOMPLETE").touch()
        for rank in range(4):  # none has ended, and the last has not come to the end of step 1.0
            journal = path / f"journal/{rank}.jsonl"
            lines = journal.read_text().splitlines(keepends=True)[:-1]
            journal.write_text("".join(lines if rank < 3 else lines[:-1]))
        # Killed between a unit's name and its line: nobody was told of it, and nothing is damaged.
        for depth in ([], ["--quick"], ["--deep"]):
            report, = self.lines("verify", *depth, path, code=3)
            self.assertEqual((report["verdict"], [p["code"] for p in report["problems"]]),
                             ("UNFINISHED", ["unlisted"]))
            self.assertFalse([text for text in report["not_checked"] if "events" in text])
        said = self.judged(3, "verify", path).stdout
        self.assertIn("rlreplay capture --resume goes on", said)
        self.assertIn("no record acknowledges this file yet", said)
        (path / "notes.txt").touch()
        self.assertEqual(self.lines("verify", path, code=3)[0]["verdict"], "DAMAGED")
        (path / "notes.txt").unlink()
        (path / "train/1-0/rank3.h5").unlink()
        self.assertEqual(self.closing("train", path)["steps"], 1)
        self.judged(0, "capture", "--resume", "--layout", "cp=2", "-o", path)
        self.assertIn("identical\ncontent", self.judged(0, "diff", self.without_ops, path).stdout)

    def test_a_reference_is_scored_by_all_ranks(self):
        """It takes turns with the policy, whose weights are the same afterwards."""
        run = [*RUN, "--use-kl-loss", "--kl-loss-coef", "0.1", "--record", "ops"]
        alone, steps = self.capture("reference alone", *run)
        self.assertNotEqual(steps[1]["kl"], 0)
        for words in (["dp=2,tp=2,zero=1"], ["pp=2,cp=2", "--ranks-as", "processes"]):
            path, _ = self.capture("reference in " + words[0], *run, "--layout", *words)
            self.assertIn("identical\ncontent", self.judged(0, "diff", alone, path).stdout)
            self.judged(0, "train", alone, "--layout", *words)

    def test_rollouts_alone_are_shared_too(self):
        run = [*RUN, "--rollout-only", "--record", "ops"]
        alone, _ = self.capture("rollouts alone", *run)
        for words in (["dp=2,tp=2"], ["tp=4,pp=2", "--ranks-as", "processes"]):
            path, _ = self.capture("rollouts in " + words[0], *run, "--layout", *words)
            self.assertIn("identical\ncontent", self.judged(0, "diff", alone, path).stdout)
            self.judged(0, "rollout", alone, "--layout", *words)
            self.judged(0, "rollout", path, "--rollout-slots", "2")

    def test_the_matrix_of_one_step(self):
        result = self.judged(0, "layouts", self.alone, "--ranks", "2")
        self.assertIn("dp=1,tp=2,pp=1,cp=1", result.stdout)
        self.assertTrue(result.stdout.endswith("7 layouts: all identical\n"), result.stdout)
        for switched in ("dp=1,tp=2,pp=1,cp=1,sp=1", "dp=2,tp=1,pp=1,cp=1,zero=1"):
            self.assertIn(switched, result.stdout)
        lines = self.lines("layouts", self.alone, "--try", "dp=2,tp=2;tp=8", "--step", "1.0")
        self.assertEqual([line["layout"] for line in lines],
                         ["dp=2,tp=2,pp=1,cp=1", "dp=1,tp=8,pp=1,cp=1"])
        self.assertTrue(all(line["identical"] and line["events"] > 100 for line in lines))

    def test_a_record_with_another_number_differs_in_every_layout(self):
        disturbed = self.folder / "disturbed"
        self.judged(1, "train", self.alone, "--inject", "0.0/backward/0/down/dx:5:1", "-o", disturbed)
        lines = self.lines("layouts", disturbed, "--try", ";tp=2", "--step", "0.0", code=1)
        self.assertEqual([(line["identical"], line["first_difference"]) for line in lines],
                         [(False, "backward/0/down/dx")] * 2)
        place = lines[1]["difference"]  # the first token of the first sample: of all columns, so of both ranks
        self.assertEqual((place["event"], place["token"], place["column"], place["ranks"], place["exchanged_by"]),
                         ("backward/0/down/dx", 0, None, [0, 1], []))
        self.assertIn("computes step 0.0 otherwise than", place["note"])
        result = self.judged(1, "layouts", disturbed, "--try", "dp=2", "--step", "0.0")
        self.assertIn("1 layout: 1 NOT identical to the record", result.stdout)
        self.assertRegex(result.stdout, r"\n    sample \d+, token 0; of rank 0 \(dp 0\); the element is not known:")

    def test_a_number_whose_column_is_recorded_is_of_one_rank(self):
        values, _ = self.capture("values", *RUN, "--record", "ops+values")
        for column, rank in ((63, 0), (64, 1)):  # of 128 columns of the demo's down/dx, which tp=2 halves
            with self.subTest(column):
                path = self.folder / f"column {column}"
                self.judged(1, "train", values, "--inject", f"0.0/backward/0/down/dx:{column}:1", "-o", path)
                place = self.lines("layouts", path, "--try", "tp=2", "--step", "0.0", code=1)[0]["difference"]
                self.assertEqual((place["token"], place["column"], place["ranks"], place.get("note")),
                                 (0, column, [rank], None))
                text = self.judged(1, "layouts", path, "--try", "tp=2", "--step", "0.0").stdout
                self.assertIn(f", token 0, column {column}; of rank {rank} (tp {rank})\n", text)

    def test_a_copy_that_differs_is_named_within_its_step(self):
        for layout, rank, other, outvoted in (("dp=3", 2, 0, True), ("dp=2", 1, 0, False), ("tp=2,pp=2", 3, 2, False),
                                              ("dp=2,cp=2,zero=1", 3, 2, False)):
            with self.subTest(layout):
                planted = ["train", self.alone, "--layout", layout, "--inject", f"{NORM}@{rank}"]
                steps = self.lines(*planted, code=1)
                step = [line for line in steps if line["schema"] == "rlreplay.run.step/1"]
                self.assertEqual([line["identical"] for line in step], [True, False])
                found = step[-1]["replicas"]
                self.assertEqual([found[key] for key in ("event", "index", "rank", "other", "outvoted")],
                                 ["reduce/-/gradient/model.norm.weight", 3, rank, other, outvoted])
                self.assertEqual(int(found["value"]) - int(found["other_value"]), 1)
                text = " ".join(self.judged(1, *planted).stdout.split())
                self.assertIn("ranks copies differ: reduce/-/gradient/model.norm.weight[3] is", text)

    def test_a_difference_is_of_the_rank_that_holds_its_element(self):
        head = "model.norm.weight"  # of the last stage alone
        down = "model.layers.1.mlp.down_proj.weight"  # 128 columns, which tp=2 halves
        for layout, event, index, rank in (
                ("pp=2", f"reduce/-/gradient/{head}", 2, 1),
                ("tp=2", f"reduce/1/gradient/{down}", 100, 1),
                ("tp=2", f"reduce/1/gradient/{down}", 28, 0),
                ("pp=2,tp=2", f"optimizer/1/weight/{down}", 100, 3)):
            planted = ["train", self.alone, "--steps", "0.0", "--layout", layout, "--inject",
                       f"0.0/{event}:{index}:5@{rank}"]
            with self.subTest(planted):
                for ranks_as in ("threads", "processes")[:1 if layout == "tp=2" else 2]:
                    lines = self.lines(*planted, "--ranks-as", ranks_as, code=1)
                    found = [line for line in lines if line["schema"] == "rlreplay.replay.diff/1"][0]
                    origin = found["origin"]
                    self.assertEqual([origin[key] for key in ("event", "index", "ulps", "rank")],
                                     [f"0.0/{event}", index, 5, rank])
                    self.assertEqual({field["rank"] for field in found["fields"] if field["event"] == event}, {rank})
                text = self.judged(1, *planted).stdout
                self.assertIn(f"(index {index}), rank {rank}\n", text)

    def test_without_a_rank_every_copy_is_changed(self):
        digests = ("identical", "weights_digest", "gradients_digest", "optimizer_digest")
        for event, layouts in (("0.0/reduce/-/gradient/model.norm.weight:2:5", ("pp=2", "dp=2", "tp=2,dp=2,zero=1")),
                               ("0.0/optimizer/-/weight/model.embed_tokens.weight:9:5", ("dp=2,pp=2", "tp=2,sp=1"))):
            alone = self.lines("train", self.alone, "--inject", event, code=1)
            for layout in layouts:
                for ranks_as in ("threads", "processes")[:2 if layout == layouts[0] else 1]:
                    with self.subTest(event, layout=layout, ranks_as=ranks_as):
                        lines = self.lines("train", self.alone, "--layout", layout, "--ranks-as", ranks_as,
                                           "--inject", event, code=1)
                        for line, other in zip(lines, alone, strict=True):
                            if line["schema"] == "rlreplay.run.step/1":
                                self.assertEqual([line[key] for key in digests], [other[key] for key in digests])
                            if line["schema"] == "rlreplay.replay.diff/1":
                                for key in ("event", "index", "a", "b"):
                                    self.assertEqual(line["origin"][key], other["origin"][key])

    def test_a_difference_that_no_other_rank_holds_is_one_to_the_record(self):
        lines = self.lines("train", self.alone, "--layout", "tp=2", "--inject",
                           "0.0/optimizer/0/weight/model.layers.0.mlp.down_proj.weight:0:1@0", code=1)
        self.assertNotIn("replicas", lines[0])
        self.assertFalse(lines[0]["identical"])

    def test_the_dump_of_a_replay_that_ends_at_copies_that_differ_lacks_the_step(self):
        path = self.folder / "ends at copies"
        result = self.judged(1, "train", self.alone, "--layout", "dp=2", "--inject", NORM + "@1", "-o", path)
        self.assertIn("step 1.0, whose copies differ, is not in it", result.stderr)
        self.assertIn("INCOMPLETE", self.judged(3, "verify", path).stdout)
        result = self.judged(3, "capture", "--resume", "-o", path)
        self.assertIn("its run had 2 steps, 1 step of it is there", " ".join(result.stderr.split()))
        self.judged(0, "capture", "--resume", "-o", self.alone)

    def test_what_does_not_go_is_refused_by_name(self):
        for code, words, arguments in (
                (2, "\"xp=2\" is none of dp=", ["train", "--model", "demo", "--layout", "xp=2"]),
                (4, "tp must divide 8", ["train", "--model", "demo", "--layout", "tp=3"]),
                (4, "of 4 ranks these do", ["train", "--model", "demo", "--layout", "pp=4"]),
                (4, "runs in one rank", ["train", "--model", "demo", "--layout", "dp=2", "--kernels",
                                         "torch"]),
                (4, "holds of a parameter", ["train", self.alone, "--layout", "dp=2", "--inject",
                                             "0.0/backward/0/down/dx:5:1"]),
                (2, "the ranks 0 to 1", ["train", self.alone, "--layout", "dp=2", "--inject", NORM + "@2"]),
                (2, "another rank holds it", ["train", self.alone, "--layout", "pp=2", "--inject", NORM + "@0"]),
                (2, "--try", ["layouts", self.alone, "--try", "dp=x"]),
                (4, "pp is larger", ["layouts", self.alone, "--try", "pp=3"])):
            with self.subTest(arguments):
                result = self.judged(code, *arguments)
                self.assertIn(words, result.stderr.replace("\n", " "))


if __name__ == "__main__":
    unittest.main()
