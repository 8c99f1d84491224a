#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/base/descriptor.h"
#include "src/base/unfinished.h"

namespace rlreplay {

/// A folder that is built beside its name and takes the name when it is whole: whoever looks sees
/// what was there before, or all of the new one. It is built in PATH.rlreplay-new/, which one
/// process has at a time; what a process left there that was killed is removed by the next, unless
/// it was whole. What nobody wants before it is whole (kRemoved) lies in another folder there until
/// its maker has judged it: a mark in it says nothing before that.
class StagedFolder {
 public:
  enum class Unnamed { kRemoved, kKept };  // what becomes of one that never takes its name

  /// `path` may be a link to the folder that is replaced; the folder above must be there. An empty
  /// folder whose name cannot be taken (a mount point) is built in itself, and left. `mark`: a
  /// leftover with a file of this name is whole, and can be given its name. Errors: kUsage where
  /// another process builds there, a whole one was left that has no `mark` or was not made to
  /// replace what has the name now, or the place beside holds something else; kEnvironment.
  StagedFolder(const std::string& path, Unnamed unnamed, const std::string& mark = {});
  /// Removes what was built unless it has its name or is to be kept.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// Where a leftover with a file of the name `mark` lies beside `path`; empty without one.
  static std::string left_beside(const std::string& path, const std::string& mark);
  /// Whether a whole one was left: it lies in `path()`, and all that it needs is its name.
  [[nodiscard]] bool is_whole() const { return whole_; }

  /// Where to build: an empty folder, or none yet in one that is there.
  const std::string& path() const { return building_; }
  [[nodiscard]] bool in_place() const { return in_place_; }

  /// Gives what was built its name. What had the name, unless it was an empty folder, is removed by
  /// `remove_old`, which throws nothing, from where it lies then: what it leaves stays there. No
  /// signal ends the program between the two.
  /// Errors: kUsage where something else took the name meanwhile; kEnvironment. Then what has the
  /// name keeps it, and the new one is kept.
  void take_name(const std::function<void(const std::string&)>& remove_old);
  /// Where the old one lies of a leftover that has its name already; else empty.
  const std::string& old() const { return old_; }

 private:
  void open();
  void recover(const std::string& mark);
  void recover_whole();
  [[nodiscard]] bool read_notes();
  void note_replaced();
  void note_whole();
  void exchange();
  void put_in_place();
  void undo() noexcept;
  void remove_what_is_built() noexcept;

  std::string final_, staging_, content_, unjudged_, aside_, old_;
  std::string building_;  // `content_`, or `unjudged_`, which becomes it
  std::string replaced_;  // what tells what had the name when the work began
  bool keep_, in_place_ = false, named_ = false, whole_ = false;
  Descriptor lock_;
  std::atomic<bool> recovered_ = false;  // what a run before this one left
  std::optional<Unfinished> unfinished_;
};

}  // namespace rlreplay
