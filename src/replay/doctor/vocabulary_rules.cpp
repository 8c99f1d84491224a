#include <algorithm>
#include <filesystem>

#include "src/base/words.h"
#include "src/replay/doctor/checkpoint_rules.h"
#include "src/replay/doctor/value_scan.h"
#include "src/replay/doctor/weight_names.h"

namespace rlreplay::replay {
namespace {

constexpr std::string_view kVocabulary = "RD604", kHead = "RD804";
constexpr int64_t kPadding = 64;        // what trainers pad to a multiple of
constexpr int64_t kMostPadding = 4096;  // 128 times 32 tensor-parallel ranks
constexpr uintmax_t kMostTokenizer = uintmax_t{16} << 20;

const WeightTensor* find_first(const WeightFiles& weights, bool (*is)(std::string_view)) {
  const auto found = std::ranges::find_if(
      weights.tensors, [&](const WeightTensor& tensor) { return is(tensor.name()); });
  return found == weights.tensors.end() ? nullptr : &*found;
}

int64_t rows_of(const WeightTensor& tensor) {
  return tensor.stored->shape.empty() ? 0 : tensor.stored->shape.front();
}

/// The highest id of tokenizer.json; nothing where there is none or it is too large to be read.
std::optional<int64_t> highest_id(const WeightFiles& weights) {
  const std::string path = (std::filesystem::path(weights.path) / "tokenizer.json").string();
  std::error_code problem;
  const auto size = std::filesystem::file_size(path, problem);
  if (!weights.is_folder || problem || size > kMostTokenizer) return std::nullopt;
  const JsonDocument document = JsonDocument::read(path, {kMostTokenizer, 32, false});
  int64_t highest = -1;
  const auto take = [&](const JsonValue& id) {
    highest = std::max(highest, id.integer(0, INT32_MAX));
  };
  const auto model = document.root().find("model");
  const auto vocabulary = model && model->is_object() ? model->find("vocab") : std::nullopt;
  if (vocabulary && vocabulary->is_object()) {
    for (const auto& [token, id] : vocabulary->members()) take(id);
  }
  if (const auto added = document.root().find("added_tokens")) {
    for (size_t i = 0; i < added->size(); ++i) take(added->at(i)["id"]);
  }
  return highest < 0 ? std::nullopt : std::optional(highest);
}

class VocabularyCheck {
 public:
  VocabularyCheck(const WeightTensor& embedding, Diagnosis& diagnosis)
      : embedding_(embedding), rows_(rows_of(embedding)), diagnosis_(diagnosis) {}

  void against_config(int64_t said) {
    if (rows_ == said) return;
    const std::string observed = counted(rows_, "row") + ", vocab_size " + std::to_string(said);
    const bool padded = rows_ > said && rows_ - said < kMostPadding && rows_ % kPadding == 0;
    if (padded) {
      add("the vocabulary is padded beyond vocab_size", observed, Severity::kWarning);
    } else {
      add(rows_ < said ? "the embedding has fewer rows than vocab_size"
                       : "the embedding has more rows than vocab_size",
          observed, Severity::kError);
    }
  }

  void against_head(const WeightTensor& head) {
    if (rows_of(head) == rows_) return;
    add("head and embedding have vocabularies of different sizes",
        counted(rows_, "row") + " and " + std::to_string(rows_of(head)) + " of " + head.name(),
        Severity::kError);
  }

  void against_tokenizer(int64_t highest) {
    if (highest < rows_) return;
    add("the tokenizer has ids without a row of the embedding",
        counted(rows_, "row") + ", highest id " + std::to_string(highest), Severity::kError);
  }

 private:
  void add(std::string fact, std::string observed, Severity severity) {
    diagnosis_.add({.rule = kVocabulary,
                    .fact = std::move(fact),
                    .observed = std::move(observed),
                    .where = embedding_.name(),
                    .severity = severity});
  }

  const WeightTensor& embedding_;
  int64_t rows_;
  Diagnosis& diagnosis_;
};

}  // namespace

void check_vocabulary(const WeightFiles& weights, Diagnosis& diagnosis) {
  const WeightTensor* embedding = find_first(weights, is_embedding);
  if (embedding == nullptr) {
    diagnosis.not_applicable(kVocabulary, "no tensor has the name of an embedding");
    return;
  }
  const WeightTensor* head = find_first(weights, is_head);
  const auto said = weights.size_of_model("vocab_size");
  const auto highest = highest_id(weights);
  if (!said && head == nullptr && !highest) {
    diagnosis.not_applicable(kVocabulary, "neither config.json, head nor tokenizer.json");
    return;
  }
  VocabularyCheck check(*embedding, diagnosis);
  if (said) check.against_config(*said);
  if (head != nullptr) check.against_head(*head);
  if (highest) check.against_tokenizer(*highest);
}

void check_head(const WeightFiles& weights, Diagnosis& diagnosis) {
  const auto said = weights.setting("tie_word_embeddings");
  const WeightTensor* embedding = find_first(weights, is_embedding);
  if (!said || embedding == nullptr) {
    diagnosis.not_applicable(kHead, said ? "no tensor has the name of an embedding"
                                         : "nothing says tie_word_embeddings");
    return;
  }
  const WeightTensor* head = find_first(weights, is_head);
  DoctorFinding finding{kHead, "", "", embedding->name()};
  if (head == nullptr) {
    if (said->boolean()) return;
    finding.fact = "there is no output head";
    finding.observed = "tie_word_embeddings is false, no lm_head.weight";
    if (diagnosis.failed("RD801")) finding.symptom_of = "RD801";
    diagnosis.add(std::move(finding));
    return;
  }
  const bool same = same_bytes(embedding->file->content.file(), embedding->stored->data,
                               head->file->content.file(), head->stored->data);
  finding.where = head->name();
  if (said->boolean() && !same) {
    finding.fact = "a head is stored that differs from the embedding to which it is tied";
    finding.observed = "tie_word_embeddings is true, other bytes than " + embedding->name();
    diagnosis.add(std::move(finding));
  } else if (!said->boolean() && same) {
    finding.fact = "the head is the embedding, though not tied";
    finding.observed = "tie_word_embeddings is false, the bytes of " + embedding->name();
    finding.severity = Severity::kWarning;
    diagnosis.add(std::move(finding));
  }
}

}  // namespace rlreplay::replay
