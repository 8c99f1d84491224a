"""A unit of a dump, read by h5py: its file, the forms of its container, its datasets (format/SPEC.md 3, 5).
Of `spec_reader.py`, which see.
"""
import contextlib
import io
import os
import re
import stat

os.environ["HDF5_PLUGIN_PRELOAD"] = "::"  # plugins are code
import h5py  # noqa: E402
import numpy as np  # noqa: E402
import zstandard  # noqa: E402
from h5py import h5a, h5d, h5l, h5o, h5s, h5t  # noqa: E402

from spec_counts import counts_of  # noqa: E402
from spec_values import (DTYPES, GIB, HASH, UNIT_PATH, Broken, check_meaning, digest,  # noqa: E402
                         group_content, hash_of_lines, require)


@contextlib.contextmanager
def container(path):
    """What h5py cannot read is damaged."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise Broken("container", path, "/", str(error)) from None


def attribute(found):
    """A text or a tuple of numbers; None where it is neither."""
    kind, space = found.get_type(), found.get_space()
    if isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str():
        if kind.get_strpad() != h5t.STR_NULLPAD or space.get_simple_extent_type() != h5s.SCALAR:
            return None
        data = np.zeros((), f"S{kind.get_size()}")
        found.read(data, mtype=kind)
        return data.tobytes().split(b"\0")[0].decode(errors="surrogateescape")
    if kind != h5t.STD_U64LE:
        return None
    if space.get_simple_extent_type() == h5s.NULL:
        return ()
    if space.get_simple_extent_type() != h5s.SIMPLE or len(space.shape) != 1:
        return None
    data = np.zeros(space.shape, "<u8")
    found.read(data, mtype=kind)
    return tuple(map(int, data))


class Dataset:
    """One dataset: what the container says of it, and its elements."""

    def __init__(self, unit, path, item):
        self.unit, self.path, self.id, self.value = unit, path, item, None
        self.group, _, self.name = path.partition("/")
        self.plist, self.type, self.space = item.get_create_plist(), item.get_type(), item.get_space()
        self.stored = item.get_storage_size()
        self.chunks = [item.get_chunk_info(i) for i in range(item.get_num_chunks())] \
            if self.plist.get_layout() == h5d.CHUNKED else []

    def check_attributes(self, found):
        a = self.attributes = found
        self.dtype, self.dims, self.hash = a.get("dtype"), a.get("shape"), a.get("hash")
        xor = a.get("encoding") == "xor"
        self.base = (str(a.get("base_unit")), str(a.get("base_hash"))) if xor else None
        self.more = {name: a[name] for name in sorted(a)
                     if name not in ("dtype", "shape", "hash", "encoding") + ("base_unit", "base_hash") * xor}
        return (None not in a.values() and self.dtype in DTYPES and isinstance(self.dims, tuple)
                and isinstance(self.hash, str) and HASH.fullmatch(self.hash)
                and a.get("encoding") in ("plain", "xor")
                and (not xor or UNIT_PATH.fullmatch(self.base[0]) and HASH.fullmatch(self.base[1])))

    def check_element(self):
        self.numpy = np.dtype(DTYPES[self.dtype])
        return self.type == h5t.py_create(self.numpy)

    def check_shape(self):
        s = self.space
        if s.get_simple_extent_type() != h5s.SIMPLE or len(s.shape) != 1:
            return False
        if s.shape != s.get_simple_extent_dims(1):
            return False
        self.count, product = s.shape[0], 1
        for n in self.dims:
            product *= n
        self.bytes = self.count * self.numpy.itemsize
        return product == self.count and 1 <= len(self.dims) <= 8

    def check_layout(self):
        p, size = self.plist, self.numpy.itemsize
        filters = [p.get_filter(i) for i in range(p.get_nfilters())]
        if p.get_layout() == h5d.CONTIGUOUS:
            return not filters and not p.get_external_count() and self.stored == self.bytes
        if p.get_layout() != h5d.CHUNKED or not 0 < p.get_chunk()[0] * size <= 4 << 20:
            return False
        wanted = [2, 32015] if size > 1 else [32015]
        return ([f[0] for f in filters] == wanted and len(filters[-1][2]) == 1
                and (size == 1 or tuple(filters[0][2]) == (size,)))

    def check_chunks(self, end):
        if self.plist.get_layout() != h5d.CHUNKED:
            return True
        n = self.chunk = self.plist.get_chunk()[0]
        raw = n * self.numpy.itemsize
        bound = raw + (raw >> 8) + (((128 << 10) - raw >> 11) if raw < 128 << 10 else 0)
        return [c.chunk_offset[0] for c in self.chunks] == list(range(0, self.count, n)) and all(
            0 < c.size <= bound and c.byte_offset + c.size <= end and c.filter_mask == 0 for c in self.chunks)

    def more_text(self, columns=True, without=()):
        """The other attributes as a line of the content has them."""
        def text(value):
            if isinstance(value, str):
                return digest(value.encode(errors="surrogateescape"))
            return ",".join(map(str, value))
        without = ("columns",) * (not columns) + tuple(without)
        return "".join(f" {name}={text(v)}" for name, v in self.more.items() if name not in without)

    def decode(self):
        """The stored elements; `frame` where a chunk is none."""
        if self.plist.get_layout() == h5d.CONTIGUOUS:
            data = np.empty(self.count, self.numpy)
            if self.count:
                self.id.read(h5s.ALL, h5s.ALL, data)
            return data.view("u1")
        size, pieces = self.numpy.itemsize, []
        raw = self.chunk * size
        for n, info in enumerate(self.chunks):
            what = "frame", self.unit.path, self.path, f"chunk {n}"
            _, data = self.id.read_direct_chunk(info.chunk_offset)
            try:
                head = zstandard.get_frame_parameters(data)
                require(head.content_size == raw and head.has_checksum and not head.dict_id, *what)
                data = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
            except zstandard.ZstdError:
                raise Broken(*what) from None
            require(len(data) == raw, *what)
            pieces.append(np.frombuffer(data, "u1").reshape(size, self.chunk).T.ravel())
        return np.concatenate(pieces)[:self.bytes]

    def elements(self):
        """The tensor's elements as bytes, the base applied."""
        if self.value is None:
            value = self.decode()
            if self.base:
                value = value ^ self.parent().elements().view("u1")
            require(digest(value) == self.hash, "dataset-hash", self.unit.path, self.path)
            self.value = value.view(self.numpy)
        return self.value

    def parent(self):
        where = "parent", self.unit.path, self.path
        require(self.base[0] in self.unit.dump.paths, *where)
        unit = self.unit.dump.unit(self.base[0])
        found = [d for d in unit.datasets if d.name == self.name and d.hash == self.base[1]]
        require(found and (found[0].dtype, found[0].dims) == (self.dtype, self.dims), *where)
        return found[0]

    def check_parent(self):
        base, depth = self, 0
        while base.base:
            base, depth = base.parent(), depth + 1
            require(depth <= 16, "parent", self.unit.path, self.path)


