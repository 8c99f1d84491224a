"""States that several ranks hold, or that are stored in another type: every program says the same of them.

usage: state_copies_test.py RLREPLAY
"""
import dataclasses
import sys
import unittest

import dump_patch
import support

EMBEDDING = "1-0/parameters/model.embed_tokens.weight"
MOMENT = EMBEDDING.replace("parameters", "exp_avg")  # the first of its names
FIRST, SECOND = "weights/1-0/rank0.h5", "weights/1-0/rank1.h5"


def retyped(array, dtype):
    return array.reshaped(array.values, dtype)


class States(support.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dump, _ = cls.capture("dump", "--model", "demo", "--steps", "2", "--lr", "5e-4", "--rollout-batch-size", "2",
                                  "--n-samples-per-prompt", "4", "--weights", "all", "--layout", "dp=2")

    def patched(self, name, change):
        patched = dump_patch.Patched(self.dump)
        change(patched)
        return patched.write(self.folder / name)

    def copied(self, name, change=lambda values: values, dtype="f32"):
        """The dump of which rank 1 holds the embedding too."""
        def copy(patched):
            array = retyped(patched.at(FIRST, EMBEDDING), dtype)
            array.values = change(array.values)
            patched.units[SECOND][EMBEDDING] = array
        return self.patched(name, copy)

    def all_as(self, name, dtype, change=lambda values: values):
        """The dump with all tensors of the state before step 1.0 in another type."""
        def convert(patched):
            for path in (FIRST, SECOND):
                for name, array in patched.units[path].items():
                    if array.dtype == "f32":
                        array = patched.units[path][name] = retyped(array, dtype)
                        array.values = change(array.values)
        return self.patched(name, convert)

    def said(self, *arguments, code):
        result = self.run_program(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return " ".join((result.stdout + result.stderr).split())

    def same_everywhere(self, dump):
        self.said("verify", "--deep", dump, code=0)
        self.said("diff", self.dump, dump, code=0)
        self.said("train", dump, "--steps", "1.0", code=0)


def changed(values):
    values = values.copy()
    values[37] += 1
    return values


class Read(States):
    def test_a_copy_of_the_same_numbers_in_another_type_is_the_same_state(self):
        self.same_everywhere(self.copied("wide copy", dtype="f64"))

    def test_a_state_stored_as_f64_is_read_where_binary32_holds_its_numbers(self):
        self.same_everywhere(self.all_as("wide", "f64"))

    def test_a_copy_of_other_numbers_is_named_by_element_and_both_units(self):
        for dtype in ("f32", "f64"):
            dump = self.copied(f"other {dtype}", changed, dtype)
            for command in (("verify", "--deep"), ("train", "--steps", "1.0")):
                said = self.said(command[0], dump, *command[1:], code=3)
                for words in (SECOND, "element [0, 37] of parameters/model.embed_tokens.weight", f"in {FIRST}"):
                    self.assertIn(words, said)

    def test_a_copy_that_is_an_empty_difference_does_not_replace_what_another_unit_says(self):
        earlier, at = "0-0" + EMBEDDING[3:], "weights/0-0/rank1.h5"

        def unchanged(patched):
            """Of rank 1 the embedding is before the second step what it was before the first."""
            base = patched.units[at][earlier] = patched.at("weights/0-0/rank0.h5", earlier)
            patched.units[SECOND][EMBEDDING] = dataclasses.replace(base, base=(at, base))
        dump = self.patched("unchanged", unchanged)
        for command in (("verify", "--deep"), ("train", "--steps", "1.0")):
            said = self.said(command[0], dump, *command[1:], code=3)
            for words in (SECOND, "element [0, 0] of parameters/model.embed_tokens.weight is", f"in {FIRST}"):
                self.assertIn(words, said)

    def test_a_number_that_no_binary32_is_is_refused_for_that(self):
        dump = self.all_as("finer", "f64", lambda values: values + 1e-12)
        self.assertIn(f"{FIRST}: element 0 of {MOMENT} is ", self.said("train", dump, "--steps", "1.0", code=3))
        self.assertIn("expected a number that binary32 holds", self.said("verify", "--deep", dump, code=1))

    def test_a_state_that_is_no_float_is_refused_by_its_type_and_its_unit(self):
        dump = self.all_as("bits", "i32")
        words = "is i32 [16, 64], expected f32 or f64 of 1024 elements, as the recorded model has"
        self.assertIn(f"{FIRST}: {MOMENT} {words}", self.said("train", dump, "--steps", "1.0", code=3))
        self.assertIn(f"{MOMENT} {words} ({FIRST}: ", self.said("verify", "--deep", dump, code=1))


class Told(States):
    """What diff says of a state that is not one."""

    def first(self, a, b):
        [line] = self.lines("diff", a, b, code=1)
        return line["first"], {field["field"]: field for field in line["fields"]}, line["causes"]

    def test_copies_that_differ_are_named_by_element_and_both_ranks(self):
        sound = "one value of each element"
        for dtype in ("f32", "f64"):
            dump = self.copied(f"two of {dtype}", changed, dtype)
            for pair in ((self.dump, dump), (dump, self.dump)):
                first, fields, _ = self.first(*pair)
                torn = first["b" if pair[1] == dump else "a"]
                self.assertEqual(first["a" if pair[1] == dump else "b"], sound)
                self.assertRegex(torn, r"^\[0, 37\] is \S+ in rank 0, \S+ in rank 1$")
                self.assertEqual((first["tensor"], first["rank"]), (EMBEDDING[4:], 1))
                self.assertEqual(fields["weights/parameters"]["different"], 1)

    def test_a_tensor_of_another_type_is_told_by_both(self):
        first, _, _ = self.first(self.dump, self.all_as("integers", "i32"))
        self.assertEqual((first["a"], first["b"]), ("floats", "integers"))

    def partly(self, name, change=lambda values: values, then=lambda patched: None):
        """The embedding in two halves, of which no rank holds the second."""
        def halve(patched):
            whole = patched.units[FIRST][EMBEDDING]
            rows, columns = whole.shape
            half = whole.reshaped(change(whole.values)[:rows * columns // 2])
            half.attributes = {"boxes": [0, rows // 2, rows, 0, columns, columns], "tensors": EMBEDDING[4:]}
            patched.units[FIRST][EMBEDDING] = half
            then(patched)
        return self.patched(name, halve)

    def test_a_tensor_of_which_a_part_is_missing_is_not_called_changed(self):
        dump = self.partly("half")
        first, fields, causes = self.first(self.dump, dump)
        self.assertEqual((first["a"], first["b"]), ("one value of each element", "512 of 1024 elements"))
        of = fields["weights/parameters"]
        self.assertEqual((of["compared"], of["different"], of["missing"]), (512, 0, 1))
        self.assertIn("of the weights or moments before step 1.0 one lacks a part", [c["text"] for c in causes])

    def test_what_is_held_of_it_is_compared(self):
        first, fields, _ = self.first(self.partly("changed half", changed), self.dump)
        of = fields["weights/parameters"]
        self.assertEqual((of["different"], of["missing"], first["tensor"]), (1, 1, EMBEDDING[4:]))

    def test_elements_that_two_ranks_hold_count_once(self):
        def again(patched):
            patched.units[SECOND][EMBEDDING] = patched.units[FIRST][EMBEDDING]
        first, fields, _ = self.first(self.dump, self.partly("half twice", then=again))
        self.assertEqual((first["a"], first["b"]), ("one value of each element", "512 of 1024 elements"))
        self.assertEqual(fields["weights/parameters"]["compared"], 512)

    def test_a_part_is_missing_and_two_ranks_contradict_each_other_in_another(self):
        """All that is held is compared, behind the contradiction, too."""
        def other(patched):
            whole = dump_patch.Patched(self.dump).at(FIRST, EMBEDDING)
            rows, columns = whole.shape
            values = changed(whole.values)[:rows * columns * 3 // 4]
            values[rows * columns // 2] += 1
            part = whole.reshaped(values)
            part.attributes = {"boxes": [0, rows // 2, rows, 0, columns, columns, rows // 2, rows // 4, rows, 0, columns, columns],
                               "tensors": "\n".join([EMBEDDING[4:]] * 2)}
            patched.units[SECOND][EMBEDDING] = part
        dump = self.partly("torn half", then=other)
        for pair in ((self.dump, dump), (dump, self.dump)):
            _, fields, _ = self.first(*pair)
            of = fields["weights/parameters"]
            self.assertEqual((of["compared"], of["different"], of["missing"]), (768, 2, 1))

    def test_a_tensor_that_one_lacks_is_told_with_the_rank_that_holds_it(self):
        without = self.patched("without", lambda patched: patched.units[FIRST].pop(EMBEDDING))
        first, fields, _ = self.first(self.dump, without)
        self.assertEqual((first["a"], first["b"], first["rank"]), ("recorded", None, 0))
        self.assertEqual(fields["weights/parameters"]["missing"], 1)


if __name__ == "__main__":
    support.Case.program = sys.argv.pop(1)
    unittest.main()
