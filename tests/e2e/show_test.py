"""What show prints for people: one event, a sample with the text of its tokens, what is missing.

usage: show_test.py RLREPLAY
"""
import json
import pathlib
import shutil
import struct
import sys
import unittest

import checkpoints
import support

DEMO = ["--model", "demo", "--rollout-batch-size", "2", "--n-samples-per-prompt", "2"]


class Show(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", *DEMO, "--steps", "2", "--record", "ops+values+stats")
        cls.bare, _ = cls.capture("bare", *DEMO, "--steps", "1")

    def said(self, *arguments, code=0):
        result = self.run_program("show", *arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def event(self, name, *arguments, dump=None):
        return self.lines("show", dump or self.dump, "--event", name, *arguments)[0]


class Events(Show):
    def test_an_event_is_what_is_stored(self):
        name = "1.0/backward/0/down/dx"
        event = self.event(name)
        self.assertEqual(event["event"], name)
        self.assertEqual(event["dtype"], "f32")
        self.assertEqual(event["shape"], [event["rows"], event["columns"]])
        self.assertEqual(len(event["values"]), 64)
        self.assertEqual(event["nonfinite"], {"count": 0, "first": None})
        for value in event["values"]:
            bits = struct.unpack(">f", bytes.fromhex(value["bits"]))[0]
            self.assertEqual(struct.pack(">f", float(value["value"])), struct.pack(">f", bits))
        text = self.said(self.dump, "--event", name)
        for word in (event["digest"], "sample 4, token 0", event["values"][0]["value"],
                     f"the first 8 of {event['rows']} rows, 3 of {event['columns']} columns"):
            self.assertIn(word, text)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)

    def test_a_sample_of_an_event(self):
        name = "1.0/forward/1/down/y"
        whole, part = self.event(name), self.event(name, "--sample", "6")
        self.assertEqual(whole["digest"], part["digest"])
        self.assertGreater(part["values"][0]["index"], 0)
        self.assertIn("sample 6, token 0", self.said(self.dump, "--event", name, "--sample", "6"))
        self.assertIn("there is no sample 3; there are 4..7",
                      self.said(self.dump, "--event", name, "--sample", "3", code=2))

    def test_scalars_parameters_and_rollouts(self):
        step = self.lines("show", self.dump)
        norm = next(s["scalars"]["grad_norm"] for s in step
                    if s.get("schema") == "rlreplay.show.step/1" and s["rollout_id"] == 1)
        scalar = self.event("1.0/clip/-/clip/norm")
        self.assertEqual((scalar["rows"], scalar["columns"]), (1, 1))
        self.assertEqual(float(scalar["values"][0]["value"]), norm)
        self.assertIn("value    ", self.said(self.dump, "--event", "1.0/clip/-/clip/norm"))
        weight = self.event("0.0/optimizer/-/weight/model.norm.weight")
        self.assertEqual(weight["stats"].keys(), {"min", "max", "mean", "rms"})
        self.assertIn("sample 0, token",
                      self.said(self.dump, "--event", "0.0/rollout/-/final_norm/y"))

    def test_what_is_not_recorded_is_said(self):
        name = "0.0/optimizer/-/weight/model.norm.weight"
        event = self.event(name, dump=self.bare)
        self.assertEqual((event["values"], event["stats"]), (None, None))
        text = self.said(self.bare, "--event", name)
        self.assertIn("values   not recorded (--record ops+values keeps them)", text)
        self.assertIn("stats    not recorded", text)
        for name, said in (("1.0/backward/0/down/dX", "down of backward has dx"),
                           ("9.0/backward/0/down/dx", "there is no step 9.0"),
                           ("1.0/backward/7/down/dx", "did you mean 1.0/backward/"),
                           ("down/dx", "event")):
            self.assertIn(said, self.said(self.dump, "--event", name, code=2))
        self.assertIn("there is no rank 3; there are 0",
                      self.said(self.dump, "--event", "0.0/clip/-/clip/norm", "--rank", "3", code=2))
        ranks, _ = self.capture("ranks", *DEMO, "--steps", "1", "--record", "ops", "--layout", "dp=2")
        for name in ("0.0/backward/0/down/dx", "0.0/clip/-/clip/norm"):
            self.assertEqual(self.event(name, dump=ranks)["rank"], 0)
            self.assertIn("no events of rank 1 are recorded of step 0.0; there are those of rank 0",
                          self.said(ranks, "--event", name, "--rank", "1", code=2))
            self.assertIn("there is no rank 2; there are 0..1",
                          self.said(ranks, "--event", name, "--rank", "2", code=2))
        self.assertNotIn("18446744073709551615",
                         self.said(ranks, "--event", "0.0/clip/-/clip/norm", "--rank", "-1", code=2))
        slime = self.folder / "slime"
        self.run_program("export", self.bare, "--to", "slime", "-o", slime, "--groups", "0")
        self.assertIn("no events are recorded of step 0.0",
                      self.said(slime, "--event", "0.0/clip/-/clip/norm", code=2))


class Samples(Show):
    def test_tokens_have_their_text(self):
        text = self.said(self.dump, "--sample", "5")
        sample = self.lines("show", self.dump, "--sample", "5")[0]
        self.assertEqual("".join(json.loads(t) for t in sample["token_texts"] if t[0] == '"'),
                         sample["response_text"] + "<|end|>")
        header = next(line for line in text.splitlines() if line.startswith("token"))
        self.assertTrue(header.endswith("text"), header)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)

    def test_a_given_tokenizer(self):
        """Of an imported dump, which names none; what tokens say cannot steer the terminal."""
        lines = self.folder / "samples.jsonl"
        self.run_program("export", self.dump, "--to", "jsonl", "-o", lines)
        self.assertNotIn("token_texts", self.lines("show", lines, "--sample", "5")[0])
        self.assertIn('"4"', self.said(lines, "--sample", "5", "--tokenizer", "demo"))
        self.assertIn("--tokenizer is for --sample",
                      self.said(lines, "--tokenizer", "demo", code=2))
        self.assertIn("there is no tokenizer.json",
                      self.said(lines, "--sample", "5", "--tokenizer", self.folder, code=3))
        model = checkpoints.write(self.folder / "model", checkpoints.config())
        path = model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        added = tokenizer.setdefault("added_tokens", [])
        last = len(tokenizer["model"]["vocab"]) + len(added)
        row = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0,
               "tokens": [3, last]}
        added.append({"id": last, "content": "a\x1b]0;x\x07b", "single_word": False,
                      "lstrip": False, "rstrip": False, "normalized": False, "special": False})
        path.write_text(json.dumps(tokenizer))
        lines.write_text(json.dumps(row) + "\n")
        text = self.said(lines, "--sample", "0", "--tokenizer", model)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\x07", text)
        self.assertIn("]0;x", text)


