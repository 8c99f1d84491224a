"""One edit of a framework's files, and which verb names it: a line of EDITS (edit_cases.py) or STATED
(stated_cases.py) each.

usage: one_edit_test.py RLREPLAY
"""
import json
import os
import sys
import unittest

from edit_cases import DEEP, DIFF, EDITS, IMPORT, IMPORTED, LEGAL, MISMATCH, PLAIN
from edits import (CONTEXT, DATA, EditedRun, LATEST, LISTS, TENSOR, both, copied, copies_apart, gone,
                   lacks, longer, numbered, part, put, rewards_of_parts, shards, train)
from stated_cases import STATED
from support import FULL

EDITS = (*EDITS, *STATED)
EditedRun.program = os.path.abspath(sys.argv.pop(1))


class OneEdit(EditedRun):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sound = {}

    def said(self, verb, folder, sound):
        """What a verb says of a folder."""
        dump = self.folder / "imported"
        if verb in (IMPORT, IMPORTED):
            made = self.run_program("import", folder, "-o", dump, "--force")
            if verb == IMPORT:
                return made.stdout + made.stderr
            folder = dump
        if verb == DIFF:
            result = self.run_program("diff", sound, folder)
            return result.stdout + result.stderr
        if verb == MISMATCH:
            result = self.run_program("mismatch", folder)
            return result.stdout + result.stderr
        flags = ["--deep"] if verb != PLAIN else []
        result = self.run_program("verify", *flags, "--json", folder)
        found = json.loads(result.stdout)
        self.assertEqual(result.returncode != 0, bool(found["problems"]), found)
        return "\n".join(f"{p['code']}: {p['message']} ({p['path']}: {p['dataset']})"
                         for p in found["problems"]) + "\n".join(found.get("not_checked", []))

    def of_sound(self, run, verb):
        if run not in self.sound:
            self.sound[run] = (self.written("sound " + "-".join(run), self.files(run)), {})
        folder, told = self.sound[run]
        if verb not in told:
            told[verb] = self.said(verb, folder, folder)
        return folder, told[verb]

    def test_each_edit_is_named(self):
        for number, (name, run, edit, by_verb) in enumerate(EDITS):
            files = self.files(run)
            edit(files)
            folder = self.written(f"edit {number}", files)
            for verb, words in by_verb.items():
                with self.subTest(name, verb=verb):
                    sound, before = self.of_sound(run, verb)
                    found = " ".join(self.said(verb, folder, sound).split())
                    for word in (words,) if isinstance(words, str) else words:
                        self.assertIn(word, found)
                        if word == words[0]:
                            self.assertNotIn(word, before)

    def test_a_file_is_named_whose_name_begins_a_place(self):
        edit, = [edit for name, _, edit, _ in EDITS if name == "a mask that is none"]
        files = self.files(LATEST)
        edit(files)
        folder = self.written("short", files)
        (folder / "train_data/0.pt").rename(folder / "s")
        result = self.run_program("verify", "s", "--json", cwd=folder)
        problem, = json.loads(result.stdout)["problems"]
        self.assertEqual((problem["path"], problem["dataset"][:3]), ("s", "row"), problem)

    def test_what_no_import_gets_past_is_damage(self):
        """Exit code 3 of verify as of import, whether or not the import's words name it."""
        for run, edit in (
                (LATEST, shards(1, "micro_batch_indices", 1, 0, to=0)),
                (DATA, put("rollout_data/0.pt", "samples", 1, "response_length", to=4000)),
                (DATA, longer("train_data/0_1.pt", "tokens"))):
            files = self.files(run)
            edit(files)
            folder = self.written("damage", files)
            made = self.run_program("import", folder, "-o", self.folder / "damage dump", "--force")
            self.assertEqual(made.returncode, 3, made.stderr)
            for flags in ([], ["--deep"]):
                result = self.run_program("verify", *flags, folder)
                self.assertEqual(result.returncode, 3, result.stdout)
                self.assertIn("problem ", result.stdout)

    def test_one_exit_code(self):
        """A folder's verify and diff, and those of its import, end alike; a refused import as they do."""
        cases = [*((name, run, edit, None) for name, run, edit, _ in EDITS[::1 if FULL else 20]),
                 ("the copy's file is gone", TENSOR, gone("train_data/0_1.pt"), 3),
                 ("training under another number", LATEST,
                  put("train_data/1.pt", "rollout_id", to=6), 3),
                 ("samples under another number", LATEST,
                  put("rollout_data/1.pt", "rollout_id", to=6), 1),
                 ("no number", LATEST, lacks("rollout_data/1.pt", "rollout_id"), 3),
                 ("no samples", LATEST, lacks("rollout_data/1.pt", "samples"), 3),
                 ("another version", LATEST, put("train_data/1.pt", "format_version", to=7), 4),
                 ("another's samples", DATA,
                  copied("rollout_data/0.pt", over="rollout_data/1.pt"), 3),
                 ("training in the place of an evaluation", DATA,
                  copied("train_data/0_1.pt", over="rollout_data/eval_1.pt"), 3),
                 ("samples in the place of training", LATEST,
                  copied("rollout_data/0.pt", over="train_data/0.pt"), 3),
                 ("a rank's file is gone", DATA, gone("train_data/0_1.pt"), 3),
                 ("a copy in the place of another's replica", TENSOR,
                  copied("train_data/0_0.pt", over="train_data/0_3.pt"), 3),
                 ("a rollout's training is gone", LATEST, gone("train_data/0.pt"), 3),
                 ("a rollout's samples are gone", LATEST, gone("rollout_data/0.pt"), 1)]
        for number, (name, run, edit, wanted) in enumerate(cases):
            files = self.files(run)
            edit(files)
            folder, dump = self.written(f"code {number}", files), self.folder / f"code {number} dump"
            made = self.run_program("import", folder, "-o", dump)
            verified = self.run_program("verify", "--deep", "--json", folder)
            code = verified.returncode
            with self.subTest(name):
                self.assertIn(code, (1, 3, 4) if wanted is None else (wanted,))
                if made.returncode != 0:
                    self.assertEqual(made.returncode, code, made.stderr)
                    self.assertEqual(self.run_program("diff", folder, folder).returncode, code)
                    self.assertEqual(self.run_program("verify", folder).returncode, code)
                    continue
                self.assertEqual(self.run_program("verify", "--deep", dump).returncode, code)
                problems = json.loads(verified.stdout)["problems"]
                named = [p["code"] for p in problems if p["code"].endswith("-missing")]
                self.assertEqual(code == 3, bool(named), problems)
                self.assertEqual(self.run_program("diff", folder, dump).returncode, 0)

    def test_a_number_that_one_reward_lacks_is_kept_of_the_others(self):
        folders = []
        for name, edits in (("all parts", ()), ("a part less", (part(3, "format"),))):
            files = self.files(DATA)
            rewards_of_parts(*edits)(files)
            folders.append(self.written(name, files))
        dump, lines = self.folder / "a part less dump", self.folder / "parts.jsonl"
        self.run_program("import", folders[1], "-o", dump)
        self.run_program("export", dump, "--to", "jsonl", "-o", lines)
        rewards = {line["sample_id"]: line["reward_components"]
                   for line in map(json.loads, lines.read_text().splitlines())
                   if "reward_components" in line}
        self.assertEqual(len(rewards), 16)
        for sample, reward in rewards.items():
            self.assertEqual(reward["format"], 0.25 + sample if sample != 3 else "7ff8000000000000")
        found, = self.lines("diff", *folders, code=1)
        first = found["first"]
        self.assertEqual((first["field"], first["sample"], first["a"], first["b"]),
                         ("rollout/reward_components/format", 3, "3.25", "nan"))
        field, = (f for f in found["fields"] if not f["equal"])
        self.assertEqual((field["compared"], field["different"], field["missing"]), (16, 1, 0))
        result = self.run_program("import", folders[1], "-o", dump, "--force", "--reward-key", "format")
        self.assertIn("the reward holds no number 'format'", result.stdout)
        told = self.run_program("objective", folders[1], "--reward-key", "format").stdout
        self.assertIn("sample 3 ", " ".join(told.split()))

    def test_two_files_of_one_rollout_are_damage(self):
        """The run is broken, and not what the user asked for, whichever verb reads it."""
        for run, file, over in ((DATA, "rollout_data/0.pt", "rollout_data/1.pt"),
                                (LATEST, "rollout_data/1.pt", "rollout_data/0.pt")):
            files = self.files(run)
            copied(file, over)(files)
            folder = self.written("twice", files)
            for words in (("import", folder, "-o", self.folder / "twice dump"), ("show", folder),
                          ("diff", folder, folder), ("objective", folder), ("mismatch", folder)):
                result = self.run_program(*words)
                self.assertEqual(result.returncode, 3, (words[0], result.stderr))
                self.assertIn("its name of", result.stderr)

    def test_what_was_not_looked_at_is_said(self):
        """Plain verify holds no training against its rollout, and claims nothing of it."""
        files = self.files(DATA)
        train("train_data/0_1.pt", "rollout_log_probs", 0, 2, to=-9.5)(files)
        folder = self.written("unlooked", files)
        plain, = self.lines("verify", folder, code=0)
        said = "what values mean, and training against its rollout: --deep does"
        self.assertEqual(plain["not_checked"], [said])
        self.assertIn("not checked: " + said, " ".join(
            self.run_program("verify", folder).stdout.split()))
        deep, = self.lines("verify", "--deep", folder, code=1)
        self.assertNotIn(said, deep["not_checked"])
        alone, = self.lines("verify", folder / "train_data/0_1.pt", code=0)
        self.assertEqual(alone["not_checked"],
                         ["what other files of its run say: the file was given alone"])
        train("train_data/0_1.pt", "micro_batch_indices", to=[[0]])(files)
        deep, = self.lines("verify", "--deep", self.written("unlooked", files), code=1)
        self.assertEqual(deep["not_checked"], ["what values mean, and training against its "
                                               "rollout: the problems come first"])

    def test_an_export_of_nothing_names_the_dump(self):
        dump, out = self.folder / "kept alone", self.folder / "nothing"
        made = self.run_program("import", self.written("no run", {"notes.pt": ["no dump"]}) / "notes.pt",
                                "-o", dump)
        self.assertEqual(made.returncode, 0, made.stderr)
        for output in out, f"{out}.pt":
            result = self.run_program("export", dump, "--to", "slime", "-o", output)
            self.assertEqual((result.returncode, result.stderr), (
                2, f"rlreplay: {dump}: the dump holds nothing that can be written for slime\n"))

    def test_files_that_were_set_aside_are_named(self):
        files = self.files(DATA)
        files["rollout_data/notes.pt"] = ["no dump"]
        folder = self.written("aside", files)
        for name in ("trajectory/0.jsonl", "trajectory/1.jsonl"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("{}\n")
        aside = ["what holds no dump, and an import keeps as it is: rollout_data/notes.pt",
                 "what does not end in .pt, and no import reads: trajectory/ (2 files)"]
        for flags in ([], ["--deep"]):
            found, = self.lines("verify", *flags, folder, code=len(flags))  # 1: removed-mismatch
            self.assertEqual(found["not_checked"][:2], aside)

    def test_what_was_not_held_against_a_damaged_file_is_said(self):
        folder = self.written("damaged rank", self.files(DATA))
        path = folder / "train_data/0_1.pt"
        path.write_bytes(path.read_bytes()[:-100])
        for flags in ([], ["--deep"]):
            found, = self.lines("verify", *flags, folder, code=3)
            self.assertEqual(found["not_checked"][:2], [
                "what train_data/0_0.pt says beside train_data/0_1.pt",
                "which rollouts have samples and training: train_data/0_1.pt is damaged, or not what its "
                "name says"])

    def test_rollouts_between_others_are_named(self):
        files = self.files(LATEST)
        both(gone("rollout_data/eval_1.pt"),
             numbered("rollout_data/1.pt", "train_data/1.pt", rollout=3))(files)
        folder, dump = self.written("between", files), self.folder / "between dump"
        report = json.loads(self.run_program("import", folder, "-o", dump, "--json").stdout)
        self.assertIn("rollouts-between", [found["code"] for found in report["findings"]])
        for path, flags in ((folder, ["--deep"]), (folder, []), (dump, ["--deep"]), (dump, []),
                            (dump, ["--quick"])):
            found = json.loads(self.run_program("verify", *flags, "--json", path).stdout)
            self.assertIn("rollouts 1, 2: neither samples nor steps are there, as they are of rollouts "
                          "before and after (files may be missing, or the run did not dump them)",
                          found["not_checked"])

    def test_samples_without_an_index_are_not_named(self):
        """Their places are no names that a step could mean."""
        files = self.files(LATEST)
        for sample in files["rollout_data/1.pt"]["samples"]:
            sample["index"] = None
        folder, dump = self.written("no index", files), self.folder / "no index dump"
        report = json.loads(self.run_program("import", folder, "-o", dump, "--json").stdout)
        codes = [found["code"] for found in report["findings"]]
        self.assertIn("sample-id-replaced", codes)
        self.assertNotIn("sample-untrained", codes)
        for path in folder, dump:
            notes = json.loads(self.run_program("verify", "--deep", "--json", path).stdout)["not_checked"]
            self.assertEqual([note for note in notes if "rollout 1" in note and "no step has" in note], [])
            self.assertIn("training of rollout 1 against its samples: indices of these are missing, negative or "
                          "occur twice, so that none tells which sample a step means", notes)

    def test_what_one_rank_alone_does_not_say_of_its_steps_is_told_once(self):
        for run in (DATA, TENSOR, LISTS):
            for column in ("num_microbatches", "micro_batch_indices"):
                files = self.files(run)
                lacks("train_data/0_1.pt", "rollout_data", column)(files)
                found, = self.lines("verify", self.written(f"half of {column} {run[0]}", files), code=1)
                self.assertEqual([problem["message"] for problem in found["problems"]],
                                 [f"{column} is missing in 0_1.pt, and 0_0.pt has it, of the same rollout"])

    def test_what_nothing_was_there_to_be_held_against_is_said(self):
        """Of the last rollouts without training, and of training without any rollout."""
        no_training = (": there is no training to hold the samples against (files may be missing, "
                       "or the run ended)")
        no_samples = ": there are no samples to hold the training against"
        rollouts = gone("rollout_data/0.pt"), gone("rollout_data/1.pt")
        last = gone("train_data/1.pt")
        for name, edit, said, found in (
                ("nothing", both(), None, None),
                ("the last training", last, "rollout 1" + no_training, "rollout-untrained"),
                ("all training", both(gone("train_data/0.pt"), last), "rollouts 0, 1" + no_training,
                 None),
                ("all rollouts", both(*rollouts), "rollouts 0, 1" + no_samples, "rollouts-absent"),
                ("all but one training", both(*rollouts, last), "rollout 0" + no_samples,
                 "rollouts-absent")):
            files = self.files(LATEST)
            edit(files)
            folder, dump = self.written(f"lost {name}", files), self.folder / f"lost {name} dump"
            report = json.loads(self.run_program("import", folder, "-o", dump, "--json").stdout)
            codes = [f["code"] for f in report["findings"] if f["code"].startswith("rollout")]
            with self.subTest(name):
                self.assertEqual(codes, [found] if found else [])
                for path in folder, dump:
                    verified = self.run_program("verify", "--deep", "--json", path).stdout
                    self.assertEqual(json.loads(verified)["not_checked"], [said] if said else [])

    def test_a_replica_says_the_steps(self):
        """Of a file without micro-batches the steps are those that its replica says."""
        for column in ("micro_batch_indices", "num_microbatches", "num_rollouts"):
            files = self.files(CONTEXT)
            lacks("train_data/0_0.pt", "rollout_data", column)(files)
            found = self.said(IMPORT, self.written("steps", files), None)
            self.assertNotIn("steps-unknown", found)
            units = self.run_program("diff", self.written("sound steps", self.files(CONTEXT)),
                                     self.folder / "imported").stdout
            self.assertNotIn("train/", units)

    def test_a_later_place_counts(self):
        """Files that contradict alike in the place that is named, and otherwise in a later one."""
        def of_rank(column, *places, file="train_data/0_1.pt", to=lambda x: x + 0.25):
            return tuple(train(file, column, *place, to=to) for place in places)

        cases = (
            (TENSOR, of_rank("advantages", (0, 1), (0, 2))),
            (TENSOR, of_rank("raw_reward", (1,), (3,))),
            (DATA, of_rank("loss_masks", (0, 1), (0, 2), to=2)),
            (DATA, of_rank("truncated", (0,), (1,), to=7)),
            (DATA, copies_apart("rollout_routed_experts")))
        for number, (run, (one, later)) in enumerate(cases):
            folders, dumps = [], []
            for name, edit in ("one", one), ("two", both(one, later)), ("again", one):
                files = self.files(run)
                edit(files)
                folders.append(self.written(f"later {number} {name}", files))
                dumps.append(self.folder / f"later {number} {name} dump")
                made = self.run_program("import", folders[-1], "-o", dumps[-1])
                self.assertEqual(made.returncode, 0, made.stderr)
            with self.subTest(number):
                for pair in folders, dumps:
                    self.assertEqual(self.run_program("diff", *pair[:2]).returncode, 1)
                    self.assertEqual(self.run_program("diff", pair[0], pair[2]).returncode, 0)

    def test_an_imported_dump_lists_places(self):
        """20 of what is alike, and how many more there were."""
        files = self.files(LATEST)
        for number in (0, 1):
            for sample in files[f"rollout_data/{number}.pt"]["samples"]:
                sample["reward"] = 9.5
        folder, dump = self.written("places", files), self.folder / "places dump"
        self.assertEqual(self.run_program("import", folder, "-o", dump).returncode, 0)
        problems = [p for p in self.lines("verify", dump, code=1)[0]["problems"]
                    if p["code"] == "rollout-mismatch"]
        self.assertEqual(len(problems), 20, problems)
        self.assertEqual(len({p["dataset"] for p in problems}), 20)
        self.assertIn("more", problems[-1]["dataset"])
        text = self.run_program("verify", "--all", dump).stdout
        self.assertEqual(text.count("problem rollout-mismatch"), 20)

    def test_places_that_are_not_listed_count(self):
        """Files that contradict each other alike in what an import lists, and otherwise behind it."""
        def run(name, change):
            files = self.files(DATA)
            change(files)
            dump = self.folder / f"{name} dump"
            made = self.run_program("import", self.written(name, files), "-o", dump)
            self.assertEqual(made.returncode, 0, made.stderr)
            return dump

        def raw_rewards(last):
            def change(files):
                for number in (0, 1):
                    for rank in (0, 1):
                        data = files[f"train_data/{number}_{rank}.pt"]["rollout_data"]
                        data["raw_reward"] = [9.5] * len(data["raw_reward"])
                data["raw_reward"][-1] = last
            return change

        alike = run("raw", raw_rewards(9.5)), run("raw again", raw_rewards(9.5))
        other = run("raw otherwise", raw_rewards(8.5))
        places = [p["dataset"] for p in self.lines("verify", other, code=1)[0]["problems"]]
        self.assertEqual(len(places), 20)
        self.assertRegex(places[-1], r", and 44 more, all 64 with the hash [0-9a-f]{32}$")
        self.assertIn("identical", self.run_program("diff", *alike).stdout.splitlines()[0])
        result = self.run_program("diff", alike[0], other)
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("with the hash", result.stdout)
        contents = {self.lines("verify", dump, code=1)[0]["content"] for dump in (*alike, other)}
        self.assertEqual(len(contents), 2)

    def test_no_place_of_one_file_is_left_out(self):
        """Of more contradictions than an import lists of a file."""
        def run(name, last):
            samples = [{"index": i, "group_index": 0, "tokens": [1, 2, 3], "response_length": 2,
                        "reward": 1.0, "status": "resting", "prompt": "p", "response": "r",
                        "label": "l"} for i in range(130)]
            samples[-1]["status"] = last
            folder = self.written(name, {"rollout_data/0.pt": {
                "rollout_id": 0, "metadata": {}, "samples": samples}})
            dump = self.folder / f"{name} dump"
            listed = json.loads(self.run_program("import", folder, "-o", dump, "--json").stdout)
            self.assertEqual(len(listed["findings"]), 101)
            return dump

        one, other = run("resting", "resting"), run("dozing", "dozing")
        problems = self.lines("verify", other, code=1)[0]["problems"]
        place, = (p["dataset"] for p in problems if "'dozing'" in p["message"])
        self.assertRegex(place, "^rollout_data/0.pt: row 129; all that the file says has the ")
        self.assertEqual(self.run_program("diff", one, other).returncode, 1)

    def test_a_contradiction_is_a_difference(self):
        """Whichever rank's copy an import takes: diff and content roots say so of folders, imports."""
        def other(column, *place, to):
            return train("train_data/0_1.pt", column, *place, to=to)

        def copied(files):
            files["train_data/0_1.pt"] = files["train_data/0_0.pt"]

        edits = (other("rewards", 1, to=9.5), other("loss_masks", 0, 1, to=lambda x: 1 - x),
                 other("rollout_mask_sums", 1, to=lambda x: x + 1), copied)
        sound, _ = self.of_sound(TENSOR, PLAIN)
        dumps = {}
        for number, edit in enumerate((lambda files: None, *edits)):
            files = self.files(TENSOR)
            edit(files)
            folder = self.written("contradicting", files)
            dumps[number] = self.folder / f"contradicting {number}"
            made = self.run_program("import", folder, "-o", dumps[number])
            self.assertEqual(made.returncode, 0, made.stderr)
            found, = self.lines("diff", sound, folder, code=int(number > 0))
            self.assertEqual(found["identical"], number == 0)
            self.assertEqual(number > 0, bool(found["only"]), found)
            for line in found["only"]:
                self.assertTrue(line.startswith("only the files of B contradict each other: "))
            self.lines("diff", folder, sound, code=int(number > 0))
            self.lines("diff", sound, folder, "--tolerance", "rewards=100", code=int(number > 0))
        roots = {a: self.lines("show", dump, code=0)[0]["content"] for a, dump in dumps.items()}
        self.assertEqual(len(set(roots.values())), len(roots))
        for a in dumps:
            for b in dumps:
                self.lines("diff", dumps[a], dumps[b], code=int(a != b))

    def test_what_is_legal_is_not(self):
        for number, (name, run, edit) in enumerate(LEGAL):
            files = self.files(run)
            edit(files)
            folder = self.written(f"legal {number}", files)
            for verb in (PLAIN, DEEP, IMPORTED, MISMATCH):
                with self.subTest(name, verb=verb):
                    sound, before = self.of_sound(run, verb)
                    found = self.said(verb, folder, sound)
                    told = ("mismatch:", "non-finite:") if verb != MISMATCH else ("contradict",)
                    for words in told:
                        self.assertEqual(found.count(words), before.count(words), found)


if __name__ == "__main__":
    unittest.main()
