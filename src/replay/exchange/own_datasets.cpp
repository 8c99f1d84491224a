#include "src/replay/exchange/own_datasets.h"

#include <algorithm>
#include <memory>
#include <set>

#include "format/dataset_copy.h"
#include "format/foreign/numbers.h"
#include "format/foreign/tensor_content.h"
#include "format/foreign/tree_difference.h"
#include "format/meaning.h"
#include "format/unit_writer.h"
#include "src/base/buffer.h"
#include "src/base/error.h"
#include "src/base/found_text.h"
#include "src/base/printable.h"
#include "src/base/thread_pool.h"
#include "src/replay/exchange/dicts.h"

namespace rlreplay::replay {
namespace {

using foreign::in_words;
using foreign::Kind;
using foreign::Tree;
using foreign::Value;
using format::Dataset;

Value attributes_value(Dicts& dicts, const format::h5::Attributes& attributes) {
  const Value made = dicts.make();
  for (const auto& [name, attribute] : attributes) {
    if (const auto* text = std::get_if<std::string>(&attribute)) {
      dicts.set(made, name, dicts.text(*text));
    } else {
      dicts.set(made, name, dicts.integers(std::get<std::vector<uint64_t>>(attribute)));
    }
  }
  return made;
}

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, "a dataset below `rlreplay` " + what);
}

const Value& need(const Tree& tree, Value dict, const char* key) {
  const Value* value = dict.kind == Kind::kDict ? tree.find(dict, key) : nullptr;
  if (value == nullptr) corrupt(std::string("has no ") + key);
  return *value;
}

std::vector<uint64_t> counts(const Tree& tree, Value value) {
  const auto numbers = foreign::Numbers::of(tree, value);
  if (!numbers || !numbers->is_integer()) {
    corrupt("has sizes that are no integers: found " + in_words(tree, value));
  }
  std::vector<uint64_t> out;
  for (size_t i = 0; i < numbers->size(); ++i) {
    if (numbers->integer(i) < 0) {
      corrupt("has a negative size, " + std::to_string(numbers->integer(i)));
    }
    out.push_back(static_cast<uint64_t>(numbers->integer(i)));
  }
  return out;
}

std::string text(const Tree& tree, Value value) {
  if (value.kind != Kind::kText)
    corrupt("has a name that is no text: found " + in_words(tree, value));
  return std::string(tree.text(value));
}

format::h5::Attributes attributes_of(const Tree& tree, Value dict) {
  format::h5::Attributes out;
  if (dict.kind != Kind::kDict) {
    corrupt("has attributes that are no dict: found " + in_words(tree, dict));
  }
  const auto items = tree.sequence(dict).values();  // key, value, key, value
  for (size_t i = 0; i < items.size(); i += 2) {
    const std::string name = text(tree, items[i]);
    if (items[i + 1].kind == Kind::kText) {
      out[name] = text(tree, items[i + 1]);
    } else {
      out[name] = counts(tree, items[i + 1]);
    }
  }
  return out;
}

/// What anybody may have edited: each part is held to what the format allows.
Dataset dataset(const Tree& tree, Value dict, const std::string& group) {
  Dataset out;
  out.path = group + "/" + text(tree, need(tree, dict, "name"));
  if (!format::sound_dataset_path(out.path)) corrupt("has a bad name, " + printable(out.path));
  const std::string type = text(tree, need(tree, dict, "dtype"));
  const auto dtype = dtype_from_string(type);
  if (!dtype) corrupt("has an unknown type, " + printable(type));
  out.dtype = *dtype;
  out.shape = counts(tree, need(tree, dict, "shape"));
  out.attributes = attributes_of(tree, need(tree, dict, "attributes"));
  const Value data = need(tree, dict, "data");
  if (data.kind != Kind::kTensor) corrupt("has no tensor: found " + in_words(tree, data));
  std::vector<uint8_t> scratch;
  const foreign::Bytes bytes = contiguous_content(tree, tree.tensor(data), scratch);
  auto owner = std::make_shared<const std::vector<uint8_t>>(bytes.begin(), bytes.end());
  const auto elements = format::elements_of(out.shape);
  if (!elements || owner->size() / size_of(out.dtype) != *elements ||
      owner->size() % size_of(out.dtype) != 0) {
    corrupt(found_text("has another size than its shape says",
                       std::to_string(owner->size()) + " bytes",
                       format::shape_text(out.shape) + " of " + std::to_string(size_of(out.dtype)) +
                           " bytes each"));
  }
  out.bytes = std::as_bytes(std::span<const uint8_t>(*owner));
  out.owner = owner;
  return out;
}

