#include "src/replay/exchange/pack.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "format/canonical.h"
#include "format/dump_files.h"
#include "format/dump_place.h"
#include "format/dump_reader.h"
#include "format/folder.h"
#include "format/foreign/mapped_file.h"
#include "format/foreign/zip_archive.h"
#include "format/foreign/zip_writer.h"
#include "format/manifest.h"
#include "src/base/error.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/printable.h"
#include "src/base/temporary_folder.h"
#include "src/base/with_place.h"
#include "src/replay/record/content_root.h"
#include "src/replay/record/recorded_run.h"

namespace rlreplay::replay {
namespace {

namespace fs = std::filesystem;
using foreign::MappedFile;
using foreign::ZipArchive;

constexpr std::string_view kSchema = "rlreplay.pack/1";
constexpr std::string_view kSummary = "pack.json";
constexpr std::string_view kDump = "dump/";

[[noreturn]] void refuse_pack(const std::string& path, const std::string& message) {
  throw Error(ErrorCode::kCorrupt, message, path);
}

/// The chosen steps, and before them those from the last state on that was recorded up to there.
RunPart reproducible_part(const RecordedRun& run, const RunPart& chosen) {
  const auto behind = std::ranges::upper_bound(run.states(), chosen.first);
  const bool replayable = behind != run.states().begin();
  return {replayable ? *std::prev(behind) : chosen.first, chosen.last};
}

/// How whoever opens the pack sees what it is about.
std::string reproduce_command(const RecordedRun& run, const std::optional<RunPart>& chosen) {
  const bool computes = run.find_config() && !run.states().empty() && !run.steps().empty();
  if (!computes) return "rlreplay show dump/";
  return std::string("rlreplay train dump/") + (chosen ? " --steps " + chosen->text() : "");
}

/// What a dump says of the run that made it, without the name of the machine.
std::string public_run(const std::string& unstable) {
  const JsonDocument document = JsonDocument::parse(unstable, "unstable");
  format::JsonObject out;
  for (const auto& [key, value] : document.root().members()) {
    if (key != "machine" || !value.is_object()) {
      out.json(std::string(key), value.dump());
      continue;
    }
    format::JsonObject machine;
    for (const auto& [name, member] : value.members()) {
      if (name != "host") machine.json(std::string(name), member.dump());
    }
    out.json("machine", machine.str());
  }
  return out.str();
}

void add_file(foreign::ZipWriter& archive, const fs::path& folder, const std::string& file) {
  const MappedFile mapped(folder / file);
  archive.add(std::string(kDump) + file, mapped.bytes());
  mapped.check_unchanged();
}

void write_archive(const Pack& pack, const std::string& dump, const std::string& path) {
  foreign::ZipWriter archive(path);
  archive.add(std::string(kSummary), foreign::as_bytes(pack.json() + "\n"));
  for (const std::string& file : format::Folder::open(dump).list()) add_file(archive, dump, file);
  archive.commit();
}

/// A file that was found to be whole takes its name.
void copy_whole(const std::string& from, const std::string& to) {
  const MappedFile whole(from);
  AtomicFile file(to);
  file.write(whole.bytes());
  file.commit();
}

Pack read_summary(const ZipArchive& archive, const std::string& path) {
  const ZipArchive::Member* member = archive.find(kSummary);
  if (member == nullptr) refuse_pack(path, "no pack: rlreplay pack writes them, with a pack.json");
  const std::string where = path + " pack.json";
  const JsonDocument document = JsonDocument::parse(foreign::as_text(member->content), where);
  const JsonValue root = document.root();
  if (root["schema"].string() != kSchema) {
    throw root["schema"].error(ErrorCode::kUnsupported,
                               "not " + std::string(kSchema) + ": another version can open it");
  }
  Pack out;
  if (const auto steps = root.find("steps")) out.steps = steps->string();
  out.units = static_cast<uint64_t>(root["units"].integer(0, INT64_MAX));
  const JsonValue without = root["without"];
  for (size_t i = 0; i < without.size(); ++i) out.without.push_back(without.at(i).string());
  out.root = root["root"].string();
  out.content = root["content"].string();
  out.run = root["run"].dump();
  out.reproduce = root["reproduce"].string();
  return out;
}

/// Sees that an archive holds nothing but files that a dump has, in its folder. Errors: kCorrupt.
void check_members(const ZipArchive& archive, const std::string& path) {
  for (const ZipArchive::Member& member : archive.members()) {
    const std::string_view name = member.name;
    if (name == kSummary || name == kDump) continue;
    if (name.starts_with(kDump) && name.ends_with('/') && member.content.empty()) continue;
    if (name.starts_with(kDump) && format::is_dump_file(name.substr(kDump.size()))) continue;
    refuse_pack(path, "holds " + printable(name) + ", which is no file of a dump: no pack");
  }
}

void extract(const ZipArchive::Member& member, const fs::path& folder) {
  const fs::path path = folder / member.name.substr(kDump.size());
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) throw Error(ErrorCode::kEnvironment, error.message(), path.parent_path());
  AtomicFile file(path, AtomicFile::Left::kStays);
  file.write(member.content);
  file.commit();
}

/// The manifest comes last: a dump that has one is taken for finished, whoever ends its writer.
void extract(const ZipArchive& archive, const fs::path& folder) {
  const ZipArchive::Member* manifest = nullptr;
  for (const ZipArchive::Member& member : archive.members()) {
    if (member.name == kSummary || member.name.ends_with('/')) continue;
    if (member.name.substr(kDump.size()) == format::kManifestName) {
      manifest = &member;
    } else {
      extract(member, folder);
    }
  }
  if (manifest != nullptr) extract(*manifest, folder);
}

/// Sees that a dump is whole, every byte of it, and the one that was packed. Errors: kCorrupt.
void check_same(const Pack& pack, const std::string& folder, const std::string& path,
                const DumpJudge& judge) {
  if (const auto problem = judge(folder, format::ReaderOptions().threads)) {
    refuse_pack(path, "the dump in it is damaged: " + problem->path + ": " + problem->message);
  }
  const auto dump = format::DumpReader::open(folder);
  if (!dump.sealed()) refuse_pack(path, "the dump in it has no manifest");
  const std::string content = content_root(dump).hex();
  if (dump.root().hex() == pack.root && content == pack.content) return;
  refuse_pack(path, "the dump in it is another than its pack.json says: content root " + content +
                        ", not " + pack.content);
}

}  // namespace