class Unit:
    def __init__(self, dump, record):
        self.dump, self.record, self.path = dump, record, record["path"]
        self.kind, last = self.path.split("/")[0], self.path.split("/")[-1][:-3]
        rank = re.fullmatch("rank(0|[1-9][0-9]*)(?:-part(0|[1-9][0-9]*))?", last)
        numbers = [int(n) for n in rank.groups() if n] if rank else []
        self.rank = numbers[0] if numbers and max(numbers) < 1 << 63 else 0
        data = self.read_file()
        require(data[:9] == b"\x89HDF\r\n\x1a\n\3", "signature", self.path)
        with container(self.path):
            self.file = h5py.File(io.BytesIO(data), "r")
            self.found, self.odd, self.attributes, self.count = [], [], {}, 0
            self.addresses = {h5o.get_info(self.file.id).addr}
            self.scan(self.file.id, "", 1)
            self.check_space(len(data))
        self.check_container(len(data))

    def fail(self, held, rule, dataset=""):
        require(held, rule, self.path, dataset)

    def read_file(self):
        path = self.dump.folder / self.path
        self.fail(self.record["size"] <= 16 * GIB, "unit-limit")
        way = [p for p in [*path.parents][:self.path.count("/")] if os.path.lexists(p)]
        self.fail(os.path.lexists(path) or any(not p.is_dir() for p in way), "unit-missing")
        self.fail(all(stat.S_ISDIR(os.lstat(p).st_mode) for p in way), "unit-type")
        self.fail(stat.S_ISREG(os.lstat(path).st_mode), "unit-type")
        self.fail(path.stat().st_size == self.record["size"], "unit-size")
        data = path.read_bytes()
        self.fail(digest(data) == self.record["hash"], "unit-hash")
        return data

    def scan(self, group, path, level):
        """All objects, in the order of their paths: links, names, kinds, attributes as they are."""
        self.keep_attributes(group, path)
        names = []
        group.links.iterate(names.append)
        for name in sorted(names):
            shown = re.sub(rb"[^A-Za-z0-9._%-]", lambda m: b"%%%02X" % m[0][0], name).decode()
            inner = f"{path}/{shown}".lstrip("/")
            self.count += 1
            self.fail(self.count <= 200_000, "object-limit", inner)
            if group.links.get_info(name).type != h5l.TYPE_HARD:
                self.odd.append(inner)
                continue
            info, item = h5o.get_info(group, name), h5o.open(group, name)
            sound = re.fullmatch(rb"[A-Za-z0-9._%-]{1,255}", name) and name not in (b".", b"..")
            if not sound or info.addr in self.addresses:
                self.odd.append(inner)
                continue
            self.addresses.add(info.addr)
            if info.type == h5o.TYPE_GROUP:
                self.fail(level < 4, "object-limit", inner)
                self.scan(item, inner, level + 1)
            elif info.type == h5o.TYPE_DATASET and path:
                self.keep_attributes(item, inner)
                self.found.append(Dataset(self, inner, item))
            else:
                self.odd.append(inner)

    def keep_attributes(self, item, path):
        self.fail(h5a.get_num_attrs(item) <= 32, "object-limit", path)
        opened = [h5a.open(item, index=i) for i in range(h5a.get_num_attrs(item))]
        for one in opened:
            size = one.get_type().get_size() * one.get_space().get_simple_extent_npoints()
            self.fail(size <= 64 << 10, "object-limit", path)
        self.attributes[path] = {one.name.decode(): attribute(one) for one in opened}

    def check_space(self, size):
        """No two datasets or chunks share a byte of the file."""
        spans = sorted((c.byte_offset, c.byte_offset + c.size) for d in self.found for c in d.chunks)
        spans += [(d.id.get_offset(), d.id.get_offset() + d.stored) for d in self.found
                  if d.id.get_offset() is not None and not d.chunks]
        spans.sort()
        if any(end > after for (_, end), (after, _) in zip(spans, spans[1:])):
            raise ValueError("bytes of two datasets")

    def check_container(self, end):
        """The rules of a unit from `object` to `content`, each over the whole unit."""
        for path in sorted(self.odd, key=str.encode):
            self.fail(False, "object", path)
        self.datasets = sorted(self.found, key=lambda d: d.path.encode())
        root = self.attributes[""]
        self.fail(root.get("format") == "rlreplay" and root.get("unit") == self.path
                  and None not in root.values()
                  and re.fullmatch(r"0*[01]\.[0-9]{1,9}", root.get("version") or ""), "attribute")
        for path, found in sorted(self.attributes.items()):
            dataset = next((d for d in self.datasets if d.path == path), None)
            self.fail(dataset.check_attributes(found) if dataset else not (path and found), "attribute", path)
        for rule, held in (("element", Dataset.check_element), ("shape", Dataset.check_shape),
                           ("layout", Dataset.check_layout)):
            for d in self.datasets:
                self.fail(held(d), rule, d.path)
        total = 0
        for d in self.datasets:
            total += d.bytes
            self.fail(total <= min(self.record["logical"], 1 << 40) and d.bytes <= 64 * GIB,
                      "data-limit", d.path)
        for d in self.datasets:
            self.fail(d.check_chunks(end), "chunk", d.path)
        rows = [f"{d.path} {d.dtype} {','.join(map(str, d.dims))} {d.hash}{d.more_text()}"
                for d in self.datasets]
        self.fail(hash_of_lines(["rlreplay content", *rows]) == self.record["content"], "content")
        self.fail(total == self.record["logical"], "content")
        self.fail(sorted({d.group for d in self.datasets}) == self.record["groups"], "content")

    def group(self, name):
        return {d.name: d for d in self.datasets if d.group == name}

    def check_values(self):
        bases = {}
        for d in self.datasets:
            d.check_parent()
            if d.base:
                self.fail(bases.setdefault(d.group, d.base[0]) == d.base[0], "parent", d.path)
        for d in self.datasets:
            d.elements()
        for name in self.record["groups"]:
            check_meaning(self, self.group(name))
        said = self.record.get("counts", {})
        for name in filter(said.get, self.record["groups"]):
            self.fail(counts_of(self.kind, self.group(name)) == said[name], "content", name)
        said = self.record.get("group_contents", {})
        for name in filter(said.get, self.record["groups"]):
            self.fail(group_content([(self, self.group(name))]) == said[name], "content", name)
