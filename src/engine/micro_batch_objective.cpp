#include "src/engine/micro_batch_objective.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "src/base/error.h"
#include "src/engine/finite.h"
#include "src/engine/parallel.h"
#include "src/engine/step_events.h"

namespace rlreplay::engine {
namespace {

int rank_of(const Group* group) { return group == nullptr ? 0 : group->rank(); }
int size_of(const Group* group) { return group == nullptr ? 1 : group->size(); }

/// Refuses a score that the objective would read and that is not finite.
void check_finite(const ModelContext& context, const Sample& s, size_t token, float log_prob,
                  float entropy, float temperature) {
  if (s.is_masked(static_cast<int64_t>(token))) return;
  if (std::isfinite(log_prob) && std::isfinite(entropy)) return;
  const int64_t position = s.prompt_length + static_cast<int64_t>(token);
  if (context.runtime.ranks == nullptr) refuse_score(context, s, position, temperature);
  throw Error(ErrorCode::kCorrupt,
              "the log-probability or the entropy of the token at position " +
                  std::to_string(position) + " is not finite",
              "sample " + std::to_string(s.id));
}

/// What a token's scores and terms are, as ranks send them.
struct TokenResult {
  float log_prob = 0, entropy = 0;
  TokenTerms terms;
};

/// Calls use(sample, token, item) for the items that each context-parallel rank has of its tokens.
template <class T, class Use>
void for_all_tokens(Group& cp, std::span<const Sample> samples, size_t first, size_t count,
                    int64_t leaf, std::span<const T> own, Use use) {
  const Gathered<T> all = gather_items(cp, own);
  for (int r = 0; r < cp.size(); ++r) {
    const ScoredTokens tokens = scored_tokens(samples, first, count, leaf, r, cp.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      use(tokens.sample[i], tokens.token[i], all.items[all.first[static_cast<size_t>(r)] + i]);
    }
  }
}

}  // namespace

ScoredTokens scored_tokens(std::span<const Sample> samples, size_t first, size_t count,
                           int64_t leaf, int cp, int size) {
  ScoredTokens out;
  for (size_t i = first; i < first + count; ++i) {
    const Sample& s = samples[i];
    const ContextRuns runs = context_runs(std::ssize(s.tokens), leaf, cp, size);
    for (const kernels::Range& run : {runs.low, runs.high}) {
      const int64_t end = std::min(run.end, std::ssize(s.tokens) - 1);
      for (int64_t p = std::max(run.begin, s.prompt_length - 1); p < end; ++p) {
        out.sample.push_back(i);
        out.token.push_back(static_cast<size_t>(p + 1 - s.prompt_length));
        out.ids.push_back(s.id);
        out.positions.push_back(static_cast<int32_t>(p + 1));
      }
    }
  }
  return out;
}

MicroBatchObjective::MicroBatchObjective(const ModelContext& context, const StepConfig& config,
                                         const StepBatch& batch, size_t first, size_t count,
                                         StepResult& out)
    : context_(context),
      config_(config),
      objective_(config.objective),
      batch_(batch),
      first_(first),
      count_(count),
      tokens_(scored_tokens(batch.samples, first, count, config.train.leaf,
                            rank_of(context.runtime.cp()), size_of(context.runtime.cp()))),
      out_(out) {
  for (size_t i = first; i < first + count; ++i) {
    const auto tokens = static_cast<size_t>(batch.samples[i].response_length());
    out.terms[i].resize(tokens);
    out.scores[i].log_probs.resize(tokens);
    out.scores[i].entropy.resize(tokens);
  }
}

void MicroBatchObjective::loss_gradient(kernels::Range rows, const Scores& scores,
                                        std::span<float> c, std::span<float> ce) {
  const auto begin = static_cast<size_t>(rows.begin), n = static_cast<size_t>(rows.size());
  const bool cut = context_.runtime.cp() != nullptr;
  if (objective_.reads_sequence()) {
    if (begin == 0 && cut) compute_whole(scores);
    if (begin == 0 && !cut && n > 0) compute(0, tokens_.size(), scores);
  } else if (n > 0) {
    compute(begin, n, scores);
  }
  for (size_t r = 0; r < n; ++r) {
    const TokenTerms& term = out_.terms[tokens_.sample[begin + r]][tokens_.token[begin + r]];
    c[r] = term.c;
    ce[r] = term.ce;
  }
}

void MicroBatchObjective::keep_scores(const Scores& all) {
  for (size_t r = 0; r < tokens_.size(); ++r) {
    Scores& scores = out_.scores[tokens_.sample[r]];
    scores.log_probs[tokens_.token[r]] = all.log_probs[r];
    scores.entropy[tokens_.token[r]] = all.entropy[r];
  }
}

TokenInput MicroBatchObjective::input(size_t row, float log_prob, float entropy) const {
  const size_t i = tokens_.sample[row];
  check_finite(context_, batch_.samples[i], tokens_.token[row], log_prob, entropy,
               config_.train.temperature);
  return token_input(batch_.samples[i], batch_.targets[i], batch_.weight(i), tokens_.token[row],
                     log_prob, entropy);
}

/// Computes the terms of rows [begin, begin + n): of whole samples where these depend on them.
void MicroBatchObjective::compute(size_t begin, size_t n, const Scores& scores) {
  const RowCoordinates at{tokens_.ids.data() + begin, tokens_.positions.data() + begin};
  std::vector<TokenInput> in;
  for (size_t r = begin; r < begin + n; ++r) {
    in.push_back(input(r, scores.log_probs[r], scores.entropy[r]));
  }
  emit_targets(context_.runtime, in, batch_.global.has_reference, batch_.global.has_rollout, at);
  std::vector<TokenTerms> terms;
  for (size_t r = 0; r < n;) {
    size_t end = r + 1;
    while (end < n && tokens_.sample[begin + end] == tokens_.sample[begin + r]) ++end;
    const auto of_sample = sample_objective(objective_, std::span(in).subspan(r, end - r));
    terms.insert(terms.end(), of_sample.begin(), of_sample.end());
    r = end;
  }
  emit_terms(context_.runtime, terms, at);
  keep_terms(begin, terms);
}

/// Computes the terms of all tokens of the micro-batch's samples, wherever they were scored.
void MicroBatchObjective::compute_whole(const Scores& own) {
  std::vector<TokenResult> mine;
  for (size_t r = 0; r < tokens_.size(); ++r)
    mine.push_back({own.log_probs[r], own.entropy[r], {}});
  for_all_tokens(*context_.runtime.cp(), batch_.samples, first_, count_, config_.train.leaf,
                 std::span<const TokenResult>(mine),
                 [&](size_t sample, size_t token, const TokenResult& result) {
                   out_.scores[sample].log_probs[token] = result.log_prob;
                   out_.scores[sample].entropy[token] = result.entropy;
                 });
  for (size_t i = first_; i < first_ + count_; ++i) {
    const Sample& s = batch_.samples[i];
    const Scores& scores = out_.scores[i];
    for (size_t t = 0; t < scores.log_probs.size(); ++t) {
      check_finite(context_, s, t, scores.log_probs[t], scores.entropy[t],
                   config_.train.temperature);
    }
    out_.terms[i] =
        sample_objective(objective_, sample_input(s, batch_.targets[i], batch_.weight(i), scores));
  }
  const RowCoordinates at{tokens_.ids.data(), tokens_.positions.data()};
  std::vector<TokenInput> in;
  std::vector<TokenTerms> terms;
  for (size_t r = 0; r < tokens_.size(); ++r) {
    in.push_back(input(r, own.log_probs[r], own.entropy[r]));
    terms.push_back(out_.terms[tokens_.sample[r]][tokens_.token[r]]);
  }
  emit_targets(context_.runtime, in, batch_.global.has_reference, batch_.global.has_rollout, at);
  emit_terms(context_.runtime, terms, at);
}

void MicroBatchObjective::keep_terms(size_t begin, std::span<const TokenTerms> terms) {
  for (size_t r = 0; r < terms.size(); ++r) {
    out_.terms[tokens_.sample[begin + r]][tokens_.token[begin + r]] = terms[r];
  }
}

void gather_tokens(const Runtime& runtime, std::span<const Sample> samples, int64_t leaf,
                   StepResult& result) {
  Group* cp = runtime.cp();
  if (cp == nullptr) return;
  const ScoredTokens tokens =
      scored_tokens(samples, 0, samples.size(), leaf, cp->rank(), cp->size());
  std::vector<TokenResult> own;
  for (size_t r = 0; r < tokens.size(); ++r) {
    const size_t i = tokens.sample[r], t = tokens.token[r];
    own.push_back({result.scores[i].log_probs[t], result.scores[i].entropy[t], result.terms[i][t]});
  }
  for_all_tokens(*cp, samples, 0, samples.size(), leaf, std::span<const TokenResult>(own),
                 [&](size_t sample, size_t token, const TokenResult& of) {
                   result.scores[sample].log_probs[token] = of.log_prob;
                   result.scores[sample].entropy[token] = of.entropy;
                   result.terms[sample][token] = of.terms;
                 });
}

}  // namespace rlreplay::engine
