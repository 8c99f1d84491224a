"""What a capture records of its samples besides tokens: how each ended, which weights wrote it, and
what the trainer made of its reward. usage: captured_test.py RLREPLAY"""
import json
import statistics
import sys
import unittest

import checkpoints
from support import Case

Case.program = sys.argv[1]
del sys.argv[1]

USAGE = 2
LIMIT = 6
ROLLOUTS = ("--num-rollout", "2", "--num-steps-per-rollout", "2", "--rollout-batch-size", "2",
            "--n-samples-per-prompt", "4")
STOPS = [*range(0, checkpoints.VOCABULARY, 9), checkpoints.STOP]


class Captured(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = checkpoints.write(cls.folder / "model", checkpoints.config())
        cls.prompts = checkpoints.write_prompts(cls.folder / "prompts.jsonl")
        cls.stops = ("--rollout-stop-token-ids", *map(str, STOPS[:-1]))
        cls.dump = cls.captured("dump", *cls.stops, "--weights", "all")

    @classmethod
    def captured(cls, name, *flags, limit=LIMIT):
        return cls.capture(name, "--model", cls.model, "--prompts", cls.prompts, *ROLLOUTS,
                           "--rollout-max-response-len", limit, *flags)[0]

    def exported(self, dump):
        """Samples by id, and what the steps say of them by step and id."""
        text = self.run_program("export", dump, "--to", "jsonl", "-o", "-").stdout
        rows = [json.loads(line) for line in text.splitlines()]
        steps = [row for row in rows if row["schema"] == "rlreplay.train/1"]
        return ({row["sample_id"]: row for row in rows if row["schema"] == "rlreplay.sample/1"},
                steps)

    def test_how_a_sample_ended(self):
        samples, _ = self.exported(self.dump)
        ends = [row["finish"] for row in samples.values()]
        self.assertEqual({"stop", "length"}, set(ends))
        for row in samples.values():
            stops = row["tokens"][-1] in STOPS
            self.assertEqual(row["finish"], "stop" if stops else "length", row)
            if not stops:
                self.assertEqual(len(row["tokens"]) - row["prompt_length"], LIMIT)
        cut = [row for row in samples.values() if row["rollout_id"] == 0]
        shown = self.run_program("show", self.dump).stdout
        stopped = sum(row["finish"] == "stop" for row in cut)
        self.assertRegex(shown, rf"rollout  stop  length\n +0 +{stopped} +{len(cut) - stopped}\n")

    def test_a_stop_at_the_limit_is_a_stop(self):
        """All ids stop: each response is one token, the last that there is room for."""
        every = [str(i) for i in range(checkpoints.VOCABULARY)]
        dump = self.captured("every", "--rollout-stop-token-ids", *every, limit=1)
        self.assertEqual({row["finish"] for row in self.exported(dump)[0].values()}, {"stop"})

    def test_the_weights_are_named_by_the_steps_before(self):
        samples, steps = self.exported(self.dump)
        for row in samples.values():
            self.assertEqual(row["versions"], [2 * row["rollout_id"]])
            self.assertEqual(row["version_starts"], [row["prompt_length"]])
        self.assertEqual(len({(row["rollout_id"], row["step_id"]) for row in steps}), 4)

    def shaped(self, rewards, deviation=True):
        mean = statistics.fmean(rewards)
        scale = statistics.stdev(rewards) + 1e-6 if deviation else 1
        return [(r - mean) / scale for r in rewards]

    def check_shaped(self, dump, shape):
        samples, steps = self.exported(dump)
        groups = {}
        for row in samples.values():
            groups.setdefault(row["group_id"], []).append(row["sample_id"])
        wanted = {}
        for ids in groups.values():
            wanted |= zip(ids, shape([samples[i]["reward"] for i in ids]))
        self.assertEqual(len(steps), len(samples))
        for row in steps:
            self.assertAlmostEqual(row["reward"], wanted[row["sample_id"]], delta=1e-12)
        self.assertGreater(len({row["reward"] for row in samples.values()}), 2)
        return steps

    def test_a_reward_program_is_tried_once_with_the_label(self):
        asked = self.folder / "asked"
        self.captured("tried", *self.stops, "--reward", "command", "--reward-command",
                      f"{sys.executable} -c \"import sys\nlines = list(sys.stdin)\nwith open('{asked}', 'a') as file: "
                      "file.write(''.join(lines) + '\\n')\nfor line in lines: print(1)\"")
        tried, first, *_ = [[json.loads(line) for line in start.splitlines()]
                            for start in asked.read_text().strip().split("\n\n")]
        line, = tried
        self.assertEqual(line["response"], line["label"])
        self.assertEqual({**line, "response": ""}, {**first[0], "response": ""})

    def test_rewards_of_a_step_are_the_shaped_ones(self):
        # A reward that a response of random bytes can have: its length.
        reward = ("--reward", "command", "--reward-command",
                  f"{sys.executable} -c \"import json, sys\nfor line in sys.stdin:\n"
                  "    print(len(json.loads(line)['response']) % 5)\"")
        plain = self.captured("rewards", *self.stops, *reward)
        for row in self.check_shaped(plain, self.shaped):
            self.assertAlmostEqual(row["advantages"][-1], row["reward"], delta=1e-6)
        self.check_shaped(self.captured("mean", *self.stops, *reward,
                                        "--disable-grpo-std-normalization"),
                          lambda rewards: self.shaped(rewards, deviation=False))
        self.check_shaped(self.captured("raw", *self.stops, *reward,
                                        "--disable-rewards-normalization"), list)
        step = self.lines("objective", plain)[0]
        rewards, = [q for q in step["quantities"] if q["name"] == "rewards"]
        self.assertEqual(rewards["verdict"], "equal")
        # A replay computes them again, and says where it has others.
        self.assertTrue(self.closing("train", "--from", plain)["identical"])
        text = self.run_program("train", "--from", plain, "--disable-grpo-std-normalization").stdout
        self.assertIn("\n  rewards ", text)

    def test_a_replay_records_the_same(self):
        again = self.folder / "again"
        self.lines("train", "--from", self.dump, "-o", again)
        self.assertEqual(self.run_program("diff", self.dump, again).returncode, 0)

    def referee(self, *flags, code=0):
        result = self.run_program("train", self.dump, "--forward", "--json", *flags)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout)

    def test_the_referee_judges_what_its_weights_wrote(self):
        first = self.referee()
        self.assertEqual((first["weights_version"], first["samples_judged"],
                          first["samples_of_other_versions"]), (0, 8, 8))
        later = self.referee("--weights-version", "2")
        self.assertEqual((later["weights_version"], later["samples_judged"],
                          later["samples_of_other_versions"]), (2, 8, 8))
        chosen = self.referee("--steps", "1.0..1.1")
        self.assertEqual((chosen["samples_judged"], chosen["samples_of_other_versions"]), (8, 0))
        for report in (first, later, chosen):
            self.assertEqual(report["rollout"]["max"], 0)
        # Of a checkpoint nobody knows which version it is.
        error = self.referee("--model", self.model, code=USAGE)["error"]
        self.assertIn("weight versions 0, 2", error["message"])
        few = self.captured("few", *self.stops)
        result = self.run_program("train", few, "--forward", "--weights-version", "2")
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("the dump holds those of rollout 0", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
