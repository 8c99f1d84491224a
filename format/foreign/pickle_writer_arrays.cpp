// The part of PickleWriter that writes tensors and arrays as torch and numpy do.
#include "format/foreign/pickle_opcodes.h"
#include "format/foreign/pickle_writer.h"

namespace rlreplay::foreign {

void PickleWriter::put_dims(const std::vector<int64_t>& dims) {
  op(kMark);
  for (const int64_t dim : dims) put_integer(dim);
  op(kTuple);
}

void PickleWriter::put_ordered_dict() {
  put_global("collections", "OrderedDict");
  op(kEmptyTuple);
  op(kReduce);
}

void PickleWriter::put_storage(const Tensor& tensor, const std::string& key) {
  const std::string_view storage = storage_class(tensor.dtype);
  put_known_text("storage");
  if (storage.empty()) {
    put_global("torch.storage", "UntypedStorage");
  } else {
    put_global("torch", storage);
  }
  put_text(key);
  put_known_text(tree_.storage(tensor).location);
  put_integer(storage.empty() ? tensor.count * item_size(tensor.dtype) : tensor.count);
  // A mark lies below the five.
  op(kTuple);
  op(kBinPersId);
}

/// A tensor's content alone, whatever storage it was a window of: contiguous, without offset.
void PickleWriter::put_tensor(Value value, const std::string* place) {
  const Tensor& tensor = tree_.tensor(value);
  const bool typed = !storage_class(tensor.dtype).empty();
  if (tensor.parameter) put_global("torch._utils", "_rebuild_parameter");
  put_global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  op(kMark);
  op(kMark);
  put_storage(tensor, place != nullptr ? *place : std::to_string(records_.size()));
  if (place == nullptr) records_.push_back(value);
  put_integer(0);
  put_dims(tensor.shape);
  std::vector<int64_t> stride(tensor.shape.size(), 1);
  for (size_t d = stride.size(); d-- > 1;) {
    stride[d - 1] = stride[d] * (tensor.shape[d] > 0 ? tensor.shape[d] : 1);
  }
  put_dims(stride);
  op(tensor.requires_grad && !tensor.parameter ? kNewTrue : kNewFalse);
  put_ordered_dict();
  if (!typed) put_global("torch", name(tensor.dtype));
  op(kTuple);
  op(kReduce);
  if (!tensor.parameter) return;
  op(tensor.requires_grad ? kNewTrue : kNewFalse);
  put_ordered_dict();
  op(kTuple3);
  op(kReduce);
}

void PickleWriter::put_array_dtype(const ArrayDType& dtype) {
  const int64_t items = dtype.kind == 'U' ? dtype.size / 4 : dtype.size;
  put_global("numpy", "dtype");
  put_known_text(std::string(1, dtype.kind) + std::to_string(items));
  op(kNewFalse);
  op(kNewTrue);
  op(kTuple3);
  op(kReduce);
  const bool text = dtype.kind == 'U' || dtype.kind == 'S';
  op(kMark);
  put_integer(3);
  put_known_text({&dtype.order, 1});
  for (int i = 0; i < 3; ++i) op(kNone);
  put_integer(text ? dtype.size : -1);
  put_integer(!text ? -1 : dtype.kind == 'U' ? 4 : 1);
  put_integer(dtype.kind == 'U' ? 8 : 0);
  op(kTuple);
  op(kBuild);
}

/// Under numpy 1's module name, which numpy 2 knows as well.
void PickleWriter::put_array(Value value) {
  const Array& array = tree_.array(value);
  if (value.kind == Kind::kScalar) {
    put_global("numpy.core.multiarray", "scalar");
    put_array_dtype(array.dtype);
    put_bytes(as_text(array.data));
    op(kTuple2);
    return op(kReduce);
  }
  put_global("numpy.core.multiarray", "_reconstruct");
  put_global("numpy", "ndarray");
  put_dims({0});
  put_bytes("b");
  op(kTuple3);
  op(kReduce);
  op(kMark);
  put_integer(1);
  put_dims(array.shape);
  put_array_dtype(array.dtype);
  op(kNewFalse);
  put_bytes(as_text(array.data));
  op(kTuple);
  op(kBuild);
}

}  // namespace rlreplay::foreign
