"""Compares units with what h5py reads from them, and makes sound and hostile units.

usage: interop.py compare UNIT.h5 VALUES_DIR     every dataset against VALUES_DIR/<path with _ for />
       interop.py hostile SOUND.h5 OUT_DIR       writes OUT_DIR/<rule>.<case>.h5
       interop.py strange OUT_DIR VALUES_DIR     writes OUT_DIR/<case>.h5 as another writer would, with
                                                 CONTENT LOGICAL in OUT_DIR/<case>.txt
       interop.py golden LISTING UNIT.h5...      every dataset against the lines UNIT PATH DTYPE DIMS
                                                 HASH of LISTING
"""
import pathlib
import shutil
import struct
import sys

import h5py
import numpy as np
import xxhash


def compare(unit, values):
    seen = 0

    def visit(name, dataset):
        nonlocal seen
        if not isinstance(dataset, h5py.Dataset):
            return
        want = (values / name.replace("/", "_")).read_bytes()
        assert dataset[...].tobytes() == want, name
        assert np.prod(dataset.attrs["shape"]) == dataset.size, name
        assert dataset.attrs["dtype"].decode() == name.split("/")[1] or name == "0/tokens", name
        seen += 1

    with h5py.File(unit) as file:
        assert file.attrs["format"].decode() == "rlreplay"
        file.visititems(visit)
    assert seen == len(list(values.iterdir())), seen
    print(f"{seen} datasets equal")


def frame(chunk, announced, checksum=False):
    """A zstd frame of one block of `chunk` equal bytes that announces another size."""
    head = struct.pack("<IBI", 0xFD2FB528, 0xA4 if checksum else 0xA0, announced)
    return head + (1 | 1 << 1 | chunk << 3).to_bytes(3, "little") + b"\x07"


def attributes(dataset, dtype="i32", shape=None, **more):
    dataset.attrs["dtype"] = np.bytes_(dtype)
    dataset.attrs["shape"] = np.array(shape or [dataset.size], "<u8")
    dataset.attrs["hash"] = np.bytes_("0" * 32)
    dataset.attrs["encoding"] = np.bytes_("plain")
    for name, value in more.items():
        dataset.attrs[name] = value


def replace(file, name="0/tokens", **how):
    """Another dataset in place of a sound one."""
    del file[name]
    if "data" not in how:
        how.setdefault("shape", (4096,))
        how.setdefault("dtype", "<i4")
    return file.create_dataset(name, **how)


ZSTD = dict(chunks=(4096,), compression=32015, compression_opts=(1,), shuffle=True)


def chunked(file, stored, mask=0):
    """Other stored bytes under the attributes of the sound dataset: its content seems unchanged."""
    sound = dict(file["0/tokens"].attrs)
    dataset = replace(file, **ZSTD)
    dataset.id.write_direct_chunk((0,), stored, filter_mask=mask)
    for name, value in sound.items():
        dataset.attrs[name] = value


def contiguous(file, dtype="i32", shape=None, data=None, **more):
    data = np.arange(4, dtype="<i4") if data is None else data
    attributes(replace(file, data=data), dtype, shape, **more)


def external(file):
    (pathlib.Path(file.filename).parent / "raw").write_bytes(bytes(16384))
    dataset = replace(file, external=[("raw", 0, 16384)])
    attributes(dataset)


def soft(file):
    file["0/soft"] = h5py.SoftLink("/0/tokens")


def outside(file):
    file["0/other"] = h5py.ExternalLink("/etc/passwd", "/")


def twice(file):
    file["0/again"] = file["0/tokens"]


def cycle(file):
    file["0/up"] = file["0"]


def named_type(file):
    file["0/type"] = np.dtype("<i4")


def odd_name(file):
    file["0/a b"] = np.arange(3)


def deep(file):
    file.create_group("0/a/b/c/d/e")


def top_level(file):
    dataset = file.create_dataset("loose", data=np.arange(4, dtype="<i4"))
    attributes(dataset)


def set_attribute(path, name, value):
    def change(file):
        file[path].attrs[name] = value

    return change


def drop_attribute(path, name):
    def change(file):
        del file[path].attrs[name]

    return change


