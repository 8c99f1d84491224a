#include "src/bisect/configuration_search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/base/json_value.h"
#include "src/base/own_program.h"
#include "src/base/shell.h"
#include "src/base/terminal.h"
#include "src/base/words.h"
#include "src/bisect/sampler.h"

namespace fs = std::filesystem;

namespace rlreplay::bisect {
namespace {

using measure::Criterion;
using measure::Judgement;
using measure::Verdict;

/// A value as a word of a command line.
std::string word_of_value(const std::string& text) {
  if (!text.starts_with('"')) return text;
  return JsonDocument::parse(text, "a setting").root().string();
}

/// rlreplay beside this program, or in PATH.
std::string rlreplay_program() {
  const fs::path here = program_beside("rlreplay");
  return fs::exists(here) ? here.string() : "rlreplay";
}

constexpr int kRefused = 125;  // by rlreplay, for whatever reason

/// Takes a dump's steps again with these settings. That a replay differs from its record is no
/// verdict here.
std::string replay_command(const std::string& dump, const Configuration& settings) {
  static constexpr std::array kAxes = {"dp", "tp", "cp", "pp"};
  std::vector<std::string> layout;
  std::string words;
  for (const auto& [path, json] : settings.values) {
    const std::string name = key_name(path), value = word_of_value(json);
    if (std::ranges::find(kAxes, name) != kAxes.end()) {
      layout.push_back(name + "=" + value);
    } else if (value == "true" || value == "false") {
      words += " --" + name + "=" + value;
    } else {
      words += " --" + name + " " + shell_word(value);
    }
  }
  if (!layout.empty()) words += " --layout " + joined(layout, ",");
  return shell_word(rlreplay_program()) + " train " + shell_word(fs::absolute(dump)) +
         " -o \"$RLBISECT_OUT/dump\"" + words + " && exit 0; [ $? = 1 ] || exit " +
         std::to_string(kRefused);
}

/// The last line of a log that says something.
std::string last_line(const std::string& path) {
  constexpr std::streamoff kMost = 4096;
  std::ifstream log(path, std::ios::binary | std::ios::ate);
  log.seekg(std::max<std::streamoff>(0, log.tellg() - kMost));
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

/// Runs the command in this folder, with the settings in the file RLBISECT_CONFIG.
class ConfigurationExecutor : public measure::Executor {
 public:
  ConfigurationExecutor(const ConfigurationQuestion& question, Workspace& workspace,
                        const Interrupt& interrupt)
      : question_(question), workspace_(workspace), interrupt_(interrupt) {}

  void choose(Configuration settings) { settings_ = std::move(settings); }
  void set_reference(std::string path) { reference_ = std::move(path); }

  measure::Measurement measure(const Candidate&, Build) override {
    RunPlace place{.checkout = fs::current_path(),
                   .reference = reference_,
                   .folder = workspace_.add_run("configuration")};
    place.configuration = write_configuration(settings_, place.folder.path);
    Recipe recipe = question_.recipe;
    if (recipe.run.empty()) recipe.run = replay_command(question_.from, settings_);
    recipe.log_probs = question_.criterion.needs_log_probs();
    auto out = run_checkout(recipe, place, workspace_, interrupt_);
    if (question_.recipe.run.empty() && out.exit_code == kRefused) {
      out.problem = last_line(place.folder.run_log()) + workspace_.name_log(place.folder.run_log());
    }
    out.output = place.folder.output();
    return out;
  }

 private:
  const ConfigurationQuestion& question_;
  Workspace& workspace_;
  const Interrupt& interrupt_;
  Configuration settings_;
  std::string reference_;
};

/// The ends come first: delta debugging takes it as known that no difference is good and all are
/// bad.
class ConfigurationSearch {
 public:
  ConfigurationSearch(const ConfigurationQuestion& question, const Interrupt& interrupt)
      : question_(question),
        workspace_(question.output, interrupt),
        executor_(question, workspace_, interrupt),
        sampler_(executor_, nullptr,
                 [this](const Measurement& m) { workspace_.drop_output(m.output); }) {
    sampler_.set_most(question.most_runs);
    finding_.differences = differences_of(question.good, question.bad);
  }

  ConfigurationFinding find() {
    if (finding_.differences.empty()) {
      throw Error(ErrorCode::kUsage, "the two configurations do not differ");
    }
    try {
      if (run_ends()) search();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kLimit) throw;
      finding_.result = SearchResult::kCannotJudge;
      finding_.reason = error.what();
    }
    finding_.runs = sampler_.runs();
    return finding_;
  }

 private:
  bool run_ends() {
    Subset all;
    for (size_t i = 0; i < finding_.differences.size(); ++i) all.insert(i);
    for (const auto& [end, expected] :
         {std::pair(Subset(), Verdict::kGood), std::pair(all, Verdict::kBad)}) {
      const std::string name = end.empty() ? "the good configuration" : "the bad configuration";
      const Judgement first = judged(end, 0);
      const bool skipped = first.verdict == Verdict::kSkip;
      if (!skipped && first.verdict != expected && !repeats(end, name)) return false;
      if (first.verdict != expected) {
        finding_.result = skipped ? SearchResult::kCannotJudge : SearchResult::kNothing;
        finding_.reason = name +
                          (skipped ? " cannot be judged: "
                                   : " is " + std::string(to_string(first.verdict)) + ": ") +
                          first.reason;
        return false;
      }
      if (end.empty()) measure::check_tolerance(question_.criterion, *reference_);
      if (!repeats(end, name)) return false;
    }
    return true;
  }

  bool repeats(const Subset& subset, const std::string& name) {
    const Measurement first = measured(subset, 0);
    for (size_t i = 1; i < question_.end_runs; ++i) {
      const Judgement again =
          measure::judge_repetition(question_.criterion, first, measured(subset, i));
      if (again.verdict == Verdict::kGood) continue;
      finding_.result = SearchResult::kCannotJudge;
      finding_.reason = "this run is not deterministic: run again, " + name +
                        " is not what it was (" + again.reason + "): leave noise out by --exclude";
      return false;
    }
    return true;
  }

  void search() {
    const MinimalSets found = minimal_sets(
        finding_.differences.size(), [&](const Subset& set) { return judged(set, 0).verdict; });
    finding_.causes = found.sets;
    finding_.unresolved = found.unresolved;
    for (const Subset& cause : found.sets) {
      for (size_t i = 0; i < question_.side_runs; ++i) {
        const Judgement again = judged(cause, i);
        if (i == 0) finding_.reasons.push_back(again.reason);
        if (again.verdict == Verdict::kBad) continue;
        finding_.reason = "run again, " + describe(cause) + " is not bad any more: " + again.reason;
        return;
      }
    }
    finding_.result = SearchResult::kFound;
  }

  std::string describe(const Subset& set) const {
    std::vector<std::string> parts;
    for (const size_t i : set) parts.push_back(finding_.differences[i].describe());
    return parts.empty() ? "nothing" : joined(parts, ", ");
  }

  const Measurement& measured(const Subset& set, size_t n) {
    const Configuration settings = with_differences(question_.good, finding_.differences, set);
    Candidate candidate;
    for (const auto& [path, value] : settings.values) candidate.settings[json_list(path)] = value;
    while (sampler_.of(candidate).size() <= n) {
      executor_.choose(settings);
      if (!question_.quiet) {
        std::fprintf(stderr, "run with %s\n", terminal_text(describe(set)).c_str());
      }
      sampler_.add(candidate, Build::kAny);
      if (!reference_) {
        reference_ = sampler_.of(candidate)[0].measurement;
        executor_.set_reference(reference_->output);
      } else if (!set.empty()) {
        sampler_.drop_outputs(candidate);
      }
    }
    return sampler_.of(candidate)[n].measurement;
  }

  Judgement judged(const Subset& set, size_t n) {
    const bool first = !reference_;
    const Measurement& run = measured(set, n);
    const Judgement judgement =
        measure::judge(question_.criterion, first ? nullptr : &*reference_, run);
    if (!question_.quiet && n == 0) {
      std::fprintf(stderr, "  %s: %s\n", std::string(to_string(judgement.verdict)).c_str(),
                   terminal_text(judgement.reason).c_str());
    }
    return judgement;
  }

  const ConfigurationQuestion& question_;
  Workspace workspace_;
  ConfigurationExecutor executor_;
  Sampler sampler_;
  std::optional<Measurement> reference_;
  ConfigurationFinding finding_;
};

}  // namespace

ConfigurationFinding find_configuration(const ConfigurationQuestion& question,
                                        const Interrupt& interrupt) {
  return ConfigurationSearch(question, interrupt).find();
}

}  // namespace rlreplay::bisect
