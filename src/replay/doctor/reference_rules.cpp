#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <numeric>
#include <set>

#include "src/base/progress.h"
#include "src/base/words.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/doctor/hub_comparison.h"
#include "src/replay/doctor/weight_names.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kReference = "RD809";
constexpr int64_t kMillion = 1'000'000;  // what progress counts in

using Tensors = std::map<std::string, HubTensor>;

/// What a kind of difference is called, how bad it is and what to do.
struct KindText {
  TensorDifference kind;
  Severity severity;
  std::string_view fact, fix;
};

constexpr KindText kKinds[] = {
    {TensorDifference::kShape, Severity::kError, "tensors have other shapes than in the reference",
     "look for parts of tensor-parallel ranks that were not put together"},
    {TensorDifference::kTransposed, Severity::kError, "tensors are transposed",
     "transpose them in the conversion"},
    {TensorDifference::kSwapped, Severity::kError, "gate and up stand in each other's place",
     "take the fused product apart in the order gate, up"},
    {TensorDifference::kHeads, Severity::kError, "heads stand in another order",
     "take fused queries, keys and values apart as the trainer laid them out: by group or by kind"},
    {TensorDifference::kRotary, Severity::kError, "rows stand in another order within each head",
     "convert between halves and pairs of rotary embeddings, or do not"},
    {TensorDifference::kOrder, Severity::kError, "the same rows stand in another order",
     "take fused products apart in the order in which the trainer fused them"},
    {TensorDifference::kValues, Severity::kError, "tensors hold other numbers",
     "is it of another step? compare with the checkpoint before; else a bucket was not synced"},
    {TensorDifference::kNear, Severity::kError, "tensors are near what the reference's round to",
     "is it of another step? name its weights by --step or --earlier"},
    {TensorDifference::kPadded, Severity::kWarning, "the vocabulary is padded on one side",
     "cut the padding off; what both have is equal"},
    {TensorDifference::kCast, Severity::kNote, "tensors are those of the reference, rounded",
     "nothing, where the narrower type is meant"},
};

/// Each name that differs is under one kind. Comparing puts it there; finding a cause that explains
/// several takes them out of kValues, so that nothing is reported twice.
class ReferenceCheck {
 public:
  ReferenceCheck(const WeightFiles& weights, WeightVersions& versions, Diagnosis& diagnosis)
      : versions_(versions), diagnosis_(diagnosis) {
    heads_ = head_sizes(weights);
    if (!heads_.known()) heads_ = head_sizes(versions.expected());
    ours_ = hub_tensors(weights, heads_);
    theirs_ = hub_tensors(versions.expected(), heads_);
  }

  void run() {
    compare();
    if (compared_ == 0) {
      diagnosis_.add({.rule = kReference,
                      .fact = "no tensor has the name of one of the reference",
                      .observed = counted(ours_.size(), "name") + " and " +
                                  std::to_string(theirs_.size()) + " of the reference",
                      .where = ours_.empty() ? "" : ours_.begin()->first});
      return;
    }
    find_earlier();
    find_shift();
    find_swaps();
    report_names();
    report_kinds();
  }

 private:
  void compare() {
    int64_t bytes = 0, done = 0;
    for (const auto& [name, tensor] : ours_) bytes += tensor.rows * tensor.columns;
    Progress progress("compared", "million elements", bytes / kMillion);
    for (const auto& [name, tensor] : ours_) {
      const auto other = theirs_.find(name);
      done += tensor.rows * tensor.columns;
      progress.at(done / kMillion);
      if (other == theirs_.end()) continue;
      ++compared_;
      const TensorDifference kind = difference(name, other->second);
      if (kind != TensorDifference::kEqual) kinds_[kind].insert(name);
      release({&tensor, &other->second});
    }
  }

  TensorDifference difference(const std::string& name, const HubTensor& other) const {
    const bool vocabulary = is_embedding(name) || is_head(name);
    const int64_t head = name.find("self_attn.") == name.npos ? 0 : heads_.size;
    return compare_tensors(ours_.at(name), other, head, vocabulary);
  }

