#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rlreplay::foreign {

/// The element types of torch tensors that a file may hold.
enum class TorchDType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint64,
  kUint32,
  kUint16,
  kUint8,
  kBool,
  kComplex128,
  kComplex64,
  kComplex32,
  kFloat8E4M3Fn,
  kFloat8E4M3Fnuz,
  kFloat8E5M2,
  kFloat8E5M2Fnuz,
  kFloat8E8M0Fnu,
  kFloat4E2M1FnX2,
};

/// torch's name, without the module: "bfloat16".
[[nodiscard]] std::string_view name(TorchDType dtype);

/// Units: bytes of an element.
[[nodiscard]] int64_t item_size(TorchDType dtype);

/// The type that torch calls torch.<name>.
[[nodiscard]] std::optional<TorchDType> dtype_named(std::string_view name);

/// Torch's storage class for it ("BFloat16Storage"); empty where only untyped storages hold it.
[[nodiscard]] std::string_view storage_class(TorchDType dtype);

/// The element type of the storage class torch.<name> ("BFloat16Storage").
[[nodiscard]] std::optional<TorchDType> dtype_of_storage(std::string_view name);

}  // namespace rlreplay::foreign