std::string Pack::json() const {
  JsonLine out;
  out.text("schema", kSchema);
  steps.empty() ? out.null("steps") : out.text("steps", steps);
  return out.integer("units", static_cast<int64_t>(units))
      .json("without", json_list(without))
      .text("root", root)
      .text("content", content)
      .text("open", "rlreplay pack --open FILE -o dump/")
      .text("reproduce", reproduce)
      .json("run", run)
      .str();
}

namespace {

/// Whether the machine's own words say that a disk is full.
bool is_of_room(std::string_view message) {
  return message.find(std::strerror(ENOSPC)) != message.npos ||
         message.find(std::strerror(EDQUOT)) != message.npos;
}

/// Runs `work`; an error of its that names something in `room`, which is gone when it is read,
/// names the dump instead.
template <class Work>
[[nodiscard]] auto with_dump(const std::string& dump, const TemporaryFolder& room,
                             const Work& work) {
  try {
    return work();
  } catch (const Error& e) {
    if (!e.where().starts_with(room.path())) throw;
    if (e.code() != ErrorCode::kEnvironment) throw e.at(dump);
    throw Error(e.code(),
                (is_of_room(e.what()) ? "packing it needs room in "
                                      : "it could not be packed in a folder of ") +
                    fs::path(room.path()).parent_path().string() +
                    " (TMPDIR says where): " + e.what(),
                dump);
  }
}

Pack pack_in(const TemporaryFolder& room, const PackOptions& options, const RecordedRun& run) {
  StripOptions cut;
  cut.dump = options.dump;
  cut.output = room.path() + "/cut";
  cut.texts = options.texts;
  cut.threads = options.threads;
  Pack out;
  out.run = cut.unstable = public_run(run.dump().unstable());
  std::optional<RunPart> chosen;
  if (!options.steps.empty()) {
    chosen = chosen_part(options.dump, options.steps);
    cut.steps = reproducible_part(run, *chosen);
    out.steps = cut.steps->text();
  }
  const StripReport left = strip(cut);  // which is judged when what was packed is opened
  out.units = left.units;
  for (const std::string& column : left.columns) out.without.push_back("column " + column);
  out.without.insert(out.without.end(), left.also.begin(), left.also.end());
  out.root = left.root.hex();
  out.content = left.content.hex();
  out.reproduce = reproduce_command(RecordedRun(cut.output, options.dump), chosen);
  const std::string archive = room.path() + "/pack.zip";
  write_archive(out, cut.output, archive);
  static_cast<void>(open_pack(archive, room.path() + "/opened", false, options.judge));
  copy_whole(archive, options.output);
  return out;
}

}  // namespace

Pack pack(const PackOptions& options) {
  check(static_cast<bool>(options.judge), "what is packed is judged");
  format::check_outside_dumps(options.output);
  check_unoccupied(options.output, options.replace);
  const RecordedRun run(options.dump);
  const TemporaryFolder room("rlreplay-packing", TemporaryFolder::Left::kRemoved);
  return with_dump(options.dump, room, [&] { return pack_in(room, options, run); });
}

Pack open_pack(const std::string& path, const std::string& output, bool replace,
               const DumpJudge& judge) {
  const MappedFile file(path);
  const ZipArchive archive = with_place(path, [&] { return ZipArchive(file.bytes()); });
  const Pack out = read_summary(archive, path);
  check_members(archive, path);
  format::DumpPlace place(output, replace, format::DumpPlace::Writer::kOneGo);
  extract(archive, place.path());
  file.check_unchanged();
  check_same(out, place.path(), path, judge);
  place.settle();
  return out;
}

}  // namespace rlreplay::replay
