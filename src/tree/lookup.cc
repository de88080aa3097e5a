#include "tree/lookup.h"

namespace shardfs::tree {
namespace {

template <class T>
bool said_not_found(const base::Result<T>& answer) {
  return !answer && answer.error().code == base::Code::kNotFound;
}

}  // namespace

Questions::Step Questions::step() const {
  if (below_ && *below_ && **below_) return Step::kDirectory;  // also where HEAD found a file or failed
  if (head_asked_ && !head_) return Step::kWait;
  if (!head_) {  // below alone was asked
    if (!below_) return Step::kWait;
    return *below_ || said_not_found(*below_) ? Step::kAskHead : Step::kFailed;
  }
  if (*head_) return below_asked_ && !below_ ? Step::kWait : Step::kFile;
  if (!below_asked_) return said_not_found(*head_) ? Step::kAskBelow : Step::kFailed;
  if (!below_) return Step::kWait;
  if (!said_not_found(*head_)) return Step::kFailed;
  return *below_ || said_not_found(*below_) ? Step::kAbsent : Step::kFailed;
}

const base::Error& Questions::error() const {
  if (head_ && !*head_ && !said_not_found(*head_)) return head_->error();
  return below_->error();
}

}  // namespace shardfs::tree
