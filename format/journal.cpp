#include "format/journal.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "format/faults.h"
#include "format/record.h"

namespace rlreplay::format {
namespace {

void check_chain(const JsonValue& body, uint64_t number, const Hash& last,
                 const std::string& where) {
  const auto differs = [&](const char* key, const std::string& found, const std::string& expected) {
    return FormatError(Rule::kChain,
                       std::string("the line does not follow the one before it: its \"") + key +
                           "\" is " + found + ", expected " + expected,
                       where);
  };
  if (number > 0) {
    const Hash previous = hash_from_json(body["previous"], where);
    if (previous != last) throw differs("previous", previous.hex(), last.hex());
  }
  const int64_t line = body["line"].integer(0, INT64_MAX);
  if (line != static_cast<int64_t>(number)) {
    throw differs("line", std::to_string(line), std::to_string(number));
  }
}

/// Line `number`, which begins at byte `begin`.
void parse_line(std::string_view line, uint64_t number, uint64_t begin, Journal& journal,
                Faults& faults) {
  const std::string where = std::string(kJournalName) + ":" + std::to_string(number + 1);
  const RecordBody record = open_record(line, where);
  const JsonDocument document = JsonDocument::parse(record.body, where);
  const JsonValue body = document.root();
  const Hash last = std::exchange(journal.last, record.hash);
  if (number == 0) journal.version = check_header(body, where);
  schema_of(where, [&] {
    faults.gather([&] { at_byte(begin, [&] { check_chain(body, number, last, where); }); });
    if (number == 0) {
      journal.meta = meta_from_json(body["meta"], where);
    } else {
      journal.units.push_back(unit_from_json(body["unit"], where));
    }
  });
}

}  // namespace

Journal parse_journal(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Journal journal;
  Faults faults(kJournalName);
  uint64_t number = 0;
  while (true) {
    const size_t end = text.find('\n', journal.whole_bytes);
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(journal.whole_bytes, end - journal.whole_bytes);
    const uint64_t begin = std::exchange(journal.whole_bytes, end + 1);
    faults.gather(
        [&] { at_byte(begin, [&] { parse_line(line, number++, begin, journal, faults); }); });
  }
  faults.raise();
  refuse_duplicates(journal.units, kJournalName);
  return journal;
}

namespace {

std::string first_body(const std::string& meta) {
  JsonObject body;
  put_header(body);
  return body.number("line", 0).json("meta", meta).str();
}

std::string unit_body(uint64_t line, const Hash& previous, const UnitRecord& unit) {
  return JsonObject()
      .number("line", line)
      .text("previous", previous.hex())
      .json("unit", unit_json(unit))
      .str();
}

/// Hashes the first `size` bytes of a file.
Hasher hash_file(int file, uint64_t size, const std::string& where) {
  Hasher hasher;
  std::vector<std::byte> block(size_t{1} << 16);
  for (uint64_t at = 0; at < size;) {
    const auto wanted = static_cast<size_t>(std::min<uint64_t>(block.size(), size - at));
    const ssize_t n = ::pread(file, block.data(), wanted, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw failed_call("read", where, errno);
    if (n == 0) break;
    hasher.update({block.data(), static_cast<size_t>(n)});
    at += static_cast<uint64_t>(n);
  }
  return hasher;
}

}  // namespace

std::string journal_text(const std::string& meta, const std::vector<UnitRecord>& units) {
  std::string body = first_body(meta), text = record_line(body);
  uint64_t line = 0;
  for (const UnitRecord& unit : units) {
    body = unit_body(++line, hash_of(body), unit);
    text += record_line(body);
  }
  return text;
}

JournalWriter::JournalWriter(Descriptor file, const Journal& journal, System& system,
                             std::string where)
    : file_(std::move(file)),
      system_(&system),
      where_(std::move(where)),
      size_(journal.whole_bytes),
      lines_(journal.meta.empty() ? 0 : 1 + journal.units.size()),
      last_(journal.last),
      hasher_(hash_file(file_.get(), size_, where_)) {
  if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    throw Error(ErrorCode::kEnvironment, "could not cut off an unfinished line", where_);
  }
  make_durable(file_.get(), *system_, where_);
}

void JournalWriter::begin(const std::string& meta) { write_line(first_body(meta)); }

void JournalWriter::append(const UnitRecord& unit) { write_line(unit_body(lines_, last_, unit)); }

bool JournalWriter::is_intact(bool reread) const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return false;
  if (status.st_nlink == 0 || static_cast<uint64_t>(status.st_size) != size_) return false;
  return !reread || hash_file(file_.get(), size_, where_).finish() == hash();
}

void JournalWriter::write_line(const std::string& body) {
  const std::string line = record_line(body);
  try {
    write_all(file_.get(), std::as_bytes(std::span<const char>(line)), *system_, where_);
    make_durable(file_.get(), *system_, where_);
  } catch (...) {
    // A later line must not be glued to a torn one. If this fails too, so will whoever reads on.
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) file_ = Descriptor();
    throw;
  }
  size_ += line.size();
  hasher_.update(std::as_bytes(std::span<const char>(line)));
  ++lines_;
  last_ = hash_of(body);
}

}  // namespace rlreplay::format
