#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "format/dump_reader.h"
#include "format/rule.h"
#include "tests/format/support.h"

/// Units in the hands of other readers, and files that other writers made.
using namespace rlreplay;
using namespace rlreplay::format;
using namespace rlreplay::format::test;

namespace {

namespace fs = std::filesystem;

const char* const kScript = RLREPLAY_SOURCE "/tests/format/interop.py";

bool runs(const std::string& command) { return std::system(command.c_str()) == 0; }

/// The interpreter that has h5py and hdf5plugin, or nothing.
std::string python() {
  const char* given = std::getenv("RLREPLAY_PYTHON");
  const std::string path = given != nullptr ? given : "python3";
  if (runs(path + " -c 'import h5py, hdf5plugin, xxhash' 2>/dev/null")) return path;
  std::cout << "skipped: no Python with h5py and hdf5plugin (RLREPLAY_PYTHON names one)\n";
  return {};
}

bool is_sanitized(const char* program) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::cout << "skipped: " << program << " cannot load a plugin that is built with a sanitizer\n";
  return true;
#else
  return program == nullptr;
#endif
}

std::vector<Dataset> datasets() {
  Random random(21);
  std::vector<Dataset> all;
  for (const DType dtype : kAllDTypes) {
    const std::string name(to_string(dtype));
    all.push_back(dataset("0/" + name + "/few", dtype, {3, 5}, random));
    all.push_back(dataset("0/" + name + "/many", dtype, {700, 333}, random));
    all.push_back(dataset("0/" + name + "/none", dtype, {0, 3}, random));
  }
  std::vector<int32_t> tokens(4096);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random.below(1000));
  all.push_back(dataset_of("0/tokens", DType::kI32, {4096}, tokens));
  return all;
}

EncodedUnit encode(const std::vector<Dataset>& all) {
  ThreadPool pool(2);
  Packing packing;
  packing.chunk_bytes = 256 << 10;
  UnitWriter writer("rollout/0.h5", pool, packing);
  for (const Dataset& d : all) writer.add(d);
  return writer.finish();
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string rule_of(const std::string& bytes, const UnitRecord& sound) {
  UnitRecord record = sound;
  record.size = bytes.size();
  record.hash = hash_of(bytes);
  ThreadPool pool(1);
  try {
    const UnitReader reader =
        UnitReader::open(copy_of(std::as_bytes(std::span<const char>(bytes))), record, pool);
    for (const StoredDataset& d : reader.datasets()) {
      std::vector<std::byte> out(d.bytes);
      reader.read(d, out);
    }
    return "nothing";
  } catch (const FormatError& e) {
    CHECK_FALSE(std::string(e.what()).empty());
    return std::string(to_string(e.rule()));
  }
}

}  // namespace

TEST_CASE("h5py with hdf5plugin reads equal values") {
  const std::string interpreter = python();
  if (interpreter.empty()) return;
  TemporaryFolder folder;
  const auto all = datasets();
  write_text(folder / "unit.h5", text_of(encode(all).image.bytes()));
  fs::create_directory(folder / "values");
  for (const Dataset& d : all) {
    std::string name = d.path;
    std::replace(name.begin(), name.end(), '/', '_');
    write_text(folder / ("values/" + name), text_of(d.bytes));
  }
  CHECK(runs(interpreter + " " + kScript + " compare " + folder / "unit.h5" + " " +
             folder / "values"));
}

TEST_CASE("hostile units with a sound hash are refused by the rule that they break") {
  const std::string interpreter = python();
  if (interpreter.empty()) return;
  TemporaryFolder folder;
  Random random(22);
  const EncodedUnit sound = encode({dataset("0/tokens", DType::kI32, {4096}, random)});
  write_text(folder / "sound.h5", text_of(sound.image.bytes()));
  fs::create_directory(folder / "hostile");
  REQUIRE(runs(interpreter + " " + kScript + " hostile " + folder / "sound.h5" + " " +
               folder / "hostile"));
  CHECK(rule_of(text_of(sound.image.bytes()), sound.record) == "nothing");
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "hostile")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".h5")) continue;
    ++files;
    CAPTURE(name);
    CHECK(rule_of(read_text(entry.path().string()), sound.record) ==
          name.substr(0, name.find('.')));
  }
  CHECK(files > 40);
}

