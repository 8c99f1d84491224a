"""scripts/check_commits, on repositories made for it: each rule is broken once."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_commits"


class CheckCommitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.git("init", "-q", "-b", "main")
        self.commit("first", "README.md", "tests/golden/dumps/0.1/manifest.json", "tests/golden/run.txt")

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false",
                        "-C", self.root, *words], check=True)

    def commit(self, message, *names, fresh=False):
        for name in names:
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(message + "\n" if fresh or not path.exists() else path.read_text() + message + "\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def check(self, *words):
        return subprocess.run([SCRIPT, *words], cwd=self.root, capture_output=True, text=True)

    def refused(self, words, *names):
        answer = self.check(*names)
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertIn(words, answer.stdout)

    def test_a_first_commit_is_not_judged(self):
        self.assertEqual(self.check().returncode, 0)
        self.assertIn("no history", self.check().stdout)

    def test_what_belongs_together_changes_together(self):
        self.commit("alone", "format/SPEC.md")
        self.refused("format/SPEC.md changes without CHANGELOG.md")
        self.commit("together", "format/SPEC.md", "CHANGELOG.md")
        self.assertEqual(self.check().returncode, 0)
        self.commit("key", "docs/json/show.json")
        self.refused("docs/json/show.json changes without CHANGELOG.md")
        self.commit('    {"rollout", "tokens"}', "format/columns.cpp")
        self.refused("format/columns.cpp changes without format/SPEC.md")
        self.commit("// words", "format/columns.cpp")
        self.assertEqual(self.check().returncode, 0)
        self.commit("int count();", "src/bisect/verbs/count.h")
        self.assertEqual(self.check().returncode, 0)
        self.commit('"--flag"', "src/bisect/verbs/search.cpp")
        self.refused("src/bisect/verbs/search.cpp changes without docs/bisect.md")

    def test_a_range_is_judged_commit_by_commit(self):
        self.commit("flags", "scripts/launch_flag_classes.txt")
        self.commit("harmless", "README.md")
        self.assertEqual(self.check().returncode, 0)
        self.refused("launch_flags.inc", "HEAD~2..HEAD")

    def test_what_a_commit_includes_is_in_it(self):
        self.commit('#include "src/base/gone.h"', "src/run.cpp")
        self.refused("src/run.cpp includes src/base/gone.h, which the commit has not")
        self.commit("header", "src/base/gone.h")
        self.assertEqual(self.check().returncode, 0)
        self.refused("src/run.cpp includes", "HEAD~2..HEAD")

    def test_released_dumps_never_change(self):
        for name in ("0.1/manifest.json", "0.9/manifest.json", "1.0.json"):
            name = "tests/golden/dumps/" + name
            self.commit("the first bytes", name)
            self.commit("other bytes", name)
            self.refused(name + " is of a released version")

    def test_golden_bits_change_with_a_reason(self):
        self.commit("one line more", "tests/golden/run.txt")
        self.assertEqual(self.check().returncode, 0)
        self.commit("bits", "tests/golden/run.txt", fresh=True)
        self.refused("does not say why")
        why = "bits\n\nThe sum was of the wrong order."
        self.commit(why, "tests/golden/run.txt", fresh=True)
        self.assertEqual(self.check().returncode, 0)

    def test_bits_of_the_contract_change_with_its_text(self):
        why = "bits\n\nThe sum was of the wrong order."
        self.commit(why, "tests/golden/kernels.txt")
        self.commit(why + " Again.", "tests/golden/kernels.txt", fresh=True)
        self.refused("without docs/numerics.md")
        self.refused("without src/replay/record/dump_meta.cpp")
        self.commit(why, "tests/golden/kernels.txt", "docs/numerics.md", "src/replay/record/dump_meta.cpp", fresh=True)
        self.assertEqual(self.check().returncode, 0)

    def test_a_range_that_is_none_is_said(self):
        answer = self.check("nowhere..HEAD")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("nowhere", answer.stderr)


unittest.main()
