"""Files that lie, ask for code or would exhaust a reader, each with the answers that are right: the
class of an error, or readable-but-reports-FINDING."""
import json
import pickle
import struct
import zlib

import make_fixtures as fixtures
from torch_files import Storages, archive, members

STEP = b"\x80\x02"  # protocol 2
MARKER = "touch rlreplay-hostile-marker"
CORRUPT, UNSAFE, UNSUPPORTED = "corrupt", "refuse-unsafe", "unsupported"


def torch(pickled, storages=()):
    return archive([("x/data.pkl", pickled), ("x/byteorder", b"little"),
                    *((f"x/data/{key}", data) for key, data in storages), ("x/version", b"3\n")])


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def call(module, name, argument=MARKER):
    """A global, applied to a text."""
    return STEP + f"c{module}\n{name}\n".encode() + text(argument) + b"\x85R."


# -- what asks for code -------------------------------------------------------------------------
def code():
    for module, name in (("os", "system"), ("posix", "system"), ("nt", "system"),
                         ("subprocess", "Popen"), ("builtins", "eval"), ("__builtin__", "exec"),
                         ("builtins", "__import__"), ("importlib", "import_module"),
                         ("torch", "load"), ("torch.storage", "_load_from_bytes"),
                         ("pickle", "loads"), ("runpy", "run_path"), ("ctypes", "CDLL"),
                         ("slime.utils.types", "os"), ("numpy", "load")):
        yield f"global_{module}_{name}", torch(call(module, name)), UNSAFE
    yield "lookalike", torch(call("\u043es", "system")), UNSAFE
    system, argument = b"cos\nsystem\n", text(MARKER)
    stack = b"\x8c\x02os\x8c\x06system\x93"
    for name, body in {
            "stack_global": b"\x80\x04" + stack + b"\x8c\x04true\x85R.",
            "inst": b"(" + argument + b"ios\nsystem\n.",
            "obj": STEP + b"(" + system + argument + b"o.",
            "newobj": STEP + system + argument + b"\x85\x81.",
            "newobj_ex": b"\x80\x04" + system + argument + b"\x85}\x92.",
            "in_a_key": STEP + b"}" + system + argument + b"\x85RK\x01s.",
            "then_popped": STEP + system + argument + b"\x85R0N.",
            "as_state": STEP + b"cslime.utils.types\nSample\n)\x81" + system + argument + b"\x85Rb."
    }.items():
        yield name, torch(body), UNSAFE
    for code_point in (b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00"):
        yield f"extension_{code_point[0]:x}", torch(STEP + code_point + b"."), (UNSAFE, UNSUPPORTED)


# -- pickles that are broken --------------------------------------------------------------------
def machines():
    for name, body in {
            "underflow": STEP + b"0.", "no_stop": STEP + b"N", "nothing": b"", "only_stop": STEP + b".",
            "two_values": STEP + b"NN.", "append_to_dict": STEP + b"}K\x01a.",
            "set_without_mark": STEP + b"}K\x01K\x02u.", "set_odd": STEP + b"}(K\x01u.",
            "list_as_key": STEP + b"}]K\x01s.", "never_set": STEP + b"h\x07.",
            "never_set_far": STEP + b"j\xff\xff\xff\xff.", "unknown_opcode": STEP + b"\xff.",
            "reduce_on_number": STEP + b"K\x01)R.", "text_4_gib": STEP + b"X\xff\xff\xff\xffabc.",
            "text_wraps": b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.",
            "bytes_huge": b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7fabc.",
            "bytearray_huge": b"\x80\x05\x96" + b"\xff" * 7 + b"\x7fabc.",
            "long_negative": STEP + b"\x8b\xff\xff\xff\xff.", "long_huge": STEP + b"\x8b\xff\xff\xff\x7f1.",
            "frame_too_long": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7fN.",
            "not_utf8": STEP + b"X\x02\0\0\0\xc3\x28.", "overlong": STEP + b"X\x02\0\0\0\xc0\x80.",
            "int_garbage": b"I12x4\n.", "marks": STEP + b"(" * 100000 + b"."}.items():
        yield name, torch(body), CORRUPT
    yield "protocol_255", torch(b"\x80\xffN."), (UNSUPPORTED, CORRUPT)
    yield "cyclic", torch(STEP + b"]q\0h\0a."), (UNSUPPORTED, CORRUPT)
    for name, opens, closes in (("lists", b"]", b"a"), ("tuples", b"", b"\x85")):
        body = opens * 100000 + b"N" + closes * 100000
        yield f"deep_{name}", torch(STEP + body + b"."), (CORRUPT, UNSUPPORTED)
    # Each list holds the one before ten times.
    lists = [b"](" + bytes([ord("h"), i]) * 10 + bytes([ord("e"), ord("q"), i + 1]) for i in range(40)]
    laughs = b"]q\0" + b"".join(lists) + b"."
    yield ("laughs", torch(STEP + laughs),
           (CORRUPT, UNSUPPORTED, "readable-but-reports-shared-structure"))
    yield "trailing", torch(STEP + b"N.more"), "readable-but-reports-trailing-bytes"
    yield ("key_twice", torch(STEP + b"}(" + text("a") + b"K\x01" + text("a") + b"K\x02u."),
           ("readable-but-reports-duplicate-key", CORRUPT))


# -- tensors that leave their storage -----------------------------------------------------------
def tensors():
    def tensor(shape, stride, offset=0, count=4):
        storage = Storages().storage("Float", range(count))
        return archive(members("x", fixtures.Tensor(storage, shape, stride, offset)))

    for name, made in {
            "past_storage": tensor((5,), (1,)), "offset_past": tensor((2,), (1,), 3),
            "offset_huge": tensor((1,), (1,), 2**62), "offset_negative": tensor((1,), (1,), -1),
            "stride_negative": tensor((2,), (-1,), 3), "stride_wraps": tensor((2,), (2**63 - 1,)),
            "size_negative": tensor((-1,), (1,)), "ranks_differ": tensor((2, 2), (1,)),
            "product_wraps": tensor((2**32, 2**32), (0, 0)), "size_big": tensor((2**70,), (1,)),
            "size_no_number": tensor((1.5,), (1,))}.items():
        yield f"tensor_{name}", made, CORRUPT
    good = members("x", fixtures.Tensor(Storages().storage("Float", range(4)), (4,), (1,)))
    yield "tensor_no_record", archive([m for m in good if "/data/" not in m[0]]), CORRUPT
    short = [(name, data[:-4] if "/data/" in name else data) for name, data in good]
    yield "tensor_short_record", archive(short), CORRUPT
    other = [(name, b"big" if name.endswith("order") else data) for name, data in good]
    yield "byteorder_big", archive(other), UNSUPPORTED


# -- archives that lie --------------------------------------------------------------------------
def patched(data, at, form, value):
    out = bytearray(data)
    struct.pack_into(form, out, at % len(out), value)
    return bytes(out)


def archives():
    good = archive(members("x", fixtures.train()))
    entry, end = good.index(b"PK\1\2"), good.rindex(b"PK\5\6")
    stored = good.index(b"\x80\x02")
    for name, at in (("header", 10), ("pickle", stored + 9), ("directory", entry + 20),
                     ("end", end + 10), ("last_byte", len(good) - 1), ("all", 0)):
        yield f"cut_in_{name}", good[:at], CORRUPT
    for name, made in {
            "content_changed": patched(good, stored + 20, "<B", good[stored + 20] ^ 1),
            "crc_of_header": patched(good, 14, "<I", 7), "crc_of_entry": patched(good, entry + 16, "<I", 7),
            "size_of_entry": patched(good, entry + 24, "<I", 1 << 30),
            "offset_of_entry": patched(good, entry + 42, "<I", 1 << 30),
            "more_entries": patched(good, end + 8, "<I", 0x0FFF0FFF),
            "fewer_entries": patched(good, end + 8, "<I", 0x00010001),
            "directory_size": patched(good, end + 12, "<I", 1 << 31),
            "directory_offset": patched(good, end + 16, "<I", 5),
            "name_of_header": patched(good, 30, "<B", ord("y"))}.items():
        yield f"zip_{name}", made, CORRUPT
    yield "zip_encrypted", patched(patched(good, entry + 8, "<H", 1), 6, "<H", 1), UNSUPPORTED
    for method in (12, 14, 93, 99):
        made = patched(patched(good, entry + 10, "<H", method), 8, "<H", method)
        yield f"zip_method_{method}", made, UNSUPPORTED
    yield "zip_disks", patched(good, end + 4, "<H", 1), (UNSUPPORTED, CORRUPT)
    content = members("x", {"a": 1})
    for name, member in (("up", "x/../../up"), ("absolute", "/x/data/7"), ("nothing_between", "x//y")):
        yield f"member_{name}", archive([*content, (member, b"y")]), (CORRUPT, UNSAFE)
    yield "two_roots", archive([*content, ("y/data.pkl", b"N.")]), (CORRUPT, UNSUPPORTED)
    yield "no_pickle", archive(content[1:]), (CORRUPT, UNSUPPORTED)
    yield "prefixed", b"#!/bin/sh\n" + good, (CORRUPT, "readable-but-reports-prefix")
    yield "bomb", bomb(), (CORRUPT, UNSUPPORTED)


def bomb():
    """A member that says it holds 3 GiB, and deflates from less than a megabyte."""
    made = bytearray(archive([("x/data.pkl", b"N."), ("x/data/0", bytes(1 << 26))], 8))
    for at, place in ((made.index(b"x/data/0") - 30, 22), (made.rindex(b"x/data/0") - 46, 24)):
        struct.pack_into("<I", made, at + place, 3 << 30)
    return bytes(made)


def others():
    yield "text", b"no archive at all\n", (CORRUPT, UNSUPPORTED)
    yield "one_byte", b"P", CORRUPT
    yield "gzip", b"\x1f\x8b\x08" + zlib.compress(b"x"), (UNSUPPORTED, CORRUPT)
    yield "plain_pickle", pickle.dumps({"a": 1}, 2), (UNSUPPORTED, CORRUPT)
    yield "empty_archive", archive([]), (CORRUPT, UNSUPPORTED)
    yield "safetensors", struct.pack("<Q", 2) + b"{}", (UNSUPPORTED, CORRUPT)


# -- dumps that contradict themselves -----------------------------------------------------------
def with_sample(**changes):
    root = fixtures.rollout()
    root["samples"][0].update(changes)
    return root


def with_train(**changes):
    root = fixtures.train()
    root["rollout_data"].update(changes)
    return root


def dumps():
    first = fixtures.rollout()["samples"][0]
    for name, root, finding in (
            ("samples_missing", {"rollout_id": 1}, "not-a-dump"),
            ("samples_no_list", {"rollout_id": 1, "samples": {"a": 1}}, "not-a-dump"),
            ("root_is_list", [1, 2], "not-a-dump"),
            ("mask_short", with_sample(loss_mask=first["loss_mask"][1:]), "length-mismatch"),
            ("log_probs_long", with_sample(rollout_log_probs=[-1.0] * 99), "length-mismatch"),
            ("response_too_long", with_sample(response_length=99), "length-mismatch"),
            ("response_negative", with_sample(response_length=-1), "length-mismatch"),
            ("token_negative", with_sample(tokens=[-1] * len(first["tokens"])), "bad-token"),
            ("token_too_large", with_sample(tokens=[2**31] * len(first["tokens"])), "bad-token"),
            ("token_is_float", with_sample(tokens=[0.5] * len(first["tokens"])), "bad-token"),
            ("mask_of_2", with_sample(loss_mask=[2] * first["response_length"]), "bad-mask"),
            ("log_prob_nan", with_sample(rollout_log_probs=[float("nan")] * first["response_length"]),
             "non-finite"),
            ("log_prob_positive", with_sample(rollout_log_probs=[0.5] * first["response_length"]),
             "bad-log-prob"),
            ("status", with_sample(status="finished"), "unknown-status"),
            ("index_twice", with_sample(index=1), "duplicate-index"),
            ("train_lengths", with_train(total_lengths=[7, 4]), "length-mismatch"),
            ("train_count", with_train(rewards=[0.5]), "length-mismatch"),
            ("train_version", {"format_version": 7, "rollout_id": 0, "samples": []}, "unknown-version")):
        yield f"dump_{name}", archive(members("x", root)), f"readable-but-reports-{finding}"


def write(folder):
    folder.mkdir(parents=True)
    listed = []
    for kind in (code, machines, tensors, archives, others, dumps):
        for name, content, expect in kind():
            file = folder / f"{name}.pt"
            assert not file.exists(), name
            file.write_bytes(content)
            listed.append({"file": file.name, "expect": [expect] if isinstance(expect, str) else expect})
    (folder / "hostile.json").write_text(json.dumps({"files": listed}, indent=0) + "\n")
