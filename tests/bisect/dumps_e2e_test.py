"""rlbisect on two dumps.
usage: dumps_e2e_test.py PROGRAM PLANTED_DUMP
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

from support import SEED, Case

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
from dump_patch import Array, Patched  # noqa: E402

Case.program, PLANTED_DUMP = map(os.path.abspath, sys.argv[1:3])
del sys.argv[1:3]


def draw(seed):
    """A random event and element whose disturbance changes the weights."""
    return subprocess.run([PLANTED_DUMP, "draw", str(seed)], capture_output=True, text=True,
                          check=True).stdout.strip()


def planted(origin):
    """An origin as the injection that it shows."""
    return f"{origin['event']}:{origin['index']}:{origin['ulps']}"


class Dumps(Case):
    def write(self, name, *injection):
        path = self.folder / name
        subprocess.run([PLANTED_DUMP, "write", str(path), *injection], check=True)
        return path

    def page(self, *arguments):
        """The page of a comparison or search, as the browser would read it: it must be whole and load nothing."""
        path = self.folder / "page.html"
        result = self.bisect(*arguments, "--html", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        page = path.read_text()
        self.assertNotRegex(page, "(src|href)=|url\\(")
        return page

    def test_the_page_shows_where_and_how_far(self):
        two = "3.0/optimizer/0/weight/model.layers.0.mlp.down_proj.weight:4226:5"
        page = self.page(self.write("good"), self.write("bad", two))
        self.assertIn('<th>optimizer<td class="cell begins"', page)
        self.assertIn("<title>1 float from 4 ulp up to twice that</title>", page)
        self.assertIn("<title>0 floats from 2 ulp up to twice that</title>", page)
        self.assertEqual(page.count("<rect "), 3)
        path, commits = self.repository(*[f"cp -r '{self.folder}/{name}' \"$RLBISECT_OUT/dump\""
                                          for name in ("good", "good", "bad", "bad")])
        page = self.page(f"{commits[0]}..main", "--repo", path, "--run", "./run.sh")
        self.assertEqual(page.count("<i class="), 4)
        self.assertIn('<th>optimizer<td class="cell begins"', page)

    def test_two_dumps(self):
        injection = draw(SEED)
        good, same, bad = self.write("a..1"), self.write("a..2"), self.write("b", injection)
        with self.subTest(seed=SEED, injection=injection):
            result = self.bisect(f"{good}/..{bad}/", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads(result.stdout)
            self.assertEqual(planted(found["origin"]), injection)
            self.assertTrue(found["origin"]["inputs_equal"])
            self.assertIs(found["identical"], False)
            result = self.bisect(good, bad)
            self.assertIn("first difference: " + injection.split(":")[0], result.stdout)
            self.assertEqual(result.stdout.splitlines()[-1].strip(),
                             f"rlbisect '{good}' '{bad}'")
            page = self.page(good, bad)
            begins = page.index('class="cell begins"')
            self.assertIn(injection.split(":")[0].split("/", 3)[3], page[begins:page.index(">", begins)])
        early = self.write("early", "3.0/rollout/0/down/y:0:1")
        result = self.bisect(good, early, "--json")
        self.assertEqual(planted(json.loads(result.stdout)["origin"]), "3.0/rollout/0/down/y:0:1")
        broken = self.write("broken")
        unit, = (broken / "rollout").glob("3*.h5")
        unit.chmod(0o644)
        unit.write_bytes(unit.read_bytes()[:-1] + b"?")
        for ends in ((good, broken), (broken, good)):
            result = self.bisect(*ends)
            self.assertEqual(result.returncode, 128)
            self.assertIn(str(unit), result.stderr)
        result = self.bisect(f"{good}..{same}", "--json")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIs(json.loads(result.stdout)["identical"], True)
        for arguments, code in (([good, same], 0), ([good, bad], 1), ([good, self.temporary], 128),
                                ([good, bad, "--metric", "loss", "--tolerance", "1"], 0)):
            result = self.bisect("verdict", *arguments)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)

    def test_an_interrupt_ends_the_comparison_of_the_sides(self):
        dumps = [self.write("good"), self.write("bad", "3.0/optimizer/0/weight/model.layers.0.mlp.down_proj.weight:4226:5")]
        path, commits = self.repository(*[f"cp -r '{dump}' \"$RLBISECT_OUT/dump\"" for dump in dumps])
        page = self.folder / "report.html"
        command = [self.program, f"{commits[0]}..main", "--repo", str(path), "--build", "true", "--run", "./run.sh",
                   "--html", page]
        for number in range(100):  # until it is met while it compares, which takes a moment
            search = subprocess.Popen(command, env=self.environment, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
            journals = path / ".git" / "rlbisect" / "sessions"
            while search.poll() is None and not any('"result"' in journal.read_text()
                                                    for journal in journals.glob("*/journal.jsonl")):
                pass
            time.sleep(number % 10 * 0.001)
            search.send_signal(signal.SIGINT)
            output, error = search.communicate()
            self.assert_nothing_left()
            if search.returncode != 0:
                break
            shutil.rmtree(journals)
        self.assertEqual(search.returncode, 130, error)
        for report in (output, page.read_text()):
            self.assertIn(commits[1][:12], report)
            self.assertIn("the dumps were not compared: interrupted", report)
        self.assertIn("rlbisect: interrupted: rlbisect resume goes on", error)
        resumed = self.bisect("resume", "--repo", path)
        self.assertIn("runs       0 for 1 revision", resumed.stdout)
        self.assertIn("first difference: 3.0/optimizer/0/weight", resumed.stdout)

    def test_the_sides_are_explained_by_their_own_dumps(self):
        """However often they are run, and wherever another commit changes more."""
        culprit = "3.0/optimizer/0/weight/model.layers.0.mlp.down_proj.weight:4226:1"
        later = "3.0/forward/-/log_prob/log_prob:76:2"
        dumps = [self.write("good"), self.write("culprit", culprit), self.write("later", later)]
        path, commits = self.repository(*[f"cp -r '{dumps[kind]}' \"$RLBISECT_OUT/dump\""
                                          for kind in (0, 0, 1, 2, 2)])
        for arguments in ([], ["--repeat-sides", "1"], ["--repeat-sides", "1", "--repeat-ends", "1"]):
            with self.subTest(arguments=arguments):
                result, found = self.search(path, commits[0], commits[4], *arguments)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(found["culprit"], commits[2])
                self.assertEqual(planted(found["origin"]), culprit)

    def test_dumps_that_bisection_cannot_judge(self):
        """Without events, of several ranks, of a part of the other: what is there is compared."""
        good = Patched(self.write("good"))
        for units in good.units.values():
            for name in [name for name in units if "/events/" in name]:
                del units[name]
        plain = good.write(self.folder / "no events")
        self.assertEqual(self.bisect(plain, plain).returncode, 1)
        result = self.bisect(self.folder / "good", plain)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("holds no events", result.stdout)
        self.assertEqual(self.bisect("verdict", plain, plain).returncode, 0)
        result = self.bisect("verdict", plain, plain, "--metric", "weights")
        self.assertEqual(result.returncode, 129, result.stdout + result.stderr)
        self.assertIn("this is no reference: the weights after step 3.0 were not recorded", result.stderr)
        good.units["train/3-0/rank1.h5"] = {
            "3-0/scalars": Array(good.at("train/3-0/rank0.h5", "3-0/scalars").values[:1] + 1, "f64",
                                 [1], {"columns": "grad_norm"})}
        found = json.loads(self.bisect(plain, good.write(self.folder / "ranks"), "--json").stdout)
        self.assertEqual(found["first"]["field"], "step/grad_norm")
        del good.units["train/3-0/rank0.h5"], good.units["train/3-0/rank1.h5"]
        found = json.loads(self.bisect(plain, good.write(self.folder / "part"), "--json").stdout)
        self.assertEqual(found["only"], ["step 0 of rollout 3 is only in A"])

    def test_folders_that_are_no_dumps(self):
        result = self.bisect(self.folder, self.temporary)
        self.assertEqual(result.returncode, 128)
        self.assertEqual(result.stdout, "")
        good = self.write("good")
        unit = good / "train/3-0/rank0.h5"
        content = bytearray(unit.read_bytes())
        content[-1] ^= 1
        unit.write_bytes(content)
        result = self.bisect(good, good, "--json")
        self.assertEqual(result.returncode, 128)
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "corrupt")


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
