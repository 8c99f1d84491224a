#include "src/task/bpe.h"

#include <algorithm>
#include <string>

#include "src/base/error.h"

namespace rlreplay {
namespace {

constexpr size_t kShort = 32;  // up to here scanning all ranks beats a heap
constexpr uint32_t kNone = UINT32_MAX;

uint64_t key_of(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t slot_of(uint64_t key, size_t slots) {
  return static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 20) & (slots - 1);
}

bool later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids) {
  size_t slots = 16;
  while (slots < 2 * merges.size()) slots *= 2;
  table_.resize(slots);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t key = key_of(merge.left, merge.right);
    size_t i = slot_of(key, slots);
    while (table_[i].key != kEmpty && table_[i].key != key) i = (i + 1) & (slots - 1);
    table_[i] = {key, static_cast<uint32_t>(rank), merge.merged};
  }
}

const Bpe::Slot* Bpe::find(TokenId left, TokenId right) const {
  const uint64_t key = key_of(left, right);
  size_t i = slot_of(key, table_.size());
  while (table_[i].key != kEmpty) {
    if (table_[i].key == key) return &table_[i];
    i = (i + 1) & (table_.size() - 1);
  }
  return nullptr;
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  scratch.ids.clear();
  for (const char byte : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(byte)];
    if (id < 0) {
      throw Error(ErrorCode::kUnsupported, "the text holds byte " +
                                               std::to_string(static_cast<uint8_t>(byte)) +
                                               ", for which the vocabulary has no token");
    }
    scratch.ids.push_back(id);
  }
  if (word.size() <= kShort) {
    encode_short(scratch);
  } else {
    encode_long(scratch);
  }
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
}

void Bpe::encode_short(Scratch& scratch) const {
  auto& ids = scratch.ids;
  auto& ranks = scratch.ranks;  // of the merge of i and i + 1
  const auto rank_at = [&](size_t i) {
    if (i + 1 >= ids.size()) return kNoMerge;
    const Slot* slot = find(ids[i], ids[i + 1]);
    return slot ? slot->rank : kNoMerge;
  };
  ranks.resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) ranks[i] = rank_at(i);
  while (ids.size() > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNoMerge) break;
    const auto i = static_cast<size_t>(best - ranks.begin());
    ids[i] = find(ids[i], ids[i + 1])->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks[i] = rank_at(i);
    if (i > 0) ranks[i - 1] = rank_at(i - 1);
  }
}

void Bpe::push_candidate(Scratch& s, uint32_t position) const {
  const uint32_t next = s.next[position];
  if (next == kNone) return;
  const Slot* slot = find(s.ids[position], s.ids[next]);
  if (slot == nullptr) return;
  s.heap.push_back({slot->rank, position, s.ids[position], s.ids[next], slot->merged});
  std::push_heap(s.heap.begin(), s.heap.end(), later);
}

/// A linked list of tokens and a heap of merges; a merge whose neighbours have changed since it was
/// found is dropped when it comes up.
void Bpe::encode_long(Scratch& s) const {
  const auto count = static_cast<uint32_t>(s.ids.size());
  s.previous.resize(count);
  s.next.resize(count);
  s.heap.clear();
  for (uint32_t i = 0; i < count; ++i) {
    s.previous[i] = i == 0 ? kNone : i - 1;
    s.next[i] = i + 1 == count ? kNone : i + 1;
  }
  for (uint32_t i = 0; i < count; ++i) push_candidate(s, i);
  while (!s.heap.empty()) {
    std::pop_heap(s.heap.begin(), s.heap.end(), later);
    const Scratch::Candidate top = s.heap.back();
    s.heap.pop_back();
    const uint32_t gone = s.next[top.position];
    if (s.ids[top.position] != top.left || gone == kNone || s.ids[gone] != top.right) continue;
    s.ids[top.position] = top.merged;
    s.ids[gone] = -1;
    s.next[top.position] = s.next[gone];
    if (s.next[gone] != kNone) s.previous[s.next[gone]] = top.position;
    push_candidate(s, top.position);
    if (s.previous[top.position] != kNone) push_candidate(s, s.previous[top.position]);
  }
  std::erase(s.ids, -1);
}

}  // namespace rlreplay
