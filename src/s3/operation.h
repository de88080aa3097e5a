// Operation: one request of the caller, through waiting, tries, remedies and retries, to exactly one end.
// Not the answer's meaning: the subclasses (operations.h) build the request and judge what comes.
// Thread rule: launch, cancel and raise_to are thread-safe; all else is confined to its lane's loop. It keeps itself
// alive from launch to end; the store outlives it until then.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "s3/core.h"
#include "s3/retry.h"
#include "store/object_store.h"

namespace shardfs::s3 {

class Operation : public store::Request,
                  public Admission::Waiter,
                  private TransferHandler,
                  private LoopTimer,
                  public std::enable_shared_from_this<Operation> {
 public:
  Operation(Core& core, RequestKind kind, store::ObjectKey key, store::Priority priority,
            std::chrono::milliseconds deadline);

  /// Once, right after it was made.
  void launch();
  void cancel() override;
  void raise_to(store::Priority priority) override;
  /// On the loop: ends with kCancelled at once.
  void abandon();

 protected:
  /// Nothing, or why the request makes no sense.
  virtual base::Result<void> check() const = 0;
  virtual RequestParts build() = 0;
  /// The head of an answer. True: its body goes to take_body. False: it is an error answer, its body is collected and
  /// judged by its status. refuse_ may be set instead: the answer is dropped.
  virtual bool accept(const ResponseHead& head) = 0;
  /// False: stop; refuse_ says why.
  virtual bool take_body(std::span<const std::byte> bytes) = 0;
  /// The accepted answer has ended, complete or not. Nothing: success, complete() comes next.
  virtual std::optional<Verdict> conclude(const TransferEnd& end) = 0;
  /// Remedies that are the subclass's own; true: try again at once.
  virtual bool apply(Remedy) { return false; }
  virtual bool sent_if_match() const { return false; }
  /// A last word on the verdict on an error answer, before it is acted on.
  virtual void adjust(Verdict&, const ResponseHead&) {}
  virtual void complete() = 0;
  virtual void fail(base::Error error) = 0;
  /// "[0,8388608)" of a get, for messages.
  virtual std::string range_text() const { return {}; }

  Core& core() { return core_; }
  const Core& core() const { return core_; }
  RequestKind kind() const { return kind_; }
  const store::ObjectKey& key() const { return key_; }
  /// Progress: the next retry is the first one again.
  void reset_backoff() { backoff_.reset(); }

  std::optional<Verdict> refuse_;

 private:
  enum class State { kNew, kQueued, kSending, kReceivingHead, kReceivingBody, kWaiting, kRenewing, kEnded };

  void begin();
  void ask_for_slot(bool first);
  void on_slot_granted() noexcept override;
  void take_slot();
  void start_try();
  void release_slot();
  void act_on_failed_renewal(Verdict verdict, const base::Error& error);
  void renew_credentials(bool only_if_differ, Verdict verdict);

  void on_sending() noexcept override;
  bool on_head(const ResponseHead& head) noexcept override;
  bool on_body(std::span<const std::byte> bytes) noexcept override;
  void on_transfer_end(TransferEnd end) noexcept override;
  bool is_urgent() const noexcept override { return priority_.load() == store::Priority::kDemand; }
  void on_timer() noexcept override;

  Verdict judge(const TransferEnd& end);
  Verdict judge_broken(const TransferEnd& end) const;
  void act_on(Verdict verdict);
  /// one_too_many: it was refused while others were answered.
  void wait_and_retry(const Verdict& verdict, bool one_too_many = false);
  void end(std::optional<base::Error> error);
  void end_with(const Verdict& verdict);
  void arm();
  base::SteadyTime try_due() const;
  std::string describe() const;

  Core& core_;
  Lane& lane_;
  const RequestKind kind_;
  const store::ObjectKey key_;
  const base::SteadyTime deadline_;
  std::atomic<store::Priority> priority_;
  std::atomic<bool> cancelled_{false};

  // The loop's thread only:
  std::shared_ptr<Operation> self_;  // until the end
  State state_ = State::kNew;
  bool has_slot_ = false;
  Transfer* transfer_ = nullptr;
  std::shared_ptr<const Credentials> credentials_;  // of this try
  base::SteadyTime try_started_{};
  base::SteadyTime progress_{};   // last step or byte of this try
  base::SteadyTime resume_at_{};  // end of kWaiting
  ResponseHead head_;             // of an answer that was not accepted
  bool accepted_ = false;
  bool answered_ = false;  // this try got a head that is no refusal
  uint64_t try_body_bytes_ = 0;
  std::string error_body_;
  Backoff backoff_;
  unsigned tries_ = 0;
  unsigned refetches_ = 0;
  std::set<Remedy> used_;                // those that are tried once
  std::optional<Verdict> last_failure_;  // that a retry followed
};

}  // namespace shardfs::s3
