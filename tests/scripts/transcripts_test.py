"""The commands that README.md and the pages of docs/ show are run, and print what they show.

usage: transcripts_test.py RLREPLAY RLBISECT [TEST...]

Each page has a folder of its own, and its blocks are run there in their order (transcripts.py says
what they are). What is not run is listed with its reason.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import transcripts

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTING = ("LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
DEMO = "rlreplay capture --model demo --steps 4 --rollout-batch-size 8"

# What a page's blocks find in its folder.
NEEDS = {
    "demo": f"{DEMO} --record ops+values -o demo/",
    "other": f"{DEMO} --seed 7 -o other/",
    "faster": f"{DEMO} --record ops+values --lr 0.0006 -o faster/",
    "steps": f"{DEMO} --num-steps-per-rollout 2 -o two/",
    "dump": "rlreplay capture --model demo --steps 1 --rollout-batch-size 2 -o dump/",
    "whitened": "rlreplay capture --model demo --steps 1 --rollout-batch-size 8 --normalize-advantages "
                "-o whitened/ && rlreplay export whitened/ --to jsonl -o whitened.jsonl",
    # What slime's --dump-details writes, by the export.
    "slime": f"{DEMO} -o made/ && rlreplay export made/ --to slime -o dump-details/",
    "imported": f"{DEMO} -o made/ && rlreplay export made/ --to slime -o dump-details/ && "
                "rlreplay import dump-details/ -o imported/",
    "checkpoint": f"PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={ROOT}/tests/e2e {sys.executable} -c '"
                  "import checkpoints as c, pathlib; c.write(pathlib.Path(\"model\"), c.config())' && "
                  "for i in 1 2 3 4 5 6 7 8; do "
                  """echo "{\\"question\\": \\"$i+1=\\", \\"answer\\": \\"#### $((i+1))\\"}"; """
                  "done >prompts.jsonl",
    # The history of scripts/quickstart.
    "history": f"source {ROOT}/scripts/quickstart_history.sh && make_history made rlreplay && "
               "mv made/repository history && git -C history tag good $(cat made/good)",
    "trainer": r"""
        git init -q -b main trainer
        for i in 1 2 3 4 5 6 7 8; do
          subject="Note $i" gradient="3 * (w - 1.7)"
          if [[ $i -ge 5 ]]; then gradient="3 * w - 5.1"; fi
          if [[ $i == 5 ]]; then subject="Multiply the gradient out"; fi
          printf '%s\n' 'import json, os' 'w, losses = 0.5, []' 'for step in range(4):' \
            '    losses.append(1.5 * (w - 1.7) ** 2)' "    w -= 0.1 * ($gradient)" \
            'with open(os.environ["RLBISECT_OUT"] + "/metrics.json", "w") as file:' \
            '    json.dump({"loss": losses, "weight": w}, file)' >trainer/train.py
          echo "$subject" >>trainer/NOTES
          git -C trainer add -A
          git -C trainer -c user.name=you -c user.email=you@localhost commit -q -m "$subject"
          if [[ $i == 1 ]]; then git -C trainer tag good; fi
        done""",
}


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Session:
    """A folder in which the commands of one page are run."""

    def __init__(self, case):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rlreplay page "))
        case.addCleanup(shutil.rmtree, self.folder)
        self.work = self.folder / "work"
        self.work.mkdir()
        (self.folder / "bin").mkdir()
        for name, program in PROGRAMS.items():
            (self.folder / "bin" / name).symlink_to(program)
        self.environment = {name: os.environ[name] for name in SETTING if name in os.environ}
        self.environment |= {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "COLUMNS": "80",
                             "NO_COLOR": "1", "TZ": "UTC", "HOME": str(self.folder),
                             "GIT_CONFIG_NOSYSTEM": "1",
                             # Commits have the same hashes everywhere.
                             "GIT_AUTHOR_DATE": "2026-11-21T12:00:00Z",
                             "GIT_COMMITTER_DATE": "2026-11-21T12:00:00Z"}

    def run(self, text):
        return subprocess.run(["bash", "-euc", text], cwd=self.work, env=self.environment, timeout=300,
                              stdin=subprocess.DEVNULL, text=True, capture_output=True)


def wrong(block, session):
    """What is not as a block says, in words; empty where all is."""
    for command in block.commands:
        result = session.run(command.text)
        code = block.exit if command is block.commands[-1] else 0
        if result.returncode != code:
            return (f"$ {command.text}\nexit code {result.returncode}, expected {code}\n"
                    f"{result.stdout[-2000:]}{result.stderr[-2000:]}")
        if command.printed is None:
            continue
        printed = result.stdout.splitlines()
        if not transcripts.agree(command.printed, printed, block.vary):
            return f"$ {command.text}\n" + transcripts.difference(command.printed, printed, block.vary)
    return ""


