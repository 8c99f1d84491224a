#include "format/dump_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "format/chain_reader.h"
#include "format/checked_image.h"
#include "format/folder.h"
#include "format/held_bytes.h"
#include "format/incomplete.h"
#include "format/journal.h"
#include "format/rule.h"
#include "src/base/allocation.h"

namespace rlreplay::format {
namespace {

std::span<const std::byte> bytes_of(const Buffer<std::byte>& buffer) {
  return {buffer.data(), buffer.size()};
}

/// The first byte of a journal's first damaged line; `whole` where all of its lines are sound.
uint64_t damage_of(std::span<const std::byte> journal, uint64_t whole) {
  try {
    static_cast<void>(parse_journal(journal));
  } catch (const FormatError& fault) {
    return fault.problem().offset.value_or(whole);
  }
  return whole;
}

/// The journal of a finished dump is not needed to read it, but a damaged one is a finding.
void check_journal(const std::optional<Buffer<std::byte>>& journal, const Manifest& manifest) {
  const std::string other = "the journal is not the one that the manifest names: ";
  if (!journal) throw FormatError(Rule::kJournal, other + "it is absent", kJournalName);
  const uint64_t size = journal->size(), expected = manifest.journal_size;
  const auto fault = [&](const std::string& found, const std::string& wanted) {
    return FormatError(Rule::kJournal, other + found + ", expected " + wanted, kJournalName, {},
                       damage_of(bytes_of(*journal), std::min(size, expected)));
  };
  if (size != expected) {
    throw fault("it has " + std::to_string(size) + " bytes", std::to_string(expected));
  }
  if (const Hash found = hash_of(bytes_of(*journal)); found != manifest.journal_hash) {
    throw fault("it hashes to " + found.hex(), manifest.journal_hash.hex());
  }
}

/// What is whole of a dump without manifest, in the form of one; nothing where it was sealed
/// meanwhile.
std::optional<Manifest> from_journal(const Folder& folder) {
  const auto bytes = folder.read(kJournalName, kMaxJournalBytes);
  if (!bytes) throw FormatError(Rule::kNotADump, "the folder holds no dump", folder.path());
  const bool began = std::ranges::find(bytes_of(*bytes), std::byte{'\n'}) != bytes_of(*bytes).end();
  if (!began) {  // the journal is made, then INCOMPLETE: whoever was killed between finished
                 // nothing
    throw FormatError(Rule::kNotADump, "the dump ended before it began: start anew", kJournalName);
  }
  if (!folder.exists(kIncompleteName)) {
    if (folder.exists(kManifestName)) return std::nullopt;
    throw FormatError(Rule::kManifestMissing, "the dump was finished, but its manifest is missing",
                      kManifestName);
  }
  Journal journal = parse_journal(bytes_of(*bytes));
  Manifest manifest;
  manifest.complete = false;
  manifest.version = journal.version;
  manifest.meta = std::move(journal.meta);
  manifest.unstable = find_incomplete(folder);
  manifest.units = std::move(journal.units);
  std::sort(manifest.units.begin(), manifest.units.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  manifest.root = root_of(manifest.meta, manifest.units);
  return manifest;
}

}  // namespace

struct DumpReader::State {
  State(Folder where, const ReaderOptions& how)
      : folder(std::move(where)), options(how), pool(how.threads) {}

  Folder folder;
  ReaderOptions options;
  mutable ThreadPool pool;
  std::shared_ptr<SpareBuffer> spare = std::make_shared<SpareBuffer>();
  Manifest manifest;
  bool sealed = false;
  /// The units of a kind that hold a group, in the order of ranks.
  std::map<std::pair<std::string, std::string>, std::vector<const UnitRecord*>> by_group;

