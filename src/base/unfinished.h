#pragma once

#include <functional>

namespace rlreplay {

/// Something that must not outlive the program half made: a temporary folder, a partial file, a
/// group of processes. A signal that ends the program unwinds no stack; what lives then is undone
/// by `undo_unfinished`. The list of them is the process's, as signals are, and owns none of them.
class Unfinished {
 public:
  /// `undo` is called by the thread that ends the program, while the owner may still be at work. It
  /// throws nothing, and makes and ends no object of this class.
  explicit Unfinished(std::function<void()> undo);
  /// Begins it by `begin`: no signal that ends the program falls between that and its listing.
  Unfinished(std::function<void()> undo, const std::function<void()>& begin);
  /// Its owner has undone it.
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  /// Finishes it by `last`: nothing is undone meanwhile, or ever after unless `last` throws.
  void finish(const std::function<void()>& last);

 private:
  friend bool undo_unfinished();
  void leave();  // the list

  std::function<void()> undo_;
  Unfinished* earlier_ = nullptr;  // neighbours in the list
  Unfinished* later_ = nullptr;
  bool listed_ = true;
};

/// Undoes all that is unfinished, the latest first; whether there was anything. The program must
/// end next: a thread that begins, finishes or ends something from now on waits for that.
[[nodiscard]] bool undo_unfinished();

}  // namespace rlreplay
