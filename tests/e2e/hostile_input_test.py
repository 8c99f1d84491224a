"""Files of strangers: bombs, pipes in place of files, commands, escapes and secrets.
usage: hostile_input_test.py RLREPLAY RLBISECT
"""
import json
import os
import pathlib
import pickle
import re
import resource
import struct
import subprocess
import sys
import unittest
import zipfile

from support import Case, patched, root, save

Case.program = os.path.abspath(sys.argv.pop(1))
Case.rlbisect = os.path.abspath(sys.argv.pop(1))

LAUNCHER = pathlib.Path(__file__).parent / "stand_in_launcher.py"
DEMO = ["--model", "demo", "--steps", "1", "--rollout-batch-size", "1", "--n-samples-per-prompt",
        "2", "--rollout-max-response-len", "4"]
MIB = 1 << 20
MEMORY, SECONDS = 256 * MIB, 2
ESCAPES = "a\x1b]0;title\x07b\x1b[31mc\x7fd\x9be\u202ef\rg"


def put(text):
    return b"X" + struct.pack("<I", len(text)) + text


def pickle_file(path, pickle, members=()):
    """A file of torch.save, deflated."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + pickle + b".")
        archive.writestr("archive/version", b"3\n")
        for name, content in members:
            archive.writestr(f"archive/{name}", content)
    return path


def pickle_bombs():
    encode = b"c_codecs\nencode\nq\x00" + put(b"a" * MIB) + b"q\x01" + put(b"latin1") + b"q\x02000"
    yield "encoded texts", encode + b"h\x00h\x01h\x02\x86R0" * 4000 + b"N"
    yield "lists", b"]" * (8 * MIB) + b"N"
    yield "values", b"N" * (64 * MIB)
    yield "marks", b"(" * (32 * MIB) + b"1N"
    yield "memo", b"N" + b"".join(b"r" + struct.pack("<I", 2 * i + 7) for i in range(3 * MIB))
    yield "integers", (b"\x8b" + struct.pack("<i", 2048) + b"\x7f" * 2048 + b"0") * 8000 + b"N"
    numbers = b"(" + b"K\x01" * 200_000
    sets = b"c__builtin__\nset\nq\x00" + numbers + b"lq\x010" + b"h\x00h\x01\x85q\x0200"
    yield "sets", sets + b"h\x00h\x02R0" * 20_000 + b"N"
    calls = b"ctorch\nSize\nq\x000" + numbers + b"tq\x010"
    yield "calls", calls + b"h\x00h\x01\x85R0" * 20_000 + b"N"
    yield "depth", b"]" * 200_000 + b"a" * 199_999


class Bombs(Case):
    """Refused in a sentence, within the memory and the time that reading may take."""

    def refused(self, words, *arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run(
            [self.program, *map(str, arguments)], stdout=subprocess.DEVNULL, text=True,
            stderr=subprocess.PIPE, timeout=300,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertIn(result.returncode, (3, 4), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)
        self.assertLess(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, SECONDS)

    def test_pickles(self):
        for name, pickle in pickle_bombs():
            with self.subTest(name):
                path = pickle_file(self.folder / f"{name}.pt", pickle)
                self.refused([str(path)], "show", "--json", path)

    def test_members(self):
        """No member is large; all of them are."""
        zeros = bytes(16 * MIB)
        path = pickle_file(self.folder / "members.pt", b"N", [(f"data/{i}", zeros)
                                                             for i in range(6)])
        self.refused(["64 MiB"], "show", path)

    def test_json(self):
        line = self.folder / "lines.jsonl"
        line.write_text('{"schema":"rlreplay.sample/1","tokens":[' + "[]," * (4 * MIB) + "0]}\n")
        self.refused([f"{line}:1", "64 MiB"], "import", line, "-o", self.folder / "lines")
        header = ("{" + ",".join(f'"{i}":[{{}},{{}},{{}},{{}}]' for i in range(600_000)) + "}")
        model = self.folder / "model"
        self.assertEqual(self.run_program("train", *DEMO, "--save", model).returncode, 0)
        (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode())
        self.refused(["model.safetensors"], "train", "--model", model, "--prompts", "none", *DEMO[2:])

    def test_samples(self):
        """A million names of one sample are a bomb; samples that are there are none."""
        def sample(i):
            return {"index": i, "group_index": 0, "tokens": [1, 2, 3], "response_length": 2,
                    "reward": 1.0, "status": "completed"}
        one, many = self.folder / "one.pt", self.folder / "many.pt"
        content = {"rollout_id": 0, "samples": [sample(0)] * 1_000_000}
        with zipfile.ZipFile(one, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("one/data.pkl", pickle.dumps(content, 2))
            archive.writestr("one/version", "3\n")
        self.assertLess(one.stat().st_size, 100_000)
        for verb in ("verify", "show"):
            result = self.run_program(verb, one)
            self.assertIn("longer than two seconds a MiB", result.stdout + result.stderr)
            self.assertNotEqual(result.returncode, 0)
        save(many, {"rollout_id": 0, "samples": [sample(i) for i in range(300_000)]})
        result = self.run_program("verify", many)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_verify_ends_as_other_verbs_do(self):
        """With 4 what is not read, with 5 what the machine lacks: neither says that it is damaged."""
        gzip, lines = self.folder / "gzip.pt", self.folder / "cap.jsonl"
        gzip.write_bytes(b"\x1f\x8b\x08" + bytes(40))
        lines.write_text('{"tokens": [1, 2, 3], "response_length": 2, "reward": 1.0}\n')
        self.assertEqual([self.run_program(verb, gzip).returncode for verb in ("verify", "show")],
                         [4, 4])
        nowhere = {**os.environ, "TMPDIR": "/nonexistent"}
        self.assertEqual([self.run_program(verb, lines, env=nowhere).returncode
                          for verb in ("verify", "show")], [5, 5])

    def test_what_is_large_is_read(self):
        """Text that deflates well, and a long integer, are no bombs."""
        integer = 7 ** 5000
        raw = integer.to_bytes(integer.bit_length() // 8 + 1, "little")
        pickle = put(b"a" * (4 * MIB)) + b"\x8b" + struct.pack("<i", len(raw)) + raw + b"\x86"
        path = pickle_file(self.folder / "large.pt", pickle)
        result = self.run_program("show", "--json", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        sys.set_int_max_str_digits(0)
        self.assertIn(str(integer), result.stdout)


class Events(Case):
    def test_many_events_of_many_rows(self):
        """Each run of a set is counted once, not once for each event that has the set."""
        dump = patched(self.capture("dump", *DEMO)[0])
        import numpy  # which dump_patch needs, too
        count = 100_000
        step = dump.units["train/0-0/rank0.h5"]

        def last(name):
            return step["0-0/events/" + name].values[-1]

        def add(name, values):
            array = step["0-0/events/" + name]
            more = numpy.asarray(values, array.values.dtype)
            step["0-0/events/" + name] = array.reshaped(numpy.concatenate([array.values, more]))
        lines = "".join(f"z/-/o/t{i} f32 1\n" for i in range(count)).encode()
        add("tensors", numpy.frombuffer(lines, "u1"))
        for name, width in (("rank", 1), ("digest", 16), ("nonfinite", 4), ("value_start", 1), ("value_count", 1)):
            add(name, numpy.zeros(count * width))
        if "0-0/events/stats" in step:
            add("stats", numpy.zeros(count * 4))
        add("rows", numpy.full(count, count))
        add("row_set", numpy.full(count, step["0-0/events/row_set_offsets"].values.size - 1))
        add("row_set_offsets", [last("row_set_offsets") + count])
        add("row_digest_offsets", numpy.full(count, last("row_digest_offsets")))
        add("run_sample", numpy.zeros(count))
        add("run_position", 2 * numpy.arange(count))
        add("run_count", numpy.ones(count))
        path = dump.write(self.folder / "many")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertEqual(self.run_program("verify", "--deep", path).returncode, 0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(used.ru_utime - before.ru_utime, 2 * SECONDS)


class NoFile(Case):
    """A folder, a pipe or a device in place of a file is one sentence, at once."""

    def test_in_place_of_a_file(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        link = self.folder / "link"
        link.symlink_to(self.folder)
        nowhere = self.folder / "nowhere"
        for path in (self.folder, link, pipe, "/dev/zero", "/proc/self/mem", nowhere):
            folder = pathlib.Path(path).is_dir()  # of golden files, which is no mistake
            for arguments in (["golden", "record" if folder else "check", path],
                              ["train", *DEMO, "--config", path],
                              ["train", "--model", "demo", "--prompts", path, *DEMO[2:]],
                              ["score", "--model", "demo", "--tokens", path]):
                with self.subTest(arguments=arguments):
                    self.sentence(arguments)
        for name in ("x.pt", "x.jsonl", "x.json"):
            for target in (pipe, "/dev/zero"):
                path = self.folder / name
                path.unlink(missing_ok=True)
                path.symlink_to(target)
                for arguments in (["import", path, "-o", self.folder / "out"], ["show", path],
                                  ["verify", path], ["train", *DEMO, "--config", path]):
                    with self.subTest(arguments=arguments, target=str(target)):
                        self.sentence(arguments, zero=arguments[0] in ("show", "verify"))

    def sentence(self, arguments, zero=False):
        def limit():
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
        result = subprocess.run([self.program, *map(str, arguments)], capture_output=True,
                                text=True, timeout=300, preexec_fn=limit)
        self.assertIn(result.returncode, (2, 3, 4, 5), result.stdout + result.stderr)
        self.assertLessEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr or zero, result.stdout)

    def test_a_folder_that_is_no_dump_is_looked_at_for_a_while(self):
        deep, wide = self.folder / "deep", self.folder / "wide"
        (deep / "/".join(["x"] * 18)).mkdir(parents=True)
        wide.mkdir()
        for i in range(100_001):
            os.mknod(wide / str(i))
        for path, why in ((deep, "16 folders lie in one another"), (wide, "more than 100000 others")):
            for verb in ("verify", "show"):
                found = self.run_program(verb, path)
                self.assertEqual(found.returncode, 2, found.stdout + found.stderr)
                for words in ("manifest.json", ".pt", why):
                    self.assertIn(words, found.stderr)

    def test_a_nul_behind_a_value(self):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_bytes(b'{"prompt": "1+1=", "label": "2"}\0garbage}}\n')
        result = self.run_program("train", "--model", "demo", "--prompts", prompts, *DEMO[2:])
        self.assertEqual(result.returncode, 3)
        self.assertIn("prompts.jsonl:1: not valid JSON at byte 33", result.stderr)

    def test_a_planted_link_is_not_followed(self):
        victim = self.folder / "victim"
        victim.write_text("mine")
        golden = self.folder / "golden.txt"
        pathlib.Path(f"{golden}.part").symlink_to(victim)
        result = self.run_program("golden", "record", golden, "--model", "demo", "--steps", "1",
                                  "--rollout-batch-size", "4")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(victim.read_text(), "mine")
        self.assertFalse(golden.is_symlink())


class Terminal(Case):
    """What data hold reaches a terminal as text."""

    def plain(self, *arguments, code=0, program=None):
        result = subprocess.run([program or self.program, *map(str, arguments)],
                                capture_output=True, timeout=300)
        said = (result.stdout + result.stderr).decode()
        self.assertEqual(result.returncode, code, said)
        bad = [c for c in said if (ord(c) < 32 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0
               or "\u202a" <= c <= "\u202e"]
        self.assertEqual(bad, [], said)
        return said

    def test_texts_and_names(self):
        lines = self.folder / "x.jsonl"
        sample = {"schema": "rlreplay.sample/1", "rollout_id": 0, "sample_id": 0,
                  "prompt_length": 1, "tokens": [1, 2], "log_probs": [-0.5],
                  "prompt": ESCAPES, "response": ESCAPES}
        lines.write_text(json.dumps(sample) + "\n")
        dump = self.folder / "dump"
        self.plain("import", lines, "-o", dump)
        for words in (["--sample", "0", "--text"], ["--sample", "0"], ["--sample", "0", "--json"]):
            said = self.plain("show", dump, *words)
            self.assertIn("\\u009b", said)
        shown = json.loads(self.plain("show", dump, "--sample", "0", "--json"))
        self.assertEqual(shown["response_text"], ESCAPES)
        self.assertIn("\\u202e", self.plain("export", dump, "--to", "jsonl", "-o", "-"))
        bad = self.folder / f"{ESCAPES}.jsonl"
        bad.write_text("{\n")
        self.assertIn("\\u001b", self.plain("import", bad, "-o", self.folder / "other", code=3))
        golden = self.folder / "golden.txt"
        golden.write_text(f"# rlreplay golden 1\nstep {ESCAPES}\x1b[2J 1\nstep {ESCAPES}\x1b[2J 2\n")
        self.plain("golden", "check", golden, code=3)

    def test_commits(self):
        place = self.folder / "repository"
        def git(*words):
            subprocess.run(["git", "-C", place, "-c", "user.name=A\x1b[31m", "-c",
                            "user.email=a@b", *words], check=True, capture_output=True)
        place.mkdir()
        git("init", "-q")
        for number in range(3):
            (place / "number").write_text(str(number))
            git("add", "number")
            git("commit", "-qm", f"{number} {ESCAPES}")
        said = self.plain("HEAD~2..HEAD", "--repo", place, "--run", "test $(cat number) = 0",
                          program=self.rlbisect)
        self.assertIn("culprit", said)
        self.assertIn("\\u001b]0;title\\u0007", said)


class Commands(Case):
    """Nothing runs because a file says so."""

    def command(self, mark):
        return f"touch '{mark}'; awk '{{ print NR % 2 }}'"

    def test_a_dump(self):
        mark = self.folder / "mark"
        dump = self.folder / "dump"
        options = ["--reward", "command", "--reward-command", self.command(mark)]
        begun = self.run_program("capture", *DEMO, *options, "-o", dump, "--save",
                                 self.folder / "saved")
        self.assertEqual(begun.returncode, 0, begun.stderr)
        whole = root(self.program, dump)
        journal = (dump / "journal/0.jsonl").read_text().splitlines(keepends=True)
        (dump / "journal/0.jsonl").write_text(journal[0])
        (dump / "manifest.json").unlink()
        (dump / "INCOMPLETE").touch()
        mark.unlink()
        before = (self.folder / "saved/model.safetensors").stat().st_mtime_ns
        for words in ([], options, ["--save", self.folder / "saved"]):
            refused = self.run_program("capture", "--resume", *words, "-o", dump)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("give again", refused.stderr)
        self.assertIn("--reward-command", refused.stderr)
        self.assertIn("touch", refused.stderr)  # it is shown
        self.assertFalse(mark.exists())
        self.assertEqual((self.folder / "saved/model.safetensors").stat().st_mtime_ns, before)
        other = self.run_program("capture", "--resume", "--reward-command", "cat", "--save",
                                 self.folder / "saved", "-o", dump)
        self.assertEqual(other.returncode, 2)
        self.assertIn("resumed with the options it began with", other.stderr)
        resumed = self.run_program("capture", "--resume", *options, "--save",
                                   self.folder / "saved", "-o", dump)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertTrue(mark.exists())
        self.assertEqual(root(self.program, dump), whole)

    def test_another_secret_is_another_command(self):
        """What is hidden is compared, too."""
        def command(bonus):
            return f"BONUS={bonus} awk '{{ print NR % 2 }}' # judge"
        judged = ["--reward", "command", "--reward-command"]
        dump, golden = self.folder / "bonus", self.folder / "bonus.txt"
        begun = self.run_program("capture", *DEMO, *judged, command(1), "-o", dump)
        self.assertEqual(begun.returncode, 0, begun.stderr)
        found = re.search(r'"reward-command":("(?:[^"\\]|\\.)*")', (dump / "manifest.json").read_text())
        said = json.loads(found[1])
        self.assertRegex(said, r"^BONUS=\*\*\* awk '.*' #\*\*\* #[0-9a-f]{4}$")
        journal = (dump / "journal/0.jsonl").read_text().splitlines(keepends=True)
        (dump / "journal/0.jsonl").write_text(journal[0])
        (dump / "manifest.json").unlink()
        (dump / "INCOMPLETE").touch()
        for other, words in ((command(5), "resumed with the options it began with"),
                             (said, "give again")):
            refused = self.run_program("capture", "--resume", "--reward-command", other, "-o", dump)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(words, refused.stderr)
        resumed = self.run_program("capture", "--resume", "--reward-command", command(1), "-o",
                                   dump)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        made = self.run_program("golden", "record", golden, *DEMO, *judged, command(1))
        self.assertEqual(made.returncode, 0, made.stderr)
        for bonus, overridden in ((1, False), (5, True)):
            checked = self.run_program("golden", "check", golden, "--reward-command",
                                       command(bonus))
            self.assertEqual(checked.returncode, 0, checked.stderr)
            self.assertEqual("overridden: reward-command" in checked.stderr, overridden)

    def test_a_golden_file(self):
        mark = self.folder / "golden mark"
        golden = self.folder / "golden.txt"
        command = self.command(mark)
        made = self.run_program("golden", "record", golden, *DEMO, "--reward", "command",
                                "--reward-command", f"API_KEY=swordfish; {command}")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertNotIn("swordfish", golden.read_text())
        mark.unlink()
        for words in (["check", golden], ["record", golden, "--force"]):
            refused = self.run_program("golden", *words)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("give again --reward-command", refused.stderr)
        self.assertFalse(mark.exists())
        checked = self.run_program("golden", "check", golden, "--reward-command", command)
        self.assertEqual(checked.returncode, 0, checked.stderr)


class Secrets(Case):
    """No form in which a secret is handed over leaves it in a file or a message."""

    def nowhere(self, folder, *texts):
        for path in folder.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"swordfish", path.read_bytes(), path)
        for text in texts:
            self.assertNotIn("swordfish", text)

    def test_a_launcher(self):
        words = ["-kswordfish", "--wandb-key", "-swordfish", "--prompt-data",
                 "s3://AK:sword/swordfish@bucket/x", "--model", "https://tok:swordfish@host/?a=b",
                 "--ref-load", "https://host/m?sig=swordfish#swordfish", "--reward-command",
                 "API_KEY=swordfish ./r --api-key swordfish", "--seed", "1", "swordfish",
                 "--deterministic-mode", "swordfish", "--key:swordfish", "--wandb-key=swordfish",
                 "-", "swordfish", "--recompute", "swordfish", "--rollout-seed",
                 "7"]
        dump = self.folder / "dump"
        ran = self.run_program(
            "capture", "--wrap", "slime", "-o", dump, "--json", "--", "env", "TOKEN=swordfish",
            "URL=https://user:swordfish@host", sys.executable, LAUNCHER, "slime", *words,
            env={**os.environ, "RLREPLAY_TOKEN": "swordfish", "HF_TOKEN": "swordfish"})
        self.assertEqual(ran.returncode, 0, ran.stderr)
        said = json.loads(ran.stdout.splitlines()[-1])["launch"]
        self.nowhere(dump, json.dumps(said), self.run_program("show", dump).stdout)
        command = said["command"]
        self.assertEqual(command[0], "env")
        self.assertIn(str(LAUNCHER), command)
        for option, value in (("--seed", "1"), ("--prompt-data", "s3://***@bucket/x"),
                              ("--model", "https://***@host/?***"), ("--rollout-seed", "7")):
            self.assertEqual(command[command.index(option) + 1], value)
        self.assertEqual(said["settings"]["--seed"], "1")

    def test_every_form_in_a_reward_command(self):
        """Quoted or not, joined or not, in a header, a document or a comment."""
        forms = ["--api-key -swordfish", "'--token' swordfish", '"--token" "sword swordfish"',
                 '--header="Authorization: Bearer swordfish"', '-H"X-Api-Key: swordfish a"',
                 "-H Authorization:\\ Bearer\\ swordfish", "-H 'authorization:swordfish=='",
                 "-HAuthorization:swordfish=", "--use-auth --token swordfish",
                 "-d '{\"api_key\": \"swordfish\"}'", "-d '{\"a\":1,\"token\":\"swordfish\"}'",
                 "--data={\"password\":\"swordfish\"}", "-d 'a=1&token=swordfish'",
                 "env 'B=sword swordfish'", "--env=TOKEN=swordfish", "--args=--pin=swordfish",
                 "--url='https://a:swordfish@h/x'", "https://h/?sig=swordfish", "# swordfish",
                 "sh -c 'true -H \"Authorization: Bearer swordfish\"'",
                 'sh -c "true -H \\"Authorization: Bearer swordfish\\""', "TOK'EN'=swordfish",
                 "TOK=$(echo swordfish) x", "TOK=`echo swordfish` x", "A[0]=swordfish", "A+=swordfish",
                 "A=(swordfish 'b swordfish')", "A=$(echo \"a $(echo 'swordfish b')\" swordfish) x",
                 'A="$(echo "a swordfish b" swordfish)" x', 'x "$(curl --token "swordfish b")" y',
                 "--token $(echo swordfish) x", "--token=`echo swordfish` x", "--token `echo swordfish`",
                 "-H Authorization:$(echo swordfish)", "$'--token' swordfish",
                 "$'--tok\\x65n' $'swo\\'rdfish swordfish'", "$\"--token\" swordfish",
                 "'token = swordfish'", "--set token = swordfish", "--set token =swordfish",
                 "--set token= swordfish", "--token = swordfish", "'secret : swordfish'",
                 "<<< swordfish", "<<<'a swordfish'", "--pass swordfish", "--bearer swordfish",
                 "--cookie a=swordfish", "-u me:swordfish", "-ume:swordfish", "--user=me:swordfish",
                 "-u $(echo me:swordfish)",
                 "--tok\\en swordfish", "-- <<END\nit's swordfish\nEND\n"]
        for form in forms:
            with self.subTest(form):
                failed = self.run_program("train", *DEMO, "--reward", "command",
                                          "--reward-command", f"false {form}")
                self.assertEqual(failed.returncode, 5, failed.stderr)
                self.nowhere(self.folder / "none", failed.stderr)
                self.assertIn("***", failed.stderr)
        plain = "python3 -u 'my judge.py' $(cat \"a b\") `cat c` \"$(cat d)\" {e,f} --level=3 --out=a=b | tee \"log $HOME\" > x 2>&1"
        failed = self.run_program("train", *DEMO, "--reward", "command", "--reward-command",
                                  f"exit 3; {plain}")
        self.assertIn(plain.replace("a=b", "a=***"), failed.stderr)

    def test_a_reward_command(self):
        dump = self.folder / "own"
        command = ("API_KEY=swordfish B='sword swordfish' awk '{ print NR % 2 }'; "
                   "curl=https://a:swordfish@h true --token swordfish --auth=swordfish "
                   "-H 'Authorization: Bearer swordfish'")
        made = self.run_program("capture", *DEMO, "--reward", "command", "--reward-command",
                                command, "--wandb-key", "swordfish", "-o", dump)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.nowhere(dump, made.stdout, made.stderr, self.run_program("show", dump).stdout,
                     self.run_program("train", "--from", dump, "--lr", "0.1").stdout)
        self.assertIn("API_KEY=***", (dump / "manifest.json").read_text())
        failed = self.run_program("train", *DEMO, "--reward", "command", "--reward-command",
                                  "API_KEY=swordfish; exit 3")
        self.assertEqual(failed.returncode, 5)
        self.assertNotIn("swordfish", failed.stderr)


if __name__ == "__main__":
    unittest.main()