HOSTILE = {
    "object.soft": soft,
    "object.external": outside,
    "object.twice": twice,
    "object.cycle": cycle,
    "object.type": named_type,
    "object.name": odd_name,
    "object.loose": top_level,
    "object-limit.deep": deep,
    "layout.external": external,
    "layout.gzip": lambda f: attributes(
        replace(f, data=np.zeros(4096, "<i4"), chunks=(4096,), compression="gzip")),
    "layout.unshuffled": lambda f: attributes(
        replace(f, data=np.zeros(4096, "<i4"), chunks=(4096,), compression=32015)),
    "layout.sparse": lambda f: attributes(replace(f, shape=(1 << 20,))),
    "layout.chunk": lambda f: attributes(
        replace(f, shape=(1 << 21,), **{**ZSTD, "chunks": (1 << 21,)})),
    "chunk.missing": lambda f: attributes(replace(f, **ZSTD)),
    "frame.short": lambda f: chunked(f, frame(16, 16)),
    "frame.bomb": lambda f: chunked(f, frame(1 << 17, 0xFFFFFFFF)),
    "frame.unchecked": lambda f: chunked(f, frame(16384, 16384)),
    "frame.two": lambda f: chunked(f, frame(16384, 16384) * 2),
    "frame.noise": lambda f: chunked(f, bytes(range(256)) * 8),
    "chunk.large": lambda f: chunked(f, bytes(1 << 20)),
    "chunk.mask": lambda f: chunked(f, bytes(16384), mask=3),
    "shape.two": lambda f: attributes(replace(f, data=np.zeros((2, 2), "<i4"))),
    "shape.unlimited": lambda f: attributes(replace(f, **ZSTD, maxshape=(None,))),
    "shape.product": lambda f: contiguous(f, shape=[5]),
    "shape.overflow": lambda f: contiguous(f, shape=[1 << 63, 4]),
    "element.big": lambda f: contiguous(f, data=np.arange(4, dtype=">i4")),
    "element.other": lambda f: contiguous(f, dtype="f32"),
    "element.compound": lambda f: contiguous(f, data=np.zeros(4, [("a", "<i4")])),
    "element.half": lambda f: contiguous(f, dtype="f16", data=np.zeros(4, "<f2")),
    "element.string": lambda f: contiguous(f, data=np.array([b"text"])),
    "attribute.dtype": lambda f: contiguous(f, dtype="i33"),
    "attribute.encoding": set_attribute("0/tokens", "encoding", np.bytes_("rot13")),
    "attribute.base": set_attribute("0/tokens", "encoding", np.bytes_("xor")),
    "attribute.hash": set_attribute("0/tokens", "hash", np.bytes_("0" * 31)),
    "attribute.vlen": set_attribute("0/tokens", "dtype", "i32"),
    "attribute.absent": drop_attribute("0/tokens", "hash"),
    "attribute.float": set_attribute("0/tokens", "extra", 0.5),
    "attribute.group": set_attribute("0", "note", np.bytes_("x")),
    "attribute.unit": set_attribute("/", "unit", np.bytes_("rollout/1.h5")),
    "attribute.format": set_attribute("/", "format", np.bytes_("other")),
    "content.hash": set_attribute("0/tokens", "hash", np.bytes_("0" * 32)),
    "content.extra": set_attribute("0/tokens", "columns", np.bytes_("x")),
}


def hostile(sound, out):
    for name, change in HOSTILE.items():
        path = out / f"{name}.h5"
        shutil.copyfile(sound, path)
        with h5py.File(path, "r+", libver=("v110", "v110")) as file:
            change(file)
    with h5py.File(out / "signature.earliest.h5", "w", libver="earliest") as file:
        file["0/x"] = np.arange(3)
    print(f"{len(HOSTILE) + 1} hostile files")


def digest(data):
    return xxhash.xxh3_128_hexdigest(data)


STRANGE = {
    "plain": {},
    "many": {"links": 500},
    "ordered": {"links": 40, "extra": 12, "order": True},
    "attributes": {"extra": 27, "long": 6000},
    "timed": {"times": True},
}


