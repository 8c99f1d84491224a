#pragma once

#include <memory>
#include <string>

#include "src/engine/backend.h"

namespace rlreplay::engine {

/// Counts changes of what the library and a program share: a program refuses another number.
constexpr int kTorchInterface = 2;

/// What librlreplay_torch exports, with C names.
using TorchInterface = int (*)();
using MakeTorchBackend = Backend* (*)(const Runtime* runtime, const BackendConfig* config);
constexpr const char* kTorchInterfaceSymbol = "rlreplay_torch_interface";
using TorchVersion = const char* (*)();
constexpr const char* kTorchVersionSymbol = "rlreplay_torch_version";
constexpr const char* kMakeTorchBackendSymbol = "rlreplay_make_torch_backend";

/// A backend of the library in file `path`, which stays loaded.
/// Errors: kEnvironment where it does not load or was built for another version of the program.
[[nodiscard]] std::unique_ptr<Backend> load_torch_backend(const std::string& path,
                                                          const Runtime& runtime,
                                                          const BackendConfig& config);

/// libtorch's version, once a backend of it was loaded; else empty.
[[nodiscard]] std::string torch_version();

/// Where the library stands: beside the program, or in `lib` beside the program's folder.
/// Errors: kEnvironment where there is none.
[[nodiscard]] std::string find_torch_library();

}  // namespace rlreplay::engine
