#include "src/bisect/session.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "src/base/atomic_file.h"
#include "src/base/environment_error.h"
#include "src/base/error.h"
#include "src/base/hash.h"
#include "src/base/json_line.h"
#include "src/base/json_value.h"
#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/bisect/checkout.h"
#include "src/bisect/measurement_json.h"
#include "src/bisect/stored_lines.h"
#include "src/bisect/workspace.h"
#include "src/replay/launch/provenance.h"

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

constexpr const char* kMeasured =
    "/measured";  // in a run's folder, once its measurement is on disk
constexpr const char *kSpec = "/spec.json", *kJournal = "/journal.jsonl";
constexpr const char* kAgain =
    "give its command again, which runs nothing twice; rlbisect gc removes all that is stored";

void make_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) {
    throw Error(ErrorCode::kEnvironment, "cannot make this folder: " + failed.message(), path);
  }
}

/// Writes at the end of a file, and waits for the disk.
void append(const std::string& path, const std::string& text, int flags = O_APPEND) {
  const bool is_new = ::access(path.c_str(), F_OK) != 0;
  const Descriptor file(::open(path.c_str(), flags | O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  size_t written = 0;
  while (file && written < text.size()) {
    const ssize_t n = ::write(file.get(), text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  if (!file || written < text.size() || !is_synced(::fsync(file.get()))) {
    throw environment_error("cannot write this file", path);
  }
  if (is_new) make_names_durable(fs::path(path).parent_path());
}

/// The lines of a session's journal.
void each_trial(const std::string& folder, const std::function<void(const JsonValue&)>& take) {
  each_line(folder + kJournal, "what the last search has judged", kAgain, take);
}

/// Variables that say from where a command was typed, and not what it does.
bool is_of_terminal(std::string_view name) {
  static constexpr std::array kNames = {
      "_",     "PWD",    "OLDPWD",  "SHLVL", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS",
      "LINES", "TMPDIR", "DISPLAY", "STY",   "MAIL", "PS1",       "HOSTNAME", "WINDOWID"};
  static constexpr std::array kPrefixes = {"SSH_", "XDG_", "TMUX", "DBUS_", "VTE_", "LESS", "HIST"};
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes, [&](const char* p) { return name.starts_with(p); });
}

std::string graphics_driver() {
  std::ifstream file("/proc/driver/nvidia/version");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string machine_class() {
  utsname system{};
  ::uname(&system);
  return std::string(system.sysname) + " " + system.machine + "\n" + replay::processor_name() +
         "\n" + graphics_driver();
}

/// Those of the environment that say what a command does, `NAME=VALUE`.
std::set<std::string> telling_variables() {
  std::set<std::string> variables;
  for (char** v = environ; *v != nullptr; ++v) {
    const std::string variable = *v;
    if (!is_of_terminal(std::string_view(variable).substr(0, variable.find('=')))) {
      variables.insert(variable);
    }
  }
  return variables;
}

std::string environment_class() {
  std::string text = machine_class();
  for (const std::string& variable : telling_variables()) text += variable + '\0';
  return hash_of(text).hex();
}

/// What a measurement depends on beside its command: names, and hashes in the place of values,
/// which may be secret.
std::map<std::string, std::string> environment_hashes() {
  std::map<std::string, std::string> out;
  for (const std::string& variable : telling_variables()) {
    out[variable.substr(0, variable.find('='))] = hash_of(variable).hex().substr(0, 16);
  }
  out["the processor, system or graphics driver"] = hash_of(machine_class()).hex().substr(0, 16);
  return out;
}

std::string hashes_json(const std::map<std::string, std::string>& hashes) {
  return json_list(hashes, [](const auto& one) {
    return JsonLine().text("name", one.first).text("hash", one.second).str();
  });
}

/// What of the environment is another than when a session began.
std::vector<std::string> changed_since(const JsonValue& spec) {
  std::map<std::string, std::string> now = environment_hashes();
  std::vector<std::string> changed;
  const auto then = spec.find("environment");
  for (size_t i = 0; then && i < then->size(); ++i) {
    const std::string& name = then->at(i)["name"].string();
    const auto at = now.find(name);
    if (at == now.end() || at->second != then->at(i)["hash"].string()) changed.push_back(name);
    if (at != now.end()) now.erase(at);
  }
  if (then) {
    for (const auto& [name, hash] : now) changed.push_back(name);
  }
  return changed;
}

/// Tells that what a session has measured counts for nothing here, and why.
void tell_of_environment(const std::string& folder) {
  constexpr size_t kShown = 4;
  std::error_code ignored;
  bool has_judged = false;
  each_trial(folder, [&](const JsonValue&) { has_judged = true; });
  if (!fs::exists(folder + kSpec, ignored) || !has_judged) return;
  try {
    std::vector<std::string> changed = changed_since(JsonDocument::read(folder + kSpec).root());
    if (changed.empty()) return;
    const size_t more = changed.size() - std::min(kShown, changed.size());
    changed.resize(std::min(kShown, changed.size()));
    const std::string names = joined(changed, ", ");
    std::fprintf(
        stderr,
        "rlbisect: the environment is not the one in which this search began (%s%s): what "
        "was run there is not used, and every run is made again; set it back to go on with "
        "what there is\n",
        terminal_text(names).c_str(),
        more > 0 ? (" and " + std::to_string(more) + " more").c_str() : "");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;
  }
}

/// Whether the run of an interrupted search has left a folder.
void remove_unmeasured(const std::string& runs) {
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator(runs, ignored)) {
    if (!fs::exists(run.path().string() + kMeasured, ignored)) remove_folder(run.path());
  }
}

/// Takes the lock of a session's folder; nothing where a search holds it.
Descriptor lock_of(const std::string& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return open_locked(opened.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, folder + "/lock");
}

std::string trial_json(const Trial& trial, const std::string& dependency) {
  JsonLine line;
  if (!dependency.empty()) line.text("dependency", dependency);
  line.text("revision", trial.revision.id).text("subject", trial.revision.subject);
  line.text("verdict", measure::to_string(trial.judgement.verdict));
  line.text("reason", trial.judgement.reason).text("purpose", to_string(trial.purpose));
  return line.number("seconds", trial.seconds).str();
}

}  // namespace

std::string context_of(const Recipe& recipe, const Candidate& good) {
  JsonLine line;
  line.integer("form", 3).text("build", recipe.build).text("run", recipe.run);
  line.integer("time_limit", recipe.time_limit.count()).boolean("log_probs", recipe.log_probs);
  line.text("overlay", recipe.overlay.empty() ? "" : digest_of_folder(recipe.overlay));
  if (!recipe.launch.empty()) line.text("launch", recipe.launch);
  if (const auto& asked = recipe.comparison) {
    line.text("first", file_text(asked->first)).text("second", file_text(asked->second));
    line.json("metrics", json_list(asked->criterion.metrics));
    line.json("excluded", json_list(asked->criterion.excluded));
    line.bits("tolerance", asked->criterion.tolerance);
  }
  line.text("good", key_of(good)).text("environment", environment_class());
  return line.str();
}

DiskStore::DiskStore(std::string folder, std::string context, Candidate good)
    : folder_(std::move(folder)), context_(std::move(context)), good_(std::move(good)) {
  make_folder(folder_);
}

std::string DiskStore::path_of(const Candidate& candidate) const {
  return folder_ + "/" + hash_of(context_ + "\n" + key_of(candidate)).hex() + ".jsonl";
}

std::vector<Measurement> DiskStore::load(const Candidate& candidate) {
  std::vector<Measurement> out;
  each_line(path_of(candidate), "a run that is stored",
            "remove this file, and the runs that it holds are made again",
            [&](const JsonValue& line) { out.push_back(measurement_of(line)); });
  std::error_code ignored;
  const bool told = key_of(candidate) == key_of(good_) && !out.empty();
  if (told && !fs::exists(out.front().output, ignored)) {
    fs::remove(path_of(candidate), ignored);
    out.clear();
  }
  return out;
}

void DiskStore::save(const Candidate& candidate, const Measurement& measurement) {
  // A line that a kill has cut must not swallow this one.
  append(path_of(candidate), "\n" + to_json(measurement) + "\n");
  append(fs::path(measurement.output).parent_path().string() + kMeasured, "");
}

Session::Session(const std::string& root, const SessionTerms& terms) {
  JsonLine spec;
  spec.text("place", fs::current_path().string()).json("words", json_list(terms.words));
  folder_ = root + "/sessions/" + hash_of(spec.str()).hex().substr(0, 12);
  make_folder(runs());
  lock_ = lock_of(folder_);
  if (!lock_) {
    throw Error(ErrorCode::kUsage, "the same search is running: wait for it, or stop it", folder_);
  }
  remove_unmeasured(runs());
  tell_of_environment(folder_);
  spec.text("good", terms.good).text("bad", terms.bad).boolean("fresh", terms.fresh);
  spec.json("environment", hashes_json(environment_hashes()));
  AtomicFile file(folder_ + kSpec);
  file.write(spec.str() + "\n");
  file.commit();
  append(folder_ + kJournal, "", O_TRUNC);
}

void Session::add(const Trial& trial, const std::string& dependency) const {
  append(folder_ + kJournal, trial_json(trial, dependency) + "\n");
}

void Session::end(const Finding& finding) const {
  std::vector<std::string> suspects;
  for (const Revision& revision : finding.suspects) suspects.push_back(revision.id);
  JsonLine line;
  line.text("result", to_string(finding.result)).json("suspects", json_list(suspects));
  line.boolean("cut", finding.cut).boolean("confirmed", finding.confirmed);
  append(folder_ + kJournal, line.str() + "\n");
}

void Session::end(const Changes& changes) const {
  std::vector<std::string> last;
  for (const Change& change : changes.found) last.push_back(change.suspects.back().id);
  const SearchResult result = !changes.refused.empty() ? SearchResult::kCannotJudge
                              : last.empty()           ? SearchResult::kNothing
                                                       : SearchResult::kFound;
  JsonLine line;
  line.text("result", to_string(result)).json("suspects", json_list(last));
  line.boolean("cut", changes.cut).boolean("confirmed", false);
  append(folder_ + kJournal, line.str() + "\n");
}

namespace {

/// Errors: kIncomplete, with what to do about it.
JsonDocument read_spec(const std::string& path) {
  try {
    return JsonDocument::read(path);
  } catch (const Error& error) {
    throw Error(
        ErrorCode::kIncomplete,
        "what the last search was cannot be read (" + std::string(error.what()) + "): " + kAgain,
        path);
  }
}

/// What one line of a journal says.
void add_line(const JsonValue& line, StoredSession& session) {
  const auto result = line.find("result");
  if (!result) {
    const auto inside = line.find("dependency");
    session.lines.push_back({line["revision"].string(), line["subject"].string(),
                             line["verdict"].string(), line["reason"].string(),
                             line["purpose"].string(), line["seconds"].number(),
                             inside ? inside->string() : ""});
    return;
  }
  session.result = result->string();
  session.cut = line["cut"].boolean();
  session.confirmed = line["confirmed"].boolean();
  const JsonValue suspects = line["suspects"];
  for (size_t i = 0; i < suspects.size(); ++i) session.suspects.push_back(suspects.at(i).string());
}

}  // namespace

StoredSession last_session(const std::string& root) {
  std::error_code ignored;
  std::optional<std::pair<fs::file_time_type, std::string>> last;
  for (const auto& entry : fs::directory_iterator(root + "/sessions", ignored)) {
    const std::string path = entry.path();
    const auto time = fs::last_write_time(path + kSpec, ignored);
    if (!ignored && (!last || time > last->first)) last = {time, path};
  }
  if (!last) throw Error(ErrorCode::kUsage, "no search has begun in this repository", root);
  const auto spec = read_spec(last->second + kSpec);
  StoredSession session{last->second, spec.root()["place"].string(), {}, {}};
  for (size_t i = 0; i < spec.root()["words"].size(); ++i) {
    session.words.push_back(spec.root()["words"].at(i).string());
  }
  for (const auto& [name, end] : {std::pair{"good", &session.good}, {"bad", &session.bad}}) {
    if (const auto said = spec.root().find(name)) *end = said->string();
  }
  if (const auto fresh = spec.root().find("fresh")) session.fresh = fresh->boolean();
  each_trial(last->second, [&](const JsonValue& line) { add_line(line, session); });
  return session;
}

std::string going_on(bool fresh) {
  return fresh ? ", and nothing of it is stored (--fresh)" : ": rlbisect resume goes on";
}

std::string bisect_log(const StoredSession& session) {
  if (is_of_changes(session)) {
    throw Error(ErrorCode::kUsage,
                "the last search here was rlbisect changes, which halves between many changes, and "
                "git bisect replay knows one: rlbisect status lists what was judged",
                session.folder);
  }
  std::string text = "git bisect start\n";
  std::set<std::string> said;
  for (const StoredSession::Line& line : session.lines) {
    if (line.purpose == "probe" || !line.dependency.empty() || !said.insert(line.revision).second)
      continue;
    const std::string verdict = line.verdict == "skipped" ? "skip" : line.verdict;
    text += "# " + verdict + ": [" + line.revision + "] " + line.subject + "\n";
    text += "git bisect " + verdict + " " + line.revision + "\n";
  }
  for (const std::string& suspect : session.suspects) {
    const bool single = session.confirmed && session.suspects.size() == 1;
    text += single ? "# first bad commit: [" : "# possible first bad commit: [";
    text += suspect + "]\n";
  }
  return text;
}

size_t remove_stored(const std::string& root) {
  std::error_code ignored;
  size_t running = 0;
  for (const auto& entry : fs::directory_iterator(root + "/sessions", ignored)) {
    const Descriptor lock = lock_of(entry.path());
    if (lock) {
      remove_folder(entry.path());
    } else {
      ++running;
    }
  }
  if (running == 0) remove_folder(root);
  return running;
}

}  // namespace rlreplay::bisect