def put(group, name, array, times, extra, long, **how):
    """A dataset as format/SPEC.md describes it; returns its line of the content."""
    dataset = group.create_dataset(name, data=array, track_times=times, **how)
    dtype = {"i": "i", "u": "u", "f": "f"}[array.dtype.kind] + str(8 * array.dtype.itemsize)
    more = {f"note{i}": b"x" * (i + 1) for i in range(extra)}
    if long:
        more["columns"] = b"y" * long
    attributes = {"dtype": dtype.encode(), "hash": digest(array.tobytes()).encode(),
                  "encoding": b"plain", **more}
    for key, text in attributes.items():
        dataset.attrs[key] = np.bytes_(text)
    dataset.attrs["shape"] = np.array([array.size], "<u8")
    notes = "".join(f" {key}={digest(more[key])}" for key in sorted(more))
    return f"{dataset.name[1:]} {dtype} {array.size} {digest(array.tobytes())}{notes}\n", array.nbytes


def strange(out, values):
    """Units by h5py alone, in every form that the format allows."""
    zstd = dict(compression=32015, compression_opts=(3,))
    for case, want in STRANGE.items():
        order, times = want.get("order", False), want.get("times", False)
        extra, long = want.get("extra", 0), want.get("long", 0)
        lines, logical = [], 0
        (values / case).mkdir()

        def add(group, name, array, **how):
            nonlocal logical
            line, size = put(group, name, array, times, extra, long, **how)
            lines.append(line)
            logical += size
            path = f"{group.name[1:]}/{name}".replace("/", "_")
            (values / case / path).write_bytes(array.tobytes())

        with h5py.File(out / f"{case}.h5", "w", libver=("v110", "v110"), track_order=order) as file:
            for key, text in {"format": "rlreplay", "version": "1.0", "unit": "rollout/0.h5"}.items():
                file.attrs[key] = np.bytes_(text)
            group = file.create_group("0", track_order=order)
            below = group.create_group("events/below")
            for i in range(want.get("links", 3)):
                add(group, f"n{i}", np.arange(i, i + 5, dtype="<i4"))
            for kind in "<i1 <u1 <i2 <u2 <i8 <u8 <f4 <f8".split():
                array = (np.arange(70_000) % 251).astype(kind)
                shuffle = array.itemsize > 1
                add(below, f"few{kind[1:]}", array, chunks=(3_000,), shuffle=shuffle, **zstd)
                add(below, f"one{kind[1:]}", array, chunks=(70_000,), shuffle=shuffle, **zstd)
                add(below, f"none{kind[1:]}", array[:0])
            many = np.zeros(2_500_000, "<u1")
            add(group, "many", many, chunks=(1_000,), **zstd)
        lines.sort(key=lambda line: line.split(" ")[0].encode())
        content = digest(("rlreplay content\n" + "".join(lines)).encode())
        (out / f"{case}.txt").write_text(f"{content} {logical}\n")
    print(f"{len(STRANGE)} units of another writer")


def golden(listing, *units):
    want = set(listing.read_text().splitlines())
    seen = set()
    for path in units:
        def visit(name, dataset):
            if not isinstance(dataset, h5py.Dataset):
                return
            attributes = dataset.attrs
            dims = ",".join(str(n) for n in attributes["shape"])
            assert dataset.size == np.prod(attributes["shape"]), name
            if attributes["encoding"] == b"plain":
                assert digest(dataset[...].tobytes()) == attributes["hash"].decode(), name
            seen.add(f"{path} {name} {attributes['dtype'].decode()} {dims} "
                     f"{attributes['hash'].decode()}")
        with h5py.File(path) as file:
            file.visititems(visit)
    assert want == seen, want ^ seen
    print(f"{len(seen)} datasets of golden dumps equal")


if __name__ == "__main__":
    # Registers the zstd filter, which leaves the frames' checksums out; HDF5_PLUGIN_PATH leads to the
    # project's own.
    if sys.argv[1] != "strange":
        import hdf5plugin  # noqa: F401
    {"compare": compare, "hostile": hostile, "strange": strange,
     "golden": golden}[sys.argv[1]](*map(pathlib.Path, sys.argv[2:]))
