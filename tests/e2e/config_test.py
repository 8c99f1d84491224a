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
