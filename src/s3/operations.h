// The three requests: what is sent, and which answers are believed.
// Not their life: operation.h.
// Thread rule: as Operation. Each owns its caller's callback.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "s3/operation.h"

namespace shardfs::s3 {

/// Each sink byte comes from a checked answer: 206 with exactly the range that was asked for (or a 200 that is the
/// whole object), of the expected version. A broken body goes on at the byte after the last that the sink took.
class GetOperation final : public Operation {
 public:
  GetOperation(Core& core, store::GetOptions options, std::shared_ptr<store::BodySink> sink,
               std::function<void(base::Result<void>)> done);

 private:
  base::Result<void> check() const override;
  RequestParts build() override;
  bool accept(const ResponseHead& head) override;
  bool take_body(std::span<const std::byte> bytes) override;
  std::optional<Verdict> conclude(const TransferEnd& end) override;
  bool apply(Remedy remedy) override;
  bool sent_if_match() const override { return sent_if_match_; }
  void adjust(Verdict& verdict, const ResponseHead& head) override;
  void complete() override;
  void fail(base::Error error) override;
  std::string range_text() const override;

  bool refuse(base::Code code, Remedy remedy, std::string detail);
  /// The whole object's size, if the head's status, length and range are what was asked for; else refuse_ is set.
  std::optional<uint64_t> checked_size(const ResponseHead& head);
  /// kNone: the answer is the version that is wanted.
  bool check_version(const store::ObjectInfo& info);

  const base::ByteRange range_;
  std::shared_ptr<store::BodySink> sink_;
  std::function<void(base::Result<void>)> done_;
  std::optional<store::ObjectInfo> version_;  // expected, or that of the first answer
  uint64_t next_;                             // offset of the next byte for the sink
  uint64_t try_begin_ = 0;
  bool started_ = false;  // the sink
  bool without_if_match_ = false;
  bool sent_if_match_ = false;
};

class HeadOperation final : public Operation {
 public:
  HeadOperation(Core& core, store::HeadOptions options, std::function<void(base::Result<store::ObjectInfo>)> done);

 private:
  base::Result<void> check() const override;
  RequestParts build() override;
  bool accept(const ResponseHead& head) override;
  bool take_body(std::span<const std::byte>) override { return true; }
  std::optional<Verdict> conclude(const TransferEnd& end) override;
  void complete() override;
  void fail(base::Error error) override;

  std::function<void(base::Result<store::ObjectInfo>)> done_;
  store::ObjectInfo info_;
};

/// Its continuation is "t:" and the store's token, or "a:" and the key to start after, or, in version 1, "m:" and the
/// marker: some stores give no token, some know version 1 only.
class ListOperation final : public Operation {
 public:
  ListOperation(Core& core, store::ListOptions options, std::function<void(base::Result<store::ListPage>)> done);

 private:
  base::Result<void> check() const override;
  RequestParts build() override;
  bool accept(const ResponseHead& head) override;
  bool take_body(std::span<const std::byte> bytes) override;
  std::optional<Verdict> conclude(const TransferEnd& end) override;
  bool apply(Remedy remedy) override;
  void complete() override;
  void fail(base::Error error) override;

  std::string after() const;

  const store::ListOptions options_;
  std::function<void(base::Result<store::ListPage>)> done_;
  bool version_1_ = false;
  std::string body_;
  store::ListPage page_;
};

}  // namespace shardfs::s3