  /// Gives back what was read of mapped files.
  static void release(std::initializer_list<const HubTensor*> tensors) {
    for (const HubTensor* tensor : tensors) {
      tensor->from->file->content.file().release(tensor->from->stored->data);
    }
  }

  /// Whether what differs is what earlier weights were: of a sync that came late, or left a bucket
  /// out.
  void find_earlier() {
    std::set<std::string> open = kinds_[TensorDifference::kValues];
    open.merge(std::set(kinds_[TensorDifference::kNear]));
    for (const std::string& name : kinds_[TensorDifference::kShape]) {
      if (is_embedding(name) || is_head(name)) open.insert(name);  // it may be padded too
    }
    std::map<std::string, std::string> found;  // whose each is
    for (size_t i = 0; i < versions_.earlier() && !open.empty(); ++i) {
      try {
        take_earlier(versions_.open_earlier(i, open), versions_.earlier_name(i), open, found);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kInterrupted || error.code() == ErrorCode::kInternal) throw;
        diagnosis_.add({.rule = kReference,
                        .fact = "earlier weights cannot be read",
                        .observed = error.what(),
                        .where = versions_.earlier_name(i),
                        .severity = Severity::kNote,
                        .fix = "look for them in another dump, or name them by --earlier"});
      }
    }
    report_earlier(found);
  }

  /// Moves to `found` the names of `open` that are of these weights.
  void take_earlier(const WeightFiles& weights, const std::string& version,
                    std::set<std::string>& open, std::map<std::string, std::string>& found) const {
    std::map<std::string, std::string> taken;
    for (const auto& [name, other] : hub_tensors(weights, heads_)) {
      if (!open.contains(name)) continue;
      const TensorDifference kind = difference(name, other);
      if (kind == TensorDifference::kEqual || kind == TensorDifference::kCast ||
          kind == TensorDifference::kPadded) {
        taken.emplace(name, version);
      }
      release({&ours_.at(name), &other});
    }
    weights.check_unchanged();
    for (const auto& [name, of] : taken) open.erase(name);
    found.merge(taken);
  }

  void report_earlier(const std::map<std::string, std::string>& found) {
    if (found.empty()) return;
    DoctorFinding finding{kReference, "tensors are those of earlier weights", "", ""};
    for (const auto& [name, version] : found) {
      finding.add_place(name + ": " + version);
      for (auto& [kind, names] : kinds_) names.erase(name);
    }
    finding.observed = std::to_string(found.size()) + " of " + counted(compared_, "tensor");
    if (versions_.step()) {
      finding.observed += "; the reference's are before step " + versions_.step()->name();
    }
    finding.fix = "sync again after the last step, and hold what the engine has loaded against it";
    diagnosis_.add(std::move(finding));
  }

  /// Whether layers that differ are those of the reference some numbers further on: what a pipeline
  /// stage leaves that counts its layers anew.
  void find_shift() {
    std::set<int64_t> layers;
    for (const auto& [name, tensor] : theirs_) layers.insert(split_name(name).layer);
    layers.erase(-1);
    std::map<int64_t, std::set<std::string>> by_shift;
    for (const std::string& name : kinds_[TensorDifference::kValues]) {
      const int64_t own = split_name(name).layer;
      if (own < 0 || ours_.at(name).columns == 1) continue;
      const auto found = std::ranges::find_if(
          layers, [&](int64_t layer) { return layer != own && is_moved(name, layer - own); });
      if (found != layers.end()) by_shift[*found - own].insert(name);
    }
    for (const auto& found : by_shift) {
      const int64_t shift = found.first;
      const std::set<std::string>& names = found.second;
      DoctorFinding finding{kReference, "layers are those of other numbers of the reference", "",
                            ""};
      finding.observed = "layer L is the reference's L" +
                         formatted("%+lld", static_cast<long long>(shift)) + ", by " +
                         counted(names.size(), "tensor");
      finding.fix = "add each pipeline stage's first layer to its layers' numbers";
      std::set<int64_t> moved;
      for (const std::string& name : names) {
        moved.insert(split_name(name).layer);
        finding.add_place(name);
      }
      // Vectors, of which many are alike, do not say that a layer moved; they move with it.
      std::erase_if(kinds_[TensorDifference::kValues], [&](const std::string& name) {
        return names.contains(name) ||
               (ours_.at(name).columns == 1 && moved.contains(split_name(name).layer) &&
                is_moved(name, shift));
      });
      diagnosis_.add(std::move(finding));
    }
  }

  /// Whether the tensor is the reference's so many layers further on.
  bool is_moved(const std::string& name, int64_t shift) const {
    const WeightName parts = split_name(name);
    const auto other =
        theirs_.find(joined_name(parts.stack, parts.layer + shift, parts.role, parts.expert));
    return other != theirs_.end() && same_numbers(ours_.at(name), other->second);
  }

  void find_swaps() {
    const std::set<std::string> differing = kinds_[TensorDifference::kValues];
    for (const std::string& name : differing) {
      const size_t at = name.find("gate_proj.");
      if (at == name.npos) continue;
      std::string up = name;
      up.replace(at, 4, "up");
      if (!differing.contains(up) || !same_numbers(ours_.at(name), theirs_.at(up)) ||
          !same_numbers(ours_.at(up), theirs_.at(name))) {
        continue;
      }
      for (const std::string& one : {name, up}) {
        kinds_[TensorDifference::kValues].erase(one);
        kinds_[TensorDifference::kSwapped].insert(one);
      }
    }
  }

  void report_names() {
    DoctorFinding missing{kReference, "tensors of the reference are missing", "", ""};
    DoctorFinding surplus{kReference, "the reference lacks tensors", "", ""};
    DoctorFinding tied{kReference, "one side alone has a head of its own", "", ""};
    surplus.severity = Severity::kWarning;
    tied.severity = Severity::kNote;
    if (diagnosis_.failed("RD803")) missing.symptom_of = "RD803";
    if (diagnosis_.failed("RD801")) missing.symptom_of = "RD801";
    for (const auto& [names, others, finding] :
         {std::tuple(&theirs_, &ours_, &missing), std::tuple(&ours_, &theirs_, &surplus)}) {
      for (const auto& [name, tensor] : *names) {
        if (others->contains(name) || name.ends_with(".rotary_emb.inv_freq")) continue;
        DoctorFinding& to = is_head(name) && is_tied(*names, tensor) ? tied : *finding;
        to.add_place(name);
      }
    }
    missing.fix = "look for a bucket or a pipeline stage that was not written";
    tied.fix = "nothing: it is the embedding";
    for (DoctorFinding* finding : {&missing, &surplus, &tied}) {
      if (finding->count == 0) continue;
      finding->observed = counted(finding->count, "tensor");
      diagnosis_.add(std::move(*finding));
    }
  }

  static bool is_tied(const Tensors& tensors, const HubTensor& head) {
    return std::ranges::any_of(tensors, [&](const auto& one) {
      return is_embedding(one.first) && same_numbers(one.second, head);
    });
  }

  void report_kinds() {
    for (const KindText& text : kKinds) {
      const std::set<std::string>& names = kinds_[text.kind];
      if (names.empty()) continue;
      DoctorFinding finding{kReference, std::string(text.fact), "", ""};
      finding.severity = text.severity;
      finding.fix = text.fix;
      finding.observed = std::to_string(names.size()) + " of " + counted(compared_, "tensor");
      for (const std::string& name : names) {
        const bool kept = finding.count < DoctorFinding::kMostPlaces;
        const bool numbers =
            text.kind == TensorDifference::kValues || text.kind == TensorDifference::kNear;
        const std::string place =
            kept && numbers ? ": " + distance_text(ours_.at(name), theirs_.at(name)) : "";
        finding.add_place(name + place);
      }
      diagnosis_.add(std::move(finding));
    }
  }

  WeightVersions& versions_;
  Diagnosis& diagnosis_;
  HeadSizes heads_;
  Tensors ours_, theirs_;
  size_t compared_ = 0;
  std::map<TensorDifference, std::set<std::string>> kinds_;
};

}  // namespace

void check_reference(const WeightFiles& weights, WeightVersions& versions, Diagnosis& diagnosis) {
  ReferenceCheck(weights, versions, diagnosis).run();
}

}  // namespace rlreplay::replay