class Others(support.Case):
    """JSON lines of others: what a step says otherwise than the rollout."""

    def test_the_mask_that_was_trained_with_is_shown(self):
        path = self.folder / "masks.jsonl"
        samples = [{"sample_id": i, "tokens": list(range(6)), "prompt_length": 2, "reward": 0,
                    "loss_mask": [1] * 4, "response": "long " * 40,
                    "finish": ("stop", "length", "aborted")[i],
                    "reward_components": {"acc": i, "format": 0.5}} for i in range(3)]
        masks = [[1] * 4, [0] * 4, [1, 0, 1, 1]]
        trains = [{"step_id": 0, "rank": 0, "sample_id": i, "length": 6, "prompt_length": 2,
                   "loss_mask": mask, "returns": [0.25] * 4, "advantages": [0.25] * 4,
                   "old_log_probs": [-0.5] * 4, "ref_log_probs": [-0.5] * 4, "values": [0.5] * 4}
                  for i, mask in enumerate(masks)]
        path.write_text("".join(
            json.dumps({"schema": f"rlreplay.{kind}/1", "rollout_id": 0, **line}) + "\n"
            for kind, lines in (("sample", samples), ("train", trains)) for line in lines))
        same, removed, other = (self.run_program("show", path, "--sample", i).stdout
                                for i in range(3))
        self.assertNotIn("0-0/loss_mask", same)
        summary = self.run_program("show", path).stdout
        self.assertIn("rollout  stop  length  aborted\n      0     1       1        1\n", summary)
        self.assertLessEqual(max(map(len, summary.splitlines())), 80)
        self.assertIn("0-0/loss_mask  0 of every token: removed from training\n", removed)
        self.assertIn("0-0/loss_mask  another than the rollout's\n", other)
        header = next(line for line in other.splitlines() if line.startswith("token")).split()
        rows = [line.split() for line in other.splitlines() if line[:5].strip() in "2345"
                and line.strip()]
        self.assertEqual([row[header.index("0-0/loss_mask")] for row in rows], list("1011"))
        self.assertIn("reward_components  acc 2, format 0.5\n", other)
        self.assertIn("long long…\n", other)
        self.assertIn("more, with --json: ", other)
        tensor = self.run_program("show", path, "--tensor", "advantages")
        self.assertEqual(tensor.returncode, 2)
        self.assertIn("it is a step's: name one, as --step 0.0", tensor.stderr)
        self.assertLessEqual(max(map(len, other.splitlines())), 80)


    def test_rollouts_are_ordered_as_numbers(self):
        path = self.folder / "many.jsonl"
        path.write_text("".join(
            json.dumps({"schema": "rlreplay.sample/1", "rollout_id": r, "sample_id": 0,
                        "tokens": [1]}) + "\n" for r in range(12)))
        lines = self.lines("show", path, "--samples")
        self.assertEqual([line["rollout_id"] for line in lines], list(range(12)))

    def test_what_ranks_say_alike_stands_once(self):
        """A sample of a step on three ranks, of which the last has another log-probability."""
        path = self.folder / "replicas.jsonl"
        sample = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 5, "prompt_length": 1,
                  "tokens": [3, 4, 5]}
        train = {**sample, "schema": "rlreplay.train/1", "step_id": 0, "length": 3,
                 "loss_mask": [1, 1]}
        lines = [sample, *({**train, "rank": rank, "log_probs": [-0.5, -0.75 if rank < 2 else -1]}
                           for rank in range(3))]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        dump = self.folder / "replicas"
        self.run_program("import", path, "-o", dump)
        text = self.run_program("show", dump, "--sample", "5").stdout
        self.assertIn("0-0/ranks  0, 1, 2\n", text)
        self.assertIn("0-0/log_probs  0-0/rank2/log_probs\n", text)
        self.assertEqual(text.count("0-0/log_probs"), 1)
        result = self.run_program("show", dump, "--sample", "5", "--json")
        pairs = json.loads(result.stdout, object_pairs_hook=lambda pairs: pairs)
        names = [name for name, _ in pairs]
        self.assertEqual(len(names), len(set(names)))
        sample = dict(pairs)
        self.assertEqual(sample["0-0/ranks"], [0, 1, 2])
        self.assertEqual(sample["0-0/log_probs"], [-0.5, -0.75])
        self.assertEqual(sample["0-0/rank2/log_probs"], [-0.5, -1])
        self.assertNotIn("0-0/rank1/log_probs", sample)


