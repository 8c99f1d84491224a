#include "src/replay/exchange/rollout_columns.h"

#include <algorithm>
#include <set>
#include <utility>

#include <malloc.h>

#include "format/foreign/numbers.h"
#include "format/foreign/text.h"
#include "src/replay/exchange/cell.h"

namespace rlreplay::replay {
namespace {

using foreign::Kind;
using foreign::Numbers;
using foreign::Sequence;
using foreign::Value;
using format::Presence;
using format::RolloutData;
using format::Texts;

constexpr size_t kFreedShare = size_t{64} << 20;  // bytes
constexpr size_t kReadShare = size_t{16} << 20;
constexpr size_t kReadAround = size_t{64} << 10;  // what comes into memory with a byte of a file

/// Frees lists, and hands their memory back to the system a share at a time: malloc keeps what was
/// many small pieces.
class Freer {
 public:
  void free(Sequence& list) {
    kept_ += list.bytes();
    list.clear();
    if (kept_ >= kFreedShare) hand_back();
  }

  void hand_back() {
    ::malloc_trim(0);
    kept_ = 0;
  }

 private:
  size_t kept_ = 0;
};

/// Moves lists of tokens out of a file's tree into columns, row by row, and frees each list that
/// was read for the last time: a rollout is in memory about once. `begin` takes all room for
/// columns beforehand.
class Mover {
 public:
  Mover(foreign::TorchFile& file, const foreign::RolloutFile& batch, std::span<const size_t> order,
        const std::string& owner, RolloutData& data, foreign::Replacements& replacements)
      : file_(file),
        tree_(file.tree()),
        batch_(batch),
        samples_(tree_.sequence(*tree_.find(file.root(), "samples"))),
        order_(order),
        owner_(owner),
        data_(data),
        replacements_(replacements),
        uses_(tree_.uses(file.root())) {}

  void run() {
    begin();
    for (size_t row = 0; row < order_.size(); ++row) {
      add_tokens(row);
      if (data_.log_probs && wide_) {
        add_response(data_.log_probs->wide, batch_.log_probs, "log_probs", row);
      } else if (data_.log_probs) {
        add_response(data_.log_probs->narrow, batch_.log_probs, "log_probs", row);
      }
      if (data_.loss_mask) {
        add_response(data_.loss_mask->values, batch_.loss_mask, "loss_mask", row);
      }
    }
    freer_.hand_back();
    for (const Moved& list : moved_) note(list.value, list.dataset, list.row);
    keep_presence(data_.log_probs, presence_of(batch_.log_probs));
    keep_presence(data_.loss_mask, presence_of(batch_.loss_mask));
    data_.prompt_text = texts("prompt", "prompt_text");
    data_.response_text = texts("response", "response_text");
    data_.label_text = texts("label", {});
    file_.release();
  }

 private:
  struct Moved {
    Value value;
    std::string_view dataset;
    size_t row;
  };

  static bool is_present(Value value) { return value.kind != Kind::kNone; }

  Presence presence_of(const std::vector<Value>& column) const {
    Presence presence;
    for (const size_t i : order_) presence.push_back(is_present(column[i]) ? 1 : 0);
    return presence;
  }

  /// Room for all values at once: it takes no memory before they are there. And nothing else is
  /// allocated while lists are freed: malloc would sort them all again and again.
  void begin() {
    const size_t total = batch_.offsets.back();
    moved_.reserve(3 * order_.size());
    data_.offsets.reserve(order_.size() + 1);
    data_.tokens.reserve(total);
    data_.prompt_length.emplace().reserve(order_.size());
    if (std::ranges::any_of(batch_.log_probs, is_present)) {
      wide_ = std::ranges::any_of(batch_.log_probs, [&](Value value) {
        return is_present(value) && !Numbers::of(tree_, value)->is_narrow();
      });
      format::TokenFloats& column = data_.log_probs.emplace();
      wide_ ? column.wide.reserve(total) : column.narrow.reserve(total);
    }
    if (std::ranges::any_of(batch_.loss_mask, is_present)) {
      data_.loss_mask.emplace().values.reserve(total);
    }
  }

  size_t response(size_t i) const { return static_cast<size_t>(batch_.response_lengths[i]); }
  size_t prompt(size_t i) const { return batch_.offsets[i + 1] - batch_.offsets[i] - response(i); }

