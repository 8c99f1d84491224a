// Computes the probe's digests on the host and on a GPU and compares them: primitive operations, a
// product in the contract's order, exact sums in whatever order the GPU adds them, int64 to float,
// the sampler's random numbers, and a sweep of every function. The first three are held to the
// recorded digests too. One file, no library of ours:
//   nvcc -std=c++20 -O2 -arch=sm_90 --fmad=false -ftz=false -prec-div=true -prec-sqrt=true
//     -Xcompiler -ffp-contract=off -I. kernels/cuda/probe.cu -o probe
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

#include "kernels/philox.h"
#include "kernels/probe.h"
#include "kernels/probe_items.h"
#include "kernels/sweep_input.h"

namespace {

namespace contract = rlreplay::contract;
namespace probe = rlreplay::kernels::probe;
using namespace rlreplay::kernels;
using contract::Scalar;

constexpr int kDifferent = 1;  // and whatever the GPU could not do: nothing was proved
constexpr int kNoDevice = 5;

struct Operations {
  static constexpr uint64_t size() { return probe::kItems; }
  RLREPLAY_INLINE uint64_t operator()(uint64_t i) const {
    return probe::operations(static_cast<uint32_t>(i));
  }
};

struct Product {
  static constexpr uint64_t size() { return probe::kProductRows * probe::kProductColumns; }
  RLREPLAY_INLINE uint64_t operator()(uint64_t i) const {
    const auto row = static_cast<int64_t>(i) / probe::kProductColumns;
    const auto column = static_cast<int64_t>(i) % probe::kProductColumns;
    return mix_pair(static_cast<uint32_t>(i), probe::product(row, column));
  }
};

/// One function over the inputs of a sweep.
template <int function>
struct Sweep {
  uint64_t samples = 0;
  uint64_t size() const { return sweep_size(samples); }
  RLREPLAY_INLINE uint64_t operator()(uint64_t i) const {
    const uint32_t bits = sweep_input(i, samples, 1);
    const float x = probe::float_of(bits);
    const float y = function == 0   ? contract::exp<Scalar>(x)
                    : function == 1 ? contract::log<Scalar>(x)
                    : function == 2 ? contract::expm1<Scalar>(x)
                    : function == 3 ? contract::k3<Scalar>(x)
                    : function == 4 ? contract::sigmoid<Scalar>(x)
                    : function == 5 ? contract::silu<Scalar>(x)
                    : function == 6 ? contract::tanh<Scalar>(x)
                                    : contract::rsqrt<Scalar>(x);
    return mix_pair(bits, y);
  }
};

/// The noise of drawn tokens: random words, and numbers between 0 and 1 from them.
struct Philox {
  static constexpr uint64_t size() { return uint64_t{1} << 20; }
  RLREPLAY_INLINE uint64_t operator()(uint64_t i) const {
    const uint64_t a = mix(2 * i), b = mix(2 * i + 1);
    const Words4 words = philox({{static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                                  static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)}},
                                mix(i ^ a));
    uint64_t sum = 0;
    for (uint32_t w = 0; w < 4; ++w) {
      sum += probe::mix_integer(4 * i + w, words.word[w]);
      sum += mix_pair(static_cast<uint32_t>(4 * i + w), open_unit(words.word[w]));
    }
    return sum;
  }
};

/// int64 to binary32 and binary64 around every power of two: near a tie, and anywhere.
struct Integers {
  static constexpr uint64_t size() { return uint64_t{1} << 20; }
  RLREPLAY_INLINE uint64_t operator()(uint64_t i) const {
    const uint64_t r = mix(i);
    const int width = static_cast<int>(r % 63);
    const int lost = static_cast<int>(r >> 8 & 1) != 0 ? 23 : 52;  // bits behind the first
    uint64_t magnitude = (uint64_t{1} << width) | (mix(r) & ((uint64_t{1} << width) - 1));
    if (width > lost && (r >> 9 & 1) != 0) {  // half a unit in the last place, give or take one
      const uint64_t unit = uint64_t{1} << (width - lost);
      magnitude = magnitude / unit * unit + unit / 2 + (r >> 10) % 3 - 1;
    }
    const auto value = static_cast<int64_t>((r >> 12 & 1) != 0 ? ~magnitude + 1 : magnitude);
    return mix_pair(static_cast<uint32_t>(i), static_cast<float>(value)) +
           probe::mix_double(i, static_cast<double>(value));
  }
};

/// Ends the program when a call of the CUDA runtime failed.
void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "probe: %s: %s\n", what, cudaGetErrorString(status));
  std::exit(kDifferent);
}

template <class Items>
__global__ void sum_items(Items items, uint64_t size, unsigned long long* sum) {
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (uint64_t i = blockIdx.x * static_cast<uint64_t>(blockDim.x) + threadIdx.x; i < size;
       i += step) {
    mine += items(i);
  }
  atomicAdd(sum, mine);  // integers: no order can matter
}

__global__ void add_contributions(unsigned long long* sums) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= probe::kContributions) return;
  atomicAdd(&sums[i % probe::kSums], static_cast<unsigned long long>(probe::contribution(i)));
}

/// Zeroed integers on the device.
class DeviceSums {
 public:
  explicit DeviceSums(size_t count) : count_(count) {
    require(cudaMalloc(&data_, count * sizeof *data_), "memory on the device");
    require(cudaMemset(data_, 0, count * sizeof *data_), "clearing memory on the device");
  }
  ~DeviceSums() { cudaFree(data_); }
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;

