#include "tests/format/forge.h"

#include <algorithm>
#include <filesystem>

#include "format/canonical.h"
#include "format/codec.h"
#include "format/manifest.h"
#include "format/record.h"
#include "format/shuffle.h"

namespace rlreplay::format::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kElements = 3000, kChunk = 1024;
constexpr char kForgedMeta[] = R"({"ranks":1})";
const Hash kOther{1, 2};

std::vector<std::byte> elements(uint64_t seed) {
  Random random(seed);
  return values(random, 2 * kElements);
}

/// The stored form of chunk `index`.
std::vector<std::byte> frame_of(std::span<const std::byte> all, uint64_t index, bool shuffled) {
  std::vector<std::byte> chunk(2 * kChunk), planes(2 * kChunk);
  const auto part = all.subspan(index * chunk.size());
  std::copy_n(part.begin(), std::min(part.size(), chunk.size()), chunk.begin());
  if (shuffled) shuffle(chunk, 2, planes);
  std::vector<std::byte> frame(frame_bound(chunk.size()));
  frame.resize(ChunkEncoder(1).encode(shuffled ? planes : chunk, frame));
  return frame;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

h5::Attributes attributes_of(const StoredDataset& d) {
  h5::Attributes all = d.attributes;
  all["dtype"] = std::string(to_string(d.dtype));
  all["shape"] = d.shape;
  all["hash"] = d.hash.hex();
  all["encoding"] = std::string(d.base ? "xor" : "plain");
  if (d.base) {
    all["base_unit"] = d.base->unit;
    all["base_hash"] = d.base->hash.hex();
  }
  return all;
}

void begin_unit(h5::Builder& file, const std::string& path) {
  file.root_attribute("format", std::string(kFormat));
  file.root_attribute("version", this_version());
  file.root_attribute("unit", path);
}

constexpr h5::Layout kSmall = {{h5::Element::Kind::kUnsigned, 1}, 0, 0, false};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == text.npos) std::abort();
  return text.replace(at, from.size(), to);
}

}  // namespace

Forge::Unit Forge::sound_unit(const std::string& path, const std::string& group) const {
  ThreadPool pool(1);
  UnitWriter writer(path, pool);
  writer.add(dataset_of(group + "/parameters/w", DType::kU16, {kElements}, elements(1)));
  const EncodedUnit unit = writer.finish();
  return {unit.record, text_of(unit.image.bytes())};
}

/// A block of [2 * elements] that is half of it; of 0.1's attributes where that is what is broken.
h5::Attributes Forge::part_of(uint64_t elements) const {
  if (cut_ == Cut::kOldShard) {
    const uint64_t start = cuts(Cut::kOldShard) ? elements + 1 : 0;
    return {{"full_shape", std::vector<uint64_t>{2 * elements}},
            {"start", std::vector<uint64_t>{start}}};
  }
  // The first half twice, or all of it in two boxes.
  const uint64_t half = elements / 2, whole = cuts(Cut::kGap) ? elements + 1 : elements;
  std::vector<uint64_t> numbers = {0, half, whole, half, elements - half, whole};
  if (cuts(Cut::kContradiction)) numbers = {0, half, half, 0, elements - half, half};
  std::string tensors = "parameters/v\nparameters/v";
  if (cuts(Cut::kBeyond)) numbers[3] += 1;
  if (cuts(Cut::kElements)) numbers[1] -= 1;
  if (cuts(Cut::kNumbers)) numbers.pop_back();
  if (cuts(Cut::kTensorName)) tensors = "parameters//v\nparameters/v";
  if (cuts(Cut::kTable)) tensors = "scalars\nscalars";
  h5::Attributes out;
  if (!cuts(Cut::kTensorsAlone)) out["boxes"] = numbers;
  if (!cuts(Cut::kBoxesAlone)) out["tensors"] = tensors;
  return out;
}

Forge::Unit Forge::sliced_unit() const {
  ThreadPool pool(1);
  UnitWriter writer("train/1-0/rank0.h5", pool);
  const auto add = [&](const char* name, std::vector<uint64_t> shape, std::vector<uint64_t> of) {
    writer.add(
        dataset_of(std::string("1-0/") + name, DType::kU64, std::move(shape), std::move(of)));
  };
  add("sample_id", {1}, {5});
  add("offsets", {2}, {0, 4});
  add("slice_offsets", {2}, {0, 2});
  add("slices", {2, 2},
      {0, 2, cuts(Cut::kSlicesBeyond) ? uint64_t{7} : 6,
       cuts(Cut::kSliceTokens) ? uint64_t{1} : 2});
  if (!cuts(Cut::kSlicesAlone)) add("lengths", {1}, {8});
  const EncodedUnit unit = writer.finish();
  return {unit.record, text_of(unit.image.bytes())};
}

