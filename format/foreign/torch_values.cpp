#include "format/foreign/torch_values.h"

#include <algorithm>
#include <string>

#include "format/foreign/text.h"
#include "format/foreign/tree_difference.h"
#include "src/base/found_text.h"
#include "src/base/words.h"

namespace rlreplay::foreign {
namespace {

constexpr size_t kMaxDims = 64;
constexpr uint64_t kKnownEntry = 64;   // bytes, of a map's node
constexpr int64_t kMaxExpansion = 64;  // logical bytes for each byte of the storage
constexpr int64_t kSmallTensor = int64_t{16} << 20;

int64_t to_int(const Tree& tree, Value value, const char* what) {
  if (value.kind != Kind::kInt) corrupt(unlike_text(tree, what, &value, "not an integer"));
  return value.integer;
}

std::vector<int64_t> dims(const Tree& tree, Value value, const char* what) {
  if (value.kind != Kind::kTuple && value.kind != Kind::kTorchSize) {
    corrupt(unlike_text(tree, what, &value, "not a tuple"));
  }
  const std::span<const Value> items = tree.sequence(value).values();
  if (items.size() > kMaxDims) {
    corrupt("a tensor of " + std::to_string(items.size()) + " dimensions; at most " +
            std::to_string(kMaxDims) + " are possible");
  }
  std::vector<int64_t> out;
  for (const Value item : items) {
    out.push_back(to_int(tree, item, what));
    if (out.back() < 0) corrupt(std::string(what) + " is negative");
  }
  return out;
}

/// The number of elements. Errors: kCorrupt where it overflows.
int64_t count_elements(const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) corrupt("a tensor's shape overflows");
  }
  return count;
}

/// The largest element that the window touches must lie in the storage.
void check_window(const Tensor& tensor, int64_t available) {
  if (tensor.offset < 0) {
    corrupt("a tensor's offset is negative, " + std::to_string(tensor.offset));
  }
  if (tensor.count == 0) return;
  int64_t last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.stride[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      corrupt("a tensor's strides overflow");
    }
  }
  if (last >= available) {
    corrupt("a tensor reaches element " + std::to_string(last) + " of a storage of " +
            std::to_string(available));
  }
}

void check_expansion(const Tensor& tensor, const Storage& storage) {
  int64_t bytes = 0;
  const auto stored = static_cast<int64_t>(storage.data.size());
  const int64_t allowed = std::max(kSmallTensor, stored * kMaxExpansion);
  if (__builtin_mul_overflow(tensor.count, item_size(tensor.dtype), &bytes) || bytes > allowed) {
    corrupt("a tensor of " + std::to_string(tensor.count) + " elements is expanded from " +
            std::to_string(stored) + " bytes; at most " + std::to_string(kMaxExpansion) +
            " times the storage is accepted");
  }
}

void check_hooks(const Tree& tree, Value hooks) {
  const bool none = hooks.kind == Kind::kNone ||
                    (hooks.kind == Kind::kOrderedDict && tree.sequence(hooks).size() == 0);
  if (!none) throw Error(ErrorCode::kUnsupported, "a tensor carries backward hooks");
}

void check_metadata(const Tree& tree, Value metadata) {
  const bool none = metadata.kind == Kind::kNone ||
                    (metadata.kind == Kind::kDict && tree.sequence(metadata).size() == 0);
  if (!none) {
    throw Error(ErrorCode::kUnsupported,
                "a tensor carries metadata (a conjugate or negative view)");
  }
}

bool to_bool(const Tree& tree, Value value, const char* what) {
  if (value.kind != Kind::kBool) corrupt(unlike_text(tree, what, &value, "not a bool"));
  return value.boolean;
}

}  // namespace

Value TorchValues::persistent(Value id) {
  if (id.kind != Kind::kTuple) return storage(id);
  const std::span<const Value> items = tree_.sequence(id).values();
  if (items.size() != 2 || items[0].kind != Kind::kText || items[1].kind != Kind::kText) {
    return storage(id);
  }
  const std::string_view place = tree_.text(items[1]);
  const std::optional<Value> value = records_.value(tree_.text(items[0]), place, tree_);
  if (!value) corrupt("there is nothing at " + printable(place));
  return *value;
}