class Pages(unittest.TestCase):
    maxDiff = None

    def page(self, file):
        session, name, found, run = Session(self), file.relative_to(ROOT), [], 0
        for block in transcripts.blocks(file.read_text()):
            for need in block.needs:
                made = session.run(NEEDS[need])
                self.assertEqual(made.returncode, 0, f"{need}: {made.stderr}")
            if block.skip:
                print(f"not run: {name}:{block.line}: {block.skip}", file=sys.stderr)
                continue
            if block.vary and not TORCH.exists():
                print(f"SKIPPED: {name}:{block.line}, as there is no {TORCH}", file=sys.stderr)
                continue
            run += 1
            said = wrong(block, session)
            if said:
                found.append(f"{name}:{block.line}: {said}")
        print(f"{name}: {run} blocks run", file=sys.stderr)
        self.assertEqual("\n\n".join(found), "")


for page in pages():
    setattr(Pages, "test_" + page.relative_to(ROOT).as_posix().replace("/", "_").removesuffix(".md"),
            lambda self, page=page: self.page(page))


class Reading(unittest.TestCase):
    """A changed document fails."""
    PAGE = ("<!-- needs: demo -->\n<!-- exit 1 -->\n```console\n$ one \\\n  --two\nfirst\n...\nlast 3\n\n"
            "$ two\n```\n\n```text\nno command\n```\n")

    def test_a_block_is_read(self):
        block, = transcripts.blocks(self.PAGE)
        self.assertEqual((block.line, block.exit, block.skip, block.needs), (3, 1, None, ["demo"]))
        self.assertEqual([command.text for command in block.commands], ["one \\\n  --two", "two"])
        self.assertEqual(block.commands[0].printed, ["first", "...", "last 3", ""])

    def test_what_nobody_would_run_is_refused(self):
        for text in ("```\nx\n```\n", "```text\n$ x\n```\n", "```json\nrlreplay show x\n```\n",
                     "```console\nx\n```\n", "```console\n$ x\n", "    rlreplay show x\n"):
            with self.assertRaises(transcripts.Malformed, msg=text):
                list(transcripts.blocks(text))

    def test_what_is_shown_is_what_is_printed(self):
        printed = ["a 1", "b 2", "c 3", "d 4", ""]
        for shown in (printed, ["a 1", "...", "d 4"], ["...", "b 2", "...", "d 4"], ["a 1", "..."],
                      ["a 1", "b 2", "c 3", "d 4"]):
            self.assertTrue(transcripts.agree(shown, printed), shown)
        for shown in (["a 1"], ["a 2", "..."], ["a 1", "...", "d 5"], ["...", "c 3"], [],
                      ["a 1", "b 2", "...", "b 2", "...", "d 4"], ["a 1", "...", "b 2", "c 3", "d 4"],
                      [*printed[:4], "..."]):
            self.assertFalse(transcripts.agree(shown, printed), shown)

    def test_what_varies(self):
        row = " 0.0  0.4062 +8.382e-09 2.702e+00 5.0e-04         0    553 {} {}  yes"
        shown = [row.format("  0.03", "b32e46c8")]
        self.assertTrue(transcripts.agree(shown, [row.format(" 12.34", "b32e46c8")]))
        self.assertFalse(transcripts.agree(shown, [row.format("  0.03", "b32e46c9")]))
        self.assertTrue(transcripts.agree(["mean  1.5e-07 of 3"], ["mean 2e-08 of 44"], vary=True))
        self.assertFalse(transcripts.agree(["mean  1.5e-07 of 3"], ["mean 2e-08"], vary=True))

    def test_a_wrong_transcript_is_found(self):
        right = "```console\n$ printf 'a 1\\n'\na 1\n```\n"
        for text, expected in ((right, False), (right.replace("\na 1", "\na 2"), True),
                               (right.replace("printf", "false || printf"), False),
                               ("<!-- exit 1 -->\n" + right, True), ("```sh\nfalse\n```\n", True)):
            block, = transcripts.blocks(text)
            self.assertEqual(bool(wrong(block, Session(self))), expected, text)


if __name__ == "__main__":
    PROGRAMS = dict(zip(("rlreplay", "rlbisect"), map(os.path.abspath, sys.argv[1:3])))
    TORCH = pathlib.Path(PROGRAMS["rlreplay"]).resolve().parents[1] / "lib/librlreplay_torch.so"
    del sys.argv[1:3]
    unittest.main()
