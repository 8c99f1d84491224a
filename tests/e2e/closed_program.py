"""A folder for each test, and a program in it that is refused, started or ended."""
import json
import pathlib
import shutil
import subprocess

from support import Case, memory_folder

USAGE, CORRUPT, UNSUPPORTED, ENVIRONMENT, INTERRUPTED = 2, 3, 4, 5, 130
DEMO = ["capture", "--model", "demo", "--rollout-batch-size", "2", "--n-samples-per-prompt", "2"]
MADE = memory_folder()


def is_alive(process_id):
    try:
        state = pathlib.Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def samples(path, rollouts, tokens=2):
    """A file of samples as JSON lines."""
    with open(path, "w") as file:
        for rollout in range(rollouts):
            file.write(json.dumps({
                "schema": "rlreplay.sample/1", "rollout_id": rollout, "sample_id": rollout,
                "prompt_length": 1, "tokens": [1] + [2 + i % 7 for i in range(tokens)],
                "log_probs": [-0.5 - i % 11 for i in range(tokens)]}) + "\n")
    return path


class Program(Case):
    def setUp(self):
        self.here = self.folder / self._testMethodName
        self.here.mkdir()

    def refused(self, code, words, *arguments, **options):
        result = self.run_program(*arguments, **options)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        return result.stderr

    def start(self, *arguments, **options):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        process = subprocess.Popen([self.program, *map(str, arguments)], **options)

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def dump(self):
        """A copy of a dump of two steps."""
        whole = pathlib.Path(MADE.name) / "dump"
        if not whole.exists():
            self.assertEqual(self.run_program(*DEMO, "--steps", 2, "-o", whole).returncode, 0)
        return pathlib.Path(shutil.copytree(whole, self.here / "dump"))

    def names(self):
        return sorted(p.name for p in self.here.iterdir())