  unsigned long long* data() const { return data_; }
  std::vector<unsigned long long> read() const {
    std::vector<unsigned long long> out(count_);
    require(cudaGetLastError(), "starting a kernel");
    require(cudaMemcpy(out.data(), data_, count_ * sizeof *data_, cudaMemcpyDeviceToHost),
            "running a kernel");
    return out;
  }

 private:
  size_t count_;
  unsigned long long* data_ = nullptr;
};

template <class Items>
uint64_t on_device(const Items& items) {
  const DeviceSums sum(1);
  sum_items<<<1024, 256>>>(items, items.size(), sum.data());
  return sum.read()[0];
}

template <class Items>
uint64_t on_host(const Items& items) {
  const uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<uint64_t> sums(threads);
  std::vector<std::thread> workers;
  for (uint64_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      uint64_t mine = 0;
      for (uint64_t i = t; i < items.size(); i += threads) mine += items(i);
      sums[t] = mine;
    });
  }
  uint64_t sum = 0;
  for (uint64_t t = 0; t < threads; ++t) {
    workers[t].join();
    sum += sums[t];
  }
  return sum;
}

template <class Sums>
uint64_t digest_of_sums(const Sums& sums) {
  uint64_t out = 0;
  for (uint32_t i = 0; i < probe::kSums; ++i) out += probe::mix_integer(i, sums[i]);
  return out;
}

uint64_t exact_sums_on_host() {
  std::vector<uint64_t> sums(probe::kSums);
  for (uint32_t i = probe::kContributions; i-- > 0;) {  // another order than the device's
    sums[i % probe::kSums] += static_cast<uint64_t>(probe::contribution(i));
  }
  return digest_of_sums(sums);
}

uint64_t exact_sums_on_device() {
  const DeviceSums sums(probe::kSums);
  add_contributions<<<probe::kContributions / 256, 256>>>(sums.data());
  return digest_of_sums(sums.read());
}

bool report(const char* name, uint64_t host, uint64_t device) {
  std::printf("%-12s host %016llx device %016llx %s\n", name, static_cast<unsigned long long>(host),
              static_cast<unsigned long long>(device), host == device ? "equal" : "DIFFERENT");
  std::fflush(stdout);
  return host == device;
}

/// Host and device wrong together are equal, and no proof.
bool is_recorded(const char* name, uint64_t host, uint64_t recorded) {
  if (host == recorded) return true;
  std::printf("%-12s host %016llx recorded %016llx DIFFERENT\n", name,
              static_cast<unsigned long long>(host), static_cast<unsigned long long>(recorded));
  return false;
}

bool host_as_recorded() {
  bool equal = is_recorded("operations", on_host(Operations{}), kProbeDigests.operations);
  equal &= is_recorded("product", on_host(Product{}), kProbeDigests.product);
  return is_recorded("exact sums", exact_sums_on_host(), kProbeDigests.sums) && equal;
}

template <class Items>
bool compare(const char* name, const Items& items) {
  return report(name, on_host(items), on_device(items));
}

bool compare_functions(uint64_t samples) {
  bool equal = compare("exp", Sweep<0>{samples});
  equal &= compare("log", Sweep<1>{samples});
  equal &= compare("expm1", Sweep<2>{samples});
  equal &= compare("k3", Sweep<3>{samples});
  equal &= compare("sigmoid", Sweep<4>{samples});
  equal &= compare("silu", Sweep<5>{samples});
  equal &= compare("tanh", Sweep<6>{samples});
  return compare("rsqrt", Sweep<7>{samples}) && equal;
}

/// The digests of the host alone.
void print_host(uint64_t samples) {
  const auto line = [](const char* name, uint64_t digest) {
    std::printf("%-12s host %016llx\n", name, static_cast<unsigned long long>(digest));
  };
  line("operations", on_host(Operations{}));
  line("product", on_host(Product{}));
  line("exact sums", exact_sums_on_host());
  line("exp", on_host(Sweep<0>{samples}));
  line("log", on_host(Sweep<1>{samples}));
  line("expm1", on_host(Sweep<2>{samples}));
  line("k3", on_host(Sweep<3>{samples}));
  line("sigmoid", on_host(Sweep<4>{samples}));
  line("silu", on_host(Sweep<5>{samples}));
  line("tanh", on_host(Sweep<6>{samples}));
  line("rsqrt", on_host(Sweep<7>{samples}));
  line("philox", on_host(Philox{}));
  line("integers", on_host(Integers{}));
}

/// Whether a machine without a GPU says so; anything else that fails is no such answer.
bool has_no_device() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) return true;
  require(status, "asking for devices");
  return devices == 0;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t samples = uint64_t{1} << 24;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--full") == 0) {
      samples = 0;
    } else {
      std::fprintf(stderr, "Usage: probe [--full]   (--full sweeps all 2^32 inputs, not 2^24)\n");
      return 2;
    }
  }
  const bool recorded = host_as_recorded();
  if (has_no_device()) {
    print_host(samples);
    std::fprintf(stderr, "probe: no GPU: nothing to compare the host with\n");
    return recorded ? kNoDevice : kDifferent;
  }
  cudaDeviceProp device{};
  require(cudaGetDeviceProperties(&device, 0), "asking for the device");
  std::printf("device: %s, compute capability %d.%d\n", device.name, device.major, device.minor);
  bool equal = compare("operations", Operations{}) && recorded;
  equal &= compare("product", Product{});
  equal &= report("exact sums", exact_sums_on_host(), exact_sums_on_device());
  equal &= compare("philox", Philox{});
  equal &= compare("integers", Integers{});
  equal &= compare_functions(samples);
  return equal ? 0 : kDifferent;
}
