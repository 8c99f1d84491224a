#include "src/replay/doctor/doctor_rules.h"

#include <algorithm>
#include <string>

#include "src/base/error.h"
#include "src/base/printable.h"
#include "src/base/words.h"

namespace rlreplay::replay {
namespace {

constexpr DoctorRule kRules[] = {
    {"RD801", Severity::kError, "are all files of the weights there and whole?",
     "every number of -NNNNN-of-NNNNN once, every file as long as its header says",
     "slime's debugging guide, quantised checkpoints", "convert or download the checkpoint again",
     "Shards are named by number and total. One that is missing, cut off or of another conversion "
     "leaves tensors out, and some loaders go on without them: the model then speaks nonsense from "
     "the first rollout on. Looked at: the numbers, and of each file header, offsets and size."},
    {"RD802", Severity::kError, "does the index say where every tensor lies?",
     "each tensor in one file, the one that model.safetensors.index.json names",
     "slime's debugging guide, quantised checkpoints",
     "write the index again from the files, and leave no other model.safetensors beside it",
     "Loaders that follow the index and loaders that read all files then get different models. A "
     "tensor in two files has the value of whichever is read last; model.safetensors beside an "
     "index of shards is read by some and passed over by others."},
    {"RD803", Severity::kError, "has every layer, and every expert, all of its tensors?",
     "layers 0 to L-1, experts 0 to E-1, each with the tensors of its kind",
     "slime's debugging guide, quantised checkpoints",
     "look at the conversion's map of names and, with pipeline stages, at its layer offset",
     "Where the model is known (llama, qwen2, qwen3) the tensors are those of config.json; else "
     "layers of one kind are held against each other: one that lacks what most of its kind have is "
     "incomplete. Numbers that begin again in each pipeline stage leave the last layers out."},
    {"RD811", Severity::kError, "have tensors the shapes that their kind has?",
     "the shape of config.json, or that of the other layers", "derived",
     "look for a product that is stored transposed, or for a part of a tensor-parallel rank",
     "A shape with its two sizes exchanged is a transposed product; half of one size is what one "
     "of two tensor-parallel ranks holds."},
    {"RD604", Severity::kError, "do vocabulary, embedding, head and tokenizer fit each other?",
     "as many rows as vocab_size, and more than the highest id of the tokenizer",
     "KempnerForge's regression guide",
     "cut the padding off, or set vocab_size of config.json to the rows",
     "Trainers pad the embedding to a multiple of 64 or 128 times the tensor-parallel ranks. An "
     "export that keeps the padding and not its size does not load, or shifts what is cut."},
    {"RD807", Severity::kError, "are all numbers finite?", "no NaN, no infinity", "derived",
     "go back to the last checkpoint before the first gradient norm that is not finite",
     "A step with a finite loss and a NaN gradient norm writes NaN into every weight that it "
     "clips. A conversion from bfloat16 to float16 makes infinities of what is above 65504."},
    {"RD805", Severity::kError, "does a matrix hold one value alone?",
     "more than one value in a tensor of two or more dimensions",
     "slime's debugging guide, quantised checkpoints",
     "a router: add re:.*mlp\\.gate\\..* to the ignore list of the quantiser; else the tensor was "
     "never loaded: look at the map of names",
     "A tensor that no loader filled keeps zeros. A router of zeros sends all tokens to the same "
     "experts. Matrices of LoRA that begin with zeros (lora_B), scales and zero points are left "
     "out; experts that lie in one tensor are looked at one by one."},
    {"RD804", Severity::kError, "is the output head there, and tied where config.json says so?",
     "tied: no lm_head.weight or the embedding's bytes; else one of its own", "derived",
     "save the head, or set tie_word_embeddings to what the trainer did",
     "With tie_word_embeddings some engines never read a stored head, others do. Where the two "
     "differ, trainer and engine compute other logits from the same file."},
    {"RD808", Severity::kWarning, "has each kind of tensor one element type?",
     "one element type in all layers, and most elements of the type of config.json", "derived",
     "convert again with one element type, or correct dtype in config.json",
     "A layer that was saved in another type than its neighbours comes from another run, or from "
     "a conversion that was interrupted. Another type than config.json's is cast by loaders: a "
     "note, since the cast is what was trained with or not."},
    {"RD809", Severity::kError, "are the weights those of the reference?",
     "each tensor of --ref, by its name on the hub, with the same bits or their rounding",
     "the debugging guides of slime, Miles and axolotl", "see what kind of difference it is",
     "A checkpoint and what it was made from, or trainer and engine after a sync. Names of the "
     "hub, "
     "of Megatron and fused products of vLLM and SGLang are brought together first. What differs "
     "is told by its kind, since each has a cause of its own: heads or rows in another order, gate "
     "and up exchanged, a transposed product, layers counted anew in each pipeline stage, weights "
     "of "
     "an earlier step, padding, a cast, or other numbers."},
};

}  // namespace

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "?";
}

std::span<const DoctorRule> doctor_rules() { return kRules; }

const DoctorRule& find_doctor_rule(std::string_view id) {
  const auto* found = std::ranges::find(kRules, id, &DoctorRule::id);
  if (found != std::ranges::end(kRules)) return *found;
  std::string known;
  for (const DoctorRule& rule : kRules) known += (known.empty() ? "" : ", ") + std::string(rule.id);
  throw Error(ErrorCode::kUsage, "there is no rule " + printable(id) + "; there are " + known);
}

}  // namespace rlreplay::replay