Value TorchValues::storage(Value id) {
  if (id.kind != Kind::kTuple) corrupt(unlike_text(tree_, "a persistent id", &id, "not a tuple"));
  const std::span<const Value> items = tree_.sequence(id).values();
  if (items.size() != 5) {
    corrupt("a persistent id does not have five parts, but " + std::to_string(items.size()));
  }
  if (items[0].kind != Kind::kText || items[1].kind != Kind::kGlobal ||
      items[2].kind != Kind::kText || items[3].kind != Kind::kText) {
    corrupt("a persistent id is not ('storage', class, key, location, count): found " +
            row_in_words(tree_, items));
  }
  if (tree_.text(items[0]) != "storage") {
    throw Error(ErrorCode::kUnsupported,
                "a persistent id of kind " + printable(tree_.text(items[0])));
  }
  const Global& type = tree_.global(items[1]);
  if (type.role != Role::kTypedStorage && type.role != Role::kUntypedStorage) {
    corrupt("a persistent id names " + type.module + "." + type.name + " as a storage's class");
  }
  Storage made;
  made.key = tree_.text(items[2]);
  made.location = tree_.text(items[3]);
  made.count = to_int(tree_, items[4], "the number of elements of a storage");
  made.untyped = type.role == Role::kUntypedStorage;
  made.dtype = made.untyped ? TorchDType::kUint8 : type.dtype;
  // Each tensor on a storage describes it again: all must say the same, or one could see beyond it.
  const auto known = known_.find(made.key);
  if (known != known_.end()) {
    const Value again = Value::node(Kind::kStorage, known->second);
    const Storage& first = tree_.storage(again);
    if (first.untyped != made.untyped || first.dtype != made.dtype || first.count != made.count) {
      corrupt("storage " + printable(made.key) + " is described in two ways");
    }
    return again;
  }
  const std::optional<Bytes> record = records_.record(made.key);
  if (!record) corrupt("storage " + printable(made.key) + " is not in the archive");
  int64_t bytes = 0;
  if (made.count < 0 || __builtin_mul_overflow(made.count, item_size(made.dtype), &bytes) ||
      static_cast<uint64_t>(bytes) != record->size()) {
    corrupt("storage " + printable(made.key) + " should hold " + std::to_string(made.count) +
            " elements of " + std::string(name(made.dtype)) + ", its record has " +
            std::to_string(record->size()) + " bytes");
  }
  made.data = *record;
  tree_.hold(kKnownEntry);
  const Value value = tree_.add_storage(made);
  known_.emplace(made.key, value.index);
  return value;
}

Value TorchValues::tensor(std::span<const Value> args, int version) {
  const size_t wanted = version == 3 ? 7 : 6;
  if (args.size() != wanted && args.size() != wanted + 1) {
    corrupt(found_text("a tensor is rebuilt from other arguments", std::to_string(args.size()),
                       std::to_string(wanted) + " or " + std::to_string(wanted + 1)));
  }
  if (args[0].kind != Kind::kStorage)
    corrupt(unlike_text(tree_, "a tensor's storage", &args[0], "not a storage"));
  const Storage& storage = tree_.storage(args[0]);
  Tensor made;
  made.storage = args[0].index;
  made.dtype = storage.dtype;
  if (version == 3) {
    if (args[6].kind != Kind::kGlobal || tree_.global(args[6]).role != Role::kTorchDType) {
      corrupt(unlike_text(tree_, "a tensor's dtype", &args[6], "not a dtype"));
    }
    made.dtype = tree_.global(args[6]).dtype;
    if (!storage.untyped) corrupt("a tensor with its own dtype lies in a typed storage");
  }
  made.offset = to_int(tree_, args[1], "a tensor's offset");
  made.shape = dims(tree_, args[2], "a tensor's size");
  made.stride = dims(tree_, args[3], "a tensor's stride");
  if (made.shape.size() != made.stride.size()) {
    corrupt("a tensor has " + counted(made.shape.size(), "size") + " and " +
            counted(made.stride.size(), "stride") + ", expected as many");
  }
  made.requires_grad = to_bool(tree_, args[4], "requires_grad");
  check_hooks(tree_, args[5]);
  if (args.size() == wanted + 1) check_metadata(tree_, args[wanted]);
  made.count = count_elements(made.shape);
  check_window(made, static_cast<int64_t>(storage.data.size()) / item_size(made.dtype));
  check_expansion(made, storage);
  return tree_.add_tensor(std::move(made));
}

Value TorchValues::parameter(std::span<const Value> args) {
  if (args.size() != 3 || args[0].kind != Kind::kTensor) {
    corrupt("a parameter is not rebuilt from (tensor, requires_grad, hooks): found " +
            row_in_words(tree_, args));
  }
  Tensor made = tree_.tensor(args[0]);
  made.requires_grad = to_bool(tree_, args[1], "requires_grad");
  made.parameter = true;
  check_hooks(tree_, args[2]);
  return tree_.add_tensor(std::move(made));
}

}  // namespace rlreplay::foreign
