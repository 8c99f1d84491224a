#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "src/engine/backend.h"
#include "src/engine/packed.h"

/// What rank 0 tells the other processes to do, and what they answer.
namespace rlreplay::engine {

/// The orders of rank 0: the first value of a message, what is named here behind it.
enum class RankOrder : uint8_t {
  kOpen,      // a model in a layout: RankOpening
  kGive,      // numbers of its part, then the steps taken
  kStep,      // RankStep; answered by a StepResult
  kTake,      // answered by the numbers of its part
  kGenerate,  // RankRollout; answered by samples
  kScore,     // RankScoring; answered by Scores
  kClose,     // the model is not needed any more
  kQuit,      // nothing is
};

/// What a rank tells while it works. After kPart it waits for the elements, which come back from
/// rank 0 as its sink has left them.
enum class RankNote : uint8_t { kProgress, kRows, kWhole, kPart, kRestart };

/// The model and layout of all orders up to kClose; `silence`: how long a rank may be silent.
struct RankOpening {
  ModelConfig model;
  kernels::Rope rope = kernels::Rope::kHf;
  Layout layout;
  int threads = 1;
  std::chrono::milliseconds silence{};
};

/// A rank's own samples, and the events that somebody wants to see of it.
struct RankStep {
  std::vector<Sample> samples;
  std::vector<SampleTargets> targets;
  StepConfig config;
  bool tells_progress = false;
  std::vector<Event> wanted;
  std::vector<Event> wanted_parts;
};

/// A rank's own requests.
struct RankRollout {
  std::vector<Request> requests;
  RolloutConfig config;
  std::vector<Event> wanted;
};

/// A rank's own samples.
struct RankScoring {
  std::vector<Sample> samples;
  float temperature = 1;
  int64_t micro_batch_size = 0;
};

/// `unpack` reads what `pack` of the same program has written, member for member.
/// Errors: kInternal for a message that ends too early.
Packer& pack(Packer& to, const RankOpening& opening);
Packer& pack(Packer& to, const RankStep& step);
Packer& pack(Packer& to, const StepResult& result);
Packer& pack(Packer& to, const Event& event);
Packer& pack(Packer& to, const RankRollout& rollout);
Packer& pack(Packer& to, const RankScoring& scoring);
Packer& pack(Packer& to, const std::vector<Sample>& samples);
Packer& pack(Packer& to, const std::vector<Scores>& scores);
void unpack(Unpacker& from, RankOpening& opening);
void unpack(Unpacker& from, RankStep& step);
void unpack(Unpacker& from, StepResult& result);
void unpack(Unpacker& from, Event& event);
void unpack(Unpacker& from, RankRollout& rollout);
void unpack(Unpacker& from, RankScoring& scoring);
void unpack(Unpacker& from, std::vector<Sample>& samples);
void unpack(Unpacker& from, std::vector<Scores>& scores);

}  // namespace rlreplay::engine
