"""What the tests of folders of golden files share: a run that copies its numbers, in a checkout of its own."""
import os
import subprocess

from support import Case

RUN = "cat numbers.json > $RLBISECT_OUT/metrics.json"
NUMBERS = '{"loss": [0.75, 0.5], "grad_norm": [1.5, 1.25]}'
QUARANTINE = "quarantine until 9999-12-31\nquarantine owner Ann\nquarantine reason driver\n"


class GateCase(Case):
    def setUp(self):
        self.tree = self.folder / self.id().rsplit(".", 1)[1]
        self.tree.mkdir()
        self.environment = {k: v for k, v in os.environ.items() if k != "CI"}
        self.git("init", "-q")
        self.numbers(NUMBERS)
        self.commit()

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *words], cwd=self.tree, check=True,
                       stdout=subprocess.DEVNULL)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "A training run")

    def numbers(self, text):
        (self.tree / "numbers.json").write_text(text)

    def golden(self, *words, code=0, program=(), **variables):
        result = subprocess.run([*program, self.program, "golden", *words], cwd=self.tree, text=True, timeout=300,
                                capture_output=True, env={**self.environment, **variables}, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def record(self, *words, name="train.txt", run=RUN, code=0, **variables):
        (self.tree / "goldens").mkdir(exist_ok=True)
        return self.golden("record", f"goldens/{name}", "--run", run, "--class", "any", *words, code=code, **variables)

    def file(self, name="train.txt"):
        return self.tree / "goldens" / name

    def add(self, text, name="train.txt"):
        self.file(name).write_text(self.file(name).read_text() + text)

    def kept(self, what="pending"):
        return [path for path in (self.tree / ".git/rlreplay" / what).rglob("*") if path.is_file()]