TEST_CASE("units of another writer are read as h5py wrote them") {
  if (is_sanitized("h5py")) return;
  const std::string interpreter = python();
  if (interpreter.empty()) return;
  TemporaryFolder folder;
  fs::create_directory(folder / "values");
  fs::create_directory(folder / "units");
  REQUIRE(runs("HDF5_PLUGIN_PATH=" RLREPLAY_PLUGINS " " + interpreter + " " + kScript +
               " strange " + folder / "units" + " " + folder / "values"));
  ThreadPool pool(2);
  int units = 0;
  for (const auto& entry : fs::directory_iterator(folder / "units")) {
    if (entry.path().extension() != ".txt") continue;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const std::string bytes = read_text(folder / ("units/" + name + ".h5"));
    std::istringstream said(read_text(entry.path().string()));
    UnitRecord record{"rollout/0.h5", bytes.size(), 0, hash_of(bytes), {}, {"0"}};
    std::string content;
    said >> content >> record.logical;
    record.content = Hash::from_hex(content).value();
    const UnitReader reader =
        UnitReader::open(copy_of(std::as_bytes(std::span<const char>(bytes))), record, pool);
    size_t files = 0;
    for (const auto& value : fs::directory_iterator(folder / ("values/" + name))) {
      files += value.is_regular_file();
    }
    CHECK(reader.datasets().size() == files);
    for (const StoredDataset& d : reader.datasets()) {
      std::string path = d.path;
      std::replace(path.begin(), path.end(), '/', '_');
      std::vector<std::byte> out(d.bytes);
      reader.read(d, out);
      CHECK(text_of(out) == read_text(folder / ("values/" + name + "/" + path)));
    }
    ++units;
  }
  CHECK(units == 5);
}

TEST_CASE("h5py reads golden dumps as this reader does") {
  const std::string interpreter = python();
  if (interpreter.empty()) return;
  TemporaryFolder folder;
  std::string listing, command = interpreter + " " + kScript + " golden " + folder / "listing";
  for (const char* version : {"0.1", "0.9", "1.0"}) {
    const std::string path = std::string(RLREPLAY_SOURCE "/tests/golden/dumps/") + version;
    const DumpReader dump = DumpReader::open(path);
    for (const UnitRecord& record : dump.units()) {
      const std::string file = path + "/" + record.path;
      command += " " + file;
      const UnitReader unit = dump.open_unit(record);
      for (const StoredDataset& d : unit.datasets()) {
        std::string dims;
        for (const uint64_t n : d.shape) dims += (dims.empty() ? "" : ",") + std::to_string(n);
        listing += file + " " + d.path + " " + std::string(to_string(d.dtype)) + " " + dims + " " +
                   d.hash.hex() + "\n";
      }
    }
  }
  write_text(folder / "listing", listing);
  CHECK(runs(command));
}

TEST_CASE("h5dump reads with the project's own plugin") {
  if (is_sanitized("h5dump")) return;
  if (!runs("h5dump --version >/dev/null 2>&1")) {
    std::cout << "skipped: no h5dump\n";
    return;
  }
  TemporaryFolder folder;
  std::vector<int32_t> tokens(5000);
  std::string want;
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i * i);
    want += std::to_string(tokens[i]) + "\n";
  }
  write_text(folder / "unit.h5",
             text_of(encode({dataset_of("0/tokens", DType::kI32, {5000}, tokens)}).image.bytes()));
  const std::string out = folder / "out";
  REQUIRE(runs("HDF5_PLUGIN_PATH=" RLREPLAY_PLUGINS " h5dump -d /0/tokens -y -w 1 -o " + out + " " +
               folder / "unit.h5" + " >/dev/null"));
  std::string got = read_text(out);
  got.erase(std::remove_if(got.begin(), got.end(), [](char c) { return c == ' ' || c == ','; }),
            got.end());
  while (got.starts_with('\n')) got.erase(0, 1);
  if (!got.ends_with('\n')) got += '\n';
  CHECK(got == want);
}