class Records(Show):
    def test_the_summary_of_several_ranks_opens_no_unit(self):
        line = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 5, "prompt_length": 1, "tokens": [3, 4, 5]}
        train = {**line, "schema": "rlreplay.train/1", "step_id": 0, "length": 3, "loss_mask": [1, 1]}
        path, dump = self.folder / "ranks.jsonl", self.folder / "ranks"
        path.write_text("".join(json.dumps(x) + "\n" for x in (line, *({**train, "rank": r} for r in range(2)))))
        self.run_program("import", path, "-o", dump)
        before = self.run_program("show", dump, "--json").stdout
        text = self.run_program("show", dump).stdout
        self.assertIn("content  of parts in several units: rlreplay verify computes it\n", text)
        self.assertIsNone(json.loads(before.splitlines()[0])["content"])
        self.assertIsNotNone(self.lines("verify", dump)[0]["content"])
        units = sorted(dump.glob("*/**/*.h5"))
        self.assertEqual(len(units), 3)
        for unit in units:
            unit.write_bytes(bytes(unit.stat().st_size))
        self.assertEqual(self.run_program("show", dump, "--json").stdout, before)
        self.assertEqual(self.run_program("show", dump).stdout, text)

    def test_a_record_without_what_its_groups_say(self):
        dump = support.patched(self.dump).write(self.folder / "lacking")
        text = self.run_program("show", dump).stdout
        self.assertIn("content  not in the records of its units: rlreplay verify computes it\n", text)


