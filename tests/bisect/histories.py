"""Scratch git repositories for the tests of rlbisect: linear histories with a planted change."""
import os
import random
import subprocess

GIT_ENVIRONMENT = {
    **os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "Author", "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "Author", "GIT_COMMITTER_EMAIL": "author@example.com",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z"}

BUILD = "#!/bin/sh\n[ ! -e broken ]\n"
BUILD_PROGRAM = "#!/bin/sh\n[ ! -e broken ] && ${CXX:-c++} -O0 -o program program.cpp\n"


class Content:
    """The files of a history: those of its first commit, and what changes with the culprit."""

    def __init__(self, first, good, bad):
        self.first, self.good, self.bad = first, good, bad


def shell_numbers():
    """A run that writes numbers down, of which the second changes."""
    run = """#!/bin/sh
. ./value.sh
echo "{\\"loss\\": [0.5, $LOSS, 0.125], \\"reward\\": 1}" > "$RLBISECT_OUT/metrics.json"
"""
    return Content({"run.sh": run, "build.sh": BUILD}, {"value.sh": "LOSS=0.25\n"},
                   {"value.sh": "LOSS=0.2500000000000001\n"})


def compiled_numbers():
    """A run of a program that the build compiles, whose source changes."""
    run = "#!/bin/sh\n./program > \"$RLBISECT_OUT/metrics.json\"\n"
    program = """#include <cstdio>
int main() {
  float sum = 0;
  for (int i = 0; i < 100; ++i) sum += %s / (i + 1);
  std::printf("{\\"loss\\": [0.5, %%.9g], \\"reward\\": 1}\\n", sum);
}
"""
    return Content({"run.sh": run, "build.sh": BUILD_PROGRAM}, {"program.cpp": program % "1.0f"},
                   {"program.cpp": program % "1.000001f"})


REPLAY = ("#!/bin/sh\nexec \"$RLREPLAY\" train --from \"$RECORD\" -o \"$RLBISECT_OUT/dump\" "
          "--threads 1 %s\n")


def planted_replays(injection):
    """A run that replays a record, and from the culprit on plants a difference."""
    return Content({"build.sh": BUILD}, {"run.sh": REPLAY % ""},
                   {"run.sh": REPLAY % f"--inject {injection}"})


def compiled_replays(injection):
    """The same, where it is the source of a program that changes."""
    program = """#include <cstdio>
constexpr const char* kPlanted = "%s";
int main() {
  if (*kPlanted != 0) std::printf("--inject %%s\\n", kPlanted);
}
"""
    return Content({"build.sh": BUILD_PROGRAM, "run.sh": REPLAY % "$(./program)"},
                   {"program.cpp": program % ""}, {"program.cpp": program % injection})


def git(repository, *arguments):
    result = subprocess.run(["git", "-C", str(repository), *arguments], env=GIT_ENVIRONMENT,
                            capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"git {' '.join(arguments)}: {result.stderr}")
    return result.stdout.strip()


def make_repository(path, revisions):
    """A repository whose commits have these files: of each revision {path: text, None to remove}.

    Returns the hashes of the commits, oldest first.
    """
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    stream = []
    for mark, files in enumerate(revisions, 1):
        message = f"Change {mark}"
        stream.append(f"commit refs/heads/main\nmark :{mark}\n"
                      f"committer Author <author@example.com> {1700000000 + mark} +0000\n"
                      f"data {len(message)}\n{message}\n")
        for name, text in files.items():
            if text is None:
                stream.append(f"D {name}\n")
            else:
                mode = "100755" if name.endswith(".sh") else "100644"
                stream.append(f"M {mode} inline {name}\ndata {len(text.encode())}\n{text}\n")
        stream.append("\n")
    marks = path.parent / (path.name + ".marks")
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet", f"--export-marks={marks}"],
                   input="".join(stream), text=True, check=True, env=GIT_ENVIRONMENT)
    git(path, "reset", "-q", "--hard")
    hashes = dict(line.split() for line in marks.read_text().splitlines())
    return [hashes[f":{mark}"] for mark in range(1, len(revisions) + 1)]


class History:
    """A random linear history: some commits cannot be built, some change documents only."""

    def __init__(self, path, seed, content):
        rng = random.Random(seed)
        self.path, self.count = path, rng.randint(20, 100)
        self.culprit = rng.randint(1, self.count - 1)  # index of the first bad commit
        self.broken = self.draw_broken(rng)
        commits, broken_before = [], False
        for i in range(self.count):
            files = {"docs.md": f"Text {i}\n"}
            if rng.random() < 0.6:
                files["other.txt"] = f"{i}\n"
            if i == 0:
                files.update(content.first, **content.good)
            if i == self.culprit:
                files.update(content.bad)
            if (i in self.broken) != broken_before:
                broken_before = i in self.broken
                files["broken"] = "" if broken_before else None
            commits.append(files)
        self.commits = make_repository(path, commits)
        good = max(i for i in range(self.culprit) if i not in self.broken)
        bad = min(i for i in range(self.culprit, self.count) if i not in self.broken)
        self.suspects = self.commits[good + 1:bad + 1]

    def draw_broken(self, rng):
        """Stretches and single commits; never an end."""
        broken = set()
        for _ in range(rng.randint(0, self.count // 10)):
            begin = rng.randint(1, self.count - 2)
            broken.update(range(begin, min(begin + rng.choice([1, 1, 2, 8]), self.count - 1)))
        return broken
