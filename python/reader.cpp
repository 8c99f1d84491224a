#include "python/reader.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "format/columns.h"
#include "format/dump_reader.h"
#include "format/meaning.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"

namespace {

using namespace rlreplay;
using format::DumpReader;
using format::UnitReader;

/// Null where there is no memory for it.
char* error_text(const Error& error) {
  const Breach breach = error.breach().value_or(Breach{});
  JsonLine line;
  line.integer("code", static_cast<int>(error.code()))
      .text("kind", to_string(error.code()))
      .text("rule", breach.rule)
      .text("where", error.where())
      .text("dataset", breach.dataset)
      .text("message", error.what());
  if (breach.offset) line.integer("offset", static_cast<int64_t>(*breach.offset));
  return strdup(line.str().c_str());
}

/// What `work` gives, or `failed` where it throws: no exception leaves the library.
template <class T, class Work>
T guarded(char** error, T failed, const Work& work) noexcept {
  *error = nullptr;
  try {
    try {
      return work();
    } catch (const Error& e) {
      *error = error_text(e);
    } catch (const std::bad_alloc&) {
      *error = error_text({ErrorCode::kEnvironment, "there is not enough memory"});
    } catch (const std::exception& e) {
      *error = error_text({ErrorCode::kInternal, e.what()});
    }
  } catch (...) {  // no memory for the words
  }
  return failed;
}

std::string list(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ",") + item;
  return "[" + out + "]";
}

std::string unit_text(const format::UnitRecord& unit) {
  return JsonLine()
      .text("path", unit.path)
      .text("kind", format::kind_of(unit.path))
      .integer("rank", format::rank_of(unit.path))
      .integer("size", static_cast<int64_t>(unit.size))
      .json("groups", json_list(unit.groups))
      .str();
}

std::string dump_text(const DumpReader& dump) {
  std::vector<std::string> units;
  for (const format::UnitRecord& unit : dump.units()) units.push_back(unit_text(unit));
  return JsonLine()
      .text("version", dump.version())
      .boolean("sealed", dump.sealed())
      .boolean("complete", dump.complete())
      .text("root", dump.root().hex())
      .json("meta", dump.meta())
      .json("unstable", dump.unstable())
      .json("units", list(units))
      .str();
}

/// The tables' shape, "S" or "T M E", of a dataset that they know.
std::string_view known_shape(std::string_view kind, std::string_view path) {
  const format::KnownDataset* known = format::find_known(kind, path.substr(path.find('/') + 1));
  return known == nullptr ? "" : known->shape;
}

std::string dataset_text(std::string_view kind, const format::StoredDataset& dataset) {
  std::vector<std::string> shape;
  for (const uint64_t n : dataset.shape) shape.push_back(std::to_string(n));
  JsonLine out;
  out.text("path", dataset.path)
      .text("dtype", to_string(dataset.dtype))
      .json("shape", list(shape))
      .integer("bytes", static_cast<int64_t>(dataset.bytes))
      .text("axes", known_shape(kind, dataset.path));
  if (const auto columns = dataset.attributes.find("columns");
      columns != dataset.attributes.end()) {
    out.text("columns", std::get<std::string>(columns->second));
  }
  return out.str();
}

std::string datasets_text(const UnitReader& unit) {
  const std::string_view kind = format::kind_of(unit.record().path);
  std::vector<std::string> out;
  for (const format::StoredDataset& d : unit.datasets()) out.push_back(dataset_text(kind, d));
  return list(out);
}

}  // namespace

struct rlreplay_dump {
  DumpReader reader;
  std::string text;
};

struct rlreplay_unit {
  const DumpReader& dump;
  UnitReader reader;
  std::string text;
};

void rlreplay_free(char* error) { std::free(error); }

rlreplay_dump* rlreplay_open(const char* path, char** error) {
  return guarded<rlreplay_dump*>(error, nullptr, [&] {
    DumpReader reader = DumpReader::open(path);
    std::string text = dump_text(reader);
    return new rlreplay_dump{std::move(reader), std::move(text)};
  });
}

void rlreplay_close(rlreplay_dump* dump) { delete dump; }

const char* rlreplay_dump_text(const rlreplay_dump* dump) { return dump->text.c_str(); }

rlreplay_unit* rlreplay_open_unit(const rlreplay_dump* dump, const char* path, char** error) {
  return guarded<rlreplay_unit*>(error, nullptr, [&] {
    const format::UnitRecord* record = dump->reader.find(path);
    if (record == nullptr) throw Error(ErrorCode::kUsage, "the dump has no such unit", path);
    UnitReader unit = dump->reader.open_unit(*record);
    std::vector<format::Problem> problems;
    check_meaning(unit, problems);
    if (!problems.empty()) {
      const format::Problem& p = problems.front();
      throw format::FormatError(p.rule, p.message, p.path, p.dataset, p.offset);
    }
    std::string text = datasets_text(unit);
    return new rlreplay_unit{dump->reader, std::move(unit), std::move(text)};
  });
}

void rlreplay_close_unit(rlreplay_unit* unit) { delete unit; }

const char* rlreplay_unit_text(const rlreplay_unit* unit) { return unit->text.c_str(); }

bool rlreplay_read(const rlreplay_unit* unit, const char* dataset, void* out, uint64_t bytes,
                   char** error) {
  return guarded(error, false, [&] {
    const format::StoredDataset* stored = unit->reader.find(dataset);
    if (stored == nullptr) throw Error(ErrorCode::kUsage, "the unit has no such dataset", dataset);
    if (stored->bytes != bytes) {
      throw Error(ErrorCode::kUsage,
                  "the dataset has " + std::to_string(stored->bytes) + " bytes, not " +
                      std::to_string(bytes),
                  dataset);
    }
    if (!stored->base) {
      unit->reader.read(*stored, {static_cast<std::byte*>(out), bytes});
      return true;
    }
    const Buffer<std::byte> decoded = unit->dump.read(unit->reader, *stored);
    std::memcpy(out, decoded.data(), decoded.size());
    return true;
  });
}
