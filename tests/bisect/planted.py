"""Histories of git with a planted change, and what a scan of all their commits says of them."""
import random
import subprocess

from histories import GIT_ENVIRONMENT, git

# The file `state` holds a loss and how the run goes; `flaky` is bad half of the time.
RUN = ("read loss kind < state; [ $kind != broken ] || exit 125; [ $kind != flaky ] || "
       "loss=$(($(od -An -N1 -tu1 /dev/urandom) % 2)); "
       "echo \"{\\\"loss\\\": [0.5, $loss]}\" > \"$RLBISECT_OUT/metrics.json\"")
LINK = "1" * 39  # the first digits of a submodule's commit
KINDS = ("linear", "documents", "broken", "merges", "reverted", "many changes", "flaky", "submodule",
         "pin")


def write_commits(path, commits):
    """A repository of (parents, {path: text}) each; parents are indices. Returns the hashes. A text
    of the form `link HASH` is a submodule."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    stream = []
    for mark, (parents, files) in enumerate(commits, 1):
        message = f"Change {mark}"
        stream += [] if parents else ["reset refs/heads/main\n\n"]
        stream.append(f"commit refs/heads/main\nmark :{mark}\n"
                      f"committer Author <author@example.com> {1700000000 + mark} +0000\n"
                      f"data {len(message)}\n{message}\n")
        stream += [f"{'merge' if i else 'from'} :{parent + 1}\n" for i, parent in enumerate(parents)]
        for name, text in files.items():
            if text.startswith("link "):
                stream.append(f"M 160000 {text[5:]} {name}\n")
            else:
                stream.append(f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n")
    marks = path.parent / (path.name + ".marks")
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet", f"--export-marks={marks}"],
                   input="".join(stream), text=True, check=True, env=GIT_ENVIRONMENT)
    git(path, "reset", "-q", "--hard")
    hashes = dict(line.split() for line in marks.read_text().splitlines())
    return [hashes[f":{mark}"] for mark in range(1, len(commits) + 1)]


class Planted:
    """A random history of a kind, of 30 to `most` commits."""

    def __init__(self, path, kind, seed, most=1000):
        self.path, self.kind, self.rng = path, kind, random.Random(seed)
        self.count = int(30 * (most / 30) ** self.rng.random())
        self.run = RUN
        states = getattr(self, "states_" + kind.replace(" ", "_"), self.states_linear)()
        commits = self.with_branches(states) if kind == "merges" else self.in_a_row(states)
        self.commits = write_commits(path, commits)

    def states_linear(self):
        self.culprit = self.rng.randrange(1, self.count)
        return [(int(i >= self.culprit), "ok") for i in range(self.count)]

    def states_broken(self):
        """Some commits, and a long stretch around the culprit, cannot be judged."""
        states = self.states_linear()
        before, behind = (self.rng.randrange(1, max(2, self.count // 4)) for _ in range(2))
        for i in range(1, self.count - 1):
            near = self.culprit - before <= i < self.culprit + behind
            if near or self.rng.random() < 0.02:
                states[i] = (states[i][0], "broken")
        return states

    def states_reverted(self):
        """Bad for a while, good again, and bad for good."""
        states = self.states_linear()
        first, last = sorted(self.rng.sample(range(1, self.count), 2))
        return [(int(first <= i < last or s[0]), "ok") for i, s in enumerate(states)]

    def states_many_changes(self):
        borders = sorted(self.rng.sample(range(1, self.count), self.rng.choice((3, 5, 7))))
        return [(sum(border <= i for border in borders) % 2, "ok") for i in range(self.count)]

    def states_flaky(self):
        """From the culprit on bad in half of the runs, at the end always."""
        states = self.states_linear()
        return [(s[0], "flaky" if s[0] and i < self.count - 1 else "ok") for i, s in enumerate(states)]

    def files(self, i, loss, how):
        """What the commit changes: `n.txt` makes it another content."""
        if self.kind == "submodule":
            self.run = ("case $(git rev-parse HEAD:lib) in *1) loss=1;; *) loss=0;; esac; "
                        "echo \"{\\\"loss\\\": $loss}\" > \"$RLBISECT_OUT/metrics.json\"")
            return {"lib": f"link {LINK}{loss}", "n.txt": f"{i}\n"}
        if self.kind == "pin":
            self.run = RUN.replace("< state", "< requirements.txt")
            return {"requirements.txt": f"{loss} {how}\n", "n.txt": f"{i}\n"}
        files = {"state": f"{loss} {how}\n"}
        if self.kind != "documents" or self.rng.random() < 0.4:
            files["n.txt"] = f"{i}\n"
        return files

    def in_a_row(self, states):
        return [([i - 1] if i else [], self.files(i, *state)) for i, state in enumerate(states)]

    def with_branches(self, states):
        """Every few commits a merge; the culprit lies in a branch, before what was merged last."""
        commits, here = [([], {"state": "0 ok\n", "n.txt": "0\n"})], 0
        loss = 0
        while len(commits) < self.count or not loss:
            fork, tips = here, []
            for _ in range(self.rng.randrange(4)):
                commits.append(([here], {"state": f"{loss} ok\n", "n.txt": f"{len(commits)}\n"}))
                here = len(commits) - 1
            tip, length = fork, self.rng.randrange(1, 9)
            turns = not loss and len(commits) + length + 3 > self.culprit
            turn = self.rng.randrange(length)
            for j in range(length):
                value = int(loss or (turns and j >= turn))
                how = "broken" if 0 < j < length - 1 and self.rng.random() < 0.1 else "ok"
                commits.append(([tip], {"state": f"{value} {how}\n", "n.txt": f"{len(commits)}\n"}))
                tip = len(commits) - 1
            loss = int(loss or turns)
            commits.append(([here, tip], {"state": f"{loss} ok\n", "n.txt": f"{len(commits)}\n"}))
            here = len(commits) - 1
        return commits


class Scan:
    """Reads every commit of a history out of git, without running anything."""

    def __init__(self, planted, bad):
        self.planted, self.path = planted, planted.path
        self.states = {}
        self.row = self.first_parents(planted.commits[0], bad)

    def first_parents(self, good, bad):
        row = [good] + git(self.path, "rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
        name = {"submodule": "lib", "pin": "requirements.txt"}.get(self.planted.kind, "state")
        if name == "lib":
            for commit in row:
                self.states[commit] = (int(git(self.path, "rev-parse", f"{commit}:lib")[-1]), "ok")
            return row
        text = subprocess.run(["git", "-C", str(self.path), "cat-file", "--batch=%(objecttype)"], check=True,
                              input="".join(f"{commit}:{name}\n" for commit in row), text=True,
                              capture_output=True, env=GIT_ENVIRONMENT).stdout
        lines = [line for line in text.splitlines() if line and line != "blob"]
        for commit, line in zip(row, lines, strict=True):
            loss, how = line.split()
            self.states[commit] = (int(loss), how)
        return row

    def suspects(self, row):
        """The commits behind the last good one before the first bad one, up to this one."""
        bad = next(i for i, commit in enumerate(row) if self.states[commit] in ((1, "ok"), (1, "flaky")))
        good = max(i for i in range(bad) if self.states[row[i]] == (0, "ok"))
        return row[good + 1:bad + 1]

    def answer(self):
        """Down into merges, as long as a branch is good where it begins and bad where it ends."""
        found = self.suspects(self.row)
        while len(found) == 1:
            parents = git(self.path, "rev-list", "--no-walk", "--parents", found[0]).split()[1:]
            if len(parents) < 2:
                break
            fork = git(self.path, "merge-base", *parents)
            branch = self.first_parents(fork, parents[1])
            if self.states[branch[0]] != (0, "ok") or self.states[branch[-1]] != (1, "ok"):
                break
            found = self.suspects(branch)
        return found

    def is_border(self, interval):
        """Whether the last of them is bad, the one before them good, and none between can be judged."""
        first = self.row.index(interval[0])
        states = [self.states[commit] for commit in [self.row[first - 1], *interval]]
        return (states[0] == (0, "ok") and states[-1][0] == 1 and states[-1][1] != "broken"
                and all(how == "broken" for _, how in states[1:-1]))
