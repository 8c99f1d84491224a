#include "format/journal.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "format/faults.h"
#include "format/record.h"
#include "src/base/environment_error.h"

namespace rlreplay::format {
namespace {

constexpr std::string_view kJournalSuffix = ".jsonl";

/// Refuses line `number` unless it follows the line before it, whose body has the hash `last`.
/// Nothing follows a line after which the journal has `ended`. Errors: FormatError kChain.
void check_chain(const JsonValue& body, uint64_t number, const Hash& last, bool ended,
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
  if (ended) throw FormatError(Rule::kChain, "the line follows the end of the journal", where);
}

/// That the writer which the first line names is the one whose file it is.
void check_writer(const JsonValue& body, const Journal& journal, const std::string& where) {
  if (journal.writer.empty()) return;  // version 0.1
  const std::string& named = body["writer"].string();
  if (named == journal.writer) return;
  throw FormatError(Rule::kWriter,
                    "the journal is that of the writer \"" + named + "\", and its file's name is " +
                        journal.writer,
                    where);
}

/// Takes a journal in pieces, and reads it line by line.
class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path), faults_(path) {
    journal_.writer = writer_of(path).value_or("");
  }

  void add(std::string_view piece) {
    for (size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
      if (open_.empty()) {
        add_line(piece.substr(0, end));
      } else {
        add_line(open_.append(piece.substr(0, end)));
        open_.clear();
      }
    }
    open_ += piece;
  }

  Journal finish() {
    faults_.raise();
    return std::move(journal_);
  }

 private:
  void add_line(std::string_view line) {
    const uint64_t begin = journal_.whole_bytes, number = journal_.lines++;
    journal_.whole_bytes += line.size() + 1;
    faults_.gather([&] { at_byte(begin, [&] { parse(line, number, begin); }); });
  }

  void parse(std::string_view line, uint64_t number, uint64_t begin) {
    const std::string where = path_ + ":" + std::to_string(number + 1);
    const RecordBody record = open_record(line, where);
    const JsonDocument document = JsonDocument::parse(record.body, where);
    const JsonValue body = document.root();
    const Hash last = std::exchange(journal_.last, record.hash);
    const bool ended = journal_.ended;
    if (number == 0) journal_.version = check_header(body, where);
    schema_of(where, [&] {
      faults_.gather(
          [&] { at_byte(begin, [&] { check_chain(body, number, last, ended, where); }); });
      if (number == 0) {
        faults_.gather([&] { at_byte(begin, [&] { check_writer(body, journal_, where); }); });
        journal_.meta = meta_from_json(body["meta"], where);
      } else if (const auto end = body.find("ended")) {
        journal_.ended = end->boolean();
        if (!journal_.ended) throw end->error("expected true");
      } else {
        journal_.units.push_back(unit_from_json(body["unit"], where));
      }
    });
  }

  std::string path_, open_;  // the line that is not whole yet
  Journal journal_;
  Faults faults_;
};

}  // namespace

std::string journal_path(std::string_view writer) {
  if (writer.empty()) return kOldJournalName;
  return std::string(kJournalFolder) + "/" + std::string(writer) + std::string(kJournalSuffix);
}

std::optional<std::string> writer_of(std::string_view path) {
  constexpr std::string_view kFolder = kJournalFolder;
  if (!path.starts_with(kFolder) || !path.ends_with(kJournalSuffix)) return std::nullopt;
  path.remove_prefix(kFolder.size());
  path.remove_suffix(kJournalSuffix.size());
  if (!path.starts_with('/') || !sound_name(path.substr(1))) return std::nullopt;
  return std::string(path.substr(1));
}

Journal parse_journal(std::span<const std::byte> bytes, const std::string& path) {
  Parser parser(path);
  parser.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return parser.finish();
}

