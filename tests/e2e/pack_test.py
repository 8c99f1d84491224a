"""A pack holds a dump, or a step of it with what it starts from, and opens to the same bits anywhere else.

usage: pack_test.py RLREPLAY
"""
import fcntl
import io
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import unittest
import zipfile

import support


def archive(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as written:
        for name, content in members:
            written.writestr(name, content)
    return out.getvalue()


class Pack(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        small = ["--model", "demo", "--rollout-batch-size", "2", "--steps", "4", "--record", "ops+values"]
        cls.dump, _ = cls.capture("dump", *small)
        cls.states, _ = cls.capture("states", *small, "--weights", "all")

    def place(self, name):
        return pathlib.Path(self.folder, self.id().rsplit(".", 1)[-1] + " " + name)

    def packed(self, dump, *arguments):
        """The file, the dump that it opens to, and what was said of both."""
        file, folder = self.place("pack.zip"), self.place("opened")
        shutil.rmtree(folder, ignore_errors=True)
        said = self.lines("pack", dump, "-o", file, *arguments)[0]
        self.assertEqual(self.lines("pack", "--open", file, "-o", folder)[0], said)
        verified = self.lines("verify", "--deep", folder)[-1]
        self.assertEqual((verified["verdict"], verified["root"], verified["content"]),
                         ("complete", said["root"], said["content"]))
        return file, folder, said

    def refused(self, code, words, *arguments):
        result = self.run_program("pack", *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(words, result.stderr)
        self.assertFalse(any(support.STAGED in path.name for path in self.folder.iterdir()))

    def damaged(self, code, words, content):
        file, folder = self.place("damaged.zip"), self.place("damaged")
        file.write_bytes(content)
        self.refused(code, words, "--open", file, "-o", folder)
        self.assertFalse(folder.exists())

    def test_a_step_is_taken_again_from_the_state_before_it(self):
        for dump, steps in ((self.dump, "0.0..2.0"), (self.states, "2.0..2.0")):
            with self.subTest(steps):
                _, folder, said = self.packed(dump, "--step", "2", "--force")
                self.assertEqual(said["steps"], steps)
                program, verb, name, *options = said["reproduce"].split()
                self.assertEqual((program, verb, name), ("rlreplay", "train", "dump/"))
                replay = self.closing(verb, folder, *options)
                self.assertEqual((replay["identical"], replay["steps"]), (True, 1))

    def test_a_whole_dump_has_its_content_root(self):
        _, folder, said = self.packed(self.states)
        self.assertIsNone(said["steps"])
        self.assertEqual(said["root"], support.root(self.program, self.states))
        self.assertEqual(self.run_program("diff", self.states, folder).returncode, 0)

    def test_texts_and_the_machine_are_in_no_file(self):
        text = self.lines("show", self.dump, "--sample", "0", "--text")[0]["prompt_text"].encode()
        self.assertTrue(any(text in data for data in support.files(self.dump).values()))
        file, folder, said = self.packed(self.dump, "--strip", "texts", "--step", "0")
        self.assertIn("column prompt_text", said["without"])
        host = json.dumps(socket.gethostname()).encode()
        for content in (*support.files(folder).values(), file.read_bytes()):
            self.assertNotIn(text, content)
            self.assertNotIn(host, content)
        self.assertIn("rlreplay", said["run"]["command"])
        self.assertIn("version", said["run"]["program"])
        self.assertEqual(self.closing("train", folder)["identical"], True)

    def test_a_pack_of_another_zip_program_opens(self):
        file, folder, said = self.packed(self.dump, "--step", "1")
        other, again = self.place("other.zip"), self.place("again")
        with zipfile.ZipFile(file) as read, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as written:
            for name in reversed(read.namelist()):
                written.writestr(name, read.read(name))
        self.assertEqual(self.lines("pack", "--open", other, "-o", again)[0], said)
        self.assertEqual(support.files(again), support.files(folder))

    def test_an_error_names_the_dump(self):
        """The folder in which it is packed is gone when the error is read."""
        bad = support.patched(self.dump)
        bad.meta["config"]["adam-beta2"] = "-1"
        path, file = bad.write(self.place("bad")), self.place("pack.zip")
        self.refused(3, f"rlreplay: {path}", path, "-o", file)
        self.assertFalse(file.exists())
        limit = 1 << 16  # no file of a dump may be larger
        full = subprocess.run(
            [self.program, "pack", self.dump, "-o", file], capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(full.returncode, 5, full.stderr)
        self.assertIn(f"rlreplay: {self.dump}: it could not be packed in a folder of ", full.stderr)
        self.assertIn("(TMPDIR says where): could not write: File too large", full.stderr)

    def test_a_kill_leaves_nothing_of_an_opened_pack_that_was_not_judged(self):
        """A manifest says that a dump is whole: of one that is unpacked nobody knows it before it was read."""
        file, _, said = self.packed(self.dump)
        with zipfile.ZipFile(file) as read:
            members = [(name, read.read(name)) for name in read.namelist() if name != "pack.json"]
        other = self.place("other.zip")
        other.write_bytes(archive([("pack.json", json.dumps({**said, "content": "0" * 32}).encode()), *members]))
        for attempt in range(100):
            out = self.place(f"killed {attempt}")
            staging = pathlib.Path(f"{out}{support.STAGED}")
            opening = subprocess.Popen([self.program, "pack", "--open", other, "-o", out],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while opening.poll() is None and not any(
                    (staging / name / "manifest.json").exists() for name in ("content", "unjudged")):
                pass
            opening.kill()
            opening.wait()
            if staging.exists():  # else it ended before
                break
        else:
            self.fail("it always ended before it was killed")
        self.assertFalse((staging / "content").exists())
        self.refused(3, "another than its pack.json says", "--open", other, "-o", out)
        self.assertFalse(out.exists())
        self.lines("pack", "--open", file, "-o", out)
        self.assertEqual(self.lines("verify", out)[0]["problems"], [])

    def test_what_is_no_whole_pack_is_refused(self):
        file, _, said = self.packed(self.dump, "--step", "0")
        whole = file.read_bytes()
        with zipfile.ZipFile(file) as read:
            members = [(name, read.read(name)) for name in read.namelist()]
        names = [name for name, _ in members]
        for cut in (0, 1, 100, len(whole) // 2, len(whole) - 1):
            self.damaged(3, "cut off" if cut else "", whole[:cut])
        self.damaged(3, "cut off", b"no pack at all\n" * 20)
        self.damaged(3, "no pack: rlreplay pack writes them", archive(members[1:]))
        self.damaged(3, "dump/../../escaped", archive([*members, ("dump/../../escaped", b"x")]))
        self.damaged(3, "/tmp/escaped", archive([*members, ("/tmp/escaped", b"x")]))
        self.damaged(3, "which is no file of a dump", archive([*members, ("dump/run.sh", b"x")]))
        self.damaged(3, "manifest.json: the dump was finished", archive(m for m in members if m[0] != "dump/manifest.json"))
        missing = next(name for name in names if name.startswith("dump/train/"))
        self.damaged(3, "damaged: " + missing.removeprefix("dump/"), archive(m for m in members if m[0] != missing))
        for index, (name, content) in enumerate(members[1:], 1):
            place = len(content) // 2
            flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1:]
            self.damaged(3, "", archive([*members[:index], (name, flipped), *members[index + 1:]]))
        other = json.dumps({**said, "content": "0" * 32}).encode()
        self.damaged(3, "another than its pack.json says", archive([("pack.json", other), *members[1:]]))
        newer = json.dumps({**said, "schema": "rlreplay.pack/9"}).encode()
        self.damaged(4, "another version can open it", archive([("pack.json", newer), *members[1:]]))

    def test_what_killed_writers_left_goes_and_that_of_live_ones_stays(self):
        room, dead, live = self.place("room"), "0123456789abcdef", "fedcba9876543210"
        room.mkdir()
        environment = {**os.environ, "TMPDIR": str(room)}
        for number, (verb, form) in enumerate((("pack", []), ("export", ["--to", "jsonl"]))):
            target = room / f"{number} out"
            left, held, other, fresh = (room / f"{target.name}.tmp-{end}" for end in (dead, live, "mine", "f" * 16))
            folders = [room / f"rlreplay-packing-{end}" for end in ("aaaaaa", "bbbbbb", "cccccc")]
            for path in left, held, other, fresh:
                path.write_text("half")
            for path in folders:
                path.mkdir(exist_ok=True)
                (path / "cut").write_text("half")
            # One that was just written may be another machine's, whose lock is not seen here.
            for path in left, held, other, folders[0] / "cut", *folders:
                os.utime(path, (0, 0))
            with open(held) as file:
                folder = os.open(folders[1], os.O_RDONLY)
                fcntl.flock(file, fcntl.LOCK_EX)
                fcntl.flock(folder, fcntl.LOCK_EX)
                made = self.run_program(verb, self.dump, *form, "-o", target, env=environment)
                os.close(folder)
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual([path.exists() for path in (left, held, other, fresh, target)],
                             [False, True, True, True, True])
            self.assertEqual([path.exists() for path in folders], [verb != "pack", True, True])

    def test_what_cannot_be_packed_is_refused(self):
        new, there = self.place("new.zip"), self.place("there")
        there.write_text("mine")
        self.refused(2, "--force replaces it", self.dump, "-o", there)
        self.assertEqual(there.read_text(), "mine")
        self.refused(2, "the dump has no step 9.0", self.dump, "--step", "9.0", "-o", new)
        self.refused(2, "give the dump", "-o", new)
        self.refused(2, "--open unpacks all", self.dump, "--open", there, "-o", new)
        self.refused(2, "within the dump", self.dump, "-o", self.dump / "x.zip")
        self.refused(3, "nowhere", "--open", self.folder / "nowhere", "-o", new)
        self.assertFalse(new.exists())

    def test_an_imported_step_is_looked_at(self):
        lines = self.place("lines.jsonl")
        lines.write_text("".join(json.dumps(
            {"schema": "rlreplay.sample/1", "rollout_id": rollout, "sample_id": rollout, "prompt_length": 1,
             "tokens": [1, 2], "log_probs": [-0.5], "reward": 1.0}) + "\n" + json.dumps(
            {"schema": "rlreplay.train/1", "rollout_id": rollout, "step_id": 0, "rank": 0, "sample_id": rollout,
             "length": 2, "prompt_length": 1, "advantages": [0.5], "log_probs": [-1]}) + "\n"
            for rollout in range(3)))
        dump = self.place("imported")
        self.assertEqual(self.run_program("import", lines, "-o", dump).returncode, 0)
        _, folder, said = self.packed(dump, "--step", "1.0")
        self.assertEqual((said["steps"], said["reproduce"]), ("1.0..1.0", "rlreplay show dump/"))
        shown = self.lines("show", folder, "--samples")
        self.assertEqual([line["sample_id"] for line in shown], [1])


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
