#pragma once

#include <cstdint>

/// What the Python package calls, by ctypes: plain C, so that one library serves every Python.
/// A call that fails gives null or false, and rlreplay_error says why. Texts are UTF-8 and belong
/// to what gave them.
extern "C" {

struct rlreplay_dump;
struct rlreplay_unit;

/// Of the thread's last call that failed, as a JSON object: code, rule, where, message.
const char* rlreplay_error();

/// Checks manifest and journal; no unit is touched yet.
rlreplay_dump* rlreplay_open(const char* path);
void rlreplay_close(rlreplay_dump* dump);

/// What manifest or journal say, as a JSON object.
const char* rlreplay_dump_text(const rlreplay_dump* dump);

/// Checks a unit's bytes, form and meaning. Must be closed before its dump.
rlreplay_unit* rlreplay_open_unit(const rlreplay_dump* dump, const char* path);
void rlreplay_close_unit(rlreplay_unit* unit);

/// The datasets of a unit, as a JSON list of objects.
const char* rlreplay_unit_text(const rlreplay_unit* unit);

/// Decodes a whole dataset into `out`, of exactly `bytes` bytes, and checks its hash.
bool rlreplay_read(const rlreplay_unit* unit, const char* dataset, void* out, uint64_t bytes);
}
