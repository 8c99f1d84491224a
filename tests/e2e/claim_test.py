"""A commit that says [bitwise] is held to it: the merge base and HEAD are run, and one bit is red.

usage: claim_test.py PROGRAM"""
import json
import os
import subprocess
import sys
import unittest

from support import Case

Case.program = os.path.abspath(sys.argv.pop(1))
RUN = "test -e built && git rev-parse HEAD && cat numbers.json > $RLBISECT_OUT/metrics.json && echo >>$SEEN"
NUMBERS = '{"loss": [0.75, 0.5], "grad_norm": [1.5, 1.25]}'
ONE_ULP = NUMBERS.replace("0.5]", "0.5000000000000001]")


class Claim(Case):
    def setUp(self):
        self.tree = self.folder / self.id().rsplit(".", 1)[1]
        self.tree.mkdir()
        self.seen = self.tree / ".git" / "seen"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        self.environment["SEEN"] = str(self.seen)
        self.git("init", "-q", "-b", "main")
        self.commit("A training run", NUMBERS)
        self.git("checkout", "-q", "-b", "branch")

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=self.tree, check=True,
                              text=True, capture_output=True, env=self.environment).stdout.strip()

    def commit(self, message, numbers):
        (self.tree / "numbers.json").write_text(numbers)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def claim(self, *words, code=0, at="main..HEAD", run=RUN, build="git rev-parse HEAD && touch built", **variables):
        run = ["--run", run, "--build", build] if run else []
        result = subprocess.run([Case.program, "golden", "check", "--claim", at, *run, *words], cwd=self.tree, text=True,
                                capture_output=True, env={**self.environment, **variables})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def runs(self):
        return self.seen.read_text().count("\n") if self.seen.exists() else 0

    def test_who_claims_nothing_is_not_run(self):
        self.assertIn("not claimed: [bitwise] is in none of 0 commits", self.claim())
        self.commit("Another loss, not bitwise", ONE_ULP)
        self.assertIn("not claimed: [bitwise] is in none of 1 commit of ", self.claim())
        self.assertIn('"outcome":"not claimed","passes":true', self.claim("--json"))
        self.assertEqual(self.runs(), 0)

    def test_one_bit_breaks_a_claim(self):
        self.commit("Another seed", ONE_ULP)
        self.commit("And back", NUMBERS)
        kept = self.commit("Fold a loop\n\nNo bit moves. [bitwise]", NUMBERS)
        said = self.claim()
        self.assertIn(f"[bitwise] is in 1 of 3 commits of {self.git('rev-parse', 'main')[:12]}..{kept[:12]}:\n"
                      f"  {kept[:12]} Fold a loop\nkept: 4 values, every bit\n", said)
        self.assertEqual(self.runs(), 4)
        broken = self.commit("[bitwise] Fold another", ONE_ULP)
        said = self.claim(code=1)
        self.assertIn(f"  {broken[:12]} [bitwise] Fold another\n  {kept[:12]} Fold a loop\nbroken: 1 of 4 values differ", said)
        self.assertIn("  step 1 loss: 0x1p-1 recorded, 0x1.0000000000001p-1 now (+1 ulp)\n", said)
        self.assertIn("which commit: rlbisect ", said)
        found = json.loads(self.claim("--json", code=1))
        self.assertEqual((found["outcome"], found["passes"], found["head"], found["commits"]), ("broken", False, broken, 4))
        self.assertEqual([c["commit"] for c in found["claims"]], [broken, kept])
        self.assertEqual([d["key"] for d in found["differences"]], ["step 1 loss"])
        gone = self.commit("Log less [bitwise]", '{"loss": [0.75, 0.5]}')
        self.assertIn("2 of 4 values differ", self.claim(code=1, at=f"main..{gone}"))
        self.assertEqual(len(self.git("worktree", "list").splitlines()), 1)
        self.assertEqual(self.git("status", "--porcelain"), "")

    def test_the_merge_base_and_the_commit_are_compared(self):
        self.commit("Fold a loop [bitwise]", NUMBERS)
        self.git("checkout", "-q", "main")
        self.commit("Another rate", NUMBERS.replace("0.75", "0.25"))
        self.git("checkout", "-q", "branch")
        (self.tree / "numbers.json").write_text(ONE_ULP)  # not committed
        self.assertIn("kept: 4 values", self.claim())
        self.assertIn("kept: 4 values", self.claim(GIT_DIR="/nowhere", GIT_INDEX_FILE="/nowhere/index"))
        self.git("checkout", "-q", "numbers.json")
        self.git("merge", "-q", "-m", "Merge main", "main")
        self.assertIn("kept: 4 values", self.claim())  # the merge base is main itself now
        self.git("checkout", "-q", "--orphan", "other")
        self.commit("Alone [bitwise]", NUMBERS)
        self.assertIn("no commit in common", self.claim(code=2))

    def test_what_cannot_be_judged_is_said(self):
        self.commit("Fold a loop [bitwise]", NUMBERS)
        count = "echo >>$SEEN && echo '{\"loss\": 0.'$(wc -l <$SEEN)'}' >$RLBISECT_OUT/metrics.json"
        for run, reason in (("exit 126", "the run exited with code 126"), (count, "its runs do not repeat"),
                            ("true", "it left no values"),
                            ("echo '{\"grad_norm\": [0, 0], \"loss\": 1}' >$RLBISECT_OUT/metrics.json", "no step has a gradient")):
            said = self.claim(run=run, code=3)
            self.assertIn("not judged: the merge base: ", said)
            self.assertIn(reason, said)
        self.assertIn("its build exited with code 3", self.claim(build="exit 3", code=3))
        self.assertIn("longer than its time limit", self.claim("--time-limit", "0.5", run="sleep 60", code=3))
        self.commit("Break it [bitwise]", "{}")
        said = self.claim(code=3)
        self.assertIn("not judged: the head: its run: metrics.json holds no number", said)
        self.assertEqual(json.loads(self.claim("--json", code=3))["outcome"], "not judged")

    def test_what_is_no_claim_is_refused(self):
        for at in ("main", "main..", "..HEAD", "main...HEAD"):
            self.assertIn("it is written BASE..HEAD", self.claim(at=at, code=2))
        self.assertIn('git knows no commit "nothing"', self.claim(at="main..nothing", code=2))
        self.assertIn('git knows no commit "--all"', self.claim(at="--all..main", code=2))
        self.assertIn("say how, --run CMD", self.claim(run=None, code=2))
        self.assertIn("no golden file", self.claim("goldens", code=2))
        self.assertIn("is a command", self.claim("--lr", "5", code=2))
        for words in (["--strict"], ["--run-recorded"], ["--junit", "x"], ["--self-test"]):
            self.assertIn("excludes --claim", self.claim(*words, code=2))
        self.tree = self.folder / "no checkout"
        self.tree.mkdir()
        self.assertIn("lies in no checkout of git", self.claim(code=2))


if __name__ == "__main__":
    unittest.main()
