"""The wheel, installed: its programs, and dumps as arrays and tables.

usage: wheel_test.py BUILD [TEST...]     BUILD: of the preset wheel
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/dumps/0.9"
BAD = ROOT / "tests/golden/bad"
LINES = [
    {"schema": "rlreplay.sample/1", "rollout_id": 3, "sample_id": 1, "prompt_length": 2,
     "tokens": [5, 6, 7, 8, 9], "group_id": 4, "log_probs": [-0.5, -1.25, -0.1], "reward": 1.0,
     "prompt": "1+1=", "response": "zwei\u00e9"},
    {"schema": "rlreplay.sample/1", "rollout_id": 3, "sample_id": 2, "prompt_length": 1,
     "tokens": [5, 6], "group_id": 4, "reward": 0.0, "prompt": "", "response": "2"},
    {"schema": "rlreplay.train/1", "rollout_id": 3, "step_id": 0, "rank": 0, "sample_id": 1,
     "prompt_length": 2, "tokens": [5, 6, 7, 8, 9], "log_probs": [-0.5, -1.5, -0.25],
     "advantages": [0.25, 0.5, 1.0], "loss_mask": [1, 1, 0]},
    {"schema": "rlreplay.train/1", "rollout_id": 3, "step_id": 0, "rank": 0, "sample_id": 2,
     "prompt_length": 1, "tokens": [5, 6], "log_probs": [-2.0], "loss_mask": [1]},
    {"schema": "rlreplay.step/1", "rollout_id": 3, "step_id": 0, "rank": 0,
     "scalars": {"grad_norm": 2.5, "loss": 0.125}},
]


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        here = pathlib.Path(cls.folder.name)
        made = subprocess.run([sys.executable, ROOT / "scripts/make_wheel", BUILD, here / "dist"], check=True,
                              capture_output=True, text=True)
        cls.wheel = pathlib.Path(made.stdout.strip())
        venv.create(here / "venv", with_pip=True)
        cls.bin = here / "venv/bin"
        subprocess.run([cls.bin / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
                        cls.wheel], check=True)
        # numpy and pandas of the tests' own environment, behind what is installed here.
        site = next((here / "venv").glob("lib/python*/site-packages"))
        (site / "tests.pth").write_text(next(p for p in sys.path if p.endswith("site-packages")) + "\n")
        (here / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
        cls.dump = here / "dump"
        cls.say("rlreplay", "import", here / "lines.jsonl", "-o", cls.dump)

    @classmethod
    def say(cls, program, *words, code=0):
        made = subprocess.run([cls.bin / program, *words], capture_output=True, text=True, timeout=300,
                              env={"PATH": os.environ["PATH"]})
        if made.returncode != code:
            raise AssertionError(f"exit {made.returncode}: {made.stdout}{made.stderr}")
        return made.stdout if code == 0 else made.stderr

    def python(self, text, *words, code=0):
        return self.say("python", "-c", "import numpy, rlreplay, sys\n" + text, *words, code=code)

    def test_the_name_says_what_the_programs_need(self):
        self.assertRegex(self.wheel.name, r"^rlreplay-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_\w+\.whl$")
        with zipfile.ZipFile(self.wheel) as archive:
            self.assertLess(sum(i.file_size for i in archive.infolist()), 30 << 20)
            self.assertIsNone(archive.testzip())

    def test_programs_look_and_name_the_package_that_computes(self):
        self.assertIn(" 3-0 ", self.say("rlreplay", "show", self.dump))
        self.say("rlreplay", "verify", "--deep", self.dump)
        self.assertIn(".deb", self.say("rlreplay", "capture", "--model", "demo", "-o", "x", code=4))
        self.say("rlbisect", self.dump, self.dump, code=1)  # no difference to be found

    def test_arrays_are_what_another_reader_gives(self):
        count = self.python(
            "sys.path.insert(0, sys.argv[2])\nimport rlreplay_h5\n"
            "own, other = rlreplay.open(sys.argv[1]), rlreplay_h5.open(sys.argv[1])\n"
            "named = lambda k: k.replace('-', '.', 1) if k.split('/')[0] in ('train', 'weights') else k\n"
            "for key in other:\n"
            "    a, b = own[named(key)], other[key]\n"
            "    assert a.shape == b.shape and a.tobytes() == b.tobytes(), key\n"
            "assert {named(k) for k in other} == {k for k in own if not k.startswith('x-')}\n"
            "print(len(other))", GOLDEN, ROOT / "scripts")
        self.assertGreater(int(count), 20)

    def test_tables_are_what_was_imported(self):
        self.python(
            "dump = rlreplay.open(sys.argv[1])\n"
            "assert dump.rollouts == [3] and dump.steps == ['3.0'], (dump.rollouts, dump.steps)\n"
            "rows = dump.samples('rollout/3').to_dict('records')\n"
            "assert [r['sample_id'] for r in rows] == [1, 2] and [r['rewards'] for r in rows] == [1, 0]\n"
            "assert rows[0]['tokens'].tolist() == [5, 6, 7, 8, 9] and rows[1]['log_probs'] is None\n"
            "assert rows[0]['response_text'] == 'zwei\\u00e9', rows[0]\n"
            "tokens = dump.tokens('train/3.0/rank0')\n"
            "assert tokens['position'].tolist() == [0, 1, 2, 3, 4, 0, 1]\n"
            "assert tokens['sample_id'].tolist() == [1] * 5 + [2] * 2\n"
            "assert tokens['advantages'].tolist()[2:5] == [0.25, 0.5, 1.0]\n"
            "assert tokens['advantages'].isna().tolist() == [False] * 5 + [True] * 2\n"
            "(row,) = dump.scalars().to_dict('records')\n"
            "assert row == {'step': '3.0', 'rank': 0, 'grad_norm': 2.5, 'loss': 0.125}, row\n"
            "assert '<th>root</th><td>' + dump.root in dump._repr_html_()\n", self.dump)

    def test_nothing_is_read_before_it_is_asked_for(self):
        copy = pathlib.Path(self.folder.name, "lacking")
        shutil.copytree(GOLDEN, copy)
        shutil.rmtree(copy / "weights")
        self.python("dump = rlreplay.open(sys.argv[1])\nassert dump.steps\n"
                    "name = next(k for k in rlreplay.open(sys.argv[2]) if k.startswith('weights/'))\n"
                    "try:\n    dump[name]\nexcept rlreplay.DumpError as e:\n"
                    "    assert (e.kind, e.rule) == ('incomplete', 'unit-missing'), (e.kind, e.rule)\n"
                    "else:\n    assert False\n", copy, GOLDEN)

    def test_a_changed_byte_is_an_error_with_its_rule(self):
        copy = pathlib.Path(self.folder.name, "changed")
        shutil.copytree(self.dump, copy)
        unit = copy / "rollout/3.h5"
        data = bytearray(unit.read_bytes())
        data[len(data) // 2] ^= 1
        unit.write_bytes(data)
        self.python("try:\n    rlreplay.open(sys.argv[1])['rollout/3/tokens']\n"
                    "except rlreplay.DumpError as e:\n"
                    "    assert e.rule == 'unit-hash' and 'rollout/3.h5' in e.where, (e.rule, e.where)\n"
                    "else:\n    assert False\n", copy)

    def test_an_error_names_dataset_and_byte_where_they_are_known(self):
        said = {}
        for case in ("record-syntax", "meaning"):
            copy = pathlib.Path(self.folder.name, case)
            shutil.copytree(BAD / "sound", copy)
            shutil.copytree(BAD / case, copy, dirs_exist_ok=True)
            said[case] = self.python(
                "try:\n    dump = rlreplay.open(sys.argv[1])\n    [dump[k] for k in dump]\n"
                "except rlreplay.DumpError as e:\n    print(e.rule, e.dataset or '-', e.offset)\n", copy)
        self.assertEqual(said, {"record-syntax": "record-syntax - 326\n",
                                "meaning": "meaning 1-0/parameters/v None\n"})

    def test_what_is_no_dump_and_no_name_is_said(self):
        self.python("try:\n    rlreplay.open(sys.argv[1])\n"
                    "except rlreplay.DumpError as e:\n    assert e.rule == 'not-a-dump', e.rule\n"
                    "else:\n    assert False\n"
                    "try:\n    rlreplay.open(sys.argv[2])['rollout/4/tokens']\nexcept KeyError:\n    pass\n"
                    "else:\n    assert False\n", self.folder.name, self.dump)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
