"""The reader of dumps that the programs have, as a library of C functions (python/reader.h)."""
import ctypes
import json
import os
import pathlib

import numpy

# dtypes that numpy has; the others come as their bits (torch() gives them their own types).
NUMPY = {"bool": "?", "i8": "i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "u1", "u16": "<u2",
         "u32": "<u4", "u64": "<u8", "f16": "<f2", "f32": "<f4", "f64": "<f8",
         "bf16": "<u2", "f8e4m3": "u1", "f8e5m2": "u1", "e8m0": "u1"}

_ERROR = ctypes.POINTER(ctypes.c_void_p)
_SIGNATURES = {
    "rlreplay_free": (None, [ctypes.c_void_p]),
    "rlreplay_open": (ctypes.c_void_p, [ctypes.c_char_p, _ERROR]),
    "rlreplay_close": (None, [ctypes.c_void_p]),
    "rlreplay_dump_text": (ctypes.c_char_p, [ctypes.c_void_p]),
    "rlreplay_open_unit": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, _ERROR]),
    "rlreplay_close_unit": (None, [ctypes.c_void_p]),
    "rlreplay_unit_text": (ctypes.c_char_p, [ctypes.c_void_p]),
    "rlreplay_read": (ctypes.c_bool, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p,
                                      ctypes.c_uint64, _ERROR]),
}


def _load():
    path = os.environ.get("RLREPLAY_READER") or pathlib.Path(__file__).with_name("librlreplay_reader.so")
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


class DumpError(Exception):
    """A dump that is not what it says, or that this version does not know.

    `kind` as the programs name it ("corrupt"), `rule` of format/SPEC.md where one is broken, `where`: a
    path below the dump, and a dataset; `dataset` alone, and `offset`: the byte at which what breaks the
    rule begins. "" and None where none is known.
    """

    def __init__(self, text):
        error = json.loads(text or '{"message": "an error without words"}')
        self.kind, self.rule = error.get("kind", ""), error.get("rule", "")
        self.where, self.message = error.get("where", ""), error["message"]
        self.dataset, self.offset = error.get("dataset", ""), error.get("offset")
        super().__init__(f"{self.where}: {self.message}" if self.where else self.message)


def _checked(function, *arguments):
    """What a function of the library gives that can fail. Errors: DumpError."""
    error = ctypes.c_void_p()
    given = function(*arguments, ctypes.byref(error))
    if given:
        return given
    text = ctypes.string_at(error).decode() if error else ""
    _library.rlreplay_free(error)
    raise DumpError(text)


class Unit:
    """One file of a dump, its bytes in memory."""

    def __init__(self, dump, path):
        self._dump = dump  # lives as long as this
        self._handle = _checked(_library.rlreplay_open_unit, dump.handle, path.encode())
        text = _library.rlreplay_unit_text(self._handle).decode()
        self.datasets = {d["path"]: d for d in json.loads(text)}

    def read(self, path):
        found = self.datasets[path]
        out = numpy.empty(found["shape"], dtype=NUMPY[found["dtype"]])
        place = out.ctypes.data_as(ctypes.c_void_p)
        _checked(_library.rlreplay_read, self._handle, path.encode(), place, out.nbytes)
        return out

    def __del__(self):
        if getattr(self, "_handle", None):
            _library.rlreplay_close_unit(self._handle)


class Reader:
    """An open dump: what its manifest says, and its units."""

    def __init__(self, path):
        self.handle = None
        self.handle = _checked(_library.rlreplay_open, os.fsencode(path))
        self.about = json.loads(_library.rlreplay_dump_text(self.handle).decode())

    def unit(self, path):
        return Unit(self, path)

    def __del__(self):
        if self.handle:
            _library.rlreplay_close(self.handle)
