// Lookup: one question to the store about one name, and all who wait for its answer.
// It sends nothing itself; it knows what to ask next and what the answers mean together.
// Thread rule: confined to the tree's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/executor.h"
#include "store/object.h"
#include "tree/fact.h"
#include "tree/tree.h"

namespace shardfs::tree {

/// HEAD of the key, and LIST of one key below it.
class Questions {
 public:
  enum class Step : uint8_t { kWait, kAskHead, kAskBelow, kFile, kDirectory, kAbsent, kFailed };

  /// A name that was a file is asked for by HEAD alone, a directory by LIST alone, anything else by both.
  explicit Questions(Presence last_known)
      : head_asked_(last_known != Presence::kDirectory), below_asked_(last_known != Presence::kFile) {}

  bool head_asked() const { return head_asked_; }
  bool below_asked() const { return below_asked_; }
  void ask_head() { head_asked_ = true; }
  void ask_below() { below_asked_ = true; }
  void answer_head(base::Result<store::ObjectInfo> head) { head_ = std::move(head); }
  void answer_below(base::Result<bool> below) { below_ = std::move(below); }

  Step step() const;
  bool head_found() const { return head_ && head_->has_value(); }
  /// Requires: step() is kFile.
  const store::ObjectInfo& file() const { return **head_; }
  /// Requires: step() is kFailed.
  const base::Error& error() const;

 private:
  bool head_asked_;
  bool below_asked_;
  std::optional<base::Result<store::ObjectInfo>> head_;
  std::optional<base::Result<bool>> below_;
};

struct LookupFlight {
  struct Waiter {
    NodeId node = 0;  // lookup: the parent; getattr: the node itself
    bool getattr = false;
    Tree::NodeDone done;
  };

  LookupFlight(std::string directory_path, std::string in_directory, std::optional<Fact> last)
      : directory(std::move(directory_path)),
        name(std::move(in_directory)),
        last_known(std::move(last)),
        questions(last_known ? last_known->presence : Presence::kUnknown) {}

  const std::string directory;
  const std::string name;
  const std::optional<Fact> last_known;  // present; served when the store does not answer
  std::string path;
  std::string key;  // in full
  base::SteadyTime started_at{};
  uint64_t order = 0;
  Questions questions;
  std::string below_token;  // of the next page, when pages with nothing on them come first
  unsigned below_pages = 0;
  std::vector<Waiter> waiters;
  bool for_lookup = false;  // not only for getattr
  bool settled = false;
  bool detached = false;  // distrusted since it was sent: it answers its waiters, but nothing is learned from it
  bool overdue = false;   // the last known was served in its place
  std::optional<base::TimerId> timer;
};

}  // namespace shardfs::tree
