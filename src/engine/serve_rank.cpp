#include "src/engine/serve_rank.h"

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "src/engine/growing_rotary.h"
#include "src/engine/layout_rank.h"
#include "src/engine/rank_orders.h"
#include "src/engine/remote_events.h"
#include "src/engine/socket_ranks.h"

namespace rlreplay::engine {
namespace {

void answer(RankMesh& mesh, Packer& packer) {
  mesh.send(0, kOrderCall, std::make_shared<std::vector<std::byte>>(packer.take()), 0);
}

/// A model that rank 0 has opened.
class ServedModel {
 public:
  ServedModel(RankMesh& mesh, const kernels::KernelSet& kernels, const RankOpening& opening)
      : mesh_(mesh),
        kernels_(kernels),
        ranks_(mesh, opening.layout),
        rotary_(opening.model, opening.rope),
        rank_(opening.model, opening.layout, ranks_.ranks().place, opening.threads) {}

  void give(Unpacker& from) {
    const auto numbers = rank_.numbers();
    for (const std::span<float> to :
         {numbers.weights, numbers.first_moments, numbers.second_moments}) {
      from.take_into(to);
    }
    rank_.loaded(kernels_, from.take<int64_t>());
  }

  void step(Unpacker& from) {
    RankStep order;
    unpack(from, order);
    if (order.tells_progress) {
      order.config.progress = [this](int64_t finished) { tell_progress(finished); };
    }
    RemoteSink sink(mesh_, order.wanted, order.wanted_parts);
    const StepResult result =
        rank_.step(kernels_, ranks_.ranks(), sink.wants_any() ? &sink : nullptr,
                   rotary_.view_for(positions_of(rank_.config(), order.samples), rank_.pool()),
                   order.samples, order.targets, order.config);
    Packer packer;
    const Ranks& ranks = ranks_.ranks();
    if (tells_result(ranks.layout, ranks.place)) pack(packer, result);
    answer(mesh_, packer);
  }

  void generate(Unpacker& from) {
    RankRollout order;
    unpack(from, order);
    RemoteSink sink(mesh_, order.wanted);
    const Ranks& ranks = ranks_.ranks();
    const auto tell = [this, tells = tells_read(ranks.layout, ranks.place)](int64_t finished) {
      if (tells) tell_progress(finished);
    };
    const std::vector<Sample> samples = rank_.generate(
        kernels_, ranks, sink.wants_any() ? &sink : nullptr,
        rotary_.view_for(positions_of(rank_.config(), order.requests, order.config.max_response),
                         rank_.pool()),
        order.requests, order.config, tell);
    answer_read(samples);
  }

  void score(Unpacker& from) {
    RankScoring order;
    unpack(from, order);
    answer_read(
        rank_.score(kernels_, ranks_.ranks(),
                    rotary_.view_for(positions_of(rank_.config(), order.samples), rank_.pool()),
                    order.samples, order.temperature, order.micro_batch_size));
  }

  void take() {
    const auto numbers = rank_.numbers();
    Packer packer;
    packer.add(std::span<const float>(numbers.weights))
        .add(std::span<const float>(numbers.first_moments))
        .add(std::span<const float>(numbers.second_moments))
        .add(std::span<const int64_t>(numbers.sums));
    answer(mesh_, packer);
  }

 private:
  void tell_progress(int64_t finished) {
    mesh_.note(0, Packer().add(RankNote::kProgress).add(finished).take());
  }

  template <class T>
  void answer_read(const std::vector<T>& read) {
    Packer packer;
    if (tells_read(ranks_.ranks().layout, ranks_.ranks().place)) pack(packer, read);
    answer(mesh_, packer);
  }

  RankMesh& mesh_;
  const kernels::KernelSet& kernels_;
  const SocketRanks ranks_;
  GrowingRotary rotary_;
  LayoutRank rank_;
};

// One order at a time, from rank 0 alone; between ranks the steps talk by calls of their groups.
void serve(RankMesh& mesh, const kernels::KernelSet& kernels) {
  std::optional<ServedModel> model;
  for (;;) {
    const std::vector<std::byte> bytes = mesh.receive(0, kOrderCall, 0);
    Unpacker from(bytes);
    const auto order = from.take<RankOrder>();
    check(model.has_value() || order == RankOrder::kOpen || order == RankOrder::kQuit,
          "a rank has no model yet");
    switch (order) {
      case RankOrder::kOpen: {
        RankOpening opening;
        unpack(from, opening);
        mesh.begin(opening.layout, opening.silence);
        model.emplace(mesh, kernels, opening);
        break;
      }
      case RankOrder::kGive:
        model->give(from);
        break;
      case RankOrder::kStep:
        model->step(from);
        break;
      case RankOrder::kGenerate:
        model->generate(from);
        break;
      case RankOrder::kScore:
        model->score(from);
        break;
      case RankOrder::kTake:
        model->take();
        break;
      case RankOrder::kClose:
        model.reset();
        break;
      case RankOrder::kQuit:
        return;
    }
  }
}

}  // namespace

// The other ranks learn why this one ends: they would wait for it else.
void serve_rank(RankMesh& mesh, const kernels::KernelSet& kernels) {
  try {
    serve(mesh, kernels);
  } catch (const Error& e) {
    mesh.fail(e);
    throw;
  } catch (const std::bad_alloc&) {
    mesh.fail(Error(ErrorCode::kEnvironment, "there is not enough memory"));
    throw;
  } catch (const std::exception& e) {
    mesh.fail(Error(ErrorCode::kInternal, e.what()));
    throw;
  }
}

void dismiss_ranks(RankMesh& mesh) {
  const auto order =
      std::make_shared<std::vector<std::byte>>(Packer().add(RankOrder::kQuit).take());
  for (int i = 1; i < mesh.size(); ++i) mesh.send(i, kOrderCall, order, 0);
}

}  // namespace rlreplay::engine
