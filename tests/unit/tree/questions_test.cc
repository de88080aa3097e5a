#include <doctest/doctest.h>

#include "tree/lookup.h"

using namespace shardfs;
using namespace shardfs::tree;
using Step = Questions::Step;

namespace {

tl::unexpected<base::Error> error(base::Code code) { return base::fail(code, "x"); }
const store::ObjectInfo kInfo{"k", 3, "\"e\""};

Step both(base::Result<store::ObjectInfo> head, base::Result<bool> below) {
  Questions questions(Presence::kUnknown);
  CHECK(questions.step() == Step::kWait);
  Questions other = questions;
  questions.answer_head(head);
  questions.answer_below(below);
  other.answer_below(below);
  other.answer_head(head);
  CHECK(other.step() == questions.step());
  return questions.step();
}

}  // namespace

TEST_CASE("HEAD and LIST side by side") {
  const auto absent = error(base::Code::kNotFound);
  const auto denied = error(base::Code::kPermission);
  const auto broken = error(base::Code::kTransient);
  CHECK(both(kInfo, false) == Step::kFile);
  CHECK(both(kInfo, true) == Step::kDirectory);
  CHECK(both(absent, true) == Step::kDirectory);
  CHECK(both(absent, false) == Step::kAbsent);
  CHECK(both(denied, true) == Step::kDirectory);
  CHECK(both(denied, false) == Step::kFailed);
  CHECK(both(broken, true) == Step::kDirectory);
  CHECK(both(broken, false) == Step::kFailed);
  CHECK(both(absent, broken) == Step::kFailed);  // never "no such file" out of an error
  CHECK(both(kInfo, denied) == Step::kFile);     // keys that may be read but not listed
  CHECK(both(absent, absent) == Step::kAbsent);
}

TEST_CASE("the error that says most") {
  Questions questions(Presence::kUnknown);
  questions.answer_head(error(base::Code::kPermission));
  questions.answer_below(error(base::Code::kTransient));
  CHECK(questions.error().code == base::Code::kPermission);
  Questions other(Presence::kUnknown);
  other.answer_head(error(base::Code::kNotFound));
  other.answer_below(error(base::Code::kTransient));
  CHECK(other.error().code == base::Code::kTransient);
}

TEST_CASE("something below is enough for a directory") {
  Questions questions(Presence::kUnknown);
  questions.answer_below(true);
  CHECK(questions.step() == Step::kDirectory);
  Questions other(Presence::kUnknown);
  other.answer_head(kInfo);
  CHECK(other.step() == Step::kWait);
}

TEST_CASE("a known file is asked for by HEAD, and by LIST only when it is gone") {
  Questions questions(Presence::kFile);
  CHECK(questions.head_asked());
  CHECK_FALSE(questions.below_asked());
  Questions gone = questions;
  questions.answer_head(kInfo);
  CHECK(questions.step() == Step::kFile);
  gone.answer_head(error(base::Code::kNotFound));
  CHECK(gone.step() == Step::kAskBelow);
  gone.ask_below();
  CHECK(gone.step() == Step::kWait);
  gone.answer_below(false);
  CHECK(gone.step() == Step::kAbsent);
}

TEST_CASE("a known directory is asked for by LIST, and by HEAD only when it is gone") {
  Questions questions(Presence::kDirectory);
  CHECK_FALSE(questions.head_asked());
  Questions gone = questions;
  questions.answer_below(true);
  CHECK(questions.step() == Step::kDirectory);
  gone.answer_below(false);
  CHECK(gone.step() == Step::kAskHead);
  gone.ask_head();
  gone.answer_head(kInfo);
  CHECK(gone.step() == Step::kFile);
  Questions broken(Presence::kDirectory);
  broken.answer_below(error(base::Code::kTransient));
  CHECK(broken.step() == Step::kFailed);
}
