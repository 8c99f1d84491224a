"""Configuration files: an error names file, line and key, whenever it is found.

usage: config_test.py RLREPLAY
"""
import sys
import unittest

import support


class Config(support.Case):
    def refused(self, name, text, *flags, code=2):
        path = self.folder / name
        path.write_text(text)
        result = self.run_program("train", "--config", path, "--print-config", *flags)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stderr.replace(str(self.folder) + "/", "")

    def test_both_forms_say_the_same(self):
        cases = (
            ("lrr", "1", "there is no option --lrr, did you mean --lr?", 2),
            ("lr", "fast", "--lr", 2),
            ("rollout_top_p", "2", "--rollout-top-p is a share", 2),
            ("adam-beta1", "1.5", "--adam-beta1 and --adam-beta2 must be below 1", 2),
            ("global-batch-size", "7", "--global-batch-size", 2),
        )
        for key, value, said, code in cases:
            for text, name in ((f"model: demo\n\n{key}: {value}\nseed: 3\n", "c.yaml"),
                               (f'{{"model": "demo",\n\n"{key}": "{value}",\n"seed": 3}}', "c.json")):
                found = self.refused(name, text, code=code)
                self.assertIn(f"{name}:3: ", found)
                self.assertIn(said, found)

    def test_sizes_that_no_run_can_have(self):
        many = 1 << 62
        for words, said in (
                (["--rollout-batch-size", many, "--n-samples-per-prompt", "4"], "at most 2147483647"),
                (["--rollout-batch-size", 1 << 20, "--n-samples-per-prompt", 1 << 20],
                 "more samples than a rollout can have"),
                (["--num-rollout", many], "at most 2147483647"),
                (["--num-rollout", 1 << 30, "--num-steps-per-rollout", "4"],
                 "more steps than a run can have"),
                (["--num-steps-per-rollout", "512"], "does not divide the 256 samples"),
                (["--global-batch-size", "512"], "does not divide the 256 samples"),
                (["--rollout-max-response-len", many], "at most 2147483647"),
                (["--rollout-stop-token-ids", "5,4294967296"], "at most 2147483647"),
                (["--clip-grad", "1e-50"], "binary32"), (["--clip-grad", "1e39"], "binary32"),
                (["--rollout-temperature", "1e-50"], "binary32")):
            for verb in (["train"], ["capture", "-o", self.folder / "none"]):
                result = self.run_program(*verb, "--model", "demo", *words, "--print-config")
                self.assertEqual((result.returncode, result.stdout), (2, ""), (words, result.stderr))
                self.assertIn(said, result.stderr)
        for words in (["--clip-grad", "1e-40"], ["--clip-grad", "0"]):
            result = self.run_program("train", "--model", "demo", *words, "--print-config")
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_values_that_are_no_values(self):
        self.assertIn("c.yaml:2: lr: an option's value is a scalar or a list",
                      self.refused("c.yaml", "model: demo\nlr: {x: 1}\n", code=3))
        self.assertIn("c.json:2: lr: an option's value is a scalar or a list",
                      self.refused("c.json", '{"model": "demo",\n "lr": {"x": 1}}', code=3))
        self.assertIn("c.json: not valid JSON at byte 34, line 3",
                      self.refused("c.json", '{"model": "demo",\n "lr": 1\n "seed": 2}', code=3))
        self.assertIn("c.yaml:3: no YAML", self.refused("c.yaml", "model: demo\nlr: [1\n", code=3))

    def test_an_option_is_set_once(self):
        for text, name in (("lr: 1\nmodel: demo\nlr: 2\n", "c.yaml"),
                           ("adam_eps: 1\nmodel: demo\nadam-eps: 2\n", "c.yaml"),
                           ('{"adam_eps": 1,\n"model": "demo",\n"adam-eps": 2}', "c.json")):
            found = self.refused(name, text, code=3)
            self.assertIn("is set twice, first at ", found)
            self.assertIn(f"{name}:3", found)
            self.assertIn(f"{name}:1", found)

    def test_a_flag_that_overrides_is_to_blame(self):
        found = self.refused("c.yaml", "rollout-top-p: 0.5\n", "--rollout-top-p", "2")
        self.assertNotIn("c.yaml", found)
        found = self.refused("c.yaml", "seed: 1\nkl-coef: 1\n", "--kl-loss-coef", "1",
                             "--use-kl-loss")
        self.assertIn("c.yaml:2: --kl-coef and --kl-loss-coef exclude each other", found)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
