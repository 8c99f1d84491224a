"""Every flag of launch scripts is of exactly one class, which the table in the program has too.
usage: launch_flags_test.py RLREPLAY
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import make_launch_flags  # noqa: E402

PROGRAM = sys.argv.pop(1)
ROW = re.compile(r'\{"([^"]*)", "([^"]*)", (k\w+),\n(.*?) " "\},', re.S)


def table():
    """Values and class of each flag."""
    out = {}
    for prefix, values, kind, names in ROW.findall((ROOT / "src/replay/launch/launch_flags.inc").read_text()):
        for name in " ".join(re.findall(r'"([^"]*)"', names + '"')).split():
            assert prefix + name not in out, name
            out[prefix + name] = values, kind
    return out


class Classes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table = table()
        cls.folder = tempfile.TemporaryDirectory()
        cls.dump = f"{cls.folder.name}/dump"
        subprocess.run([PROGRAM, "capture", "--model", "demo", "--steps", "1", "--rollout-batch-size",
                        "1", "--n-samples-per-prompt", "2", "-o", cls.dump], check=True,
                       capture_output=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_with(self, verb, flags):
        """Every flag at once: the error, or the flags of numbers and those that are ignored."""
        words = [f"--{f}" + ("" if self.table[f][0] == "0" else "=7") for f in flags]
        ran = subprocess.run([PROGRAM, *verb, *words, "--print-config"], capture_output=True,
                             text=True)
        def listed(text):
            line = next((line for line in ran.stderr.splitlines() if text in line), text + ": ")
            return set(re.findall(r"--([\w-]+)", line.split(": ")[-1]))
        return ran, listed("numbers of the launch script's run"), listed("ignored")

    def test_one_class_each(self):
        self.assertGreater(len(self.table), 1900)
        self.assertEqual({name: make_launch_flags.CLASSES[kind] for name, kind
                          in make_launch_flags.classes_of(self.table).items()},
                         {name: kind for name, (_, kind) in self.table.items()})

    def test_what_the_program_says(self):
        others = {name for name, (_, kind) in self.table.items() if kind != "kOwn"} - {"config"}
        for verb in (["capture", "--model", "demo"], ["train", self.dump], ["objective", self.dump]):
            refused, _, _ = self.run_with(verb, others)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            named = set(re.findall(r"--([\w-]+)(?: 7)?: ", refused.stderr)) & others
            ran, numbers, ignored = self.run_with(verb, others - named)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            own = {"reward-key"} if verb[0] == "objective" else set()
            self.assertEqual(numbers | ignored | named, others - own)
            for name in numbers | ignored | named:
                said = "kNothing" if name in ignored else "kNumbers"
                self.assertEqual(self.table[name][1], said, (verb, name))

    def test_options_are_options(self):
        own = {name for name, (_, kind) in self.table.items() if kind == "kOwn"}
        printed = self.run_with(["capture", "--model", "demo"], [])[0].stdout
        options = set(re.findall(r"^([\w-]+):", printed, re.M)) | {"hf-checkpoint", "prompt-data"}
        self.assertEqual(own, options & set(self.table))

    def test_numbers(self):
        for name in ("fp8-format", "grad-reduce-in-bf16", "init-method-std", "bf16", "num-layers",
                     "moe-router-topk", "rotary-base", "norm-epsilon", "transformer-impl",
                     "sglang-quantization", "sglang-kv-cache-dtype"):
            self.assertEqual(self.table[name][1], "kNumbers", name)


if __name__ == "__main__":
    unittest.main()
