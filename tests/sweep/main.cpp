#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

#include "src/base/error.h"
#include "tests/sweep/sweep.h"

namespace {

using rlreplay::Error;
using rlreplay::ErrorCode;
using rlreplay::kernels::Function;
using rlreplay::kernels::kFunctions;
using rlreplay::sweep::Options;
using rlreplay::sweep::Result;

constexpr const char* kUsage =
    "Usage: sweep [options]\n"
    "Run the contract's functions over all 2^32 inputs: one digest for every way to compute them,\n"
    "and the largest error against binary64.\n"
    "  --function NAME   exp, log, expm1, k3, sigmoid, silu, tanh or rsqrt; all by default\n"
    "  --sample N        one input of each of N strata (a power of two) instead of all\n"
    "  --seed N          of the sample (1)\n"
    "  --threads N       (all processors)\n"
    "  --digests         no errors, digests only\n"
    "  --json            a line of JSON a function\n"
    "Exit code: 0, 1 when two ways to compute a function differ, 2 for wrong usage.\n";

struct Arguments {
  Options options;
  std::optional<Function> function;
  bool json = false;
  bool help = false;
};

uint64_t number(std::string_view flag, const char* text) {
  uint64_t value = 0;
  const char* end = text == nullptr ? nullptr : text + std::strlen(text);
  const auto [stop, status] = std::from_chars(text, end, value);
  if (text == nullptr || status != std::errc() || stop != end) {
    throw Error(ErrorCode::kUsage, std::string(flag) + " needs a whole number");
  }
  return value;
}

Function function_named(std::string_view name) {
  for (const Function f : kFunctions) {
    if (to_string(f) == name) return f;
  }
  throw Error(ErrorCode::kUsage, "no function is called '" + std::string(name) + "'; see --help");
}

Arguments parse(int argc, char** argv) {
  Arguments out;
  out.options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const auto value = [&] { return ++i < argc ? argv[i] : nullptr; };
    if (flag == "--help" || flag == "-h") {
      out.help = true;
    } else if (flag == "--json") {
      out.json = true;
    } else if (flag == "--digests") {
      out.options.measure = false;
    } else if (flag == "--seed") {
      out.options.seed = number(flag, value());
    } else if (flag == "--sample") {
      out.options.samples = number(flag, value());
      if (!std::has_single_bit(out.options.samples) || out.options.samples >> 32 != 0) {
        throw Error(ErrorCode::kUsage, "--sample needs a power of two below 2^32");
      }
    } else if (flag == "--threads") {
      out.options.threads = static_cast<int>(number(flag, value()));
      if (out.options.threads < 1 || out.options.threads > 4096) {
        throw Error(ErrorCode::kUsage, "--threads must be from 1 to 4096");
      }
    } else if (flag == "--function") {
      const char* name = value();
      out.function = function_named(name == nullptr ? "" : name);
    } else {
      throw Error(ErrorCode::kUsage, "unknown option '" + std::string(flag) + "'; see --help");
    }
  }
  return out;
}

void print_json(const Result& r, double seconds) {
  std::printf("{\"function\": \"%s\", \"inputs\": %llu, \"digests\": {",
              std::string(to_string(r.function)).c_str(),
              static_cast<unsigned long long>(r.inputs));
  for (size_t i = 0; i < r.digests.size(); ++i) {
    std::printf("%s\"%s\": \"%016llx\"", i == 0 ? "" : ", ", r.digests[i].set.data(),
                static_cast<unsigned long long>(r.digests[i].digest));
  }
  std::printf("}, \"equal\": %s, \"max_error_ulp\": ", r.equal() ? "true" : "false");
  if (r.wrong_special == 0) std::printf("%.4f", r.max_error);
  if (r.wrong_special != 0) std::printf("null");
  std::printf(
      ", \"at\": \"%a\", \"not_nearest\": %llu, \"wrong_special\": %llu, \"seconds\": %.1f}\n",
      static_cast<double>(r.worst), static_cast<unsigned long long>(r.not_nearest),
      static_cast<unsigned long long>(r.wrong_special), seconds);
  std::fflush(stdout);
}

void print_text(const Result& r, bool measured, double seconds) {
  std::printf("%-8s %016llx", std::string(to_string(r.function)).c_str(),
              static_cast<unsigned long long>(r.digests[0].digest));
  if (measured) {
    std::printf("  %8.4f ulp at %-16a got %-16a nearest %-16a %6.2f %% not nearest", r.max_error,
                static_cast<double>(r.worst), static_cast<double>(r.got),
                static_cast<double>(r.want),
                100 * static_cast<double>(r.not_nearest) / static_cast<double>(r.inputs));
  }
  std::printf("  %.1f s\n", seconds);
  for (const auto& d : r.digests) {
    if (d.digest != r.digests[0].digest) {
      std::printf("  DIFFERS on %s: %016llx\n", d.set.data(),
                  static_cast<unsigned long long>(d.digest));
    }
  }
  std::fflush(stdout);
}

std::function<void(double)> progress_of(Function function) {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [function, last = -1](double done) mutable {
    const int percent = static_cast<int>(100 * done);
    if (percent == last) return;
    last = percent;
    std::fprintf(stderr, "\r%-8s %3d %%", std::string(to_string(function)).c_str(), percent);
    if (percent == 100) std::fprintf(stderr, "\r             \r");
  };
}

int run(const Arguments& arguments) {
  bool equal = true;
  if (!arguments.json) {
    std::string sets = "scalar";
    for (const auto& set : rlreplay::kernels::simd_functions()) sets.append(" ").append(set.name);
    std::printf("sets: %s; inputs: ", sets.c_str());
    if (arguments.options.samples == 0) {
      std::printf("all\n");
    } else {
      std::printf("%llu, seed %llu\n", static_cast<unsigned long long>(arguments.options.samples),
                  static_cast<unsigned long long>(arguments.options.seed));
    }
  }
  for (const Function function : kFunctions) {
    if (arguments.function && *arguments.function != function) continue;
    Options options = arguments.options;
    options.progress = progress_of(function);
    const auto begin = std::chrono::steady_clock::now();
    const Result result = rlreplay::sweep::run(function, options);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (arguments.json) print_json(result, elapsed.count());
    if (!arguments.json) print_text(result, options.measure, elapsed.count());
    equal = equal && result.equal();
  }
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    if (arguments.help) return std::fputs(kUsage, stdout), 0;
    return run(arguments);
  } catch (const Error& error) {
    std::fprintf(stderr, "sweep: %s\n", error.what());
    return rlreplay::exit_code(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sweep: %s\n", error.what());
    return rlreplay::exit_code(ErrorCode::kInternal);
  }
}