  void add_tokens(size_t row) {
    const size_t i = order_[row];
    move(batch_.tokens[i], data_.tokens, "tokens", row);
    data_.offsets.push_back(data_.tokens.size());
    data_.prompt_length->push_back(static_cast<uint32_t>(prompt(i)));
  }

  template <class T>
  void add_response(std::vector<T>& to, const std::vector<Value>& column, std::string_view dataset,
                    size_t row) {
    const size_t i = order_[row];
    to.resize(to.size() + prompt(i));
    if (is_present(column[i])) {
      move(column[i], to, dataset, row);
    } else {
      to.resize(to.size() + response(i));
    }
  }

  template <class T>
  void move(Value value, std::vector<T>& to, std::string_view dataset, size_t row) {
    const size_t begin = to.size();
    Numbers::of(tree_, value)->for_each_piece([&](auto piece) {
      const size_t at = to.size();
      to.resize(at + piece.size());
      std::transform(piece.begin(), piece.end(), to.begin() + static_cast<ptrdiff_t>(at),
                     [](auto number) { return static_cast<T>(number); });
      return true;
    });
    const Cell cell = std::span<const T>(to).subspan(begin);
    if (value.kind != Kind::kList || !holds(tree_, value, cell)) return;
    moved_.push_back({value, dataset, row});
    const bool alone = uses_[value.index] == 1 && uses_[samples_[order_[row]].index] == 1;
    if (alone) freer_.free(tree_.sequence(value));
  }

  void note(Value value, std::string_view dataset, size_t row) {
    replacements_.emplace(foreign::part_key(value),
                          owner_ + "/" + std::string(dataset) + "/" + std::to_string(row));
  }

  const Value* text(size_t i, std::string_view key) const {
    const Value* value = tree_.find(samples_[i], key);
    return value == nullptr || value->kind != Kind::kText ? nullptr : value;
  }

  /// `dataset` is empty where the file's own texts are kept.
  std::optional<Texts> texts(std::string_view key, std::string_view dataset) {
    std::optional<Texts> made(std::in_place);
    Presence presence;
    size_t total = 0;
    for (const size_t i : order_) {
      if (const Value* value = text(i, key)) total += tree_.text(*value).size();
    }
    made->bytes.reserve(total);
    size_t read = 0;
    for (size_t row = 0; row < order_.size(); ++row) {
      const Value* value = text(order_[row], key);
      const bool present = value != nullptr && !foreign::has_surrogates(tree_.text(*value));
      presence.push_back(present ? 1 : 0);
      made->add(present ? tree_.text(*value) : std::string_view());
      if (present && !dataset.empty()) note(*value, dataset, row);
      read += made->bytes.size() - made->offsets[row] + kReadAround;
      if (read < kReadShare) continue;
      file_.release();
      read = 0;
    }
    keep_presence(made, std::move(presence));
    return made;
  }

  foreign::TorchFile& file_;
  foreign::Tree& tree_;
  const foreign::RolloutFile& batch_;
  const Sequence& samples_;
  std::span<const size_t> order_;
  const std::string& owner_;
  RolloutData& data_;
  foreign::Replacements& replacements_;
  std::vector<uint32_t> uses_;
  std::vector<Moved> moved_;
  bool wide_ = false;  // log_probs are binary64
  Freer freer_;
};

}  // namespace

std::optional<format::Column<uint64_t>> shared_ids(std::span<const size_t> rows,
                                                   const std::vector<std::optional<int64_t>>& ids) {
  std::optional<format::Column<uint64_t>> out(std::in_place);
  Presence presence;
  std::set<int64_t> seen;
  bool shared = false;
  for (const size_t i : rows) {
    presence.push_back(ids[i] ? 1 : 0);
    out->values.push_back(static_cast<uint64_t>(ids[i].value_or(0)));
    shared = shared || (ids[i] && !seen.insert(*ids[i]).second);
  }
  if (!shared) return std::nullopt;
  keep_presence(out, std::move(presence));
  return out;
}

void move_columns(foreign::TorchFile& file, const foreign::RolloutFile& batch,
                  std::span<const size_t> order, const std::string& owner, RolloutData& data,
                  foreign::Replacements& replacements) {
  Mover(file, batch, order, owner, data, replacements).run();
}

}  // namespace rlreplay::replay
