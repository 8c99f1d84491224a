#pragma once

#include <cstdint>

/// What the Python package calls, by ctypes: plain C, so that one library serves every Python.
/// A call that fails gives null or false and puts into `*error` why: a JSON object with code, kind,
/// rule, where, dataset, message and, where it is known, offset (a byte), which the caller gives
/// back to rlreplay_free; null where there was no memory for it. Other texts belong to what gave
/// them. All are UTF-8.
extern "C" {

struct rlreplay_dump;
struct rlreplay_unit;

void rlreplay_free(char* error);

/// Checks manifest and journal; no unit is touched yet.
[[nodiscard]] rlreplay_dump* rlreplay_open(const char* path, char** error);
void rlreplay_close(rlreplay_dump* dump);

/// What manifest or journal say, as a JSON object.
[[nodiscard]] const char* rlreplay_dump_text(const rlreplay_dump* dump);

/// Checks a unit's bytes, form and meaning. Must be closed before its dump.
[[nodiscard]] rlreplay_unit* rlreplay_open_unit(const rlreplay_dump* dump, const char* path,
                                                char** error);
void rlreplay_close_unit(rlreplay_unit* unit);

/// The datasets of a unit, as a JSON list of objects.
[[nodiscard]] const char* rlreplay_unit_text(const rlreplay_unit* unit);

/// Decodes a whole dataset into `out`, of exactly `bytes` bytes, and checks its hash.
[[nodiscard]] bool rlreplay_read(const rlreplay_unit* unit, const char* dataset, void* out,
                                 uint64_t bytes, char** error);
}