/// Holds tensors `u` and `v`, and `w`, the difference to the sound unit's.
Forge::Unit Forge::broken_unit() const {
  const std::string path = "weights/1-0/rank0.h5";
  const std::vector<std::byte> u(5), v = elements(2), w = elements(3), base = elements(1);
  std::vector<std::byte> difference = w;
  xor_into(difference, base);
  StoredDataset su{"1-0/parameters/u", DType::kU8, {u.size()}, hash_of(u), {}, {}, u.size()};
  StoredDataset sv{"1-0/parameters/v", DType::kU16, {kElements}, hash_of(v), {}, {}, v.size()};
  StoredDataset sw{"1-0/parameters/w", DType::kU16, {kElements}, hash_of(w), {}, {}, w.size()};
  sw.base = Base{"weights/0-0/rank0.h5", breaks(Rule::kParent) ? kOther : hash_of(base)};
  sv.attributes = part_of(kElements);
  if (breaks(Rule::kShape)) sv.shape = {kElements + 1};
  if (breaks(Rule::kDatasetHash)) su.hash = sv.hash = kOther;

  const std::vector<uint32_t> rank = {0, 1, cuts(Cut::kCoordinates) ? 2u : 1u, 2, 0, 1, 0, 1, 0, 1};
  const auto coordinates = std::as_bytes(std::span(rank));
  StoredDataset sc{"1-0/coordinates",
                   cuts(Cut::kCoordinateType) ? DType::kI32 : DType::kU32,
                   {5, 2},
                   hash_of(coordinates),
                   {},
                   {},
                   coordinates.size()};

  MemorySink memory;
  h5::Builder file(1, memory);
  begin_unit(file, path);
  file.begin(su.path, {{h5::Element::Kind::kUnsigned, 1}, u.size(), 0, false}, attributes_of(su));
  file.write(u);
  const bool other_type = breaks(Rule::kElement), shuffled = !breaks(Rule::kLayout);
  using Kind = h5::Element::Kind;
  h5::Layout layout{{other_type ? Kind::kSigned : Kind::kUnsigned, 2}, kElements, kChunk, shuffled};
  h5::Attributes attributes = attributes_of(sv);
  if (breaks(Rule::kAttribute)) attributes.erase("encoding");
  file.begin(sv.path, layout, attributes);
  for (uint64_t i = 0; i < layout.chunks(); ++i) {
    if (breaks(Rule::kChunk) && i == 1) continue;
    std::vector<std::byte> frame = frame_of(v, i, shuffled);
    if (breaks(Rule::kFrame) && i == 0) frame[frame.size() - 6] ^= std::byte{1};
    file.write_chunk(i, frame);
  }
  layout = {{Kind::kUnsigned, 2}, kElements, kChunk, true};
  file.begin(sw.path, layout, attributes_of(sw));
  for (uint64_t i = 0; i < layout.chunks(); ++i) file.write_chunk(i, frame_of(difference, i, true));
  if (breaks(Rule::kObjectLimit)) file.begin("1-0/a/b/c/d/e", kSmall, {});
  if (breaks(Rule::kObject)) {
    StoredDataset odd{"1-0/x y", DType::kU8, {0}, hash_of(std::string_view()), {}, {}, 0};
    file.begin(odd.path, kSmall, attributes_of(odd));
  }
  const auto number = sc.dtype == DType::kI32 ? Kind::kSigned : Kind::kUnsigned;
  file.begin(sc.path, {{number, 4}, rank.size(), 0, false}, attributes_of(sc));
  file.write(coordinates);
  file.finish();
  std::string bytes = text_of(memory.bytes());
  if (breaks(Rule::kContainer)) bytes[44] ^= 1;
  if (breaks(Rule::kSignature)) bytes[8] = 2;

  UnitRecord record{path,           bytes.size(), u.size() + v.size() + w.size() + sc.bytes,
                    hash_of(bytes), {},           {"1-0"}};
  if (breaks(Rule::kDataLimit)) record.logical -= 1;
  record.content = breaks(Rule::kContent) ? kOther : content_of({sc, su, sv, sw});
  return {record, bytes};
}

std::vector<Forge::Unit> Forge::units() const {
  std::vector<Unit> out = {sound_unit("weights/0-0/rank0.h5", "0-0"), broken_unit(),
                           sound_unit("weights/2-0/rank0.h5", "2-0")};
  if (is_of_slices(cut_)) out.insert(out.begin(), sliced_unit());
  return out;
}

void Forge::put_unit(const std::string& path, const Unit& unit) const {
  const std::string place = path + "/" + unit.record.path;
  fs::create_directories(fs::path(place).parent_path());
  const bool target = unit.record.path == "weights/1-0/rank0.h5";
  if (target && breaks(Rule::kUnitMissing)) return;
  if (target && breaks(Rule::kUnitType)) {
    fs::create_directory(place);
    return;
  }
  std::string bytes = unit.bytes;
  if (target && breaks(Rule::kUnitHash)) bytes[bytes.size() / 2] ^= 1;
  if (target && breaks(Rule::kUnitSize)) bytes += 'x';
  write_text(place, bytes);
}