namespace {

/// Gives the file from a byte on to `add`, a piece at a time, as long as that says so.
template <class Add>
void read_pieces(const OpenFile& file, uint64_t from, Add add) {
  file.expect_at_most(kMaxJournalBytes);
  std::string piece;
  for (uint64_t at = from; at < file.size; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(uint64_t{1} << 20, file.size - at)));
    file.read(at, std::as_writable_bytes(std::span<char>(piece)));
    if (!add(piece)) return;
  }
}

}  // namespace

Journal read_journal(const OpenFile& file) {
  Parser parser(file.path);
  read_pieces(file, 0, [&](std::string_view piece) {
    parser.add(piece);
    return true;
  });
  return parser.finish();
}

uint64_t count_lines(const OpenFile& file, uint64_t from) {
  uint64_t lines = 0;
  read_pieces(file, from, [&](std::string_view piece) {
    lines += static_cast<uint64_t>(std::ranges::count(piece, '\n'));
    return true;
  });
  return lines;
}

Journal read_head(const OpenFile& file) {
  Parser parser(file.path);
  read_pieces(file, 0, [&](std::string_view piece) {
    const size_t end = piece.find('\n');
    parser.add(piece.substr(0, end == piece.npos ? end : end + 1));
    return end == piece.npos;
  });
  return parser.finish();
}

namespace {

std::string first_body(const std::string& writer, const std::string& meta) {
  JsonObject body;
  put_header(body);
  return body.number("line", 0).json("meta", meta).text("writer", writer).str();
}

JsonObject line_of(uint64_t line, const Hash& previous) {
  return JsonObject().number("line", line).text("previous", previous.hex());
}

std::string unit_body(uint64_t line, const Hash& previous, const UnitRecord& unit) {
  return line_of(line, previous).json("unit", unit_json(unit)).str();
}

}  // namespace

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

std::string journal_text(const std::string& writer, const std::string& meta,
                         std::span<const UnitRecord> units) {
  std::string body = first_body(writer, meta), text = record_line(body);
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
      writer_(journal.writer),
      where_(std::move(where)),
      size_(journal.whole_bytes),
      lines_(journal.lines),
      last_(journal.last),
      ended_(journal.ended),
      hasher_(hash_file(file_.get(), size_, where_)) {
  if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    throw environment_error("could not cut off an unfinished line", where_);
  }
  make_durable(file_.get(), *system_, where_);
}

void JournalWriter::begin(const std::string& meta) {
  const std::string body = first_body(writer_, meta);
  write_lines({&body, 1});
}

void JournalWriter::append(std::span<const UnitRecord> units) {
  std::vector<std::string> bodies;
  Hash last = last_;
  for (const UnitRecord& unit : units) {
    bodies.push_back(unit_body(lines_ + bodies.size(), last, unit));
    last = hash_of(bodies.back());
  }
  write_lines(bodies);
}

void JournalWriter::end() {
  if (ended_) return;
  const std::string body = line_of(lines_, last_).boolean("ended", true).str();
  write_lines({&body, 1});
  ended_ = true;
}

bool JournalWriter::is_intact(bool reread) const {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) return false;
  if (status.st_nlink == 0 || static_cast<uint64_t>(status.st_size) != size_) return false;
  return !reread || hash_file(file_.get(), size_, where_).finish() == hash();
}

void JournalWriter::write_lines(std::span<const std::string> bodies) {
  std::string text;
  for (const std::string& body : bodies) text += record_line(body);
  try {
    write_all(file_.get(), std::as_bytes(std::span<const char>(text)), *system_, where_);
    make_durable(file_.get(), *system_, where_);
  } catch (...) {
    // A later line must not be glued to a torn one. If this fails too, so will whoever reads on.
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) file_ = Descriptor();
    throw;
  }
  size_ += text.size();
  hasher_.update(std::as_bytes(std::span<const char>(text)));
  lines_ += bodies.size();
  last_ = hash_of(bodies.back());
}

}  // namespace rlreplay::format
