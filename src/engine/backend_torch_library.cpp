#include "src/engine/backend_torch_library.h"

#include <memory>

#include <dlfcn.h>
#include <unistd.h>

#include "kernels/probe.h"
#include "src/base/error.h"
#include "src/base/own_program.h"

namespace rlreplay::engine {
namespace {

constexpr const char* kFile = "librlreplay_torch.so";

[[noreturn]] void refuse(const std::string& why, const std::string& path) {
  throw Error(ErrorCode::kEnvironment, "the torch backend cannot be used: " + why, path);
}

/// Gives its handle back; libtorch itself cannot be unloaded and stays (RTLD_NODELETE).
struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

template <class Function>
Function symbol(const Library& library, const char* name, const std::string& path) {
  void* const found = dlsym(library.get(), name);
  if (found == nullptr) refuse("the library has no " + std::string(name), path);
  return reinterpret_cast<Function>(found);
}

}  // namespace

std::string find_torch_library() {
  const std::string folder = own_program().parent_path().string() + "/";
  for (const char* place : {"", "../lib/", "../lib64/"}) {
    std::string path = folder + place + kFile;
    if (access(path.c_str(), R_OK) == 0) return path;
  }
  refuse(std::string("there is no ") + kFile +
             " beside the program or in ../lib: it was built without libtorch "
             "(-DRLREPLAY_TORCH=ON builds it); --kernels portable needs none",
         folder);
}

std::unique_ptr<Backend> load_torch_backend(const std::string& path, const Runtime& runtime,
                                            const BackendConfig& config) {
  const Library library(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
  if (library == nullptr) {
    const char* const why = dlerror();
    refuse(why == nullptr ? "the library does not load" : why, path);
  }
  // What it and its libraries ran when they were loaded may have changed how this process rounds.
  kernels::prove_arithmetic(runtime.pool);
  const int interface = symbol<TorchInterface>(library, kTorchInterfaceSymbol, path)();
  if (interface != kTorchInterface) {
    refuse("the library has interface " + std::to_string(interface) + ", this program needs " +
               std::to_string(kTorchInterface) + ": build both from one source",
           path);
  }
  const auto make = symbol<MakeTorchBackend>(library, kMakeTorchBackendSymbol, path);
  return std::unique_ptr<Backend>(make(&runtime, &config));
}

std::string torch_version() {
  const Library library(dlopen(find_torch_library().c_str(), RTLD_NOW | RTLD_NOLOAD));
  if (library == nullptr) return "";
  const auto version = reinterpret_cast<TorchVersion>(dlsym(library.get(), kTorchVersionSymbol));
  return version == nullptr ? "" : version();
}

}  // namespace rlreplay::engine