class Notes(Show):
    def test_an_unfinished_dump_and_one_with_a_gap(self):
        unfinished = self.folder / "unfinished"
        shutil.copytree(self.dump, unfinished)
        (unfinished / "manifest.json").unlink()
        (unfinished / "INCOMPLETE").write_text("")
        note = f"note: {unfinished}: the dump is unfinished: 2 steps of it are there\n"
        for words in ([unfinished], [unfinished, "--samples"], [unfinished, "--sample", "1"]):
            self.assertTrue(self.said(*words).startswith(note))
        first = self.lines("show", unfinished)[0]
        self.assertEqual(first["incomplete"], "the dump is unfinished: 2 steps of it are there")
        self.assertIsNone(self.lines("show", self.dump)[0]["incomplete"])
        self.assertNotIn("note:", self.said(self.dump))
        gap = self.folder / "gap.jsonl"
        gap.write_text("".join(
            json.dumps({"schema": "rlreplay.sample/1", "rollout_id": r, "sample_id": 0,
                        "tokens": [1]}) + "\n" for r in (0, 2)))
        self.assertIn(f"note: {gap}: the dump has a gap: rollout 1 is missing", self.said(gap))


class AnotherTable(support.Case):
    def test_a_sample_without_a_group_is_in_none(self):
        lines = self.folder / "groups.jsonl"
        sample = {"schema": "rlreplay.sample/1", "rollout_id": 0, "tokens": [5, 6, 7], "prompt_length": 2}
        for groups, count in (((3, 3), 1), ((0, 0), 1), ((3, 9), 2)):
            with self.subTest(groups):
                rows = [{**sample, "sample_id": i, "group_id": group} for i, group in enumerate(groups)]
                lines.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**sample, "sample_id": 2}]))
                dump = self.folder / f"groups {groups}"
                self.run_program("import", lines, "-o", dump)
                head, row = self.run_program("show", dump).stdout.splitlines()[-2:]
                self.assertEqual(row.split()[head.split().index("groups")], str(count))

    """Events that docs/events.md does not have."""
    DUMP = pathlib.Path(__file__).parents[1] / "golden/dumps/0.9"

    def test_an_event_of_another_table_is_found_by_its_name(self):
        shown, = self.lines("show", self.DUMP, "--event", "0.1/model.layers.0.router", "--rank", "1")
        self.assertEqual((shown["dtype"], shown["shape"], shown["rows"], shown["columns"], shown["rank"]),
                         ("f8e4m3", [2, 1, 3], 2, 3, 1))
        tokens, = self.lines("show", self.DUMP, "--event", "0.1/model.layers.0.mlp", "--sample", "5")
        self.assertEqual((tokens["dtype"], tokens["shape"], len(tokens["values"])), ("bf16", [2, 2, 2], 8))
        missing = self.run_program("show", self.DUMP, "--event", "0.1/model.layers.7.mlp")
        self.assertEqual(missing.returncode, 2, missing.stderr)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