/// Rules of a record's first keys, broken in its canonical text.
std::string Forge::header(const std::string& text) const {
  std::string out = text;
  if (breaks(Rule::kFormatName)) out = replaced(out, R"("rlreplay")", R"("other")");
  if (breaks(Rule::kVersion))
    out = replaced(out, "\"major\":" + std::to_string(kMajor), R"("major":7)");
  if (breaks(Rule::kMustUnderstand)) {
    out = replaced(out, R"("must_understand":[])", R"("must_understand":["ternary"])");
  }
  return out;
}

std::string Forge::record(std::string body) const {
  if (breaks(Rule::kRecordForm)) body.insert(1, " ");
  std::string line = record_line(body);
  if (breaks(Rule::kRecordHash)) line[line.size() - 4] = line[line.size() - 4] == '0' ? '1' : '0';
  if (breaks(Rule::kRecordSyntax)) line.erase(line.size() - 2, 1);
  return line;
}

std::string Forge::index(const std::vector<Unit>& units) const {
  std::vector<UnitRecord> records;
  for (const Unit& unit : units) {
    records.push_back(unit.record);
    if (breaks(Rule::kDuplicate)) records.push_back(unit.record);
  }
  if (breaks(Rule::kUnitPath)) records.front().path = "other/0.h5";
  std::vector<const UnitRecord*> sorted;
  for (const UnitRecord& record : records) sorted.push_back(&record);
  const Buffer<std::byte> bytes = UnitIndex::encode(sorted);
  std::string text = text_of({bytes.data(), bytes.size()});
  if (breaks(Rule::kIndexForm)) text[56] = 1;  // of what is zero in the header
  return text;
}

std::string Forge::manifest(const std::vector<Unit>& units, const std::string& journal,
                            const std::string& index) const {
  std::vector<const UnitRecord*> records;
  for (const Unit& unit : units) records.push_back(&unit.record);
  const Hash root = UnitIndex::parse(UnitIndex::encode(records)).root(kForgedMeta);
  const size_t copies = breaks(Rule::kDuplicate) ? 2 : 1;
  const std::string table =
      JsonObject()
          .text("hash", hash_of(index).hex())
          .number("size", index.size())
          .number("units", breaks(Rule::kUnitCount) ? kMaxUnits + 1 : copies * units.size())
          .str();
  JsonObject body;
  put_header(body);
  if (!breaks(Rule::kSchema)) body.boolean("complete", true);
  const std::string named = JsonObject()
                                .boolean("ended", true)
                                .number("size", journal.size())
                                .text("hash", hash_of(journal).hex())
                                .text("writer", "0")
                                .str();
  body.json("index", table)
      .json("journals", json_array({named}))
      .json("meta", kForgedMeta)
      .text("root", (breaks(Rule::kRoot) ? kOther : root).hex())
      .json("unstable", "{}");
  return record(header(body.str()));
}

namespace {

void put_journal(const std::string& path, const std::string& text) {
  fs::create_directory(path + "/journal");
  write_text(path + "/journal/0.jsonl", text);
}

}  // namespace

void Forge::write_sealed(const std::string& path) const {
  fs::create_directory(path);
  const std::vector<Unit> all = units();
  for (const Unit& unit : all) put_unit(path, unit);
  const std::string journal = "of no interest to a sealed dump but for its hash\n";
  if (breaks(Rule::kUnlisted)) write_text(path + "/notes.txt", "mine");
  if (breaks(Rule::kNotADump)) return;
  put_journal(path, breaks(Rule::kJournal) ? "other\n" : journal);
  if (breaks(Rule::kManifestMissing)) return;
  const std::string name = path + "/manifest.json";
  const std::string table = index(all);
  write_text(path + "/units.index", breaks(Rule::kIndex) ? table + "x" : table);
  write_text(name, manifest(all, journal, table));
  if (breaks(Rule::kFileSize)) fs::resize_file(name, kMaxManifestBytes + 1);
  if (breaks(Rule::kFileType)) {
    fs::rename(name, path + "/manifest.txt");
    fs::create_symlink("manifest.txt", name);
  }
}

void Forge::write_unfinished(const std::string& path) const {
  fs::create_directory(path);
  write_text(path + "/INCOMPLETE", "");
  JsonObject first;
  put_header(first);
  std::string text = header(first.number("line", 0)
                                .json("meta", kForgedMeta)
                                .text("writer", breaks(Rule::kWriter) ? "1" : "0")
                                .str());
  std::string journal = record_line(text);
  uint64_t line = 1;
  for (const Unit& unit : units()) {
    put_unit(path, unit);
    UnitRecord known = unit.record;
    const bool last = known.groups[0] == "2-0";
    // The earlier rules in the later lines.
    if (breaks(Rule::kDuplicate) && line == 2) known = units()[0].record;
    if (breaks(Rule::kUnitPath) && line == 2) known.path = "other/0.h5";
    const bool torn = breaks(Rule::kChain) && line == 1;
    JsonObject body;
    body.number("line", line++).text("previous", (torn ? kOther : hash_of(text)).hex());
    if (!last || !breaks(Rule::kSchema)) body.json("unit", unit_json(known));
    text = body.str();
    journal += last ? record(text) : record_line(text);
  }
  put_journal(path, journal);
}

}  // namespace rlreplay::format::test
