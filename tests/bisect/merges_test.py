"""rlbisect names a merge only where all that it merged is known to be good. usage: merges_test.py PROGRAM"""
import os
import random
import shutil
import sys
import unittest

from planted import RUN, write_commits
from support import FULL, SEED, Case

Case.program = os.path.abspath(sys.argv.pop(1))
CASES = 200 if FULL else 20


class Graph:
    """A random history with branches, merges of two and of three, and commits that cannot be judged.
    Whatever contains one commit, `culprit`, is bad; the first commit is good, the last one contains all."""

    def __init__(self, path, seed):
        rng = random.Random(seed)
        self.parents = [[]]
        self.grow(rng, rng.randint(5, 30))
        count = len(self.parents)
        self.culprit = rng.randrange(1, count)
        share = rng.choice((0, 0.15, 0.4))
        self.broken = {i for i in range(1, count - 1) if rng.random() < share}
        self.contained = []
        for i, parents in enumerate(self.parents):
            self.contained.append({i}.union(*(self.contained[parent] for parent in parents)))
        self.commits = write_commits(path, [
            (parents, {"state": f"{int(self.is_bad(i))} {'broken' if i in self.broken else 'ok'}\n", "n.txt": f"{i}\n"})
            for i, parents in enumerate(self.parents)])

    def add(self, *parents):
        self.parents.append(list(parents))
        return len(self.parents) - 1

    def grow(self, rng, count):
        main, branches = 0, []
        while len(self.parents) < count:
            kind = rng.choice(("main", "fork", "branch", "branch", "back", "merge", "three"))
            rng.shuffle(branches)
            if kind == "fork":
                branches.append(self.add(rng.randrange(max(0, len(self.parents) - 12), len(self.parents))))
            elif kind == "branch" and branches:
                branches[0] = self.add(branches[0])
            elif kind == "back" and branches:
                branches[0] = self.add(branches[0], main)
            elif kind == "merge" and branches:
                main = self.add(main, branches.pop())
            elif kind == "three" and len(branches) > 1:
                main = self.add(main, branches.pop(), branches.pop())
            else:
                main = self.add(main)
        for branch in branches:
            main = self.add(main, branch)
        self.add(main)

    def is_bad(self, i):
        return self.culprit in self.contained[i]

    def is_known_good(self, i):
        return not self.is_bad(i) and i not in self.broken

    def may_be_named(self, i):
        """It is bad, and each parent is good; one that another parent contains says nothing more."""
        parents = self.parents[i]
        return self.is_bad(i) and i not in self.broken and all(
            self.is_known_good(parent) or any(parent in self.contained[other] - {other} and self.is_known_good(other)
                                              for other in parents)
            for parent in parents)


class Merges(Case):
    def test_random_graphs(self):
        named = 0
        for number in range(CASES):
            with self.subTest(seed=SEED, number=number):
                graph = Graph(self.folder / f"graph {number}", f"{SEED} {number}")
                path = self.folder / f"graph {number}"
                result, found = self.search(path, graph.commits[0], "main", "-j", str(1 + number % 2), run=RUN)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(graph.commits[graph.culprit], found["interval"])
                if found["culprit"]:
                    named += 1
                    self.assertTrue(found["confirmed"])
                    self.assertEqual(found["culprit"], graph.commits[graph.culprit])
                    self.assertTrue(graph.may_be_named(graph.culprit))
                else:
                    self.assertTrue(graph.broken)
                shutil.rmtree(path)
        self.assertGreater(named, 0)
        self.assert_nothing_left()

    def ask(self, *commits):
        """Of (parents, state) each, the last is the bad end."""
        path = self.folder / "my repo"
        ids = write_commits(path, [(parents, {"state": state + "\n", "n.txt": f"{i}\n"})
                                   for i, (parents, state) in enumerate(commits)])
        result, found = self.search(path, ids[0], "main", run=RUN)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((found["culprit"], found["confirmed"]), (None, False))
        text = self.bisect(f"{ids[0]}..main", "--repo", path, "--run", RUN)
        self.assertEqual(text.returncode, 0)
        return [ids.index(commit) for commit in found["interval"]], text.stdout

    def test_a_branch_that_begins_where_nothing_can_be_judged(self):
        interval, text = self.ask(([], "0 ok"), ([0], "0 broken"), ([1], "1 ok"), ([1], "0 ok"), ([3, 2], "1 ok"))
        self.assertEqual(interval, [2, 4])
        self.assertIn("culprit    one of these 2, of which the last merged the others", text)
        self.assertIn("what it merged is bad, and where the branch begins", text)
        self.assertNotIn("confirmed", text)

    def test_a_branch_whose_end_cannot_be_judged(self):
        interval, text = self.ask(([], "0 ok"), ([0], "0 ok"), ([0], "1 broken"), ([1, 2], "1 ok"))
        self.assertEqual(interval, [2, 3])
        self.assertIn("is skipped", text)

    def test_a_history_of_its_own_that_was_merged(self):
        interval, text = self.ask(([], "0 ok"), ([], "1 ok"), ([1], "1 ok"), ([0, 2], "1 ok"))
        self.assertEqual(interval, [1, 2, 3])
        self.assertIn("no commit", text)

    def test_commits_of_a_branch_that_were_not_run_are_counted(self):
        # Sixteen commits on a branch, which one merge of four first parents brings in.
        commits = [([], "0 ok"), ([0], "0 ok"), *[([i + 1], f"{int(i > 9)} ok") for i in range(16)], ([1, 17], "1 ok"),
                   ([18], "1 ok")]
        path = self.folder / "my repo"
        ids = write_commits(path, [(parents, {"state": state + "\n", "n.txt": f"{i}\n"})
                                   for i, (parents, state) in enumerate(commits)])
        script = f"echo $RLBISECT_REVISION >> '{self.folder}/runs'; {RUN}"
        result, found = self.search(path, ids[0], "main", run=script)
        self.assertEqual((result.returncode, found["culprit"]), (0, ids[12]), result.stderr)
        run = (self.folder / "runs").read_text().split()
        self.assertEqual((found["runs"], found["not_run"]), (len(run), 20 - len(set(run))))
        self.assertEqual(sum(found["purposes"].values()), len(run))
        text = self.bisect(f"{ids[0]}..main", "--repo", path, "--run", script).stdout
        self.assertIn(f"not run    {20 - len(set(run))} of 19 revisions", text)

    def test_merges_among_commits_that_cannot_be_judged(self):
        path = self.folder / "my repo"
        states = [([], "0 ok"), ([0], "1 ok"), ([0], "0 ok"), ([2, 1], "1 broken"), ([3], "1 ok")]
        ids = write_commits(path, [(parents, {"state": state + "\n"}) for parents, state in states])
        result, found = self.search(path, ids[0], "main", run=RUN)
        self.assertEqual((result.returncode, found["culprit"]), (0, None))
        self.assertEqual(set(found["interval"]), {ids[1], ids[3], ids[4]})


if __name__ == "__main__":
    print(f"RLREPLAY_SEED={SEED}", file=sys.stderr)
    unittest.main()
