#include "format/foreign/pickle_globals.h"

#include <algorithm>
#include <array>
#include <string>

#include "format/foreign/text.h"

namespace rlreplay::foreign {
namespace {

struct KnownGlobal {
  std::string_view module;
  std::string_view name;
  Role role;
};

constexpr auto kGlobals = std::to_array<KnownGlobal>({
    {"collections", "OrderedDict", Role::kOrderedDict},
    {"builtins", "bytes", Role::kBytes},
    {"builtins", "bytearray", Role::kByteArray},
    {"builtins", "complex", Role::kComplex},
    {"builtins", "set", Role::kSet},
    {"builtins", "frozenset", Role::kFrozenSet},
    {"builtins", "slice", Role::kSlice},
    {"builtins", "range", Role::kRange},
    {"builtins", "xrange", Role::kRange},
    {"builtins", "getattr", Role::kGetattr},
    {"_codecs", "encode", Role::kEncode},
    {"torch", "Size", Role::kTorchSize},
    {"torch", "device", Role::kTorchDevice},
    {"torch.storage", "UntypedStorage", Role::kUntypedStorage},
    {"torch", "UntypedStorage", Role::kUntypedStorage},
    {"torch._utils", "_rebuild_tensor_v2", Role::kTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", Role::kTensorV3},
    {"torch._utils", "_rebuild_parameter", Role::kParameter},
    {"numpy", "ndarray", Role::kArrayClass},
    {"numpy", "dtype", Role::kArrayDType},
    {"numpy._core.multiarray", "_reconstruct", Role::kArrayReconstruct},
    {"numpy._core.multiarray", "scalar", Role::kArrayScalar},
    {"numpy._core.numeric", "_frombuffer", Role::kArrayFromBuffer},
});

// Classes of the training frameworks' own data. An object of one is its attributes.
constexpr auto kClassModules = std::to_array<std::string_view>(
    {"slime.utils.types", "miles.utils.types", "relax.utils.types"});
constexpr auto kClasses = std::to_array<KnownGlobal>({
    {"", "Sample", Role::kDataClass},
    {"", "Sample.SpecInfo", Role::kDataClass},
    {"", "Sample.PrefixCacheInfo", Role::kDataClass},
    {"", "Sample.Status", Role::kEnumClass},
    {"", "ParamInfo", Role::kDataClass},
    {"", "AdapterRef", Role::kDataClass},
    {"", "RewardSpec", Role::kDataClass},
});

// Data all the same, but of a form that this reader has no place for.
constexpr auto kUnsupported = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"torch._utils", "_rebuild_sparse_tensor"},
    {"torch._utils", "_rebuild_sparse_csr_tensor"},
    {"torch._utils", "_rebuild_nested_tensor"},
    {"torch._utils", "_rebuild_qtensor"},
    {"torch._utils", "_rebuild_meta_tensor_no_storage"},
    {"torch._utils", "_rebuild_parameter_with_state"},
    {"torch._utils", "_rebuild_device_tensor_from_numpy"},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor"},
    {"torch._utils", "_rebuild_wrapper_subclass"},
    {"torch._tensor", "_rebuild_from_type_v2"},
    {"torch.serialization", "_get_layout"},
});

/// One spelling for modules that were renamed.
std::string_view canonical(std::string_view module) {
  if (module == "__builtin__") return "builtins";
  if (module == "numpy.core.multiarray") return "numpy._core.multiarray";
  if (module == "numpy.core.numeric") return "numpy._core.numeric";
  return module;
}

bool looks_like_dtype(std::string_view name) {
  constexpr auto kFamilies = std::to_array<std::string_view>(
      {"float", "bfloat", "int", "uint", "complex", "bool", "quint", "qint", "bits"});
  return std::any_of(kFamilies.begin(), kFamilies.end(),
                     [&](std::string_view family) { return name.starts_with(family); });
}

bool is_unsupported(std::string_view module, std::string_view name) {
  if (module == "torch") return name.ends_with("Storage") || looks_like_dtype(name);
  return std::any_of(kUnsupported.begin(), kUnsupported.end(),
                     [&](const auto& row) { return row.first == module && row.second == name; });
}

}  // namespace

Global find_global(std::string_view module, std::string_view name) {
  const std::string_view canonical_module = canonical(module);
  for (const KnownGlobal& row : kGlobals) {
    if (row.module == canonical_module && row.name == name) {
      return {std::string(canonical_module), std::string(name), row.role};
    }
  }
  if (std::find(kClassModules.begin(), kClassModules.end(), module) != kClassModules.end()) {
    for (const KnownGlobal& row : kClasses) {
      if (row.name == name) return {std::string(module), std::string(name), row.role};
    }
  }
  if (module == "torch") {
    if (const auto dtype = dtype_of_storage(name)) {
      return {"torch", std::string(name), Role::kTypedStorage, *dtype};
    }
    if (const auto dtype = dtype_named(name)) {
      return {"torch", std::string(name), Role::kTorchDType, *dtype};
    }
  }
  const std::string full = printable(std::string(module) + "." + std::string(name));
  if (is_unsupported(module, name)) {
    throw Error(ErrorCode::kUnsupported, full + " is data that this reader cannot represent");
  }
  throw Error(ErrorCode::kUnsafe,
              "the pickle asks for " + full +
                  ", which is not on the list of known data; loading it would run its code");
}

Global find_attribute(const Global& owner, std::string_view name) {
  if (owner.role == Role::kDataClass) {
    return find_global(owner.module, owner.name + "." + std::string(name));
  }
  throw Error(ErrorCode::kUnsafe, "the pickle asks for the attribute " + printable(name) + " of " +
                                      owner.module + "." + owner.name);
}

}  // namespace rlreplay::foreign