  void find_groups() {
    for (const UnitRecord& unit : manifest.units) {
      for (const std::string& group : unit.groups) {
        auto& units = by_group[{std::string(kind_of(unit.path)), group}];
        if (units.empty() || units.back() != &unit) units.push_back(&unit);
      }
    }
    for (auto& [group, units] : by_group) {
      std::ranges::stable_sort(units, {}, [](const auto* unit) { return rank_of(unit->path); });
    }
  }
};

DumpReader::DumpReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
DumpReader::~DumpReader() = default;
DumpReader::DumpReader(DumpReader&&) noexcept = default;

DumpReader DumpReader::open(const std::string& path, const ReaderOptions& options) {
  auto state = std::make_unique<State>(Folder::open(path), options);
  const auto bytes = state->folder.read(kManifestName, kMaxManifestBytes);
  state->sealed = bytes.has_value();
  if (state->sealed) {
    const auto journal = state->folder.read(kJournalName, kMaxJournalBytes);
    state->manifest = parse_manifest(bytes_of(*bytes));
    check_journal(journal, state->manifest);
  } else {
    auto unfinished = from_journal(state->folder);
    if (!unfinished) return open(path, options);
    state->manifest = std::move(*unfinished);
  }
  state->find_groups();
  return DumpReader(std::move(state));
}

const ReaderOptions& DumpReader::options() const { return state_->options; }
bool DumpReader::sealed() const { return state_->sealed; }
bool DumpReader::complete() const { return state_->sealed && state_->manifest.complete; }
const std::string& DumpReader::version() const { return state_->manifest.version; }
const std::optional<DerivedFrom>& DumpReader::derived_from() const {
  return state_->manifest.derived_from;
}
const std::string& DumpReader::meta() const { return state_->manifest.meta; }
const std::string& DumpReader::unstable() const { return state_->manifest.unstable; }
Hash DumpReader::root() const { return state_->manifest.root; }
const std::vector<UnitRecord>& DumpReader::units() const { return state_->manifest.units; }

const UnitRecord* DumpReader::find(std::string_view path) const {
  const auto at = std::ranges::lower_bound(units(), path, {}, &UnitRecord::path);
  return at == units().end() || at->path != path ? nullptr : &*at;
}

std::vector<const UnitRecord*> DumpReader::find(std::string_view kind,
                                                std::string_view group) const {
  const auto found = state_->by_group.find({std::string(kind), std::string(group)});
  return found == state_->by_group.end() ? std::vector<const UnitRecord*>{} : found->second;
}

namespace {

/// What the folder says of any file, said of a unit.
FormatError of_unit(const FormatError& fault, const std::string& path) {
  const Rule rule = fault.rule() == Rule::kFileSize ? Rule::kUnitSize : Rule::kUnitType;
  return {rule, fault.what(), path, {}, fault.problem().offset};
}

}  // namespace

template <class Use>
auto DumpReader::with_file(const UnitRecord& unit, Use use) const {
  if (unit.size > state_->options.unit_bytes) {
    throw FormatError(Rule::kUnitLimit, "the unit is larger than this reader may take", unit.path);
  }
  try {
    const auto file = state_->folder.open_file(unit.path);
    if (!file) throw FormatError(Rule::kUnitMissing, "a unit is missing", unit.path);
    if (file->size != unit.size) {
      throw FormatError(
          Rule::kUnitSize,
          "the file has " + std::to_string(file->size) + " bytes, not " + std::to_string(unit.size),
          unit.path, {}, std::min(file->size, unit.size));
    }
    return use(*file);
  } catch (const FormatError& fault) {
    if (fault.rule() >= Rule::kUnitLimit) throw;
    throw of_unit(fault, unit.path);
  }
}

CheckedImage DumpReader::read_unit(const UnitRecord& unit) const {
  constexpr uint64_t kSmall = uint64_t{256} << 20;  // not worth the question
  if (unit.size > kSmall && unit.size > static_cast<uint64_t>(available_memory())) {
    throw FormatError(Rule::kUnitLimit, "the unit is larger than the available memory", unit.path);
  }
  return with_file(unit, [&](const OpenFile& file) {
    return CheckedImage::read(file, unit.hash, state_->pool, state_->spare);
  });
}

void DumpReader::check_unit(const UnitRecord& unit) const {
  with_file(unit,
            [&](const OpenFile& file) { CheckedImage::check(file, unit.hash, state_->pool); });
}

UnitReader DumpReader::open_unit(const UnitRecord& unit) const {
  return UnitReader::open(read_unit(unit), unit, state_->pool, state_->options.limits,
                          state_->options.frame_checksums);
}

Buffer<std::byte> DumpReader::read(const UnitReader& unit, const StoredDataset& dataset) const {
  check_memory(unit.record(), dataset.path, dataset.bytes);
  Buffer<std::byte> out(dataset.bytes);
  const std::span<std::byte> place(out.data(), out.size());
  if (!dataset.base) {
    unit.read(dataset, place);
    return out;
  }
  const std::string_view path = dataset.path, name = path.substr(path.find('/'));
  ChainReader chain(*this, [&](const StoredDataset& other) {
    const std::string_view theirs = other.path;
    return theirs.substr(theirs.find('/')) == name ? place : std::span<std::byte>();
  });
  chain.begin(unit, path.substr(0, path.find('/')));
  chain.read(unit, dataset);
  return out;
}

std::vector<Buffer<std::byte>> DumpReader::read_all(const UnitReader& unit) const {
  std::vector<Buffer<std::byte>> all;
  std::vector<UnitReader::Read> plain;
  for (const StoredDataset& d : unit.datasets()) {
    all.push_back(d.base ? read(unit, d) : Buffer<std::byte>(d.bytes));
    if (!d.base) plain.push_back({&d, {all.back().data(), all.back().size()}});
  }
  unit.read(plain);
  return all;
}

Buffer<std::byte> DumpReader::read_base(const UnitReader& unit,
                                        const StoredDataset& dataset) const {
  const UnitRecord* record = find(dataset.base->unit);
  if (record != nullptr) {
    const UnitReader parent = open_unit(*record);
    const std::string_view path = dataset.path, name = path.substr(path.find('/'));
    for (const StoredDataset& d : parent.datasets()) {
      const std::string_view theirs = d.path;
      if (theirs.substr(theirs.find('/')) == name && d.hash == dataset.base->hash) {
        return read(parent, d);
      }
    }
  }
  throw FormatError(Rule::kParent, "the base is not in the unit that was named", unit.record().path,
                    dataset.path);
}

}  // namespace rlreplay::format
