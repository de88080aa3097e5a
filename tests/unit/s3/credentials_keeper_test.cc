#include "s3/credentials_keeper.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <future>

#include "home.h"

namespace shardfs::s3 {
namespace {

using base::Code;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::Home;

base::Result<bool> renew(CredentialsKeeper& keeper, std::shared_ptr<const Credentials> seen) {
  std::promise<base::Result<bool>> promise;
  keeper.renew(std::move(seen), [&](base::Result<bool> differ) { promise.set_value(std::move(differ)); });
  return promise.get_future().get();
}

std::string differs(const base::Result<bool>& renewed) {
  return renewed ? (*renewed ? "true" : "false") : "error " + std::string(base::name_of(renewed.error().code));
}

/// Gives what the test says, call by call (the last one for ever), and counts.
class Script {
 public:
  explicit Script(std::deque<CredentialsSource::Loaded> gives) : gives_(std::move(gives)) {}
  CredentialsSource::Loaded next() {
    const std::lock_guard lock(mutex_);
    ++calls_;
    change_.notify_all();
    auto out = gives_.front();
    if (gives_.size() > 1) gives_.pop_front();
    return out;
  }
  void wait_for_calls(int count) {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [&] { return calls_ >= count; });
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<CredentialsSource::Loaded> gives_;
  int calls_ = 0;
};

struct ScriptedSource final : CredentialsSource {
  explicit ScriptedSource(std::shared_ptr<Script> script) : script(std::move(script)) {}
  Loaded load(const StopSignal&) override { return script->next(); }
  std::string name() const override { return "script"; }
  std::shared_ptr<Script> script;
};

CredentialsSource::Loaded keys(const std::string& id, std::optional<base::WallTime> expires = {}) {
  return std::optional(Credentials{id, "s", {}, expires, false, {}});
}

TEST_CASE("the keeper reads the files again, once for all who saw the old keys") {
  Home home;
  base::SystemClock clock;
  const auto write_keys = [&](const std::string& id) {
    home.write("credentials", "[default]\naws_access_key_id = " + id + "\naws_secret_access_key = s\n");
  };
  write_keys("ONE");
  CredentialsKeeper keeper(home.source(), **home.load(), clock);
  CHECK(keeper.signs());
  const auto one = keeper.current();
  CHECK(one->access_key_id == "ONE");
  CHECK(differs(renew(keeper, one)) == "false");  // read again, and the same
  write_keys("TWO");
  CHECK(differs(renew(keeper, keeper.current())) == "true");
  CHECK(keeper.current()->access_key_id == "TWO");
  write_keys("THREE");
  CHECK(differs(renew(keeper, one)) == "true");  // TWO came after ONE was seen: not read again
  CHECK(keeper.current()->access_key_id == "TWO");
  home.write("credentials", "");
  CHECK(renew(keeper, keeper.current()).error().code == Code::kPermission);
  CHECK(keeper.current()->access_key_id == "TWO");
}

TEST_CASE("when keys are renewed") {
  const base::WallTime now{std::chrono::hours(24 * 365)};
  const auto delay = [&](std::optional<base::WallTime> expires, bool in_file = false) {
    const auto out = renewal_delay({"id", "s", {}, expires, in_file, {}}, now);
    return out ? std::chrono::duration_cast<milliseconds>(*out).count() : -1;
  };
  const auto ms = [](auto duration) { return milliseconds(duration).count(); };
  CHECK(delay({}) == -1);
  CHECK(delay({}, true) == ms(seconds(60)));
  CHECK(delay(now + std::chrono::hours(6)) == ms(minutes(350)));
  CHECK(delay(now + minutes(20)) == ms(minutes(15)));
  CHECK(delay(now + minutes(20), true) == ms(seconds(60)));
  CHECK(delay(now + seconds(1)) == ms(seconds(1)));  // never a busy loop
  CHECK(delay(now - seconds(1)) == ms(seconds(30)));
}

TEST_CASE("keys are renewed before they end, though nobody asks") {
  base::SystemClock clock;
  const auto script = std::make_shared<Script>(std::deque{keys("SECOND", clock.wall_now() + std::chrono::hours(1))});
  CredentialsKeeper keeper(std::make_unique<ScriptedSource>(script), **keys("FIRST", clock.wall_now() + seconds(1)),
                           clock);
  script->wait_for_calls(1);
  CHECK(differs(renew(keeper, keeper.current())) != "error");  // behind the load on the keeper's thread
  CHECK(keeper.current()->access_key_id == "SECOND");
}

TEST_CASE("a place that fails is asked again in the background, and the old keys stay") {
  base::SystemClock clock;
  const auto soon = clock.wall_now() + seconds(3);
  const auto script = std::make_shared<Script>(
      std::deque<CredentialsSource::Loaded>{base::fail(Code::kTimeout, "down"), keys("SECOND")});
  CredentialsKeeper keeper(std::make_unique<ScriptedSource>(script), **keys("FIRST", soon), clock);
  script->wait_for_calls(1);
  CHECK(keeper.current()->access_key_id == "FIRST");
  script->wait_for_calls(2);
}

TEST_CASE("requests that are refused together share one failed load") {
  base::SystemClock clock;
  const auto script =
      std::make_shared<Script>(std::deque<CredentialsSource::Loaded>{base::fail(Code::kTimeout, "down")});
  CredentialsKeeper keeper(std::make_unique<ScriptedSource>(script), **keys("FIRST"), clock);
  const auto seen = keeper.current();
  std::promise<base::Result<bool>> first, second;
  keeper.renew(seen, [&](base::Result<bool> differ) { first.set_value(std::move(differ)); });
  keeper.renew(seen, [&](base::Result<bool> differ) { second.set_value(std::move(differ)); });
  CHECK(differs(first.get_future().get()) == "error timeout");
  CHECK(differs(second.get_future().get()) == "error timeout");
  CHECK(script->calls() == 1);
}

TEST_CASE("the end of the keeper ends a load that hangs") {
  Home home;
  base::SystemClock clock;
  home.write("config", fmt::format("[default]\ncredential_process = echo > {}/started; sleep 50\n", home.folder));
  auto keeper = std::make_unique<CredentialsKeeper>(home.source(), **keys("FIRST"), clock);
  keeper->renew(keeper->current(), [](const base::Result<bool>&) {});
  while (!std::filesystem::exists(home.folder + "/started")) std::this_thread::yield();
  const auto before = std::chrono::steady_clock::now();
  keeper.reset();
  CHECK(std::chrono::steady_clock::now() - before < seconds(20));  // well below the program's own 50 s
}

}  // namespace
}  // namespace shardfs::s3