/// Which of the list it is, for an error: " (at place 3 of the list, 'tokens')".
std::string which_of(const Tree& tree, Value dict, size_t place) {
  const Value* name = dict.kind == Kind::kDict ? tree.find(dict, "name") : nullptr;
  return " (at place " + std::to_string(place) + " of the list" +
         (name == nullptr ? "" : ", " + in_words(tree, *name)) + ")";
}

}  // namespace

std::vector<Dataset> read_datasets(const format::DumpReader& dump, const format::UnitReader& unit,
                                   const std::string& group, const WantedName& wanted) {
  std::vector<Dataset> out;
  for (const format::StoredDataset& stored : unit.datasets()) {
    if (!stored.path.starts_with(group + "/")) continue;
    if (!wanted(stored.path.substr(group.size() + 1))) continue;
    out.push_back(format::copy_of(dump, unit, stored));
  }
  return out;
}

Value add_own_datasets(Tree& tree, std::span<const Dataset> datasets, const std::string& group) {
  Dicts dicts(tree);
  const Value list = tree.add_sequence(Kind::kList);
  for (const Dataset& dataset : datasets) {
    const Value made = dicts.make();
    dicts.set(made, "name", dicts.text(dataset.path.substr(group.size() + 1)));
    dicts.set(made, "dtype", dicts.text(std::string(to_string(dataset.dtype))));
    dicts.set(made, "shape", dicts.integers(dataset.shape));
    dicts.set(made, "attributes", attributes_value(dicts, dataset.attributes));
    std::string copy(reinterpret_cast<const char*>(dataset.bytes.data()), dataset.bytes.size());
    dicts.set(made, "data", dicts.tensor(foreign::TorchDType::kUint8, std::move(copy)));
    tree.sequence(list).append({&made, 1}, true);
  }
  return list;
}

std::vector<Dataset> read_own_datasets(const Tree& tree, Value list, const std::string& group) {
  std::vector<Dataset> out;
  std::set<std::string> seen;
  if (list.kind != Kind::kList) corrupt("is in no list: found " + in_words(tree, list));
  const foreign::Sequence& items = tree.sequence(list);
  for (size_t i = 0; i < items.size(); ++i) {
    try {
      out.push_back(dataset(tree, items[i], group));
      if (!seen.insert(out.back().path).second) corrupt("is there twice");
    } catch (const Error& error) {
      throw Error(error.code(), error.what() + which_of(tree, items[i], i), error.where());
    }
  }
  return out;
}

void check_with_own(const std::string& unit, std::span<const Dataset> datasets) {
  ThreadPool pool(1);
  format::UnitWriter writer(unit, pool);
  for (const Dataset& dataset : datasets) writer.add(dataset);
  const format::EncodedUnit encoded = writer.finish();
  Buffer<std::byte> image(encoded.image.bytes().size());
  std::ranges::copy(encoded.image.bytes(), image.data());
  std::vector<format::Problem> problems;
  check_meaning(format::UnitReader::open(std::move(image), encoded.record, pool), problems);
  if (problems.empty()) return;
  throw Error(ErrorCode::kCorrupt,
              "what an export of this program put beside the framework's columns has been changed, "
              "and a dump with it would be damaged: " +
                  problems.front().message + "; export it again",
              problems.front().dataset);
}

const Value* find_own(const Tree& tree, Value root, std::string_view key) {
  const Value* own = root.kind == Kind::kDict ? tree.find(root, "rlreplay") : nullptr;
  return own == nullptr || own->kind != Kind::kDict ? nullptr : tree.find(*own, key);
}

}  // namespace rlreplay::replay
